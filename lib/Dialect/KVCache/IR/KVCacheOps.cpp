//===- KVCacheOps.cpp - Ops that make, change and export caches ----------===//
//
// The labels (op_c1, ...) are those of docs/spec.
//
//===----------------------------------------------------------------------===//
#include "VerifyHelpers.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kvc::kvcache;
using namespace kvc::kvcache::op_detail;

/// The cache type behind a value; null for the placeholder of a method, which is checked once spliced.
static CacheType cacheOf(Value value) { return getCacheType(value.getType()); }

//===----------------------------------------------------------------------===//
// Values around the cache
//===----------------------------------------------------------------------===//

LogicalResult WeightOp::verify() {
  // weight_c1
  if (getName().empty()) {
    return emitOpError() << "expects the name of a tensor, but got an empty one";
  }
  return success();
}

LogicalResult ParameterOp::verify() {
  // parameter_c1
  auto module = (*this)->getParentOfType<ModuleOp>();
  if (!module || !module->hasAttr("kvcache.method")) {
    return emitOpError() << "expects to stand in a method (a module with kvcache.method), but got none around it";
  }
  return success();
}

LogicalResult RopeOp::verify() {
  ShapedType input = shapeOf(getInput().getType());
  // rope_c1
  return input ? verifyRopeDims(*this, getRope(), input.getDimSize(2)) : success();
}

//===----------------------------------------------------------------------===//
// Writing caches
//===----------------------------------------------------------------------===//

LogicalResult AppendOp::verify() {
  CacheType cache = cacheOf(getCache());
  ShapedType key = shapeOf(getKey().getType()), value = shapeOf(getValue().getType());
  // append_c5
  if (key && value && failed(verifySameDim(*this, "rows of value", key.getDimSize(0), value.getDimSize(0)))) {
    return failure();
  }
  if (!cache) {
    return success();
  }
  // append_c1
  if (failed(verifyRows(*this, "key", getKey().getType(), cache.getHeads(), cache.getKDim()))) {
    return failure();
  }
  // append_c2
  if (failed(verifyRows(*this, "value", getValue().getType(), cache.getHeads(), cache.getVDim()))) {
    return failure();
  }
  // append_c3
  if (getRope() && cache.getRope()) {
    return emitOpError() << "expects no rope on append to a cache that rotates keys when loaded, but got both";
  }
  // append_c4
  return verifyRopeDims(*this, getRopeAttr(), cache.getKDim());
}

/// Slots of one KV head move without those of another, and keep their positions.
static LogicalResult verifyOwnSlots(Operation *op, CacheType cache) {
  if (cache && !cache.getStoredPositions()) {
    return op->emitOpError() << "expects a cache with positions = stored, but got implicit positions";
  }
  if (cache && cache.getHeads() > 1 && !cache.getPerHead()) {
    return op->emitOpError() << "expects a cache with tables = per_head, as every KV head keeps its own slots, but got "
                                "one table per sequence";
  }
  return success();
}

LogicalResult CompactOp::verify() {
  CacheType cache = cacheOf(getCache());
  // compact_c1
  Unit unit = getKeep().getType().getUnit();
  if (unit != Unit::Token) {
    return emitExpected(*this, "a selection of unit", "token", stringifyUnit(unit));
  }
  // compact_c2
  if (failed(verifyMovable(*this, cache))) {
    return failure();
  }
  // compact_c3
  return verifyOwnSlots(*this, cache);
}

LogicalResult EvictOp::verify() {
  CacheType cache = cacheOf(getCache());
  // evict_c1
  if (failed(verifyMovable(*this, cache))) {
    return failure();
  }
  // evict_c2
  if (failed(verifyScores(*this, "scores", getScores().getType(), cache))) {
    return failure();
  }
  // evict_c3
  if (failed(verifyAtLeast(*this, "budget", getBudget(), 1)) || failed(verifyAtLeast(*this, "first", getFirst(), 0)) ||
      failed(verifyAtLeast(*this, "last", getLast(), 0))) {
    return failure();
  }
  // evict_c4
  auto budget = dyn_cast<IntegerAttr>(getBudget()), first = dyn_cast<IntegerAttr>(getFirst()),
       last = dyn_cast<IntegerAttr>(getLast());
  if (budget && first && last && first.getInt() > budget.getInt() - last.getInt()) {
    return emitExpected(*this, "first + last", Twine("of at most the budget ") + Twine(budget.getInt()),
                        Twine(first.getInt()) + " + " + Twine(last.getInt()));
  }
  // evict_c5
  return verifyOwnSlots(*this, cache);
}

LogicalResult MergeSlotsOp::verify() {
  CacheType cache = cacheOf(getCache());
  // merge_slots_c1
  if (Unit unit = getKeep().getType().getUnit(); unit != Unit::Token) {
    return emitExpected(*this, "a selection of unit", "token", stringifyUnit(unit));
  }
  // merge_slots_c2
  if (failed(verifyMovable(*this, cache))) {
    return failure();
  }
  // merge_slots_c3
  if (failed(verifyOwnSlots(*this, cache))) {
    return failure();
  }
  // merge_slots_c4
  if (failed(verifyScores(*this, "weights", getWeights().getType(), cache))) {
    return failure();
  }
  // merge_slots_c5
  return verifyBetween(*this, "min_similarity", getMinSimilarityAttr(), -1, 1);
}

LogicalResult CommitOp::verify() {
  // commit_c1
  return verifyNoRing(*this, cacheOf(getCache()));
}

LogicalResult RebaseOp::verify() {
  CacheType cache = cacheOf(getCache());
  // rebase_c1
  if (failed(verifyMovable(*this, cache))) {
    return failure();
  }
  // rebase_c2
  if (cache && !cache.getStoredPositions()) {
    return emitOpError() << "expects a cache with positions = stored, but got implicit positions";
  }
  // rebase_c3
  if (cache && cache.getRope()) {
    return emitOpError() << "expects a cache that stores rotated keys, but got one that rotates them when loaded";
  }
  // rebase_c4
  // rebase_c5
  if (getRope().getPairing() == Pairing::AdjacentToHalf) {
    return emitOpError() << "expects the pairing of the stored keys, half or adjacent, but got adjacent_to_half";
  }
  return cache ? verifyRopeDims(*this, getRope(), cache.getKDim()) : success();
}

LogicalResult AccumulateOp::verify() {
  CacheType cache = cacheOf(getCache());
  // accumulate_c1
  if (cache && !cache.getScorePlane()) {
    return emitOpError() << "expects a cache with the plane score, but got " << cache;
  }
  // accumulate_c2
  if (failed(verifyScores(*this, "stats", getStats().getType(), cache))) {
    return failure();
  }
  // accumulate_c3
  return verifyBetween(*this, "a decay", getDecayAttr(), 0, 1);
}

LogicalResult SealOp::verify() {
  CacheType cache = cacheOf(getCache());
  // seal_c1
  if (cache && !cache.hasTail()) {
    return emitOpError() << "expects a cache with a tail of exact tokens, but got " << cache;
  }
  return success();
}

LogicalResult RequantizeOp::verify() {
  CacheType from = cacheOf(getCache()), to = cacheOf(getResult());
  if (!from || !to) {
    return success();
  }
  // requantize_c1
  if (from.getHeads() != to.getHeads() || from.getKDim() != to.getKDim() || from.getVDim() != to.getVDim() ||
      from.getStoredPositions() != to.getStoredPositions() || from.getPerHead() != to.getPerHead() ||
      from.getRope() != to.getRope()) {
    return emitOpError() << "expects caches that differ only in page, formats, tail and planes, but got " << from
                         << " and " << to;
  }
  // requantize_c2
  return success(succeeded(verifyNoRing(*this, from)) && succeeded(verifyNoRing(*this, to)));
}

LogicalResult ForkOp::verify() {
  auto index = [](Value value) {
    APInt constant;
    return matchPattern(value, m_ConstantInt(&constant)) ? std::optional(constant.getSExtValue()) : std::nullopt;
  };
  // fork_c1
  for (auto [name, value] : {std::pair<StringRef, Value>{"source", getSource()}, {"destination", getDestination()}}) {
    if (std::optional<int64_t> sequence = index(value); sequence && *sequence < 0) {
      return emitExpected(*this, name, "of at least 0", *sequence);
    }
  }
  return success();
}

LogicalResult TruncateOp::verify() {
  // truncate_c1
  return verifyNoRing(*this, cacheOf(getCache()));
}

//===----------------------------------------------------------------------===//
// Dense keys and values
//===----------------------------------------------------------------------===//

static LogicalResult verifyDense(Operation *op, StringRef name, Type type, CacheType cache, Plane plane,
                                 DenseLayout layout) {
  ShapedType dense = shapeOf(type);
  int64_t heads = dense.getDimSize(layout == DenseLayout::NHD ? 2 : 1);
  if (heads != cache.getHeads()) {
    return emitExpected(op, Twine("heads of ") + name + " (" + stringifyDenseLayout(layout) + ")", cache.getHeads(),
                        dense);
  }
  if (dense.getDimSize(3) != cache.getDim(plane)) {
    return emitExpected(op, Twine("channels of ") + name, cache.getDim(plane), dense);
  }
  return success();
}

LogicalResult ExportOp::verify() {
  CacheType cache = cacheOf(getCache());
  // export_c1
  return cache ? verifyDense(*this, "result", getResult().getType(), cache, getPlane(), getLayout()) : success();
}

LogicalResult ImportOp::verify() {
  CacheType cache = cacheOf(getCache());
  // import_c1
  if (failed(verifyNoRing(*this, cache))) {
    return failure();
  }
  ShapedType key = shapeOf(getKey().getType()), value = shapeOf(getValue().getType());
  // import_c2
  if (cache && (failed(verifyDense(*this, "key", key, cache, Plane::K, getLayout())) ||
                failed(verifyDense(*this, "value", value, cache, Plane::V, getLayout())))) {
    return failure();
  }
  // import_c3
  int64_t slots = getLayout() == DenseLayout::NHD ? 1 : 2;
  if (failed(verifySameDim(*this, "entries of value", key.getDimSize(0), value.getDimSize(0))) ||
      failed(verifySameDim(*this, "slots of value", key.getDimSize(slots), value.getDimSize(slots)))) {
    return failure();
  }
  // import_c4
  return verifySameDim(*this, "size of lengths", key.getDimSize(0), shapeOf(getLengths().getType()).getDimSize(0));
}

//===----------------------------------------------------------------------===//
// Assembly
//===----------------------------------------------------------------------===//

static ParseResult parsePlainF32(OpAsmParser &parser, FloatAttr &attr) {
  double value;
  if (parser.parseFloat(value)) {
    return failure();
  }
  attr = parser.getBuilder().getF32FloatAttr(static_cast<float>(value));
  return success();
}

static void printPlainF32(OpAsmPrinter &printer, Operation *, FloatAttr attr) { printer.printFloat(attr.getValue()); }

static ParseResult parsePlainI64(OpAsmParser &parser, IntegerAttr &attr) {
  int64_t value;
  if (parser.parseInteger(value)) {
    return failure();
  }
  attr = parser.getBuilder().getI64IntegerAttr(value);
  return success();
}

static void printPlainI64(OpAsmPrinter &printer, Operation *, IntegerAttr attr) { printer << attr.getInt(); }

/// `<...>` or an alias. The whole form `#kvcache.rope<...>` cannot stand before the `:` of an op: MLIR reads what
/// follows as the type of the attribute.
static ParseResult parseRope(OpAsmParser &parser, RopeAttr &rope) {
  SMLoc loc = parser.getCurrentLocation();
  Attribute attr;
  if (OptionalParseResult whole = parser.parseOptionalAttribute(attr); !whole.has_value()) {
    attr = RopeAttr::parse(parser, Type());
  } else if (failed(*whole)) {
    return failure();
  }
  rope = dyn_cast_or_null<RopeAttr>(attr);
  if (attr && !rope) {
    return parser.emitError(loc) << "expects a #kvcache.rope, but got " << attr;
  }
  return success(static_cast<bool>(rope));
}

static void printRope(OpAsmPrinter &printer, Operation *, RopeAttr rope) { printer.printStrippedAttrOrType(rope); }

/// The name of a parameter as a string.
static ParseResult parseParamName(OpAsmParser &parser, ParamAttr &param) {
  SMLoc loc = parser.getCurrentLocation();
  std::string name;
  if (parser.parseString(&name)) {
    return failure();
  }
  param = ParamAttr::getChecked([&] { return parser.emitError(loc); }, parser.getContext(), StringRef(name));
  return success(static_cast<bool>(param));
}

static void printParamName(OpAsmPrinter &printer, Operation *, ParamAttr param) {
  printer.printString(param.getName());
}

/// `max` or `"max"`.
static ParseResult parsePoolMode(OpAsmParser &parser, StringAttr &mode) {
  std::string text;
  if (parser.parseKeywordOrString(&text)) {
    return failure();
  }
  mode = parser.getBuilder().getStringAttr(text);
  return success();
}

static void printPoolMode(OpAsmPrinter &printer, Operation *, StringAttr mode) {
  printer.printKeywordOrString(mode.getValue());
}

/// `%query, %cache` or `%cache`.
static ParseResult parseScoreOperands(OpAsmParser &parser, std::optional<OpAsmParser::UnresolvedOperand> &query,
                                      OpAsmParser::UnresolvedOperand &cache) {
  if (parser.parseOperand(cache)) {
    return failure();
  }
  if (succeeded(parser.parseOptionalComma())) {
    query = cache;
    return parser.parseOperand(cache);
  }
  return success();
}

static void printScoreOperands(OpAsmPrinter &printer, Operation *, Value query, Value cache) {
  if (query) {
    printer << query << ", ";
  }
  printer << cache;
}

static ParseResult parseReturns(OpAsmParser &parser, ArrayAttr &attr) {
  SmallVector<Attribute> returns;
  auto one = [&]() -> ParseResult {
    SMLoc loc = parser.getCurrentLocation();
    StringRef keyword;
    if (parser.parseKeyword(&keyword)) {
      return failure();
    }
    std::optional<AttentionResult> kind = symbolizeAttentionResult(keyword);
    if (!kind) {
      return parser.emitError(loc) << "expects out, lse or stats, but got '" << keyword << "'";
    }
    returns.push_back(AttentionResultAttr::get(parser.getContext(), *kind));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, one)) {
    return failure();
  }
  attr = parser.getBuilder().getArrayAttr(returns);
  return success();
}

static void printReturns(OpAsmPrinter &printer, Operation *, ArrayAttr attr) {
  printer << '(';
  llvm::interleaveComma(attr, printer, [&](Attribute kind) {
    printer << stringifyAttentionResult(cast<AttentionResultAttr>(kind).getValue());
  });
  printer << ')';
}

#define GET_OP_CLASSES
#include "KVCache/KVCacheOps.cpp.inc"
