//===- Cases.cpp - Recorded runs of the differential test -----------------===//
#include "Cases.h"

#include "Measure.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>

using namespace kvc;
using namespace kvc::device;
using differential::Errors;
using differential::Freedom;

namespace {

/// The arrays of a record.
class Data {
public:
  explicit Data(std::string bytes) : bytes(std::move(bytes)) {}

  template <typename T> std::span<const T> at(int64_t offset, size_t count) const {
    if (offset < 0 || offset % 8 != 0 || size_t(offset) > bytes.size() ||
        count > (bytes.size() - size_t(offset)) / sizeof(T)) {
      throw Failure(
          fmt::format("expects {} numbers at offset {} of the record's data of {} bytes", count, offset, bytes.size()));
    }
    return {reinterpret_cast<const T *>(bytes.data() + offset), count};
  }

private:
  std::string bytes;
};

size_t sizeOf(const std::vector<int64_t> &dims) {
  size_t size = 1;
  for (int64_t dim : dims) {
    size *= size_t(dim);
  }
  return size;
}

/// Bytes that kernels must not let through, as in the differential test.
std::vector<uint8_t> garbage(const std::string &kind, uint64_t bytes, uint64_t seed) {
  static constexpr uint8_t nan[] = {0xff, 0xff, 0xff, 0xff}, inf32[] = {0x00, 0x00, 0x80, 0x7f},
                           inf16[] = {0x00, 0x7c, 0x00, 0xfc};
  const uint8_t *pattern = kind == "nan" ? nan : kind == "inf32" ? inf32 : kind == "inf16" ? inf16 : nullptr;
  std::mt19937_64 random(seed);
  std::vector<uint8_t> data(bytes);
  for (uint64_t i = 0; i < bytes; ++i) {
    data[i] = pattern ? pattern[i % 4] : uint8_t(random());
  }
  return data;
}

/// A record whose kernel does not compile for one of the targets, on a device that can run none of the others.
class Unsuited : public Failure {
public:
  using Failure::Failure;
};

/// One record on a device.
class Case {
public:
  Case(const runtime::Device &device, const std::string &path)
      : record(Json::parse(readFile(path + ".json"))), data(readFile(path + ".bin")), device(device),
        module(load(path + ".kvca")) {
    kvc_port_t port;
    const std::string function = record.at("cache_of");
    runtime::check(kvc_module_argument(module.get(), module.function(function.c_str()), 0, &port));
    for (const char *name : {"cache", "prefix"}) {
      caches.emplace(name, createCache(port.cache_spec));
    }
  }

  /// Empty when all results are right.
  std::string run() {
    size_t number = 0;
    for (const Json &call : record.at("calls")) {
      ++number;
      if (std::string failure = runCall(call); !failure.empty()) {
        return fmt::format("call {} @{} {}", number, call.at("function").get<std::string>(), failure);
      }
    }
    return "";
  }

  std::string name() const { return record.at("name"); }
  std::string target() const { return kvc_module_target(module.get()); }

private:
  runtime::Module load(const std::string &path) const {
    try {
      return runtime::Module::load(device, path);
    } catch (const runtime::Error &error) {
      if (error.status() == KVC_UNSUPPORTED && !record.at("refused").empty()) {
        throw Unsuited(error.what());
      }
      throw;
    }
  }

  runtime::Cache createCache(size_t spec) {
    runtime::Cache cache = module.cache(spec, {0, record.at("sequences"), record.at("capacity"), 0, 0});
    kvc_cache_spec_t layout;
    runtime::check(kvc_module_cache_spec(module.get(), spec, &layout));
    const kvc_cache_statistics_t statistics = cache.statistics();
    for (auto [part, bytes] : {std::pair{KVC_PAGES, uint64_t(statistics.pages_capacity) * layout.page_bytes},
                               {KVC_TAILS, uint64_t(statistics.tails_capacity) * layout.tail_bytes}}) {
      const std::vector<uint8_t> bits = garbage(record.at("garbage"), bytes, record.at("seed"));
      if (bytes) {
        runtime::check(kvc_cache_write(cache.get(), part, 0, bits.data(), bytes));
      }
    }
    return cache;
  }

  std::string runCall(const Json &call) {
    runtime::BatchHandle batch = device.batch(call.at("sequences"), call.at("rows"), call.at("positions"));
    std::vector<runtime::Argument> arguments;
    // Shapes that the arguments point to.
    std::vector<std::vector<int64_t>> shapes(call.at("arguments").size());
    for (const Json &argument : call.at("arguments")) {
      std::vector<int64_t> &dims = shapes[arguments.size()];
      if (argument.is_string() && argument == "batch") {
        arguments.push_back(runtime::Argument::batch(batch.get()));
      } else if (argument.is_string()) {
        arguments.push_back(runtime::Argument::cache(caches.at(argument.get<std::string>()).get()));
      } else if (argument.contains("real")) {
        arguments.push_back(runtime::Argument::real(argument.at("real")));
      } else if (argument.contains("integer")) {
        arguments.push_back(runtime::Argument::integer(argument.at("integer")));
      } else {
        dims = argument.at("dims").get<std::vector<int64_t>>();
        arguments.push_back(tensor(argument, dims));
      }
    }
    const std::string function = call.at("function");
    std::vector<runtime::Value> values = module.call(function.c_str(), arguments);
    size_t number = 0;
    for (const Json &result : call.at("results")) {
      const runtime::Value &value = values.at(number++);
      if (result.is_string()) {
        caches.insert_or_assign(result.get<std::string>(), runtime::Cache(value.cache()));
      } else if (std::string failure = compare(result, value.tensor()); !failure.empty()) {
        return fmt::format("result {}: {}", result.at("name").get<std::string>(), failure);
      }
    }
    return "";
  }

  runtime::Argument tensor(const Json &argument, const std::vector<int64_t> &dims) const {
    const std::string dtype = argument.at("dtype");
    const int64_t offset = argument.at("offset");
    const size_t size = sizeOf(dims);
    if (dtype == "f32") {
      return runtime::Argument::tensor(data.at<float>(offset, size).data(), dims);
    }
    return dtype == "i8" ? runtime::Argument::tensor(data.at<int8_t>(offset, size).data(), dims)
                         : runtime::Argument::tensor(data.at<int32_t>(offset, size).data(), dims);
  }

  std::vector<double> wanted(const Json &result, size_t count) const {
    if (result.at("dtype") == "f32") {
      const std::span<const float> values = data.at<float>(result.at("offset"), count);
      return {values.begin(), values.end()};
    }
    const std::span<const double> values = data.at<double>(result.at("offset"), count);
    return {values.begin(), values.end()};
  }

  std::string compare(const Json &result, const kvc_tensor_t &got) const {
    const std::vector<int64_t> dims = result.at("dims"), gotDims(got.dims, got.dims + got.rank);
    if (dims != gotDims || got.dtype != KVC_F32) {
      return fmt::format("expects f32 of shape {}, but got {} of {}", Json(dims).dump(), kvc_dtype_name(got.dtype),
                         Json(gotDims).dump());
    }
    const std::vector<double> want = wanted(result, sizeOf(dims));
    const std::span<const float> values(static_cast<const float *>(got.data), want.size());
    std::span<const Freedom> freedoms;
    if (result.contains("freedoms")) {
      freedoms = data.at<Freedom>(result.at("freedoms"), want.size());
    }
    const Errors bound{result.at("peak"), result.at("rms")};
    const differential::Measurement measured =
        differential::measure(want, values, bound, result.at("count"), /*growth=*/1, freedoms);
    if (measured.unlike >= 0) {
      const size_t at = size_t(measured.unlike);
      return fmt::format("expects {:.8e} at element {}, but got {:.8e}", want[at], at, values[at]);
    }
    if (measured.isWithin(bound)) {
      return "";
    }
    const size_t at = size_t(measured.worst);
    return fmt::format("expects errors of at most {:.2e} peak, {:.2e} rms, but got {:.2e}, {:.2e}: at element {} "
                       "expects {:.8e}, but got {:.8e}",
                       bound.peak, measured.rmsBound, measured.errors.peak, measured.errors.rms, at, want[at],
                       values[at]);
  }

  const Json record;
  const Data data;
  const runtime::Device &device;
  runtime::Module module;
  std::map<std::string, runtime::Cache> caches;
};

} // namespace

Json device::runCases(const std::string &deviceName, const std::string &folder, const std::vector<std::string> &only,
                      double seconds) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::string> paths;
  for (const auto &entry : std::filesystem::directory_iterator(folder)) {
    const std::string stem = entry.path().stem();
    if (entry.path().extension() == ".json" &&
        (only.empty() || std::find(only.begin(), only.end(), stem) != only.end())) {
      paths.push_back(entry.path().parent_path() / stem);
    }
  }
  std::sort(paths.begin(), paths.end());
  if (paths.empty() || (!only.empty() && paths.size() != only.size())) {
    throw Failure(fmt::format("expects {} recorded cases in '{}', but got {}",
                              only.empty() ? "at least one of the" : std::to_string(only.size()), folder,
                              paths.size()));
  }
  const runtime::Device device(deviceName.c_str());
  int64_t passed = 0;
  size_t leftOut = 0;
  Json failures = Json::array(), unsuited = Json::array(), targets = Json::object();
  for (size_t i = 0; i < paths.size(); ++i) {
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > seconds) {
      leftOut = paths.size() - i;
      break;
    }
    std::string name = paths[i], failure;
    try {
      Case record(device, paths[i]);
      name = record.name();
      targets[record.target()] = targets.value(record.target(), 0) + 1;
      failure = record.run();
    } catch (const Unsuited &) {
      unsuited.push_back(std::filesystem::path(paths[i]).filename());
      continue;
    } catch (const runtime::Error &error) {
      failure = std::string("the runtime says: ") + error.what();
    } catch (const std::exception &error) {
      failure = error.what();
    }
    if (failure.empty()) {
      ++passed;
    } else {
      fmt::print("FAIL {} ({})\n     {}\n", name, std::filesystem::path(paths[i]).filename().string(), failure);
      failures.push_back({{"file", std::filesystem::path(paths[i]).filename()}, {"case", name}, {"message", failure}});
    }
  }
  fmt::print("{} passed, {} failed, {} left out, {} not for this device\n", passed, failures.size(), leftOut,
             unsuited.size());
  return {{"passed", passed},   {"failed", failures.size()}, {"left_out", leftOut}, {"not_for_this_device", unsuited},
          {"targets", targets}, {"failures", failures}};
}
