//===- Temporaries.cpp - Reused device memory for buffers -----------------===//
//
// The list of buffers that are not in use.
//
//===----------------------------------------------------------------------===//
#include "core/Temporaries.h"

#include "core/SizeClass.h"

namespace kvc::rt {
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
    // The lowest address: calls that need the same buffers get the same ones, in whatever order they give them back.
    if (auto it = kept.lower_bound({size, 0}); it != kept.end() && it->first.first == size) {
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
    const auto address = reinterpret_cast<uintptr_t>(memory.data());
    kept.emplace(std::pair(size, address), std::move(memory));
  }
}

uint64_t Temporaries::keptBytes() const {
  std::lock_guard lock(mutex);
  return totalKept;
}

} // namespace kvc::rt
