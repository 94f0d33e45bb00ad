//===- Generate.h - kvc-run generate, perplexity, logits --------*- C++ -*-===//
#ifndef KVC_TOOLS_KVC_RUN_GENERATE_H
#define KVC_TOOLS_KVC_RUN_GENERATE_H

#include "kvc/Driver/LanguageModel.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvc {

/// `kvc-run generate`.
struct GenerateRun {
  LanguageModelOptions model;
  std::string prompt, promptFile, idsFile;
  bool hasPrompt = false, chat = false, batch = false, json = false;
  /// Print speed and size of the cache after the text; a terminal shows them anyway.
  bool table = false;
  /// Print what the simulator counted, kernel by kernel.
  bool simReport = false;
  int64_t maxTokens = 128;
  /// 0: greedy.
  double temperature = 0;
  uint64_t seed = 0;
};
bool runGenerate(const GenerateRun &run);

/// `kvc-run perplexity`.
struct PerplexityRun {
  LanguageModelOptions model;
  std::string textFile, idsFile;
  int64_t window = 0;
  /// 0: as many as there are.
  int64_t windows = 0;
  /// Tokens of a window that are its prompt: one step, and no targets.
  int64_t prompt = 0;
  int64_t chunk = 512;
  bool json = false;
};
bool runPerplexity(const PerplexityRun &run);

/// `kvc-run logits`.
struct LogitsRun {
  LanguageModelOptions model;
  std::string idsFile, output;
  /// Comma-separated.
  std::string positions;
  int64_t chunk = 512;
  bool json = false;
};
bool runLogits(const LogitsRun &run);

/// `kvc-run info`.
struct InfoRun {
  std::string file;
  /// A file says the same on every device; one that does not exist is an error.
  std::string device = "cpu";
  int threads = 0;
  bool json = false;
};
bool runInfo(const InfoRun &run);

/// The end of a command: what of its output is still to be written; false after an error of it or now.
bool finishOutput(bool ok);

} // namespace kvc

#endif // KVC_TOOLS_KVC_RUN_GENERATE_H
