//===- Bulk.cpp - Bulk and tensor copies (TMA) ----------------------------===//
//
// A load takes effect when nothing else can go on, a store when its lane waits for the group: as late as the program's
// waits allow. Whoever touches the destination of a load before is in error.
//
//===----------------------------------------------------------------------===//
#include "ptx/Access.h"
#include "ptx/Barrier.h"
#include "ptx/Decoder.h"
#include "ptx/DecoderImpl.h"
#include "ptx/Mbarrier.h"
#include "ptx/TensorMap.h"

using namespace kvc::sim;
using namespace kvc::sim::ptx;

namespace {

/// Inst::aux: rank (0: no tensor), which addresses have 32 bits, and more.
enum : uint64_t {
  narrowFirst = 1 << 8,
  narrowSecond = 1 << 9,
  narrowThird = 1 << 10,
  multicast = 1 << 11,
  fromShared = 1 << 12
};

/// One operation: the lane that issues it and what its warp knew.
struct Issue {
  Warp *warp;
  unsigned lane;
  const Inst *inst;
  Clocks clocks;

  Accessor accessor() const { return {warpAgents + warp->index, lane, &clocks, true, false}; }
};

Issue issueOf(Warp &warp, const Inst &inst, unsigned lane) {
  Issue issue{&warp, lane, &inst, warp.clocks};
  issue.clocks.seen[warpAgents + warp.index] = ++warp.agentClock;
  return issue;
}

/// Faults of what takes effect later name the instruction that asked for it.
template <typename F> void inContext(const Issue &issue, F f) {
  try {
    f();
  } catch (const Fault &fault) {
    const Cta &cta = *issue.warp->cta;
    const Program &program = *issue.warp->worker->launch->program;
    throw Fault(fault.kind,
                fmt::format("{}: {}\n  in kernel {}, CTA ({}, {}, {}), warp {}", describe(program, *issue.inst),
                            fault.what(), program.name, cta.x, cta.y, cta.z, issue.warp->index));
  }
}

uint32_t swizzled(uint32_t address, unsigned mode) {
  const uint32_t mask = mode == 0 ? 0 : (1u << mode) - 1;
  return address ^ ((address >> 7 & mask) << 4);
}

TensorMap readMap(Warp &warp, uint64_t address, unsigned lane, unsigned rank) {
  TensorMap map;
  const Space space = windowOf(address);
  checkAligned(address, 64, lane);
  const uint8_t *from = space == Space::Param ? paramAt(warp, uint32_t(address), sizeof map, lane)
                                              : globalAt(warp, address, sizeof map, lane, false);
  std::memcpy(&map, from, sizeof map);
  if (map.magic != TensorMap::mark) {
    fail(FaultKind::InvalidValue, "expects a tensor map of cuTensorMapEncodeTiled at {:#x}, but got other bytes",
         address);
  }
  if (map.rank != rank) {
    fail(FaultKind::InvalidValue, "expects a tensor map of rank {}, but got one of rank {}", rank, map.rank);
  }
  return map;
}

struct Box {
  TensorMap map;
  int32_t at[5] = {};

  uint32_t extent(unsigned i) const { return i < map.rank ? map.boxLast[i] + 1u : 1u; }
  uint32_t rowBytes() const { return extent(0) * map.elementBytes; }
  uint32_t rows() const { return extent(1) * extent(2) * extent(3) * extent(4); }
  uint32_t bytes() const { return rowBytes() * rows(); }

  /// Calls f(offset in the box, address, in range) for each element; rows are innermost.
  template <typename F> void each(F f) const {
    uint32_t offset = 0;
    for (uint32_t row = 0; row < rows(); ++row) {
      uint32_t rest = row;
      uint64_t base = map.address;
      bool inside = true;
      for (unsigned i = 1; i < map.rank; ++i) {
        const int64_t c = int64_t(at[i]) + int64_t(rest % extent(i)) * map.elementStride[i];
        rest /= extent(i);
        inside &= c >= 0 && c <= int64_t(map.last[i]);
        base += uint64_t(c) * map.stride[i - 1];
      }
      for (uint32_t x = 0; x < extent(0); ++x) {
        const int64_t c = int64_t(at[0]) + int64_t(x) * map.elementStride[0];
        f(offset, base + uint64_t(c) * map.elementBytes, inside && c >= 0 && c <= int64_t(map.last[0]));
        offset += map.elementBytes;
      }
    }
  }
};

void fillOutside(const TensorMap &map, uint8_t *to) {
  std::memset(to, 0, map.elementBytes);
  if (map.fillNan) {
    // The quiet NaN of the type with all ones in its fraction.
    std::memset(to, 0xff, map.elementBytes);
    to[map.elementBytes - 1] = 0x7f;
  }
}

/// Bytes arrive in shared memory of one CTA, and its barrier hears of them.
void deliver(const Issue &issue, Cta &to, uint32_t shared, const std::vector<uint8_t> &bytes, unsigned swizzle,
             uint32_t barrier) {
  const bool own = &to == issue.warp->cta;
  for (uint32_t i = 0; i < bytes.size(); i += 16) {
    const uint32_t address = swizzled(shared + i, swizzle);
    if (own) {
      to.shared.unmarkPending(address, 16);
      to.shared.write(address, 16, bytes.data() + i, issue.accessor());
    } else {
      to.shared.writeRemote(address, 16, bytes.data() + i);
    }
  }
  static const Clocks none;
  updateMbarrier(to, barrier, -int64_t(bytes.size()), 0, false, own ? issue.clocks : none);
}

void startLoad(Warp &warp, const Inst &inst, unsigned lane, uint32_t shared, uint32_t barrier, uint32_t ctas,
               uint32_t size, unsigned swizzle, std::function<void(const Issue &, std::vector<uint8_t> &)> fetch) {
  Issue issue = issueOf(warp, inst, lane);
  Cta &owner = sharedOwner(warp, shared);
  Cta &barrierOwner = sharedOwner(warp, barrier);
  if (ctas == 0 && &owner != &barrierOwner) {
    fail(FaultKind::Unsupported, "expects destination and mbarrier in one CTA");
  }
  checkAligned(barrier, 8, lane);
  if (&owner == warp.cta) {
    for (uint32_t i = 0; i < size; i += 16) {
      owner.shared.markPending(swizzled(shared + i, swizzle), 16,
                               {warpAgents + warp.index, lane, &warp.clocks, true, false});
    }
  }
  // Later accesses of the warp are not ordered before the operation.
  warp.tick();
  Cluster &cluster = *warp.cta->cluster;
  auto work = [issue = std::move(issue), shared, barrier, ctas, size, swizzle, fetch = std::move(fetch), &owner,
               &cluster] {
    inContext(issue, [&] {
      std::vector<uint8_t> bytes(size);
      fetch(issue, bytes);
      if (ctas == 0) {
        deliver(issue, owner, shared, bytes, swizzle, barrier);
      }
      for (unsigned rank = 0; rank < cluster.ctas.size(); ++rank) {
        if (ctas >> rank & 1) {
          deliver(issue, *cluster.ctas[rank], shared, bytes, swizzle, barrier);
        }
      }
    });
  };
  warp.worker->launch->options->earlyAsync ? work() : cluster.bulk.push_back(std::move(work));
}

uint32_t sharedAddress(Warp &warp, Place place, bool narrow, int64_t offset, unsigned lane) {
  const uint64_t address = narrow ? uint32_t(warp.lanes<uint32_t>(place)[lane] + uint32_t(offset))
                                  : warp.lanes<uint64_t>(place)[lane] + uint64_t(offset);
  if (windowOf(address) == Space::Shared) {
    return uint32_t(address);
  }
  if (address >> 32) {
    fail(FaultKind::IllegalAddress, "expects a shared address, but got {:#x} (lane {})", address, lane);
  }
  return uint32_t(address);
}

/// Inst::imm: offsets of up to two of the addresses, 32 bits each.
int64_t offsetOf(const Inst &inst, unsigned i) { return int32_t(uint64_t(inst.imm) >> (32 * i)); }

/// Bulk copies meet no bank twice: whole rows of shared memory at a time.
void countShared(InstCounters &counters, uint64_t bytes) {
  constexpr uint64_t wavefrontBytes = 128;
  const uint64_t wavefronts = (bytes + wavefrontBytes - 1) / wavefrontBytes;
  counters.bytes += bytes;
  counters.wavefronts += wavefronts;
  counters.idealWavefronts += wavefronts;
}

/// op: destination, map, coordinates ..., mbarrier, [mask].
void execTensorLoad(Warp &warp, const Inst &inst, uint32_t active) {
  const auto rank = unsigned(inst.aux & 255);
  eachLane(active, [&](unsigned lane) {
    uint32_t shared = sharedAddress(warp, inst.op[0], inst.aux & narrowFirst, offsetOf(inst, 0), lane);
    const uint32_t barrier = sharedAddress(warp, inst.op[2 + rank], inst.aux & narrowThird, offsetOf(inst, 1), lane);
    Box box;
    box.map = readMap(warp, warp.lanes<uint64_t>(inst.op[1])[lane], lane, rank);
    for (unsigned i = 0; i < rank; ++i) {
      box.at[i] = warp.lanes<int32_t>(inst.op[2 + i])[lane];
    }
    checkAligned(shared, 128, lane);
    const uint32_t ctas = inst.aux & multicast ? warp.lanes<uint16_t>(inst.op[3 + rank])[lane] : 0;
    InstCounters &counters = countersOf(warp, inst);
    countShared(counters, box.bytes());
    counters.sectors += (box.rowBytes() + 31) / 32 * box.rows();
    startLoad(warp, inst, lane, shared, barrier, ctas, box.bytes(), box.map.swizzle,
              [box](const Issue &issue, std::vector<uint8_t> &bytes) {
                box.each([&](uint32_t offset, uint64_t address, bool inside) {
                  if (inside) {
                    std::memcpy(bytes.data() + offset,
                                globalAt(*issue.warp, address, box.map.elementBytes, issue.lane, false),
                                box.map.elementBytes);
                  } else {
                    fillOutside(box.map, bytes.data() + offset);
                  }
                });
              });
  });
}

/// op: destination, source, size, mbarrier, [mask].
void execBulkLoad(Warp &warp, const Inst &inst, uint32_t active) {
  eachLane(active, [&](unsigned lane) {
    const uint32_t shared = sharedAddress(warp, inst.op[0], inst.aux & narrowFirst, 0, lane);
    const uint32_t barrier = sharedAddress(warp, inst.op[3], inst.aux & narrowThird, 0, lane);
    const uint32_t size = warp.lanes<uint32_t>(inst.op[2])[lane];
    const uint32_t ctas = inst.aux & multicast ? warp.lanes<uint16_t>(inst.op[4])[lane] : 0;
    if (size % 16 != 0) {
      fail(FaultKind::InvalidValue, "expects a size that is a multiple of 16, but got {} (lane {})", size, lane);
    }
    checkAligned(shared, 16, lane);
    std::function<void(const Issue &, std::vector<uint8_t> &)> fetch;
    if (inst.aux & fromShared) {
      const uint32_t source = sharedAddress(warp, inst.op[1], inst.aux & narrowSecond, 0, lane);
      checkAligned(source, 16, lane);
      fetch = [source](const Issue &issue, std::vector<uint8_t> &bytes) {
        std::memcpy(bytes.data(), issue.warp->cta->shared.read(source, uint32_t(bytes.size()), issue.accessor()),
                    bytes.size());
      };
    } else {
      const uint64_t source = warp.lanes<uint64_t>(inst.op[1])[lane];
      checkAligned(source, 16, lane);
      if (size != 0) {
        globalAt(warp, source, size, lane, false);
      }
      InstCounters &counters = countersOf(warp, inst);
      countShared(counters, size);
      counters.sectors += (source % 32 + size + 31) / 32;
      fetch = [source](const Issue &issue, std::vector<uint8_t> &bytes) {
        if (!bytes.empty()) {
          std::memcpy(bytes.data(), globalAt(*issue.warp, source, uint32_t(bytes.size()), issue.lane, false),
                      bytes.size());
        }
      };
    }
    startLoad(warp, inst, lane, shared, barrier, ctas, size, 0, std::move(fetch));
  });
}

void startStore(Warp &warp, Issue issue, std::function<void(const Issue &)> store) {
  const unsigned lane = issue.lane;
  auto work = [issue = std::move(issue), store = std::move(store)] { inContext(issue, [&] { store(issue); }); };
  if (warp.worker->launch->options->earlyAsync) {
    work();
  } else {
    warp.stores.push_back({uint8_t(lane), warp.storeGroups[lane], std::move(work)});
  }
}

/// op: map, coordinates ..., source.
void execTensorStore(Warp &warp, const Inst &inst, uint32_t active) {
  const auto rank = unsigned(inst.aux & 255);
  eachLane(active, [&](unsigned lane) {
    const uint32_t shared = sharedAddress(warp, inst.op[1 + rank], inst.aux & narrowFirst, offsetOf(inst, 0), lane);
    Box box;
    box.map = readMap(warp, warp.lanes<uint64_t>(inst.op[0])[lane], lane, rank);
    for (unsigned i = 0; i < rank; ++i) {
      box.at[i] = warp.lanes<int32_t>(inst.op[1 + i])[lane];
    }
    checkAligned(shared, 128, lane);
    InstCounters &counters = countersOf(warp, inst);
    countShared(counters, box.bytes());
    counters.sectors += (box.rowBytes() + 31) / 32 * box.rows();
    startStore(warp, issueOf(warp, inst, lane), [box, shared](const Issue &issue) {
      box.each([&](uint32_t offset, uint64_t address, bool inside) {
        const uint32_t from = swizzled(shared + offset, box.map.swizzle);
        const uint8_t *value = issue.warp->cta->shared.read(from, box.map.elementBytes, issue.accessor());
        if (inside) {
          std::memcpy(globalAt(*issue.warp, address, box.map.elementBytes, issue.lane, true), value,
                      box.map.elementBytes);
        }
      });
    });
  });
  warp.tick();
}

/// op: destination, source, size.
void execBulkStore(Warp &warp, const Inst &inst, uint32_t active) {
  eachLane(active, [&](unsigned lane) {
    const uint64_t global = warp.lanes<uint64_t>(inst.op[0])[lane];
    const uint32_t shared = sharedAddress(warp, inst.op[1], inst.aux & narrowSecond, 0, lane);
    const uint32_t size = warp.lanes<uint32_t>(inst.op[2])[lane];
    if (size % 16 != 0) {
      fail(FaultKind::InvalidValue, "expects a size that is a multiple of 16, but got {} (lane {})", size, lane);
    }
    checkAligned(global, 16, lane);
    checkAligned(shared, 16, lane);
    InstCounters &counters = countersOf(warp, inst);
    countShared(counters, size);
    counters.sectors += (global % 32 + size + 31) / 32;
    if (size == 0) {
      return;
    }
    globalAt(warp, global, size, lane, true);
    startStore(warp, issueOf(warp, inst, lane), [global, shared, size](const Issue &issue) {
      const uint8_t *value = issue.warp->cta->shared.read(shared, size, issue.accessor());
      std::memcpy(globalAt(*issue.warp, global, size, issue.lane, true), value, size);
    });
  });
  warp.tick();
}

void execCommit(Warp &warp, const Inst &inst, uint32_t active) {
  eachLane(active, [&](unsigned lane) { ++warp.storeGroups[lane]; });
}

void execWait(Warp &warp, const Inst &inst, uint32_t active) {
  eachLane(active, [&](unsigned lane) {
    const uint32_t groups = warp.storeGroups[lane];
    completeStores(warp, lane, groups > inst.aux ? groups - uint32_t(inst.aux) : 0);
  });
}

void execNothing(Warp &warp, const Inst &inst, uint32_t active) {}

} // namespace

void kvc::sim::ptx::completeStores(Warp &warp, unsigned lane, uint32_t groups) {
  for (const BulkStore &store : warp.stores) {
    if (store.lane == lane && store.group < groups) {
      store.work();
      // The warp may overwrite what was read.
      warp.clocks.seen[warpAgents + warp.index] = warp.agentClock;
    }
  }
  std::erase_if(warp.stores, [&](const BulkStore &store) { return store.lane == lane && store.group < groups; });
}

// Decoding ------------------------------------------------------------------------------------------------------------

static unsigned rankOf(const Build &b) { return unsigned(b.which({"1d", "2d", "3d", "4d", "5d"}) + 1); }

/// `[map, {coordinates}]`
static void tensorOperand(Build &b, unsigned rank) {
  const Operand &operand = b.takeOperand();
  if (operand.kind != Operand::Kind::Address || operand.elements.size() != 2 || operand.offset != 0 ||
      operand.elements[1].kind != Operand::Kind::Vector || operand.elements[1].elements.size() != rank) {
    b.refuse(fmt::format("[map, {{coordinates}}] with {} coordinates", rank));
  }
  b.placeOf(operand.elements[0], Type::B64);
  for (const Operand &coordinate : operand.elements[1].elements) {
    b.placeOf(coordinate, Type::S32);
  }
}

static bool sharedOperand(Build &b) {
  const bool narrow = b.address(Space::SharedCluster);
  return narrow;
}

static int64_t noOffset(Build &b) {
  const int64_t offset = b.inst.imm;
  if (offset != int32_t(offset)) {
    b.refuse("an offset of 32 bits");
  }
  b.inst.imm = 0;
  return offset;
}

static void requireNoOffset(Build &b) {
  if (noOffset(b) != 0) {
    b.refuse("an address without an offset");
  }
}

static void tensorLoadRow(Build &b, const Row &row) {
  const unsigned rank = rankOf(b);
  uint64_t aux = rank;
  aux |= sharedOperand(b) ? narrowFirst : 0;
  const auto first = uint64_t(uint32_t(noOffset(b)));
  tensorOperand(b, rank);
  aux |= sharedOperand(b) ? narrowThird : 0;
  const auto second = uint64_t(uint32_t(noOffset(b)));
  b.inst.imm = int64_t(first | second << 32);
  if (b.has("multicast::cluster")) {
    b.src(Type::U16);
    aux |= multicast;
  }
  if (b.has("L2::cache_hint")) {
    b.src(Type::B64);
  }
  b.inst.aux = aux;
  b.inst.exec = execTensorLoad;
}

static void tensorStoreRow(Build &b, const Row &row) {
  const unsigned rank = rankOf(b);
  uint64_t aux = rank;
  tensorOperand(b, rank);
  aux |= sharedOperand(b) ? narrowFirst : 0;
  b.inst.imm = int64_t(uint32_t(noOffset(b)));
  if (b.has("L2::cache_hint")) {
    b.src(Type::B64);
  }
  b.inst.aux = aux;
  b.inst.exec = execTensorStore;
}

static void bulkLoadRow(Build &b, const Row &row) {
  const bool inCluster = b.has("shared::cluster") && b.has("shared::cta");
  uint64_t aux = inCluster ? fromShared : 0;
  aux |= sharedOperand(b) ? narrowFirst : 0;
  requireNoOffset(b);
  aux |= b.address(inCluster ? Space::Shared : Space::Global) ? narrowSecond : 0;
  requireNoOffset(b);
  b.src(Type::U32);
  aux |= sharedOperand(b) ? narrowThird : 0;
  requireNoOffset(b);
  if (b.has("multicast::cluster")) {
    b.src(Type::U16);
    aux |= multicast;
  }
  if (b.has("L2::cache_hint")) {
    b.src(Type::B64);
  }
  b.inst.aux = aux;
  b.inst.exec = execBulkLoad;
}

static void bulkStoreRow(Build &b, const Row &row) {
  b.address(Space::Global);
  requireNoOffset(b);
  const bool narrow = b.address(Space::Shared);
  requireNoOffset(b);
  b.src(Type::U32);
  if (b.has("L2::cache_hint")) {
    b.src(Type::B64);
  }
  b.inst.aux = narrow ? narrowSecond : 0;
  b.inst.exec = execBulkStore;
}

static void commitRow(Build &b, const Row &row) { b.inst.exec = execCommit; }

static void waitRow(Build &b, const Row &row) {
  b.inst.aux = b.immediate(Type::U32);
  b.inst.exec = execWait;
}

static void hintRow(Build &b, const Row &row) {
  while (b.left() > 0) {
    b.takeOperand();
  }
  b.inst.exec = execNothing;
}

static void registersRow(Build &b, const Row &row) {
  const uint64_t count = b.immediate(Type::U32);
  if (count < 24 || count > 256 || count % 8 != 0) {
    b.refuse(fmt::format("a count of registers that is a multiple of 8 from 24 to 256, but got {}", count));
  }
  b.inst.aligned = true;
  b.inst.exec = execNothing;
}

std::span<const Row> kvc::sim::ptx::bulkRows() {
  static const Row rows[] = {
      {"cp async bulk tensor 1d|2d|3d|4d|5d shared::cluster|shared::cta global [tile] mbarrier::complete_tx::bytes "
       "[multicast::cluster] [L2::cache_hint]",
       Class::AsyncCopy, tensorLoadRow, 0, 90, 80},
      {"cp async bulk tensor 1d|2d|3d|4d|5d global shared::cta [tile] bulk_group [L2::cache_hint]", Class::StoreGlobal,
       tensorStoreRow, 0, 90, 80},
      {"cp async bulk shared::cluster|shared::cta global mbarrier::complete_tx::bytes [multicast::cluster] "
       "[L2::cache_hint]",
       Class::AsyncCopy, bulkLoadRow, 0, 90, 80},
      {"cp async bulk shared::cluster shared::cta mbarrier::complete_tx::bytes", Class::AsyncCopy, bulkLoadRow, 0, 90,
       80},
      {"cp async bulk global shared::cta bulk_group [L2::cache_hint]", Class::StoreGlobal, bulkStoreRow, 0, 90, 80},
      {"cp async bulk commit_group", Class::AsyncCopy, commitRow, 0, 90, 80},
      {"cp async bulk wait_group [read]", Class::AsyncCopy, waitRow, 0, 90, 80},
      {"cp async bulk prefetch L2 global [L2::cache_hint]", Class::Other, hintRow, 0, 90, 80},
      {"cp async bulk prefetch tensor 1d|2d|3d|4d|5d L2 global [tile] [L2::cache_hint]", Class::Other, hintRow, 0, 90,
       80},
      {"prefetch [const|param] tensormap", Class::Other, hintRow, 0, 90, 80},
      {"setmaxnreg inc|dec sync aligned u32", Class::Other, registersRow, 0, 90, 80},
  };
  return rows;
}
