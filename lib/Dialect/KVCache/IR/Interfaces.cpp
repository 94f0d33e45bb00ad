//===- Interfaces.cpp - Effects and shapes of the kvcache dialect --------===//
#include "kvc/Dialect/KVCache/IR/KVCache.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace kvc::kvcache;

//===----------------------------------------------------------------------===//
// Effects
//===----------------------------------------------------------------------===//

OpOperand *op_detail::getUpdatedCache(Operation *op) {
  return TypeSwitch<Operation *, OpOperand *>(op)
      .Case<AppendOp, CompactOp, EvictOp, RebaseOp, AccumulateOp, SealOp, ForkOp, TruncateOp, ImportOp, AttendOp,
            MergeSlotsOp, CommitOp, FetchOp>([](auto update) { return &update.getCacheMutable(); })
      .Default([](Operation *) { return nullptr; });
}

static bool isMemory(Type type) { return isa<MemoryType, BaseMemRefType>(type); }

void op_detail::getValueOpEffects(Operation *op,
                                  SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &effects) {
  OpOperand *updated = getUpdatedCache(op);
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isMemory(operand.get().getType())) {
      continue;
    }
    effects.emplace_back(MemoryEffects::Read::get(), &operand);
    if (&operand == updated) {
      effects.emplace_back(MemoryEffects::Write::get(), &operand);
    }
  }
  for (OpResult result : op->getOpResults()) {
    // The result of an update is the memory of its operand.
    bool alias = updated && isa<MemoryType>(result.getType());
    if (isMemory(result.getType()) && !alias) {
      effects.emplace_back(MemoryEffects::Allocate::get(), result);
      effects.emplace_back(MemoryEffects::Write::get(), result);
    }
  }
}

Speculation::Speculatability op_detail::getValueOpSpeculatability(Operation *op) {
  bool values = llvm::none_of(op->getOperandTypes(), isMemory) && llvm::none_of(op->getResultTypes(), isMemory);
  return values ? Speculation::Speculatable : Speculation::NotSpeculatable;
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

using Dims = SmallVector<OpFoldResult>;

/// The sizes of a tensor; fails for memory and for placeholders of a method.
static FailureOr<Dims> sizesOf(OpBuilder &b, Value value) {
  if (!isa<RankedTensorType>(value.getType())) {
    return failure();
  }
  return tensor::getMixedSizes(b, value.getLoc(), value);
}

/// The shape of one operand is that of the only result.
static LogicalResult reifyAs(OpBuilder &b, Value operand, ReifiedRankedShapedTypeDims &shapes) {
  FailureOr<Dims> sizes = sizesOf(b, operand);
  if (failed(sizes)) {
    return failure();
  }
  shapes.push_back(*sizes);
  return success();
}

LogicalResult RopeOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &shapes) {
  return reifyAs(b, getInput(), shapes);
}

LogicalResult PoolOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &shapes) {
  return reifyAs(b, getInput(), shapes);
}

LogicalResult MapScoresOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &shapes) {
  return reifyAs(b, getInputs()[0], shapes);
}

LogicalResult MergeStatesOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &shapes) {
  return success(succeeded(reifyAs(b, getStates()[0], shapes)) && succeeded(reifyAs(b, getStates()[1], shapes)));
}

LogicalResult OnlineAttentionOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &shapes) {
  return success(succeeded(reifyAs(b, getAcc(), shapes)) && succeeded(reifyAs(b, getMax(), shapes)) &&
                 succeeded(reifyAs(b, getSum(), shapes)));
}

LogicalResult AttentionOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &shapes) {
  FailureOr<Dims> query = sizesOf(b, getQuery());
  CacheType cache = getCacheType(getCaches()[0].getType());
  if (failed(query) || !cache) {
    return failure();
  }
  for (AttentionResult kind : getReturnKinds()) {
    switch (kind) {
    case AttentionResult::Out:
      shapes.push_back({(*query)[0], (*query)[1], b.getIndexAttr(cache.getVDim())});
      break;
    case AttentionResult::Lse:
      shapes.push_back({(*query)[0], (*query)[1]});
      break;
    case AttentionResult::Stats:
      shapes.push_back({BatchEntriesOp::create(b, getLoc(), getBatch()).getResult(), b.getIndexAttr(cache.getHeads()),
                        BatchMaxLengthOp::create(b, getLoc(), getCaches()[0], getBatch()).getResult()});
      break;
    }
  }
  return success();
}

LogicalResult AttendOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &shapes) {
  FailureOr<Dims> query = sizesOf(b, getQuery());
  CacheType cache = getCacheType(getCache().getType());
  if (failed(query) || !cache) {
    return failure();
  }
  shapes.push_back({(*query)[0], (*query)[1], b.getIndexAttr(cache.getVDim())});
  shapes.emplace_back(); // the cache has no shape
  return success();
}

LogicalResult ScoreOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &shapes) {
  CacheType cache = getCacheType(getCache().getType());
  if (!cache) {
    return failure();
  }
  Value units = BatchMaxLengthOp::create(b, getLoc(), getCache(), getBatch());
  if (getKind() == ScoreKind::Bound || getKind() == ScoreKind::Mean) {
    Value page = arith::ConstantIndexOp::create(b, getLoc(), cache.getPage());
    units = arith::CeilDivUIOp::create(b, getLoc(), units, page);
  }
  shapes.push_back({BatchEntriesOp::create(b, getLoc(), getBatch()).getResult(), b.getIndexAttr(cache.getHeads()),
                    OpFoldResult(units)});
  return success();
}

LogicalResult ExportOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &shapes) {
  CacheType cache = getCacheType(getCache().getType());
  if (!cache) {
    return failure();
  }
  OpFoldResult entries = BatchEntriesOp::create(b, getLoc(), getBatch()).getResult();
  OpFoldResult slots = BatchMaxLengthOp::create(b, getLoc(), getCache(), getBatch()).getResult();
  OpFoldResult heads = b.getIndexAttr(cache.getHeads()), channels = b.getIndexAttr(cache.getDim(getPlane()));
  bool slotsFirst = getLayout() == DenseLayout::NHD;
  shapes.push_back({entries, slotsFirst ? slots : heads, slotsFirst ? heads : slots, channels});
  return success();
}
