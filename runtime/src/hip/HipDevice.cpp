//===- HipDevice.cpp - Devices behind the HIP API -------------------------===//
#include "hip/HipDevice.h"
#include "gpu/GpuDevice.h"
#include "hip/HipDriver.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace kvc::rt {
namespace {

/// A number of a device, which a thread makes its own.
class HipContext final : public gpu::DeviceContext {
public:
  HipContext(std::shared_ptr<hip::Driver> driver, int ordinal) : hip(std::move(driver)), ordinal(ordinal) {}

  Status open(std::string_view name) {
    hip::DeviceProperties properties{};
    if (int result = hip->hipGetDevicePropertiesR0600(&properties, ordinal)) {
      return hip->failure(result, fmt::format("cannot open the device '{}'", name));
    }
    // Features follow the name: gfx942:sramecc+:xnack-.
    std::string_view full(properties.architecture, sizeof(properties.architecture));
    architecture = full.substr(0, full.find_first_of(std::string_view(":\0", 2)));
    sharedBytes = properties.sharedBytes;
    computeUnits = properties.computeUnits;
    return {};
  }

  const gpu::Driver &driver() const override { return *hip; }
  int makeCurrent() const override { return hip->hipSetDevice(ordinal); }

  Result<int> rankTarget(std::string_view target, std::string_view device) const override {
    if (target != architecture) {
      return Status(StatusCode::unsupported, fmt::format("expects code of an AMD GPU for {}, which the device '{}' is, "
                                                         "but got '{}'",
                                                         architecture, device, target));
    }
    return 1;
  }

  CodeFormat format() const override { return CodeFormat::hsaco; }
  std::string_view formatName() const override { return "a code object"; }

  int load(gpu::ModuleHandle *module, std::span<const uint8_t> bytes, std::string_view) const override {
    return gpu::isWholeElf(bytes) ? hip->loadModule(module, bytes.data()) : gpu::invalidImage;
  }

  /// All of LDS needs no asking; what is too much would only be told by a launch.
  std::string allowStaging(gpu::Function, uint32_t bytes) const override {
    return bytes <= sharedBytes ? std::string() : fmt::format("a workgroup has at most {} bytes of LDS", sharedBytes);
  }

  int64_t processors() const override { return std::max(1, computeUnits); }
  /// A grid counts work-items in 32 bits.
  int64_t mostItems(const KernelInfo &kernel) const override {
    return std::min<int64_t>(std::numeric_limits<int32_t>::max(),
                             std::numeric_limits<uint32_t>::max() / std::max<uint32_t>(1, kernel.teamLanes));
  }

private:
  std::shared_ptr<hip::Driver> hip;
  int ordinal;
  std::string architecture;
  size_t sharedBytes = 0;
  int computeUnits = 0;
};

} // namespace

Result<std::shared_ptr<Device>> createHipDevice(std::string_view name, const DeviceOptions &options) {
  KVC_ASSIGN_OR_RETURN(auto found, gpu::DriverDevice<hip::Driver>::find(name));
  auto context = std::make_shared<HipContext>(std::move(found.driver), found.ordinal);
  KVC_RETURN_IF_ERROR(context->open(name));
  return gpu::createGpuDevice(name, std::move(context), options);
}

} // namespace kvc::rt
