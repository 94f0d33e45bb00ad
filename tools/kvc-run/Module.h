//===- Module.h - kvc-run module --------------------------------*- C++ -*-===//
#ifndef KVC_TOOLS_KVC_RUN_MODULE_H
#define KVC_TOOLS_KVC_RUN_MODULE_H

#include <cstdint>
#include <string>
#include <vector>

namespace kvc {

namespace reference {
class Evaluator;
} // namespace reference

/// The command line of `kvc-run module`.
struct ModuleRun {
  std::string file, function;
  std::vector<std::string> inputs, outputs;
  bool reference = false, json = false;
  /// Where it runs without `reference`, and for which target a module that is not an artifact is compiled ("": the
  /// best).
  std::string device = "cpu", target;
  int threads = 0;
  /// The GGUF file with the tensors of kvcache.weight; empty: the module has none.
  std::string weights;
  int64_t cachePages = 0;
  /// -1: as many as the batches of the inputs name.
  int64_t sequences = -1;
  int64_t capacity = 4096;
  bool wide = false;
  /// Print what the simulator counted, kernel by kernel.
  bool simReport = false;
};

/// Runs it; false after an error, which is on stderr. `oracle` stands in for the reference oracle (a broken one in
/// tests of the tests).
bool runModule(const ModuleRun &run, reference::Evaluator *oracle = nullptr);

} // namespace kvc

#endif // KVC_TOOLS_KVC_RUN_MODULE_H
