//===- SimReport.h - What ran, and what a simulator counted -----*- C++ -*-===//
#ifndef KVC_TOOLS_KVC_RUN_SIMREPORT_H
#define KVC_TOOLS_KVC_RUN_SIMREPORT_H

#include "support/Result.h"
#include "llvm/Support/raw_ostream.h"

#include <nlohmann/json.hpp>

#include <string>

namespace kvc {

/// A profile of the runtime, read.
class SimReport {
public:
  static Result<SimReport> parse(const std::string &profile);

  /// [{"function", "kernel", "device", "items", "instructions"}] in the order of the dispatches; "instructions" is null
  /// where the device counted none.
  nlohmann::json dispatches() const;
  /// Sums of each kernel, in the order of the first dispatch:
  /// {"kernel", "launches", "totals", "classes", "locations", "model"}. Locations have the busiest first.
  nlohmann::json kernels() const;
  /// The same as a table, and the busiest locations of each kernel.
  void print(llvm::raw_ostream &os) const;

private:
  nlohmann::json profile;
};

/// An error unless the device is a simulator.
Status checkSimulated(const std::string &device);

} // namespace kvc

#endif // KVC_TOOLS_KVC_RUN_SIMREPORT_H
