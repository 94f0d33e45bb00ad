//===- Kernels.h - Which functions of a module are kernels ------*- C++ -*-===//
#ifndef KVC_DIALECT_TILE_IR_KERNELS_H
#define KVC_DIALECT_TILE_IR_KERNELS_H

#include "kvc/Dialect/Tile/IR/Tile.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace kvc::tile {

/// A function that a dispatch runs; every other one is a host function.
inline bool isKernel(mlir::Operation *function) { return function->hasAttr(TileDialect::kernelAttr); }

/// The kernels of a module, or its host functions, in their order. They may be erased while the list is walked.
inline llvm::SmallVector<mlir::func::FuncOp> functionsOf(mlir::ModuleOp module, bool kernels) {
  llvm::SmallVector<mlir::func::FuncOp> functions;
  for (auto function : module.getOps<mlir::func::FuncOp>()) {
    if (isKernel(function) == kernels) {
      functions.push_back(function);
    }
  }
  return functions;
}
inline llvm::SmallVector<mlir::func::FuncOp> kernelsOf(mlir::ModuleOp module) { return functionsOf(module, true); }
inline llvm::SmallVector<mlir::func::FuncOp> hostFunctionsOf(mlir::ModuleOp module) {
  return functionsOf(module, false);
}

/// Words of a kernel's argument (docs/contracts/kernel-abi.md): the address and dynamic sizes of a memref, or a number.
inline int64_t wordsOf(mlir::Type argument) {
  auto memref = mlir::dyn_cast<mlir::MemRefType>(argument);
  return 1 + (memref ? memref.getNumDynamicDims() : 0);
}

} // namespace kvc::tile

#endif // KVC_DIALECT_TILE_IR_KERNELS_H
