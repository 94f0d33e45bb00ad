//===- Kernels.h - What passes over kernels begin with ----------*- C++ -*-===//
#ifndef KVC_LIB_CONVERSION_UTILS_KERNELS_H
#define KVC_LIB_CONVERSION_UTILS_KERNELS_H

#include "kvc/Target/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace kvc {

/// Calls `lower` for every kernel of a module with its target, until one fails. Fails with a diagnostic when the module
/// names no known target.
llvm::LogicalResult
forEachKernel(mlir::ModuleOp module,
              llvm::function_ref<llvm::LogicalResult(mlir::func::FuncOp kernel, const Target &target)> lower);

} // namespace kvc

#endif // KVC_LIB_CONVERSION_UTILS_KERNELS_H
