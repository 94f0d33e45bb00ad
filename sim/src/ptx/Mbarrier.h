//===- Mbarrier.h - Barriers in shared memory -------------------*- C++ -*-===//
//
// An mbarrier is a 64-bit word in shared memory. Programs may read it (the state of an arrival); its layout is the
// simulator's own: bits 0-19 the expected arrivals, 20-39 those that are pending, 40-61 the bytes that are pending
// (signed), 63 the phase.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_PTX_MBARRIER_H
#define KVCSIM_PTX_MBARRIER_H

#include "ptx/Machine.h"

namespace kvc::sim::ptx {

struct MbarrierWord {
  uint32_t expected, pending;
  int32_t bytes;
  bool phase;

  static MbarrierWord unpack(uint64_t word) {
    return {uint32_t(word & 0xfffff), uint32_t(word >> 20 & 0xfffff), int32_t(int64_t(word << 2) >> 42),
            bool(word >> 63)};
  }
  uint64_t pack() const {
    return uint64_t(expected) | uint64_t(pending) << 20 | (uint64_t(uint32_t(bytes)) & 0x3fffff) << 40 |
           uint64_t(phase) << 63;
  }
};

/// Adds bytes that are expected (or, negative, that have arrived) and arrivals; ends the phase where nothing is
/// pending. Gives the word before. `clocks` is what the arrival hands on.
uint64_t updateMbarrier(Cta &owner, uint32_t address, int64_t bytes, uint32_t arrivals, bool drop,
                        const Clocks &clocks);

} // namespace kvc::sim::ptx

#endif // KVCSIM_PTX_MBARRIER_H
