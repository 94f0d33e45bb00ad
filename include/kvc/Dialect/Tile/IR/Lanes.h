//===- Lanes.h - Operations on what one lane holds --------------*- C++ -*-===//
//
// The part of the tile dialect between the distribution of a kernel over the lanes of a team and a target's own code.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_DIALECT_TILE_IR_LANES_H
#define KVC_DIALECT_TILE_IR_LANES_H

#include "kvc/Dialect/Tile/IR/Tile.h"

#define GET_OP_CLASSES
#include "Tile/TileLaneOps.h.inc"

#endif // KVC_DIALECT_TILE_IR_LANES_H
