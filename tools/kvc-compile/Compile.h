//===- Compile.h - The command line of kvc-compile --------------*- C++ -*-===//
#ifndef KVC_TOOLS_KVC_COMPILE_COMPILE_H
#define KVC_TOOLS_KVC_COMPILE_COMPILE_H

#include <string>
#include <vector>

namespace kvc {

struct CompileRun {
  std::string file, output;
  std::vector<std::string> targets;
  std::string emit = "artifact";
  std::string cacheFolder;
  bool noCache = false;
  std::string reproducerFolder;
  std::string method = "dense";
  std::vector<std::string> methodArgs;
};

/// Runs it; false after an error, which is on stderr.
bool runCompile(const CompileRun &run);

} // namespace kvc

#endif // KVC_TOOLS_KVC_COMPILE_COMPILE_H
