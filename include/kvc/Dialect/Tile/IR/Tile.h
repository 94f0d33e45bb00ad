//===- Tile.h - The tile dialect --------------------------------*- C++ -*-===//
//
// Dispatches and plan steps of host functions; tiles of attention over pages in kernels.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_DIALECT_TILE_IR_TILE_H
#define KVC_DIALECT_TILE_IR_TILE_H

#include "kvc/Dialect/KVCache/IR/KVCache.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "Tile/TileDialect.h.inc"
#include "Tile/TileEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "Tile/TileAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "Tile/TileTypes.h.inc"
#define GET_OP_CLASSES
#include "Tile/TileOps.h.inc"

#endif // KVC_DIALECT_TILE_IR_TILE_H
