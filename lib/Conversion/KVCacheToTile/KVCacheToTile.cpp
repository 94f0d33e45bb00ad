//===- KVCacheToTile.cpp - kvcache operations become kernels --------------===//
#include "Lowerings.h"

#include "kvc/Conversion/Passes.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/TypeSwitch.h"

namespace kvc {
#define GEN_PASS_DEF_CONVERTKVCACHETOTILEPASS
#include "kvc/Conversion/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;

namespace {
struct ConvertKVCacheToTilePass : kvc::impl::ConvertKVCacheToTilePassBase<ConvertKVCacheToTilePass> {
  void runOnOperation() override {
    if (getOperation().walk(refuseCaches).wasInterrupted()) {
      return signalPassFailure();
    }
    SmallVector<Operation *> ops;
    getOperation().walk([&](Operation *op) {
      auto function = op->getParentOfType<func::FuncOp>();
      // Ops inside a score region go with their attention.
      if (isa_and_nonnull<KVCacheDialect>(op->getDialect()) && function && op->getParentOp() == function) {
        ops.push_back(op);
      }
    });
    for (Operation *op : ops) {
      ImplicitLocOpBuilder host(op->getLoc(), op);
      FailureOr<Replacements> values = lower(op, host);
      if (failed(values)) {
        return signalPassFailure();
      }
      if (values->empty()) {
        continue;
      }
      op->replaceAllUsesWith(*values);
      op->erase();
    }
  }

  /// Caches with a field that no lowering carries out, and operations on memory.
  static WalkResult refuseCaches(Operation *op) {
    auto refused = [&](Type type) {
      if (isa<MemoryType>(type)) {
        op->emitOpError()
            << "has no lowering yet for a cache in memory, as bufferisation makes it: expects the value of type "
            << cast<MemoryType>(type).getCache() << ", but got " << type;
        return true;
      }
      CacheType cache = getCacheType(type);
      if (!cache || cache.getUnsupportedField().empty()) {
        return false;
      }
      op->emitOpError() << "has no lowering yet for a cache with " << cache.getUnsupportedField() << ": " << cache;
      return true;
    };
    bool any = llvm::any_of(op->getResultTypes(), refused);
    for (Region &region : op->getRegions()) {
      any = any || (!region.empty() && llvm::any_of(region.front().getArgumentTypes(), refused));
    }
    return any ? WalkResult::interrupt() : WalkResult::advance();
  }

  static FailureOr<Replacements> one(Value value) { return Replacements{value}; }

  /// The values for the op's results; none for an op that stays in the plan.
  static FailureOr<Replacements> lower(Operation *op, ImplicitLocOpBuilder &host) {
    return llvm::TypeSwitch<Operation *, FailureOr<Replacements>>(op)
        .Case([&](RopeOp op) { return lowerRope(op, host); })
        .Case([&](AppendOp op) { return lowerAppend(op, host); })
        .Case([&](ImportOp op) { return lowerImport(op, host); })
        .Case([&](RequantizeOp op) { return lowerRequantize(op, host); })
        .Case([&](SealOp op) { return lowerSeal(op, host); })
        .Case([&](TruncateOp op) { return lowerTruncate(op, host); })
        .Case([&](CompactOp op) { return lowerCompact(op, host); })
        .Case([&](EvictOp op) { return lowerEvict(op, host); })
        .Case([&](RebaseOp op) { return lowerRebase(op, host); })
        .Case([&](AccumulateOp op) { return lowerAccumulate(op, host); })
        .Case([&](ScoreOp op) { return lowerScore(op, host); })
        .Case([&](PoolOp op) { return lowerPool(op, host); })
        .Case([&](TopKOp op) { return lowerTopK(op, host); })
        .Case([&](ThresholdOp op) { return lowerThreshold(op, host); })
        .Case([&](ExportOp op) { return lowerExport(op, host); })
        .Case([&](MergeStatesOp op) { return lowerMergeStates(op, host); })
        .Case([&](AttentionOp op) { return lowerAttention(op, host); })
        .Case([&](BatchEntriesOp op) { return one(tile::EntriesOp::create(host, op.getBatch())); })
        .Case([&](BatchMaxLengthOp op) { return one(tile::MaxLengthOp::create(host, op.getCache(), op.getBatch())); })
        .Case([&](WeightOp) { return Replacements(); })
        .Case([&](ForkOp) { return Replacements(); })
        .Default([](Operation *op) -> FailureOr<Replacements> {
          return op->emitOpError()
                 << "has no lowering yet: it parses and the reference runs it, but no kernel can be made";
        });
  }
};
} // namespace
