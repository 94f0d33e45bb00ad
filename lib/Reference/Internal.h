//===- Internal.h - The parts of the evaluator ------------------*- C++ -*-===//
//
// One function for each group of operations. Each answers an operation of its group, or says that it knows it not.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_LIB_REFERENCE_INTERNAL_H
#define KVC_LIB_REFERENCE_INTERNAL_H

#include "kvc/Reference/Reference.h"

namespace kvc::reference {

using Operands = llvm::ArrayRef<Datum>;
using Results = llvm::SmallVectorImpl<Datum>;

mlir::LogicalResult evalArith(mlir::Operation *op, Operands operands, Results &results);
mlir::LogicalResult evalTensor(Evaluator &evaluator, mlir::Operation *op, Operands operands, Results &results);
mlir::LogicalResult evalLinalg(Evaluator &evaluator, mlir::Operation *op, Operands operands, Results &results);
/// Operations that write caches.
mlir::LogicalResult evalCache(Evaluator &evaluator, mlir::Operation *op, Operands operands, Results &results);
/// Operations that read caches: attention, scores, selections.
mlir::LogicalResult evalAttention(Evaluator &evaluator, mlir::Operation *op, Operands operands, Results &results);

/// The error for an operation that no part answers.
mlir::LogicalResult unknownOperation(mlir::Operation *op);

/// Checks a datum against a type: kind, shape, cache type. `what` names it in the error.
mlir::LogicalResult checkDatum(llvm::function_ref<mlir::InFlightDiagnostic()> emitError, const llvm::Twine &what,
                               mlir::Type type, const Datum &datum);
/// Checks that a tensor of that many elements may be made.
mlir::LogicalResult checkSize(Evaluator &evaluator, mlir::Operation *op, llvm::ArrayRef<int64_t> shape);

/// Checks a batch by itself and against what it indexes (-1: unknown).
mlir::LogicalResult checkBatch(llvm::function_ref<mlir::InFlightDiagnostic()> emitError, const Batch &batch,
                               int64_t rows, int64_t sequences);
/// Checks the batch of an operation against rows of a tensor operand (null: none) and a cache operand (null: none).
mlir::LogicalResult checkBatch(mlir::Operation *op, const Batch &batch, const Tensor *rows, const Cache *cache);

/// Rotates the head `x` as at `position` (which may be negative).
void rotate(kvcache::RopeAttr rope, llvm::MutableArrayRef<double> x, double position);
/// The key of a slot as attention sees it: rotated when the cache rotates on load.
llvm::SmallVector<double> loadKey(const Cache &cache, const Table &table, int64_t slot, int64_t headInTable);

/// Operations on scores alone, and selections by a threshold.
mlir::LogicalResult evalScores(Evaluator &evaluator, mlir::Operation *op, Operands operands, Results &results);

/// Slots or pages that scores and selections of the table with that KV head speak of. Of a cache with a tail only pages
/// with sealed slots count: attention over selected pages sees all of the tail.
int64_t unitsOf(const Cache &cache, kvcache::Unit unit, int64_t sequence, int64_t head);
/// Checks a selection against the batch and the cache it selects from: lists that ascend, inside the tables.
mlir::LogicalResult checkSelection(mlir::Operation *op, const Selection &selection, const Batch &batch,
                                   const Cache &cache);
/// Checks scores (entries x KV heads x slots or pages): at least as many as every table has.
mlir::LogicalResult checkScores(mlir::Operation *op, const Tensor &scores, const Batch &batch, const Cache &cache,
                                kvcache::Unit unit);
/// The `first` first, the `last` last and, of the others, the highest scored (the earlier on a tie), `count` in all,
/// ascending; all when there are no more. NaN is lowest.
llvm::SmallVector<int64_t> highest(llvm::ArrayRef<double> scores, int64_t count, int64_t first, int64_t last);

/// A value narrowed to the width of its type: f16 and narrower are rounded, integers wrapped. f32 stays double.
double narrowFloat(mlir::Type type, double value);
int64_t narrowInt(mlir::Type type, int64_t value);
/// A scalar element of a tensor, and the reverse.
Datum elementOf(const Tensor &tensor, int64_t offset);
void setElement(Tensor &tensor, int64_t offset, const Datum &value);
/// A tensor whose elements show that they were never written.
Tensor uninitialised(llvm::ArrayRef<int64_t> shape, mlir::Type elementType);

/// Counts an index tuple up, last index fastest; false after the last one.
bool nextIndex(llvm::MutableArrayRef<int64_t> index, llvm::ArrayRef<int64_t> shape);

} // namespace kvc::reference

#endif // KVC_LIB_REFERENCE_INTERNAL_H
