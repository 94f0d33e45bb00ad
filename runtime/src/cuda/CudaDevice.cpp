//===- CudaDevice.cpp - Devices behind the CUDA driver API ----------------===//
//
// A kernel is launched with one block for each item; the words of its arguments are its parameters.
//
//===----------------------------------------------------------------------===//
#include "cuda/CudaDevice.h"
#include "core/SizeClass.h"
#include "cuda/CudaDriver.h"
#include "cuda/CudaGraphs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <elf.h>
#include <limits>
#include <mutex>
#include <set>

namespace kvc::rt {
namespace {

using cuda::DevicePointer;

/// Shared memory of a block that needs no asking.
constexpr uint32_t plainSharedBytes = 48 << 10;

DevicePointer addressOf(const void *memory) { return reinterpret_cast<DevicePointer>(memory); }

/// 80 and whether code is for this chip alone, of "sm_80" or "sm_90a".
struct Chip {
  int capability = 0;
  bool isExact = false;
};
Result<Chip> parseChip(std::string_view target) {
  Chip chip;
  constexpr std::string_view prefix = "sm_";
  auto bad = [&] {
    return Status(StatusCode::unsupported, fmt::format("expects code of an NVIDIA GPU, but got '{}'", target));
  };
  if (target.substr(0, prefix.size()) != prefix) {
    return bad();
  }
  std::string_view number = target.substr(prefix.size());
  auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), chip.capability);
  std::string_view rest = number.substr(size_t(end - number.data()));
  if (error != std::errc() || (!rest.empty() && rest != "a")) {
    return bad();
  }
  chip.isExact = !rest.empty();
  return chip;
}

/// True for what a driver may be given: it is not told where an image ends. A cubin with all of its sections, or text
/// with its end.
bool isWholeImage(std::span<const uint8_t> bytes) {
  return gpu::isWholeElf(bytes) || (!bytes.empty() && bytes[0] != ELFMAG0 && bytes.back() == 0);
}

/// Memory that was given back and is handed out again: a driver's allocations are slow, and its releases wait for the
/// device. All work is in one stream, so what still runs is done before a new user's work begins. The lowest address
/// comes first: the same calls get the same addresses, which graphs need. Thread-safe.
class KeptMemory {
public:
  /// Of blocks up to `largest` bytes at most `most` bytes in all.
  KeptMemory(uint64_t largest, uint64_t most) : largest(largest), most(most) {}

  /// What to allocate for `bytes`. A launch wants addresses even of what is empty.
  uint64_t sizeOf(uint64_t bytes) const { return bytes <= largest ? sizeClass(std::max<uint64_t>(bytes, 1)) : bytes; }

  /// Null where none of that size is kept.
  void *take(uint64_t size) {
    std::lock_guard lock(mutex);
    auto it = blocks.lower_bound({size, nullptr});
    if (it == blocks.end() || it->first != size) {
      return nullptr;
    }
    void *memory = it->second;
    blocks.erase(it);
    total -= size;
    return memory;
  }

  /// False where there is no room.
  bool keep(uint64_t size, void *memory) {
    std::lock_guard lock(mutex);
    if (size > largest || total + size > most) {
      return false;
    }
    total += size;
    blocks.emplace(size, memory);
    return true;
  }

  template <typename Function> void forEach(Function function) const {
    for (const auto &[size, memory] : blocks) {
      function(memory);
    }
  }

private:
  const uint64_t largest, most;
  std::mutex mutex;
  std::set<std::pair<uint64_t, void *>> blocks;
  uint64_t total = 0;
};

class CudaCode final : public Code {
public:
  CudaCode(const std::shared_ptr<cuda::Driver> &driver, cuda::Context context,
           std::shared_ptr<cuda::GraphCounters> counters)
      : graphs(driver, std::move(counters)), driver(driver), context(context) {}
  ~CudaCode() override {
    if (module) {
      (void)driver->cuCtxSetCurrent(context);
      graphs.clear();
      (void)driver->cuModuleUnload(module);
    }
  }

  struct Entry {
    cuda::Function function;
    KernelInfo info;
  };
  cuda::ModuleHandle module = nullptr;
  std::vector<Entry> kernels;
  mutable cuda::GraphCache graphs;

private:
  std::shared_ptr<cuda::Driver> driver;
  cuda::Context context;
};

class CudaDevice final : public Device {
public:
  static Result<std::shared_ptr<Device>> create(std::string name, std::shared_ptr<cuda::Driver> driver, int ordinal,
                                                std::string target) {
    auto device = std::make_shared<CudaDevice>();
    device->deviceName = std::move(name);
    device->forced = std::move(target);
    device->driver = driver;
    if (int result = driver->cuDeviceGet(&device->number, ordinal)) {
      return driver->failure(result, fmt::format("cannot open the device '{}'", device->deviceName));
    }
    int major = 0, minor = 0;
    for (auto [attribute, value] :
         {std::pair{cuda::attributeComputeMajor, &major}, {cuda::attributeComputeMinor, &minor}}) {
      if (int result = driver->cuDeviceGetAttribute(value, attribute, device->number)) {
        return driver->failure(result, "cannot ask for the compute capability");
      }
    }
    device->capability = major * 10 + minor;
    if (int result = driver->cuDevicePrimaryCtxRetain(&device->context, device->number)) {
      return driver->failure(result, fmt::format("cannot make a context on the device '{}'", device->deviceName));
    }
    KVC_RETURN_IF_ERROR(device->enter());
    if (int result = driver->cuStreamCreate(&device->stream, cuda::streamNonBlocking)) {
      return driver->failure(result, fmt::format("cannot make a stream on the device '{}'", device->deviceName));
    }
    return std::shared_ptr<Device>(std::move(device));
  }

  ~CudaDevice() override {
    if (!context) {
      return;
    }
    if (enter().ok()) {
      for (MemoryKind kind : {MemoryKind::device, MemoryKind::shared}) {
        poolOf(kind).forEach([&](void *memory) { release(memory, kind); });
      }
      if (stream) {
        (void)driver->cuStreamDestroy_v2(stream);
      }
    }
    (void)driver->cuDevicePrimaryCtxRelease_v2(number);
  }

  const std::string &name() const override { return deviceName; }
  const std::string &forcedTarget() const override { return forced; }

  Result<int> rankTarget(std::string_view target) const override {
    KVC_ASSIGN_OR_RETURN(Chip chip, parseChip(target));
    if (chip.capability > capability || (chip.isExact && chip.capability != capability)) {
      return Status(StatusCode::unsupported,
                    fmt::format("expects code that compute capability {}.{} can run, but got '{}'", capability / 10,
                                capability % 10, target));
    }
    return 2 * chip.capability + chip.isExact;
  }

  Result<void *> allocate(uint64_t bytes, MemoryKind kind) override {
    const uint64_t size = poolOf(kind).sizeOf(bytes);
    if (void *memory = poolOf(kind).take(size)) {
      return memory;
    }
    void *memory = nullptr;
    DevicePointer pointer = 0;
    KVC_RETURN_IF_ERROR(enter());
    int result = kind == MemoryKind::shared
                     ? driver->cuMemHostAlloc(&memory, size, cuda::hostPortable | cuda::hostDeviceMap)
                     : driver->cuMemAlloc_v2(&pointer, size);
    if (result) {
      return driver->failure(result, fmt::format("cannot allocate {} bytes on the device '{}'", bytes, deviceName));
    }
    return kind == MemoryKind::shared ? memory : reinterpret_cast<void *>(pointer);
  }

  void free(void *memory, uint64_t bytes, MemoryKind kind) override {
    if (memory && !poolOf(kind).keep(poolOf(kind).sizeOf(bytes), memory) && enter().ok()) {
      release(memory, kind);
    }
  }

  bool isHostMemory() const override { return false; }
  Status copyToDevice(void *destination, const void *source, uint64_t bytes) override {
    KVC_RETURN_IF_ERROR(enqueueCopyToDevice(destination, source, bytes));
    return bytes ? synchronize() : Status();
  }
  Status copyToHost(void *destination, const void *source, uint64_t bytes) override {
    KVC_RETURN_IF_ERROR(enqueueCopyToHost(destination, source, bytes));
    return bytes ? synchronize() : Status();
  }
  Status copyOnDevice(void *destination, const void *source, uint64_t bytes) override {
    return copy(bytes, "on",
                [&] { return driver->cuMemcpyDtoDAsync_v2(addressOf(destination), addressOf(source), bytes, stream); });
  }
  Status enqueueCopyToDevice(void *destination, const void *source, uint64_t bytes) override {
    return copy(bytes, "to",
                [&] { return driver->cuMemcpyHtoDAsync_v2(addressOf(destination), source, bytes, stream); });
  }
  Status enqueueCopyToHost(void *destination, const void *source, uint64_t bytes) override {
    return copy(bytes, "from",
                [&] { return driver->cuMemcpyDtoHAsync_v2(destination, addressOf(source), bytes, stream); });
  }

  Result<std::shared_ptr<Code>> load(CodeFormat format, std::span<const uint8_t> bytes, std::string_view assembly,
                                     const std::vector<KernelInfo> &kernels) override {
    if (format != CodeFormat::cubin) {
      return Status(StatusCode::unsupported,
                    fmt::format("expects a cubin for the device '{}', but got other code", deviceName));
    }
    KVC_RETURN_IF_ERROR(enter());
    auto code = std::make_shared<CudaCode>(driver, context, graphCounters);
    int result = isWholeImage(bytes) ? driver->cuModuleLoadData(&code->module, bytes.data()) : cuda::invalidImage;
    if ((result == cuda::noBinaryForGpu || result == cuda::invalidImage) && !assembly.empty()) {
      // A driver compiles PTX for chips that the cubin is not for. It wants an end of the text.
      result = driver->cuModuleLoadData(&code->module, std::string(assembly).c_str());
    }
    if (result) {
      code->module = nullptr;
      return driver->failure(result, fmt::format("cannot load the kernels on the device '{}'", deviceName));
    }
    for (const KernelInfo &info : kernels) {
      cuda::Function function = nullptr;
      if (driver->cuModuleGetFunction(&function, code->module, info.name.c_str()) != cuda::success) {
        return Status(StatusCode::corrupt, fmt::format("expects a kernel '{}' in the code, but got none", info.name));
      }
      if (info.stagingBytes > plainSharedBytes) {
        int shared = static_cast<int>(info.stagingBytes);
        if (int error = driver->cuFuncSetAttribute(function, cuda::functionMaxDynamicShared, shared)) {
          Status status = driver->failure(error, fmt::format("kernel '{}' needs {} bytes of shared memory, which the "
                                                             "device '{}' does not give",
                                                             info.name, shared, deviceName));
          return Status(StatusCode::unsupported, status.message());
        }
      }
      code->kernels.push_back({function, info});
    }
    return std::shared_ptr<Code>(std::move(code));
  }

  Status launch(const Code &code, size_t kernel, std::span<const uint64_t> words, int64_t items,
                LaunchReport *report) override {
    const CudaCode::Entry &entry = static_cast<const CudaCode &>(code).kernels[kernel];
    if (items == 0) {
      return {};
    }
    if (items > std::numeric_limits<int32_t>::max()) {
      return {StatusCode::unsupported, fmt::format("kernel '{}': expects at most {} work items, but got {}",
                                                   entry.info.name, std::numeric_limits<int32_t>::max(), items)};
    }
    KVC_RETURN_IF_ERROR(enter());
    auto run = [&] { return enqueue(entry, words, items, stream); };
    auto runAndWait = [&] { return driver->timed(stream, run, report->deviceSeconds); };
    int result = report ? driver->simulator.counted(runAndWait, report->counters) : run();
    return result ? driver->failure(result,
                                    fmt::format("kernel '{}' failed on the device '{}'", entry.info.name, deviceName))
                  : Status();
  }

  Status launchAll(const Code &code, std::span<const Launch> launches) override {
    const auto &kernels = static_cast<const CudaCode &>(code);
    // One launch is not worth a graph.
    if (usesGraphs() && launches.size() > 1) {
      KVC_RETURN_IF_ERROR(enter());
      KVC_ASSIGN_OR_RETURN(bool launched,
                           kernels.graphs.launch(launches, stream, [&](const Launch &each, cuda::Stream to) {
                             return enqueue(kernels.kernels[each.kernel], each.words, each.items, to);
                           }));
      if (launched) {
        return {};
      }
    }
    return Device::launchAll(code, launches);
  }
  bool hasGraphs() const override { return true; }
  GraphCounts graphCounts() const override { return {graphCounters->captured, graphCounters->launched}; }

  Status synchronize() override {
    KVC_RETURN_IF_ERROR(enter());
    int result = driver->cuStreamSynchronize(stream);
    return result ? driver->failure(result, fmt::format("the device '{}' failed", deviceName)) : Status();
  }

private:
  /// The context belongs to the calling thread.
  Status enter() const {
    int result = driver->cuCtxSetCurrent(context);
    return result ? driver->failure(result, fmt::format("cannot use the device '{}'", deviceName)) : Status();
  }
  /// One stream: kernels and copies follow each other, and nobody waits until the host reads what they wrote.
  int enqueue(const CudaCode::Entry &entry, std::span<const uint64_t> words, int64_t items, cuda::Stream to) const {
    std::vector<uint64_t> values(words.begin(), words.end());
    std::vector<void *> parameters;
    for (uint64_t &value : values) {
      parameters.push_back(&value);
    }
    return driver->cuLaunchKernel(entry.function, static_cast<unsigned>(items), 1, 1, entry.info.teamLanes, 1, 1,
                                  entry.info.stagingBytes, to, parameters.data(), nullptr);
  }

  KeptMemory &poolOf(MemoryKind kind) { return kind == MemoryKind::shared ? keptShared : keptDevice; }
  void release(void *memory, MemoryKind kind) const {
    (void)(kind == MemoryKind::shared ? driver->cuMemFreeHost(memory) : driver->cuMemFree_v2(addressOf(memory)));
  }

  template <typename Copy> Status copy(uint64_t bytes, const char *where, Copy body) {
    if (bytes == 0) {
      return {};
    }
    KVC_RETURN_IF_ERROR(enter());
    int result = body();
    return result ? driver->failure(result,
                                    fmt::format("cannot copy {} bytes {} the device '{}'", bytes, where, deviceName))
                  : Status();
  }

  std::string deviceName, forced;
  std::shared_ptr<cuda::Driver> driver;
  cuda::DeviceNumber number = 0;
  cuda::Context context = nullptr;
  cuda::Stream stream = nullptr;
  int capability = 0;
  std::shared_ptr<cuda::GraphCounters> graphCounters = std::make_shared<cuda::GraphCounters>();
  // Results and the host's side of tables; batches, tables, small buffers.
  KeptMemory keptShared{uint64_t(16) << 20, uint64_t(256) << 20};
  KeptMemory keptDevice{uint64_t(1) << 20, uint64_t(64) << 20};
};

} // namespace

Result<cuda::DriverDevice> cuda::findDevice(std::string_view name) {
  size_t colon = name.find(':');
  std::string_view kind = name.substr(0, colon), which = name.substr(colon + 1);
  if (kind == "sim") {
    KVC_ASSIGN_OR_RETURN(std::shared_ptr<cuda::Driver> driver,
                         cuda::Driver::open(gpu::simulatorLibraries("libkvcsim_cuda.so", "KVC_SIM_CUDA")));
    if (!driver->simulator.device) {
      return Status(StatusCode::unsupported, "expects the simulator behind a device 'sim:...', but got another driver");
    }
    int ordinal = driver->simulator.device(std::string(which).c_str());
    if (ordinal < 0) {
      return Status(StatusCode::notFound,
                    fmt::format("expects a chip that the simulator knows, such as sim:sm_80, but got '{}'", name));
    }
    return DriverDevice{std::move(driver), ordinal};
  }
  KVC_ASSIGN_OR_RETURN(const int ordinal, gpu::parseOrdinal(name));
  const char *named = std::getenv("KVC_CUDA");
  KVC_ASSIGN_OR_RETURN(std::shared_ptr<cuda::Driver> driver,
                       cuda::Driver::open(named ? std::vector<std::string>{named}
                                                : std::vector<std::string>{"libcuda.so.1", "libcuda.so"}));
  if (driver->simulator.device && !named) {
    // It has the driver's soname: the loader gives it to whoever asks for the driver once it is loaded.
    return Status(StatusCode::unsupported,
                  fmt::format("expects an NVIDIA driver behind the device '{}', but got the simulator; use sim:<chip>, "
                              "or name a driver in KVC_CUDA",
                              name));
  }
  int count = 0;
  if (int result = driver->cuDeviceGetCount(&count)) {
    return driver->failure(result, "cannot count the devices");
  }
  if (ordinal >= count) {
    return Status(StatusCode::notFound, fmt::format("expects one of {} CUDA devices, but got '{}'", count, name));
  }
  return DriverDevice{std::move(driver), ordinal};
}

Result<std::shared_ptr<Device>> createCudaDevice(std::string_view name, const DeviceOptions &options) {
  KVC_ASSIGN_OR_RETURN(cuda::DriverDevice found, cuda::findDevice(name));
  return CudaDevice::create(std::string(name), std::move(found.driver), found.ordinal, options.target);
}

} // namespace kvc::rt
