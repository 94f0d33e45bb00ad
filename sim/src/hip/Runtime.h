//===- Runtime.h - State of the simulated HIP runtime -----------*- C++ -*-===//
//
// Work is done when it is asked for, in the calling thread, under one lock: an order that every program must be right
// for. What a kernel does wrong is told by the calls after its launch, and stays with the device.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_HIP_RUNTIME_H
#define KVCSIM_HIP_RUNTIME_H

#include "amdgcn/Session.h"
#include "common/DeviceMemory.h"
#include "common/DriverShell.h"
#include "common/Streams.h"
#include "hip/HipTypes.h"

#include <map>
#include <mutex>

namespace kvc::sim::hip {

struct Module;
struct Function {
  Module *module = nullptr;
  const amdgcn::Program *program = nullptr;
};
struct Device;
struct Module {
  Device *device = nullptr;
  std::unique_ptr<amdgcn::LoadedModule> loaded;
  std::map<std::string, std::unique_ptr<Function>> functions;
};

struct Device {
  const amdgcn::Chip *chip = nullptr;
  /// What every call returns after a kernel has failed.
  Result failed = Success;
  DeviceMemory memory;
  Handles<Module> modules;
  Streams streams;

  Device(DriverOptions &state, const amdgcn::Chip &chip)
      : chip(&chip), memory(state, chip.memoryBytes), streams(state) {}
};

using Runtime = DriverShell<Device, amdgcn::findChip>;

Runtime &runtime();
/// The ordinal of the calling thread's device, and its last error.
int &currentDevice();
Result &lastResult();

/// Remembers the text of an error.
Result error(Result result, std::string text);
Result resultOf(const Fault &fault);

/// Runs a call under the lock, with its exceptions turned into results.
template <typename F> int guarded(F f) {
  std::lock_guard lock(runtime().mutex);
  const int result = withoutExceptions(
      [&]() -> int {
        runtime().initialise("gfx", "gfx942");
        return f();
      },
      [](const Fault &fault) -> int { return error(resultOf(fault), fault.what()); });
  if (result != Success) {
    lastResult() = Result(result);
  }
  return result;
}

/// The same for calls on the thread's device, which must not have failed.
template <typename F> int withDevice(F f) {
  return guarded([&]() -> int {
    Device &device = *runtime().devices[size_t(currentDevice())];
    return device.failed != Success ? device.failed : f(device);
  });
}

/// The same for calls that may not be made while a stream captures.
template <typename F> int withoutCapture(const char *what, F f) {
  return withDevice([&](Device &device) -> int {
    const int refused = device.streams.refuseWhileCapturing(what);
    return refused == Success ? f(device) : refused;
  });
}

} // namespace kvc::sim::hip

#endif // KVCSIM_HIP_RUNTIME_H
