//===- Pipelines.cpp - The stages and their builders ----------------------===//
#include "kvc/Pipelines/Pipelines.h"

#include "kvc/Conversion/Passes.h"
#include "kvc/Dialect/Tile/Transforms/Passes.h"
#include "kvc/Target/Backend.h"
#include "kvc/Target/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace kvc;

namespace {
struct StageRow {
  Stage stage;
  llvm::StringLiteral name;
  void (*build)(OpPassManager &, const PipelineOptions &);
};
constexpr StageRow stages[] = {
    {Stage::KVCache, "kvcache", buildKVCacheStage},
    {Stage::Tile, "tile", buildTileStage},
    {Stage::Vector, "vector", buildVectorStage},
    {Stage::LLVM, "llvm", buildLLVMStage},
};
} // namespace

std::optional<Stage> kvc::parseStage(StringRef name) {
  for (const StageRow &row : stages) {
    if (row.name == name) {
      return row.stage;
    }
  }
  return std::nullopt;
}

StringRef kvc::nameOf(Stage stage) {
  for (const StageRow &row : stages) {
    if (row.stage == stage) {
      return row.name;
    }
  }
  return "input";
}

void kvc::buildKVCacheStage(OpPassManager &pm, const PipelineOptions &options) {
  pm.addPass(createSetTargetPass({options.target}));
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
}

void kvc::buildTileStage(OpPassManager &pm, const PipelineOptions &options) {
  pm.addPass(createCheckSizesPass());
  pm.addPass(createFormDispatchesPass());
  pm.addPass(createConvertKVCacheToTilePass());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(createInsertCopiesPass());
  pm.addPass(createDeduplicateKernelsPass());
}

void kvc::buildVectorStage(OpPassManager &pm, const PipelineOptions &options) {
  pm.addPass(createConvertLinearToVectorPass());
  pm.addPass(createConvertTileToVectorPass());
  pm.addPass(createConvertTileToGPUPass());
  // No CSE: in host functions it would make one of two tensors that insert-copies has told apart.
  pm.addNestedPass<func::FuncOp>(createCanonicalizerPass());
}

void kvc::buildLLVMStage(OpPassManager &pm, const PipelineOptions &options) {
  pm.addPass(createIsolateKernelsPass());
  if (const Target *target = lookupTarget(options.target)) {
    getBackend(*target).buildPipeline(pm);
  }
}

void kvc::buildStages(OpPassManager &pm, Stage from, Stage to, const PipelineOptions &options) {
  for (const StageRow &row : stages) {
    if (row.stage > from && row.stage <= to) {
      row.build(pm, options);
      if (options.verifyStages) {
        pm.addPass(createVerifyStagePass({row.name.str()}));
      }
    }
  }
}

void kvc::registerPipelines() {
  PassPipelineRegistration<PipelineOptions>("kvc-pipeline", "all stages up to `stop-after`",
                                            [](OpPassManager &pm, const PipelineOptions &options) {
                                              std::optional<Stage> stage = parseStage(options.stopAfter);
                                              if (!stage) {
                                                // The pass says what it expects; a builder cannot fail.
                                                pm.addPass(createVerifyStagePass({options.stopAfter}));
                                                return;
                                              }
                                              buildStages(pm, Stage::Input, *stage, options);
                                            });
  for (const StageRow &row : stages) {
    auto build = row.build;
    std::string name = row.name.str();
    PassPipelineRegistration<PipelineOptions>("kvc-stage-" + name, "the passes that lead to stage " + name,
                                              [build, name](OpPassManager &pm, const PipelineOptions &options) {
                                                build(pm, options);
                                                if (options.verifyStages) {
                                                  pm.addPass(createVerifyStagePass({name}));
                                                }
                                              });
  }
}
