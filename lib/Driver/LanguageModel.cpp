//===- LanguageModel.cpp - A model file, compiled and running -------------===//
#include "kvc/Driver/LanguageModel.h"

#include "gguf/File.h"
#include "kvc/Dialect/KVCache/IR/KVCache.h"
#include "kvc/Driver/Compile.h"
#include "kvc/Driver/DeviceRun.h"
#include "kvc/Import/GGUF.h"
#include "kvc/InitAll.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"

using namespace kvc;
using llvm::StringRef;
using llvm::Twine;

static Status invalid(const Twine &message) { return Status(StatusCode::invalidArgument, message.str()); }
static Status lastError(kvc_status_t code) { return Status(StatusCode(int(code)), kvc_last_error_message()); }

#define KVC_CHECK(expression)                                                                                          \
  if (kvc_status_t code = (expression); code != KVC_OK) {                                                              \
    return lastError(code);                                                                                            \
  }

std::vector<std::string> kvc::cacheSpellings() {
  std::vector<std::string> spellings;
  for (llvm::StringRef prefix : {"", "kivi-"}) {
    for (const kvcache::FormatRow &row : kvcache::getFormatTable()) {
      if (prefix.empty() || row.kind == kvcache::FormatRow::Kind::Integer) {
        spellings.push_back((prefix + row.name).str());
      }
    }
  }
  return spellings;
}

Result<std::string> kvc::cacheFields(std::string_view spelling, int64_t page) {
  StringRef kv(spelling.data(), spelling.size());
  std::string fields;
  StringRef format = kv;
  bool isKivi = format.consume_front("kivi-");
  const kvcache::FormatRow *row = kvcache::lookupFormat(format);
  if (kv.empty()) {
    fields = "k = f16, v = f16";
  } else if (row && !isKivi) {
    fields = ("k = " + kv + ", v = " + kv).str();
  } else if (row && row->kind == kvcache::FormatRow::Kind::Integer) {
    // Values of an f16 tail would be rounded before they are quantised: perplexity of int4 is then off by 0.17 %.
    fields = ("k = " + format + "<axis = channel>, v = " + format + ", residual = 128, tail = f32").str();
  } else if (auto [k, v] = kv.split(",V="); k.consume_front("K=") && !k.trim().empty() && !v.trim().empty()) {
    fields = ("k = " + k + ", v = " + v).str();
  } else {
    return invalid("expects " + llvm::join(cacheSpellings(), ", ") +
                   " or K=FORMAT,V=FORMAT for the KV cache, but got '" + kv + "'");
  }
  return ("page = " + Twine(page ? page : isKivi ? 32 : 16) + ", " + fields).str();
}

double kvc::effectiveBits(const ModelFacts &facts, double bytes, double slots) {
  double elements = slots * double(facts.kvHeads) * double(facts.dim + facts.vDim);
  return elements ? 8 * bytes / elements : 0;
}

/// `file:line:column: ` of a line that somebody wrote (a method's); empty for a place in a model file or in text that
/// the compiler made.
static std::string placeOf(mlir::Location location) {
  std::string place;
  location->walk([&](mlir::Location part) {
    auto file = llvm::dyn_cast<mlir::FileLineColLoc>(part);
    if (file && file.getLine() > 0 && llvm::sys::fs::exists(file.getFilename().getValue())) {
      place =
          (file.getFilename().getValue() + ":" + Twine(file.getLine()) + ":" + Twine(file.getColumn()) + ": ").str();
      return mlir::WalkResult::interrupt();
    }
    return mlir::WalkResult::advance();
  });
  return place;
}

namespace {
/// Collects what the compiler says.
class Diagnostics {
public:
  explicit Diagnostics(mlir::MLIRContext *context)
      : handler(context, [this](mlir::Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error) {
            text += (text.empty() ? "" : "\n") + placeOf(diagnostic.getLocation()) + diagnostic.str();
          }
        }) {}
  Status status(StatusCode code) const { return Status(code, text.empty() ? "the compiler failed" : text); }

private:
  std::string text;
  mlir::ScopedDiagnosticHandler handler;
};
} // namespace

static Result<ModelFacts> factsOf(mlir::ModuleOp module) {
  auto dictionary = module->getAttrOfType<mlir::DictionaryAttr>("kvc.model");
  ModelFacts facts;
  for (auto [name, field] : {std::pair<StringRef, int64_t *>{"layers", &facts.layers},
                             {"kv_heads", &facts.kvHeads},
                             {"dim", &facts.dim},
                             {"v_dim", &facts.vDim},
                             {"vocabulary", &facts.vocabulary},
                             {"context", &facts.context}}) {
    auto number = dictionary ? dictionary.getAs<mlir::IntegerAttr>(name) : mlir::IntegerAttr();
    if (!number) {
      return Status(StatusCode::internal, ("the imported module has no number kvc.model." + name).str());
    }
    *field = number.getInt();
  }
  return facts;
}

mlir::OwningOpRef<mlir::ModuleOp> kvc::importModel(const gguf::File &file, mlir::MLIRContext *context,
                                                   const LanguageModelOptions &options) {
  Result<std::string> fields = cacheFields(options.kv, options.page);
  if (!fields.ok()) {
    emitError(mlir::UnknownLoc::get(context)) << fields.message();
    return nullptr;
  }
  mlir::OwningOpRef<mlir::ModuleOp> module = importGGUF(file, context, {*fields});
  MethodOptions method{options.method, options.methodArgs, {}, {}};
  if (!options.kv.empty()) {
    method.chosen = {"k", "v"};
    if (llvm::StringRef(options.kv).starts_with("kivi-")) {
      method.chosen.push_back("residual");
    }
  }
  if (options.page) {
    method.chosen.push_back("page");
  }
  if (!module || failed(applyMethod(*module, method))) {
    return nullptr;
  }
  setLinearAccuracy(*module, options.linearAccuracy);
  return module;
}

Result<std::unique_ptr<LanguageModel>> LanguageModel::load(const LanguageModelOptions &options) {
  KVC_ASSIGN_OR_RETURN(gguf::File file, gguf::File::open(options.path));
  KVC_ASSIGN_OR_RETURN(text::Tokenizer tokenizer, text::Tokenizer::fromGguf(file));
  std::unique_ptr<LanguageModel> model(new LanguageModel(std::move(tokenizer)));

  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  context.printOpOnDiagnostic(false);
  Diagnostics diagnostics(&context);
  mlir::OwningOpRef<mlir::ModuleOp> module = importModel(file, &context, options);
  if (!module) {
    return diagnostics.status(StatusCode::unsupported);
  }
  KVC_ASSIGN_OR_RETURN(model->modelFacts, factsOf(*module));
  kvc_device_options_t deviceOptions{sizeof(deviceOptions), options.threads, nullptr};
  kvc_device_t *device;
  KVC_CHECK(kvc_device_create(options.device.c_str(), &deviceOptions, &device));
  model->device.reset(device);
  KVC_CHECK(kvc_device_set_profiling(device, options.profile));
  KVC_CHECK(kvc_device_set_graphs(device, options.graphs));
  CompileOptions compile;
  compile.targets = targetsOf(device, options.target);
  compile.backend.cacheFolder = options.cacheFolder.empty() ? getDefaultCacheFolder() : options.cacheFolder;
  compile.provenance = "kvc " + options.path + " --kv " + options.kv;
  llvm::FailureOr<std::vector<uint8_t>> artifact = compileModule(*module, compile);
  if (failed(artifact)) {
    return diagnostics.status(StatusCode::unsupported);
  }

  kvc_module_t *loaded;
  KVC_CHECK(kvc_module_load_bytes(device, artifact->data(), artifact->size(), nullptr, &loaded));
  model->module.reset(loaded, kvc_module_release);
  KVC_CHECK(kvc_module_bind_weights(loaded, options.path.c_str()));
  return model;
}

Result<std::string> LanguageModel::takeProfile() const {
  const char *json;
  KVC_CHECK(kvc_device_take_profile(device.get(), &json));
  return std::string(json);
}

Result<LanguageModel::GraphCounts> LanguageModel::graphCounts() const {
  GraphCounts counts;
  KVC_CHECK(kvc_device_get_graph_counts(device.get(), &counts.captured, &counts.launched));
  return counts;
}

Result<ModelSession> LanguageModel::createSession(int32_t sequences, int64_t maxLength) const {
  ModelSession session;
  session.module = module;
  session.facts = modelFacts;
  size_t function;
  KVC_CHECK(kvc_module_find_function(module.get(), "decode", &function));
  kvc_cache_options_t options{sizeof(options), sequences, maxLength, 0, 0};
  kvc_context_t *context;
  KVC_CHECK(kvc_context_create(module.get(), function, &options, &context));
  session.context.reset(context);
  for (size_t i = 0; i < kvc_module_cache_spec_count(module.get()); ++i) {
    kvc_cache_spec_t spec;
    KVC_CHECK(kvc_module_cache_spec(module.get(), i, &spec));
    if (spec.residual > 0 && spec.seal_group > 0) {
      session.residual = spec.residual;
      session.sealGroup = spec.seal_group;
    }
  }
  return session;
}

Result<int32_t> ModelSession::create() {
  int32_t sequence;
  KVC_CHECK(kvc_sequence_create(context.get(), &sequence));
  return sequence;
}

Status ModelSession::free(int32_t sequence) {
  KVC_CHECK(kvc_sequence_free(context.get(), sequence));
  return {};
}

Result<kvc_cache_statistics_t> ModelSession::statistics() const {
  kvc_cache_statistics_t statistics;
  KVC_CHECK(kvc_context_get_statistics(context.get(), &statistics));
  return statistics;
}

Result<ModelSession::Logits> ModelSession::step(std::span<const Append> entries) { return run(entries, true); }

Result<ModelSession::Logits> ModelSession::stepAll(std::span<const Append> entries) { return run(entries, false); }

Status ModelSession::check(std::span<const Append> entries) const {
  for (const Append &entry : entries) {
    if (entry.ids.empty()) {
      return invalid("expects at least one token for each sequence of a step, but got none");
    }
    for (int32_t id : entry.ids) {
      // The graph clamps ids, so this is where a wrong one is seen.
      if (id < 0 || id >= facts.vocabulary) {
        return Status(StatusCode::outOfRange,
                      ("expects token ids of 0 to " + Twine(facts.vocabulary - 1) + ", but got " + Twine(id)).str());
      }
    }
  }
  return {};
}

int64_t ModelSession::sealedGroups(int64_t length) const {
  return std::max<int64_t>((length - residual) / sealGroup, 0);
}

int64_t ModelSession::roomUntilSeal(int64_t position) const {
  return residual + (sealedGroups(position + 1) + 1) * sealGroup - 1 - position;
}

int64_t ModelSession::exactTokens(int64_t length) const {
  return sealGroup ? length - sealedGroups(length) * sealGroup : 0;
}

Result<ModelSession::Logits> ModelSession::run(std::span<const Append> entries, bool lastRows) {
  KVC_RETURN_IF_ERROR(check(entries));
  bool isDecode = llvm::all_of(entries, [](const Append &entry) { return entry.ids.size() == 1; });
  const char *function = isDecode ? "decode" : lastRows ? "prefill" : "logits";
  if (isDecode || sealGroup == 0) {
    return call(function, entries, lastRows && !isDecode);
  }
  // Rows of the result: where the next logits of each entry go.
  std::vector<int64_t> rows;
  Logits result;
  result.vocabulary = facts.vocabulary;
  for (const Append &entry : entries) {
    rows.push_back(result.rows);
    result.rows += lastRows ? 1 : int64_t(entry.ids.size());
  }
  result.gathered.resize(size_t(result.rows * result.vocabulary));
  std::vector<Append> rest(entries.begin(), entries.end());
  while (true) {
    std::vector<Append> pieces;
    std::vector<size_t> owners;
    for (auto [i, entry] : llvm::enumerate(rest)) {
      if (entry.ids.empty()) {
        continue;
      }
      int64_t position;
      KVC_CHECK(kvc_sequence_position(context.get(), entry.sequence, &position));
      size_t count = std::min<size_t>(entry.ids.size(), size_t(roomUntilSeal(position)));
      pieces.push_back({entry.sequence, entry.ids.first(count)});
      owners.push_back(i);
      entry.ids = entry.ids.subspan(count);
    }
    if (pieces.empty()) {
      result.data = result.gathered.data();
      return result;
    }
    Result<Logits> logits = call(function, pieces, lastRows);
    KVC_RETURN_IF_ERROR(logits.status());
    const float *from = logits->data;
    for (auto [owner, piece] : llvm::zip_equal(owners, pieces)) {
      int64_t count = lastRows ? 1 : int64_t(piece.ids.size());
      std::copy(from, from + count * result.vocabulary, result.gathered.begin() + rows[owner] * result.vocabulary);
      from += count * result.vocabulary;
      rows[owner] += lastRows ? 0 : count;
    }
  }
}

Result<ModelSession::Logits> ModelSession::call(const char *name, std::span<const Append> entries, bool lastRows) {
  std::vector<int32_t> tokens, last, sequences, counts;
  for (const Append &entry : entries) {
    tokens.insert(tokens.end(), entry.ids.begin(), entry.ids.end());
    last.push_back(int32_t(tokens.size()) - 1);
    sequences.push_back(entry.sequence);
    counts.push_back(int32_t(entry.ids.size()));
  }
  kvc_batch_t *rawBatch;
  KVC_CHECK(kvc_context_batch(context.get(), sequences.size(), sequences.data(), counts.data(), &rawBatch));
  runtime::BatchHandle batch(rawBatch);
  size_t function;
  KVC_CHECK(kvc_module_find_function(module.get(), name, &function));
  int64_t tokenCount = tokens.size(), lastCount = last.size();
  auto vector = [](const std::vector<int32_t> &values, const int64_t *size) {
    kvc_argument_t argument{};
    argument.kind = KVC_TENSOR;
    argument.tensor = {KVC_I32, 1, size, values.data()};
    return argument;
  };
  std::vector<kvc_argument_t> arguments{vector(tokens, &tokenCount)};
  if (lastRows) {
    arguments.push_back(vector(last, &lastCount));
  }
  kvc_argument_t batchArgument{};
  batchArgument.kind = KVC_BATCH;
  batchArgument.batch = batch.get();
  arguments.push_back(batchArgument);
  kvc_value_t *value;
  KVC_CHECK(kvc_context_call(context.get(), function, arguments.data(), arguments.size(), &value, 1));
  Logits logits;
  logits.value.reset(value);
  kvc_tensor_t tensor;
  KVC_CHECK(kvc_value_tensor(value, &tensor));
  if (tensor.dtype != KVC_F32 || tensor.rank != 2 || tensor.dims[1] != facts.vocabulary) {
    return Status(StatusCode::internal, "the model's function does not return logits");
  }
  logits.data = static_cast<const float *>(tensor.data);
  logits.rows = tensor.dims[0];
  logits.vocabulary = tensor.dims[1];
  return logits;
}
