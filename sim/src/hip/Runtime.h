//===- Runtime.h - State of the simulated HIP runtime -----------*- C++ -*-===//
//
// Work is done when it is asked for, in the calling thread, under one lock: an order that every program must be right
// for. What a kernel does wrong is told by the calls after its launch, and stays with the device.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_HIP_RUNTIME_H
#define KVCSIM_HIP_RUNTIME_H

#include "amdgcn/Session.h"
#include "common/DriverOptions.h"
#include "hip/HipTypes.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#define KVCSIM_API extern "C" __attribute__((visibility("default"))) int

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
struct Stream {
  unsigned flags = 0;
};
struct Event {
  bool recorded = false;
  std::chrono::steady_clock::time_point time;
};

struct Device {
  const amdgcn::Chip *chip = nullptr;
  /// What every call returns after a kernel has failed.
  Result failed = Success;
  GlobalMemory memory;
  std::set<std::unique_ptr<Module>> modules;
  std::set<std::unique_ptr<Stream>> streams;
  std::set<std::unique_ptr<Event>> events;
  std::map<void *, std::unique_ptr<uint8_t[]>> hostMemory;
  std::set<void *> registered;
};

struct Runtime : DriverOptions {
  std::recursive_mutex mutex;
  bool initialised = false;
  std::vector<std::unique_ptr<Device>> devices;
};

Runtime &runtime();
/// The ordinal of the calling thread's device, and its last error.
int &currentDevice();
Result &lastResult();
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
  std::lock_guard lock(runtime().mutex);
  Result result = Success;
  try {
    initialise();
    result = f();
  } catch (const Fault &fault) {
    result = error(resultOf(fault), fault.what());
  } catch (const std::bad_alloc &) {
    result = error(OutOfMemory, "expects host memory for the simulated device, but got none");
  } catch (const std::exception &other) {
    result = error(Unknown, other.what());
  }
  if (result != Success) {
    lastResult() = result;
  }
  return result;
}

/// The same for calls on the thread's device, which must not have failed.
template <typename F> int withDevice(F f) {
  return guarded([&]() -> Result {
    Device &device = *runtime().devices[size_t(currentDevice())];
    return device.failed != Success ? device.failed : f(device);
  });
}

/// False for a handle that is neither null (the default stream) nor a stream of the device.
bool isStream(const Device &device, const Stream *stream);

} // namespace kvc::sim::hip

#endif // KVCSIM_HIP_RUNTIME_H
