//===- Waits.cpp - Counters of outstanding memory operations --------------===//
#include "amdgcn/Waits.h"

#include "amdgcn/Machine.h"

using namespace kvc::sim;
using namespace kvc::sim::amdgcn;

static constexpr const char *counterNames[] = {"loads (vmcnt)", "stores (vscnt)", "LDS operations (lgkmcnt)",
                                               "scalar loads (kmcnt)"};

uint32_t Waits::issue(Counter counter, bool unordered) {
  const uint32_t number = ++issued[size_t(counter)];
  if (unordered) {
    lastUnordered[size_t(counter)] = number;
  }
  return number;
}

void Waits::markPending(const Inst &inst, const RegisterRange &range, Counter counter, uint32_t number, Counter second,
                        uint32_t secondNumber) {
  for (unsigned i = 0; i < range.count; ++i) {
    Pending &to = entry(range.first + i, range.vector);
    pendingCount += !to.active;
    to = {{number, secondNumber}, inst.index, {counter, second}, true};
  }
}

void Waits::wait(const WaitCounts &counts) {
  for (size_t c = 0; c < counterCount; ++c) {
    const uint32_t most = counts.most[c];
    if (most == noWait || issued[c] - finished[c] <= most) {
      continue;
    }
    // Operations that end out of order are known to have ended only when none is left.
    if (most != 0 && lastUnordered[c] > finished[c]) {
      continue;
    }
    finished[c] = issued[c] - most;
  }
  if (pendingCount != 0 && issued == finished) {
    for (Pending &p : vectors) {
      p.active = false;
    }
    for (Pending &p : scalars) {
      p.active = false;
    }
    pendingCount = 0;
  }
}

void Waits::check(const Program &program, const Inst &inst, const RegisterRange &range, bool write, Counter by) {
  for (unsigned i = 0; i < range.count; ++i) {
    Pending &p = entry(range.first + i, range.vector);
    if (!p.active) {
      continue;
    }
    if (isDone(p)) {
      p.active = false;
      --pendingCount;
      continue;
    }
    if (write && by == p.counter[0] && by == p.counter[1] && lastUnordered[size_t(by)] <= finished[size_t(by)]) {
      continue;
    }
    const bool first = p.number[0] > finished[size_t(p.counter[0])];
    const size_t counter = size_t(p.counter[first ? 0 : 1]);
    fail(FaultKind::Race,
         "expects a wait for {} before {}{} is {}: it is the destination of {}, which was not waited for",
         counterNames[counter], range.vector ? (range.first + i >= firstAgpr ? "a" : "v") : "s",
         range.vector ? (range.first + i) % firstAgpr : range.first + i, write ? "written" : "read",
         describe(program, p.inst));
  }
}
