//===- DriverOptions.h - Options of simulated drivers -----------*- C++ -*-===//
//
// What kvcsim_set_option and the environment set for every driver, and where reports of launches go.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_COMMON_DRIVEROPTIONS_H
#define KVCSIM_COMMON_DRIVEROPTIONS_H

#include "common/Launch.h"

#include <string>
#include <string_view>
#include <vector>

namespace kvc::sim {

struct DriverOptions {
  LaunchOptions launch;
  std::string lastError;
  std::string reportPath;
  bool collect = false, log = true, instructions = false;
  /// Reports since they were taken last.
  std::vector<std::string> reports;
  std::string taken;

  /// Sets an option other than `target`; false when the name or the value is not known.
  bool set(std::string_view name, std::string_view value);
  bool wantsReports() const { return collect || !reportPath.empty(); }
  /// Keeps a report and appends it to the file; faults when that cannot be written.
  void report(std::string text);
  /// All reports as a JSON array; valid until the next call.
  const char *take();
  void warn(const std::vector<std::string> &warnings) const;
  void logError(const char *text) const;
};

/// Environment variables and the options that they set.
struct OptionVariable {
  const char *variable, *option;
};
inline constexpr OptionVariable optionVariables[] = {
    {"KVCSIM_TARGET", "target"}, {"KVCSIM_CHECKS", "checks"},   {"KVCSIM_SEED", "seed"},
    {"KVCSIM_ORDER", "order"},   {"KVCSIM_THREADS", "threads"}, {"KVCSIM_LIMIT", "limit"},
    {"KVCSIM_REPORT", "report"}, {"KVCSIM_LOG", "log"},         {"KVCSIM_INSTRUCTIONS", "instructions"}};

/// The parts of a list with commas.
std::vector<std::string_view> splitList(std::string_view text);

} // namespace kvc::sim

#endif // KVCSIM_COMMON_DRIVEROPTIONS_H
