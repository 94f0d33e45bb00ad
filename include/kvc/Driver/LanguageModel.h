//===- LanguageModel.h - A model file, compiled and running -----*- C++ -*-===//
//
// Imports a GGUF file with a storage of its cache, compiles it, loads it into the runtime, and runs steps for several
// sequences. What kvc-run and the Python package stand on.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_DRIVER_LANGUAGEMODEL_H
#define KVC_DRIVER_LANGUAGEMODEL_H

#include "kvc_runtime.hpp"
#include "support/Result.h"
#include "text/Tokenizer.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace kvc {

struct LanguageModelOptions {
  std::string path;
  /// One of cacheSpellings(), or K=FORMAT,V=FORMAT.
  /// Empty: what the method needs, else f16.
  std::string kv;
  /// Slots of a page; 0: 16, and 32 for kivi-*.
  int64_t page = 0;
  /// KV method: a name, or a file; and values of its parameters, k=v.
  std::string method = "dense";
  std::vector<std::string> methodArgs;
  /// Of linear layers on GPUs: "exact" (as f32) or "fast" (activations rounded to bf16).
  std::string linearAccuracy = "exact";
  std::string device = "cpu";
  /// 0: one per CPU that the process may use.
  int threads = 0;
  /// Row of the table of targets; empty: the best of this machine.
  std::string target;
  /// Folder of compiled kernels and artifacts; empty: the default one.
  std::string cacheFolder;
  /// Keep what is dispatched, for takeProfile.
  bool profile = false;
  /// Replay launches of equal calls as graphs; an error on a device that has none.
  bool graphs = false;
};

/// Names of storages of keys and values: each storage format, and kivi- before those of integers.
std::vector<std::string> cacheSpellings();
/// The fields of a cache type after heads and dimensions, for the spellings of LanguageModelOptions::kv.
Result<std::string> cacheFields(std::string_view kv, int64_t page);

/// Numbers about a model.
struct ModelFacts {
  int64_t layers = 0, kvHeads = 0, dim = 0, vDim = 0, vocabulary = 0, context = 0;
};

/// Sequences over one set of caches. Not for several threads at a time.
class ModelSession {
public:
  /// New tokens of a sequence.
  struct Append {
    int32_t sequence;
    std::span<const int32_t> ids;
  };
  /// Rows x vocabulary, as they lie in the runtime, or gathered from several calls.
  struct Logits {
    runtime::ValueHandle value;
    std::vector<float> gathered;
    const float *data = nullptr;
    int64_t rows = 0, vocabulary = 0;
    std::span<const float> row(int64_t i) const { return {data + i * vocabulary, size_t(vocabulary)}; }
  };

  Result<int32_t> create();
  Status free(int32_t sequence);
  // Where a cache keeps its newest tokens exact, a step runs in pieces that end where a group is sealed, so that every
  // token sees what it would see if the tokens came one by one.

  /// One step. Logits of the last new token of each entry, in order. A step with one token for every entry is a decode
  /// step.
  Result<Logits> step(std::span<const Append> entries);
  /// One step. Logits of every new token.
  Result<Logits> stepAll(std::span<const Append> entries);
  Result<kvc_cache_statistics_t> statistics() const;
  /// Of the first `length` tokens of a sequence, those that are stored as they are because no group of codes has them
  /// yet; 0 where tokens become codes when they are appended, or never do.
  int64_t exactTokens(int64_t length) const;

private:
  friend class LanguageModel;
  Result<Logits> call(const char *function, std::span<const Append> entries, bool lastRows);
  Result<Logits> run(std::span<const Append> entries, bool lastRows);
  Status check(std::span<const Append> entries) const;
  int64_t sealedGroups(int64_t length) const;
  /// New tokens that a sequence with `position` tokens takes before a group is sealed.
  int64_t roomUntilSeal(int64_t position) const;

  std::shared_ptr<kvc_module_t> module;
  runtime::ContextHandle context;
  ModelFacts facts;
  /// Newest tokens that stay exact, and tokens that are sealed together; 0: nothing is sealed later than it is
  /// appended.
  int64_t residual = 0, sealGroup = 0;
};

class LanguageModel {
public:
  /// Compiles and loads. Diagnostics of the compiler are in the status.
  static Result<std::unique_ptr<LanguageModel>> load(const LanguageModelOptions &options);

  const ModelFacts &facts() const { return modelFacts; }
  const text::Tokenizer &tokenizer() const { return modelTokenizer; }
  /// Target that the code is for.
  std::string target() const { return kvc_module_target(module.get()); }

  /// The dispatches since the last call, as kvc_device_take_profile gives them.
  Result<std::string> takeProfile() const;

  /// Graphs that were captured so far, and how often one was launched.
  struct GraphCounts {
    int64_t captured = 0, launched = 0;
  };
  Result<GraphCounts> graphCounts() const;

  /// Room for `sequences` sequences of `maxLength` tokens.
  Result<ModelSession> createSession(int32_t sequences, int64_t maxLength) const;

private:
  explicit LanguageModel(text::Tokenizer tokenizer) : modelTokenizer(std::move(tokenizer)) {}

  text::Tokenizer modelTokenizer;
  ModelFacts modelFacts;
  runtime::DeviceHandle device;
  std::shared_ptr<kvc_module_t> module;
};

/// Effective bits of an element: `bytes` for `slots` slots of all layers of the model.
double effectiveBits(const ModelFacts &facts, double bytes, double slots);

} // namespace kvc

#endif // KVC_DRIVER_LANGUAGEMODEL_H
