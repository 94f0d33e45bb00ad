//===- Temporaries.cpp - Reused device memory for buffers -----------------===//
//
// Size classes and the list of buffers that are not in use.
//
//===----------------------------------------------------------------------===//
#include "core/Temporaries.h"

#include <bit>

namespace kvc::rt {
namespace {

/// Rounds up to a quarter of a power of two: at most a fifth is wasted, and
/// buffers whose sizes grow slowly still fit.
uint64_t sizeClass(uint64_t bytes) {
  if (bytes <= 64) {
    return 64;
  }
  uint64_t step = std::max<uint64_t>(std::bit_floor(bytes - 1) / 4, 64);
  return (bytes + step - 1) / step * step;
}

} // namespace

Temporary::~Temporary() {
  if (owner && memory) {
    owner->giveBack(std::move(memory));
  }
}

Result<Temporary> Temporaries::allocate(uint64_t bytes) {
  uint64_t size = sizeClass(bytes);
  Temporary temporary;
  {
    std::lock_guard lock(mutex);
    if (auto it = kept.find(size); it != kept.end()) {
      temporary.memory = std::move(it->second);
      kept.erase(it);
      totalKept -= size;
    }
  }
  if (!temporary.memory) {
    KVC_ASSIGN_OR_RETURN(temporary.memory, Memory::allocate(device, size, MemoryKind::device));
  }
  temporary.owner = shared_from_this();
  return temporary;
}

void Temporaries::giveBack(Memory memory) {
  std::lock_guard lock(mutex);
  if (totalKept + memory.bytes() <= maxKept) {
    uint64_t size = memory.bytes();
    totalKept += size;
    kept.emplace(size, std::move(memory));
  }
}

uint64_t Temporaries::keptBytes() const {
  std::lock_guard lock(mutex);
  return totalKept;
}

} // namespace kvc::rt
