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

  llvm::SmallVector<LaneRun> runs() const { return laneRuns(*atom, use, steps, tiles, slotsOfWarp, plane->channels); }
  /// The lane's own slot and channel, which those of a run come behind, and the slot in the tile (i32).
  mlir::Value ownSlot(mlir::ImplicitLocOpBuilder &b) const;
  mlir::Value ownChannel(mlir::ImplicitLocOpBuilder &b) const;
  mlir::Value slotInTile(mlir::ImplicitLocOpBuilder &b, int64_t slot) const;
  /// Whether a slot behind the lane's own is below the count, an i32; null where `count` is, that is all are.
  mlir::Value isUsed(mlir::ImplicitLocOpBuilder &b, int64_t slot, mlir::Value count) const;
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
  /// Loads the slots that begin at `places`; zeros for those from `count` on (null: there are none).
  virtual llvm::SmallVector<mlir::Value> load(mlir::ImplicitLocOpBuilder &b, llvm::ArrayRef<Place> places,
                                              mlir::Value count) const = 0;
  /// Reads a tile's registers.
  virtual std::unique_ptr<StageReader> reader(mlir::ImplicitLocOpBuilder &b, mlir::ValueRange registers) const = 0;

  const DirectShape &shape() const { return form; }

protected:
  explicit DirectTile(const DirectShape &shape) : form(shape) {}
  const DirectShape form;
};

/// Gives numbers in registers: a vector for each run of the shape.
std::unique_ptr<StageReader> createHeldReader(mlir::ImplicitLocOpBuilder &b, const DirectShape &shape,
                                              llvm::ArrayRef<mlir::Value> numbers);

} // namespace kvc

#endif // KVC_LIB_CONVERSION_TILETOGPU_DIRECTTILE_H
