//===- Pipeline.cpp - Code of lanes to the LLVM dialect -------------------===//
#include "kvc/Target/AMD/Passes.h"

#include "kvc/Dialect/Tile/Transforms/Passes.h"
#include "kvc/Target/LLVM/Passes.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

void kvc::buildAMDPipeline(OpPassManager &pm) {
  buildTeamPipeline(pm, createAMDWrapKernelsPass(), createAMDLowerLanesPass());
}

void kvc::registerAMDPipelines() {
  PassPipelineRegistration<>("kvc-amd-pipeline",
                             "kernels of lanes to functions of the LLVM dialect; host functions are dropped",
                             [](OpPassManager &pm) {
                               pm.addPass(createIsolateKernelsPass());
                               buildAMDPipeline(pm);
                             });
}
