//===- CodeTile.h - Codes of pages, loaded a tile ahead ---------*- C++ -*-===//
#ifndef KVC_LIB_CONVERSION_TILETOGPU_CODETILE_H
#define KVC_LIB_CONVERSION_TILETOGPU_CODETILE_H

#include "../TileToVector/Ix.h"
#include "StageReader.h"

#include "mlir/IR/IRMapping.h"

#include <numeric>
#include <optional>

namespace kvc {

/// An operand of integer codes as registers of the lanes. Every warp has slots of its own, side by side; its lanes
/// divide them into steps of `rows` slots x `across` runs of `channels` channels, one for each lane.
class CodeTile {
public:
  /// Where the numbers go: to staging memory, for all warps, or to the words of keys that a lane has of its warp's
  /// slots as the second operand of products.
  enum class Form { Staged, Keys };

  /// The operand, decoded to staging memory from `offset` on if it goes there; nothing where its pages do not have the
  /// form for it, and then the reason in `why`.
  static std::optional<CodeTile> create(TeamEmitter &emitter, mlir::Operation *op, mlir::scf::ForOp loop, Form form,
                                        int64_t offset, std::string &why);

  /// Types of a lane's registers.
  llvm::SmallVector<mlir::Type> types() const;
  /// Where the head blocks of the tile of iteration `iv` of a loop begin in memory; anything past its end.
  llvm::SmallVector<mlir::Value> findBlocks(mlir::ImplicitLocOpBuilder &b, mlir::scf::ForOp loop, mlir::Value iv) const;
  /// Whether another operand of the loop lies in the same ones.
  bool sharesBlocks(const CodeTile &other) const;
  /// Loads that tile, from `blocks` or (none) from where its table says; any registers past the loop's end.
  llvm::SmallVector<mlir::Value> load(mlir::ImplicitLocOpBuilder &b, mlir::scf::ForOp loop, mlir::Value iv,
                                      mlir::ValueRange blocks) const;
  /// Stores the numbers to staging memory.
  void decode(mlir::ImplicitLocOpBuilder &b, mlir::ValueRange registers) const;
  /// Gives words of keys, which are decoded when they are asked for.
  std::unique_ptr<StageReader> keyReader(mlir::ImplicitLocOpBuilder &b, mlir::ValueRange registers) const;
  /// Neighbouring channels that a lane has.
  int64_t run() const { return channels; }

  mutable tile::OperandOp op;
  StagedOperand staged;
  Form form = Form::Staged;

private:
  CodeTile(TeamEmitter &emitter, tile::OperandOp op, const CacheMemory &cache, const PlaneLayout &plane,
           const StagedOperand &staged)
      : op(op), staged(staged), emitter(&emitter), cache(&cache), plane(&plane) {}

  /// Picks `channels`, `rows` and `across`; false where no choice divides a warp's slots.
  bool divideLanes();
  int64_t rowSteps() const { return llvm::divideCeil(slotsOfWarp, rows); }
  /// First slot of a step: the last one repeats slots of the one before where `rows` does not divide them.
  int64_t rowOffset(int64_t step) const { return std::min(step * rows, slotsOfWarp - rows); }
  int64_t parts() const { return staged.chunks / chunks(); }
  int64_t partSteps() const { return parts() / across; }
  /// Whether slots of a step have pages of their own.
  bool hasOwnRuns() const { return rows > runSlots; }
  /// Of a lane and step: 32-bit words of codes, 16-byte chunks of staging memory.
  int64_t words() const { return channels * plane->format.getBits() / 32; }
  int64_t wordsOfStep() const { return words() + (perChannel ? 0 : 1); }
  int64_t chunks() const { return channels / 8; }
  /// A lane's row of a step, and which of the row's runs of `channels` channels it has.
  struct Place {
    mlir::Value row, part;
  };
  Place placeOf(mlir::ImplicitLocOpBuilder &b) const;
  /// A slot of block `number`, from the tile's first on: that of a run's begin, or the lane's own.
  Ix slotOfBlock(mlir::ImplicitLocOpBuilder &b, int64_t number) const;
  /// What the operand says of a tile.
  struct TilePlace {
    mlir::Value slot, count, sequence, head;
  };
  /// `blocks`: as findBlocks gives them, or none.
  llvm::SmallVector<mlir::Value> loadTile(mlir::ImplicitLocOpBuilder &b, const TilePlace &tile, mlir::ValueRange blocks,
                                          bool isWhole) const;
  /// Codes, scales and zeros of a lane's run of channels.
  struct Run {
    mlir::ValueRange codes;
    llvm::SmallVector<mlir::Value> scales, zeros;
  };
  Run runOf(mlir::ImplicitLocOpBuilder &b, mlir::ValueRange registers, int64_t step) const;

  class KeyReader;

  TeamEmitter *emitter;
  const CacheMemory *cache;
  const PlaneLayout *plane;
  int64_t slotsOfWarp = 0, channels = 0, rows = 0, across = 0;
  /// Slots in a row that surely share a page (and scales of channels).
  int64_t runSlots = 0;
  bool perChannel = false;
};

/// The tiles of codes of one loop: each is decoded in front of its product, where the next one's loads begin.
class CodeTiles {
public:
  explicit CodeTiles(TeamEmitter &emitter) : emitter(emitter) {}

  /// Returns the first byte of staging memory behind the tile.
  int64_t add(const CodeTile &tile, mlir::ImplicitLocOpBuilder &b);
  /// Whether one of them has no barrier in front of its product.
  bool haveKeys() const {
    return llvm::any_of(tiles, [](const CodeTile &tile) { return tile.form == CodeTile::Form::Keys; });
  }
  /// Appends the registers of the loop's first tiles to what it carries.
  void loadFirst(mlir::ImplicitLocOpBuilder &b, mlir::scf::ForOp loop, llvm::SmallVectorImpl<mlir::Value> &init);
  /// `registers`: what the lowered loop carries of them, and maybe more behind.
  void attach(mlir::scf::ForOp loop, mlir::ValueRange registers);
  /// Behind the body: appends the registers of the next tiles to what it yields.
  void finish(llvm::SmallVectorImpl<mlir::Value> &results);

private:
  llvm::SmallVector<mlir::Value> load(mlir::ImplicitLocOpBuilder &b, size_t number, mlir::scf::ForOp loop,
                                      mlir::Value iv);

  TeamEmitter &emitter;
  llvm::SmallVector<CodeTile, 2> tiles;
  /// Head blocks of the tile that was looked up last.
  llvm::SmallVector<mlir::Value> blocks;
  llvm::SmallVector<llvm::SmallVector<mlir::Value>, 2> next;
};

} // namespace kvc

#endif // KVC_LIB_CONVERSION_TILETOGPU_CODETILE_H
