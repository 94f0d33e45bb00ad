//===- Session.cpp - One run of a kernel ----------------------------------===//
#include "Session.h"

#include "Replay.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include <cmath>

using namespace mlir;
using namespace kvc;
using namespace kvc::differential;

static constexpr int64_t denseSlots = 11;

Session::Session(Kernel &kernel, kvc_device_t *device, kvc_module_t *code, const CaseId &id,
                 reference::Evaluator &oracle)
    : kernel(kernel), device(device), code(code), id(id), meaning(kernel.module.meaning), oracle(oracle),
      random(id.seed * 64 + id.number(AxisShape)) {}

std::string Session::run() {
  failure = createCaches();
  if (failure.empty()) {
    program();
  }
  return failure;
}

//===----------------------------------------------------------------------===//
// Caches
//===----------------------------------------------------------------------===//

/// Bytes that kernels must not let through.
static std::vector<uint8_t> garbage(StringRef kind, uint64_t bytes, Random random) {
  std::vector<uint8_t> data(bytes);
  // 0xff..: NaN of every float, codes of all ones. 0x7f800000: an infinity of f32 and of bf16. 0x7c00: one of f16.
  static constexpr uint8_t nan[] = {0xff, 0xff, 0xff, 0xff}, inf32[] = {0x00, 0x00, 0x80, 0x7f},
                           inf16[] = {0x00, 0x7c, 0x00, 0xfc};
  const uint8_t *pattern = kind == "nan" ? nan : kind == "inf32" ? inf32 : kind == "inf16" ? inf16 : nullptr;
  for (uint64_t i = 0; i < bytes; ++i) {
    data[i] = pattern ? pattern[i % 4] : static_cast<uint8_t>(random.next());
  }
  return data;
}

static std::string runtimeMessage() { return std::string("the runtime says: ") + kvc_last_error_message(); }

/// A cache whose pools hold garbage.
static std::string createCache(kvc_module_t *code, size_t spec, int64_t sequences, int64_t capacity, const CaseId &id,
                               runtime::CacheHandle &cache) {
  kvc_cache_options_t options{sizeof(options), static_cast<int32_t>(sequences), capacity, 0, 0};
  kvc_cache_t *made;
  kvc_cache_spec_t layout;
  kvc_cache_statistics_t statistics;
  if (kvc_cache_create(code, spec, &options, &made) != KVC_OK) {
    return runtimeMessage();
  }
  cache.reset(made);
  if (kvc_module_cache_spec(code, spec, &layout) != KVC_OK || kvc_cache_get_statistics(made, &statistics) != KVC_OK) {
    return runtimeMessage();
  }
  for (auto [part, bytes] : {std::pair{KVC_PAGES, statistics.pages_capacity * layout.page_bytes},
                             {KVC_TAILS, statistics.tails_capacity * layout.tail_bytes}}) {
    std::vector<uint8_t> data = garbage(id[AxisGarbage], bytes, Random(id.seed));
    if (bytes && kvc_cache_write(made, part, 0, data.data(), bytes) != KVC_OK) {
      return runtimeMessage();
    }
  }
  return "";
}

std::string Session::createCaches() {
  const int64_t wanted = id[AxisShape] == "long" ? 1500 : 260;
  capacity = llvm::alignTo(wanted, meaning.page);
  auto type = cast<kvcache::CacheType>(functionOf(*kernel.module.find(FunctionKind::Dump)).getArgumentTypes()[0]);
  cache = reference::Cache::empty(type, sequences, capacity);
  prefix = cache;
  const Function *dump = kernel.module.find(FunctionKind::Dump);
  size_t function;
  kvc_port_t port;
  if (kvc_module_find_function(code, dump->name.data(), &function) != KVC_OK ||
      kvc_module_argument(code, function, 0, &port) != KVC_OK) {
    return runtimeMessage();
  }
  std::string error = createCache(code, port.cache_spec, sequences, capacity, id, deviceCache);
  return error.empty() ? createCache(code, port.cache_spec, sequences, capacity, id, devicePrefix) : error;
}

func::FuncOp Session::functionOf(const Function &function) {
  return kernel.ir->lookupSymbol<func::FuncOp>(function.name);
}

//===----------------------------------------------------------------------===//
// What is called
//===----------------------------------------------------------------------===//

void Session::program() {
  // Rows of a prefill, and slots of a long cache, that the oracle takes some hundredths of a second for.
  const double perPair = meaning.queryHeads *
                         (meaning.dim + meaning.vDim + (kernel.module.config[AxisScore] == "none" ? 0 : 400)),
               perSlot = meaning.kvHeads * (meaning.dim + meaning.vDim);
  const int64_t many = std::clamp<int64_t>(std::sqrt(8e6 / perPair), 5, 140);
  const int64_t length = std::clamp<int64_t>(std::min(1e7 / perPair, 4e5 / perSlot), 40, 1300);
  auto some = [&](ArrayRef<int64_t> choices) {
    Rows rows;
    for (int64_t i = 0; i < sequences; ++i) {
      rows.push_back(std::min(choices[random.below(choices.size())], many));
    }
    return rows;
  };
  if (kernel.module.find(FunctionKind::AppendPrefix)) {
    call(FunctionKind::AppendPrefix, batchOf({std::min<int64_t>(many, random.between(1, 40)), 0, 7}, true));
  }
  const StringRef shape = id[AxisShape];
  const bool isTree = kernel.module.config[AxisMask].contains("tree");
  if (shape == "ragged") {
    step(some({0, 1, 1, 2, 5, 9, 17}));
    step(some({-1, 0, 1, 2, 3, 8, 33}));
    change();
    step(some({-1, 0, 1, 2, 5}));
  } else if (shape == "decode") {
    step({std::min(many, random.between(1, 70)), 1, std::min(many, meaning.page)});
    for (int i = 0; i < 3; ++i) {
      step(some({1, 1, 1, -1}));
    }
    change();
    step({1, 1, 1});
  } else if (shape == "empty") {
    if (!isTree) {
      call(FunctionKind::Attend, batchOf({1, -1, 3}));
    }
    step({-1, -1, -1});
    step({0, 0, 0});
    dump();
    change();
    step({-1, 0, 2});
    change();
    step({1, 0, -1});
  } else if (shape == "prefill") {
    step({many, 0, std::min<int64_t>(many, random.between(1, 40))});
    change();
    step({3, -1, 2});
  } else if (shape == "chunks") {
    for (int i = 0; i < 3; ++i) {
      reference::Batch batch = batchOf({random.between(1, 29), random.between(0, 3), -1});
      call(FunctionKind::Append, batch);
      if (i == 2) {
        call(FunctionKind::Attend, batch);
      }
    }
    change();
    step(some({1, 4}));
  } else {
    const int64_t first = random.between(length / 2, length - 8);
    call(FunctionKind::Append, batchOf({-1, first, 2}));
    call(FunctionKind::Append, batchOf({5, length - first, -1}));
    step({1, 1, 1});
    change();
    step({-1, 2, 1});
  }
  dump();
}

void Session::step(Rows rows) { call(FunctionKind::Step, batchOf(rows)); }

void Session::dump() { call(FunctionKind::Dump, batchOf({1, 1, 1})); }

void Session::change() {
  if (!kernel.module.find(FunctionKind::Change)) {
    return;
  }
  const StringRef op = kernel.module.config[AxisOp];
  const bool readsRows = op == "rope" || op == "merge_states" || op == "scores";
  Rows rows(sequences, readsRows ? 2 : 0);
  rows[random.below(sequences)] = readsRows ? random.between(0, 3) : -1;
  call(FunctionKind::Change, batchOf(rows));
}

reference::Batch Session::batchOf(const Rows &rows, bool ofPrefix) {
  reference::Batch batch{{0}, {}, {}};
  const reference::Cache &held = (ofPrefix ? prefix : cache).asCache();
  std::vector<int64_t> &next = ofPrefix ? prefixClock : clock;
  std::vector<int64_t> order;
  for (int64_t i = 0; i < sequences; ++i) {
    if (rows[i] >= 0) {
      order.insert(order.begin() + random.between(0, order.size()), i);
    }
    if (!meaning.stored) {
      next[i] = held.table(i, 0).length();
    }
  }
  for (int64_t sequence : order) {
    batch.sequences.push_back(sequence);
    for (int64_t i = 0; i < rows[sequence]; ++i) {
      batch.positions.push_back(next[sequence] + i);
    }
    batch.queryOffsets.push_back(batch.positions.size());
  }
  return batch;
}

int64_t Session::longest(const Function &function, const reference::Batch &batch) const {
  const bool appends = function.kind == FunctionKind::Step;
  int64_t result = 0;
  for (auto [entry, sequence] : llvm::enumerate(batch.sequences)) {
    for (int64_t head = 0; head < meaning.kvHeads; ++head) {
      int64_t length = cache.asCache().table(sequence, head).length() + (appends ? batch.rowsOf(entry) : 0);
      if (meaning.window) {
        length = std::min(length, meaning.sinks + meaning.window);
      }
      result = std::max(result, length);
    }
  }
  return result;
}

NpyArray Session::normal(ArrayRef<int64_t> shape, bool mayBeSpoiled) {
  int64_t size = 1;
  for (int64_t extent : shape) {
    size *= extent;
  }
  const double scale = random.pick<double>({0.5, 1.0, 2.0});
  std::vector<double> values(size);
  for (double &value : values) {
    value = static_cast<float>(scale * random.normal());
  }
  if (mayBeSpoiled) {
    spoil(values);
  }
  return NpyArray::ofFloats(shape, values, 4);
}

void Session::spoil(std::vector<double> &values) {
  const StringRef kind = id[AxisInputs];
  if (kind == "finite" || values.empty() || random.chance(0.5)) {
    return;
  }
  for (int64_t count = random.between(1, 2); count; --count) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    values[random.below(values.size())] = kind == "nan"        ? std::numeric_limits<double>::quiet_NaN()
                                          : random.chance(0.5) ? infinity
                                                               : -infinity;
  }
}

NpyArray Session::arrayOf(Role role, const Function &function, const reference::Batch &batch, int64_t slots) {
  const int64_t rows = batch.rows(), entries = batch.entries();
  auto integers = [&](ArrayRef<int64_t> shape, int64_t last) {
    std::vector<int64_t> values;
    int64_t size = 1;
    for (int64_t extent : shape) {
      size *= extent;
    }
    for (int64_t i = 0; i < size; ++i) {
      values.push_back(random.between(0, last));
    }
    return values;
  };
  switch (role) {
  case Role::Key:
    return normal({rows, meaning.kvHeads, meaning.dim});
  case Role::Value:
    return normal({rows, meaning.kvHeads, meaning.vDim});
  case Role::Query:
    return normal({rows, meaning.queryHeads, meaning.dim});
  case Role::SinkLogits:
    return normal({meaning.queryHeads}, /*mayBeSpoiled=*/false);
  case Role::Capture:
    return normal({}, /*mayBeSpoiled=*/false);
  case Role::Tree: {
    int64_t columns = 0;
    for (int64_t i = 0; i < entries; ++i) {
      columns = std::max(columns, batch.rowsOf(i));
    }
    return NpyArray::ofInts({rows, columns}, integers({rows, columns}, 1), 1);
  }
  case Role::PageScores:
  case Role::TokenScores: {
    // Few different whole numbers: there are ties, and f32 orders them as f64 does.
    int64_t extent = longest(function, batch);
    extent = role == Role::PageScores ? llvm::divideCeil(extent, meaning.page) : extent;
    std::vector<int64_t> whole = integers({entries, meaning.kvHeads, extent}, 7);
    std::vector<double> values(whole.begin(), whole.end());
    spoil(values);
    return NpyArray::ofFloats({entries, meaning.kvHeads, extent}, values, 4);
  }
  case Role::Lengths:
    return NpyArray::ofInts({entries}, integers({entries}, slots >= 0 ? slots : longest(function, batch) + 2), 4);
  case Role::DenseK:
    return normal({entries, slots, meaning.kvHeads, meaning.dim});
  case Role::DenseV:
    return normal({entries, slots, meaning.kvHeads, meaning.vDim});
  case Role::Source:
  case Role::Destination:
    return NpyArray::ofInts({}, {random.below(sequences)}, 8);
  case Role::Cache:
  case Role::Prefix:
  case Role::Batch:
    break;
  }
  return {};
}

CallArguments Session::argumentsOf(const Function &function, const reference::Batch &batch) {
  CallArguments arguments;
  arguments.batch = batch;
  const int64_t slots = llvm::is_contained(function.arguments, Role::DenseK) ? random.between(0, denseSlots) : -1;
  for (Role role : function.arguments) {
    if (role != Role::Cache && role != Role::Prefix && role != Role::Batch) {
      arguments.arrays[role] = arrayOf(role, function, batch, slots);
    }
  }
  return arguments;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

reference::Datum differential::datumOf(const NpyArray &array) {
  if (array.shape.empty()) {
    return array.isFloat() ? reference::Datum(array.floatAt(0)) : reference::Datum(array.intAt(0));
  }
  if (array.isFloat()) {
    std::vector<double> values;
    for (int64_t i = 0; i < array.size(); ++i) {
      values.push_back(array.floatAt(i));
    }
    return reference::Tensor::ofFloats(array.shape, std::move(values));
  }
  std::vector<int64_t> values;
  for (int64_t i = 0; i < array.size(); ++i) {
    values.push_back(array.intAt(i));
  }
  return reference::Tensor::ofInts(array.shape, std::move(values));
}

std::string Session::callOracle(const Function &function, const CallArguments &arguments,
                                SmallVector<reference::Datum> &results) {
  SmallVector<reference::Datum> inputs;
  for (Role role : function.arguments) {
    inputs.push_back(role == Role::Cache    ? cache
                     : role == Role::Prefix ? prefix
                     : role == Role::Batch  ? reference::Datum(arguments.batch)
                                            : datumOf(arguments.arrays.at(role)));
  }
  std::string message;
  ScopedDiagnosticHandler handler(kernel.ir->getContext(), [&](Diagnostic &diagnostic) {
    llvm::raw_string_ostream(message) << diagnostic;
    return success();
  });
  FailureOr<SmallVector<reference::Datum>> values = oracle.call(functionOf(function), inputs);
  if (failed(values)) {
    return "the oracle says: " + message;
  }
  results = std::move(*values);
  return "";
}

std::string Session::callDevice(const Function &function, const CallArguments &arguments,
                                std::vector<runtime::ValueHandle> &results) {
  size_t number;
  if (kvc_module_find_function(code, function.name.data(), &number) != KVC_OK) {
    return runtimeMessage();
  }
  std::vector<int32_t> ids, rows, positions(arguments.batch.positions.begin(), arguments.batch.positions.end());
  for (int64_t i = 0; i < arguments.batch.entries(); ++i) {
    ids.push_back(arguments.batch.sequences[i]);
    rows.push_back(arguments.batch.rowsOf(i));
  }
  kvc_batch_t *batch;
  if (kvc_batch_create(device, ids.size(), ids.data(), rows.data(), positions.data(), &batch) != KVC_OK) {
    return runtimeMessage();
  }
  runtime::BatchHandle owner(batch);
  std::vector<kvc_argument_t> inputs;
  for (Role role : function.arguments) {
    kvc_argument_t argument{};
    if (role == Role::Cache || role == Role::Prefix) {
      argument.kind = KVC_CACHE;
      argument.cache = (role == Role::Cache ? deviceCache : devicePrefix).get();
    } else if (role == Role::Batch) {
      argument.kind = KVC_BATCH;
      argument.batch = batch;
    } else {
      const NpyArray &array = arguments.arrays.at(role);
      if (array.shape.empty() && array.isFloat()) {
        argument.kind = KVC_REAL;
        argument.real = array.floatAt(0);
      } else if (array.shape.empty()) {
        argument.kind = KVC_INTEGER;
        argument.integer = array.intAt(0);
      } else {
        argument.kind = KVC_TENSOR;
        const kvc_dtype_t dtype = array.isFloat() ? KVC_F32 : array.itemBytes == 1 ? KVC_I8 : KVC_I32;
        argument.tensor = {dtype, static_cast<int32_t>(array.shape.size()), array.shape.data(), array.bytes.data()};
      }
    }
    inputs.push_back(argument);
  }
  std::vector<kvc_value_t *> values(function.results.size());
  if (kvc_module_call(code, number, inputs.data(), inputs.size(), values.data(), values.size()) != KVC_OK) {
    return runtimeMessage();
  }
  results.clear();
  for (kvc_value_t *value : values) {
    results.emplace_back(value);
  }
  return "";
}

/// The root mean square of the finite ones of some numbers.
namespace {
class RootMeanSquare {
public:
  void add(double x) {
    if (std::isfinite(x)) {
      square += x * x;
      ++count;
    }
  }
  double get() const { return count ? std::sqrt(square / count) : 0; }

private:
  double square = 0;
  int64_t count = 0;
};
} // namespace

double Session::growthOf(ResultKind kind, const CallArguments &arguments, const reference::Datum &attended) const {
  switch (kind) {
  case ResultKind::Out:
  case ResultKind::Lse:
  case ResultKind::Sum:
  case ResultKind::Max:
    break;
  default:
    return 1;
  }
  // An error of a product is part of the product. Scores are q . k / sqrt(channels): of independent numbers their root
  // mean square is the product of those of q and k, whatever the channels. A probability is off by its score's error.
  RootMeanSquare query, key;
  const NpyArray &rows = arguments.arrays.at(Role::Query);
  for (int64_t i = 0; i < rows.size(); ++i) {
    query.add(rows.floatAt(i));
  }
  for (int64_t sequence : arguments.batch.sequences) {
    for (const reference::Datum *held : {&attended, &prefix}) {
      for (int64_t head = 0; head < (meaning.perHead ? meaning.kvHeads : 1); ++head) {
        for (const reference::Slot &slot : held->asCache().table(sequence, head).slots) {
          llvm::for_each(slot.key, [&](double x) { key.add(x); });
        }
      }
    }
  }
  const auto capture = arguments.arrays.find(Role::Capture);
  const double factor = capture == arguments.arrays.end() ? 1 : std::abs(capture->second.floatAt(0));
  return 1 + query.get() * key.get() * std::max(1.0, factor);
}

std::vector<bool> Session::spoiledValues(int64_t sequence, const reference::Datum &attended) const {
  std::vector<bool> spoiled(meaning.queryHeads * meaning.vDim);
  const int64_t group = meaning.queryHeads / meaning.kvHeads;
  for (int64_t head = 0; head < meaning.queryHeads; ++head) {
    const int64_t kvHead = head / group, first = meaning.perHead ? 0 : kvHead * meaning.vDim;
    for (const reference::Datum *held : {&attended, &prefix}) {
      for (const reference::Slot &slot : held->asCache().table(sequence, kvHead).slots) {
        for (int64_t channel = 0; channel < meaning.vDim; ++channel) {
          if (!std::isfinite(slot.value[first + channel])) {
            spoiled[head * meaning.vDim + channel] = true;
          }
        }
      }
    }
  }
  return spoiled;
}

/// docs/spec/cache-semantics.md, Attention. A value that is not finite may reach, in its channel, rows of its sequence
/// and head from which a mask hides it. An infinite score over keys of an integer format may be NaN, which makes NaN of
/// the row's results and leaves open what the row adds to statistics.
std::vector<Freedom> Session::freedomsOf(ResultKind kind, const CallArguments &arguments,
                                         const reference::Datum &attended, const reference::Tensor &want) const {
  const bool isRow = kind == ResultKind::Out || kind == ResultKind::Lse;
  const bool isStat = kind == ResultKind::Sum || kind == ResultKind::Max || kind == ResultKind::Count;
  if (id[AxisInputs] == "finite" || !(isRow || isStat)) {
    return {};
  }
  std::vector<Freedom> freedoms(want.floats.size(), Freedom::None);
  const reference::Batch &batch = arguments.batch;
  const NpyArray &query = arguments.arrays.at(Role::Query);
  const bool hasCodes = kernel.module.config[AxisK].starts_with("int");
  const int64_t heads = meaning.queryHeads, group = heads / meaning.kvHeads;
  auto isSpoiledQuery = [&](int64_t row, int64_t head) {
    for (int64_t channel = 0; channel < meaning.dim; ++channel) {
      if (!std::isfinite(query.floatAt((row * heads + head) * meaning.dim + channel))) {
        return hasCodes;
      }
    }
    return false;
  };
  auto allow = [&](int64_t first, int64_t count, Freedom freedom) {
    std::fill_n(freedoms.begin() + first, count, freedom);
  };
  const int64_t width = kind == ResultKind::Out ? meaning.vDim : 1;
  for (auto [entry, sequence] : llvm::enumerate(batch.sequences)) {
    const std::vector<bool> values = kind == ResultKind::Out ? spoiledValues(sequence, attended) : std::vector<bool>();
    for (int64_t row = batch.queryOffsets[entry]; row < batch.queryOffsets[entry + 1]; ++row) {
      for (int64_t head = 0; head < heads; ++head) {
        for (size_t i = head * width; i < values.size() && i < size_t(head + 1) * width; ++i) {
          if (values[i]) {
            allow(row * heads * width + i, 1, Freedom::Nan);
          }
        }
        if (!isSpoiledQuery(row, head)) {
          continue;
        }
        if (isRow) {
          allow((row * heads + head) * width, width, Freedom::Nan);
        } else {
          const int64_t slots = want.shape[2];
          allow((int64_t(entry) * meaning.kvHeads + head / group) * slots, slots, Freedom::Any);
        }
      }
    }
  }
  return freedoms;
}

void Session::call(FunctionKind kind, const reference::Batch &batch) {
  if (!failure.empty()) {
    return;
  }
  const Function &function = *kernel.module.find(kind);
  calls.emplace_back(&function, argumentsOf(function, batch));
  const CallArguments &arguments = calls.back().second;
  calls.back().second.bounds.resize(function.results.size());
  calls.back().second.wanted.resize(function.results.size());
  calls.back().second.freedoms.resize(function.results.size());
  const std::string where = "call " + std::to_string(calls.size()) + " @" + function.name.str();
  SmallVector<reference::Datum> wanted;
  std::vector<runtime::ValueHandle> got;
  std::string error = callOracle(function, arguments, wanted);
  if (error.empty()) {
    error = callDevice(function, arguments, got);
  }
  if (!error.empty()) {
    failure = where + ": " + error;
    return;
  }
  for (auto [i, result] : llvm::enumerate(function.results)) {
    if (result == ResultKind::Cache) {
      const bool isPrefix = kind == FunctionKind::AppendPrefix;
      kvc_cache_t *next;
      if (kvc_value_cache(got[i].get(), &next) != KVC_OK) {
        failure = where + ": " + runtimeMessage();
        return;
      }
      (isPrefix ? devicePrefix : deviceCache).reset(next);
      (isPrefix ? prefix : cache) = wanted[i];
      continue;
    }
    kvc_tensor_t tensor;
    if (kvc_value_tensor(got[i].get(), &tensor) != KVC_OK) {
      failure = where + ": " + runtimeMessage();
      return;
    }
    const Tolerance &tolerance = toleranceOf(kernel.module.config, result, kernel.target);
    // A step attends to the cache that it returns.
    auto made = llvm::find(function.results, ResultKind::Cache);
    const reference::Datum &attended = made == function.results.end() ? cache : wanted[made - function.results.begin()];
    const double growth = growthOf(result, arguments, attended);
    calls.back().second.bounds[i] = {tolerance.bound.peak * growth, tolerance.bound.rms * growth};
    calls.back().second.wanted[i] = wanted[i].asTensor();
    calls.back().second.freedoms[i] = freedomsOf(result, arguments, attended, wanted[i].asTensor());
    Comparison comparison = compare(arguments.wanted[i], tensor, tolerance, growth, calls.back().second.freedoms[i]);
    errors[&tolerance].merge(comparison.errors);
    if (!comparison.failure.empty()) {
      failure = where + " result " + nameOf(result).str() + ": " + comparison.failure;
      return;
    }
    int64_t bytes = sizeof(float);
    for (int64_t d = 0; d < tensor.rank; ++d) {
      bytes *= tensor.dims[d];
    }
    for (const auto *p = static_cast<const uint8_t *>(tensor.data), *end = p + bytes; p != end; ++p) {
      bits = (bits ^ *p) * 0x100000001b3;
    }
  }
  // What comes next to which sequence.
  std::vector<int64_t> &next = kind == FunctionKind::AppendPrefix ? prefixClock : clock;
  if (llvm::is_contained(function.arguments, Role::Key)) {
    for (int64_t entry = 0; entry < batch.entries(); ++entry) {
      next[batch.sequences[entry]] += batch.rowsOf(entry);
    }
  }
  if (llvm::is_contained(function.arguments, Role::Source)) {
    next[arguments.arrays.at(Role::Destination).intAt(0)] = next[arguments.arrays.at(Role::Source).intAt(0)];
  }
  if (llvm::is_contained(function.arguments, Role::DenseK)) {
    for (int64_t entry = 0; entry < batch.entries(); ++entry) {
      next[batch.sequences[entry]] = arguments.arrays.at(Role::Lengths).intAt(entry);
    }
  }
}

//===----------------------------------------------------------------------===//
// A case for other tools
//===----------------------------------------------------------------------===//

llvm::Error differential::writeCase(const Kernel &kernel, const Session &session, const CaseId &id, StringRef folder,
                                    StringRef mutants) {
  const Module &module = kernel.module;
  if (std::error_code error = llvm::sys::fs::create_directories(folder)) {
    return llvm::createStringError("cannot create the folder '" + folder + "': " + error.message());
  }
  auto pathOf = [&](const Twine &file) {
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, file);
    return path.str().str();
  };
  std::string arguments = "%cache: " + module.typeOf(Role::Cache), body, types, attributes;
  std::vector<std::string> inputs, outputs, results;
  std::map<Role, std::string> names{{Role::Cache, "%cache"}, {Role::Prefix, "%prefix"}};
  if (module.find(FunctionKind::AppendPrefix)) {
    arguments += ", %prefix: " + module.typeOf(Role::Prefix);
  }
  unsigned next = 0;
  for (auto [number, call] : llvm::enumerate(session.calls)) {
    const auto &[function, values] = call;
    for (Role role : function->arguments) {
      if (role == Role::Cache || role == Role::Prefix) {
        continue;
      }
      const std::string name = ("c" + Twine(number + 1) + "_" + nameOf(role)).str();
      names[role] = "%" + name;
      arguments += ", %" + name + ": " + module.typeOf(role) + " {" + arrayAttr + " = \"" + name + "\"}";
      std::vector<std::pair<std::string, NpyArray>> files;
      if (role == Role::Batch) {
        auto list = [](ArrayRef<int64_t> list) { return NpyArray::ofInts({int64_t(list.size())}, list, 4); };
        files = {{name + "_query_offsets", list(values.batch.queryOffsets)},
                 {name + "_sequences", list(values.batch.sequences)},
                 {name + "_positions", list(values.batch.positions)}};
      } else {
        files.emplace_back(name, values.arrays.at(role));
      }
      for (auto &[file, array] : files) {
        inputs.push_back(pathOf(file + ".npy"));
        if (llvm::Error error = writeNpy(inputs.back(), array)) {
          return error;
        }
      }
    }
    std::vector<std::string> made = module.emit(*function, names, body, next);
    for (auto [i, kind] : llvm::enumerate(function->results)) {
      if (kind == ResultKind::Cache) {
        names[function->kind == FunctionKind::AppendPrefix ? Role::Prefix : Role::Cache] = made[i];
        continue;
      }
      const Errors &bound = values.bounds[i];
      types += (results.empty() ? "" : ", ") + module.typeOf(kind);
      attributes += (results.empty() ? "" : ", ") + module.typeOf(kind) + " {" + boundAttr +
                    llvm::formatv(" = array<f64: {0:e3}, {1:e3}, {2:e3}>}", bound.peak, bound.rms,
                                  double(toleranceOf(module.config, kind, kernel.target).isCount))
                        .str();
      results.push_back(made[i]);
      outputs.push_back(pathOf("c" + Twine(number + 1) + "_" + Twine(i) + "_" + nameOf(kind) + ".npy"));
    }
  }
  const std::string text = "// Differential test: " + id.str() + "\nfunc.func @case(" + arguments + ") -> (" +
                           attributes + ") {\n" + body + "  return " + llvm::join(results, ", ") + " : " + types +
                           "\n}\n";
  const std::string file = pathOf("case.mlir");
  const std::string command = "kvc-run module " + file + " --function case --sequences 3 --capacity 1536 --inputs " +
                              llvm::join(inputs, ",") + " --outputs " + llvm::join(outputs, ",") + "\n";
  const std::string test = "#!/bin/sh\n# For kvc-reduce: status 1 while results of the module differ.\n"
                           "kvc-differential --replay \"$1\" --arrays \"$(dirname \"$0\")\" " +
                           mutants.str() + ">/dev/null 2>&1\n[ $? -ne 1 ]\n";
  const std::string script = pathOf("fails.sh");
  for (auto &[path, contents] : {std::pair{file, text}, {pathOf("command.txt"), command}, {script, test}}) {
    std::error_code error;
    llvm::raw_fd_ostream os(path, error);
    os << contents;
    os.close();
    if (error || os.has_error()) {
      return llvm::createStringError("cannot write '" + path + "': " + (error ? error : os.error()).message());
    }
  }
  if (std::error_code error = llvm::sys::fs::setPermissions(script, llvm::sys::fs::all_read | llvm::sys::fs::all_exe |
                                                                        llvm::sys::fs::owner_write)) {
    return llvm::createStringError("cannot make '" + script + "' executable: " + error.message());
  }
  return llvm::Error::success();
}
