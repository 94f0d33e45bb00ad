//===- Ring.h - Tiles on their way to staging memory ------------*- C++ -*-===//
#ifndef KVC_LIB_CONVERSION_TILETOGPU_RING_H
#define KVC_LIB_CONVERSION_TILETOGPU_RING_H

#include "TeamEmitter.h"

namespace kvc {

/// Whether rows go to the ring as they lie in pages, beside those of `first` (null: it is the first).
bool fitsRing(TeamEmitter &emitter, mlir::Operation *operation, tile::OperandOp first);
/// The loop over tiles whose softmax state the loop carries, with the operands that fit a ring and those that do not;
/// without a loop where it carries something else.
TileLoop describeLoop(TeamEmitter &emitter, mlir::scf::ForOp loop, llvm::SmallVectorImpl<LateOperand> &others);

/// A softmax state as the registers that a loop carries.
class CarriedState {
public:
  CarriedState(TeamEmitter &emitter, const TileLoop &tiles, const MmaAtom &atom);
  /// Registers of the state among `values`, which are the loop's (or another's) tiles in their order.
  llvm::SmallVector<mlir::Value> pull(mlir::ImplicitLocOpBuilder &b, mlir::ValueRange values) const;
  /// From now on the state among `values` is held in the first of `registers`.
  void set(mlir::ValueRange registers, mlir::ValueRange values) const;

private:
  TeamEmitter &emitter;
  llvm::SmallVector<std::pair<unsigned, Layout>> parts;
};

/// The copies of one loop.
class Ring {
public:
  Ring(TeamEmitter &emitter, mlir::scf::ForOp loop, llvm::ArrayRef<tile::OperandOp> operands)
      : emitter(emitter), loop(loop), warps(emitter.warps) {
    for (tile::OperandOp op : operands) {
      StagedOperand operand;
      operand.op = op;
      this->operands.push_back(operand);
    }
  }

  void prepare();
  int64_t bytes() const { return stagingBytes; }
  int64_t stageCount() const { return stages; }
  /// Groups on their way in front of every wait: all stages but what was used last.
  int64_t groups() const { return static_cast<int64_t>(operands.size()) * stages - 1; }

  /// The page of this warp's (or lane's) rows of the tile at `iv`, an i32; 0 past the loop's end.
  mlir::Value loadPage(mlir::ImplicitLocOpBuilder &b, mlir::Value iv);
  /// Starts the copies of operand `number` of the tile at `iv` to stage `stage` (i32); an empty group past the end.
  void copy(mlir::ImplicitLocOpBuilder &b, size_t number, mlir::Value iv, mlir::Value page, mlir::Value stage);

  //===-- RingOfRegisters.cpp ---------------------------------------------===//
  /// Whether rows go through registers, to one stage. Numbers of slots are words then: the loop's variable is an i32.
  bool isOfRegisters() const { return ofRegisters; }
  /// Whether a tile counts the slots up to the loop's end, so that one behind it has none.
  bool countsSlotsToEnd() const { return toEnd; }
  /// The page of this warp's (or lane's) rows of the tile at `iv`, which is inside the loop or, where tiles count to
  /// the end, the first behind it.
  mlir::Value lookUp(mlir::ImplicitLocOpBuilder &b, mlir::Value iv);
  /// Where this warp's rows of a tile begin and end, as numbers that a loop can carry; no row where not `inside` (i1).
  llvm::SmallVector<mlir::Value> locate(mlir::ImplicitLocOpBuilder &b, mlir::Value iv, mlir::Value page,
                                        mlir::Value inside);
  /// Loads this lane's share of operand `number` of a tile; zeros, and nothing is read, behind the last row. Rows that
  /// go to their image without registers are none of the result: `store` waits for them.
  llvm::SmallVector<mlir::Value> load(mlir::ImplicitLocOpBuilder &b, size_t number, mlir::Value iv,
                                      mlir::ValueRange place);
  void store(mlir::ImplicitLocOpBuilder &b, size_t number, llvm::ArrayRef<mlir::Value> values);

  /// The loop's body has moved.
  void moveTo(mlir::scf::ForOp other) { loop = other; }

  llvm::SmallVector<StagedOperand> operands;

private:
  /// What a lane loads of an operand at once: neighbouring slots, a load for each, and bytes of each.
  struct Piece {
    int64_t slots, bytes;
  };
  static Piece pieceOf(const StagedOperand &operand);
  /// Pieces of a row of pieces, and of so many slots.
  static int64_t piecesOfRow(const StagedOperand &operand) { return operand.chunks * 16 / pieceOf(operand).bytes; }
  static int64_t piecesOf(const StagedOperand &operand, int64_t slots) {
    return slots / pieceOf(operand).slots * piecesOfRow(operand);
  }
  /// Row (of pieces) and place in it of this lane's piece `i`: what lanes do not have in common, and the rows that they
  /// have.
  struct PiecePlace {
    mlir::Value row, piece;
    int64_t further;
  };
  PiecePlace placeOf(mlir::ImplicitLocOpBuilder &b, const StagedOperand &operand, int64_t i);
  /// Whether an operand's rows go to their image without registers: a load's rows share a page.
  bool copies(const StagedOperand &operand) const { return operand.image && runRows > 1; }
  /// Of a piece of an image: which bits of its chunk's number are flipped.
  mlir::Value flipsAt(mlir::ImplicitLocOpBuilder &b, const StagedOperand &operand, const PiecePlace &place);
  /// Number of a slot in its page (index); `slot` (index) is the tile's first one.
  mlir::Value slotInPage(mlir::ImplicitLocOpBuilder &b, mlir::Value slot, mlir::Value row);

  /// Bytes of a page up to the head's block, from the pages' begin (index).
  mlir::Value blockOffset(mlir::ImplicitLocOpBuilder &b, mlir::Value page);
  mlir::Value isInside(mlir::ImplicitLocOpBuilder &b, mlir::Value iv) {
    return mlir::arith::CmpIOp::create(b, mlir::arith::CmpIPredicate::slt, iv, loop.getUpperBound());
  }
  /// `value` as it is at another iteration.
  mlir::Value at(mlir::ImplicitLocOpBuilder &b, mlir::Value value, mlir::Value iv, mlir::IRMapping &mapping) {
    return valueAt(b, loop, value, iv, mapping);
  }
  /// First slot of a tile that this warp, and in the general case this lane, copies.
  mlir::Value ownRow(mlir::ImplicitLocOpBuilder &b) {
    mlir::Value first = mulWords(b, emitter.warp, rowsPerWarp);
    if (runRows != rowsPerWarp) {
      first = addWords(b, first, mlir::arith::RemUIOp::create(b, emitter.lane, wordOf(b, rowsPerWarp)));
    }
    return first;
  }

  TeamEmitter &emitter;
  mlir::scf::ForOp loop;
  int64_t warps, stages = 0, rowsPerWarp = 0, stagingBytes = 0;
  bool ofRegisters = false, toEnd = false;
  /// As many rows of a warp, and the next ones, surely lie side by side in one page: all, or what several copies make.
  int64_t runRows = 1;
};

} // namespace kvc

#endif // KVC_LIB_CONVERSION_TILETOGPU_RING_H
