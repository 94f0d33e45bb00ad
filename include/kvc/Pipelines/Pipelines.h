//===- Pipelines.h - From kvcache to code, in stages ------------*- C++ -*-===//
//
// One builder per stage; each ends at a contract of docs/contracts/stages.md. The tools, kvc-opt's named pipelines and
// the Python package call the same builders.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_PIPELINES_PIPELINES_H
#define KVC_PIPELINES_PIPELINES_H

#include "kvc/Dialect/Tile/IR/Tile.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassOptions.h"

#include <optional>

namespace kvc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "kvc/Pipelines/Passes.h.inc"

/// Stages in order. `Input` is what a user or an importer writes.
enum class Stage { Input, KVCache, Tile, Vector, LLVM };

/// The stage of that name (kvcache, tile, vector, llvm).
std::optional<Stage> parseStage(llvm::StringRef name);
llvm::StringRef nameOf(Stage stage);

/// Options of all stages.
struct PipelineOptions : mlir::PassPipelineOptions<PipelineOptions> {
  Option<std::string> target{*this, "target", llvm::cl::desc("name of the target"), llvm::cl::init("x86-64-v3")};
  Option<std::string> stopAfter{*this, "stop-after", llvm::cl::desc("last stage: kvcache, tile, vector or llvm"),
                                llvm::cl::init("llvm")};
  Option<bool> verifyStages{*this, "verify-stages", llvm::cl::desc("check the contract at the end of every stage"),
                            llvm::cl::init(true)};
};

/// Adds the passes that lead from one stage to the next.
void buildKVCacheStage(mlir::OpPassManager &pm, const PipelineOptions &options);
void buildTileStage(mlir::OpPassManager &pm, const PipelineOptions &options);
void buildVectorStage(mlir::OpPassManager &pm, const PipelineOptions &options);
void buildLLVMStage(mlir::OpPassManager &pm, const PipelineOptions &options);

/// The stages after `from` up to and with `to`. `options.stopAfter` is not looked at.
void buildStages(mlir::OpPassManager &pm, Stage from, Stage to, const PipelineOptions &options);

/// `kvc-pipeline{target=.. stop-after=..}` and one pipeline per stage: `kvc-stage-kvcache`, `kvc-stage-tile`, ...
void registerPipelines();

} // namespace kvc

#endif // KVC_PIPELINES_PIPELINES_H
