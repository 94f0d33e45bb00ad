//===- Profile.h - What ran on a device -------------------------*- C++ -*-===//
#ifndef KVC_CORE_PROFILE_H
#define KVC_CORE_PROFILE_H

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace kvc::rt {

/// Dispatches of a device in their order, kept while it is on. Thread-safe.
class Profile {
public:
  struct Dispatch {
    std::string_view function, kernel, device;
    int64_t items = 0;
    /// Of the host's clock, and of the device's (negative: it has none).
    double seconds = 0, deviceSeconds = -1;
    /// What the device counted, a JSON object; empty where it counts nothing.
    std::string_view counters;
  };

  bool isOn() const { return on.load(std::memory_order_relaxed); }
  void set(bool value) { on.store(value, std::memory_order_relaxed); }
  void add(const Dispatch &dispatch);
  /// A JSON array of the dispatches since the last call.
  std::string take();

private:
  std::atomic<bool> on = false;
  std::mutex mutex;
  std::string text; // objects with commas between them
};

} // namespace kvc::rt

#endif // KVC_CORE_PROFILE_H
