//===- HipDevice.cpp - Devices behind the HIP API -------------------------===//
//
// A kernel is launched with one workgroup for each item; the words of its arguments are its parameters.
//
//===----------------------------------------------------------------------===//
#include "hip/HipDevice.h"
#include "hip/HipDriver.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace kvc::rt {
namespace {

class HipCode final : public Code {
public:
  HipCode(std::shared_ptr<hip::Driver> driver, int ordinal) : driver(std::move(driver)), ordinal(ordinal) {}
  ~HipCode() override {
    if (module && driver->hipSetDevice(ordinal) == hip::success) {
      (void)driver->hipModuleUnload(module);
    }
  }

  struct Entry {
    hip::Function function;
    KernelInfo info;
  };
  hip::ModuleHandle module = nullptr;
  std::vector<Entry> kernels;

private:
  std::shared_ptr<hip::Driver> driver;
  int ordinal;
};

class HipDevice final : public Device {
public:
  static Result<std::shared_ptr<Device>> create(std::string name, std::shared_ptr<hip::Driver> driver, int ordinal,
                                                std::string target) {
    hip::DeviceProperties properties{};
    if (int result = driver->hipGetDevicePropertiesR0600(&properties, ordinal)) {
      return driver->failure(result, fmt::format("cannot open the device '{}'", name));
    }
    // Features follow the name: gfx942:sramecc+:xnack-.
    std::string_view architecture(properties.architecture, sizeof(properties.architecture));
    architecture = architecture.substr(0, architecture.find_first_of(std::string_view(":\0", 2)));
    auto device = std::make_shared<HipDevice>();
    device->deviceName = std::move(name);
    device->architecture = architecture;
    device->forced = std::move(target);
    device->driver = std::move(driver);
    device->ordinal = ordinal;
    return std::shared_ptr<Device>(std::move(device));
  }

  const std::string &name() const override { return deviceName; }
  const std::string &forcedTarget() const override { return forced; }

  Result<int> rankTarget(std::string_view target) const override {
    if (target != architecture) {
      return Status(StatusCode::unsupported, fmt::format("expects code of an AMD GPU for {}, which the device '{}' is, "
                                                         "but got '{}'",
                                                         architecture, deviceName, target));
    }
    return 1;
  }

  Result<void *> allocate(uint64_t bytes, MemoryKind kind) override {
    // A launch wants addresses even of what is empty.
    const size_t size = std::max<uint64_t>(bytes, 1);
    void *memory = nullptr;
    KVC_RETURN_IF_ERROR(enter());
    const int result = kind == MemoryKind::shared
                           ? driver->hipHostMalloc(&memory, size, hip::hostPortable | hip::hostMapped)
                           : driver->hipMalloc(&memory, size);
    if (result) {
      return driver->failure(result, fmt::format("cannot allocate {} bytes on the device '{}'", bytes, deviceName));
    }
    return memory;
  }

  void free(void *memory, uint64_t, MemoryKind kind) override {
    if (memory && enter().ok()) {
      (void)(kind == MemoryKind::shared ? driver->hipHostFree(memory) : driver->hipFree(memory));
    }
  }

  bool isHostMemory() const override { return false; }
  Status copyToDevice(void *destination, const void *source, uint64_t bytes) override {
    return copy(bytes, "to", [&] { return driver->hipMemcpyHtoD(destination, source, bytes); });
  }
  Status copyToHost(void *destination, const void *source, uint64_t bytes) override {
    return copy(bytes, "from", [&] { return driver->hipMemcpyDtoH(destination, const_cast<void *>(source), bytes); });
  }
  Status copyOnDevice(void *destination, const void *source, uint64_t bytes) override {
    return copy(bytes, "on", [&] { return driver->hipMemcpyDtoD(destination, const_cast<void *>(source), bytes); });
  }

  Result<std::shared_ptr<Code>> load(CodeFormat format, std::span<const uint8_t> bytes, std::string_view,
                                     const std::vector<KernelInfo> &kernels) override {
    if (format != CodeFormat::hsaco) {
      return Status(StatusCode::unsupported,
                    fmt::format("expects a code object for the device '{}', but got other code", deviceName));
    }
    KVC_RETURN_IF_ERROR(enter());
    auto code = std::make_shared<HipCode>(driver, ordinal);
    const int result =
        gpu::isWholeElf(bytes) ? driver->hipModuleLoadData(&code->module, bytes.data()) : hip::invalidImage;
    if (result) {
      code->module = nullptr;
      return driver->failure(result, fmt::format("cannot load the kernels on the device '{}'", deviceName));
    }
    for (const KernelInfo &info : kernels) {
      hip::Function function = nullptr;
      if (driver->hipModuleGetFunction(&function, code->module, info.name.c_str()) != hip::success) {
        return Status(StatusCode::corrupt, fmt::format("expects a kernel '{}' in the code, but got none", info.name));
      }
      code->kernels.push_back({function, info});
    }
    return std::shared_ptr<Code>(std::move(code));
  }

  Status launch(const Code &code, size_t kernel, std::span<const uint64_t> words, int64_t items,
                LaunchReport *report) override {
    const HipCode::Entry &entry = static_cast<const HipCode &>(code).kernels[kernel];
    if (items == 0) {
      return {};
    }
    // A grid counts work-items in 32 bits.
    const int64_t most = std::numeric_limits<uint32_t>::max() / std::max<uint32_t>(1, entry.info.teamLanes);
    if (items > most) {
      return {StatusCode::unsupported,
              fmt::format("kernel '{}': expects at most {} work items, but got {}", entry.info.name, most, items)};
    }
    KVC_RETURN_IF_ERROR(enter());
    std::vector<uint64_t> values(words.begin(), words.end());
    std::vector<void *> parameters;
    for (uint64_t &value : values) {
      parameters.push_back(&value);
    }
    auto run = [&] {
      // One stream: kernels and copies follow each other, and nobody waits until the host reads what they wrote.
      return driver->hipModuleLaunchKernel(entry.function, static_cast<unsigned>(items), 1, 1, entry.info.teamLanes, 1,
                                           1, entry.info.stagingBytes, nullptr, parameters.data(), nullptr);
    };
    auto runAndWait = [&] {
      const int result = run();
      return result ? result : driver->hipDeviceSynchronize();
    };
    const int result = report ? driver->simulator.counted(runAndWait, report->counters) : run();
    return result ? driver->failure(result,
                                    fmt::format("kernel '{}' failed on the device '{}'", entry.info.name, deviceName))
                  : Status();
  }

  Status synchronize() override {
    KVC_RETURN_IF_ERROR(enter());
    const int result = driver->hipDeviceSynchronize();
    return result ? driver->failure(result, fmt::format("the device '{}' failed", deviceName)) : Status();
  }

private:
  /// The current device is the calling thread's.
  Status enter() const {
    const int result = driver->hipSetDevice(ordinal);
    return result ? driver->failure(result, fmt::format("cannot use the device '{}'", deviceName)) : Status();
  }
  template <typename Copy> Status copy(uint64_t bytes, const char *where, Copy body) {
    if (bytes == 0) {
      return {};
    }
    KVC_RETURN_IF_ERROR(enter());
    const int result = body();
    return result ? driver->failure(result,
                                    fmt::format("cannot copy {} bytes {} the device '{}'", bytes, where, deviceName))
                  : Status();
  }

  std::string deviceName, architecture, forced;
  std::shared_ptr<hip::Driver> driver;
  int ordinal = 0;
};

} // namespace

Result<std::shared_ptr<Device>> createHipDevice(std::string_view name, const DeviceOptions &options) {
  if (name.substr(0, 4) == "sim:") {
    KVC_ASSIGN_OR_RETURN(std::shared_ptr<hip::Driver> driver,
                         hip::Driver::open(gpu::simulatorLibraries("libkvcsim_hip.so", "KVC_SIM_HIP")));
    if (!driver->simulator.device) {
      return Status(StatusCode::unsupported, "expects the simulator behind a device 'sim:...', but got another driver");
    }
    const int ordinal = driver->simulator.device(std::string(name.substr(4)).c_str());
    if (ordinal < 0) {
      return Status(StatusCode::notFound,
                    fmt::format("expects a chip that the simulator knows, such as sim:gfx942, but got '{}'", name));
    }
    return HipDevice::create(std::string(name), std::move(driver), ordinal, options.target);
  }
  KVC_ASSIGN_OR_RETURN(const int ordinal, gpu::parseOrdinal(name));
  const char *named = std::getenv("KVC_HIP");
  KVC_ASSIGN_OR_RETURN(
      std::shared_ptr<hip::Driver> driver,
      hip::Driver::open(named ? std::vector<std::string>{named}
                              : std::vector<std::string>{"libamdhip64.so.6", "libamdhip64.so.7", "libamdhip64.so"}));
  if (driver->simulator.device && !named) {
    return Status(StatusCode::unsupported,
                  fmt::format("expects an AMD driver behind the device '{}', but got the simulator; use sim:<chip>, or "
                              "name a library in KVC_HIP",
                              name));
  }
  int count = 0;
  if (int result = driver->hipGetDeviceCount(&count)) {
    return driver->failure(result, "cannot count the devices");
  }
  if (ordinal >= count) {
    return Status(StatusCode::notFound, fmt::format("expects one of {} HIP devices, but got '{}'", count, name));
  }
  return HipDevice::create(std::string(name), std::move(driver), ordinal, options.target);
}

} // namespace kvc::rt
