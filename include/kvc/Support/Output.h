//===- Output.h - Files that tools write ------------------------*- C++ -*-===//
#ifndef KVC_SUPPORT_OUTPUT_H
#define KVC_SUPPORT_OUTPUT_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace kvc {

/// A file to write; '-' is standard output.
struct Output {
  std::string path;
  std::string bytes;
};

/// Writes all files, or, after an error that says which path and why, changes none that is regular. A regular file
/// appears as a whole, beside which it was written, with the permissions that it had; a link stays and its target is
/// written; pipes and devices get the bytes. Two outputs of one file are an error.
llvm::Error writeOutputs(llvm::ArrayRef<Output> outputs);

/// The end of a tool whose results go to standard output: false, with a message of `tool` on standard error, when not
/// all of them could be written.
bool finishStandardOutput(llvm::StringRef tool);

} // namespace kvc

#endif // KVC_SUPPORT_OUTPUT_H
