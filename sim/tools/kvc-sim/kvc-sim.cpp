//===- kvc-sim.cpp - Runs one GPU kernel from a file ----------------------===//
#include "Kernels.h"

#include "common/Fault.h"
#include "common/Npy.h"
#include "ptx/TensorMap.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace kvc::sim;

namespace {

struct Options {
  std::string file, kernel, target;
  std::vector<uint32_t> grid{1, 1, 1}, block{1, 1, 1}, cluster;
  uint32_t shared = 0;
  std::vector<std::string> arguments, buffers, outputs;
  bool json = false, instructions = false, noRaces = false, noUninitialised = false, bothOrders = false;
  LaunchOptions launch;
};

struct Buffer {
  NpyArray array;
  uint64_t address = 0;
};

/// "NAME=VALUE"
std::pair<std::string, std::string> splitAssignment(const std::string &text) {
  const size_t equal = text.find('=');
  if (equal == std::string::npos || equal == 0) {
    fail(FaultKind::InvalidValue, "expects NAME=VALUE, but got {}", text);
  }
  return {text.substr(0, equal), text.substr(equal + 1)};
}

template <typename T> std::vector<uint8_t> numberBytes(const std::string &text) {
  T value{};
  const char *begin = text.data(), *end = begin + text.size();
  std::from_chars_result result;
  if constexpr (std::is_integral_v<T>) {
    const bool hex = text.rfind("0x", 0) == 0;
    result = std::from_chars(begin + (hex ? 2 : 0), end, value, hex ? 16 : 10);
  } else {
    result = std::from_chars(begin, end, value);
  }
  if (result.ec != std::errc() || result.ptr != end) {
    fail(FaultKind::InvalidValue, "expects a number that fits its type, but got {}", text);
  }
  std::vector<uint8_t> bytes(sizeof(T));
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

template <typename T> T numberOf(const std::string &text) {
  T value;
  std::memcpy(&value, numberBytes<T>(text).data(), sizeof value);
  return value;
}

/// "1,2,3"
template <typename T> std::vector<T> numbersOf(const std::string &text) {
  std::vector<T> numbers;
  std::stringstream stream(text);
  for (std::string number; std::getline(stream, number, ',');) {
    numbers.push_back(numberOf<T>(number));
  }
  return numbers;
}

std::vector<uint8_t> hexBytes(const std::string &text) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < text.size(); i += 2) {
    uint8_t byte = 0;
    const auto result = std::from_chars(text.data() + i, text.data() + std::min(i + 2, text.size()), byte, 16);
    if (result.ec != std::errc() || result.ptr != text.data() + i + 2) {
      fail(FaultKind::InvalidValue, "expects pairs of hexadecimal digits, but got {}", text);
    }
    bytes.push_back(byte);
  }
  return bytes;
}

class Session {
public:
  explicit Session(const Options &options) : options(options) {}

  void run() {
    const auto kernel = loadKernel(memory, options.file, options.kernel, options.target);
    for (const std::string &text : options.buffers) {
      const auto [name, value] = splitAssignment(text);
      makeBuffer(name, value);
    }
    // Pointers into buffers may come before the buffer: these are made first.
    for (const std::string &text : options.arguments) {
      const auto [name, value] = splitAssignment(text);
      if (isBuffer(value)) {
        makeBuffer(name, value);
      }
    }
    LaunchConfig config;
    config.grid = {options.grid[0], options.grid[1], options.grid[2]};
    config.block = {options.block[0], options.block[1], options.block[2]};
    const Dim3 required = kernel->requiredCluster;
    if (!options.cluster.empty()) {
      config.cluster = {options.cluster[0], options.cluster[1], options.cluster[2]};
    } else if (required.x != 0) {
      config.cluster = required;
    }
    config.dynamicShared = options.shared;
    config.parameters = parameters(*kernel);
    const LaunchResult result = launch(*kernel, config);
    for (const std::string &text : options.outputs) {
      const auto [name, path] = splitAssignment(text);
      auto found = buffers.find(name);
      if (found == buffers.end()) {
        fail(FaultKind::InvalidValue, "expects the name of a buffer, but got {}", name);
      }
      NpyArray array = found->second.array;
      read(found->second, array.bytes);
      writeNpy(path, array);
    }
    for (const std::string &warning : result.warnings) {
      std::cerr << "warning: " << warning << "\n";
    }
    if (options.json) {
      std::cout << kernel->json(result, options.instructions).dump(2) << "\n";
    } else {
      std::cout << kernel->text(result);
    }
  }

private:
  static bool isBuffer(const std::string &value) {
    static const char *const scalars[] = {
        "u8:", "u16:", "u32:", "u64:", "i32:", "i64:", "f32:", "f64:", "ptr:", "bytes:", "map:"};
    return std::none_of(std::begin(scalars), std::end(scalars), [&](const char *s) { return value.rfind(s, 0) == 0; });
  }

  void makeBuffer(const std::string &name, const std::string &value) {
    Buffer buffer;
    const bool fresh = value.rfind("alloc:", 0) == 0;
    if (fresh) {
      uint64_t bytes = 0;
      const auto number = numberBytes<uint64_t>(value.substr(6));
      std::memcpy(&bytes, number.data(), 8);
      buffer.array = {"|u1", {bytes}, {}};
    } else {
      buffer.array = readNpy(value);
    }
    const uint64_t bytes = fresh ? buffer.array.shape[0] : buffer.array.bytes.size();
    buffer.address = memory.allocate(std::max<uint64_t>(bytes, 1), "buffer " + name);
    if (!fresh && bytes != 0) {
      std::memcpy(memory.at(buffer.address, bytes, name.c_str()), buffer.array.bytes.data(), bytes);
    }
    buffer.array.bytes.resize(bytes);
    if (!buffers.emplace(name, std::move(buffer)).second) {
      fail(FaultKind::InvalidValue, "expects one buffer {}, but got another", name);
    }
  }

  void read(const Buffer &buffer, std::vector<uint8_t> &to) {
    if (!to.empty()) {
      std::memcpy(to.data(), memory.at(buffer.address, to.size(), "buffer"), to.size());
    }
  }

  /// "BUFFER+OFFSET"
  uint64_t addressOf(const std::string &text) {
    const size_t plus = text.find('+');
    auto found = buffers.find(text.substr(0, plus));
    if (found == buffers.end()) {
      fail(FaultKind::InvalidValue, "expects the name of a buffer, but got {}", text);
    }
    return found->second.address + (plus == std::string::npos ? 0 : numberOf<uint64_t>(text.substr(plus + 1)));
  }

  /// "BUFFER+OFFSET/extents/strides/box/swizzle": 16-bit elements, innermost dimension first.
  std::vector<uint8_t> tensorMap(const std::string &text) {
    std::vector<std::string> parts;
    std::stringstream stream(text);
    for (std::string part; std::getline(stream, part, '/');) {
      parts.push_back(part);
    }
    if (parts.size() != 5) {
      fail(FaultKind::InvalidValue, "expects BUFFER+OFFSET/extents/strides/box/swizzle, but got {}", text);
    }
    const auto extents = numbersOf<uint64_t>(parts[1]), strides = numbersOf<uint64_t>(parts[2]);
    const auto box = numbersOf<unsigned>(parts[3]);
    const std::vector<unsigned> steps(extents.size(), 1);
    if (box.size() != extents.size() || strides.size() + 1 != extents.size()) {
      fail(FaultKind::InvalidValue, "expects as many extents as sizes of a box and one stride less, but got {}", text);
    }
    // Both as numbers of the driver.
    constexpr int uint16 = 1;
    static constexpr std::array swizzles{0, 32, 64, 128};
    const auto *swizzle = std::find(swizzles.begin(), swizzles.end(), numberOf<int>(parts[4]));
    if (swizzle == swizzles.end()) {
      fail(FaultKind::InvalidValue, "expects a swizzle of 0, 32, 64 or 128 bytes, but got {}", parts[4]);
    }
    const auto mode = int(swizzle - swizzles.begin());
    ptx::TensorMap map;
    const auto refusal = ptx::encodeTiled({uint16, unsigned(extents.size()), addressOf(parts[0]), extents.data(),
                                           strides.data(), box.data(), steps.data(), 0, mode, 0},
                                          map);
    if (refusal) {
      fail(FaultKind::InvalidValue, "{}", refusal->text);
    }
    std::vector<uint8_t> bytes(sizeof map);
    std::memcpy(bytes.data(), &map, sizeof map);
    return bytes;
  }

  std::vector<uint8_t> valueOf(const std::string &name, const std::string &value) {
    const size_t colon = value.find(':');
    const std::string kind = value.substr(0, colon), rest = colon == std::string::npos ? "" : value.substr(colon + 1);
    if (auto found = buffers.find(name); found != buffers.end() && isBuffer(value)) {
      return numberBytes<uint64_t>(std::to_string(found->second.address));
    }
    if (kind == "ptr") {
      return numberBytes<uint64_t>(std::to_string(addressOf(rest)));
    }
    if (kind == "map") {
      return tensorMap(rest);
    }
    return kind == "u8"    ? numberBytes<uint8_t>(rest)
           : kind == "u16" ? numberBytes<uint16_t>(rest)
           : kind == "u32" ? numberBytes<uint32_t>(rest)
           : kind == "i32" ? numberBytes<int32_t>(rest)
           : kind == "u64" ? numberBytes<uint64_t>(rest)
           : kind == "i64" ? numberBytes<int64_t>(rest)
           : kind == "f32" ? numberBytes<float>(rest)
           : kind == "f64" ? numberBytes<double>(rest)
                           : hexBytes(rest);
  }

  std::vector<uint8_t> parameters(const Kernel &program) {
    if (options.arguments.size() != program.parameters.size()) {
      fail(FaultKind::InvalidValue, "expects {} arguments for {}, but got {}", program.parameters.size(), program.name,
           options.arguments.size());
    }
    std::vector<uint8_t> block(program.parameterBytes);
    for (size_t i = 0; i < options.arguments.size(); ++i) {
      const auto [name, value] = splitAssignment(options.arguments[i]);
      const std::vector<uint8_t> bytes = valueOf(name, value);
      const auto &parameter = program.parameters[i];
      if (bytes.size() != parameter.bytes) {
        fail(FaultKind::InvalidValue, "expects {} bytes for argument {} ({}), but got {}", parameter.bytes, i,
             parameter.name, bytes.size());
      }
      std::copy(bytes.begin(), bytes.end(), block.begin() + parameter.offset);
    }
    return block;
  }

  LaunchResult launch(Kernel &kernel, const LaunchConfig &config) {
    LaunchOptions first = options.launch;
    first.checks.races = !options.noRaces;
    first.checks.uninitialised = !options.noUninitialised;
    if (!options.bothOrders) {
      return kernel.run(config, first);
    }
    std::map<std::string, std::vector<uint8_t>> before, after;
    for (auto &[name, buffer] : buffers) {
      read(buffer, before[name] = buffer.array.bytes);
    }
    kernel.run(config, first);
    for (auto &[name, buffer] : buffers) {
      read(buffer, after[name] = buffer.array.bytes);
      if (!before[name].empty()) {
        std::memcpy(memory.at(buffer.address, before[name].size(), "buffer"), before[name].data(), before[name].size());
      }
    }
    LaunchOptions second = first;
    second.reverseOrder = !first.reverseOrder;
    second.seed = first.seed + 1;
    LaunchResult result = kernel.run(config, second);
    for (auto &[name, buffer] : buffers) {
      std::vector<uint8_t> again = buffer.array.bytes;
      read(buffer, again);
      if (again != after[name]) {
        const auto at = std::mismatch(again.begin(), again.end(), after[name].begin()).first - again.begin();
        fail(FaultKind::Race,
             "expects the same bits for two orders of CTAs and warps, but buffer {} differs at byte {}", name, at);
      }
    }
    return result;
  }

  const Options &options;
  GlobalMemory memory;
  std::map<std::string, Buffer> buffers;
};

} // namespace

int main(int argc, char **argv) {
  Options options;
  CLI::App app("runs one kernel of a PTX or HSACO file on a simulated GPU, and prints its counters");
  app.add_option("file", options.file, "the PTX or HSACO file")->required();
  app.add_option("--kernel", options.kernel, "the kernel to launch")->required();
  app.add_option("--grid", options.grid, "CTAs along x,y,z")->delimiter(',')->expected(3)->required();
  app.add_option("--block", options.block, "threads of a CTA along x,y,z")->delimiter(',')->expected(3)->required();
  app.add_option("--cluster", options.cluster, "CTAs of a cluster (default: what the kernel requires, else 1,1,1)")
      ->delimiter(',')
      ->expected(3);
  app.add_option("--smem", options.shared, "bytes of dynamic shared memory");
  app.add_option("--arg", options.arguments,
                 "a parameter, in their order: NAME=FILE.npy or NAME=alloc:BYTES (a buffer), NAME=ptr:BUFFER+OFFSET, "
                 "NAME=u32:7 (u8 u16 u32 i32 u64 i64 f32 f64), NAME=bytes:HEX, or a tensor map of 16-bit elements "
                 "NAME=map:BUFFER+OFFSET/EXTENTS/STRIDES/BOX/SWIZZLE, innermost dimension first, as 64,8/128/64,8/128")
      ->allow_extra_args(false);
  app.add_option("--buffer", options.buffers, "a buffer that is no parameter: NAME=FILE.npy or NAME=alloc:BYTES")
      ->allow_extra_args(false);
  app.add_option("--out", options.outputs, "writes a buffer after the kernel: NAME=FILE.npy")->allow_extra_args(false);
  app.add_option("--target", options.target,
                 "the chip: sm_80 (default for PTX), sm_90a, gfx942 (default for HSACO: its own), ...");
  app.add_flag("--json", options.json, "print the counters as JSON");
  app.add_flag("--instructions", options.instructions, "with --json: the counters of every instruction");
  app.add_option("--threads", options.launch.threads, "threads of the host (0: one per CPU)");
  app.add_option("--seed", options.launch.seed, "run the warps in an order drawn from this seed (0: in turn)");
  app.add_option("--max-instructions", options.launch.instructionLimit,
                 "warp instructions of a thread at most (0: no limit)");
  app.add_flag("--reverse", options.launch.reverseOrder, "start the CTAs from the last to the first");
  app.add_flag("--both-orders", options.bothOrders, "run in two orders and expect the same bits");
  app.add_flag("--early-async", options.launch.earlyAsync, "asynchronous copies take effect at once");
  app.add_flag("--no-races", options.noRaces, "do not look for races in shared memory");
  app.add_flag("--no-uninitialised", options.noUninitialised,
               "do not look for reads of shared memory that was not written");
  CLI11_PARSE(app, argc, argv);
  try {
    Session(options).run();
  } catch (const std::exception &error) {
    std::cerr << "error: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
