// Passes that all back ends share.
#ifndef KVC_TARGET_LLVM_PASSES_TD
#define KVC_TARGET_LLVM_PASSES_TD

include "mlir/Pass/PassBase.td"

def ExpandMathPass : Pass<"kvc-expand-math", "::mlir::func::FuncOp"> {
  let summary = "expands elementary functions into arithmetic on the same vectors";
  let description = [{
    No function of a C library is called. f32 `exp` and `exp2` are polynomials in f32 (at most 2 ulp); the others are computed in f64
    and rounded; 16-bit types are computed in f32. `sin` and `cos` are accurate for arguments up to 2^30.
    ```mlir
    %y = math.exp2 %x : vector<16xf32>
    ```
    becomes a chain of `arith` and `math.fma`.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

#endif // KVC_TARGET_LLVM_PASSES_TD
