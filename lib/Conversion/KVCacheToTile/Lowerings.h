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
llvm::FailureOr<Replacements> lowerAttention(kvcache::AttentionOp op, mlir::ImplicitLocOpBuilder &host);
/// The stats result of attention, in a second pass over the keys with the log-sum-exp known (AttentionStats.cpp).
llvm::FailureOr<mlir::Value> lowerAttentionStats(kvcache::AttentionOp op, mlir::ImplicitLocOpBuilder &host,
                                                 tile::ScheduleAttr schedule, mlir::Value lse);

} // namespace kvc

#endif // KVC_LIB_CONVERSION_KVCACHETOTILE_LOWERINGS_H
