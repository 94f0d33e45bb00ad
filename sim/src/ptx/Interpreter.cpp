//===- Interpreter.cpp - Runs a warp --------------------------------------===//
#include "ptx/Barrier.h"
#include "ptx/Machine.h"

#include "common/Fault.h"

#include <bit>

using namespace kvc::sim;
using namespace kvc::sim::ptx;

std::string kvc::sim::ptx::describe(const Program &program, const Inst &inst) {
  const SourceLine &source = program.source[inst.index];
  const Instruction &instruction = *source.instruction;
  std::string text = fmt::format("{}:{}: `{}`", program.module->name, instruction.line, instruction.text);
  const Location &location = instruction.location;
  if (location.line != 0 && location.file < program.module->files.size()) {
    text += fmt::format(" ({}:{}:{})", program.module->files[location.file], location.line, location.column);
  }
  return text;
}

/// Lanes of `taken` go to `target`, the others of the top entry to `other`; they meet at `meet`.
static void part(Warp &warp, uint32_t taken, int32_t target, int32_t other, int32_t meet) {
  StackEntry &top = warp.stack.back();
  const uint32_t rest = top.mask & ~taken;
  if (meet < 0) {
    meet = top.meet;
  }
  if (meet == top.meet) {
    // The entry below already waits at the meeting point for all of these lanes.
    top.mask = rest;
    top.pc = other;
    warp.stack.push_back({target, meet, taken, false});
    return;
  }
  top.pc = meet;
  if (other != meet) {
    warp.stack.push_back({other, meet, rest, false});
  }
  if (target != meet) {
    warp.stack.push_back({target, meet, taken, false});
  }
}

static void leave(Warp &warp, uint32_t lanes) {
  warp.alive &= ~lanes;
  for (StackEntry &entry : warp.stack) {
    entry.mask &= ~lanes;
  }
}

/// Takes lanes out of the function that was called last.
static void returnFromCall(Warp &warp, uint32_t lanes) {
  for (size_t i = warp.stack.size(); i-- > 0;) {
    warp.stack[i].mask &= ~lanes;
    if (warp.stack[i].isCall) {
      return;
    }
  }
  warp.alive &= ~lanes;
}

static void ends(Warp &warp, Flow flow, uint32_t lanes) {
  flow == Flow::Return ? returnFromCall(warp, lanes) : leave(warp, lanes);
}

/// Lanes that a branch takes straight to an end have ended before the others go on: those may meet at barriers.
static bool endsAtOnce(Warp &warp, const Inst *code, InstCounters *counters, int32_t target, uint32_t lanes) {
  const Inst &inst = code[target];
  if ((inst.flow != Flow::Return && inst.flow != Flow::Exit) || inst.guard != noPlace) {
    return false;
  }
  ends(warp, inst.flow, lanes);
  ++counters[target].issued;
  counters[target].lanes += uint64_t(std::popcount(lanes));
  return true;
}

static void branchIndexed(Warp &warp, const Inst &inst, uint32_t active) {
  const auto &table = warp.worker->launch->program->operandLists[inst.aux];
  const uint32_t *index = warp.lanes<uint32_t>(inst.op[0]);
  // Lanes with the first lane's target part from the others, which come here again.
  const auto first = unsigned(std::countr_zero(active));
  if (index[first] >= table.size()) {
    fail(FaultKind::InvalidValue, "expects an index below {} into the list of targets, but got {} (lane {})",
         table.size(), index[first], first);
  }
  uint32_t same = 0;
  for (unsigned lane = 0; lane < laneCount; ++lane) {
    same |= uint32_t((active >> lane & 1) && index[lane] < table.size() && table[index[lane]] == table[index[first]])
            << lane;
  }
  const auto target = int32_t(table[index[first]]);
  StackEntry &top = warp.stack.back();
  if (same == top.mask) {
    top.pc = target;
  } else {
    // With a guard that is false for some, those fall through; the rest executes the branch again.
    part(warp, same, target, same == active ? warp.pc + 1 : warp.pc, inst.meet);
  }
}

static void runSlice(Warp &warp, uint32_t slice, uint64_t &executed) {
  Worker &worker = *warp.worker;
  const Inst *code = worker.launch->program->code.data();
  InstCounters *counters = worker.counters.data();
  while (executed < slice) {
    if (warp.stack.empty()) {
      warp.done = true;
      return;
    }
    StackEntry &top = warp.stack.back();
    if (top.mask == 0 || top.pc == top.meet) {
      warp.stack.pop_back();
      continue;
    }
    const int32_t pc = top.pc;
    const Inst &inst = code[pc];
    warp.pc = pc;
    uint32_t active = top.mask;
    if (inst.guard != noPlace) {
      const uint32_t value = warp.predicate(inst.guard);
      active &= inst.guardNegated ? ~value : value;
    }
    if (inst.aligned && active != 0 && active != warp.alive) {
      fail(FaultKind::Race, "expects all {} lanes of the warp that have not exited, but got lanes {:#010x} of {:#010x}",
           std::popcount(warp.alive), active, warp.alive);
    }
    if (warp.anyInFlight && active != 0) {
      checkInFlight(warp, inst);
    }
    if (!warp.accessed.empty() && active != 0) {
      noteAccess(warp, inst);
    }
    if (inst.flow == Flow::Wait) {
      warp.blocked = false;
      if (active != 0) {
        inst.exec(warp, inst, active);
      }
      if (warp.blocked) {
        return;
      }
      warp.stack.back().pc = pc + 1;
    } else if (inst.flow == Flow::Plain) {
      if (active != 0) {
        inst.exec(warp, inst, active);
      }
      top.pc = pc + 1;
    } else {
      switch (inst.flow) {
      case Flow::Branch:
        if (active == top.mask) {
          top.pc = inst.target;
        } else if (active == 0) {
          top.pc = pc + 1;
        } else if (endsAtOnce(warp, code, counters, inst.target, active)) {
          top.pc = pc + 1;
        } else if (endsAtOnce(warp, code, counters, pc + 1, top.mask & ~active)) {
          top.pc = inst.target;
        } else {
          part(warp, active, inst.target, pc + 1, inst.meet);
        }
        break;
      case Flow::BranchIndexed:
        if (active == 0) {
          top.pc = pc + 1;
        } else {
          branchIndexed(warp, inst, active);
        }
        break;
      case Flow::Call:
        top.pc = pc + 1;
        if (active != 0) {
          warp.stack.push_back({inst.target, -1, active, true});
        }
        break;
      default:
        top.pc = pc + 1;
        ends(warp, inst.flow, active);
        break;
      }
    }
    ++counters[pc].issued;
    counters[pc].lanes += uint64_t(std::popcount(active));
    ++executed;
    if (warp.yields) {
      warp.yields = false;
      warp.spun = true;
      return;
    }
  }
}

bool kvc::sim::ptx::runWarp(Warp &warp, uint32_t slice) {
  uint64_t executed = 0;
  warp.spun = false;
  try {
    runSlice(warp, slice, executed);
  } catch (const Fault &fault) {
    const Cta &cta = *warp.cta;
    const Program &program = *warp.worker->launch->program;
    throw Fault(fault.kind, fmt::format("{}: {}\n  in kernel {}, CTA ({}, {}, {}), warp {}",
                                        describe(program, program.code[warp.pc]), fault.what(), program.name, cta.x,
                                        cta.y, cta.z, warp.index));
  }
  warp.executed += executed;
  warp.worker->executed += executed;
  return (executed != 0 && !warp.spun) || warp.done;
}
