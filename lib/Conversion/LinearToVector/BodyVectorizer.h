//===- BodyVectorizer.h - Element-wise code on vectors ----------*- C++ -*-===//
//
// Emits the operations of a block, written for one element, for `lanes` neighbours along one dimension.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_LIB_CONVERSION_LINEARTOVECTOR_BODYVECTORIZER_H
#define KVC_LIB_CONVERSION_LINEARTOVECTOR_BODYVECTORIZER_H

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace kvc {

class BodyVectorizer {
public:
  explicit BodyVectorizer(int64_t lanes) : lanes(lanes) {}

  /// Values inside the block that differ from element to element. `induction` (an index, may be null) counts the
  /// elements.
  void setInduction(mlir::Value value) { induction = value, varying.insert(value); }
  void addVarying(mlir::Value value) { varying.insert(value); }

  /// Classifies the operations of the block; ops in `skip` are left out. Fails at an op that has no form on vectors,
  /// and sets `offender`.
  llvm::LogicalResult analyze(mlir::Block &block, llvm::ArrayRef<mlir::Operation *> skip = {});
  mlir::Operation *offender = nullptr;

  /// Emits what is the same for all elements. Values of the block that it uses must be mapped in `uniform`.
  void emitUniform(mlir::OpBuilder &b, mlir::IRMapping &uniform) const;

  /// Emits what differs, for elements base .. base + lanes - 1. `mask` (null: all) says which exist. `vectors` maps
  /// varying block arguments to vectors; it gets all varying results.
  void emitVarying(mlir::ImplicitLocOpBuilder &b, const mlir::IRMapping &uniform, mlir::IRMapping &vectors,
                   mlir::Value base, mlir::Value mask) const;

  /// A value as a vector: its vector, or the uniform value in every lane.
  mlir::Value vectorOf(mlir::ImplicitLocOpBuilder &b, const mlir::IRMapping &uniform, mlir::IRMapping &vectors,
                       mlir::Value value, mlir::Value base) const;

  bool isVarying(mlir::Value value) const { return varying.contains(value); }

private:
  int64_t lanes;
  mlir::Value induction;
  llvm::DenseSet<mlir::Value> varying;
  llvm::SmallVector<mlir::Operation *> uniformOps, varyingOps;
};

/// Loads (mask null: all) lanes of a row.
mlir::Value loadLanes(mlir::ImplicitLocOpBuilder &b, mlir::Value memref, mlir::ValueRange indices, int64_t lanes,
                      mlir::Value mask);
void storeLanes(mlir::ImplicitLocOpBuilder &b, mlir::Value vector, mlir::Value memref, mlir::ValueRange indices,
                mlir::Value mask);
/// Lanes below `count`.
mlir::Value firstLanes(mlir::ImplicitLocOpBuilder &b, int64_t lanes, mlir::Value count);
/// Neighbours along the last dimension are neighbours in memory.
bool hasUnitStride(mlir::Value memref);

} // namespace kvc

#endif // KVC_LIB_CONVERSION_LINEARTOVECTOR_BODYVECTORIZER_H
