//===- CodeTile.h - Codes of pages, loaded a tile ahead ---------*- C++ -*-===//
#ifndef KVC_LIB_CONVERSION_TILETOGPU_CODETILE_H
#define KVC_LIB_CONVERSION_TILETOGPU_CODETILE_H

#include "../TileToVector/Ix.h"
#include "TeamEmitter.h"

#include "mlir/IR/IRMapping.h"

#include <numeric>
#include <optional>

namespace kvc {

/// An operand of integer codes with scales in f16, as registers of the lanes. Every warp has slots of its own, side by
/// side; its lanes divide them into steps of `rows` slots, each with `channels` channels for a lane.
class CodeTile {
public:
  /// The operand, decoded to staging memory from `offset` on; nothing where its pages do not have the form for it.
  static std::optional<CodeTile> create(TeamEmitter &emitter, mlir::Operation *op, mlir::scf::ForOp loop,
                                        int64_t offset);

  /// Types of a lane's registers.
  llvm::SmallVector<mlir::Type> types() const;
  /// Loads the tile of iteration `iv` of a loop; any registers past its end.
  llvm::SmallVector<mlir::Value> load(mlir::ImplicitLocOpBuilder &b, mlir::scf::ForOp loop, mlir::Value iv) const;
  /// Stores the numbers to staging memory.
  void decode(mlir::ImplicitLocOpBuilder &b, mlir::ValueRange registers) const;

  mutable tile::OperandOp op;
  StagedOperand staged;

private:
  CodeTile(TeamEmitter &emitter, tile::OperandOp op, const CacheMemory &cache, const PlaneLayout &plane,
           const StagedOperand &staged)
      : op(op), staged(staged), emitter(&emitter), cache(&cache), plane(&plane) {}

  /// Picks `channels` and `rows`; false where no choice divides a warp's slots.
  bool divideLanes();
  int64_t steps() const { return slotsOfWarp / rows; }
  /// Of a lane and step: 32-bit words of codes, 16-byte chunks of staging memory.
  int64_t words() const { return channels * plane->format.getBits() / 32; }
  int64_t chunks() const { return channels / 8; }
  /// A lane's row of a step, and which of the row's runs of `channels` channels it has.
  struct Place {
    mlir::Value row, part;
  };
  Place placeOf(mlir::ImplicitLocOpBuilder &b) const;
  llvm::SmallVector<mlir::Value> loadTile(mlir::ImplicitLocOpBuilder &b, mlir::Value slot, mlir::Value count,
                                          mlir::Value sequence, mlir::Value head, bool isWhole) const;

  TeamEmitter *emitter;
  const CacheMemory *cache;
  const PlaneLayout *plane;
  int64_t slotsOfWarp = 0, channels = 0, rows = 0;
  /// Slots in a row that surely share a page (and scales of channels).
  int64_t run = 0;
  bool perChannel = false;
};

} // namespace kvc

#endif // KVC_LIB_CONVERSION_TILETOGPU_CODETILE_H
