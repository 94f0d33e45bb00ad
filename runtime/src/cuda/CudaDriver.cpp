//===- CudaDriver.cpp - The CUDA driver API, found at run time ------------===//
#include "cuda/CudaDriver.h"

#include <fmt/format.h>

#include <dlfcn.h>

namespace kvc::rt::cuda {

Result<std::shared_ptr<Driver>> Driver::open(const std::vector<std::string> &libraries) {
  KVC_ASSIGN_OR_RETURN(void *handle, gpu::openLibrary(libraries, "the CUDA driver API"));
  auto driver = std::make_shared<Driver>();
#define KVC_CUDA_LOAD(name, ...)                                                                                       \
  driver->name = reinterpret_cast<decltype(driver->name)>(::dlsym(handle, #name));                                     \
  if (!driver->name) {                                                                                                 \
    return Status(StatusCode::unsupported, "expects a CUDA driver with the function '" #name "', but it has none");    \
  }
  KVC_CUDA_FUNCTIONS(KVC_CUDA_LOAD)
#undef KVC_CUDA_LOAD
  driver->simulator = gpu::SimulatorFunctions::of(handle);
  if (int result = driver->cuInit(0); result != success) {
    return driver->failure(result, "cannot initialise the CUDA driver");
  }
  return driver;
}

int Driver::timed(Stream stream, const std::function<int()> &work, double &seconds) const {
  Event events[2] = {};
  int result = success;
  auto then = [&](auto call) {
    if (result == success) {
      result = call();
    }
  };
  for (Event &event : events) {
    then([&] { return cuEventCreate(&event, 0); });
  }
  then([&] { return cuEventRecord(events[0], stream); });
  then(work);
  then([&] { return cuEventRecord(events[1], stream); });
  then([&] { return cuEventSynchronize(events[1]); });
  float milliseconds = 0;
  then([&] { return cuEventElapsedTime(&milliseconds, events[0], events[1]); });
  seconds = double(milliseconds) / 1e3;
  for (Event event : events) {
    if (event) {
      (void)cuEventDestroy_v2(event);
    }
  }
  return result;
}

Status Driver::failure(int result, const std::string &what) const {
  const char *name = nullptr, *text = nullptr;
  (void)cuGetErrorName(result, &name);
  (void)cuGetErrorString(result, &text);
  const std::string message = fmt::format("{}: {} ({}){}", what, name ? name : "error " + std::to_string(result),
                                          text ? text : "", simulator.explanation());
  switch (result) {
  case outOfMemory:
    return {StatusCode::exhausted, message};
  case invalidImage:
  case invalidPtx:
    return {StatusCode::corrupt, message};
  case noBinaryForGpu:
  case noJitCompiler:
    return {StatusCode::unsupported, message};
  case unsupportedPtxVersion:
    return {StatusCode::unsupported, message + "; a newer driver reads it"};
  default:
    return {StatusCode::internal, message};
  }
}

} // namespace kvc::rt::cuda
