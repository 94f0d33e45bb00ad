//===- Passes.h - Passes that all back ends share ---------------*- C++ -*-===//
#ifndef KVC_TARGET_LLVM_PASSES_H
#define KVC_TARGET_LLVM_PASSES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace kvc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "kvc/Target/LLVM/Passes.h.inc"

/// How vectors become LLVM's.
struct LLVMConversionOptions {
  /// Sums over a vector may be taken in any order, so that they are a tree.
  bool reassociateReductions = false;
  /// Comparisons of lane numbers in 32 bits instead of 64.
  bool narrowVectorIndices = false;
};

/// The end of every back end's pipeline: scf, arith, math, vector, memref, index, cf, ub and func to the LLVM dialect,
/// and clean-up.
void buildLLVMConversionPipeline(mlir::OpPassManager &pm, const LLVMConversionOptions &options);

} // namespace kvc

#endif // KVC_TARGET_LLVM_PASSES_H
