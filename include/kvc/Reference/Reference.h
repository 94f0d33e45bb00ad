//===- Reference.h - The reference oracle -----------------------*- C++ -*-===//
//
// Runs functions of modules at the kvcache level, one readable `eval` for each operation, in double precision and
// without tiling. Every lowering is tested against it.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_REFERENCE_REFERENCE_H
#define KVC_REFERENCE_REFERENCE_H

#include "kvc/Reference/Datum.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <functional>

namespace kvc::reference {

struct Options {
  /// The decoded contents of a weight of the model, as a tensor (shared, so that a caller may keep what it decoded).
  /// Without it `kvcache.weight` is an error.
  std::function<mlir::FailureOr<Datum>(kvcache::WeightOp)> weights;
  /// Depth of calls at which a run ends with an error.
  int64_t maxCallDepth = 256;
  /// Elements of one tensor at which a run ends with an error.
  int64_t maxElements = int64_t(1) << 31;
};

/// Evaluates operations. A subclass may replace the evaluation of single operations (tests of tests do).
class Evaluator {
public:
  explicit Evaluator(Options options = {}) : options(std::move(options)) {}
  virtual ~Evaluator() = default;

  /// Calls a function. Errors (inputs that do not fit, a bad batch, lengths beyond capacity, an operation that the
  /// oracle does not know) are diagnostics at the operation.
  mlir::FailureOr<llvm::SmallVector<Datum>> call(mlir::func::FuncOp function, llvm::ArrayRef<Datum> inputs);

  /// Runs the operations of a block with values for its arguments; the operands of the terminator. `loopIndex` is
  /// what `linalg.index` names in it (empty: that of the enclosing block).
  mlir::FailureOr<llvm::SmallVector<Datum>> runBlock(mlir::Block &block, llvm::ArrayRef<Datum> arguments,
                                                     llvm::ArrayRef<int64_t> loopIndex = {});
  llvm::ArrayRef<int64_t> getLoopIndex() const { return loopIndex; }

  const Options &getOptions() const { return options; }

protected:
  /// Evaluates one operation that is no terminator; pushes one datum for every result.
  virtual mlir::LogicalResult eval(mlir::Operation *op, llvm::ArrayRef<Datum> operands,
                                   llvm::SmallVectorImpl<Datum> &results);

private:
  mlir::LogicalResult evalControl(mlir::Operation *op, llvm::ArrayRef<Datum> operands,
                                  llvm::SmallVectorImpl<Datum> &results);

  Options options;
  /// Values of the function that runs now.
  llvm::DenseMap<mlir::Value, Datum> *frame = nullptr;
  int64_t depth = 0;
  llvm::ArrayRef<int64_t> loopIndex;
};

/// Runs function `name` of `module`; its results in order.
mlir::FailureOr<llvm::SmallVector<Datum>> run(mlir::ModuleOp module, llvm::StringRef name, llvm::ArrayRef<Datum> inputs,
                                              Options options = {});

} // namespace kvc::reference

#endif // KVC_REFERENCE_REFERENCE_H
