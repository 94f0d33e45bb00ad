//===- KernelBuilder.h - Makes a kernel and its dispatch --------*- C++ -*-===//
#ifndef KVC_LIB_CONVERSION_KVCACHETOTILE_KERNELBUILDER_H
#define KVC_LIB_CONVERSION_KVCACHETOTILE_KERNELBUILDER_H

#include "kvc/Dialect/Tile/IR/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace kvc {

/// Builds one kernel function beside the host function around `host`'s insertion point. Tensor operands arrive in the
/// kernel as memrefs, other operands as they are; the kernel's last argument is the work item.
///
///   KernelBuilder kernel(host, "append", {k, v, batch}, {cache});
///   ... build the body with kernel.body, kernel.input(0), kernel.output(0), kernel.item ...
///   ResultRange results = kernel.dispatch(items);
class KernelBuilder {
public:
  KernelBuilder(mlir::ImplicitLocOpBuilder &host, llvm::StringRef name, mlir::ValueRange inputs,
                mlir::ValueRange outputs);

  mlir::Value input(unsigned i) { return function.getArgument(i); }
  mlir::Value output(unsigned i) { return function.getArgument(inputs.size() + i); }

  /// Ends the body and inserts the dispatch at the host's insertion point. One result for each output.
  mlir::ResultRange dispatch(mlir::Value items);

  mlir::func::FuncOp function;
  mlir::ImplicitLocOpBuilder body;
  mlir::Value item;

private:
  mlir::ImplicitLocOpBuilder &host;
  llvm::SmallVector<mlir::Value> inputs, outputs;
};

/// An uninitialised tensor; `dynamic` gives the sizes of the dynamic dimensions in order.
mlir::Value createEmpty(mlir::ImplicitLocOpBuilder &host, mlir::RankedTensorType type, mlir::ValueRange dynamic);

/// Index arithmetic of both host and kernels.
mlir::Value createIndex(mlir::ImplicitLocOpBuilder &b, int64_t value);
mlir::Value createAdd(mlir::ImplicitLocOpBuilder &b, mlir::Value x, mlir::Value y);
mlir::Value createMul(mlir::ImplicitLocOpBuilder &b, mlir::Value x, mlir::Value y);

/// `for (i = from; i < to; i += step) body(i)`.
void createFor(mlir::ImplicitLocOpBuilder &b, mlir::Value from, mlir::Value to, int64_t step,
               llvm::function_ref<void(mlir::Value i)> body);
void createFor(mlir::ImplicitLocOpBuilder &b, mlir::Value from, mlir::Value to,
               llvm::function_ref<void(mlir::Value i)> body);
/// The same with step 1 and a value that goes from one turn to the next; returns the last.
mlir::Value createFor(mlir::ImplicitLocOpBuilder &b, mlir::Value from, mlir::Value to, mlir::Value start,
                      llvm::function_ref<mlir::Value(mlir::Value i, mlir::Value carried)> body);
/// The same with several values.
mlir::ResultRange createFor(mlir::ImplicitLocOpBuilder &b, mlir::Value from, mlir::Value to, mlir::ValueRange start,
                            llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value i, mlir::ValueRange)> body);
/// `if (condition) yes()`.
void createIf(mlir::ImplicitLocOpBuilder &b, mlir::Value condition, llvm::function_ref<void()> yes);
/// `condition ? yes() : no()`, of which only one is run.
mlir::Value createIf(mlir::ImplicitLocOpBuilder &b, mlir::Type type, mlir::Value condition,
                     llvm::function_ref<mlir::Value()> yes, llvm::function_ref<mlir::Value()> no);

} // namespace kvc

#endif // KVC_LIB_CONVERSION_KVCACHETOTILE_KERNELBUILDER_H
