//===- Report.h - Counters of a launch --------------------------*- C++ -*-===//
#ifndef KVCSIM_AMDGCN_REPORT_H
#define KVCSIM_AMDGCN_REPORT_H

#include "amdgcn/Machine.h"

#include <nlohmann/json_fwd.hpp>

namespace kvc::sim::amdgcn {

/// The keys are those of the PTX simulator's report, and "resources" of the kernel; with `instructions` each one with
/// its counters.
nlohmann::json reportJson(const Program &program, const LaunchResult &result, bool instructions);

/// The same as lines of text.
std::string reportText(const Program &program, const LaunchResult &result);

} // namespace kvc::sim::amdgcn

#endif // KVCSIM_AMDGCN_REPORT_H
