//===- DriverShell.h - What simulated drivers have in common ----*- C++ -*-===//
//
// Devices by chip, options, the last error, exceptions as results: the same behind CUDA and HIP.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_COMMON_DRIVERSHELL_H
#define KVCSIM_COMMON_DRIVERSHELL_H

#include "common/DriverOptions.h"
#include "common/Fault.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#define KVCSIM_EXPORT extern "C" __attribute__((visibility("default")))
#define KVCSIM_API KVCSIM_EXPORT int

namespace kvc::sim {

/// The state of a driver, of which a process has one. `findChip` gives a chip by its name, or null.
template <typename Device, auto findChip> struct DriverShell : DriverOptions {
  std::recursive_mutex mutex;
  bool initialised = false;
  std::vector<std::unique_ptr<Device>> devices;

  /// The ordinal of a chip's device, which is made where there is none; -1 when no chip has the name.
  int deviceOf(std::string_view target) {
    std::lock_guard lock(mutex);
    const auto *chip = findChip(target);
    if (!chip) {
      lastError = fmt::format("expects a chip that the simulator has, but got {}", target);
      return -1;
    }
    const auto found = std::find_if(devices.begin(), devices.end(), [&](const auto &d) { return d->chip == chip; });
    if (found != devices.end()) {
      return int(found - devices.begin());
    }
    add(target);
    return int(devices.size()) - 1;
  }

  /// False when the name or the value is not known.
  bool setOption(std::string_view name, std::string_view value) {
    std::lock_guard lock(mutex);
    return name == "target" ? setTargets(splitList(value)) : set(name, value);
  }

  /// Reads the environment once. Chips of other vendors are those of their drivers; without any of this one the device
  /// is `standard`.
  void initialise(std::string_view prefix, std::string_view standard) {
    if (initialised) {
      return;
    }
    for (const auto &[variable, name] : optionVariables) {
      const char *value = std::getenv(variable);
      bool known = true;
      if (value && std::string_view(name) == "target") {
        std::vector<std::string_view> targets = splitList(value);
        std::erase_if(targets, [&](std::string_view t) { return isOfOtherVendor(t, prefix); });
        known = targets.empty() || !devices.empty() || setTargets(targets);
      } else if (value) {
        known = set(name, value);
      }
      if (!known) {
        fail(FaultKind::InvalidValue, "expects a value that the simulator knows in {}, but got {}", variable, value);
      }
    }
    if (devices.empty()) {
      add(standard);
    }
    initialised = true;
  }

  const char *errorText() {
    std::lock_guard lock(mutex);
    return lastError.c_str();
  }
  const char *takeReports() {
    std::lock_guard lock(mutex);
    return take();
  }

private:
  static bool isOfOtherVendor(std::string_view target, std::string_view prefix) {
    return !target.starts_with(prefix) && (target.starts_with("sm_") || target.starts_with("gfx"));
  }
  void add(std::string_view target) { devices.push_back(std::make_unique<Device>(*this, *findChip(target))); }
  bool setTargets(const std::vector<std::string_view> &targets) {
    if (targets.empty() || !devices.empty() || !std::all_of(targets.begin(), targets.end(), findChip)) {
      return false;
    }
    for (std::string_view target : targets) {
      add(target);
    }
    return true;
  }
};

/// The result of `f`; what it throws becomes that of `onFault`.
template <typename F, typename OnFault> auto withoutExceptions(F f, OnFault onFault) {
  try {
    return f();
  } catch (const Fault &fault) {
    return onFault(fault);
  } catch (const std::bad_alloc &) {
    return onFault(Fault(FaultKind::OutOfMemory, "expects host memory for the simulated device, but got none"));
  } catch (const std::exception &other) {
    return onFault(Fault(FaultKind::Other, other.what()));
  }
}

} // namespace kvc::sim

#endif // KVCSIM_COMMON_DRIVERSHELL_H
