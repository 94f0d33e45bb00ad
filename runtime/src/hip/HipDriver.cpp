//===- HipDriver.cpp - The HIP API, found at run time ---------------------===//
#include "hip/HipDriver.h"

#include <fmt/format.h>

#include <dlfcn.h>

namespace kvc::rt::hip {

Result<std::shared_ptr<Driver>> Driver::open(const std::vector<std::string> &libraries) {
  KVC_ASSIGN_OR_RETURN(void *handle, gpu::openLibrary(libraries, "the HIP API"));
  auto driver = std::make_shared<Driver>();
#define KVC_HIP_LOAD(name, ...)                                                                                        \
  driver->name = reinterpret_cast<decltype(driver->name)>(::dlsym(handle, #name));                                     \
  if (!driver->name) {                                                                                                 \
    return Status(StatusCode::unsupported,                                                                             \
                  "expects a library of HIP 6 or later with the function '" #name "', but it has none");               \
  }
  KVC_HIP_FUNCTIONS(KVC_HIP_LOAD)
#undef KVC_HIP_LOAD
  driver->simulator = gpu::SimulatorFunctions::of(handle);
  if (int result = driver->hipInit(0); result != success) {
    return driver->failure(result, "cannot initialise HIP");
  }
  return driver;
}

Status Driver::failure(int result, const std::string &what) const {
  const char *name = hipGetErrorName(result), *text = hipGetErrorString(result);
  std::string message = fmt::format("{}: {} ({}){}", what, name ? name : "error " + std::to_string(result),
                                    text ? text : "", simulator.explanation());
  switch (result) {
  case outOfMemory:
    return {StatusCode::exhausted, message};
  case invalidImage:
  case sharedObjectFailed:
    return {StatusCode::corrupt, message};
  case noBinaryForGpu:
    return {StatusCode::unsupported, message};
  default:
    return {StatusCode::internal, message};
  }
}

} // namespace kvc::rt::hip
