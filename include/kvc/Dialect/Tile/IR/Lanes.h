//===- Lanes.h - Operations on what one lane holds --------------*- C++ -*-===//
//
// The part of the tile dialect between the distribution of a kernel over the lanes of a team and a target's own code.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_DIALECT_TILE_IR_LANES_H
#define KVC_DIALECT_TILE_IR_LANES_H

#include "kvc/Dialect/Tile/IR/Tile.h"

namespace kvc::tile {
/// Of operations that are the code of one lane.
template <typename ConcreteType> class LaneLevel : public mlir::OpTrait::TraitBase<ConcreteType, LaneLevel> {};
} // namespace kvc::tile

#define GET_OP_CLASSES
#include "Tile/TileLaneOps.h.inc"

#endif // KVC_DIALECT_TILE_IR_LANES_H
