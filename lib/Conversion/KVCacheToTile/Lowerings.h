//===- Lowerings.h - One function per kvcache operation ---------*- C++ -*-===//
//
// Each lowering inserts kernels and dispatches before its op and returns the values that replace the op's results.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_LIB_CONVERSION_KVCACHETOTILE_LOWERINGS_H
#define KVC_LIB_CONVERSION_KVCACHETOTILE_LOWERINGS_H

#include "KernelBuilder.h"

namespace kvc {

using Replacements = llvm::SmallVector<mlir::Value, 3>;

llvm::FailureOr<Replacements> lowerRope(kvcache::RopeOp op, mlir::ImplicitLocOpBuilder &host);
llvm::FailureOr<Replacements> lowerAppend(kvcache::AppendOp op, mlir::ImplicitLocOpBuilder &host);
llvm::FailureOr<Replacements> lowerImport(kvcache::ImportOp op, mlir::ImplicitLocOpBuilder &host);
llvm::FailureOr<Replacements> lowerRequantize(kvcache::RequantizeOp op, mlir::ImplicitLocOpBuilder &host);
llvm::FailureOr<Replacements> lowerSeal(kvcache::SealOp op, mlir::ImplicitLocOpBuilder &host);
llvm::FailureOr<Replacements> lowerTruncate(kvcache::TruncateOp op, mlir::ImplicitLocOpBuilder &host);
llvm::FailureOr<Replacements> lowerCompact(kvcache::CompactOp op, mlir::ImplicitLocOpBuilder &host);
llvm::FailureOr<Replacements> lowerEvict(kvcache::EvictOp op, mlir::ImplicitLocOpBuilder &host);
llvm::FailureOr<Replacements> lowerRebase(kvcache::RebaseOp op, mlir::ImplicitLocOpBuilder &host);
llvm::FailureOr<Replacements> lowerAccumulate(kvcache::AccumulateOp op, mlir::ImplicitLocOpBuilder &host);
llvm::FailureOr<Replacements> lowerScore(kvcache::ScoreOp op, mlir::ImplicitLocOpBuilder &host);
llvm::FailureOr<Replacements> lowerPool(kvcache::PoolOp op, mlir::ImplicitLocOpBuilder &host);
llvm::FailureOr<Replacements> lowerTopK(kvcache::TopKOp op, mlir::ImplicitLocOpBuilder &host);
llvm::FailureOr<Replacements> lowerThreshold(kvcache::ThresholdOp op, mlir::ImplicitLocOpBuilder &host);
llvm::FailureOr<Replacements> lowerExport(kvcache::ExportOp op, mlir::ImplicitLocOpBuilder &host);
llvm::FailureOr<Replacements> lowerMergeStates(kvcache::MergeStatesOp op, mlir::ImplicitLocOpBuilder &host);
llvm::FailureOr<Replacements> lowerAttention(kvcache::AttentionOp op, mlir::ImplicitLocOpBuilder &host);
/// The stats result of attention, in a second pass over the keys with the log-sum-exp known (AttentionStats.cpp).
llvm::FailureOr<mlir::Value> lowerAttentionStats(kvcache::AttentionOp op, mlir::ImplicitLocOpBuilder &host,
                                                 tile::ScheduleAttr schedule, mlir::Value lse);

/// How many slots or pages topk keeps: `k` in all, of them the `first` first and the `last` last.
struct TopK {
  int64_t k, first, last;
};
/// A selection by scores [entries, KV heads, slots or pages].
mlir::Value createTopK(mlir::ImplicitLocOpBuilder &host, kvcache::Unit unit, mlir::Value scores, mlir::Value cache,
                       mlir::Value batch, const TopK &keep);

} // namespace kvc

#endif // KVC_LIB_CONVERSION_KVCACHETOTILE_LOWERINGS_H
