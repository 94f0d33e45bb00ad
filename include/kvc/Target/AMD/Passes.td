// Passes of the AMD back end.
#ifndef KVC_TARGET_AMD_PASSES_TD
#define KVC_TARGET_AMD_PASSES_TD

include "mlir/Pass/PassBase.td"

def AMDLowerLanesPass : Pass<"kvc-amd-lower-lanes", "::mlir::func::FuncOp"> {
  let summary = "turns what a lane does with its team and its matrix unit into instructions";
  let description = [{
    Matrix products, copies, shuffles and barriers become intrinsics of the `amdgcn` target; `math.exp2` and its like on f32 become the
    approximate instructions that flush denormals (1 ulp for exp2, without a scaling sequence; tanh within 3e-7). Needs the module attribute
    `tile.target`.
    ```mlir
    %y, %valid = gpu.shuffle xor %x, %four, %lanes : f32
    ```
    becomes
    ```mlir
    %y = llvm.call_intrinsic "llvm.amdgcn.ds.swizzle"(%word, %pattern) : (i32, i32) -> i32
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect", "::mlir::ROCDL::ROCDLDialect",
                           "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
                           "::mlir::vector::VectorDialect"];
}

def AMDWrapKernelsPass : Pass<"kvc-amd-wrap-kernels", "::mlir::ModuleOp"> {
  let summary = "gives kernels the interface of docs/contracts/kernel-abi.md";
  let description = [{
    A kernel's body is kept as a function with the suffix `.body`; an entry of the kernel's name has one parameter for each word and calls it.
    The item is the index of the workgroup; staging memory is the workgroup's dynamic LDS.
    ```mlir
    func.func @k(%x: memref<?xf32>, %item: index) attributes {tile.kernel, tile.team = 64 : i64}
    ```
    becomes
    ```mlir
    llvm.func @k(%x: !llvm.ptr<1>, %size: i64) attributes {rocdl.kernel, rocdl.reqd_work_group_size = array<i32: 64, 1, 1>}
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::func::FuncDialect", "::mlir::LLVM::LLVMDialect",
                           "::mlir::ROCDL::ROCDLDialect"];
}

#endif // KVC_TARGET_AMD_PASSES_TD
