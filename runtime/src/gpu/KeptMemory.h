//===- KeptMemory.h - Memory that is handed out again -----------*- C++ -*-===//
//
// A driver's allocations are slow, and its releases wait for the device. All work is in one stream, so what still runs
// is done before a new user's work begins. The lowest address comes first: the same calls get the same addresses, which
// graphs need.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_GPU_KEPTMEMORY_H
#define KVC_GPU_KEPTMEMORY_H

#include "core/SizeClass.h"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <set>
#include <utility>

namespace kvc::rt::gpu {

/// Thread-safe.
class KeptMemory {
public:
  /// Of blocks up to `largest` bytes at most `most` bytes in all.
  KeptMemory(uint64_t largest, uint64_t most) : largest(largest), most(most) {}

  /// What to allocate for `bytes`. A launch wants addresses even of what is empty.
  uint64_t sizeOf(uint64_t bytes) const { return bytes <= largest ? sizeClass(std::max<uint64_t>(bytes, 1)) : bytes; }

  /// Null where none of that size is kept.
  void *take(uint64_t size) {
    std::lock_guard lock(mutex);
    auto it = blocks.lower_bound({size, nullptr});
    if (it == blocks.end() || it->first != size) {
      return nullptr;
    }
    void *memory = it->second;
    blocks.erase(it);
    total -= size;
    return memory;
  }

  /// False where there is no room.
  bool keep(uint64_t size, void *memory) {
    std::lock_guard lock(mutex);
    if (size > largest || total + size > most) {
      return false;
    }
    total += size;
    blocks.emplace(size, memory);
    return true;
  }

  template <typename Function> void forEach(Function function) const {
    for (const auto &[size, memory] : blocks) {
      function(memory);
    }
  }

private:
  const uint64_t largest, most;
  std::mutex mutex;
  std::set<std::pair<uint64_t, void *>> blocks;
  uint64_t total = 0;
};

} // namespace kvc::rt::gpu

#endif // KVC_GPU_KEPTMEMORY_H
