//===- Access.h - How instructions reach memory -----------------*- C++ -*-===//
//
// The same for every kind of machine code: lanes of a mask, checks of global addresses, traffic and bank conflicts.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_COMMON_ACCESS_H
#define KVCSIM_COMMON_ACCESS_H

#include "common/Workers.h"

#include <algorithm>
#include <bit>

namespace kvc::sim {

template <typename Mask, typename F> inline void eachLane(Mask active, F f) {
  for (Mask rest = active; rest != 0; rest &= rest - 1) {
    f(unsigned(std::countr_zero(rest)));
  }
}

inline void checkAligned(uint64_t address, uint32_t align, unsigned lane) {
  if (address & (align - 1)) {
    fail(FaultKind::Misaligned, "expects an address that is a multiple of {}, but got {:#x} (lane {})", align, address,
         lane);
  }
}

/// The host's address of global memory.
inline uint8_t *globalAt(LaunchWorker &worker, GlobalMemory &memory, uint64_t address, uint32_t size, unsigned lane,
                         bool store) {
  const Allocation *allocation = worker.lastAllocation[store];
  if (!allocation || !allocation->contains(address, size)) {
    allocation = memory.find(address);
    if (!allocation || !allocation->contains(address, size)) {
      fail(FaultKind::IllegalAddress, "expects {} bytes of global memory at {:#x} (lane {}), but got {}", size, address,
           lane, memory.describe(address));
    }
    if (store && allocation->readOnly) {
      fail(FaultKind::IllegalAddress, "expects memory that can be written at {:#x} (lane {}), but got {}", address,
           lane, memory.describe(address));
    }
    worker.lastAllocation[store] = allocation;
  }
  return allocation->host + (address - allocation->base);
}

/// Lanes of an instruction at most.
inline constexpr unsigned mostLanes = 64;

/// Adds the traffic of one access: `size` bytes, at most 32, of each active lane.
inline void countGlobal(InstCounters &counters, const uint64_t *addresses, uint64_t active, uint32_t size) {
  counters.bytes += uint64_t(std::popcount(active)) * size;
  // In rising order each sector is met in a row; else the list of sectors is sorted.
  uint64_t sectors[mostLanes * 2];
  unsigned count = 0;
  bool rising = true;
  eachLane(active, [&](unsigned lane) {
    for (uint64_t s = addresses[lane] / 32, last = (addresses[lane] + size - 1) / 32; s <= last; ++s) {
      if (count == 0 || sectors[count - 1] != s) {
        rising &= count == 0 || sectors[count - 1] < s;
        sectors[count++] = s;
      }
    }
  });
  if (!rising) {
    std::sort(sectors, sectors + count);
    count = unsigned(std::unique(sectors, sectors + count) - sectors);
  }
  counters.sectors += count;
}

/// Adds the cycles of shared memory for one access, and the least that as many bytes need: groups of lanes whose bytes
/// fill all banks once go together, and each bank gives one word to a group in a cycle.
template <typename Address>
inline void countBanks(InstCounters &counters, const Address *addresses, uint64_t active, uint32_t size,
                       unsigned banks) {
  const unsigned words = std::max(1u, size / 4), group = std::max(1u, banks / words);
  for (unsigned begin = 0; begin < mostLanes; begin += group) {
    const uint64_t part = (active >> begin) & (group >= 64 ? ~uint64_t(0) : (uint64_t(1) << group) - 1);
    if (part == 0) {
      continue;
    }
    // A lane asks a bank for one word at most.
    uint32_t seen[mostLanes][mostLanes];
    uint8_t counts[mostLanes] = {};
    uint8_t most = 1;
    eachLane(part, [&](unsigned lane) {
      for (unsigned w = 0; w < words; ++w) {
        const uint32_t word = uint32_t(addresses[begin + lane] >> 2) + w, bank = word % banks;
        if (std::find(seen[bank], seen[bank] + counts[bank], word) == seen[bank] + counts[bank]) {
          seen[bank][counts[bank]++] = word;
          most = std::max(most, counts[bank]);
        }
      }
    });
    counters.wavefronts += most;
    counters.idealWavefronts += 1;
  }
}

} // namespace kvc::sim

#endif // KVCSIM_COMMON_ACCESS_H
