//===- Control.cpp - Branches, calls, barriers and fences -----------------===//
#include "ptx/Access.h"
#include "ptx/Barrier.h"
#include "ptx/Decoder.h"
#include "ptx/DecoderImpl.h"

using namespace kvc::sim;
using namespace kvc::sim::ptx;

// Barriers ------------------------------------------------------------------------------------------------------------

namespace {

/// Inst::aux of barriers.
enum : uint64_t { barArrive = 1, barHasCount = 2, barPopc = 4, barAnd = 8, barOr = 16, barNegated = 32 };

uint32_t liveWarps(const Cta &cta) {
  uint32_t live = 0;
  for (const Warp &warp : cta.warps) {
    live += !warp.done && warp.alive != 0;
  }
  return live;
}

void release(Cta &cta, NamedBarrier &barrier) {
  for (uint32_t index : barrier.waiting) {
    Warp &warp = cta.warps[index];
    warp.barrierResult = true;
    warp.barrierValue = barrier.value;
    warp.clocks.join(barrier.clocks);
    warp.tick();
  }
  barrier = {};
  cta.cluster->timeouts = 0;
}

void tryComplete(Cta &cta, NamedBarrier &barrier) {
  // A barrier of the whole CTA waits for the warps that are left.
  const bool complete = barrier.full ? barrier.arrivedThreads / laneCount >= liveWarps(cta)
                                     : barrier.arrivedThreads >= barrier.expectedThreads;
  if (barrier.arrivedThreads != 0 && complete) {
    release(cta, barrier);
  }
}

uint32_t uniform(Warp &warp, Place place, uint32_t active, const char *what) {
  const uint32_t *values = warp.lanes<uint32_t>(place);
  const uint32_t first = values[std::countr_zero(active)];
  eachLane(active, [&](unsigned lane) {
    if (values[lane] != first) {
      fail(FaultKind::InvalidValue, "expects the same {} in all lanes, but got {} and {}", what, first, values[lane]);
    }
  });
  return first;
}

/// op: [destination], barrier, count, predicate.
void execBarrier(Warp &warp, const Inst &inst, uint32_t active) {
  Cta &cta = *warp.cta;
  const bool reduces = inst.aux & (barPopc | barAnd | barOr);
  const Place *op = inst.op + (reduces ? 1 : 0);
  if (!warp.inBarrier) {
    const uint32_t id = uniform(warp, op[0], active, "barrier");
    if (id >= cta.barriers.size()) {
      fail(FaultKind::InvalidValue, "expects a barrier of 0 to 15, but got {}", id);
    }
    if (active != warp.alive) {
      fail(FaultKind::Unsupported, "expects all lanes of the warp at a barrier, but got lanes {:#010x} of {:#010x}",
           active, warp.alive);
    }
    NamedBarrier &barrier = cta.barriers[id];
    const bool counted = inst.aux & barHasCount;
    uint32_t expected = 0;
    if (counted) {
      expected = uniform(warp, op[1], active, "count");
      if (expected == 0 || expected % laneCount != 0 || expected > 1024) {
        fail(FaultKind::InvalidValue, "expects a count that is a multiple of {} up to 1024, but got {}", laneCount,
             expected);
      }
    }
    if (barrier.arrivedThreads != 0 && (barrier.full == counted || barrier.expectedThreads != expected)) {
      fail(FaultKind::Deadlock, "expects one count for barrier {}, but got {} and {}", id,
           barrier.full ? std::string("the whole CTA") : fmt::format("{}", barrier.expectedThreads),
           counted ? fmt::format("{}", expected) : std::string("the whole CTA"));
    }
    barrier.full = !counted;
    barrier.expectedThreads = expected;
    barrier.arrivedThreads += laneCount;
    barrier.clocks.join(warp.clocks);
    if (reduces) {
      const uint32_t p = (warp.predicate(op[2]) ^ (inst.aux & barNegated ? allLanes : 0)) & active;
      const bool first = !barrier.hasValue;
      barrier.hasValue = true;
      if (inst.aux & barPopc) {
        barrier.value += uint32_t(std::popcount(p));
      } else if (inst.aux & barAnd) {
        barrier.value = (first || barrier.value) && p == active;
      } else {
        barrier.value = barrier.value || p != 0;
      }
    }
    if (inst.aux & barArrive) {
      warp.tick();
      tryComplete(cta, barrier);
      return;
    }
    warp.inBarrier = true;
    warp.barrierResult = false;
    warp.waitReason = "barrier";
    warp.waitId = id;
    barrier.waiting.push_back(warp.index);
    tryComplete(cta, barrier);
  }
  if (!warp.barrierResult) {
    warp.blocked = true;
    return;
  }
  warp.inBarrier = false;
  if (inst.aux & barPopc) {
    uint32_t *d = warp.lanes<uint32_t>(inst.op[0]);
    eachLane(active, [&](unsigned lane) { d[lane] = warp.barrierValue; });
  } else if (reduces) {
    uint32_t &d = warp.predicate(inst.op[0]);
    d = (d & ~active) | (warp.barrierValue ? active : 0);
  }
}

/// op: the mask of lanes. All of them must be here: they would be elsewhere only after they parted.
void execWarpBarrier(Warp &warp, const Inst &inst, uint32_t active) {
  const uint32_t *masks = warp.lanes<uint32_t>(inst.op[0]);
  eachLane(active, [&](unsigned lane) {
    if (!(masks[lane] >> lane & 1) || (masks[lane] & warp.alive & ~active)) {
      fail(FaultKind::Race, "expects the lanes of the mask {:#010x}, but got lanes {:#010x} (lane {})", masks[lane],
           active, lane);
    }
  });
  warp.tick();
}

void execFence(Warp &warp, const Inst &inst, uint32_t active) {
  if (inst.aux) {
    warp.clocks.fenceProxy();
  }
}

void execNothing(Warp &warp, const Inst &inst, uint32_t active) {}

void execTrap(Warp &warp, const Inst &inst, uint32_t active) {
  fail(FaultKind::Trap, "the program ends itself (lanes {:#010x})", active);
}

/// Parameters of a call: op[0] the destination, op[1] the source, aux the bytes of a lane.
void execCopyParam(Warp &warp, const Inst &inst, uint32_t active) {
  uint8_t *to = warp.lanes<uint8_t>(inst.op[0]);
  const uint8_t *from = warp.lanes<uint8_t>(inst.op[1]);
  eachLane(active, [&](unsigned lane) { std::memcpy(to + lane * inst.aux, from + lane * inst.aux, inst.aux); });
}

} // namespace

void kvc::sim::ptx::warpEnded(Warp &warp) {
  Cta &cta = *warp.cta;
  for (unsigned lane = 0; lane < laneCount; ++lane) {
    completeStores(warp, lane, ~0u);
  }
  for (NamedBarrier &barrier : cta.barriers) {
    if (barrier.full) {
      tryComplete(cta, barrier);
    }
  }
  completeClusterPhase(*cta.cluster);
}

// Decoding ------------------------------------------------------------------------------------------------------------

static void branchRow(Build &b, const Row &row) {
  const Operand &target = b.takeOperand();
  if (target.kind != Operand::Kind::Label) {
    b.refuse(fmt::format("a label, but got {}", target.text));
  }
  b.inst.flow = Flow::Branch;
  b.inst.target = target.label;
}

static void branchIndexedRow(Build &b, const Row &row) {
  b.src(Type::U32);
  const Operand &list = b.takeOperand();
  const Function &function = *b.decoder.registerTypes;
  for (const auto &[label, targets] : function.branchTargets) {
    if (list.kind == Operand::Kind::Label && list.label == label) {
      b.inst.flow = Flow::BranchIndexed;
      b.inst.target = int32_t(b.decoder.branchTables.size());
      b.decoder.branchTables.emplace_back(targets.begin(), targets.end());
      return;
    }
  }
  b.refuse(fmt::format("the label of a .branchtargets list, but got {}", list.text));
}

static Inst copyParam(Build &b, const Variable &to, const Variable &from) {
  if (to.bytes != from.bytes) {
    b.refuse(fmt::format("a parameter of {} bytes for {}, but {} has {}", to.bytes, to.name, from.name, from.bytes));
  }
  Inst copy;
  copy.exec = execCopyParam;
  copy.kind = Class::Move;
  copy.guard = b.inst.guard;
  copy.guardNegated = b.inst.guardNegated;
  copy.aux = to.bytes;
  copy.count = 2;
  b.decoder.program.operandLists.push_back({b.decoder.callParameterPlace(to), b.decoder.callParameterPlace(from)});
  copy.op = b.decoder.program.operandLists.back().data();
  return copy;
}

bool kvc::sim::ptx::isFailingAssertion(const Function &function) {
  return !function.hasBody && function.name == "__assertfail";
}

static void callRow(Build &b, const Row &row) {
  std::vector<const Operand *> results, arguments;
  auto listOf = [](const Operand &operand) {
    std::vector<const Operand *> list;
    for (const Operand &element : operand.elements) {
      list.push_back(&element);
    }
    return list;
  };
  if (b.peek().kind == Operand::Kind::List) {
    results = listOf(b.takeOperand());
  }
  const Operand &name = b.takeOperand();
  if (name.kind != Operand::Kind::Function) {
    b.refuse(fmt::format("a call of a function by its name, but got {} (calls through pointers are not supported)",
                         name.text));
  }
  if (b.left() > 0) {
    arguments = listOf(b.takeOperand());
  }
  const Function &callee = *b.decoder.module.find(name.text);
  if (isFailingAssertion(callee)) {
    // assert() of the device: the driver's function prints and ends the kernel.
    b.inst.exec = execTrap;
    return;
  }
  if (arguments.size() != callee.params.size() || results.size() != callee.results.size()) {
    b.refuse(fmt::format("{} arguments and {} results for {}, but got {} and {}", callee.params.size(),
                         callee.results.size(), callee.name, arguments.size(), results.size()));
  }
  auto variableOf = [&](const Operand &operand) -> const Variable & {
    if (operand.kind != Operand::Kind::Variable || operand.variable->space != Space::Param) {
      b.refuse(fmt::format(".param variables in the call, but got {}", operand.text));
    }
    return *operand.variable;
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    b.decoder.emit(copyParam(b, *callee.params[i], variableOf(*arguments[i])), b.source, *b.decoder.registerTypes);
  }
  b.inst.flow = Flow::Call;
  b.inst.target = b.decoder.entryOf.at(&callee);
  for (size_t i = 0; i < results.size(); ++i) {
    b.after.push_back(copyParam(b, variableOf(*results[i]), *callee.results[i]));
  }
}

static void returnRow(Build &b, const Row &row) {
  b.inst.flow = b.decoder.registerTypes->isEntry ? Flow::Exit : Flow::Return;
}

static void exitRow(Build &b, const Row &row) { b.inst.flow = Flow::Exit; }

static void barrierRow(Build &b, const Row &row) {
  const bool arrive = b.has("arrive");
  const int reduction = b.which({"popc", "and", "or"});
  b.inst.flow = Flow::Wait;
  // `bar` is `barrier.aligned`.
  b.inst.aligned = b.source.opcode == "bar" || b.has("aligned");
  b.inst.aux = arrive ? barArrive : 0;
  if (reduction >= 0) {
    b.inst.aux |= barPopc << reduction;
    reduction == 0 ? (void)b.dst(Type::U32) : b.dstPred();
  }
  b.src(Type::U32);
  const bool counted = b.left() > (reduction >= 0 ? 1u : 0u);
  if (arrive && !counted) {
    b.refuse("the count of threads of an arrival");
  }
  if (counted) {
    b.inst.aux |= barHasCount;
    b.src(Type::U32);
  } else {
    b.append(b.constant(0, 4));
  }
  if (reduction >= 0 && b.srcPred()) {
    b.inst.aux |= barNegated;
  }
  b.inst.exec = execBarrier;
}

static void warpBarrierRow(Build &b, const Row &row) {
  b.src(Type::U32);
  b.inst.exec = execWarpBarrier;
}

/// row.op: 1 makes generic accesses visible to the asynchronous proxy.
static void fenceRow(Build &b, const Row &row) {
  while (b.left() > 0) {
    b.takeOperand();
  }
  b.inst.aux = uint64_t(row.op);
  b.inst.exec = execFence;
}

static void nothingRow(Build &b, const Row &row) {
  while (b.left() > 0) {
    b.takeOperand();
  }
  b.inst.exec = execNothing;
}

static void trapRow(Build &b, const Row &row) { b.inst.exec = execTrap; }

std::span<const Row> kvc::sim::ptx::controlRows() {
  static const Row rows[] = {
      {"bra [uni]", Class::Control, branchRow},
      {"brx idx [uni]", Class::Control, branchIndexedRow},
      {"call [uni]", Class::Control, callRow},
      {"ret [uni]", Class::Control, returnRow},
      {"exit", Class::Control, exitRow},
      {"trap", Class::Control, trapRow},
      {"brkpt", Class::Control, trapRow},
      {"nanosleep u32", Class::Other, nothingRow, 0, 70, 63},
      {"pmevent [mask]", Class::Other, nothingRow},
      {"bar [cta] sync|arrive", Class::Barrier, barrierRow},
      {"bar [cta] red popc u32", Class::Barrier, barrierRow},
      {"bar [cta] red and|or pred", Class::Barrier, barrierRow},
      {"barrier [cta] sync|arrive [aligned]", Class::Barrier, barrierRow},
      {"barrier [cta] red popc [aligned] u32", Class::Barrier, barrierRow},
      {"barrier [cta] red and|or [aligned] pred", Class::Barrier, barrierRow},
      {"bar warp sync", Class::Barrier, warpBarrierRow, 0, 0, 60},
      {"membar cta|gl|sys", Class::Fence, fenceRow},
      {"fence [sc|acq_rel] cta|cluster|gpu|sys", Class::Fence, fenceRow, 0, 70, 60},
      {"fence mbarrier_init release cluster", Class::Fence, fenceRow, 0, 90, 80},
      {"fence proxy alias", Class::Fence, fenceRow, 0, 70, 75},
      {"fence proxy async", Class::Fence, fenceRow, 1, 90, 80},
      {"fence proxy async|async::generic [acquire|release] [sync_restrict::shared::cta|sync_restrict::shared::cluster] "
       "[global|shared::cta|shared::cluster|cluster]",
       Class::Fence, fenceRow, 1, 90, 80},
      {"fence proxy tensormap::generic acquire|release cta|cluster|gpu|sys", Class::Fence, fenceRow, 0, 90, 83},
      {"griddepcontrol launch_dependents|wait", Class::Other, nothingRow, 0, 90, 78},
  };
  return rows;
}
