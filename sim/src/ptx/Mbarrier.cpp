//===- Mbarrier.cpp - Barriers in shared memory, barriers of clusters -----===//
#include "ptx/Mbarrier.h"

#include "ptx/Access.h"
#include "ptx/Barrier.h"
#include "ptx/Decoder.h"
#include "ptx/DecoderImpl.h"

using namespace kvc::sim;
using namespace kvc::sim::ptx;

static uint64_t loadWord(Cta &owner, uint32_t address) {
  uint64_t word;
  std::memcpy(&word, owner.shared.data() + address, 8);
  return word;
}

static Mbarrier &findMbarrier(Cta &owner, uint32_t address) {
  owner.shared.checkBounds(address, 8);
  auto found = owner.mbarriers.find(address);
  if (found == owner.mbarriers.end()) {
    fail(FaultKind::InvalidValue,
         "expects an mbarrier that was initialised at offset {} of shared memory, but got none",
         address - reservedShared);
  }
  return found->second;
}

uint64_t kvc::sim::ptx::updateMbarrier(Cta &owner, uint32_t address, int64_t bytes, uint32_t arrivals, bool drop,
                                       const Clocks &clocks) {
  Mbarrier &barrier = findMbarrier(owner, address);
  const uint64_t before = loadWord(owner, address);
  MbarrierWord word = MbarrierWord::unpack(before);
  constexpr int64_t limit = (1 << 20) - 1;
  const int64_t pendingBytes = word.bytes + bytes;
  if (pendingBytes > limit || pendingBytes < -limit) {
    fail(FaultKind::InvalidValue, "expects less than 2^20 pending bytes at an mbarrier, but got {}", pendingBytes);
  }
  if (arrivals > word.pending) {
    fail(FaultKind::InvalidValue, "expects at most {} more arrivals at the mbarrier at offset {}, but got {}",
         word.pending, address - reservedShared, arrivals);
  }
  word.bytes = int32_t(pendingBytes);
  word.pending -= arrivals;
  if (drop) {
    word.expected -= std::min(word.expected, arrivals);
  }
  barrier.arriving.join(clocks);
  if (word.pending == 0 && word.bytes == 0) {
    word.phase = !word.phase;
    word.pending = word.expected;
    barrier.completed = barrier.arriving;
    owner.cluster->timeouts = 0;
  }
  const uint64_t after = word.pack();
  std::memcpy(owner.shared.data() + address, &after, 8);
  return before;
}

bool kvc::sim::ptx::wakeUp(Cluster &cluster) {
  if (!cluster.bulk.empty()) {
    // The oldest first; with a seed, any.
    size_t at = 0;
    if (cluster.launch->options->seed != 0) {
      Worker &worker = *cluster.ctas[0]->warps[0].worker;
      at = size_t(worker.random() % cluster.bulk.size());
    }
    auto work = std::move(cluster.bulk[at]);
    cluster.bulk.erase(cluster.bulk.begin() + ptrdiff_t(at));
    work();
    return true;
  }
  // A suspended try_wait gives up after a while; a program that only asks again and again never goes on.
  constexpr unsigned limit = 2000;
  bool any = false;
  for (auto &cta : cluster.ctas) {
    for (Warp &warp : cta->warps) {
      if (!warp.done && (warp.inTryWait || warp.spun)) {
        warp.timedOut = warp.inTryWait;
        any = true;
      }
    }
  }
  return any && ++cluster.timeouts < limit;
}

namespace {

/// Inst::aux.
enum : uint64_t { narrowAddress = 1, dropArrivals = 2, hasState = 4, isParity = 8, isTry = 16, noIncrement = 32 };

/// The shared address of a lane, generic or not.
Cta &ownerOf(Warp &warp, uint64_t address, bool generic, unsigned lane, uint32_t &offset) {
  if (generic) {
    if (windowOf(address) != Space::Shared) {
      fail(FaultKind::IllegalAddress, "expects an address of shared memory, but got {:#x} (lane {})", address, lane);
    }
  } else if (address >> 32) {
    fail(FaultKind::IllegalAddress, "expects a shared address below 2^32, but got {:#x} (lane {})", address, lane);
  }
  offset = uint32_t(address);
  checkAligned(offset, 8, lane);
  return sharedOwner(warp, offset);
}

/// The barrier is used by many: only its initialisation must come before.
void noteUse(Warp &warp, Cta &owner, uint32_t offset, unsigned lane) {
  if (&owner == warp.cta) {
    owner.shared.atomic(offset, 8, warp.accessor(lane));
  }
}

template <bool generic, typename F> void eachBarrier(Warp &warp, const Inst &inst, Place base, uint32_t active, F f) {
  LaneAddresses addresses;
  addressesOf(warp, base, inst.aux & narrowAddress, inst.imm, addresses);
  eachLane(active, [&](unsigned lane) {
    uint32_t offset = 0;
    Cta &owner = ownerOf(warp, addresses.at[lane], generic, lane, offset);
    f(lane, owner, offset);
  });
}

/// op: address, count.
template <bool generic> void execInit(Warp &warp, const Inst &inst, uint32_t active) {
  const uint32_t *counts = warp.lanes<uint32_t>(inst.op[1]);
  eachBarrier<generic>(warp, inst, inst.op[0], active, [&](unsigned lane, Cta &owner, uint32_t offset) {
    const uint32_t count = counts[lane];
    if (count == 0 || count >= 1 << 20) {
      fail(FaultKind::InvalidValue, "expects an mbarrier of 1 to 2^20-1 arrivals, but got {}", count);
    }
    const uint64_t word = MbarrierWord{count, count, 0, false}.pack();
    owner.shared.write(offset, 8, &word, warp.accessor(lane));
    owner.mbarriers[offset] = {};
  });
}

template <bool generic> void execInvalidate(Warp &warp, const Inst &inst, uint32_t active) {
  eachBarrier<generic>(warp, inst, inst.op[0], active, [&](unsigned lane, Cta &owner, uint32_t offset) {
    findMbarrier(owner, offset);
    owner.mbarriers.erase(offset);
  });
}

/// op: [state], address, count. row.op in imm's sign is not needed: aux bits 8.. say what: 0 arrive, 1
/// arrive.expect_tx, 2 expect_tx, 3 complete_tx.
template <bool generic> void execArrive(Warp &warp, const Inst &inst, uint32_t active) {
  const bool state = inst.aux & hasState;
  const auto kind = unsigned(inst.aux >> 8 & 3);
  const uint32_t *counts = warp.lanes<uint32_t>(inst.op[state ? 2 : 1]);
  eachBarrier<generic>(warp, inst, inst.op[state ? 1 : 0], active, [&](unsigned lane, Cta &owner, uint32_t offset) {
    noteUse(warp, owner, offset, lane);
    const uint32_t count = counts[lane];
    const int64_t bytes = kind == 0 ? 0 : kind == 3 ? -int64_t(count) : int64_t(count);
    const uint32_t arrivals = kind == 0 ? count : kind == 1 ? 1 : 0;
    static const Clocks none;
    const uint64_t before = updateMbarrier(owner, offset, bytes, arrivals, inst.aux & dropArrivals,
                                           &owner == warp.cta ? warp.clocks : none);
    if (state) {
      warp.lanes<uint64_t>(inst.op[0])[lane] = before;
    }
  });
  warp.tick();
}

/// op: p, address, state or parity. try_wait blocks until the phase is over, or until nothing else can go on.
template <bool generic> void execWait(Warp &warp, const Inst &inst, uint32_t active) {
  uint32_t done = 0;
  uint32_t first = 0;
  eachBarrier<generic>(warp, inst, inst.op[1], active, [&](unsigned lane, Cta &owner, uint32_t offset) {
    noteUse(warp, owner, offset, lane);
    Mbarrier &barrier = findMbarrier(owner, offset);
    const bool phase = MbarrierWord::unpack(loadWord(owner, offset)).phase;
    const bool waited = inst.aux & isParity ? warp.lanes<uint32_t>(inst.op[2])[lane] & 1
                                            : MbarrierWord::unpack(warp.lanes<uint64_t>(inst.op[2])[lane]).phase;
    if (phase != waited) {
      done |= 1u << lane;
      if (&owner == warp.cta) {
        warp.clocks.join(barrier.completed);
      }
    } else {
      first = offset;
    }
  });
  if (done != active && (inst.aux & isTry) && !warp.timedOut) {
    warp.blocked = true;
    warp.inTryWait = true;
    warp.waitReason = "the mbarrier at offset";
    warp.waitId = first - reservedShared;
    return;
  }
  if (done != active) {
    warp.yields = true;
  }
  warp.inTryWait = false;
  warp.timedOut = false;
  uint32_t &p = warp.predicate(inst.op[0]);
  p = (p & ~active) | done;
}

void execPendingCount(Warp &warp, const Inst &inst, uint32_t active) {
  eachLane(active, [&](unsigned lane) {
    warp.lanes<uint32_t>(inst.op[0])[lane] = MbarrierWord::unpack(warp.lanes<uint64_t>(inst.op[1])[lane]).pending;
  });
}

/// cp.async.mbarrier.arrive: the lane arrives when its copies so far are complete. They are completed here as late as
/// the barrier lets them: when nothing else can go on.
template <bool generic> void execCopyArrive(Warp &warp, const Inst &inst, uint32_t active) {
  eachBarrier<generic>(warp, inst, inst.op[0], active, [&](unsigned lane, Cta &owner, uint32_t offset) {
    noteUse(warp, owner, offset, lane);
    Mbarrier &barrier = findMbarrier(owner, offset);
    if (!(inst.aux & noIncrement)) {
      // The pending arrivals of this phase grow by the one that is to come.
      MbarrierWord word = MbarrierWord::unpack(loadWord(owner, offset));
      ++word.pending;
      const uint64_t packed = word.pack();
      std::memcpy(owner.shared.data() + offset, &packed, 8);
    }
    (void)barrier;
    // Copies that are issued later belong to other groups.
    const uint32_t group = ++warp.groups[lane];
    Warp *self = &warp;
    Cta *cta = &owner;
    warp.cta->cluster->bulk.push_back([self, cta, lane, group, offset] {
      completeCopies(*self, lane, group);
      Clocks clocks;
      clocks.seen[warpAgents + self->index] = self->clocks.seen[warpAgents + self->index];
      updateMbarrier(*cta, offset, 0, 1, false, clocks);
    });
  });
}

// Barriers of clusters: every warp of the cluster arrives once a phase.
void execClusterArrive(Warp &warp, const Inst &inst, uint32_t active) {
  Cluster &cluster = *warp.cta->cluster;
  if (active != warp.alive) {
    fail(FaultKind::Unsupported, "expects all lanes of the warp at a barrier of the cluster, but got lanes {:#010x}",
         active);
  }
  if (warp.clusterArrived) {
    fail(FaultKind::Deadlock, "expects barrier.cluster.wait between two arrivals");
  }
  warp.clusterArrived = true;
  warp.clusterPhase = cluster.phase;
  warp.cta->clusterClocks.join(warp.clocks);
  warp.tick();
  ++cluster.arrived;
  completeClusterPhase(cluster);
}

void execClusterWait(Warp &warp, const Inst &inst, uint32_t active) {
  Cluster &cluster = *warp.cta->cluster;
  if (!warp.clusterArrived) {
    fail(FaultKind::Deadlock, "expects barrier.cluster.arrive before the wait");
  }
  if (cluster.phase == warp.clusterPhase) {
    warp.blocked = true;
    warp.waitReason = "the barrier of the cluster, phase";
    warp.waitId = uint32_t(cluster.phase);
    return;
  }
  warp.clusterArrived = false;
  warp.clocks.join(warp.cta->clusterClocks);
}

} // namespace

void kvc::sim::ptx::completeClusterPhase(Cluster &cluster) {
  uint32_t live = 0;
  for (const auto &cta : cluster.ctas) {
    for (const Warp &warp : cta->warps) {
      live += !warp.done && warp.alive != 0;
    }
  }
  if (cluster.arrived != 0 && cluster.arrived >= live) {
    cluster.arrived = 0;
    ++cluster.phase;
    cluster.timeouts = 0;
  }
}

// Decoding ------------------------------------------------------------------------------------------------------------

static bool isGeneric(const Build &b) { return !b.has("shared") && !b.has("shared::cta") && !b.has("shared::cluster"); }

static void takeAddress(Build &b) {
  b.inst.aux |= b.address(isGeneric(b) ? Space::Generic : Space::SharedCluster) ? narrowAddress : 0;
}

static void initRow(Build &b, const Row &row) {
  takeAddress(b);
  b.src(Type::U32);
  b.inst.exec = isGeneric(b) ? execInit<true> : execInit<false>;
}

static void invalidateRow(Build &b, const Row &row) {
  takeAddress(b);
  b.inst.exec = isGeneric(b) ? execInvalidate<true> : execInvalidate<false>;
}

/// row.op: the kind, as execArrive says.
static void arriveRow(Build &b, const Row &row) {
  b.inst.aux = uint64_t(row.op) << 8;
  const bool arrives = row.op < 2;
  if (arrives && b.peek().kind != Operand::Kind::Address) {
    // `_`: the state is not wanted.
    b.dst(Type::B64);
    b.inst.aux |= hasState;
  }
  if (b.source.opcode == "mbarrier" && b.has("arrive_drop")) {
    b.inst.aux |= dropArrivals;
  }
  takeAddress(b);
  if (b.left() > 0) {
    b.src(Type::U32);
  } else if (row.op == 0) {
    b.append(b.constant(1, 4));
  } else {
    b.refuse("a count of bytes");
  }
  b.inst.exec = isGeneric(b) ? execArrive<true> : execArrive<false>;
}

static void waitRow(Build &b, const Row &row) {
  b.dstPred();
  takeAddress(b);
  const bool parity = b.has("parity");
  b.src(parity ? Type::U32 : Type::B64);
  b.inst.aux |= (parity ? isParity : 0) | (b.has("try_wait") ? isTry : 0);
  if (b.left() > 0) {
    b.src(Type::U32); // the time that it may be suspended
  }
  b.inst.flow = Flow::Wait;
  b.inst.exec = isGeneric(b) ? execWait<true> : execWait<false>;
}

static void pendingCountRow(Build &b, const Row &row) {
  b.dst(Type::U32);
  b.src(Type::B64);
  b.inst.exec = execPendingCount;
}

static void copyArriveRow(Build &b, const Row &row) {
  takeAddress(b);
  b.inst.aux |= b.has("noinc") ? noIncrement : 0;
  b.inst.exec = isGeneric(b) ? execCopyArrive<true> : execCopyArrive<false>;
}

static void clusterArriveRow(Build &b, const Row &row) {
  b.inst.aligned = b.has("aligned");
  b.inst.exec = execClusterArrive;
}

static void clusterWaitRow(Build &b, const Row &row) {
  b.inst.aligned = b.has("aligned");
  b.inst.flow = Flow::Wait;
  b.inst.exec = execClusterWait;
}

#define KVCSIM_SHARED "[shared|shared::cta|shared::cluster] b64"

std::span<const Row> kvc::sim::ptx::mbarrierRows() {
  static const Row rows[] = {
      {"mbarrier init [shared|shared::cta] b64", Class::Barrier, initRow, 0, 80, 70},
      {"mbarrier inval [shared|shared::cta] b64", Class::Barrier, invalidateRow, 0, 80, 70},
      {"mbarrier arrive|arrive_drop [release|relaxed] [cta|cluster] " KVCSIM_SHARED, Class::Barrier, arriveRow, 0, 80,
       70},
      {"mbarrier arrive|arrive_drop noComplete [release] [cta] [shared|shared::cta] b64", Class::Barrier, arriveRow, 0,
       80, 70},
      {"mbarrier arrive|arrive_drop expect_tx [release|relaxed] [cta|cluster] " KVCSIM_SHARED, Class::Barrier,
       arriveRow, 1, 90, 80},
      {"mbarrier expect_tx [relaxed] [cta|cluster] " KVCSIM_SHARED, Class::Barrier, arriveRow, 2, 90, 80},
      {"mbarrier complete_tx [relaxed] [cta|cluster] " KVCSIM_SHARED, Class::Barrier, arriveRow, 3, 90, 80},
      {"mbarrier test_wait|try_wait [parity] [acquire|relaxed] [cta|cluster] [shared|shared::cta] b64", Class::Barrier,
       waitRow, 0, 80, 70},
      {"mbarrier pending_count b64", Class::Integer, pendingCountRow, 0, 80, 70},
      {"cp async mbarrier arrive [noinc] [shared|shared::cta] b64", Class::Barrier, copyArriveRow, 0, 80, 70},
      {"barrier cluster arrive [release|relaxed] [aligned]", Class::Barrier, clusterArriveRow, 0, 90, 78},
      {"barrier cluster wait [acquire] [aligned]", Class::Barrier, clusterWaitRow, 0, 90, 78},
  };
  return rows;
}
