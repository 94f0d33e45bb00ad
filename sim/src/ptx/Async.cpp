//===- Async.cpp - cp.async and its groups --------------------------------===//
//
// A copy takes effect when its lane waits for the group, not before: what reads its destination earlier is an error,
// and what overwrites its source earlier changes the result.
//
//===----------------------------------------------------------------------===//
#include "ptx/Access.h"
#include "ptx/Barrier.h"
#include "ptx/Decoder.h"
#include "ptx/DecoderImpl.h"

using namespace kvc::sim;
using namespace kvc::sim::ptx;

static void complete(Warp &warp, const AsyncCopy &copy) {
  uint8_t value[16] = {};
  if (copy.sourceBytes != 0) {
    std::memcpy(value, globalAt(warp, copy.global, copy.sourceBytes, copy.lane, false), copy.sourceBytes);
  }
  const unsigned agent = warpAgents + warp.index;
  warp.cta->shared.write(copy.shared, copy.bytes, value, {agent, copy.lane, &warp.clocks, false, false});
}

void kvc::sim::ptx::completeCopies(Warp &warp, unsigned lane, uint32_t groups) {
  bool any = false;
  for (const AsyncCopy &copy : warp.copies) {
    if (copy.lane == lane && copy.group < groups) {
      if (!any) {
        // Whoever is ordered after the wait is ordered after the copies.
        warp.clocks.seen[warpAgents + warp.index] = ++warp.agentClock;
        any = true;
      }
      complete(warp, copy);
    }
  }
  if (any) {
    std::erase_if(warp.copies, [&](const AsyncCopy &copy) { return copy.lane == lane && copy.group < groups; });
  }
}

namespace {

/// Inst::aux of cp.async: bytes, whether the addresses have 32 bits, what the fourth operand is.
enum : uint64_t { copyNarrow = 1 << 8, copySize = 1 << 9, copyIgnore = 1 << 10, copyIgnoreNegated = 1 << 11 };

/// op: destination, source, [size of the source, or a predicate that the source is ignored].
void execCopy(Warp &warp, const Inst &inst, uint32_t active) {
  const auto bytes = uint32_t(inst.aux & 255);
  LaneAddresses to, from;
  addressesOf(warp, inst.op[0], inst.aux & copyNarrow, int32_t(inst.imm), to);
  addressesOf(warp, inst.op[1], false, int64_t(inst.imm) >> 32, from);
  uint32_t ignored = 0;
  if (inst.aux & copyIgnore) {
    ignored = warp.predicate(inst.op[2]) ^ (inst.aux & copyIgnoreNegated ? allLanes : 0);
  }
  InstCounters &counters = countersOf(warp, inst);
  uint32_t reading = 0;
  eachLane(active, [&](unsigned lane) {
    AsyncCopy copy{};
    copy.shared = uint32_t(to.at[lane]);
    copy.global = from.at[lane];
    copy.bytes = bytes;
    copy.sourceBytes = ignored >> lane & 1 ? 0 : bytes;
    copy.lane = uint8_t(lane);
    copy.group = warp.groups[lane];
    if (inst.aux & copySize) {
      copy.sourceBytes = warp.lanes<uint32_t>(inst.op[2])[lane];
      if (copy.sourceBytes > bytes) {
        fail(FaultKind::InvalidValue, "expects at most {} bytes of the source, but got {} (lane {})", bytes,
             copy.sourceBytes, lane);
      }
    }
    checkAligned(copy.shared, bytes, lane);
    checkAligned(copy.global, bytes, lane);
    if (copy.sourceBytes != 0) {
      globalAt(warp, copy.global, copy.sourceBytes, lane, false);
      reading |= 1u << lane;
    }
    warp.cta->shared.markPending(copy.shared, bytes, {warpAgents + warp.index, lane, &warp.clocks, false, false});
    if (warp.worker->launch->options->earlyAsync) {
      complete(warp, copy);
    } else {
      warp.copies.push_back(copy);
    }
  });
  countGlobal(counters, from, reading, bytes);
  countShared(counters, to, active, bytes);
  counters.bytes -= uint64_t(std::popcount(active)) * bytes;
}

void execCommit(Warp &warp, const Inst &inst, uint32_t active) {
  eachLane(active, [&](unsigned lane) { ++warp.groups[lane]; });
}

/// aux: how many groups may be left; all ones: everything, also what was not committed.
void execWait(Warp &warp, const Inst &inst, uint32_t active) {
  const bool all = inst.aux == ~uint64_t(0);
  eachLane(active, [&](unsigned lane) {
    const uint32_t groups = warp.groups[lane];
    completeCopies(warp, lane, all ? ~0u : groups > inst.aux ? groups - uint32_t(inst.aux) : 0);
  });
}

} // namespace

static void copyRow(Build &b, const Row &row) {
  const bool narrow = b.address(Space::Shared);
  const int64_t to = b.inst.imm;
  b.address(Space::Global);
  const int64_t from = b.inst.imm;
  if (to != int32_t(to) || from != int32_t(from)) {
    b.refuse("offsets of 32 bits");
  }
  b.inst.imm = int64_t(uint64_t(uint32_t(to)) | uint64_t(uint32_t(from)) << 32);
  const uint64_t bytes = b.immediate(Type::U32);
  const bool valid = b.has("cg") ? bytes == 16 : bytes == 4 || bytes == 8 || bytes == 16;
  if (!valid) {
    b.refuse(b.has("cg") ? "16 bytes" : "4, 8 or 16 bytes");
  }
  b.inst.aux = bytes | (narrow ? copyNarrow : 0);
  if (b.left() > (b.has("L2::cache_hint") ? 1u : 0u)) {
    const Operand &operand = b.peek();
    const bool predicate = operand.negated || (operand.kind == Operand::Kind::Register &&
                                               b.decoder.registerType(operand.reg) == Type::Pred);
    if (predicate) {
      b.inst.aux |= copyIgnore;
      b.inst.aux |= b.srcPred() ? copyIgnoreNegated : 0;
    } else {
      b.inst.aux |= copySize;
      b.src(Type::U32);
    }
  }
  if (b.has("L2::cache_hint")) {
    b.src(Type::B64);
  }
  b.inst.exec = execCopy;
}

static void commitRow(Build &b, const Row &row) { b.inst.exec = execCommit; }

static void waitRow(Build &b, const Row &row) {
  b.inst.aux = b.has("wait_all") ? ~uint64_t(0) : b.immediate(Type::U32);
  b.inst.exec = execWait;
}

std::span<const Row> kvc::sim::ptx::asyncRows() {
  static const Row rows[] = {
      {"cp async ca|cg shared|shared::cta global [L2::cache_hint] [<l2pre>]", Class::AsyncCopy, copyRow, 0, 80, 70},
      {"cp async commit_group", Class::AsyncCopy, commitRow, 0, 80, 70},
      {"cp async wait_group", Class::AsyncCopy, waitRow, 0, 80, 70},
      {"cp async wait_all", Class::AsyncCopy, waitRow, 0, 80, 70},
  };
  return rows;
}
