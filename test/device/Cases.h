//===- Cases.h - Recorded runs of the differential test ---------*- C++ -*-===//
#ifndef KVC_TEST_DEVICE_CASES_H
#define KVC_TEST_DEVICE_CASES_H

#include "Common.h"

namespace kvc::device {

/// Runs the records of a folder (test/differential/Record.h) whose names are in `only` (all where it is empty) on a
/// device and compares every result. Stops before a case that begins after `seconds`: the rest counts as left out.
/// The object has "passed", "failed", "left_out" and "failures"; each failure is printed too.
Json runCases(const std::string &device, const std::string &folder, const std::vector<std::string> &only,
              double seconds);

} // namespace kvc::device

#endif // KVC_TEST_DEVICE_CASES_H
