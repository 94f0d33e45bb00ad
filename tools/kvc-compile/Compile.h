//===- Compile.h - The command line of kvc-compile --------------*- C++ -*-===//
#ifndef KVC_TOOLS_KVC_COMPILE_COMPILE_H
#define KVC_TOOLS_KVC_COMPILE_COMPILE_H

#include "kvc/Driver/LanguageModel.h"

#include <string>
#include <vector>

namespace kvc {

struct CompileRun {
  std::string file, output;
  std::vector<std::string> targets;
  std::string emit = "artifact";
  bool noCache = false;
  std::string reproducerFolder;
  bool remarks = false;
  /// Storage of a model's caches, its method, and the folder of the kernels.
  LanguageModelOptions model;
};

/// Runs it; false after an error, which is on stderr.
bool runCompile(const CompileRun &run);

} // namespace kvc

#endif // KVC_TOOLS_KVC_COMPILE_COMPILE_H
