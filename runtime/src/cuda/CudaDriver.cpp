//===- CudaDriver.cpp - The CUDA driver API, found at run time ------------===//
#include "cuda/CudaDriver.h"

#include <fmt/format.h>

#include <dlfcn.h>
#include <mutex>

namespace kvc::rt::cuda {

Result<std::shared_ptr<Driver>> Driver::open(const std::vector<std::string> &libraries) {
  std::string tried;
  void *handle = nullptr;
  for (const std::string &library : libraries) {
    handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle) {
      break;
    }
    tried += (tried.empty() ? "" : "; ") + std::string(::dlerror());
  }
  if (!handle) {
    return Status(StatusCode::notFound,
                  fmt::format("expects a library with the CUDA driver API, but found none: {}", tried));
  }
  // Drivers do not survive being unloaded: the library stays open.
  auto driver = std::make_shared<Driver>();
  driver->handle = handle;
#define KVC_CUDA_LOAD(name, ...)                                                                                       \
  driver->name = reinterpret_cast<decltype(driver->name)>(::dlsym(handle, #name));                                     \
  if (!driver->name) {                                                                                                 \
    return Status(StatusCode::unsupported, "expects a CUDA driver with the function '" #name "', but it has none");    \
  }
  KVC_CUDA_FUNCTIONS(KVC_CUDA_LOAD)
#undef KVC_CUDA_LOAD
  driver->simulatedDevice = reinterpret_cast<decltype(driver->simulatedDevice)>(::dlsym(handle, "kvcsim_device"));
  driver->simulatorError = reinterpret_cast<decltype(driver->simulatorError)>(::dlsym(handle, "kvcsim_last_error"));
  driver->simulatorOption = reinterpret_cast<decltype(driver->simulatorOption)>(::dlsym(handle, "kvcsim_set_option"));
  driver->simulatorReport = reinterpret_cast<decltype(driver->simulatorReport)>(::dlsym(handle, "kvcsim_take_report"));
  if (int result = driver->cuInit(0); result != success) {
    return driver->failure(result, "cannot initialise the CUDA driver");
  }
  return driver;
}

int Driver::counted(const std::function<int()> &launch, std::string &counters) const {
  if (!simulatorOption || !simulatorReport) {
    return launch();
  }
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  (void)simulatorReport(); // of launches that nobody asked for
  (void)simulatorOption("collect", "on");
  int result = launch();
  // An array of one object.
  std::string_view reports = simulatorReport();
  (void)simulatorOption("collect", "off");
  counters = reports.size() > 2 ? reports.substr(1, reports.size() - 2) : std::string_view();
  return result;
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
  std::string message =
      fmt::format("{}: {} ({})", what, name ? name : "error " + std::to_string(result), text ? text : "");
  if (const char *more = simulatorError ? simulatorError() : nullptr; more && *more) {
    message += fmt::format(": {}", more);
  }
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
