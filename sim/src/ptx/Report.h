//===- Report.h - Counters of a launch --------------------------*- C++ -*-===//
#ifndef KVCSIM_PTX_REPORT_H
#define KVCSIM_PTX_REPORT_H

#include "ptx/Machine.h"

#include <nlohmann/json_fwd.hpp>

namespace kvc::sim::ptx {

/// The sums of a launch: instructions by class, matrix flops, ex2, bytes, sectors, shared wavefronts, barriers.
struct Totals {
  std::array<uint64_t, static_cast<size_t>(Class::Count)> issued{};
  uint64_t instructions = 0;
  uint64_t laneInstructions = 0;
  uint64_t mmaFlops = 0;
  uint64_t ex2 = 0;
  uint64_t globalLoadBytes = 0, globalStoreBytes = 0;
  uint64_t globalLoadSectors = 0, globalStoreSectors = 0;
  uint64_t sharedWavefronts = 0, sharedIdealWavefronts = 0;
  uint64_t barriers = 0;
};

Totals totalsOf(const Program &program, const std::vector<InstCounters> &counters);

/// {"kernel", "totals", "classes", "locations": [...], "blocks": [...]}; with `instructions` each one with its
/// counters.
nlohmann::json reportJson(const Program &program, const LaunchResult &result, bool instructions);

/// The same as lines of text.
std::string reportText(const Program &program, const LaunchResult &result);

} // namespace kvc::sim::ptx

#endif // KVCSIM_PTX_REPORT_H
