//===- Report.h - Counters of a launch --------------------------*- C++ -*-===//
#ifndef KVCSIM_PTX_REPORT_H
#define KVCSIM_PTX_REPORT_H

#include "common/Report.h"
#include "ptx/Machine.h"

#include <nlohmann/json_fwd.hpp>

namespace kvc::sim::ptx {

using sim::ModelTimes;
struct Totals : LaunchTotals {
  std::array<uint64_t, static_cast<size_t>(Class::Count)> issued{};
};

Totals totalsOf(const Program &program, const std::vector<InstCounters> &counters);

/// Published rates of a chip: what one SM does in a cycle. A model of the time is made of them, no measurement.
struct ChipRates {
  unsigned sm;
  unsigned multiprocessors;
  /// Flops of f16 matrix products with f32 sums.
  unsigned mmaFlops;
  /// Lanes of f32, and of the special function unit; warp instructions; bytes of shared memory.
  unsigned f32Lanes, specialLanes, issues, sharedBytes;
  /// Of the chip.
  double gigahertz, gigabytesPerSecond;
};
/// Null for a chip without rates.
const ChipRates *ratesOf(unsigned sm);

ModelTimes modelTimes(const Totals &totals, const ChipRates &rates);

/// {"kernel", "totals", "classes", "locations": [...], "blocks": [...]}; with `instructions` each one with its
/// counters.
/// With rates, "model" has the times that they give.
nlohmann::json reportJson(const Program &program, const LaunchResult &result, bool instructions,
                          const ChipRates *rates = nullptr);

/// The same as lines of text.
std::string reportText(const Program &program, const LaunchResult &result, const ChipRates *rates = nullptr);

} // namespace kvc::sim::ptx

#endif // KVCSIM_PTX_REPORT_H
