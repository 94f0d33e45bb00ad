//===- Machine.h - State of a running kernel --------------------*- C++ -*-===//
//
// A work-group is run by one thread, wave after wave. Vector registers are rows of 64 lanes; a wave of 32 lanes uses
// the first half.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_AMDGCN_MACHINE_H
#define KVCSIM_AMDGCN_MACHINE_H

#include "amdgcn/Hazards.h"
#include "amdgcn/Program.h"
#include "amdgcn/Waits.h"
#include "common/Access.h"
#include "common/SharedMemory.h"

#include <atomic>
#include <bit>
#include <map>

namespace kvc::sim::amdgcn {

struct Workgroup;
struct Worker;
struct Launch;

struct Wave {
  /// 512 rows.
  uint32_t *v = nullptr;
  alignas(8) std::array<uint32_t, sreg::Count> s{};
  unsigned lanes = rowLanes;
  uint64_t laneMask = 0;
  int32_t pc = 0, next = 0;
  Workgroup *group = nullptr;
  Worker *worker = nullptr;
  uint32_t index = 0;
  bool blocked = false, done = false;
  const char *waitReason = "";
  uint64_t executed = 0;
  std::vector<uint32_t> registers;
  std::vector<uint8_t> privateMemory;
  Waits waits;
  Hazards hazards;
  /// What the wave knows; its own entry counts the barriers that it has arrived at, that of its loads to LDS how many
  /// of them it has waited for.
  Clocks clocks;
  /// LDS operations that were not waited for: the number of the last one of each phase between barriers.
  std::deque<std::pair<uint32_t, uint32_t>> ldsPending;
  /// Loads whose destination is LDS: number and clock; how many there were.
  std::deque<std::pair<uint32_t, uint32_t>> ldsLoads;
  uint32_t ldsLoadClock = 0;
  bool barrierSignalled = false;
  uint64_t barrierPhase = 0;

  unsigned loadAgent() const { return warpAgents + index; }
  void ldsIssued(uint32_t number) {
    const uint32_t phase = clocks.seen[index];
    if (!ldsPending.empty() && ldsPending.back().second == phase) {
      ldsPending.back().first = number;
    } else {
      ldsPending.emplace_back(number, phase);
    }
  }
  /// The last phase of which it has waited for everything: what a barrier hands on.
  uint32_t knownPhase() const { return ldsPending.empty() ? clocks.seen[index] : ldsPending.front().second - 1; }

  uint32_t *row(unsigned reg) { return v + size_t(reg) * rowLanes; }
  uint64_t exec() const { return (s[sreg::Exec] | (uint64_t(s[sreg::Exec + 1]) << 32)) & laneMask; }
  void setExec(uint64_t mask) {
    s[sreg::Exec] = uint32_t(mask & laneMask);
    s[sreg::Exec + 1] = uint32_t((mask & laneMask) >> 32);
  }
  uint64_t pair(unsigned reg) const { return s[reg] | (uint64_t(s[reg + 1]) << 32); }
  void setPair(unsigned reg, uint64_t value) {
    if (reg != sreg::Null) {
      s[reg] = uint32_t(value);
      s[reg + 1] = uint32_t(value >> 32);
    }
  }
  /// A mask of the wave's lanes in scalar registers.
  uint64_t mask(unsigned reg) const { return lanes == 64 ? pair(reg) : s[reg]; }
  void setMask(unsigned reg, uint64_t value) {
    if (lanes == 64) {
      setPair(reg, value);
    } else if (reg != sreg::Null) {
      s[reg] = uint32_t(value);
    }
  }
};

struct Workgroup {
  const Launch *launch = nullptr;
  uint32_t x = 0, y = 0, z = 0;
  uint64_t id = 0;
  uint32_t threads = 0;
  SharedMemory lds;
  std::vector<std::unique_ptr<Wave>> waves;
  // The barrier of the work-group.
  uint32_t arrived = 0;
  uint64_t phase = 0;
  Clocks arriving, completed;
  uint32_t running = 0;
};

/// What a thread that runs work-groups keeps for itself.
struct Worker : LaunchWorker {
  const Launch *launch = nullptr;
};

struct Launch {
  const Program *program = nullptr;
  const LaunchConfig *config = nullptr;
  const LaunchOptions *options = nullptr;
  GlobalMemory *memory = nullptr;
  uint64_t kernarg = 0, dispatchPacket = 0, privateBase = 0;
  uint32_t ldsBytes = 0;
};

inline InstCounters &countersOf(Wave &wave, const Inst &inst) { return wave.worker->counters[inst.index]; }
inline const Program &programOf(const Wave &wave) { return *wave.worker->launch->program; }

/// The value of a scalar source.
inline uint32_t scalar32(const Wave &wave, const Source &source) {
  return source.kind == Source::Kind::Constant ? uint32_t(source.value) : wave.s[source.reg];
}
inline uint64_t scalar64(const Wave &wave, const Source &source) {
  return source.kind == Source::Kind::Constant ? source.value : source.reg == sreg::Null ? 0 : wave.pair(source.reg);
}
inline void setScalar(Wave &wave, unsigned reg, uint32_t value) {
  if (reg != sreg::Null && !(reg == sreg::Exec + 1 && wave.lanes == 32)) {
    wave.s[reg] = value;
  }
}

/// Rows of a source, its modifiers applied; `scratch` has room for 4 rows.
const uint32_t *fetch(Wave &wave, const Inst &inst, const Source &source, uint32_t *scratch);

void checkLaunch(const Program &program, const LaunchConfig &config);

/// Runs a kernel to its end. Throws Fault with the place of the error.
LaunchResult runKernel(const Program &program, const LaunchConfig &config, GlobalMemory &memory,
                       const LaunchOptions &options);

/// "file.hsaco:kernel+0x40: `text`" of an instruction.
std::string describe(const Program &program, const Inst &inst);
std::string describe(const Program &program, uint32_t index);

/// Arrives at the barrier of the work-group; ends the wait where all have.
void arriveAtBarrier(Wave &wave);
void waveEnded(Wave &wave);

} // namespace kvc::sim::amdgcn

#endif // KVCSIM_AMDGCN_MACHINE_H
