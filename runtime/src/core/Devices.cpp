//===- Devices.cpp - The devices by name ----------------------------------===//
#include "core/Device.h"
#include "cpu/CpuDevice.h"
#include "cuda/CudaDevice.h"
#include "hip/HipDevice.h"

#include <fmt/format.h>

#include <cstdlib>

namespace kvc::rt {

Result<std::shared_ptr<Device>> createDevice(std::string_view name, const DeviceOptions &given) {
  DeviceOptions options = given;
  if (const char *variable = std::getenv("KVC_TARGET"); options.target.empty() && variable) {
    options.target = variable;
  }
  if (name == "cpu") {
    return createCpuDevice(options);
  }
  if (name.substr(0, 4) == "hip:" || name.substr(0, 7) == "sim:gfx") {
    return createHipDevice(name, options);
  }
  if (name.substr(0, 5) == "cuda:" || name.substr(0, 4) == "sim:") {
    return createCudaDevice(name, options);
  }
  return Status(StatusCode::notFound,
                fmt::format("expects device 'cpu', 'cuda:N', 'hip:N' or 'sim:<chip>', but got '{}'", name));
}

} // namespace kvc::rt
