//===- Decompose.cpp - attention in terms of online_attention ------------===//
#include "SoftmaxState.h"
#include "kvc/Dialect/KVCache/IR/KVCache.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace kvc::kvcache;
using namespace kvc::kvcache::op_detail;

FailureOr<SmallVector<Value>> AttentionOp::decomposeOperation(OpBuilder &b) {
  auto query = dyn_cast<RankedTensorType>(getQuery().getType());
  if (!query || !llvm::all_of(getCaches().getTypes(), llvm::IsaPred<CacheType>)) {
    emitRemark() << "expects tensors and caches to decompose, but got " << getOperandTypes();
    return failure();
  }
  if (getStats()) {
    emitRemark() << "expects no stats to decompose, as a state does not carry them, but got returns "
                 << getReturnsAttr();
    return failure();
  }
  Location loc = getLoc();
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, getQuery());
  sizes.back() = b.getIndexAttr(cast<CacheType>(getCaches()[0].getType()).getVDim());
  SoftmaxState state = emptyState(b, loc, sizes);
  Value zero = arith::ConstantIndexOp::create(b, loc, 0);
  for (auto [i, cache] : llvm::enumerate(getCaches())) {
    Value end = BatchMaxLengthOp::create(b, loc, cache, getBatch());
    bool last = i + 1 == getCaches().size();
    // The rows of this step are slots of the last segment.
    auto online = OnlineAttentionOp::create(
        b, loc, TypeRange{state.acc.getType(), state.max.getType(), state.sum.getType()}, getQuery(), cache, zero, end,
        getBatch(), state.acc, state.max, state.sum, getSelectionOf(i), last ? getTreeMask() : Value(),
        /*row_offset=*/Value(), /*head_offset=*/Value(), getCaptures(), getScaleAttr(), getCausalAttr(),
        getWindowAttr(), getSinksAttr(), /*group=*/IntegerAttr());
    IRMapping mapping;
    getScore().cloneInto(&online.getScore(), mapping);
    state = {online.getNewAcc(), online.getNewMax(), online.getNewSum()};
  }
  // A row that sees no key gives nothing, sink or not: so the sinks join last.
  if (Value logits = getSinkLogits()) {
    state = joinSinks(b, loc, state, logits);
  }
  SmallVector<Value> results;
  for (AttentionResult kind : getReturnKinds()) {
    results.push_back(kind == AttentionResult::Out ? finishOut(b, loc, state) : finishLse(b, loc, state));
  }
  return results;
}
