//===- PageOperand.h - Units of page operands as lanes ----------*- C++ -*-===//
#ifndef KVC_LIB_CONVERSION_TILETOVECTOR_PAGEOPERAND_H
#define KVC_LIB_CONVERSION_TILETOVECTOR_PAGEOPERAND_H

#include "TileEmitter.h"

namespace kvc {

/// `count` scales or zeros at a byte offset, as f32.
mlir::Value loadScales(mlir::ImplicitLocOpBuilder &b, const PageOperand &operand, mlir::Value offset, int64_t count);
/// Fetches the line at a byte offset of the operand's memory plus `ahead`; nothing when that is null.
void fetchAhead(mlir::ImplicitLocOpBuilder &b, const PageOperand &operand, mlir::Value offset, mlir::Value ahead);
/// An element of memory as a block of lanes.
mlir::Value broadcastFrom(mlir::ImplicitLocOpBuilder &b, mlir::Value memory, mlir::ValueRange at,
                          mlir::VectorType type);

/// Computes the addresses of each block of lanes, and widens scales, where the operand is made.
void prepareKeys(mlir::ImplicitLocOpBuilder &b, TileEmitter &emitter, PageOperand &operand);
/// Units of channels `unit * pack + e`, for the slots of a block of lanes: their bytes, or as elements, one
/// vector<lanes x f32> for each e, or one vector<2 lanes x bf16> for pairs.
mlir::Value loadKeyBytes(mlir::ImplicitLocOpBuilder &b, TileEmitter &emitter, const PageOperand &operand, int64_t block,
                         mlir::Value unit);
llvm::SmallVector<mlir::Value> loadKeyUnit(mlir::ImplicitLocOpBuilder &b, TileEmitter &emitter,
                                           const PageOperand &operand, int64_t block, mlir::Value unit);

void prepareValues(mlir::ImplicitLocOpBuilder &b, TileEmitter &emitter, PageOperand &operand);
/// A run of slots of one head block: number of its first slot in the tile, byte offset of the head block, slot within
/// it, bytes to the same place of the next tile (null: nothing is fetched ahead).
struct ValueChunk {
  mlir::Value first, base, slot, ahead;
};
ValueChunk valueChunk(mlir::ImplicitLocOpBuilder &b, TileEmitter &emitter, const PageOperand &operand,
                      mlir::Value first);
/// Units of slots `unit * pack + e` of a chunk, for the channels of a block of lanes: as for keys.
mlir::Value loadValueBytes(mlir::ImplicitLocOpBuilder &b, TileEmitter &emitter, const PageOperand &operand,
                           const ValueChunk &chunk, mlir::Value unit, mlir::Value block);
llvm::SmallVector<mlir::Value> loadValueUnit(mlir::ImplicitLocOpBuilder &b, TileEmitter &emitter,
                                             const PageOperand &operand, const ValueChunk &chunk, mlir::Value unit,
                                             mlir::Value block);

} // namespace kvc

#endif // KVC_LIB_CONVERSION_TILETOVECTOR_PAGEOPERAND_H
