//===- Benchmark.cpp - Speed of attention on a GPU ------------------------===//
//
// Seconds are those of the device's clock, summed over the kernels of a call: what a call costs beside them (copies of
// queries and results, launches) is in "call_seconds".
//
//===----------------------------------------------------------------------===//
#include "Benchmark.h"

#include "Ceilings.h"
#include "Steps.h"

#include <chrono>
#include <cmath>

using namespace kvc;
using namespace kvc::device;

namespace {

constexpr int64_t heads = 8, queryHeads = 32, channels = 128;

struct Workload {
  const char *name, *format;
  int64_t page;
  double bits; // of a stored element, with its scales
  bool isDecode;
};

// Channel groups of KIVI are pages of 32 slots.
constexpr Workload workloads[] = {
    {"decode-f16", "k = f16, v = f16", 16, 16, true},
    {"decode-int8", "k = int8, v = int8", 16, 9, true},
    {"decode-kivi-int4", "k = int4<axis = channel>, v = int4, residual = 128", 32, 5, true},
    {"decode-kivi-int2", "k = int2<axis = channel>, v = int2, residual = 128", 32, 3, true},
    {"prefill-f16", "k = f16, v = f16", 16, 16, false},
};

void fillRandom(std::vector<float> &values) {
  uint32_t state = 1;
  for (float &value : values) {
    state = state * 1664525u + 1013904223u;
    value = float(int32_t(state)) * 0x1p-31f;
  }
}

/// A module with @fill (append) and @attend (attention), and its cache, full.
class Bench {
public:
  Bench(const runtime::Device &device, const std::string &path, int32_t sequences, int64_t slots)
      : device(device), module(runtime::Module::load(device, path)), sequences(sequences), slots(slots),
        cache(module.cache(0, {0, sequences, slots, 0, 0})) {
    constexpr int32_t chunk = 512;
    std::vector<float> rows(size_t(sequences) * chunk * heads * channels);
    fillRandom(rows);
    for (int64_t first = 0; first < slots; first += chunk) {
      const auto count = int32_t(std::min<int64_t>(chunk, slots - first));
      runtime::BatchHandle batch = batchOf(count, first);
      const std::vector<int64_t> dims{int64_t(sequences) * count, heads, channels};
      module.call("fill", {runtime::Argument::cache(cache.get()), runtime::Argument::batch(batch.get()),
                           runtime::Argument::tensor(rows.data(), dims), runtime::Argument::tensor(rows.data(), dims)});
    }
  }

  /// Attention of the last `rows` rows of each sequence; the first call warms up.
  void attend(int32_t rows, int repetitions) {
    std::vector<float> query(size_t(sequences) * size_t(rows) * queryHeads * channels);
    fillRandom(query);
    const std::vector<int64_t> dims{int64_t(sequences) * rows, queryHeads, channels};
    runtime::BatchHandle batch = batchOf(rows, slots - rows);
    const std::vector<runtime::Argument> arguments{runtime::Argument::cache(cache.get()),
                                                   runtime::Argument::batch(batch.get()),
                                                   runtime::Argument::tensor(query.data(), dims)};
    checkResult(module.call("attend", arguments)[0]);
    for (int i = 0; i < repetitions; ++i) {
      const auto start = std::chrono::steady_clock::now();
      module.call("attend", arguments);
      callSeconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    device.setProfiling(true);
    for (int i = 0; i < repetitions; ++i) {
      module.call("attend", arguments);
      double sum = 0;
      for (const Json &dispatch : Json::parse(device.takeProfile())) {
        sum += dispatch.at("device_seconds").get<double>();
      }
      kernelSeconds.push_back(sum);
    }
    device.setProfiling(false);
  }

  std::string target() const { return kvc_module_target(module.get()); }

  std::vector<double> kernelSeconds, callSeconds;

private:
  runtime::BatchHandle batchOf(int32_t rows, int64_t first) const {
    std::vector<int32_t> ids, counts, positions;
    for (int32_t s = 0; s < sequences; ++s) {
      ids.push_back(s);
      counts.push_back(rows);
      for (int32_t r = 0; r < rows; ++r) {
        positions.push_back(int32_t(first) + r);
      }
    }
    return device.batch(ids, counts, positions);
  }

  /// A fast kernel that computes nothing is no result: attention over values in (-1, 1) is finite, below 1, and not 0.
  static void checkResult(const runtime::Value &value) {
    double sum = 0;
    for (float x : value.copy<float>()) {
      if (!(std::abs(x) <= 1)) {
        throw Failure(fmt::format("expects results of attention between -1 and 1, but got {}", x));
      }
      sum += std::abs(double(x));
    }
    if (sum == 0) {
      throw Failure("expects results of attention that are not all 0");
    }
  }

  const runtime::Device &device;
  runtime::Module module;
  const int32_t sequences;
  const int64_t slots;
  runtime::Cache cache;
};

} // namespace

void device::writeBenchmarks(const std::string &folder) {
  for (const Workload &workload : workloads) {
    writeFile(fmt::format("{}/{}.mlir", folder, workload.name),
              fmt::format(R"(// {0}: {1} query and {2} KV heads.
!kv = !kvcache.cache<heads = {2}, dim = {3}, page = {4}, {5}>
func.func @fill(%c: !kv, %b: !kvcache.batch, %k: tensor<?x{2}x{3}xf32>, %v: tensor<?x{2}x{3}xf32>) -> !kv {{
  %r = kvcache.append %c, %k, %v at %b : !kv, tensor<?x{2}x{3}xf32>, tensor<?x{2}x{3}xf32>
  return %r : !kv
}}
func.func @attend(%c: !kv, %b: !kvcache.batch, %q: tensor<?x{1}x{3}xf32>) -> tensor<?x{1}x{3}xf32> {{
  %o = kvcache.attention %q over %c at %b {{scale = 0.088388346 : f32, causal}}
      : (tensor<?x{1}x{3}xf32>, !kv, !kvcache.batch) -> tensor<?x{1}x{3}xf32>
  return %o : tensor<?x{1}x{3}xf32>
}}
)",
                          workload.name, queryHeads, heads, channels, workload.page, workload.format));
  }
  writeSteps(folder);
}

Json device::runBenchmarks(const std::string &deviceName, const std::string &folder, bool small) {
  const int64_t decodeSlots = small ? 160 : 32768, prefillSlots = small ? 96 : 4096;
  const int32_t sequences = small ? 2 : 8;
  const int repetitions = small ? 2 : 20;
  const DriverContext gpu(deviceName);
  const double bandwidth = copyBandwidth(gpu, size_t(1) << (small ? 20 : 30));
  const Json gemm = gemmThroughput(gpu, small ? 64 : 8192);
  fmt::print("copy {:.1f} GB/s; product of f16 matrices {}\n", bandwidth / 1e9,
             gemm.contains("tflops") ? fmt::format("{:.1f} TFLOP/s", gemm.at("tflops").get<double>())
                                     : gemm.at("missing").get<std::string>());
  const runtime::Device device(deviceName.c_str());
  Json results = Json::array();
  for (const Workload &workload : workloads) {
    const int64_t slots = workload.isDecode ? decodeSlots : prefillSlots;
    const int32_t used = workload.isDecode ? sequences : 1;
    Bench bench(device, fmt::format("{}/{}.kvca", folder, workload.name), used, slots);
    bench.attend(workload.isDecode ? 1 : int32_t(slots), repetitions);
    const double seconds = median(bench.kernelSeconds);
    Json entry{{"name", workload.name},
               {"target", bench.target()},
               {"format", workload.format},
               {"page", workload.page},
               {"sequences", used},
               {"slots", slots},
               {"kernel_seconds", seconds},
               {"fastest_kernel_seconds", *std::min_element(bench.kernelSeconds.begin(), bench.kernelSeconds.end())},
               {"call_seconds", median(bench.callSeconds)}};
    if (workload.isDecode) {
      const double bytes = double(used) * double(slots) * heads * 2 * channels * workload.bits / 8;
      entry["gb_per_second"] = bytes / seconds / 1e9;
      entry["of_copy_bandwidth"] = bytes / seconds / bandwidth;
      fmt::print("{:18} {:9.1f} us {:8.1f} GB/s, {:.3f} of the copy ({})\n", workload.name, seconds * 1e6,
                 bytes / seconds / 1e9, bytes / seconds / bandwidth, bench.target());
    } else {
      const double tflops = 4.0 * channels * queryHeads * double(slots) * double(slots + 1) / 2 / seconds / 1e12;
      entry["tflops"] = tflops;
      std::string beside = gemm.contains("tflops") ? "" : ", no product to compare with";
      if (beside.empty()) {
        entry["of_gemm"] = tflops / gemm.at("tflops").get<double>();
        beside = fmt::format(", {:.3f} of the product", entry["of_gemm"].get<double>());
      }
      fmt::print("{:18} {:9.1f} us {:8.2f} TFLOP/s{} ({})\n", workload.name, seconds * 1e6, tflops, beside,
                 bench.target());
    }
    results.push_back(std::move(entry));
  }
  return {{"simulated", gpu.isSimulated()},
          {"small", small},
          {"copy_gb_per_second", bandwidth / 1e9},
          {"gemm", gemm},
          {"workloads", results}};
}
