//===- Pipeline.cpp - Kernels to the LLVM dialect -------------------------===//
#include "kvc/Target/CPU/Passes.h"

#include "kvc/Dialect/Tile/Transforms/Passes.h"
#include "kvc/Target/LLVM/Passes.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Affine/Transforms/Passes.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/Vector/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

void kvc::buildCPUPipeline(OpPassManager &pm, const CPUPipelineOptions &options) {
  pm.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  pm.addNestedPass<func::FuncOp>(createCSEPass());
  pm.addNestedPass<func::FuncOp>(createExpandMathPass());
  pm.addNestedPass<func::FuncOp>(createCPULowerVectorsPass());
  pm.addNestedPass<func::FuncOp>(createConvertVectorToSCFPass({}));
  pm.addNestedPass<func::FuncOp>(createCPULowerVectorsPass());
  pm.addNestedPass<func::FuncOp>(createCPUPlaceScratchPass({options.scratchThreshold}));
  pm.addNestedPass<func::FuncOp>(createCSEPass());
  pm.addPass(memref::createExpandStridedMetadataPass());
  pm.addPass(createLowerAffinePass());
  pm.addNestedPass<func::FuncOp>(createLoopInvariantCodeMotionPass());
  arith::ArithExpandOpsPassOptions arith;
  arith.includeBf16 = true;
  pm.addPass(arith::createArithExpandOpsPass(arith));
  pm.addPass(createCPUWrapKernelsPass());
  buildLLVMConversionPipeline(pm, {.reassociateReductions = true});
}

void kvc::registerCPUPipelines() {
  PassPipelineRegistration<CPUPipelineOptions>(
      "kvc-cpu-pipeline", "kernels over vectors to functions of the LLVM dialect; host functions are dropped",
      [](OpPassManager &pm, const CPUPipelineOptions &options) {
        pm.addPass(createIsolateKernelsPass());
        buildCPUPipeline(pm, options);
      });
}
