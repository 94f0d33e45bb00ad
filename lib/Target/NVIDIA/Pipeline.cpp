//===- Pipeline.cpp - Code of lanes to the LLVM dialect -------------------===//
#include "kvc/Target/NVIDIA/Passes.h"

#include "kvc/Dialect/Tile/Transforms/Passes.h"
#include "kvc/Target/LLVM/Passes.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

void kvc::buildNVIDIAPipeline(OpPassManager &pm) {
  buildTeamPipeline(pm, createNVIDIAWrapKernelsPass(), createNVIDIALowerLanesPass());
}

void kvc::registerNVIDIAPipelines() {
  PassPipelineRegistration<>("kvc-nvidia-pipeline",
                             "kernels of lanes to functions of the LLVM dialect; host functions are dropped",
                             [](OpPassManager &pm) {
                               pm.addPass(createIsolateKernelsPass());
                               buildNVIDIAPipeline(pm);
                             });
}
