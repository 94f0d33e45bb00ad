//===- OnlineTiling.cpp - Tiling and splitting online_attention ----------===//
//
// Loops: rows and query heads (parallel), slots of the span (reduction). A tile of the slots continues the state; a
// split over the slots gives every part a state of its own, and merges them.
//
//===----------------------------------------------------------------------===//
#include "SoftmaxState.h"
#include "kvc/Dialect/KVCache/IR/KVCache.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace kvc::kvcache;
using namespace kvc::kvcache::op_detail;

using Dims = SmallVector<OpFoldResult>;

static constexpr unsigned slotsLoop = 2;

static OpFoldResult add(OpBuilder &b, Location loc, OpFoldResult lhs, OpFoldResult rhs) {
  AffineExpr x, y;
  bindDims(b.getContext(), x, y);
  return affine::makeComposedFoldedAffineApply(b, loc, x + y, {lhs, rhs});
}

static OpFoldResult subtract(OpBuilder &b, Location loc, OpFoldResult lhs, OpFoldResult rhs) {
  AffineExpr x, y;
  bindDims(b.getContext(), x, y);
  return affine::makeComposedFoldedAffineApply(b, loc, x - y, {lhs, rhs});
}

static Value toValue(OpBuilder &b, Location loc, OpFoldResult value) {
  return getValueOrCreateConstantIndexOp(b, loc, value);
}

/// A slice with unit strides. `type`: a type of smaller rank, or null.
static Value slice(OpBuilder &b, Location loc, Value source, const Dims &offsets, const Dims &sizes,
                   RankedTensorType type, SmallVectorImpl<Operation *> &slices) {
  Dims strides(offsets.size(), b.getIndexAttr(1));
  auto op = type ? tensor::ExtractSliceOp::create(b, loc, type, source, offsets, sizes, strides)
                 : tensor::ExtractSliceOp::create(b, loc, source, offsets, sizes, strides);
  slices.push_back(op);
  return op;
}

SmallVector<utils::IteratorType> OnlineAttentionOp::getLoopIteratorTypes() {
  return {utils::IteratorType::parallel, utils::IteratorType::parallel, utils::IteratorType::reduction};
}

SmallVector<Range> OnlineAttentionOp::getIterationDomain(OpBuilder &b) {
  Location loc = getLoc();
  OpFoldResult zero = b.getIndexAttr(0), one = b.getIndexAttr(1);
  OpFoldResult slots = subtract(b, loc, getAsOpFoldResult(getEnd()), getAsOpFoldResult(getBegin()));
  return {Range{zero, tensor::getMixedSize(b, loc, getQuery(), 0), one},
          Range{zero, tensor::getMixedSize(b, loc, getQuery(), 1), one}, Range{zero, slots, one}};
}

/// Position of a result in its tensor, for a tile of the loops.
static void resultTile(OpBuilder &b, OnlineAttentionOp op, unsigned result, ArrayRef<OpFoldResult> offsets,
                       ArrayRef<OpFoldResult> sizes, Dims &resultOffsets, Dims &resultSizes) {
  resultOffsets.assign({offsets[0], offsets[1]});
  resultSizes.assign({sizes[0], sizes[1]});
  if (result == 0) {
    resultOffsets.push_back(b.getIndexAttr(0));
    resultSizes.push_back(b.getIndexAttr(getCacheType(op.getCache().getType()).getVDim()));
  }
}

/// The op on a tile of the loops, continuing `state` (already a tile).
static OnlineAttentionOp createTile(OpBuilder &b, OnlineAttentionOp op, ArrayRef<OpFoldResult> offsets,
                                    ArrayRef<OpFoldResult> sizes, const SoftmaxState &state,
                                    SmallVectorImpl<Operation *> &slices) {
  Location loc = op.getLoc();
  OpFoldResult zero = b.getIndexAttr(0);
  Value query = slice(b, loc, op.getQuery(), {offsets[0], offsets[1], zero},
                      {sizes[0], sizes[1], tensor::getMixedSize(b, loc, op.getQuery(), 2)}, {}, slices);
  Value mask = op.getTreeMask();
  if (mask) {
    mask = slice(b, loc, mask, {offsets[0], zero}, {sizes[0], tensor::getMixedSize(b, loc, mask, 1)}, {}, slices);
  }
  OpFoldResult begin = add(b, loc, getAsOpFoldResult(op.getBegin()), offsets[slotsLoop]);
  OpFoldResult end = add(b, loc, begin, sizes[slotsLoop]);
  auto shift = [&](Value old, OpFoldResult offset) -> Value {
    if (isConstantIntValue(offset, 0)) {
      return old;
    }
    return toValue(b, loc, old ? add(b, loc, getAsOpFoldResult(old), offset) : offset);
  };
  Value row = shift(op.getRowOffset(), offsets[0]), head = shift(op.getHeadOffset(), offsets[1]);
  int64_t heads = cast<RankedTensorType>(op.getQuery().getType()).getDimSize(1);
  bool allHeads = !head && getConstantIntValue(sizes[1]) == heads;
  IntegerAttr group = op.getGroupAttr();
  if (!group && !allHeads) {
    group = b.getI64IntegerAttr(op.getGroupSize());
  }
  auto tile =
      OnlineAttentionOp::create(b, loc, TypeRange{state.acc.getType(), state.max.getType(), state.sum.getType()}, query,
                                op.getCache(), toValue(b, loc, begin), toValue(b, loc, end), op.getBatch(), state.acc,
                                state.max, state.sum, op.getSelection(), mask, row, head, op.getCaptures(),
                                op.getScaleAttr(), op.getCausalAttr(), op.getWindowAttr(), op.getSinksAttr(), group);
  tile->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  IRMapping mapping;
  op.getScore().cloneInto(&tile.getScore(), mapping);
  return tile;
}

FailureOr<TilingResult> OnlineAttentionOp::getTiledImplementation(OpBuilder &b, ArrayRef<OpFoldResult> offsets,
                                                                  ArrayRef<OpFoldResult> sizes) {
  SmallVector<Operation *> slices;
  SmallVector<Value> state;
  for (auto [i, init] : llvm::enumerate(getDpsInits())) {
    Dims stateOffsets, stateSizes;
    resultTile(b, *this, i, offsets, sizes, stateOffsets, stateSizes);
    state.push_back(slice(b, getLoc(), init, stateOffsets, stateSizes, {}, slices));
  }
  OnlineAttentionOp tile = createTile(b, *this, offsets, sizes, {state[0], state[1], state[2]}, slices);
  return TilingResult{{tile}, SmallVector<Value>(tile->getResults()), slices};
}

LogicalResult OnlineAttentionOp::getResultTilePosition(OpBuilder &b, unsigned result, ArrayRef<OpFoldResult> offsets,
                                                       ArrayRef<OpFoldResult> sizes, Dims &resultOffsets,
                                                       Dims &resultSizes) {
  resultTile(b, *this, result, offsets, sizes, resultOffsets, resultSizes);
  return success();
}

LogicalResult OnlineAttentionOp::getIterationDomainTileFromResultTile(OpBuilder &b, unsigned result,
                                                                      ArrayRef<OpFoldResult> offsets,
                                                                      ArrayRef<OpFoldResult> sizes,
                                                                      SmallVectorImpl<OpFoldResult> &loopOffsets,
                                                                      SmallVectorImpl<OpFoldResult> &loopSizes) {
  // Some channels of acc cost as much as all of them: such a tile is not made.
  int64_t channels = cast<RankedTensorType>(getAcc().getType()).getDimSize(2);
  if (result == 0 && (!isConstantIntValue(offsets[2], 0) || getConstantIntValue(sizes[2]) != channels)) {
    return failure();
  }
  Range slots = getIterationDomain(b)[slotsLoop];
  loopOffsets.assign({offsets[0], offsets[1], slots.offset});
  loopSizes.assign({sizes[0], sizes[1], slots.size});
  return success();
}

FailureOr<TilingResult> OnlineAttentionOp::generateResultTileValue(OpBuilder &b, unsigned result,
                                                                   ArrayRef<OpFoldResult> offsets,
                                                                   ArrayRef<OpFoldResult> sizes) {
  Dims loopOffsets, loopSizes;
  if (failed(getIterationDomainTileFromResultTile(b, result, offsets, sizes, loopOffsets, loopSizes))) {
    return failure();
  }
  FailureOr<TilingResult> tile = getTiledImplementation(b, loopOffsets, loopSizes);
  if (failed(tile)) {
    return failure();
  }
  return TilingResult{tile->tiledOps, {tile->tiledValues[result]}, tile->generatedSlices};
}

//===----------------------------------------------------------------------===//
// Splitting the slots
//===----------------------------------------------------------------------===//

FailureOr<SmallVector<Value>>
OnlineAttentionOp::generateInitialTensorForPartialReduction(OpBuilder &b, Location loc, ArrayRef<OpFoldResult> sizes,
                                                            const llvm::SetVector<unsigned> &reductionDims) {
  if (!reductionDims.contains(slotsLoop)) {
    return failure();
  }
  Dims shape{sizes[slotsLoop]};
  llvm::append_range(shape, tensor::getMixedSizes(b, loc, getAcc()));
  SoftmaxState state = emptyState(b, loc, shape);
  return SmallVector<Value>{state.acc, state.max, state.sum};
}

/// The part whose state a tile continues. A sequential loop has one state, the first part.
static OpFoldResult partOf(OpBuilder &b, ReductionTilingStrategy strategy, ArrayRef<OpFoldResult> splitIvs) {
  return strategy == ReductionTilingStrategy::PartialReductionOuterParallel ? splitIvs[0]
                                                                            : OpFoldResult(b.getIndexAttr(0));
}

LogicalResult OnlineAttentionOp::getPartialResultTilePosition(
    OpBuilder &b, unsigned result, ReductionTilingStrategy strategy, ArrayRef<OpFoldResult> offsets,
    ArrayRef<OpFoldResult> sizes, const llvm::SetVector<unsigned> &, ArrayRef<OpFoldResult> splitReductionIvs,
    Dims &resultOffsets, Dims &resultSizes) {
  resultTile(b, *this, result, offsets, sizes, resultOffsets, resultSizes);
  resultOffsets.insert(resultOffsets.begin(), partOf(b, strategy, splitReductionIvs));
  resultSizes.insert(resultSizes.begin(), b.getIndexAttr(1));
  return success();
}

FailureOr<TilingResult> OnlineAttentionOp::tileToPartialReduction(OpBuilder &b, Location loc,
                                                                  ReductionTilingStrategy strategy, ValueRange init,
                                                                  ArrayRef<OpFoldResult> offsets,
                                                                  ArrayRef<OpFoldResult> sizes,
                                                                  const llvm::SetVector<unsigned> &reductionDims,
                                                                  ArrayRef<OpFoldResult> splitReductionIvs) {
  SmallVector<Operation *> slices;
  SmallVector<Value> state;
  for (auto [i, parts] : llvm::enumerate(init)) {
    Dims partOffsets, partSizes;
    if (failed(getPartialResultTilePosition(b, i, strategy, offsets, sizes, reductionDims, splitReductionIvs,
                                            partOffsets, partSizes))) {
      return failure();
    }
    SmallVector<int64_t> shape;
    SmallVector<Value> dynamic;
    dispatchIndexOpFoldResults(ArrayRef(partSizes).drop_front(), dynamic, shape);
    state.push_back(slice(b, loc, parts, partOffsets, partSizes, RankedTensorType::get(shape, b.getF32Type()), slices));
  }
  OnlineAttentionOp tile = createTile(b, *this, offsets, sizes, {state[0], state[1], state[2]}, slices);
  return TilingResult{{tile}, SmallVector<Value>(tile->getResults()), slices};
}

FailureOr<MergeResult> OnlineAttentionOp::mergeReductions(OpBuilder &b, Location loc, ValueRange partial,
                                                          const llvm::SetVector<unsigned> &) {
  SmallVector<Operation *> ops;
  SoftmaxState merged = mergeStates(b, loc, {getAcc(), getMax(), getSum()}, {partial[0], partial[1], partial[2]}, ops);
  return MergeResult{ops, {merged.acc, merged.max, merged.sum}};
}
