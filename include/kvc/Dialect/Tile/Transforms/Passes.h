//===- Passes.h - Passes on the tile dialect --------------------*- C++ -*-===//
#ifndef KVC_DIALECT_TILE_TRANSFORMS_PASSES_H
#define KVC_DIALECT_TILE_TRANSFORMS_PASSES_H

#include "kvc/Dialect/Tile/IR/Tile.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace kvc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "kvc/Dialect/Tile/Transforms/Passes.h.inc"
} // namespace kvc

#endif // KVC_DIALECT_TILE_TRANSFORMS_PASSES_H
