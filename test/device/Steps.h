//===- Steps.h - Decode steps as graphs -------------------------*- C++ -*-===//
#ifndef KVC_TEST_DEVICE_STEPS_H
#define KVC_TEST_DEVICE_STEPS_H

#include "Common.h"

namespace kvc::device {

/// Writes step.mlir, the module of the steps, into a folder.
void writeSteps(const std::string &folder);

/// Runs 40 decode steps of step.kvca with graphs and without, on sequences that grow over boundaries of pages and
/// splits. A Failure where a result has other bits or where too few steps were replayed.
Json runSteps(const std::string &device, const std::string &folder, bool small);

} // namespace kvc::device

#endif // KVC_TEST_DEVICE_STEPS_H
