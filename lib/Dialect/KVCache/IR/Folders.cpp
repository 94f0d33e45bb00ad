//===- Folders.cpp - Folders and canonical forms of the kvcache dialect --===//
//
// What is folded, and why it is sound, stands on the op's page in docs/spec.
//
//===----------------------------------------------------------------------===//
#include "kvc/Dialect/KVCache/IR/KVCache.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace kvc::kvcache;

/// Whether an op works on values: memory must not be looked through, as it changes.
static bool isValue(Value value) { return isa<CacheType, RankedTensorType>(value.getType()); }

static bool hasNoRows(Value value) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  return tensor && tensor.getDimSize(0) == 0;
}

/// An upper bound of the slots that a table can hold, where the type gives one.
static std::optional<int64_t> maxSlots(CacheType cache) {
  if (!cache || !cache.isRing()) {
    return std::nullopt;
  }
  return cache.getWindow() + cache.getSinks();
}

/// Whether a selection keeps everything, whatever the scores: k is no less than the units that can exist.
static bool keepsAll(Value selection) {
  auto topk = selection.getDefiningOp<TopKOp>();
  auto k = topk ? dyn_cast<IntegerAttr>(topk.getK()) : IntegerAttr();
  if (!k) {
    return false;
  }
  CacheType cache = getCacheType(topk.getCache().getType());
  if (std::optional<int64_t> slots = maxSlots(cache)) {
    int64_t units = topk.getUnit() == Unit::Page ? llvm::divideCeil(*slots, cache.getPage()) : *slots;
    if (k.getInt() >= units) {
      return true;
    }
  }
  auto scores = dyn_cast<ShapedType>(topk.getScores().getType());
  return scores && !scores.isDynamicDim(2) && k.getInt() >= scores.getDimSize(2);
}

//===----------------------------------------------------------------------===//
// Ops that give back their operand
//===----------------------------------------------------------------------===//

OpFoldResult RopeOp::fold(FoldAdaptor) { return hasNoRows(getInput()) ? getInput() : Value(); }

OpFoldResult AppendOp::fold(FoldAdaptor) { return isValue(getCache()) && hasNoRows(getKey()) ? getCache() : Value(); }

OpFoldResult CompactOp::fold(FoldAdaptor) {
  auto topk = getKeep().getDefiningOp<TopKOp>();
  bool same = topk && topk.getCache() == getCache() && topk.getBatch() == getBatch();
  return isValue(getCache()) && same && keepsAll(getKeep()) ? getCache() : Value();
}

OpFoldResult ForkOp::fold(FoldAdaptor) {
  return isValue(getCache()) && getSource() == getDestination() ? getCache() : Value();
}

OpFoldResult SealOp::fold(FoldAdaptor) {
  auto inner = getCache().getDefiningOp<SealOp>();
  return inner && isValue(getCache()) && inner.getBatch() == getBatch() ? getCache() : Value();
}

OpFoldResult RebaseOp::fold(FoldAdaptor) {
  auto inner = getCache().getDefiningOp<RebaseOp>();
  // After a rebase every position is its slot's index, so a second one rotates by nothing.
  return inner && isValue(getCache()) && inner.getBatch() == getBatch() ? getCache() : Value();
}

OpFoldResult TruncateOp::fold(FoldAdaptor) {
  auto inner = getCache().getDefiningOp<TruncateOp>();
  return inner && isValue(getCache()) && inner.getBatch() == getBatch() && inner.getLengths() == getLengths()
             ? getCache()
             : Value();
}

OpFoldResult RequantizeOp::fold(FoldAdaptor) {
  return isValue(getCache()) && getCache().getType() == getResult().getType() ? getCache() : Value();
}

OpFoldResult PoolOp::fold(FoldAdaptor) {
  auto kernel = dyn_cast<IntegerAttr>(getKernel());
  return isValue(getInput()) && kernel && kernel.getInt() == 1 ? getInput() : Value();
}

OpFoldResult MapScoresOp::fold(FoldAdaptor) {
  // The only operand as it is. With several, an operand that is not yielded may still make a result -inf.
  Block &block = getBody().front();
  auto yield = cast<YieldOp>(block.getTerminator());
  bool same = getInputs().size() == 1 && yield.getScore() == block.getArgument(0);
  return same && isValue(getResult()) ? getInputs()[0] : Value();
}

LogicalResult OnlineAttentionOp::fold(FoldAdaptor adaptor, SmallVectorImpl<OpFoldResult> &results) {
  auto begin = dyn_cast_or_null<IntegerAttr>(adaptor.getBegin()), end = dyn_cast_or_null<IntegerAttr>(adaptor.getEnd());
  bool empty = getBegin() == getEnd() || (begin && end && begin.getInt() >= end.getInt());
  if (!empty && !hasNoRows(getQuery())) {
    return failure();
  }
  results.assign({getAcc(), getMax(), getSum()});
  return success();
}

//===----------------------------------------------------------------------===//
// merge_states
//===----------------------------------------------------------------------===//

LogicalResult MergeStatesOp::fold(FoldAdaptor, SmallVectorImpl<OpFoldResult> &results) {
  if (getStates().size() != 2 || !isValue(getOut())) {
    return failure();
  }
  results.assign({getStates()[0], getStates()[1]});
  return success();
}

namespace {

/// merge_states(a, merge_states(b, c)) -> merge_states(a, b, c).
struct FlattenMerge : OpRewritePattern<MergeStatesOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(MergeStatesOp op, PatternRewriter &rewriter) const override {
    SmallVector<Value> states;
    for (size_t i = 0; i < op.getStates().size(); i += 2) {
      Value out = op.getStates()[i], lse = op.getStates()[i + 1];
      auto inner = out.getDefiningOp<MergeStatesOp>();
      if (inner && isValue(out) && lse == inner.getLse() && out == inner.getOut() && out.hasOneUse() &&
          lse.hasOneUse()) {
        llvm::append_range(states, inner.getStates());
      } else {
        states.append({out, lse});
      }
    }
    if (states.size() == op.getStates().size()) {
      return failure();
    }
    rewriter.modifyOpInPlace(op, [&] { op.getStatesMutable().assign(states); });
    return success();
  }
};

/// A state with lse = -inf everywhere has seen nothing and adds nothing.
struct DropEmptyState : OpRewritePattern<MergeStatesOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(MergeStatesOp op, PatternRewriter &rewriter) const override {
    SmallVector<Value> states;
    for (size_t i = 0; i < op.getStates().size(); i += 2) {
      DenseFPElementsAttr lse;
      bool empty = matchPattern(op.getStates()[i + 1], m_Constant(&lse)) && lse.isSplat() &&
                   lse.getSplatValue<APFloat>().isInfinity() && lse.getSplatValue<APFloat>().isNegative();
      if (!empty) {
        states.append({op.getStates()[i], op.getStates()[i + 1]});
      }
    }
    if (states.empty() || states.size() == op.getStates().size()) {
      return failure();
    }
    rewriter.modifyOpInPlace(op, [&] { op.getStatesMutable().assign(states); });
    return success();
  }
};

//===----------------------------------------------------------------------===//
// attention
//===----------------------------------------------------------------------===//

/// scale * factor as an attribute, if it is still a finite number other than zero.
FloatAttr foldScale(FloatAttr scale, const APFloat &factor) {
  APFloat product = scale.getValue();
  product.multiply(factor, APFloat::rmNearestTiesToEven);
  return product.isFiniteNonZero() && !product.isDenormal() ? FloatAttr::get(scale.getType(), product) : FloatAttr();
}

/// attention(q * c) with scale s -> attention(q) with scale s * c.
struct FoldQueryScale : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    auto multiply = op.getQuery().getDefiningOp<arith::MulFOp>();
    if (!multiply) {
      return failure();
    }
    for (auto [value, constant] :
         {std::pair<Value, Value>{multiply.getLhs(), multiply.getRhs()}, {multiply.getRhs(), multiply.getLhs()}}) {
      DenseFPElementsAttr splat;
      if (!matchPattern(constant, m_Constant(&splat)) || !splat.isSplat()) {
        continue;
      }
      if (FloatAttr scale = foldScale(op.getScaleAttr(), splat.getSplatValue<APFloat>())) {
        rewriter.modifyOpInPlace(op, [&] {
          op.getQueryMutable().assign(value);
          op.setScaleAttr(scale);
        });
        return success();
      }
    }
    return failure();
  }
};

/// A multiplication by a constant that is the first thing a score region does -> scale.
struct FoldRegionScale : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    if (op.getScore().empty()) {
      return failure();
    }
    Value score = op.getScore().front().getArgument(0);
    auto multiply = score.hasOneUse() ? dyn_cast<arith::MulFOp>(*score.user_begin()) : arith::MulFOp();
    if (!multiply) {
      return failure();
    }
    FloatAttr constant;
    Value factor = multiply.getLhs() == score ? multiply.getRhs() : multiply.getLhs();
    if (!matchPattern(factor, m_Constant(&constant))) {
      return failure();
    }
    FloatAttr scale = foldScale(op.getScaleAttr(), constant.getValue());
    if (!scale) {
      return failure();
    }
    rewriter.modifyOpInPlace(op, [&] { op.setScaleAttr(scale); });
    rewriter.replaceOp(multiply, score);
    return success();
  }
};

/// A score region that yields its score as it is -> no region.
struct DropIdentityRegion : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    if (op.getScore().empty()) {
      return failure();
    }
    Block &block = op.getScore().front();
    if (cast<YieldOp>(block.getTerminator()).getScore() != block.getArgument(0)) {
      return failure();
    }
    rewriter.modifyOpInPlace(op, [&] { op.getCapturesMutable().clear(); });
    rewriter.eraseBlock(&block);
    return success();
  }
};

/// A captured value that the region does not use -> not captured.
struct DropUnusedCaptures : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    if (op.getScore().empty()) {
      return failure();
    }
    constexpr unsigned fixed = 5; // score, batch, head, q_pos, kv_pos
    Block &block = op.getScore().front();
    SmallVector<Value> used;
    llvm::BitVector dead(block.getNumArguments());
    for (auto [i, capture] : llvm::enumerate(op.getCaptures())) {
      if (block.getArgument(fixed + i).use_empty()) {
        dead.set(fixed + i);
      } else {
        used.push_back(capture);
      }
    }
    if (dead.none()) {
      return failure();
    }
    rewriter.modifyOpInPlace(op, [&] {
      block.eraseArguments(dead);
      op.getCapturesMutable().assign(used);
    });
    return success();
  }
};

/// A selection that keeps everything -> no selection.
struct DropFullSelection : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    SmallVector<Value> kept;
    SmallVector<int64_t> segments;
    for (auto [i, cache] : llvm::enumerate(op.getCaches())) {
      Value selection = op.getSelectionOf(i);
      auto topk = selection ? selection.getDefiningOp<TopKOp>() : TopKOp();
      bool same = topk && topk.getCache() == cache && topk.getBatch() == op.getBatch();
      if (selection && !(same && keepsAll(selection))) {
        kept.push_back(selection);
        segments.push_back(static_cast<int64_t>(i));
      }
    }
    if (kept.size() == op.getSelections().size()) {
      return failure();
    }
    rewriter.modifyOpInPlace(op, [&] {
      op.getSelectionsMutable().assign(kept);
      if (kept.empty()) {
        op.removeSelectedSegmentsAttr();
      } else {
        op.setSelectedSegments(segments);
      }
    });
    return success();
  }
};

/// Results that nobody uses are not returned.
struct DropUnusedResults : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    SmallVector<Attribute> returns;
    SmallVector<Type> types;
    bool stats = false;
    for (auto [kind, result] : llvm::zip(op.getReturnKinds(), op.getResults())) {
      if (!result.use_empty()) {
        returns.push_back(AttentionResultAttr::get(op.getContext(), kind));
        types.push_back(result.getType());
        stats |= kind == AttentionResult::Stats;
      }
    }
    if (types.empty() || types.size() == op->getNumResults() || !isValue(op.getResults()[0])) {
      return failure();
    }
    OperationState state(op.getLoc(), op->getName(), op->getOperands(), types,
                         op->getDiscardableAttrDictionary().getValue());
    state.addRegion();
    state.getOrAddProperties<AttentionOp::Properties>() = op.getProperties();
    auto kept = cast<AttentionOp>(rewriter.create(state));
    rewriter.inlineRegionBefore(op.getScore(), kept.getScore(), kept.getScore().end());
    kept.setReturnsAttr(rewriter.getArrayAttr(returns));
    if (!stats) {
      kept.removeStatAttr();
      kept.removeStatRowsAttr();
    }
    SmallVector<Value> replacements(op->getNumResults());
    unsigned next = 0;
    for (auto [i, result] : llvm::enumerate(op.getResults())) {
      replacements[i] = result.use_empty() ? Value() : kept->getResult(next++);
    }
    for (auto [result, replacement] : llvm::zip(op.getResults(), replacements)) {
      if (replacement) {
        rewriter.replaceAllUsesWith(result, replacement);
      }
    }
    rewriter.eraseOp(op);
    return success();
  }
};

} // namespace

void MergeStatesOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<FlattenMerge, DropEmptyState>(context);
}

void AttentionOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<FoldQueryScale, FoldRegionScale, DropIdentityRegion, DropUnusedCaptures, DropFullSelection,
               DropUnusedResults>(context);
}
