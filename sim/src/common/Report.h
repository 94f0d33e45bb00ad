//===- Report.h - What reports of launches have in common -------*- C++ -*-===//
//
// Sums of a launch and a model of its time, as JSON and as text, with the same keys whatever machine code ran.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_COMMON_REPORT_H
#define KVCSIM_COMMON_REPORT_H

#include "common/Launch.h"

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace kvc::sim {

/// The sums of a launch: instructions by class, matrix flops, ex2, bytes, sectors, shared wavefronts, barriers.
struct LaunchTotals {
  uint64_t instructions = 0;
  uint64_t laneInstructions = 0;
  uint64_t mmaFlops = 0;
  uint64_t ex2 = 0;
  uint64_t globalLoadBytes = 0, globalStoreBytes = 0;
  uint64_t globalLoadSectors = 0, globalStoreSectors = 0;
  uint64_t sharedWavefronts = 0, sharedIdealWavefronts = 0;
  uint64_t barriers = 0;
  /// Warp instructions of each class that has any.
  std::vector<std::pair<std::string_view, uint64_t>> classes;
};

/// Microseconds that each unit of the chip is busy with a launch's work, spread over all of it; the largest bounds the
/// time from below. A model from published rates, no measurement.
struct ModelTimes {
  double tensor, issue, f32, special, shared, dram;
  double largest() const;
};

/// "kernel", "totals", "classes" and, with times, "model".
nlohmann::json totalsJson(std::string_view kernel, const LaunchTotals &totals, const ModelTimes *times);
/// The same as lines of text.
std::string totalsText(std::string_view kernel, const LaunchTotals &totals, const ModelTimes *times);
/// Counters of one instruction or of a sum of some.
nlohmann::json countersJson(const InstCounters &counters);

} // namespace kvc::sim

#endif // KVCSIM_COMMON_REPORT_H
