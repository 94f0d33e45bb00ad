// Passes around the pipelines: the target of a module, the contract of a stage.
#ifndef KVC_PIPELINES_PASSES_TD
#define KVC_PIPELINES_PASSES_TD

include "mlir/Pass/PassBase.td"

def SetTargetPass : Pass<"kvc-set-target", "::mlir::ModuleOp"> {
  let summary = "names the target that a module is compiled for";
  let description = [{
    Sets the attribute `tile.target`; fails where no row of the table of targets has the name.
    ```mlir
    module { ... }
    ```
    becomes
    ```mlir
    module attributes {tile.target = "x86-64-v3"} { ... }
    ```
  }];
  let options = [Option<"target", "target", "std::string", "", "name of a target">];
  let dependentDialects = ["::kvc::tile::TileDialect"];
}

def VerifyStagePass : Pass<"kvc-verify-stage", "::mlir::ModuleOp"> {
  let summary = "checks that a module holds only what a stage allows";
  let description = [{
    The stages and what they allow are in docs/contracts/stages.md. The first operation that is not allowed is an error.
    ```mlir
    func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = linalg.exp ins(%x : tensor<4xf32>) outs(%x : tensor<4xf32>) -> tensor<4xf32>
      return %y : tensor<4xf32>
    }
    ```
    passes `kvc-verify-stage{stage=kvcache}` and fails `kvc-verify-stage{stage=tile}`.
  }];
  let options = [Option<"stage", "stage", "std::string", "", "kvcache, tile, vector or llvm">];
  let dependentDialects = ["::kvc::tile::TileDialect"];
}

def PrintPageLayoutsPass : Pass<"kvc-print-page-layouts", "::mlir::ModuleOp"> {
  let summary = "prints what lies where in the pages of every cache type of a module";
  let description = [{
    A row for each part of a head block, the memory of one KV head in a page: first byte, bytes, what it is. For the module's target.
    ```mlir
    func.func private @f(%c: !kvcache.cache<heads = 2, dim = 64, page = 16, k = int8, v = f16>)
    ```
    prints among others `      0   1024  K codes: packed, units of 4`. With `json`, a line for each type.
  }];
  let options = [Option<"json", "json", "bool", "false", "print one line of JSON for each type">];
  let dependentDialects = ["::kvc::kvcache::KVCacheDialect"];
}

#endif // KVC_PIPELINES_PASSES_TD
