//===- Pipeline.cpp - Code of lanes to the LLVM dialect -------------------===//
#include "kvc/Target/NVIDIA/Passes.h"

#include "kvc/Dialect/Tile/Transforms/Passes.h"
#include "kvc/Target/LLVM/Passes.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/LLVMIR/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

void kvc::buildNVIDIAPipeline(OpPassManager &pm) {
  pm.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  pm.addNestedPass<func::FuncOp>(createCSEPass());
  pm.addNestedPass<func::FuncOp>(createLoopInvariantCodeMotionPass());
  pm.addPass(createNVIDIAWrapKernelsPass());
  pm.addNestedPass<func::FuncOp>(createNVIDIALowerLanesPass());
  // Functions without an instruction become arithmetic, as on a CPU.
  pm.addNestedPass<func::FuncOp>(createExpandMathPass());
  pm.addPass(memref::createExpandStridedMetadataPass());
  pm.addPass(createLowerAffinePass());
  buildLLVMConversionPipeline(pm, {.narrowVectorIndices = true});
  // Locations alone: with more the assembler would not optimise.
  LLVM::DIScopeForLLVMFuncOpPassOptions locations;
  locations.emissionKind = LLVM::DIEmissionKind::DebugDirectivesOnly;
  pm.addPass(LLVM::createDIScopeForLLVMFuncOpPass(locations));
}

void kvc::registerNVIDIAPipelines() {
  PassPipelineRegistration<>("kvc-nvidia-pipeline",
                             "kernels of lanes to functions of the LLVM dialect; host functions are dropped",
                             [](OpPassManager &pm) {
                               pm.addPass(createIsolateKernelsPass());
                               buildNVIDIAPipeline(pm);
                             });
}
