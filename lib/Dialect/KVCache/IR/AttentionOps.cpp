//===- AttentionOps.cpp - Attention, scores and selection ----------------===//
//
// The labels (op_c1, ...) are those of docs/spec.
//
//===----------------------------------------------------------------------===//
#include "VerifyHelpers.h"

#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace kvc::kvcache;
using namespace kvc::kvcache::op_detail;

static CacheType cacheOf(Value value) { return getCacheType(value.getType()); }

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

SmallVector<AttentionResult> AttentionOp::getReturnKinds() {
  if (!getReturns()) {
    return {AttentionResult::Out};
  }
  return llvm::map_to_vector(getReturnsAttr(),
                             [](Attribute attr) { return cast<AttentionResultAttr>(attr).getValue(); });
}

Value AttentionOp::getResultOf(AttentionResult kind) {
  for (auto [result, returned] : llvm::zip(getResults(), getReturnKinds())) {
    if (returned == kind) {
      return result;
    }
  }
  return {};
}

Value AttentionOp::getSelectionOf(unsigned segment) {
  if (std::optional<ArrayRef<int64_t>> segments = getSelectedSegments()) {
    for (auto [selection, selected] : llvm::zip(getSelections(), *segments)) {
      if (selected == static_cast<int64_t>(segment)) {
        return selection;
      }
    }
    return {};
  }
  return getSelections().empty() ? Value() : getSelections()[segment];
}

/// A window that a ring has already forgotten cannot be asked for.
static LogicalResult verifyWindowInRing(Operation *op, CacheType cache, Attribute window, Attribute sinks) {
  if (!cache || !cache.isRing()) {
    return success();
  }
  if (auto want = dyn_cast_or_null<IntegerAttr>(window); want && want.getInt() > cache.getWindow()) {
    return emitExpected(op, "a window", Twine("of at most the ") + Twine(cache.getWindow()) + " that the ring keeps",
                        want.getInt());
  }
  if (auto want = dyn_cast_or_null<IntegerAttr>(sinks); want && want.getInt() > cache.getSinks()) {
    return emitExpected(op, "sinks", Twine("of at most the ") + Twine(cache.getSinks()) + " that the ring keeps",
                        want.getInt());
  }
  return success();
}

static LogicalResult verifyTreeMask(Operation *op, Value mask, Type query, CacheType cache) {
  ShapedType rows = shapeOf(query);
  if (!mask || !rows) {
    return success();
  }
  if (failed(verifySameDim(op, "rows of tree_mask", rows.getDimSize(0), shapeOf(mask.getType()).getDimSize(0)))) {
    return failure();
  }
  if (cache && cache.isRing()) {
    return op->emitOpError() << "expects no ring with a tree mask, as its slots are not in the order of the rows, but "
                                "got window "
                             << cache.getWindow();
  }
  return success();
}

LogicalResult AttentionOp::verify() {
  // attention_c1
  if (getCaches().empty()) {
    return emitOpError() << "expects at least one cache, but got none";
  }
  Type queryType = getQuery().getType();
  ShapedType query = shapeOf(queryType);
  CacheType first = cacheOf(getCaches()[0]);
  for (Value segment : getCaches()) {
    CacheType cache = cacheOf(segment);
    // attention_c2
    if (failed(verifyQueryHeads(*this, queryType, cache))) {
      return failure();
    }
    // attention_c3
    if (failed(verifyQueryChannels(*this, queryType, cache))) {
      return failure();
    }
    // attention_c4
    if (cache && first && (cache.getHeads() != first.getHeads() || cache.getVDim() != first.getVDim())) {
      return emitOpError() << "expects segments of equal heads and value channels, but got " << first << " and "
                           << cache;
    }
    // attention_c12
    if (failed(verifyWindowInRing(*this, cache, getWindowAttr(), getSinksAttr()))) {
      return failure();
    }
  }
  // attention_c5
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
    return emitExpected(*this, "selections of number", getCaches().size(), getSelections().size());
  }
  // attention_c6
  if (failed(verifyAtLeast(*this, "window", getWindowAttr(), 1)) ||
      failed(verifyAtLeast(*this, "sinks", getSinksAttr(), 0)) ||
      failed(verifyAtLeast(*this, "stat_rows", getStatRowsAttr(), 0))) {
    return failure();
  }
  if (getSinksAttr() && !getWindowAttr()) {
    return emitOpError() << "expects a window with sinks, but got none";
  }
  // attention_c7
  SmallVector<AttentionResult> returns = getReturnKinds();
  for (auto [i, kind] : llvm::enumerate(returns)) {
    if (llvm::is_contained(ArrayRef(returns).take_front(i), kind)) {
      return emitOpError() << "expects distinct returns, but got " << stringifyAttentionResult(kind) << " twice";
    }
  }
  if (returns.empty() || returns.size() != getNumResults()) {
    return emitExpected(*this, "at least one result, and as many as in returns:", returns.size(), getNumResults());
  }
  // attention_c8
  bool wantsStats = llvm::is_contained(returns, AttentionResult::Stats);
  if (wantsStats != static_cast<bool>(getStat())) {
    return emitOpError() << "expects stat exactly when stats are returned, but got " << (wantsStats ? "none" : "one");
  }
  for (auto [name, attr] : {std::pair<StringRef, Attribute>{"stat_rows", getStatRowsAttr()},
                            {"stat_stride", getStatStrideAttr()},
                            {"stat_decay", getStatDecayAttr()},
                            {"stat_threshold", getStatThresholdAttr()}}) {
    if (!wantsStats && attr) {
      return emitOpError() << "expects " << name << " only when stats are returned, but got " << attr;
    }
  }
  if (wantsStats && getCaches().size() != 1) {
    return emitOpError() << "expects one segment when stats are returned, but got " << getCaches().size();
  }
  // attention_c15
  for (auto [stat, name, attr] : {std::tuple<Stat, StringRef, Attribute>{Stat::Decay, "stat_decay", getStatDecayAttr()},
                                  {Stat::Hits, "stat_threshold", getStatThresholdAttr()}}) {
    if ((getStat() == stat) != static_cast<bool>(attr)) {
      return emitOpError() << "expects " << name << " exactly with the statistic " << stringifyStat(stat)
                           << ", but got " << (attr ? "one" : "none");
    }
  }
  // attention_c16
  if (failed(verifyAtLeast(*this, "stat_stride", getStatStrideAttr(), 1)) ||
      failed(verifyBetween(*this, "stat_decay", getStatDecayAttr(), 0, 1)) ||
      failed(verifyBetween(*this, "stat_threshold", getStatThresholdAttr(), 0, 1))) {
    return failure();
  }
  // attention_c9
  for (auto [kind, result] : llvm::zip(returns, getResults())) {
    ShapedType type = shapeOf(result.getType());
    if (!type && !isa<SiteType>(result.getType())) {
      return emitOpError() << "expects ranked tensors as results, but got " << result.getType();
    }
    if (!type || !query || !first) {
      continue;
    }
    RankedTensorType want = inferResultType(kind, query, first);
    if (!type.hasRank() || type.getShape() != want.getShape() || type.getElementType() != want.getElementType()) {
      return emitExpected(*this, Twine("result ") + stringifyAttentionResult(kind) + " of type", want, type);
    }
  }
  // attention_c10
  if (getSinkLogits() && query) {
    int64_t size = shapeOf(getSinkLogits().getType()).getDimSize(0);
    if (size != query.getDimSize(1)) {
      return emitExpected(*this, "sink_logits of size", query.getDimSize(1), getSinkLogits().getType());
    }
  }
  // attention_c13
  if (failed(verifyTreeMask(*this, getTreeMask(), queryType, cacheOf(getCaches().back())))) {
    return failure();
  }
  // attention_c14
  if (failed(verifyScale(*this, getScale()))) {
    return failure();
  }
  // attention_c11
  return verifyScoreRegion(*this, getScore(), getCaptures());
}

RankedTensorType AttentionOp::inferResultType(AttentionResult kind, ShapedType query, CacheType cache) {
  int64_t rows = query.getDimSize(0), heads = query.getDimSize(1), dynamic = ShapedType::kDynamic;
  Type element = Float32Type::get(query.getContext());
  switch (kind) {
  case AttentionResult::Out:
    return RankedTensorType::get({rows, heads, cache.getVDim()}, element);
  case AttentionResult::Lse:
    return RankedTensorType::get({rows, heads}, element);
  case AttentionResult::Stats:
    return RankedTensorType::get({dynamic, cache.getHeads(), dynamic}, element);
  }
  llvm_unreachable("every kind of result has a type");
}

MutableOperandRange OnlineAttentionOp::getDpsInitsMutable() {
  return MutableOperandRange(getOperation(), getAccMutable().getOperandNumber(), 3);
}

int64_t OnlineAttentionOp::getGroupSize() {
  if (IntegerAttr group = getGroupAttr()) {
    return group.getInt();
  }
  CacheType cache = cacheOf(getCache());
  ShapedType query = shapeOf(getQuery().getType());
  return cache && query ? query.getDimSize(1) / cache.getHeads() : 0;
}

LogicalResult OnlineAttentionOp::verify() {
  CacheType cache = cacheOf(getCache());
  Type queryType = getQuery().getType();
  ShapedType query = shapeOf(queryType);
  // online_attention_c1
  if (!getGroupAttr()) {
    if (failed(verifyQueryHeads(*this, queryType, cache))) {
      return failure();
    }
    if (getHeadOffset()) {
      return emitOpError() << "expects group with from_head, but got none";
    }
  } else if (getGroupSize() < 1 || getGroupSize() > 128) {
    return emitExpected(*this, "group", "of 1 to 128 query heads", getGroupSize());
  }
  if (getGroupAttr() && query && cache && query.getDimSize(1) > getGroupSize() * cache.getHeads()) {
    return emitExpected(*this, "query heads", Twine("of at most ") + Twine(getGroupSize() * cache.getHeads()),
                        query.getDimSize(1));
  }
  // online_attention_c2
  if (failed(verifyQueryChannels(*this, queryType, cache))) {
    return failure();
  }
  // online_attention_c3
  if (getAcc().getType() != getNewAcc().getType() || getMax().getType() != getNewMax().getType() ||
      getSum().getType() != getNewSum().getType()) {
    return emitOpError() << "expects a state of the same types before and after, but got (" << getAcc().getType()
                         << ", " << getMax().getType() << ", " << getSum().getType() << ") and (" << getResultTypes()
                         << ")";
  }
  // online_attention_c4
  if (query && cache) {
    ShapedType acc = shapeOf(getAcc().getType()), max = shapeOf(getMax().getType()), sum = shapeOf(getSum().getType());
    int64_t rows = query.getDimSize(0), heads = query.getDimSize(1);
    if (failed(verifySameDim(*this, "channels of acc", cache.getVDim(), acc.getDimSize(2)))) {
      return failure();
    }
    for (auto [name, state] : {std::pair<StringRef, ShapedType>{"acc", acc}, {"max", max}, {"sum", sum}}) {
      if (failed(verifySameDim(*this, Twine("rows of ") + name, rows, state.getDimSize(0))) ||
          failed(verifySameDim(*this, Twine("heads of ") + name, heads, state.getDimSize(1)))) {
        return failure();
      }
    }
  }
  // online_attention_c5
  if (failed(verifyAtLeast(*this, "window", getWindowAttr(), 1)) ||
      failed(verifyAtLeast(*this, "sinks", getSinksAttr(), 0))) {
    return failure();
  }
  if (getSinksAttr() && !getWindowAttr()) {
    return emitOpError() << "expects a window with sinks, but got none";
  }
  // online_attention_c6
  if (failed(verifyWindowInRing(*this, cache, getWindowAttr(), getSinksAttr()))) {
    return failure();
  }
  // online_attention_c7
  if (failed(verifyTreeMask(*this, getTreeMask(), queryType, cache))) {
    return failure();
  }
  // online_attention_c8
  if (failed(verifyScale(*this, getScale()))) {
    return failure();
  }
  // online_attention_c9
  return verifyScoreRegion(*this, getScore(), getCaptures());
}

LogicalResult AttendOp::verify() {
  CacheType cache = cacheOf(getCache());
  Type query = getQuery().getType();
  // attend_c1
  if (failed(verifyQueryHeads(*this, query, cache)) || failed(verifyQueryChannels(*this, query, cache))) {
    return failure();
  }
  // attend_c2
  if (cache && (failed(verifyRows(*this, "key", getKey().getType(), cache.getHeads(), cache.getKDim())) ||
                failed(verifyRows(*this, "value", getValue().getType(), cache.getHeads(), cache.getVDim())))) {
    return failure();
  }
  // attend_c3
  if (getPhase() != "prefill" && getPhase() != "decode") {
    return emitExpected(*this, "phase", "\"prefill\" or \"decode\"", getPhase());
  }
  // attend_c4
  if (cache && failed(verifyRopeDims(*this, getRopeAttr(), cache.getKDim()))) {
    return failure();
  }
  // attend_c5
  if (ShapedType out = shapeOf(getOut().getType()), rows = shapeOf(query); cache && out && rows) {
    RankedTensorType want = AttentionOp::inferResultType(AttentionResult::Out, rows, cache);
    if (out.getShape() != want.getShape()) {
      return emitExpected(*this, "result out of type", want, out);
    }
  }
  // attend_c6
  if (failed(verifyAtLeast(*this, "layer", getLayerAttr(), 0))) {
    return failure();
  }
  // attend_c7
  if (failed(verifyAtLeast(*this, "window", getWindowAttr(), 1))) {
    return failure();
  }
  // attend_c8
  return verifyScale(*this, getScale());
}

//===----------------------------------------------------------------------===//
// Scores and selection
//===----------------------------------------------------------------------===//

LogicalResult ScoreOp::verify() {
  CacheType cache = cacheOf(getCache());
  // score_c1
  bool needsQuery = llvm::is_contained({ScoreKind::Bound, ScoreKind::Dot, ScoreKind::Mean}, getKind());
  if (needsQuery != static_cast<bool>(getQuery())) {
    return emitOpError() << "expects " << (needsQuery ? "a" : "no") << " query for " << stringifyScoreKind(getKind())
                         << ", but got " << (needsQuery ? "none" : "one");
  }
  if (!cache) {
    return success();
  }
  // score_c2
  auto needs = [&](bool plane, StringRef name) -> LogicalResult {
    if (!plane) {
      return emitOpError() << "expects a cache with the plane " << name << ", but got " << cache;
    }
    return success();
  };
  if ((getKind() == ScoreKind::Bound && failed(needs(cache.getMinmaxPlane(), "minmax"))) ||
      (getKind() == ScoreKind::Mean && failed(needs(cache.getMeanPlane(), "mean"))) ||
      (getKind() == ScoreKind::KeyNorm && failed(needs(cache.getNormPlane(), "norm"))) ||
      (getKind() == ScoreKind::Plane && failed(needs(cache.getScorePlane(), "score")))) {
    return failure();
  }
  // score_c3
  if (getQuery() && (failed(verifyQueryHeads(*this, getQuery().getType(), cache)) ||
                     failed(verifyQueryChannels(*this, getQuery().getType(), cache)))) {
    return failure();
  }
  // score_c4
  if (failed(verifyScores(*this, "result", getResult().getType(), cache))) {
    return failure();
  }
  // score_c5
  if (llvm::is_contained({ScoreKind::Bound, ScoreKind::Mean}, getKind()) && cache.getRope()) {
    return emitOpError() << "expects a cache that stores rotated keys for " << stringifyScoreKind(getKind())
                         << ", as the summaries are of stored keys, but got one that rotates them when loaded";
  }
  return success();
}

LogicalResult PoolOp::verify() {
  // pool_c1
  if (getMode() != "max" && getMode() != "mean") {
    return emitExpected(*this, "mode", "max or mean", getMode());
  }
  // pool_c2
  auto kernel = dyn_cast<IntegerAttr>(getKernel());
  if (kernel && (kernel.getInt() < 1 || kernel.getInt() % 2 == 0)) {
    return emitExpected(*this, "kernel", "odd and positive", kernel.getInt());
  }
  return success();
}

LogicalResult TopKOp::verify() {
  // topk_c1
  Unit unit = getResult().getType().getUnit();
  if (unit != getUnit()) {
    return emitExpected(*this, "a result of unit", stringifyUnit(getUnit()), stringifyUnit(unit));
  }
  // topk_c2
  if (failed(verifyAtLeast(*this, "k", getK(), 1)) || failed(verifyAtLeast(*this, "first", getFirst(), 0)) ||
      failed(verifyAtLeast(*this, "last", getLast(), 0))) {
    return failure();
  }
  // topk_c3
  if (failed(verifyScores(*this, "scores", getScores().getType(), cacheOf(getCache())))) {
    return failure();
  }
  // topk_c4
  auto k = dyn_cast<IntegerAttr>(getK()), first = dyn_cast<IntegerAttr>(getFirst()),
       last = dyn_cast<IntegerAttr>(getLast());
  if (k && first && last && first.getInt() > k.getInt() - last.getInt()) {
    return emitExpected(*this, "first + last", Twine("of at most k = ") + Twine(k.getInt()),
                        Twine(first.getInt()) + " + " + Twine(last.getInt()));
  }
  return success();
}

LogicalResult ThresholdOp::verify() {
  // threshold_c1
  if (Unit unit = getResult().getType().getUnit(); unit != getUnit()) {
    return emitExpected(*this, "a result of unit", stringifyUnit(getUnit()), stringifyUnit(unit));
  }
  // threshold_c2
  if (failed(verifyAtLeast(*this, "first", getFirst(), 0)) || failed(verifyAtLeast(*this, "last", getLast(), 0))) {
    return failure();
  }
  // threshold_c3
  if (failed(verifyScores(*this, "scores", getScores().getType(), cacheOf(getCache())))) {
    return failure();
  }
  // threshold_c4
  if (auto value = dyn_cast<FloatAttr>(getValue()); value && value.getValue().isNaN()) {
    return emitExpected(*this, "a value", "that is a number", value);
  }
  return success();
}

ParseResult MapScoresOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  Type type;
  Region *body = result.addRegion();
  if (parser.parseOperandList(operands) || parser.parseRegion(*body) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes) || parser.parseColonType(type) ||
      parser.resolveOperands(operands, type, result.operands)) {
    return failure();
  }
  result.addTypes(type);
  return success();
}

void MapScoresOp::print(OpAsmPrinter &printer) {
  printer << ' ' << getInputs() << ' ';
  printer.printRegion(getBody());
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs());
  printer << " : " << getResult().getType();
}

LogicalResult MapScoresOp::verify() {
  // map_scores_c1
  if (getInputs().empty()) {
    return emitOpError() << "expects at least one operand, but got none";
  }
  // map_scores_c2
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    if (input.getType() != getResult().getType()) {
      return emitExpected(*this, Twine("operand ") + Twine(i) + " of the result's type", getResult().getType(),
                          input.getType());
    }
  }
  // map_scores_c3
  Block &block = getBody().front();
  SmallVector<Type> want(getInputs().size(), Float32Type::get(getContext()));
  if (block.getArgumentTypes() != TypeRange(want)) {
    return emitOpError() << "expects region arguments (" << want << "), one for each operand, but got ("
                         << block.getArgumentTypes() << ")";
  }
  // map_scores_c4
  if (!block.mightHaveTerminator() || !isa<YieldOp>(block.back())) {
    return emitOpError() << "expects a region that ends in kvcache.yield, but got "
                         << (block.empty() ? StringRef("no op") : block.back().getName().getStringRef());
  }
  // map_scores_c5
  for (Operation &inner : block) {
    if (!isAllowedInScoreRegion(&inner) || isa<AlibiOp>(inner)) {
      return inner.emitOpError() << "expects element-wise scalar arith and math, kvcache.soft_cap or kvcache.parameter "
                                    "in a region over scores, but got '"
                                 << inner.getName() << "'";
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Merging partial results
//===----------------------------------------------------------------------===//

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
  // merge_states_c1
  if (getStates().empty() || getStates().size() % 2) {
    return emitExpected(*this, "pairs of operands", "(out, lse), at least one",
                        Twine(getStates().size()) + " operands");
  }
  // merge_states_c2
  for (auto [i, state] : llvm::enumerate(getStates())) {
    Type want = i % 2 ? getLse().getType() : getOut().getType();
    if (state.getType() != want) {
      return emitExpected(*this, Twine("operand ") + Twine(i) + " of type", want, state.getType());
    }
  }
  // merge_states_c3
  if (ShapedType out = shapeOf(getOut().getType()), lse = shapeOf(getLse().getType()); out && lse) {
    for (int64_t dim : {0, 1}) {
      if (failed(
              verifySameDim(*this, dim ? "heads of lse" : "rows of lse", out.getDimSize(dim), lse.getDimSize(dim)))) {
        return failure();
      }
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Helpers of score regions
//===----------------------------------------------------------------------===//

LogicalResult SoftCapOp::verify() {
  // soft_cap_c1
  if (!getCap().isFiniteNonZero() || getCap().isNegative()) {
    return emitExpected(*this, "a cap", "that is finite and above 0", getCapAttr());
  }
  return success();
}

LogicalResult AlibiOp::verify() {
  // alibi_c1
  int64_t heads = getHeads();
  if (heads < 1) {
    return emitExpected(*this, "heads", "of at least 1", heads);
  }
  // alibi_c2
  int64_t want = 0;
  if (auto attention = dyn_cast<AttentionOp>((*this)->getParentOp())) {
    ShapedType query = shapeOf(attention.getQuery().getType());
    want = query ? query.getDimSize(1) : 0;
  } else if (auto online = dyn_cast<OnlineAttentionOp>((*this)->getParentOp())) {
    CacheType cache = cacheOf(online.getCache());
    want = cache ? online.getGroupSize() * cache.getHeads() : 0;
  }
  if (want && heads != want) {
    return emitExpected(*this, "heads", Twine("of all ") + Twine(want) + " query heads", heads);
  }
  return success();
}
