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

/// All of the pipeline of a target whose lanes are threads: its pass on modules that gives kernels their interface and
/// its pass on functions that finds instructions for what lanes do, and what such targets do alike.
void buildTeamPipeline(mlir::OpPassManager &pm, std::unique_ptr<mlir::Pass> wrapKernels,
                       std::unique_ptr<mlir::Pass> lowerLanes);

} // namespace kvc

#endif // KVC_TARGET_LLVM_PASSES_H
