//===- Waits.h - Counters of outstanding memory operations ------*- C++ -*-===//
//
// A load's registers belong to it until its counter has been waited for: whoever reads or writes them before is wrong,
// whatever a run on hardware happens to give.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_AMDGCN_WAITS_H
#define KVCSIM_AMDGCN_WAITS_H

#include "amdgcn/Program.h"

#include <bitset>
#include <deque>

namespace kvc::sim::amdgcn {

/// Loads (and, on CDNA, stores), stores, LDS (and scalar loads before gfx12), scalar loads of gfx12.
enum class Counter : uint8_t { Load, Store, Lds, Scalar, Count };
inline constexpr size_t counterCount = size_t(Counter::Count);
inline constexpr uint32_t noWait = ~0u;

/// What a wait asks for: outstanding operations at most, for each counter.
struct WaitCounts {
  std::array<uint32_t, counterCount> most{noWait, noWait, noWait, noWait};
};

class Waits {
public:
  void reset() { *this = Waits(); }

  /// Starts an operation; gives its number. `unordered`: it may end before older ones.
  uint32_t issue(Counter counter, bool unordered);
  /// The registers that an operation will write. `second` is the other counter of a flat access.
  void markPending(const Inst &inst, const RegisterRange &range, Counter counter, uint32_t number, Counter second,
                   uint32_t secondNumber);
  void wait(const WaitCounts &counts);
  bool pending() const { return pendingCount != 0; }
  /// Faults when a register is the destination of a load that was not waited for. A load into the registers of an
  /// older one of the same counter is in order.
  void check(const Program &program, const Inst &inst, const RegisterRange &range, bool write, Counter by);
  uint32_t done(Counter counter) const { return finished[size_t(counter)]; }
  uint32_t outstanding(Counter counter) const { return issued[size_t(counter)] - finished[size_t(counter)]; }

private:
  struct Pending {
    uint32_t number[2];
    uint32_t inst;
    Counter counter[2];
    bool active = false;
  };
  bool isDone(const Pending &entry) const {
    return entry.number[0] <= finished[size_t(entry.counter[0])] &&
           entry.number[1] <= finished[size_t(entry.counter[1])];
  }
  Pending &entry(unsigned reg, bool vector) { return vector ? vectors[reg] : scalars[reg]; }

  std::array<uint32_t, counterCount> issued{}, finished{}, lastUnordered{};
  std::array<Pending, 512> vectors{};
  std::array<Pending, sreg::Count> scalars{};
  uint32_t pendingCount = 0;
};

} // namespace kvc::sim::amdgcn

#endif // KVCSIM_AMDGCN_WAITS_H
