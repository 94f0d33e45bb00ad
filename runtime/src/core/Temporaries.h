//===- Temporaries.h - Reused device memory for buffers ---------*- C++ -*-===//
//
// A decode step allocates the same buffers as the one before. Keeping them
// saves the allocator, and the page faults that fresh memory costs.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_CORE_TEMPORARIES_H
#define KVC_CORE_TEMPORARIES_H

#include "core/Device.h"

#include <map>
#include <mutex>

namespace kvc::rt {

class Temporaries;

/// A buffer that goes back to its Temporaries.
class Temporary {
public:
  Temporary() = default;
  Temporary(Temporary &&) = default;
  Temporary &operator=(Temporary &&other) noexcept {
    std::swap(owner, other.owner);
    std::swap(memory, other.memory);
    return *this;
  }
  ~Temporary();

  void *data() const { return memory.data(); }
  /// A size class.
  uint64_t bytes() const { return memory.bytes(); }
  explicit operator bool() const { return bool(memory); }

private:
  friend class Temporaries;
  std::shared_ptr<Temporaries> owner;
  Memory memory;
};

/// Thread-safe. Keeps at most `maxKept` bytes that are not in use.
class Temporaries : public std::enable_shared_from_this<Temporaries> {
public:
  static constexpr uint64_t maxKept = uint64_t(1) << 30;

  explicit Temporaries(std::shared_ptr<Device> device) : device(std::move(device)) {}

  Result<Temporary> allocate(uint64_t bytes);
  /// Bytes that are kept and not in use.
  uint64_t keptBytes() const;

private:
  friend class Temporary;
  void giveBack(Memory memory);

  std::shared_ptr<Device> device;
  mutable std::mutex mutex;
  /// By size and address.
  std::map<std::pair<uint64_t, uintptr_t>, Memory> kept;
  uint64_t totalKept = 0;
};

} // namespace kvc::rt

#endif // KVC_CORE_TEMPORARIES_H
