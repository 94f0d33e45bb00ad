//===- KVCacheOps.cpp - Verifiers and folders of the kvcache dialect -----===//
//
// The labels C1, C2, ... are those of the op's page in docs/spec.
//
//===----------------------------------------------------------------------===//
#include "kvc/Dialect/KVCache/IR/KVCache.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kvc::kvcache;

int64_t kvc::kvcache::getInt(Attribute attr) { return cast<IntegerAttr>(attr).getInt(); }

int64_t kvc::kvcache::getIntOr(Attribute attr, int64_t fallback) { return attr ? getInt(attr) : fallback; }

//===----------------------------------------------------------------------===//
// Helpers
//===----------------------------------------------------------------------===//

template <typename Want, typename Got>
static InFlightDiagnostic emitExpected(Operation *op, const Twine &what, Want &&want, Got &&got) {
  return op->emitOpError() << "expects " << what << " " << want << ", but got " << got;
}

/// The cache type, or null for the placeholder of a method.
static CacheType cacheOf(Type type) { return dyn_cast<CacheType>(type); }

/// Checks that `type` (rows x heads x channels) fits a cache; placeholders of a method are checked once spliced.
static LogicalResult verifyRows(Operation *op, StringRef name, Type type, int64_t heads, int64_t channels) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor) {
    return success();
  }
  if (tensor.getDimSize(1) != heads) {
    return emitExpected(op, Twine("heads of ") + name, heads, tensor.getDimSize(1));
  }
  if (tensor.getDimSize(2) != channels) {
    return emitExpected(op, Twine("channels of ") + name, channels, tensor.getDimSize(2));
  }
  return success();
}

/// Checks query rows against a cache: a whole number of query heads for every KV head.
static LogicalResult verifyQuery(Operation *op, Type type, CacheType cache) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !cache) {
    return success();
  }
  int64_t heads = tensor.getDimSize(1);
  if (ShapedType::isDynamic(heads) || heads % cache.getHeads() || heads / cache.getHeads() > 128) {
    return emitExpected(op, "query heads", Twine("1 to 128 times the ") + Twine(cache.getHeads()) + " KV heads",
                        tensor);
  }
  if (tensor.getDimSize(2) != cache.getKDim()) {
    return emitExpected(op, "channels of query", cache.getKDim(), tensor.getDimSize(2));
  }
  return success();
}

static LogicalResult verifyScores(Operation *op, StringRef name, Type type, CacheType cache) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !cache) {
    return success();
  }
  if (tensor.getDimSize(1) != cache.getHeads()) {
    return emitExpected(op, Twine("KV heads of ") + name, cache.getHeads(), tensor.getDimSize(1));
  }
  return success();
}

/// Checks a known integer attribute against a lower bound.
static LogicalResult verifyAtLeast(Operation *op, StringRef name, Attribute attr, int64_t low) {
  if (auto integer = dyn_cast_or_null<IntegerAttr>(attr); integer && integer.getInt() < low) {
    return emitExpected(op, name, Twine("of at least ") + Twine(low), integer.getInt());
  }
  return success();
}

static LogicalResult verifyRope(Operation *op, RopeAttr rope, int64_t channels) {
  if (rope && rope.isSite()) {
    return op->emitOpError() << "expects a rope with base and dims outside a method, but got " << rope;
  }
  if (rope && rope.getDims() > channels) {
    return emitExpected(op, "rope dims", Twine("of at most ") + Twine(channels), rope.getDims());
  }
  return success();
}

/// Slots may only move where no scale is shared between them.
static LogicalResult verifyMovable(Operation *op, CacheType cache) {
  if (cache && cache.getSealGroup() != 1) {
    return op->emitOpError() << "expects a cache whose slots can move one by one, but got groups of "
                             << cache.getSealGroup() << " tokens that share scales; requantize the cache first";
  }
  if (cache && cache.isRing()) {
    return op->emitOpError() << "expects a cache without a ring, but got window " << cache.getWindow();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Writing caches
//===----------------------------------------------------------------------===//

LogicalResult RopeOp::verify() {
  if (auto tensor = dyn_cast<RankedTensorType>(getInput().getType())) {
    return verifyRope(*this, getRope(), tensor.getDimSize(2)); // C1
  }
  return success();
}

LogicalResult AppendOp::verify() {
  CacheType cache = cacheOf(getCache().getType());
  if (!cache) {
    return success();
  }
  // C1, C2
  if (failed(verifyRows(*this, "key", getKey().getType(), cache.getHeads(), cache.getKDim())) ||
      failed(verifyRows(*this, "value", getValue().getType(), cache.getHeads(), cache.getVDim()))) {
    return failure();
  }
  // C3
  if (getRope() && cache.getRope()) {
    return emitOpError() << "expects no rope on append to a cache that rotates keys when loaded, but got both";
  }
  return verifyRope(*this, getRopeAttr(), cache.getKDim()); // C4
}

LogicalResult CompactOp::verify() {
  CacheType cache = cacheOf(getCache().getType());
  // C1
  if (getKeep().getType().getUnit() != Unit::Token) {
    return emitExpected(*this, "a selection of unit", "token", stringifyUnit(getKeep().getType().getUnit()));
  }
  // C2
  if (failed(verifyMovable(*this, cache))) {
    return failure();
  }
  // C3
  if (cache && !cache.getStoredPositions()) {
    return emitOpError() << "expects a cache with positions = stored, but got implicit positions";
  }
  // C4
  if (cache && cache.getHeads() > 1 && !cache.getPerHead()) {
    return emitOpError() << "expects a cache with tables = per_head, as every KV head keeps its own slots, but got one "
                            "table per sequence";
  }
  return success();
}

LogicalResult EvictOp::verify() {
  CacheType cache = cacheOf(getCache().getType());
  if (failed(verifyMovable(*this, cache)) ||                                 // C1
      failed(verifyScores(*this, "scores", getScores().getType(), cache)) || // C2
      failed(verifyAtLeast(*this, "budget", getBudget(), 1)) ||              // C3
      failed(verifyAtLeast(*this, "first", getFirst(), 0)) || failed(verifyAtLeast(*this, "last", getLast(), 0))) {
    return failure();
  }
  // C4
  auto budget = dyn_cast<IntegerAttr>(getBudget()), first = dyn_cast<IntegerAttr>(getFirst()),
       last = dyn_cast<IntegerAttr>(getLast());
  if (budget && first && last && first.getInt() + last.getInt() > budget.getInt()) {
    return emitExpected(*this, "first + last", Twine("of at most the budget ") + Twine(budget.getInt()),
                        first.getInt() + last.getInt());
  }
  // C5
  if (cache && (!cache.getStoredPositions() || (cache.getHeads() > 1 && !cache.getPerHead()))) {
    return emitOpError() << "expects a cache with positions = stored and tables = per_head, but got "
                         << getCache().getType();
  }
  return success();
}

LogicalResult RebaseOp::verify() {
  CacheType cache = cacheOf(getCache().getType());
  if (failed(verifyMovable(*this, cache))) { // C1
    return failure();
  }
  // C2
  if (cache && !cache.getStoredPositions()) {
    return emitOpError() << "expects a cache with positions = stored, but got implicit positions";
  }
  // C3
  if (cache && cache.getRope()) {
    return emitOpError() << "expects a cache that stores rotated keys, but got one that rotates them when loaded";
  }
  // C5
  if (getRope().getPairing() == Pairing::AdjacentToHalf) {
    return emitOpError() << "expects the pairing of the stored keys, half or adjacent, but got adjacent_to_half";
  }
  return cache ? verifyRope(*this, getRope(), cache.getKDim()) : success(); // C4
}

LogicalResult AccumulateOp::verify() {
  CacheType cache = cacheOf(getCache().getType());
  // C1
  if (cache && !cache.getScorePlane()) {
    return emitOpError() << "expects a cache with the plane score, but got " << cache;
  }
  return verifyScores(*this, "stats", getStats().getType(), cache); // C2
}

LogicalResult SealOp::verify() {
  CacheType cache = cacheOf(getCache().getType());
  // C1
  if (cache && !cache.hasTail()) {
    return emitOpError() << "expects a cache with a tail of exact tokens, but got " << cache;
  }
  return success();
}

LogicalResult RequantizeOp::verify() {
  CacheType from = cacheOf(getCache().getType()), to = cacheOf(getResult().getType());
  if (!from || !to) {
    return success();
  }
  // C1
  if (from.getHeads() != to.getHeads() || from.getKDim() != to.getKDim() || from.getVDim() != to.getVDim() ||
      from.getStoredPositions() != to.getStoredPositions() || from.getPerHead() != to.getPerHead() ||
      from.getRope() != to.getRope() || from.isRing() || to.isRing()) {
    return emitOpError() << "expects caches that differ only in page and formats, but got " << from << " and " << to;
  }
  return success();
}

LogicalResult TruncateOp::verify() {
  CacheType cache = cacheOf(getCache().getType());
  // C1
  if (cache && cache.isRing()) {
    return emitOpError() << "expects a cache without a ring, but got window " << cache.getWindow();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// The ops that a score region may hold: the one list, for verifier and lowerings.
bool kvc::kvcache::isAllowedInScoreRegion(Operation *op) {
  if (isa<SoftCapOp, AlibiOp, YieldOp, arith::ConstantOp>(op)) {
    return true;
  }
  if (!isa<arith::ArithDialect, math::MathDialect>(op->getDialect())) {
    return false;
  }
  return isPure(op) && op->hasTrait<OpTrait::Elementwise>();
}

/// Checks a score region: arguments (score, batch, head, q_pos, kv_pos, captures...), allowed ops, the yield.
static LogicalResult verifyScoreRegion(Operation *op, Region &region, OperandRange captures) {
  if (region.empty()) {
    if (!captures.empty()) {
      return op->emitOpError() << "expects no captures without a score region, but got " << captures.size();
    }
    return success();
  }
  Block &block = region.front();
  Builder b(op->getContext());
  SmallVector<Type> want{b.getF32Type(), b.getIndexType(), b.getIndexType(), b.getIndexType(), b.getIndexType()};
  llvm::append_range(want, captures.getTypes());
  if (block.getArgumentTypes() != TypeRange(want)) {
    return op->emitOpError() << "expects score region arguments (" << want << "), but got (" << block.getArgumentTypes()
                             << ")";
  }
  for (Value capture : captures) {
    if (!capture.getType().isIntOrIndexOrFloat()) {
      return op->emitOpError() << "expects captures of scalar type, but got " << capture.getType();
    }
  }
  if (!block.mightHaveTerminator() || !isa<YieldOp>(block.back())) {
    return op->emitOpError() << "expects a score region that ends in kvcache.yield";
  }
  for (Operation &inner : block) {
    if (!isAllowedInScoreRegion(&inner)) {
      return inner.emitOpError()
             << "expects element-wise arith and math or kvcache helpers in a score region, but got '" << inner.getName()
             << "'";
    }
    for (Value operand : inner.getOperands()) {
      // Constants may lie outside: stock passes move them there.
      if (operand.getParentRegion() != &region && !matchPattern(operand, m_Constant())) {
        return inner.emitOpError() << "expects values of the score region, captures or constants, but got a value from "
                                      "outside";
      }
    }
  }
  return success();
}

Value AttentionOp::getResultOf(AttentionResult kind) {
  if (!getReturns()) {
    return kind == AttentionResult::Out ? getResults()[0] : Value();
  }
  for (auto [i, attr] : llvm::enumerate(getReturnsAttr())) {
    if (cast<AttentionResultAttr>(attr).getValue() == kind) {
      return getResults()[i];
    }
  }
  return {};
}

Value AttentionOp::getSelectionOf(unsigned segment) {
  if (getSelections().size() == getCaches().size() && !getSelectedSegments()) {
    return getSelections()[segment];
  }
  if (std::optional<ArrayRef<int64_t>> segments = getSelectedSegments()) {
    for (auto [i, s] : llvm::enumerate(*segments)) {
      if (s == static_cast<int64_t>(segment)) {
        return getSelections()[i];
      }
    }
  }
  return {};
}

LogicalResult AttentionOp::verify() {
  // C1
  if (getCaches().empty()) {
    return emitOpError() << "expects at least one cache, but got none";
  }
  auto query = dyn_cast<RankedTensorType>(getQuery().getType());
  CacheType first = cacheOf(getCaches()[0].getType());
  for (Value segment : getCaches()) {
    CacheType cache = cacheOf(segment.getType());
    // C2, C3
    if (failed(verifyQuery(*this, getQuery().getType(), cache))) {
      return failure();
    }
    // C4
    if (cache && first && (cache.getHeads() != first.getHeads() || cache.getVDim() != first.getVDim())) {
      return emitOpError() << "expects segments of equal heads and value channels, but got " << first << " and "
                           << cache;
    }
  }
  // C5
  if (std::optional<ArrayRef<int64_t>> segments = getSelectedSegments()) {
    llvm::SmallDenseSet<int64_t> seen;
    if (segments->size() != getSelections().size()) {
      return emitExpected(*this, "selected_segments of size", getSelections().size(), segments->size());
    }
    for (int64_t s : *segments) {
      if (s < 0 || s >= static_cast<int64_t>(getCaches().size()) || !seen.insert(s).second) {
        return emitOpError() << "expects selected_segments that are distinct and below " << getCaches().size()
                             << ", but got " << s;
      }
    }
  } else if (!getSelections().empty() && getSelections().size() != getCaches().size()) {
    return emitExpected(*this, "a selection for each of the segments:", getCaches().size(), getSelections().size());
  }
  // C6
  if (failed(verifyAtLeast(*this, "window", getWindowAttr(), 1)) ||
      failed(verifyAtLeast(*this, "sinks", getSinksAttr(), 0)) ||
      failed(verifyAtLeast(*this, "stat_rows", getStatRowsAttr(), 0))) {
    return failure();
  }
  if (getSinksAttr() && !getWindowAttr()) {
    return emitOpError() << "expects a window with sinks, but got none";
  }
  // C7
  SmallVector<AttentionResult> returns{AttentionResult::Out};
  if (getReturns()) {
    returns.clear();
    for (Attribute attr : getReturnsAttr()) {
      AttentionResult kind = cast<AttentionResultAttr>(attr).getValue();
      if (llvm::is_contained(returns, kind)) {
        return emitOpError() << "expects distinct returns, but got " << stringifyAttentionResult(kind) << " twice";
      }
      returns.push_back(kind);
    }
  }
  if (returns.size() != getNumResults() || returns.empty()) {
    return emitExpected(*this, "results as in returns:", returns.size(), getNumResults());
  }
  // C8
  bool wantsStats = llvm::is_contained(returns, AttentionResult::Stats);
  if (wantsStats != static_cast<bool>(getStat())) {
    return emitOpError() << "expects stat exactly when stats are returned, but got " << (wantsStats ? "none" : "one");
  }
  if (wantsStats && getCaches().size() != 1) {
    return emitOpError() << "expects one segment when stats are returned, but got " << getCaches().size();
  }
  for (auto [kind, result] : llvm::zip(returns, getResults())) {
    auto tensor = dyn_cast<RankedTensorType>(result.getType());
    if (!tensor) {
      if (!isa<SiteType>(result.getType())) {
        return emitOpError() << "expects ranked tensors as results, but got " << result.getType();
      }
      continue;
    }
    if (!query || !first) {
      continue;
    }
    // C9
    int64_t rows = query.getDimSize(0), heads = query.getDimSize(1), dynamic = ShapedType::kDynamic;
    SmallVector<int64_t> shape = kind == AttentionResult::Out ? SmallVector<int64_t>{rows, heads, first.getVDim()}
                                 : kind == AttentionResult::Lse
                                     ? SmallVector<int64_t>{rows, heads}
                                     : SmallVector<int64_t>{dynamic, first.getHeads(), dynamic};
    auto want = RankedTensorType::get(shape, query.getElementType());
    if (tensor != want) {
      return emitExpected(*this, Twine("result ") + stringifyAttentionResult(kind) + " of type", want, tensor);
    }
  }
  // C10
  if (getSinkLogits() && query &&
      cast<RankedTensorType>(getSinkLogits().getType()).getDimSize(0) != query.getDimSize(1)) {
    return emitExpected(*this, "sink_logits of size", query.getDimSize(1), getSinkLogits().getType());
  }
  return verifyScoreRegion(*this, getScore(), getCaptures()); // C11
}

LogicalResult OnlineAttentionOp::verify() {
  CacheType cache = cacheOf(getCache().getType());
  if (failed(verifyQuery(*this, getQuery().getType(), cache))) { // C1, C2
    return failure();
  }
  // C3
  if (getAcc().getType() != getNewAcc().getType() || getMax().getType() != getNewMax().getType() ||
      getSum().getType() != getNewSum().getType() || getMax().getType() != getSum().getType()) {
    return emitOpError() << "expects a state of the same types before and after, but got (" << getOperandTypes()
                         << ") and (" << getResultTypes() << ")";
  }
  return verifyScoreRegion(*this, getScore(), getCaptures()); // C4
}

LogicalResult AttendOp::verify() {
  CacheType cache = cacheOf(getCache().getType());
  if (!cache) {
    return success();
  }
  // C1, C2
  if (failed(verifyQuery(*this, getQuery().getType(), cache)) ||
      failed(verifyRows(*this, "key", getKey().getType(), cache.getHeads(), cache.getKDim())) ||
      failed(verifyRows(*this, "value", getValue().getType(), cache.getHeads(), cache.getVDim()))) {
    return failure();
  }
  // C3
  if (getPhase() != "prefill" && getPhase() != "decode") {
    return emitExpected(*this, "phase", "\"prefill\" or \"decode\"", getPhase());
  }
  return verifyRope(*this, getRopeAttr(), cache.getKDim()); // C4
}

//===----------------------------------------------------------------------===//
// Scores and selection
//===----------------------------------------------------------------------===//

LogicalResult ScoreOp::verify() {
  CacheType cache = cacheOf(getCache().getType());
  // C1
  bool needsQuery = getKind() == ScoreKind::Bound || getKind() == ScoreKind::Dot;
  if (needsQuery != static_cast<bool>(getQuery())) {
    return emitOpError() << "expects " << (needsQuery ? "a" : "no") << " query for " << stringifyScoreKind(getKind())
                         << ", but got " << (needsQuery ? "none" : "one");
  }
  if (!cache) {
    return success();
  }
  // C2
  auto needs = [&](bool plane, StringRef name) -> LogicalResult {
    if (!plane) {
      return emitOpError() << "expects a cache with the plane " << name << ", but got " << cache;
    }
    return success();
  };
  if ((getKind() == ScoreKind::Bound && failed(needs(cache.getMinmaxPlane(), "minmax"))) ||
      (getKind() == ScoreKind::KeyNorm && failed(needs(cache.getNormPlane(), "norm"))) ||
      (getKind() == ScoreKind::Plane && failed(needs(cache.getScorePlane(), "score")))) {
    return failure();
  }
  // C3, C4
  if (getQuery() && failed(verifyQuery(*this, getQuery().getType(), cache))) {
    return failure();
  }
  return verifyScores(*this, "result", getResult().getType(), cache);
}

LogicalResult PoolOp::verify() {
  // C1
  if (getMode() != "max" && getMode() != "mean") {
    return emitExpected(*this, "mode", "max or mean", getMode());
  }
  // C2
  auto kernel = dyn_cast<IntegerAttr>(getKernel());
  if (kernel && (kernel.getInt() < 1 || kernel.getInt() % 2 == 0)) {
    return emitExpected(*this, "kernel", "odd and positive", kernel.getInt());
  }
  return success();
}

LogicalResult TopKOp::verify() {
  // C1
  if (getResult().getType().getUnit() != getUnit()) {
    return emitExpected(*this, "a result of unit", stringifyUnit(getUnit()),
                        stringifyUnit(getResult().getType().getUnit()));
  }
  // C2
  return success(succeeded(verifyAtLeast(*this, "k", getK(), 1)) &&
                 succeeded(verifyAtLeast(*this, "first", getFirst(), 0)) &&
                 succeeded(verifyAtLeast(*this, "last", getLast(), 0)) &&
                 succeeded(verifyScores(*this, "scores", getScores().getType(), cacheOf(getCache().getType()))));
}

ParseResult MergeStatesOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  Type out, lse;
  if (parser.parseOperandList(operands) || parser.parseOptionalAttrDict(result.attributes) ||
      parser.parseColonType(out) || parser.parseComma() || parser.parseType(lse)) {
    return failure();
  }
  for (auto [i, operand] : llvm::enumerate(operands)) {
    if (parser.resolveOperand(operand, i % 2 ? lse : out, result.operands)) {
      return failure();
    }
  }
  result.addTypes({out, lse});
  return success();
}

void MergeStatesOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printOperands(getStates());
  printer.printOptionalAttrDict((*this)->getAttrs());
  printer << " : " << getOut().getType() << ", " << getLse().getType();
}

LogicalResult MergeStatesOp::verify() {
  // C1
  if (getStates().empty() || getStates().size() % 2) {
    return emitExpected(*this, "an even, positive number of operands (out, lse)...", "", getStates().size());
  }
  // C2
  for (auto [i, state] : llvm::enumerate(getStates())) {
    Type want = i % 2 ? getLse().getType() : getOut().getType();
    if (state.getType() != want) {
      return emitExpected(*this, Twine("operand ") + Twine(i) + " of type", want, state.getType());
    }
  }
  return success();
}

LogicalResult MergeStatesOp::fold(FoldAdaptor, SmallVectorImpl<OpFoldResult> &results) {
  if (getStates().size() != 2) {
    return failure();
  }
  results.assign({getStates()[0], getStates()[1]});
  return success();
}

static LogicalResult verifyDense(Operation *op, StringRef name, RankedTensorType type, CacheType cache, Plane plane,
                                 DenseLayout layout) {
  int64_t heads = type.getDimSize(layout == DenseLayout::NHD ? 2 : 1);
  if (heads != cache.getHeads()) {
    return emitExpected(op, Twine("heads of ") + name, cache.getHeads(), heads);
  }
  if (type.getDimSize(3) != cache.getDim(plane)) {
    return emitExpected(op, Twine("channels of ") + name, cache.getDim(plane), type.getDimSize(3));
  }
  return success();
}

LogicalResult ExportOp::verify() {
  CacheType cache = cacheOf(getCache().getType());
  return cache ? verifyDense(*this, "result", cast<RankedTensorType>(getResult().getType()), cache, getPlane(), // C1
                             getLayout())
               : success();
}

LogicalResult ImportOp::verify() {
  CacheType cache = cacheOf(getCache().getType());
  if (!cache) {
    return success();
  }
  // C1
  if (cache.isRing()) {
    return emitOpError() << "expects a cache without a ring, but got window " << cache.getWindow();
  }
  return success(succeeded(verifyDense(*this, "key", cast<RankedTensorType>(getKey().getType()), cache, Plane::K, // C2
                                       getLayout())) &&
                 succeeded(verifyDense(*this, "value", cast<RankedTensorType>(getValue().getType()), cache, Plane::V,
                                       getLayout())));
}

//===----------------------------------------------------------------------===//
// Score regions
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

LogicalResult SoftCapOp::verify() {
  // C1
  if (getCap().convertToFloat() <= 0.0f) {
    return emitExpected(*this, "a cap", "above 0", getCapAttr());
  }
  return success();
}

LogicalResult AlibiOp::verify() {
  // C1
  return verifyAtLeast(*this, "heads", getHeadsAttr(), 1);
}

#define GET_OP_CLASSES
#include "KVCache/KVCacheOps.cpp.inc"
