//===- Passes.h - Passes over the kvcache dialect ---------------*- C++ -*-===//
#ifndef KVC_DIALECT_KVCACHE_TRANSFORMS_PASSES_H
#define KVC_DIALECT_KVCACHE_TRANSFORMS_PASSES_H

#include "kvc/Dialect/KVCache/IR/KVCache.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace kvc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "kvc/Dialect/KVCache/Transforms/Passes.h.inc"
} // namespace kvc

#endif // KVC_DIALECT_KVCACHE_TRANSFORMS_PASSES_H
