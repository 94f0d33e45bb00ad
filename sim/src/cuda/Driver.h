//===- Driver.h - State of the simulated driver -----------------*- C++ -*-===//
//
// Work is done when it is asked for, in the calling thread, under one lock: an order that every program must be right
// for. What a kernel does wrong is told by the calls after its launch, as a real driver does, and stays with the
// context.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_CUDA_DRIVER_H
#define KVCSIM_CUDA_DRIVER_H

#include "common/DriverOptions.h"
#include "common/Fault.h"
#include "cuda/Chips.h"
#include "cuda/DriverTypes.h"
#include "ptx/Session.h"

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#define KVCSIM_API extern "C" __attribute__((visibility("default"))) int

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

struct Graph {
  std::vector<std::function<Result()>> work;
};
struct GraphExec {
  std::vector<std::function<Result()>> work;
};

struct Stream {
  Context *context = nullptr;
  unsigned flags = 0;
  int priority = 0;
  /// While it captures: what it has, how strict it is with other calls, who began it, and whether such a call has
  /// spoiled it.
  std::unique_ptr<Graph> capture;
  CaptureMode captureMode = CaptureGlobal;
  std::thread::id captureThread;
  bool captureIsInvalid = false;
};

struct Event {
  Context *context = nullptr;
  bool recorded = false;
  std::chrono::steady_clock::time_point time;
};

struct Device;

struct Context {
  Device *device = nullptr;
  int references = 0;
  unsigned flags = 0;
  /// What every call returns after a kernel has failed.
  Result failed = Success;
  GlobalMemory memory;
  std::set<std::unique_ptr<ModuleHandle>> modules;
  std::set<std::unique_ptr<Stream>> streams;
  std::set<std::unique_ptr<Event>> events;
  std::set<std::unique_ptr<Graph>> graphs;
  std::set<std::unique_ptr<GraphExec>> graphExecs;
  std::map<void *, std::unique_ptr<uint8_t[]>> hostMemory;
  std::set<void *> registered;
  Stream nullStream;
};

struct Device {
  const Chip *chip = nullptr;
  std::unique_ptr<Context> primary;
};

struct Driver : DriverOptions {
  std::recursive_mutex mutex;
  bool initialised = false;
  std::vector<std::unique_ptr<Device>> devices;
  std::set<std::unique_ptr<Context>> contexts;
};

Driver &driver();
/// Contexts of the calling thread; the last one is current.
std::vector<Context *> &contextStack();
/// Sets an option; false when the name or the value is not known.
bool setOption(std::string_view name, std::string_view value);
/// Reads the environment once.
void initialise();

/// Remembers the text of an error.
Result error(Result result, std::string text);
Result resultOf(const Fault &fault);

template <typename Set> auto *addTo(Set &set, typename Set::value_type value) {
  auto *pointer = value.get();
  set.insert(std::move(value));
  return pointer;
}
template <typename Set, typename T> bool removeFrom(Set &set, T *pointer) {
  return std::erase_if(set, [&](const auto &owned) { return owned.get() == pointer; }) != 0;
}
template <typename Set, typename T> bool isIn(const Set &set, const T *pointer) {
  return std::any_of(set.begin(), set.end(), [&](const auto &owned) { return owned.get() == pointer; });
}

/// Runs a call under the lock, with its exceptions turned into results.
template <typename F> int guarded(F f) {
  std::lock_guard lock(driver().mutex);
  try {
    return f();
  } catch (const Fault &fault) {
    return error(resultOf(fault), fault.what());
  } catch (const std::bad_alloc &) {
    return error(OutOfMemory, "expects host memory for the simulated device, but got none");
  } catch (const std::exception &other) {
    return error(Unknown, other.what());
  }
}

/// The same for calls that need a context that is current and has not failed.
template <typename F> int withContext(F f) {
  return guarded([&]() -> Result {
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

/// A call that is no part of a stream's work, and may not be made while one captures (but in relaxed mode, or, in
/// thread-local mode, by other threads): it fails and spoils the capture.
Result refuseWhileCapturing(Context &context, const char *what);
template <typename F> int withoutCapture(const char *what, F f) {
  return withContext([&](Context &context) -> Result {
    const Result refused = refuseWhileCapturing(context, what);
    return refused == Success ? f(context) : refused;
  });
}

/// Does work now, or records it where the stream captures.
Result enqueue(Context &context, Stream *stream, std::function<Result()> work);
/// Null (the default stream) or a stream of the context; null for an invalid handle.
Stream *streamOf(Context &context, Stream *stream);

} // namespace kvc::sim::cuda

#endif // KVCSIM_CUDA_DRIVER_H
