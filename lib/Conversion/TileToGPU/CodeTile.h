//===- CodeTile.h - Codes of pages, loaded a tile ahead ---------*- C++ -*-===//
#ifndef KVC_LIB_CONVERSION_TILETOGPU_CODETILE_H
#define KVC_LIB_CONVERSION_TILETOGPU_CODETILE_H

#include "../TileToVector/Ix.h"
#include "TeamEmitter.h"

#include "mlir/IR/IRMapping.h"

#include <numeric>
#include <optional>

namespace kvc {

/// An operand of integer codes with scales in f16, as registers of the lanes.
class CodeTile {
public:
  /// The operand, decoded to staging memory from `offset` on; nothing where its pages do not have the form for it.
  static std::optional<CodeTile> create(TeamEmitter &emitter, mlir::Operation *op, mlir::scf::ForOp loop,
                                        int64_t offset);

  /// Types of a lane's registers.
  llvm::SmallVector<mlir::Type> types() const;
  /// Loads the tile of iteration `iv` of a loop; zeros past its end.
  llvm::SmallVector<mlir::Value> load(mlir::ImplicitLocOpBuilder &b, mlir::scf::ForOp loop, mlir::Value iv) const;
  /// Stores the numbers to staging memory.
  void decode(mlir::ImplicitLocOpBuilder &b, mlir::ValueRange registers) const;

  mutable tile::OperandOp op;
  StagedOperand staged;

private:
  CodeTile(TeamEmitter &emitter, tile::OperandOp op, const CacheMemory &cache, const PlaneLayout &plane,
           const StagedOperand &staged)
      : op(op), staged(staged), emitter(&emitter), cache(&cache), plane(&plane) {}

  int64_t steps() const { return staged.slots / rows; }
  /// 32-bit registers that hold eight codes.
  int64_t wordsOfChunk() const { return plane->format.getBits() == 8 ? 2 : 1; }
  mlir::Value thread(mlir::ImplicitLocOpBuilder &b) const {
    return addWords(b, mulWords(b, emitter->warp, emitter->facts.lanes), emitter->lane);
  }
  mlir::Value chunkOfLane(mlir::ImplicitLocOpBuilder &b) const {
    return toIndex(b, mlir::arith::RemUIOp::create(b, thread(b), wordOf(b, staged.chunks)));
  }
  mlir::Value rowOfLane(mlir::ImplicitLocOpBuilder &b) const {
    return toIndex(b, mlir::arith::DivUIOp::create(b, thread(b), wordOf(b, staged.chunks)));
  }
  llvm::SmallVector<mlir::Value> loadTile(mlir::ImplicitLocOpBuilder &b, mlir::Value slot, mlir::Value count,
                                          mlir::Value sequence, mlir::Value head, bool isWhole) const;

  TeamEmitter *emitter;
  const CacheMemory *cache;
  const PlaneLayout *plane;
  /// Slots that a step of the team covers, and slots in a row that surely share a page (and scales of channels).
  int64_t rows = 0, run = 0;
  bool perChannel = false;
};

} // namespace kvc

#endif // KVC_LIB_CONVERSION_TILETOGPU_CODETILE_H
