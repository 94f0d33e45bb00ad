//===- Report.h - One report of all parts -----------------------*- C++ -*-===//
#ifndef KVC_TEST_DEVICE_REPORT_H
#define KVC_TEST_DEVICE_REPORT_H

#include "Common.h"

namespace kvc::device {

/// Merges what the parts left in a folder: PART.status (exit status, seconds and limit of the part, a line), PART.json
/// (its results, if it came that far) and PART.log. "ok" is whether all parts passed.
Json mergeReport(const std::string &folder, const std::vector<std::string> &parts);

} // namespace kvc::device

#endif // KVC_TEST_DEVICE_REPORT_H
