//===- VerifyHelpers.h - What the verifiers of the dialect share -*- C++ -*-===//
#ifndef KVC_LIB_DIALECT_KVCACHE_IR_VERIFYHELPERS_H
#define KVC_LIB_DIALECT_KVCACHE_IR_VERIFYHELPERS_H

#include "kvc/Dialect/KVCache/IR/KVCache.h"

namespace kvc::kvcache::op_detail {

/// `expects <what> <want>, but got <got>` at an op.
template <typename Want, typename Got>
mlir::InFlightDiagnostic emitExpected(mlir::Operation *op, const llvm::Twine &what, Want &&want, Got &&got) {
  return op->emitOpError() << "expects " << what << " " << want << ", but got " << got;
}

/// Tensor or memref; null for the placeholder of a method, which is checked once spliced.
inline mlir::ShapedType shapeOf(mlir::Type type) { return mlir::dyn_cast<mlir::ShapedType>(type); }

/// `type` is rows x heads x channels of that many heads and channels.
mlir::LogicalResult verifyRows(mlir::Operation *op, llvm::StringRef name, mlir::Type type, int64_t heads,
                               int64_t channels);
/// A whole number of query heads (1 to 128) for every KV head.
mlir::LogicalResult verifyQueryHeads(mlir::Operation *op, mlir::Type query, CacheType cache);
/// Query rows have the channels of a key.
mlir::LogicalResult verifyQueryChannels(mlir::Operation *op, mlir::Type query, CacheType cache);
/// Scores are entries x KV heads x units.
mlir::LogicalResult verifyScores(mlir::Operation *op, llvm::StringRef name, mlir::Type type, CacheType cache);
/// An integer attribute, where it is known, is at least `low`.
mlir::LogicalResult verifyAtLeast(mlir::Operation *op, llvm::StringRef name, mlir::Attribute attr, int64_t low);
/// A float attribute, where it is known, is a number of low .. high.
mlir::LogicalResult verifyBetween(mlir::Operation *op, llvm::StringRef name, mlir::Attribute attr, int64_t low,
                                  int64_t high);
/// Two static dimensions are the same.
mlir::LogicalResult verifySameDim(mlir::Operation *op, const llvm::Twine &what, int64_t want, int64_t got);
/// A rotation touches at most `channels` channels.
mlir::LogicalResult verifyRopeDims(mlir::Operation *op, RopeAttr rope, int64_t channels);
/// Slots can move one by one: no scale is shared between them, and they are not reused in a ring.
mlir::LogicalResult verifyMovable(mlir::Operation *op, CacheType cache);
/// No slot is reused.
mlir::LogicalResult verifyNoRing(mlir::Operation *op, CacheType cache);
/// A scale is a finite number other than zero.
mlir::LogicalResult verifyScale(mlir::Operation *op, llvm::APFloat scale);
/// The contract of score regions (docs/spec/score_region.md).
mlir::LogicalResult verifyScoreRegion(mlir::Operation *op, mlir::Region &region, mlir::OperandRange captures);

} // namespace kvc::kvcache::op_detail

#endif // KVC_LIB_DIALECT_KVCACHE_IR_VERIFYHELPERS_H
