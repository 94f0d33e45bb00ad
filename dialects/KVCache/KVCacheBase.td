// The kvcache dialect and the base class of its operations.
#ifndef KVC_DIALECTS_KVCACHE_KVCACHEBASE_TD
#define KVC_DIALECTS_KVCACHE_KVCACHEBASE_TD

include "mlir/IR/OpBase.td"

def KVCache_Dialect : Dialect {
  let name = "kvcache";
  let summary = "what a key/value cache method does, independent of target";
  let description = [{
    Caches, append, attention over caches, scores, selection, eviction: the vocabulary in which a method over
    key/value caches is written. Caches are values: `%c1 = kvcache.append %c0, ...` leaves `%c0` as it was.
  }];
  let cppNamespace = "::kvc::kvcache";
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let dependentDialects = [
    "::mlir::affine::AffineDialect",
    "::mlir::arith::ArithDialect",
    "::mlir::linalg::LinalgDialect",
    "::mlir::math::MathDialect",
    "::mlir::tensor::TensorDialect"
  ];
  let extraClassDeclaration = [{
    void registerAttributes();
    void registerTypes();
  }];
}

class KVCache_Op<string mnemonic, list<Trait> traits = []> : Op<KVCache_Dialect, mnemonic, traits>;

#endif // KVC_DIALECTS_KVCACHE_KVCACHEBASE_TD
