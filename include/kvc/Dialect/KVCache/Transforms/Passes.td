// Passes over the kvcache dialect.
#ifndef KVC_DIALECT_KVCACHE_TRANSFORMS_PASSES_TD
#define KVC_DIALECT_KVCACHE_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def DecomposeAttentionPass : Pass<"kvc-decompose-attention"> {
  let summary = "turns attention into online_attention, one for each segment";
  let description = [{
    The softmax state goes from one segment to the next; the division by its sum, and the log-sum-exp, come last. An attention
    that returns statistics stays as it is, with a remark.
    ```mlir
    %out = kvcache.attention %q over %a, %b at %batch {scale = 0.125 : f32} : ...
    ```
    becomes
    ```mlir
    %s0:3 = kvcache.online_attention %q over %a span %c0, %len_a at %batch state %zero, %minus_inf, %zero_sum {...} : ...
    %s1:3 = kvcache.online_attention %q over %b span %c0, %len_b at %batch state %s0#0, %s0#1, %s0#2 {...} : ...
    %out = linalg.generic ... ins(%s1#0, %s1#2) ...
    ```
  }];
  let dependentDialects = ["::mlir::affine::AffineDialect", "::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::math::MathDialect", "::mlir::tensor::TensorDialect"];
}

def SpliceMethodPass : Pass<"kvc-splice-method", "::mlir::ModuleOp"> {
  let summary = "replaces the attention sites of a model by what a KV method does there";
  let description = [{
    A method is a file (docs/adding-a-method.md). Every `kvcache.attend` becomes the body of the method's function for its
    phase, and the types of the caches get the fields that the method needs; layers that the method does not name get `dense`. A module without sites stays as it is with
    `method=dense`; with another method that is an error.
    ```mlir
    %o, %c1 = kvcache.attend %q, %k, %v with %c0 at %b {layer = 0 : i64, phase = "decode", scale = 0.125 : f32} : ...
    ```
    becomes, with `method=dense`,
    ```mlir
    %c1 = kvcache.append %c0, %k, %v at %b : ...
    %o = kvcache.attention %q over %c1 at %b {causal, scale = 0.125 : f32} : ...
    ```
  }];
  let options = [
    Option<"method", "method", "std::string", "\"dense\"", "name of a method, or path of its file (.mlir)">,
    ListOption<"args", "args", "std::string", "values of the method's parameters: name=value; name=a/b/c gives each layer its own">,
    ListOption<"folders", "folders", "std::string", "folders that are searched for methods before the built-in ones">,
    ListOption<"chosen", "chosen", "std::string", "fields of the cache type (k, v, page, ...) that the user chose: a method that needs others is an error">
  ];
  let dependentDialects = ["::kvc::kvcache::KVCacheDialect", "::mlir::func::FuncDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect", "::mlir::tensor::TensorDialect"];
}

#endif // KVC_DIALECT_KVCACHE_TRANSFORMS_PASSES_TD
