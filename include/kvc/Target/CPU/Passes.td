// Passes of the CPU back end.
#ifndef KVC_TARGET_CPU_PASSES_TD
#define KVC_TARGET_CPU_PASSES_TD

include "mlir/Pass/PassBase.td"

def CPULowerVectorsPass : Pass<"kvc-cpu-lower-vectors", "::mlir::func::FuncOp"> {
  let summary = "lowers vectors of rank 2 and more, and operations on them, to vectors of rank 1";
  let description = [{
    Upstream's lowerings of contraction, reduction, transposition, transfer, gather and masks. Inner reductions have no defined order,
    but a fixed one.
    ```mlir
    %r = vector.multi_reduction <add>, %x, %acc [1] : vector<4x16xf32> to vector<4xf32>
    ```
    becomes four `vector.reduction`.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
                           "::mlir::ub::UBDialect", "::mlir::vector::VectorDialect"];
}

def CPUPlaceScratchPass : Pass<"kvc-cpu-place-scratch", "::mlir::func::FuncOp"> {
  let summary = "moves large buffers of a kernel from the stack to the worker's scratch memory";
  let description = [{
    Buffers of at least `threshold` bytes become views of one new argument in front of the item; the attribute `tile.scratch` says how
    many bytes they take.
    ```mlir
    %a = memref.alloca() : memref<64x128xf32>
    ```
    becomes
    ```mlir
    %a = memref.view %scratch[%c0][] : memref<32768xi8> to memref<64x128xf32>
    ```
  }];
  let options = [Option<"threshold", "threshold", "int64_t", "16384", "smallest buffer that is moved, in bytes">];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::memref::MemRefDialect"];
}

def CPUWrapKernelsPass : Pass<"kvc-cpu-wrap-kernels", "::mlir::ModuleOp"> {
  let summary = "gives kernels the interface of docs/contracts/kernel-abi.md";
  let description = [{
    A kernel's body is kept as a function with the suffix `.body`; a function of the kernel's name loads the words of its arguments and
    calls it.
    ```mlir
    func.func @k(%x: memref<?xf32>, %item: index) attributes {tile.kernel}
    ```
    becomes
    ```mlir
    llvm.func @k(%slots: !llvm.ptr, %item: i64, %scratch: !llvm.ptr)
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::func::FuncDialect", "::mlir::LLVM::LLVMDialect"];
}

#endif // KVC_TARGET_CPU_PASSES_TD
