//===- Pipeline.cpp - The end of every back end's pipeline ----------------===//
#include "kvc/Target/LLVM/Passes.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/LLVMIR/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

void kvc::buildLLVMConversionPipeline(OpPassManager &pm, const LLVMConversionOptions &options) {
  pm.addPass(createSCFToControlFlowPass());
  ConvertVectorToLLVMPassOptions vectors;
  vectors.reassociateFPReductions = options.reassociateReductions;
  vectors.force32BitVectorIndices = options.narrowVectorIndices;
  pm.addPass(createConvertVectorToLLVMPass(vectors));
  pm.addPass(createFinalizeMemRefToLLVMConversionPass());
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createConvertIndexToLLVMPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createUBToLLVMConversionPass());
  pm.addPass(createConvertFuncToLLVMPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
}

void kvc::buildTeamPipeline(OpPassManager &pm, std::unique_ptr<Pass> wrapKernels, std::unique_ptr<Pass> lowerLanes) {
  pm.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  pm.addNestedPass<func::FuncOp>(createCSEPass());
  pm.addNestedPass<func::FuncOp>(createLoopInvariantCodeMotionPass());
  pm.addPass(std::move(wrapKernels));
  pm.addNestedPass<func::FuncOp>(std::move(lowerLanes));
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
