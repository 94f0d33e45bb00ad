// Passes of the NVIDIA back end.
#ifndef KVC_TARGET_NVIDIA_PASSES_TD
#define KVC_TARGET_NVIDIA_PASSES_TD

include "mlir/Pass/PassBase.td"

def NVIDIALowerLanesPass : Pass<"kvc-nvidia-lower-lanes", "::mlir::func::FuncOp"> {
  let summary = "turns what a lane does with its team and its matrix unit into instructions";
  let description = [{
    Matrix products, matrix loads, asynchronous copies, shuffles and barriers become operations of the `nvvm` dialect; `math.exp2` and its
    like on f32 become the approximate instructions that flush denormals (at most 2 ulp for exp2, without a scaling sequence; tanh within 3e-7).
    ```mlir
    tile.wait_async 1
    ```
    becomes
    ```mlir
    nvvm.cp.async.wait.group 1
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect",
                           "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect"];
}

def NVIDIAWrapKernelsPass : Pass<"kvc-nvidia-wrap-kernels", "::mlir::ModuleOp"> {
  let summary = "gives kernels the interface of docs/contracts/kernel-abi.md";
  let description = [{
    A kernel's body is kept as a function with the suffix `.body`; an entry of the kernel's name has one parameter for each word and calls it.
    The item is the block's index; staging memory is the block's dynamic shared memory.
    ```mlir
    func.func @k(%x: memref<?xf32>, %item: index) attributes {tile.kernel, tile.team = 128 : i64}
    ```
    becomes
    ```mlir
    llvm.func @k(%x: !llvm.ptr, %size: i64) attributes {nvvm.kernel, nvvm.reqntid = array<i32: 128, 1, 1>}
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::func::FuncDialect", "::mlir::LLVM::LLVMDialect",
                           "::mlir::NVVM::NVVMDialect"];
}

#endif // KVC_TARGET_NVIDIA_PASSES_TD
