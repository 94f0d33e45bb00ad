// Passes on host functions and kernels of the tile dialect.
#ifndef KVC_DIALECT_TILE_TRANSFORMS_PASSES_TD
#define KVC_DIALECT_TILE_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def DeduplicateKernelsPass : Pass<"kvc-deduplicate-kernels", "::mlir::ModuleOp"> {
  let summary = "merges kernels that differ in their name alone, and drops kernels that nothing dispatches";
  let description = [{
    Dispatches are redirected to the first of the equal kernels.
    ```mlir
    %0 = tile.dispatch @norm[%n] ins(%a, %w) outs(%e0) : ...
    %1 = tile.dispatch @norm_7[%n] ins(%b, %w) outs(%e1) : ...
    ```
    becomes two dispatches of `@norm`.
  }];
  let dependentDialects = ["::kvc::tile::TileDialect"];
}

def InsertCopiesPass : Pass<"kvc-insert-copies", "::mlir::ModuleOp"> {
  let summary = "makes value semantics survive updates in place";
  let description = [{
    A step of a plan overwrites the caches and tensors it updates. Where the old value is still needed, or is not the function's to write
    (tensor arguments, weights, constants; a cache argument whose update is not returned), the update gets a copy: `tile.clone` for caches,
    a kernel that copies for tensors, and its own `tensor.empty` where the contents are undefined anyway.
    ```mlir
    %c1 = tile.reserve append %c0 at %b : !kv
    return %c0, %c1
    ```
    becomes
    ```mlir
    %t = tile.clone %c0 : !kv
    %c1 = tile.reserve append %t at %b : !kv
    return %c0, %c1
    ```
  }];
  let dependentDialects = ["::kvc::tile::TileDialect", "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
                           "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
}

def IsolateKernelsPass : Pass<"kvc-isolate-kernels", "::mlir::ModuleOp"> {
  let summary = "drops host functions";
  let description = [{
    What a back end compiles are kernels alone: functions with the attribute `tile.kernel`.
    ```mlir
    func.func @host(%x: tensor<4xf32>) { ... }
    func.func private @k(%x: memref<4xf32>, %item: index) attributes {tile.kernel} { ... }
    ```
    keeps `@k`.
  }];
  let dependentDialects = ["::kvc::tile::TileDialect"];
}

#endif // KVC_DIALECT_TILE_TRANSFORMS_PASSES_TD
