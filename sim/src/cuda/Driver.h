//===- Driver.h - State of the simulated driver -----------------*- C++ -*-===//
//
// Work is done when it is asked for, in the calling thread, under one lock: an order that every program must be right
// for. What a kernel does wrong is told by the calls after its launch, as a real driver does, and stays with the
// context.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_CUDA_DRIVER_H
#define KVCSIM_CUDA_DRIVER_H

#include "common/DeviceMemory.h"
#include "common/DriverShell.h"
#include "common/Streams.h"
#include "cuda/Chips.h"
#include "cuda/DriverTypes.h"
#include "ptx/Session.h"

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace kvc::sim::cuda {

struct FunctionHandle {
  ModuleHandle *module = nullptr;
  const ptx::Program *program = nullptr;
  int maxDynamicShared = 0;
  bool nonPortableCluster = false;
};

struct ModuleHandle {
  Context *context = nullptr;
  std::unique_ptr<ptx::LoadedModule> loaded;
  std::map<std::string, std::unique_ptr<FunctionHandle>> functions;
};

struct Device;

struct Context {
  Device *device = nullptr;
  int references = 0;
  unsigned flags = 0;
  /// What every call returns after a kernel has failed.
  Result failed = Success;
  DeviceMemory memory;
  Handles<ModuleHandle> modules;
  Streams streams;

  Context(DriverOptions &state, Device &device);
};

struct Device {
  const Chip *chip = nullptr;
  std::unique_ptr<Context> primary;

  Device(DriverOptions &, const Chip &chip) : chip(&chip) {}
};

struct Driver : DriverShell<Device, findChip> {
  Handles<Context> contexts;
};

Driver &driver();
/// Contexts of the calling thread; the last one is current.
std::vector<Context *> &contextStack();

/// Remembers the text of an error.
Result error(Result result, std::string text);
Result resultOf(const Fault &fault);

/// Runs a call under the lock, with its exceptions turned into results.
template <typename F> int guarded(F f) {
  std::lock_guard lock(driver().mutex);
  return withoutExceptions([&]() -> int { return f(); },
                           [](const Fault &fault) -> int { return error(resultOf(fault), fault.what()); });
}

/// The same for calls that need a context that is current and has not failed.
template <typename F> int withContext(F f) {
  return guarded([&]() -> int {
    if (!driver().initialised) {
      return error(NotInitialized, "expects cuInit before other calls");
    }
    if (contextStack().empty() || !contextStack().back()) {
      return error(InvalidContext, "expects a current context, but got none");
    }
    Context &context = *contextStack().back();
    if (context.failed != Success) {
      return context.failed;
    }
    return f(context);
  });
}

/// A call that may not be made while a stream captures.
template <typename F> int withoutCapture(const char *what, F f) {
  return withContext([&](Context &context) -> int {
    const int refused = context.streams.refuseWhileCapturing(what);
    return refused == Success ? f(context) : refused;
  });
}

} // namespace kvc::sim::cuda

#endif // KVCSIM_CUDA_DRIVER_H
