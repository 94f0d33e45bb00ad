//===- PageOperand.h - Units of page operands as lanes ----------*- C++ -*-===//
#ifndef KVC_LIB_CONVERSION_TILETOVECTOR_PAGEOPERAND_H
#define KVC_LIB_CONVERSION_TILETOVECTOR_PAGEOPERAND_H

#include "TileEmitter.h"

namespace kvc {

/// Computes the addresses of each block of lanes, and widens scales, where the operand is made.
void prepareKeys(mlir::ImplicitLocOpBuilder &b, TileEmitter &emitter, PageOperand &operand);
/// Elements `unit * pack + e` of the channels, for the slots of a block of lanes: one vector<lanes x f32> for each e,
/// or one vector<2 lanes x bf16> for pairs.
llvm::SmallVector<mlir::Value> loadKeyUnit(mlir::ImplicitLocOpBuilder &b, TileEmitter &emitter,
                                           const PageOperand &operand, int64_t block, mlir::Value unit);

void prepareValues(mlir::ImplicitLocOpBuilder &b, TileEmitter &emitter, PageOperand &operand);
/// A run of slots of one head block: number of its first slot in the tile, byte offset of the head block, slot within
/// it.
struct ValueChunk {
  mlir::Value first, base, slot;
};
ValueChunk valueChunk(mlir::ImplicitLocOpBuilder &b, TileEmitter &emitter, const PageOperand &operand,
                      mlir::Value first);
/// Slots `unit * pack + e` of a chunk, for the channels of a block of lanes: as loadKeyUnit.
llvm::SmallVector<mlir::Value> loadValueUnit(mlir::ImplicitLocOpBuilder &b, TileEmitter &emitter,
                                             const PageOperand &operand, const ValueChunk &chunk, mlir::Value unit,
                                             int64_t block);

} // namespace kvc

#endif // KVC_LIB_CONVERSION_TILETOVECTOR_PAGEOPERAND_H
