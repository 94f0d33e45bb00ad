//===- Control.cpp - Scalar and control instructions ----------------------===//
#include "amdgcn/Decoder.h"
#include "amdgcn/Salu.h"

#include <algorithm>

using namespace kvc::sim;
using namespace kvc::sim::amdgcn;

// Scalar --------------------------------------------------------------------------------------------------------------

/// The 16 bits of an instruction as a number.
static int64_t immediate16(const TextOperand &operand, bool isSigned) {
  return isSigned ? int64_t(int16_t(operand.integer)) : int64_t(uint16_t(operand.integer));
}

bool kvc::sim::amdgcn::decodeScalar(Decoder &decoder) {
  const TextInst &text = decoder.text;
  Inst &inst = decoder.inst;
  std::string name = text.name;
  if (!name.starts_with("s_")) {
    return false;
  }
  // With 16 bits in the instruction: `s_addk_i32 s0, 5`, `s_cmpk_eq_u32 s0, 5`.
  TextInst changed = text;
  const bool compareK = name.starts_with("s_cmpk_"), movek = name == "s_movk_i32" || name == "s_cmovk_i32";
  const bool accumulateK = name == "s_addk_i32" || name == "s_addk_co_i32" || name == "s_mulk_i32";
  if (compareK || accumulateK || movek) {
    TextOperand &last = changed.operands.back();
    last.integer = immediate16(last, !name.ends_with("_u32"));
    // Not a literal any more.
    last.text.clear();
    if (compareK) {
      name = "s_cmp_" + name.substr(7);
    } else if (accumulateK) {
      name = name == "s_mulk_i32" ? "s_mul_i32" : "s_add_i32";
      changed.operands.insert(changed.operands.begin(), changed.operands.front());
    }
  }
  const ScalarRow *row = findScalarRow(name);
  if (!row) {
    return false;
  }
  inst.exec = row->exec;
  inst.kind = Class::Scalar;
  size_t next = 0;
  auto operand = [&](size_t i) -> const TextOperand & {
    if (i >= changed.operands.size()) {
      decoder.unsupported("too few operands");
    }
    return changed.operands[i];
  };
  if (row->d != Type::None) {
    decoder.setScalarDestination(operand(next++), dwordsOf(row->d));
    if (row->flags & ReadsDestination) {
      decoder.reads(inst.d);
    }
  }
  for (unsigned k = 0; k < row->sources; ++k) {
    const bool destination = (row->flags & Accumulates) && k + 1 == row->sources;
    decoder.addSource(operand(destination ? 0 : next++), row->s[k]);
    if (inst.s[k].kind == Source::Kind::Vector || inst.s[k].modified) {
      decoder.unsupported("operand " + text.text);
    }
  }
  if (next != changed.operands.size()) {
    decoder.unsupported("operand " + operand(next).text);
  }
  decoder.checkModifiers();
  return true;
}

// Control -------------------------------------------------------------------------------------------------------------

namespace {

void execNothing(Wave &, const Inst &) {}

void execEnd(Wave &wave, const Inst &) { wave.done = true; }

void execTrap(Wave &, const Inst &inst) { fail(FaultKind::Trap, "trap {}", inst.immediate); }

void execBranch(Wave &wave, const Inst &inst) { wave.next = inst.target; }
template <auto condition> void execBranchIf(Wave &wave, const Inst &inst) {
  if (condition(wave)) {
    wave.next = inst.target;
  }
}

int32_t indexAt(const Wave &wave, uint64_t address) {
  const Program &program = programOf(wave);
  const int32_t index = program.indexOf(address - program.base);
  if (index < 0) {
    fail(FaultKind::Unsupported, "expects a jump to an instruction of this kernel, but got {:#x}", address);
  }
  return index;
}
uint64_t addressAfter(const Wave &wave, const Inst &inst) {
  const Program &program = programOf(wave);
  return program.base + program.source[inst.index].address + program.source[inst.index].bytes;
}
void execGetPc(Wave &wave, const Inst &inst) { wave.setPair(inst.d.first, addressAfter(wave, inst)); }
void execSetPc(Wave &wave, const Inst &inst) { wave.next = indexAt(wave, scalar64(wave, inst.s[0])); }
void execSwapPc(Wave &wave, const Inst &inst) {
  const uint64_t to = scalar64(wave, inst.s[0]);
  wave.setPair(inst.d.first, addressAfter(wave, inst));
  wave.next = indexAt(wave, to);
}

/// LDS accesses of the wave up to what has been waited for are known to others after the next barrier.
void settle(Wave &wave) {
  const uint32_t done = wave.waits.done(Counter::Lds), loaded = wave.waits.done(Counter::Load);
  while (!wave.ldsPending.empty() && wave.ldsPending.front().first <= done) {
    wave.ldsPending.pop_front();
  }
  while (!wave.ldsLoads.empty() && wave.ldsLoads.front().first <= loaded) {
    wave.clocks.seen[wave.loadAgent()] = wave.ldsLoads.front().second;
    wave.ldsLoads.pop_front();
  }
}

void execWait(Wave &wave, const Inst &inst) {
  WaitCounts counts;
  // Packed by the decoder: 8 bits for each counter, 255 for none.
  for (size_t c = 0; c < counterCount; ++c) {
    const uint32_t most = uint32_t(inst.immediate >> (8 * c)) & 0xff;
    counts.most[c] = most == 0xff ? noWait : most;
  }
  wave.waits.wait(counts);
  settle(wave);
}

void execBarrier(Wave &wave, const Inst &) {
  if (!wave.barrierSignalled) {
    wave.barrierSignalled = true;
    wave.barrierPhase = wave.group->phase;
    arriveAtBarrier(wave);
  }
  if (wave.group->phase == wave.barrierPhase) {
    wave.blocked = true;
    wave.waitReason = "the barrier of the work-group";
    wave.next = wave.pc;
    return;
  }
  wave.barrierSignalled = false;
  wave.clocks.join(wave.group->completed);
}

void execBarrierSignal(Wave &wave, const Inst &) {
  if (wave.barrierSignalled) {
    fail(FaultKind::Deadlock, "expects a wait for the barrier before it is signalled again");
  }
  wave.barrierSignalled = true;
  wave.barrierPhase = wave.group->phase;
  arriveAtBarrier(wave);
}

void execBarrierWait(Wave &wave, const Inst &inst) {
  if (!wave.barrierSignalled) {
    fail(FaultKind::Deadlock, "expects a barrier to be signalled before it is waited for");
  }
  execBarrier(wave, inst);
}

void execTime(Wave &wave, const Inst &inst) { wave.setPair(inst.d.first, wave.executed); }

struct ControlRow {
  std::string_view name;
  ExecFn exec;
  Class kind;
};

constexpr ControlRow branches[] = {
    {"s_branch", execBranch, Class::Branch},
    {"s_cbranch_scc0", execBranchIf<[](const Wave &w) { return w.s[sreg::Scc] == 0; }>, Class::Branch},
    {"s_cbranch_scc1", execBranchIf<[](const Wave &w) { return w.s[sreg::Scc] != 0; }>, Class::Branch},
    {"s_cbranch_vccz", execBranchIf<[](const Wave &w) { return (w.mask(sreg::Vcc) & w.laneMask) == 0; }>,
     Class::Branch},
    {"s_cbranch_vccnz", execBranchIf<[](const Wave &w) { return (w.mask(sreg::Vcc) & w.laneMask) != 0; }>,
     Class::Branch},
    {"s_cbranch_execz", execBranchIf<[](const Wave &w) { return w.exec() == 0; }>, Class::Branch},
    {"s_cbranch_execnz", execBranchIf<[](const Wave &w) { return w.exec() != 0; }>, Class::Branch},
};

/// Cache control of gfx12 is counted as a load or a store: what was issued before it has ended when it has.
template <Counter counter> void execCacheControl(Wave &wave, const Inst &) { wave.waits.issue(counter, false); }

/// Instructions whose effects a simulator of one instruction at a time has anyway: caches, priorities, scheduling.
constexpr ControlRow simple[] = {
    {"s_endpgm", execEnd, Class::Other},
    {"s_barrier", execBarrier, Class::Barrier},
    {"s_nop", execNothing, Class::Wait},
    {"v_nop", execNothing, Class::Wait},
    {"s_sleep", execNothing, Class::Wait},
    {"s_delay_alu", execNothing, Class::Other},
    {"s_clause", execNothing, Class::Other},
    {"s_setprio", execNothing, Class::Other},
    {"s_set_inst_prefetch_distance", execNothing, Class::Other},
    {"s_inst_prefetch", execNothing, Class::Other},
    {"s_icache_inv", execNothing, Class::Other},
    {"s_dcache_inv", execNothing, Class::Other},
    {"s_dcache_wb", execNothing, Class::Other},
    {"s_gl1_inv", execNothing, Class::Other},
    {"s_waitcnt_depctr", execNothing, Class::Wait},
    {"s_wait_alu", execNothing, Class::Wait},
    {"s_wait_idle", execNothing, Class::Wait},
    {"s_wakeup", execNothing, Class::Other},
    {"s_prefetch_inst", execNothing, Class::Other},
    {"s_prefetch_data", execNothing, Class::Other},
    {"buffer_wbl2", execNothing, Class::Other},
    {"buffer_inv", execNothing, Class::Other},
    {"buffer_invl2", execNothing, Class::Other},
    {"buffer_wbinvl1", execNothing, Class::Other},
    {"buffer_wbinvl1_vol", execNothing, Class::Other},
    {"buffer_gl0_inv", execNothing, Class::Other},
    {"buffer_gl1_inv", execNothing, Class::Other},
    {"global_inv", execCacheControl<Counter::Load>, Class::Other},
    {"global_wb", execCacheControl<Counter::Store>, Class::Other},
    {"global_wbinv", execCacheControl<Counter::Store>, Class::Other},
};

struct WaitName {
  std::string_view name;
  std::initializer_list<Counter> counters;
};

/// Puts one count into the packed counts.
void setCount(int64_t &counts, Counter counter, int64_t most) {
  const unsigned shift = 8 * unsigned(counter);
  counts = (counts & ~(int64_t(0xff) << shift)) | (std::min<int64_t>(most, 0xfe) << shift);
}

/// s_waitcnt and its kind: false when it is none.
bool decodeWait(Decoder &decoder) {
  const TextInst &text = decoder.text;
  Inst &inst = decoder.inst;
  const Chip &chip = *decoder.program.chip;
  inst.immediate = 0xffffffff;
  if (text.name == "s_waitcnt") {
    if (decoder.has("vmcnt")) {
      setCount(inst.immediate, Counter::Load, decoder.number("vmcnt"));
    }
    if (decoder.has("lgkmcnt")) {
      setCount(inst.immediate, Counter::Lds, decoder.number("lgkmcnt"));
    }
    // Exports are not simulated: there is nothing to wait for.
    decoder.has("expcnt");
    if (decoder.operandCount() != 0) {
      decoder.unsupported("counts as one number");
    }
  } else if (text.name == "s_waitcnt_vscnt") {
    setCount(inst.immediate, Counter::Store, decoder.operand(1).integer);
  } else {
    static const WaitName names[] = {
        {"s_wait_loadcnt", {Counter::Load}},
        {"s_wait_storecnt", {Counter::Store}},
        {"s_wait_dscnt", {Counter::Lds}},
        {"s_wait_kmcnt", {Counter::Scalar}},
        {"s_wait_loadcnt_dscnt", {Counter::Load, Counter::Lds}},
        {"s_wait_storecnt_dscnt", {Counter::Store, Counter::Lds}},
        {"s_wait_samplecnt", {}},
        {"s_wait_bvhcnt", {}},
        {"s_wait_expcnt", {}},
    };
    const auto found =
        std::find_if(std::begin(names), std::end(names), [&](const WaitName &w) { return w.name == text.name; });
    if (found == std::end(names) || chip.family != Family::Rdna4) {
      return false;
    }
    const int64_t value = decoder.operand(0).integer;
    const auto &counters = found->counters;
    if (counters.size() == 2) {
      // The first count is in bits 8 to 13.
      setCount(inst.immediate, counters.begin()[0], value >> 8 & 63);
      setCount(inst.immediate, counters.begin()[1], value & 63);
    } else if (counters.size() == 1) {
      setCount(inst.immediate, counters.begin()[0], value & 63);
    }
  }
  inst.exec = execWait;
  inst.kind = Class::Wait;
  return true;
}

} // namespace

bool kvc::sim::amdgcn::decodeControl(Decoder &decoder) {
  const TextInst &text = decoder.text;
  Inst &inst = decoder.inst;
  const std::string &name = text.name;
  if (decodeWait(decoder)) {
    decoder.checkModifiers();
    return true;
  }
  for (const ControlRow &row : branches) {
    if (row.name == name) {
      const int64_t words = int16_t(decoder.operand(0).integer);
      const uint64_t target = text.address + 4 + uint64_t(words * 4);
      inst.exec = row.exec;
      inst.kind = row.kind;
      inst.target = decoder.program.indexOf(target);
      if (inst.target < 0) {
        decoder.unsupported(fmt::format("a branch to {:#x}, where no instruction starts", target));
      }
      return true;
    }
  }
  for (const ControlRow &row : simple) {
    if (row.name == name) {
      inst.exec = row.exec;
      inst.kind = row.kind;
      inst.immediate = decoder.operandCount() != 0 ? decoder.operand(0).integer : 0;
      return true;
    }
  }
  if (name == "s_barrier_signal" || name == "s_barrier_wait") {
    const int64_t which = int16_t(decoder.operand(0).integer);
    if (which != -1) {
      decoder.unsupported("a barrier other than that of the work-group");
    }
    inst.exec = name == "s_barrier_signal" ? execBarrierSignal : execBarrierWait;
    inst.kind = Class::Barrier;
    return true;
  }
  if (name == "s_sendmsg") {
    if (!decoder.has("sendmsg") || *text.modifier("sendmsg") != "MSG_DEALLOC_VGPRS") {
      decoder.unsupported("a message");
    }
    inst.exec = execNothing;
    return true;
  }
  if (name == "s_trap") {
    inst.exec = execTrap;
    inst.immediate = decoder.operand(0).integer;
    return true;
  }
  if (name == "s_getpc_b64") {
    inst.exec = execGetPc;
    inst.kind = Class::Scalar;
    decoder.setScalarDestination(decoder.operand(0), 2);
    return true;
  }
  if (name == "s_setpc_b64") {
    inst.exec = execSetPc;
    inst.kind = Class::Branch;
    decoder.addSource(decoder.operand(0), Type::B64);
    return true;
  }
  if (name == "s_swappc_b64") {
    inst.exec = execSwapPc;
    inst.kind = Class::Branch;
    decoder.setScalarDestination(decoder.operand(0), 2);
    decoder.addSource(decoder.operand(1), Type::B64);
    return true;
  }
  if (name == "s_memtime" || name == "s_memrealtime") {
    inst.exec = execTime;
    inst.kind = Class::Scalar;
    decoder.setScalarDestination(decoder.operand(0), 2);
    return true;
  }
  return false;
}
