//===- Inputs.h - Files that several commands read --------------*- C++ -*-===//
#ifndef KVC_TOOLS_KVC_RUN_INPUTS_H
#define KVC_TOOLS_KVC_RUN_INPUTS_H

#include "support/Result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvc {

Result<std::string> readFile(const std::string &path);

/// A JSON file with an array of ids, or with an object that has one as "ids".
Result<std::vector<int32_t>> readIds(const std::string &path);

/// Whether a device of that name can be opened with that many threads.
Status checkDevice(const std::string &device, int threads);

} // namespace kvc

#endif // KVC_TOOLS_KVC_RUN_INPUTS_H
