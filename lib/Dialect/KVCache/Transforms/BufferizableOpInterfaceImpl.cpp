//===- BufferizableOpInterfaceImpl.cpp - Caches in one-shot bufferisation ===//
//
// docs/spec/bufferization.md says what becomes of what.
//
//===----------------------------------------------------------------------===//
#include "kvc/Dialect/KVCache/IR/KVCache.h"
#include "kvc/Dialect/KVCache/Transforms/Passes.h"

#include "mlir/Dialect/Bufferization/IR/BufferizableOpInterface.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace mlir::bufferization;
using namespace kvc::kvcache;

namespace {

struct CacheTensorLike : TensorLikeType::ExternalModel<CacheTensorLike, CacheType> {
  FailureOr<BufferLikeType> getBufferType(Type type, const BufferizationOptions &,
                                          llvm::function_ref<InFlightDiagnostic()>) const {
    return cast<BufferLikeType>(MemoryType::get(type.getContext(), cast<CacheType>(type)));
  }
  LogicalResult verifyCompatibleBufferType(Type type, BufferLikeType buffer,
                                           llvm::function_ref<InFlightDiagnostic()> emitError) const {
    auto memory = dyn_cast<MemoryType>(buffer);
    if (!memory || memory.getCache() != type) {
      return emitError() << "expects the memory of " << type << ", but got " << buffer;
    }
    return success();
  }
};

struct MemoryBufferLike : BufferLikeType::ExternalModel<MemoryBufferLike, MemoryType> {};

/// The result that is the memory of the updated operand; null when the op updates nothing.
OpResult aliasingResult(Operation *op) {
  if (op_detail::getUpdatedCache(op)) {
    for (OpResult result : op->getResults()) {
      if (isa<CacheType>(result.getType())) {
        return result;
      }
    }
  }
  return {};
}

/// Whether the memory of a value is the function's own: made by an op of the dialect, or an argument marked as
/// writable.
bool isOwned(Value value) {
  if (auto result = dyn_cast<OpResult>(value)) {
    return isa<KVCacheDialect>(result.getOwner()->getDialect());
  }
  auto argument = cast<BlockArgument>(value);
  auto function = dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
  if (!function || !argument.getOwner()->isEntryBlock()) {
    return false;
  }
  auto writable = function.getArgAttrOfType<BoolAttr>(argument.getArgNumber(), BufferizationDialect::kWritableAttrName);
  return writable && writable.getValue();
}

/// Whether an op may change a cache in place: nobody looks at the old value afterwards. The analysis of one-shot
/// bufferisation looks at builtin tensors only, so the rule is here: all other uses come before, in the same block.
bool mayUpdateInPlace(OpOperand &updated) {
  Value value = updated.get();
  Operation *op = updated.getOwner();
  if (!isOwned(value) || value.getParentBlock() != op->getBlock()) {
    return false;
  }
  return llvm::all_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = op->getBlock()->findAncestorOpInBlock(*use.getOwner());
    return &use == &updated || (user && user->isBeforeInBlock(op));
  });
}

/// A strided memref type that every memref of that shape can be cast to.
MemRefType anyLayout(RankedTensorType type) { return cast<MemRefType>(getMemRefTypeWithFullyDynamicLayout(type)); }

/// The type of a result in memory.
BufferLikeType resultType(OpResult result) {
  Type type = result.getType();
  if (auto cache = dyn_cast<CacheType>(type)) {
    return cast<BufferLikeType>(MemoryType::get(type.getContext(), cache));
  }
  auto tensor = cast<RankedTensorType>(type);
  // Where operands and results have one type, their layouts have to agree too.
  if (isa<RopeOp, PoolOp, MapScoresOp, MergeStatesOp>(result.getOwner())) {
    return cast<BufferLikeType>(Type(anyLayout(tensor)));
  }
  return cast<BufferLikeType>(Type(getMemRefTypeWithStaticIdentityLayout(tensor)));
}

template <typename OpTy> struct CacheOpModel : BufferizableOpInterface::ExternalModel<CacheOpModel<OpTy>, OpTy> {
  bool bufferizesToAllocation(Operation *op, Value value) const { return value != aliasingResult(op); }

  bool bufferizesToMemoryRead(Operation *, OpOperand &, const AnalysisState &) const { return true; }

  bool bufferizesToMemoryWrite(Operation *op, OpOperand &operand, const AnalysisState &) const {
    return &operand == op_detail::getUpdatedCache(op);
  }

  AliasingValueList getAliasingValues(Operation *op, OpOperand &operand, const AnalysisState &) const {
    if (&operand != op_detail::getUpdatedCache(op)) {
      return {};
    }
    return {{aliasingResult(op), BufferRelation::Equivalent}};
  }

  AliasingOpOperandList getAliasingOpOperands(Operation *op, Value value, const AnalysisState &) const {
    if (value != aliasingResult(op)) {
      return {};
    }
    return {{op_detail::getUpdatedCache(op), BufferRelation::Equivalent}};
  }

  /// A cache that may not be updated in place is copied first.
  LogicalResult resolveConflicts(Operation *op, RewriterBase &rewriter, const AnalysisState &,
                                 const BufferizationState &) const {
    OpOperand *updated = op_detail::getUpdatedCache(op);
    if (!updated || mayUpdateInPlace(*updated)) {
      return success();
    }
    rewriter.setInsertionPoint(op);
    Value copy = CopyOp::create(rewriter, op->getLoc(), updated->get().getType(), updated->get());
    rewriter.modifyOpInPlace(op, [&] { updated->set(copy); });
    return success();
  }

  FailureOr<BufferLikeType> getBufferType(Operation *, Value value, const BufferizationOptions &,
                                          const BufferizationState &, SmallVector<Value> &) const {
    return resultType(cast<OpResult>(value));
  }

  LogicalResult bufferize(Operation *op, RewriterBase &rewriter, const BufferizationOptions &options,
                          BufferizationState &state) const {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      if (!isa<TensorLikeType>(operand.getType())) {
        operands.push_back(operand);
        continue;
      }
      FailureOr<Value> buffer = getBuffer(rewriter, operand, options, state);
      if (failed(buffer)) {
        return failure();
      }
      auto tensor = dyn_cast<RankedTensorType>(operand.getType());
      if (isa<RopeOp, PoolOp, MapScoresOp, MergeStatesOp>(op) && tensor && buffer->getType() != anyLayout(tensor)) {
        buffer = memref::CastOp::create(rewriter, op->getLoc(), anyLayout(tensor), *buffer).getResult();
      }
      operands.push_back(*buffer);
    }
    SmallVector<Type> types;
    for (OpResult result : op->getResults()) {
      types.push_back(isa<TensorLikeType>(result.getType()) ? Type(resultType(result)) : result.getType());
    }
    Operation *inMemory =
        Operation::create(op->getLoc(), op->getName(), types, operands, op->getDiscardableAttrDictionary(),
                          op->getPropertiesStorage(), BlockRange(), op->getNumRegions());
    for (auto [from, to] : llvm::zip(op->getRegions(), inMemory->getRegions())) {
      to.takeBody(from);
    }
    rewriter.insert(inMemory);
    replaceOpWithBufferizedValues(rewriter, op, inMemory->getResults());
    return success();
  }
};

template <typename... OpTys> void attachModels(MLIRContext *context) {
  (OpTys::template attachInterface<CacheOpModel<OpTys>>(*context), ...);
}

} // namespace

void kvc::kvcache::registerBufferizableOpInterfaceModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, KVCacheDialect *) {
    CacheType::attachInterface<CacheTensorLike>(*context);
    MemoryType::attachInterface<MemoryBufferLike>(*context);
    attachModels<RopeOp, BatchMaxLengthOp, AppendOp, CompactOp, EvictOp, RebaseOp, AccumulateOp, SealOp, RequantizeOp,
                 CopyOp, ForkOp, TruncateOp, AttentionOp, ScoreOp, PoolOp, TopKOp, MergeStatesOp, ExportOp, ImportOp,
                 MergeSlotsOp, CommitOp, FetchOp, ThresholdOp, MapScoresOp>(context);
    // The ops and types that bufferisation makes.
    context->loadDialect<bufferization::BufferizationDialect, memref::MemRefDialect>();
  });
}
