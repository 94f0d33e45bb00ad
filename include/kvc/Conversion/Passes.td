// Conversion passes of kvc.
#ifndef KVC_CONVERSION_PASSES_TD
#define KVC_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def CheckSizesPass : Pass<"kvc-check-sizes", "::mlir::ModuleOp"> {
  let summary = "states the sizes that operations rely on as assertions";
  let description = [{
    Where sizes are dynamic no verifier can compare them. Every operation of a host function that relies on one (rows are those of the
    batch, scores cover every slot, operands of one loop are equally long, ...) gets a `cf.assert` before it; the plan keeps it as a
    check, which the runtime makes before the step. What is known to hold folds away.
    ```mlir
    %r = kvcache.rope %q at %b by #rope : tensor<?x8x64xf32>
    ```
    becomes
    ```mlir
    %ok = arith.cmpi eq, %rows_of_q, %rows_of_b : index
    cf.assert %ok, "kvcache.rope: rows"
    %r = kvcache.rope %q at %b by #rope : tensor<?x8x64xf32>
    ```
  }];
  let dependentDialects = ["::kvc::tile::TileDialect", "::mlir::arith::ArithDialect", "::mlir::cf::ControlFlowDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ConvertKVCacheToTilePass : Pass<"kvc-convert-kvcache-to-tile", "::mlir::ModuleOp"> {
  let summary = "turns every kvcache operation of host functions into kernels and their dispatches";
  let description = [{
    Each operation becomes one or more functions with the attribute `tile.kernel` and a `tile.dispatch` of each. Caches that are
    written are reserved first and released after ops that shorten them.
    ```mlir
    %c1 = kvcache.append %c0, %k, %v at %b : !kv, tensor<?x8x64xf32>, tensor<?x8x64xf32>
    ```
    becomes
    ```mlir
    %r = tile.reserve append %c0 at %b : !kv
    %c1 = tile.dispatch @append[%items] ins(%k, %v, %b) outs(%r) : (...), (!kv)
    ```
  }];
  let dependentDialects = ["::kvc::tile::TileDialect", "::mlir::func::FuncDialect", "::mlir::scf::SCFDialect",
                           "::mlir::memref::MemRefDialect", "::mlir::vector::VectorDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect", "::mlir::tensor::TensorDialect"];
}

def ConvertTileToVectorPass : Pass<"kvc-convert-tile-to-vector", "::mlir::ModuleOp"> {
  let summary = "lowers kernels to loops over vectors whose elements are the lanes of the module's target";
  let description = [{
    Batches and caches become the arrays of docs/contracts/kernel-abi.md; page operands become loads in the page's layout; tiles
    live in memory and matrix products become register-blocked loops. Needs the module attribute `tile.target`.
    ```mlir
    func.func @k(%c: !kv, %item: index) attributes {tile.kernel} { ... }
    ```
    becomes
    ```mlir
    func.func @k(%pages: memref<?xi8>, %table: memref<?x?xi32>, ..., %item: index) attributes {tile.kernel} { ... }
    ```
  }];
  let dependentDialects = ["::mlir::scf::SCFDialect", "::mlir::memref::MemRefDialect", "::mlir::vector::VectorDialect",
                           "::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::LLVM::LLVMDialect"];
}

def ConvertTileToGPUPass : Pass<"kvc-convert-tile-to-gpu", "::mlir::ModuleOp"> {
  let summary = "lowers kernels to the code of one lane of a team, for targets whose lanes are threads";
  let description = [{
    Tiles become registers of lanes by layouts that follow from the target's matrix instruction; page operands go through a ring of
    staging memory that is filled ahead. Kernels get the attributes `tile.team` (lanes) and `tile.staging` (bytes). Modules for
    other targets stay as they are. Needs the module attribute `tile.target`.
    ```mlir
    %s = tile.mma channels %q, %k : (vector<64x128xf32>, !tile.operand<64, 128>) -> vector<64x64xf32>
    ```
    becomes
    ```mlir
    %b:4 = tile.load_matrices %staging[%offset] : ...
    %s:4 = tile.lane_mma "m16n8k16.f16" (%q0, %q1, %q2, %q3) (%b#0, %b#1) acc (%zero, %zero, %zero, %zero) : ...
    ```
  }];
  let dependentDialects = ["::kvc::tile::TileDialect", "::mlir::gpu::GPUDialect", "::mlir::scf::SCFDialect",
                           "::mlir::memref::MemRefDialect", "::mlir::vector::VectorDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

def FormDispatchesPass : Pass<"kvc-form-dispatches", "::mlir::ModuleOp"> {
  let summary = "turns the tensor computations of host functions into kernels and their dispatches";
  let description = [{
    Calls of private functions are inlined first. Then linear layers (x w^T with a weight of static shape) become `tile.linear`,
    several with the same x in one dispatch, element-wise consumers inside; the other linalg operations become kernels over rows,
    chains that pass row i to row i in one kernel. What remains are dispatches, shape arithmetic, `tensor.empty` and views.
    ```mlir
    %r = linalg.matmul indexing_maps = [#mk, #nk, #mn] ins(%x, %w : ...) outs(%zero : ...) -> tensor<?x576xf32>
    ```
    becomes
    ```mlir
    %r = tile.dispatch @linear[%items] ins(%x, %w) outs(%empty) : (...), (tensor<?x576xf32>)
    ```
  }];
  let dependentDialects = ["::kvc::tile::TileDialect", "::mlir::func::FuncDialect", "::mlir::scf::SCFDialect",
                           "::mlir::memref::MemRefDialect", "::mlir::linalg::LinalgDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect", "::mlir::tensor::TensorDialect"];
}

def ConvertLinearToVectorPass : Pass<"kvc-convert-linear-to-vector", "::mlir::ModuleOp"> {
  let summary = "lowers linear layers, rows of weights and linalg operations of kernels to loops over vectors";
  let description = [{
    Kernels of linear layers alone are left to `kvc-convert-tile-to-gpu` on targets with teams. Vectors have as many elements as the lanes of the
    module's target. Few rows take the products straight from the blocks of the
    weights; many rows take them from a panel of weights that is dequantised once. Needs the module attribute `tile.target`.
    ```mlir
    tile.decode_row %w[%row] to %x encoding "q8_0" : memref<49152x612xi8>, memref<576xf32>
    ```
    becomes
    ```mlir
    scf.for %block = ... { %codes = vector.load ... ; vector.store ... }
    ```
  }];
  let dependentDialects = ["::mlir::scf::SCFDialect", "::mlir::memref::MemRefDialect", "::mlir::vector::VectorDialect",
                           "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

#endif // KVC_CONVERSION_PASSES_TD
