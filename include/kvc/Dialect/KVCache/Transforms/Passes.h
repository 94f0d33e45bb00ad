//===- Passes.h - Passes over the kvcache dialect ---------------*- C++ -*-===//
#ifndef KVC_DIALECT_KVCACHE_TRANSFORMS_PASSES_H
#define KVC_DIALECT_KVCACHE_TRANSFORMS_PASSES_H

#include "kvc/Dialect/KVCache/IR/KVCache.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace kvc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "kvc/Dialect/KVCache/Transforms/Passes.h.inc"

namespace kvcache {
/// Makes caches tensor-like and the ops bufferizable (docs/spec/bufferization.md).
void registerBufferizableOpInterfaceModels(mlir::DialectRegistry &registry);
} // namespace kvcache
} // namespace kvc

#endif // KVC_DIALECT_KVCACHE_TRANSFORMS_PASSES_H
