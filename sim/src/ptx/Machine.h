//===- Machine.h - State of a running kernel --------------------*- C++ -*-===//
//
// A launch has clusters of CTAs (of one CTA where the program does not use clusters); a cluster is run by one thread,
// warp after warp. A warp executes for all of its 32 lanes at a time; lanes that part at a branch meet again at its
// immediate post-dominator.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_PTX_MACHINE_H
#define KVCSIM_PTX_MACHINE_H

#include "common/GlobalMemory.h"
#include "common/Launch.h"
#include "common/SharedMemory.h"
#include "common/Workers.h"
#include "ptx/Program.h"

#include <array>
#include <atomic>
#include <deque>
#include <map>

namespace kvc::sim::ptx {

struct Cta;
struct Cluster;
struct Worker;
using sim::Dim3;
using sim::InstCounters;
using sim::LaunchConfig;
using sim::LaunchOptions;
using sim::LaunchResult;

struct StackEntry {
  int32_t pc;
  int32_t meet;
  uint32_t mask;
  /// The first entry of a called function.
  bool isCall;
};

/// One group of asynchronous copies of a lane.
struct AsyncCopy {
  uint32_t shared;
  uint32_t bytes;
  uint32_t sourceBytes;
  uint64_t global;
  uint32_t index;
  uint8_t lane;
  /// How many groups of the lane were committed before this copy's.
  uint32_t group;
};

/// A copy from shared to global memory that has not taken effect.
struct BulkStore {
  uint8_t lane;
  uint32_t group;
  std::function<void()> work;
};

struct PendingWgmma {
  const Inst *inst;
  uint64_t a, b;
  bool accumulate;
  uint32_t group;
  /// What the warp knew when it was issued.
  Clocks clocks;
};

struct Warp {
  /// Registers, constants.
  uint8_t *base[2] = {nullptr, nullptr};
  Cta *cta = nullptr;
  Worker *worker = nullptr;
  uint32_t index = 0;
  uint32_t alive = 0;
  std::vector<StackEntry> stack;
  std::vector<uint8_t> registers;
  std::vector<uint8_t> local;
  /// The instruction that is executed.
  int32_t pc = 0;
  bool blocked = false;
  bool done = false;
  /// What it waits for, in words: for the report of a deadlock.
  const char *waitReason = "";
  uint32_t waitId = 0;
  Clocks clocks;
  uint64_t executed = 0;

  // Barriers: set while the warp has arrived and waits.
  bool inBarrier = false;
  bool barrierResult = false;
  uint32_t barrierValue = 0;

  // cp.async: copies that have not taken effect, and how many groups each lane has committed.
  std::deque<AsyncCopy> copies;
  std::array<uint32_t, laneCount> groups{};

  // Asynchronous operations that this warp has started: the clock of the last one.
  uint32_t agentClock = 1;
  // Copies from shared to global memory, by lane and group.
  std::vector<BulkStore> stores;
  std::array<uint32_t, laneCount> storeGroups{};
  // wgmma: what has not taken effect, how many groups were committed, and the registers that are in flight (the group
  // plus one, by place / 64).
  std::vector<PendingWgmma> wgmmas;
  uint32_t wgmmaGroup = 0;
  std::vector<uint32_t> inFlight;
  bool anyInFlight = false;
  // Of programs with wgmma: one more than wgmma.fence so far, and what that was when another instruction used each
  // register last (by place / 64).
  uint32_t registerFences = 1;
  std::vector<uint32_t> accessed;

  // Waits at an mbarrier: suspended; told to give up; asked in vain in the last slice.
  bool inTryWait = false, timedOut = false, spun = false;
  /// Ends the slice after the instruction.
  bool yields = false;
  // Barrier of the cluster.
  bool clusterArrived = false;
  uint64_t clusterPhase = 0;

  // Add with carry.
  uint32_t carry = 0;

  Accessor accessor(unsigned lane) const { return {index, lane, &clocks, false, false}; }
  /// Later accesses of this warp are not covered by what it has handed on so far.
  void tick() { ++clocks.seen[index]; }

  template <typename T> T *lanes(Place place) {
    return reinterpret_cast<T *>(base[place >> 31] + (place & ~constantBit));
  }
  uint32_t &predicate(Place place) { return *lanes<uint32_t>(place); }
};

struct NamedBarrier {
  /// Warps that arrived, as often as they did; threads that count.
  std::vector<uint32_t> waiting;
  uint32_t arrivedThreads = 0;
  uint32_t expectedThreads = 0;
  bool full = false;
  Clocks clocks;
  uint32_t value = 0;
  bool hasValue = false;
};

/// What goes with an mbarrier beside its word: the clocks of those that arrive, and of the phase that ended last.
struct Mbarrier {
  Clocks arriving, completed;
};

struct Cta {
  Cluster *cluster = nullptr;
  uint32_t x = 0, y = 0, z = 0;
  uint32_t rank = 0;
  uint32_t threads = 0;
  SharedMemory shared;
  std::vector<Warp> warps;
  std::array<NamedBarrier, 16> barriers;
  /// Clocks handed on through atomics on shared memory, by address.
  std::map<uint32_t, Clocks> atomicClocks;
  std::map<uint32_t, Mbarrier> mbarriers;
  Clocks clusterClocks;
  /// The index of the warp that runs.
  uint32_t running = 0;

  void reset() {
    barriers = {};
    atomicClocks.clear();
    mbarriers.clear();
    clusterClocks = {};
    running = 0;
  }
};

struct Launch;

struct Cluster {
  const Launch *launch = nullptr;
  std::vector<std::unique_ptr<Cta>> ctas;
  uint64_t id = 0;
  /// Copies into shared memory that have not taken effect.
  std::vector<std::function<void()>> bulk;
  /// Times that nothing could go on but a wait that gives up, since the last phase ended.
  unsigned timeouts = 0;
  uint32_t arrived = 0;
  uint64_t phase = 0;

  void reset() {
    bulk.clear();
    timeouts = 0;
    arrived = 0;
    phase = 0;
  }
};

/// What a thread that runs clusters keeps for itself.
struct Worker : LaunchWorker {
  const Launch *launch = nullptr;
};

struct Launch {
  const Program *program = nullptr;
  const LaunchConfig *config = nullptr;
  const LaunchOptions *options = nullptr;
  GlobalMemory *memory = nullptr;
  std::atomic<bool> stop{false};
};

/// Throws Fault where the configuration does not fit the kernel; runKernel does this first.
void checkLaunch(const Program &program, const LaunchConfig &config);

/// Runs a kernel to its end. Throws Fault with the place of the error.
LaunchResult runKernel(const Program &program, const LaunchConfig &config, GlobalMemory &memory,
                       const LaunchOptions &options);

/// Runs a warp for a slice, or until it blocks or ends. True when it executed something.
bool runWarp(Warp &warp, uint32_t slice);

/// "file.ptx:12: `text`" of an instruction, with the source line where the module has it.
std::string describe(const Program &program, const Inst &inst);

} // namespace kvc::sim::ptx

#endif // KVCSIM_PTX_MACHINE_H
