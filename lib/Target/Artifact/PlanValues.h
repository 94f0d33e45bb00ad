//===- PlanValues.h - Values and numbers of a plan --------------*- C++ -*-===//
#ifndef KVC_LIB_TARGET_ARTIFACT_PLANVALUES_H
#define KVC_LIB_TARGET_ARTIFACT_PLANVALUES_H

#include "Plan.h"
#include "llvm/ADT/MapVector.h"

namespace kvc::plan {

/// What the operations of a host function are about, in the words of a plan: values, and expressions of sizes that the
/// runtime evaluates when a step uses them. Functions that fail have reported it.
class Values {
protected:
  Values(mlir::func::FuncOp function, Tables &tables) : function(function), tables(tables) {}

  //===--------------------------------------------------------------------===//
  // Values
  //===--------------------------------------------------------------------===//

  uint32_t add(Value value);
  llvm::LogicalResult addArgument(mlir::BlockArgument argument);
  /// The result of an op that is bytes of `source` from node `offset` on (-1: from the first).
  llvm::FailureOr<uint32_t> addView(mlir::Operation *op, mlir::Value source, int32_t offset);
  /// The value that stands for `v`; numbers become scalars.
  llvm::FailureOr<uint32_t> valueOf(mlir::Operation *user, mlir::Value v);
  /// Dimensions of a tensor; `sizes` are the nodes of the dynamic ones (-1: given by the caller).
  static std::vector<Dim> dimsOf(mlir::ShapedType type, llvm::ArrayRef<int32_t> sizes);
  static std::string text(mlir::Type type);
  /// Whether the host sees the elements of a tensor value when it plans.
  bool isVisible(uint32_t value) const;
  /// Root of a tensor value, or the value itself.
  uint32_t rootOf(uint32_t value) const;

  //===--------------------------------------------------------------------===//
  // Expressions
  //===--------------------------------------------------------------------===//

  int32_t node(fb::ExprOp op, int32_t a, int32_t b, int64_t value = 0);
  int32_t constant(int64_t value) { return node(fb::ExprOp::constant, -1, -1, value); }
  llvm::FailureOr<int32_t> dim(mlir::Value tensor, int64_t axis);
  llvm::FailureOr<int32_t> exprOf(mlir::Operation *user, mlir::OpFoldResult value);
  llvm::FailureOr<int32_t> exprOf(mlir::Operation *user, mlir::Value value);
  /// Moments on which a number depends: max_length nodes, by the node that uses them.
  void collectMoments(int32_t root, llvm::SmallVectorImpl<int32_t> &moments);
  /// The runtime evaluates a node when a step uses it: until then its cache must live, as it was when the op asked.
  llvm::LogicalResult checkMoments(mlir::Operation *op, int32_t root, bool isUse = false);

  mlir::func::FuncOp function;
  Tables &tables;
  Function out;
  llvm::DenseMap<mlir::Value, uint32_t> values;
  llvm::DenseMap<mlir::Value, int32_t> exprs;
  /// Steps that were there when a max_length was asked for, and when a cache was last changed.
  llvm::DenseMap<int32_t, size_t> momentOf;
  llvm::DenseMap<uint32_t, size_t> lastUpdate;
  llvm::MapVector<uint32_t, size_t> lastUse;
  /// Values whose memory and sizes are fixed, since a step used them.
  llvm::DenseSet<uint32_t> bound;

private:
  /// Node of a dynamic dimension of the result of a view.
  llvm::FailureOr<int32_t> sizeOfView(mlir::Operation *op, int64_t axis);
};

} // namespace kvc::plan

#endif // KVC_LIB_TARGET_ARTIFACT_PLANVALUES_H
