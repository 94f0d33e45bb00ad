//===- Passes.h - Passes of the AMD back end --------------------*- C++ -*-===//
#ifndef KVC_TARGET_AMD_PASSES_H
#define KVC_TARGET_AMD_PASSES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace kvc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "kvc/Target/AMD/Passes.h.inc"

/// Kernels (functions with `tile.kernel`, as kvc-convert-tile-to-gpu leaves them) to functions of the LLVM dialect with
/// the kernel interface. The module must hold nothing but kernels.
void buildAMDPipeline(mlir::OpPassManager &pm);
/// `kvc-amd-pipeline`, which first drops the host functions.
void registerAMDPipelines();

} // namespace kvc

#endif // KVC_TARGET_AMD_PASSES_H
