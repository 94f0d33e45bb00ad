//===- Passes.h - Passes of the CPU back end --------------------*- C++ -*-===//
#ifndef KVC_TARGET_CPU_PASSES_H
#define KVC_TARGET_CPU_PASSES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassOptions.h"

namespace kvc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "kvc/Target/CPU/Passes.h.inc"

/// Options of the pipeline from kernels over vectors to the LLVM dialect.
struct CPUPipelineOptions : mlir::PassPipelineOptions<CPUPipelineOptions> {
  Option<int64_t> scratchThreshold{*this, "scratch-threshold",
                                   llvm::cl::desc("smallest buffer that lives in scratch memory, in bytes"),
                                   llvm::cl::init(16384)};
};

/// Kernels (functions with `tile.kernel`, as kvc-convert-tile-to-vector leaves them) to functions of the LLVM dialect
/// with the kernel interface. The module must hold nothing but kernels.
void buildCPUPipeline(mlir::OpPassManager &pm, const CPUPipelineOptions &options);
/// `kvc-cpu-pipeline`, which first drops the host functions.
void registerCPUPipelines();

} // namespace kvc

#endif // KVC_TARGET_CPU_PASSES_H
