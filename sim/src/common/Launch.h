//===- Launch.h - What is launched, and what comes back ---------*- C++ -*-===//
//
// The same for every kind of machine code: grids of work-groups (CTAs), the checks and orders of a run, and the
// counters of each instruction. "Warp" is the vendor's word or its wave.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_COMMON_LAUNCH_H
#define KVCSIM_COMMON_LAUNCH_H

#include "common/SharedMemory.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvc::sim {

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t count() const { return uint64_t(x) * y * z; }
};

/// Counters of one instruction of the program.
struct InstCounters {
  uint64_t issued = 0;
  uint64_t lanes = 0;
  uint64_t bytes = 0;
  uint64_t sectors = 0;
  uint64_t wavefronts = 0;
  uint64_t idealWavefronts = 0;

  void add(const InstCounters &other) {
    issued += other.issued;
    lanes += other.lanes;
    bytes += other.bytes;
    sectors += other.sectors;
    wavefronts += other.wavefronts;
    idealWavefronts += other.idealWavefronts;
  }
};

struct LaunchOptions {
  SharedChecks checks;
  /// Threads for CTAs; 0: one per processor.
  unsigned threads = 0;
  /// 0: warps are run in order; else in an order drawn from this seed.
  uint64_t seed = 0;
  /// CTAs are started from the last to the first.
  bool reverseOrder = false;
  /// Asynchronous copies take effect when they are issued instead of as late as the waits allow.
  bool earlyAsync = false;
  /// Instructions of one warp that run before another warp gets its turn.
  uint32_t slice = 4096;
  /// Warp instructions of one launch at most; 0: no limit.
  uint64_t instructionLimit = 0;
  unsigned smCount = 108;
};

struct LaunchConfig {
  Dim3 grid, block, cluster;
  uint32_t dynamicShared = 0;
  std::vector<uint8_t> parameters;
};

struct LaunchResult {
  std::vector<InstCounters> counters;
  std::vector<std::string> warnings;
};

} // namespace kvc::sim

#endif // KVCSIM_COMMON_LAUNCH_H
