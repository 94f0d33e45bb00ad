//===- DirectTile.h - Operands from pages to registers ----------*- C++ -*-===//
#ifndef KVC_LIB_CONVERSION_TILETOGPU_DIRECTTILE_H
#define KVC_LIB_CONVERSION_TILETOGPU_DIRECTTILE_H

#include "StageReader.h"

#include <memory>

namespace kvc {

/// How the lanes of a team divide keys or values of a tile whose slots the warps divide.
struct DirectShape {
  TeamEmitter *emitter = nullptr;
  mutable tile::OperandOp op = nullptr;
  const CacheMemory *cache = nullptr;
  const PlaneLayout *plane = nullptr;
  const MmaAtom *atom = nullptr;
  ProductType product = ProductType::F16;
  Use use = Use::Keys;
  /// As of StageReader.
  int64_t steps = 1, tiles = 1;
  /// Slots of a warp, and as many in a row as surely share a page: whole instructions'.
  int64_t slotsOfWarp = 0, runSlots = 0;
  /// Of keys: neighbouring channels that a lane loads at once.
  int64_t chunk = 8;

  llvm::SmallVector<LaneRun> runs() const {
    return laneRuns(*atom, use, steps, tiles, slotsOfWarp, plane->channels, chunk);
  }
  /// The lane's own slot and channel, which those of a run come behind (i32).
  mlir::Value ownSlot(mlir::ImplicitLocOpBuilder &b) const;
  mlir::Value ownChannel(mlir::ImplicitLocOpBuilder &b) const;
  /// Whether a slot behind the lane's own, or (`isShared`) behind the warp's first, is below the count (i32).
  mlir::Value isUsed(mlir::ImplicitLocOpBuilder &b, int64_t slot, mlir::Value count, bool isShared = false) const;
};

/// Keys or values of a tile as registers of the lanes: each lane loads from pages what the product's layout gives it.
class DirectTile {
public:
  /// Nothing where the operand, its pages or the machine do not have the form for it.
  static std::unique_ptr<DirectTile> create(TeamEmitter &emitter, mlir::Operation *op, mlir::scf::ForOp loop);
  virtual ~DirectTile() = default;

  /// Where slots begin that share a page: byte offset of the head block in `pages`, slot in the page. The same in all
  /// lanes.
  struct Place {
    mlir::Value block, inPage;
  };
  /// Types of a lane's registers.
  virtual llvm::SmallVector<mlir::Type> types() const = 0;
  /// Loads the slots that begin at `places`, also such as are not used: pages are there as a whole.
  virtual llvm::SmallVector<mlir::Value> load(mlir::ImplicitLocOpBuilder &b, llvm::ArrayRef<Place> places) const = 0;
  /// Registers with zeros for the slots from `count` (i32) on. Of keys what they hold is masked as scores.
  virtual llvm::SmallVector<mlir::Value> clear(mlir::ImplicitLocOpBuilder &b, mlir::ValueRange registers,
                                               mlir::Value count) const = 0;
  /// Reads a tile's registers.
  virtual std::unique_ptr<StageReader> reader(mlir::ImplicitLocOpBuilder &b, mlir::ValueRange registers) const = 0;

  const DirectShape &shape() const { return form; }
  /// Neighbouring channels that a lane has of keys from codes, else 0.
  int64_t keyRun() const { return form.use == Use::Keys && form.plane->format.isInteger() ? form.chunk : 0; }

protected:
  explicit DirectTile(const DirectShape &shape) : form(shape) {}
  const DirectShape form;
};

/// Registers of a lane with a tile.
int64_t registersOf(const DirectTile &tile);

/// Gives numbers in registers: a vector for each run of the shape.
std::unique_ptr<StageReader> createHeldReader(mlir::ImplicitLocOpBuilder &b, const DirectShape &shape,
                                              llvm::ArrayRef<mlir::Value> numbers);

/// A tile of integer codes (DirectCodes.cpp); nothing where they do not have the form for it.
std::unique_ptr<DirectTile> createDirectCodes(DirectShape shape);

} // namespace kvc

#endif // KVC_LIB_CONVERSION_TILETOGPU_DIRECTTILE_H
