//===- SoftmaxState.h - Building the state of online attention --*- C++ -*-===//
//
// The state of a row and head is (acc, max, sum) with acc = sum_j exp(s_j - max) v_j and sum = sum_j exp(s_j - max)
// over the keys j seen so far; (0, -inf, 0) when there was none.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_LIB_DIALECT_KVCACHE_IR_SOFTMAXSTATE_H
#define KVC_LIB_DIALECT_KVCACHE_IR_SOFTMAXSTATE_H

#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/TilingInterface.h"

namespace kvc::kvcache::op_detail {

struct SoftmaxState {
  mlir::Value acc, max, sum;
};

/// A tensor of that shape filled with one value.
mlir::Value filled(mlir::OpBuilder &b, mlir::Location loc, llvm::ArrayRef<mlir::OpFoldResult> sizes, float value);

/// The state that has seen nothing. `sizes`: the shape of acc (its last dimension is the channels).
SoftmaxState emptyState(mlir::OpBuilder &b, mlir::Location loc, llvm::ArrayRef<mlir::OpFoldResult> sizes);

/// `state` merged with the partial states along the first dimension of `partial`. Appends the ops made to `ops`.
SoftmaxState mergeStates(mlir::OpBuilder &b, mlir::Location loc, const SoftmaxState &state, const SoftmaxState &partial,
                         llvm::SmallVectorImpl<mlir::Operation *> &ops);

/// `state` with the sink logit of each head in its sum: a key without a value that does not count as seen.
SoftmaxState joinSinks(mlir::OpBuilder &b, mlir::Location loc, const SoftmaxState &state, mlir::Value logits);

/// acc / sum, 0 where sum = 0.
mlir::Value finishOut(mlir::OpBuilder &b, mlir::Location loc, const SoftmaxState &state);
/// max + log(sum), -inf where sum = 0.
mlir::Value finishLse(mlir::OpBuilder &b, mlir::Location loc, const SoftmaxState &state);

} // namespace kvc::kvcache::op_detail

#endif // KVC_LIB_DIALECT_KVCACHE_IR_SOFTMAXSTATE_H
