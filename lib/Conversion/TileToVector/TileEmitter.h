//===- TileEmitter.h - Virtual vectors as memory and lanes ------*- C++ -*-===//
//
// On a machine whose lanes are the elements of a vector, a tile (vector<M x N> or vector<M>) either lies in memory, in
// rows padded to whole blocks of lanes, or is a lazy expression of tiles that is pulled, a block of lanes at a time, by
// whoever consumes it. Products and the softmax step consume; element-wise operations and broadcasts are lazy.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_LIB_CONVERSION_TILETOVECTOR_TILEEMITTER_H
#define KVC_LIB_CONVERSION_TILETOVECTOR_TILEEMITTER_H

#include "KernelContext.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

namespace kvc {

/// How a product reads a page operand.
enum class Access {
  Rows,    // from a copy that is unpacked slot by slot
  Units,   // from a copy that is unpacked unit by unit, where many rows read it again and again
  Pairs,   // in place: pairs of bf16 go into the dot instruction as they are
  Numbers, // in place: f32 once a unit is loaded
  Codes    // in place: codes are multiplied as they are; scales and zeros go into the other operand and the result
};

/// Slots of a cache as the operand of a product: how its units are reached.
struct PageOperand {
  const CacheMemory *cache;
  const PlaneLayout *layout;
  tile::Part part;
  Access access;
  mlir::Value memory; // pages or tails
  int64_t slots, channels;
  /// Coordinates in the cache; `slot` is null for selected slots. Only the first `count` slots exist.
  mlir::Value sequence, head, slot, count;
  /// Slots that surely lie side by side in one head block, from a multiple of it on.
  int64_t chunk;

  /// Keys in their layout: byte offsets of the units and of the first scales of each block of lanes.
  llvm::SmallVector<mlir::Value> unitBase, scaleBase;
  /// Keys: bytes from each block of lanes to the same place of the next tile; empty when nothing is fetched ahead.
  llvm::SmallVector<mlir::Value> ahead;
  /// Widened to f32: per-channel scales of keys (memref<lane blocks x channels x f32>) and per-token scales of values
  /// (memref<groups x padded slots x f32>); null without.
  mlir::Value wideScales, wideZeros;
  /// Unpacked copy: keys [channels x slots], values [slots x padded channels]; null when read in place.
  mlir::Value staged;

  bool isKey() const { return layout->plane == kvcache::Plane::K; }
  bool isPairs() const { return access == Access::Pairs; }
  /// Pages lie anywhere in memory, so that a machine's own prefetcher stops at their ends. A copy is read often enough
  /// to hide that.
  bool fetchesAhead() const { return part == tile::Part::Pages && access != Access::Rows && access != Access::Units; }
  /// Whether elements along `axis` share scales.
  bool isGrouped(kvcache::Axis axis) const { return layout->format.isInteger() && layout->format.getAxis() == axis; }
  /// Groups of channels of one slot.
  int64_t channelGroups() const { return channels / layout->format.getGroup(); }
};

class TileEmitter {
public:
  explicit TileEmitter(KernelContext &context)
      : context(context), lanes(context.getTarget().lanes),
        entry(mlir::ImplicitLocOpBuilder::atBlockBegin(context.kernel.getLoc(), &context.kernel.getBody().front())) {}

  llvm::LogicalResult run();

  using Builder = mlir::ImplicitLocOpBuilder;

  int64_t blocksOf(int64_t columns) const { return llvm::divideCeil(columns, lanes); }
  int64_t padded(int64_t columns) const { return blocksOf(columns) * lanes; }
  mlir::VectorType laneType(mlir::Type element) const { return mlir::VectorType::get({lanes}, element); }

  /// Memory of the kernel's frame: allocated once, at its entry.
  mlir::Value allocate(llvm::ArrayRef<int64_t> shape, mlir::Type element);
  /// The memory of a tile that lies there; null for a lazy one.
  mlir::Value bufferOf(mlir::Value tile) const { return buffers.lookup(tile); }
  void setBuffer(mlir::Value tile, mlir::Value buffer) { buffers[tile] = buffer; }
  /// Evaluates a tile into memory (its own, when it lies there already).
  mlir::Value materialize(Builder &b, mlir::Value tile);

  /// A block of lanes of row `row` (index) of a vector<M x N>; columns past N are undefined or zero.
  mlir::Value pull(Builder &b, mlir::Value tile, mlir::Value row, int64_t block);
  /// The element of row `row` of a vector<M> or vector<M x 1>.
  mlir::Value pullRow(Builder &b, mlir::Value tile, mlir::Value row);
  /// A block of lanes of a vector<N>.
  mlir::Value pullColumns(Builder &b, mlir::Value tile, int64_t block);

  /// for row = begin .. end - 1 in steps: body(builder, row).
  void forRange(Builder &b, mlir::Value begin, mlir::Value end, int64_t step,
                llvm::function_ref<void(Builder &, mlir::Value)> body);
  void forRows(Builder &b, int64_t rows, llvm::function_ref<void(Builder &, mlir::Value)> body);
  /// For the first column of each block of lanes of `columns`: body(builder, column). A loop when there are many.
  void forLaneBlocks(Builder &b, int64_t columns, llvm::function_ref<void(Builder &, mlir::Value)> body);

  // Operands.cpp
  void emitOperand(tile::OperandOp op);
  void emitGatherOperand(tile::GatherOperandOp op);
  // Products.cpp
  llvm::LogicalResult emitMma(tile::MmaOp op);
  // Softmax.cpp
  void emitSoftmaxStep(tile::SoftmaxStepOp op);
  void emitSoftmaxFinish(tile::SoftmaxFinishOp op);

  PageOperand &operandOf(mlir::Value value) { return operands.find(value)->second; }
  /// An operand before anything is emitted for it.
  PageOperand describeOperand(tile::OperandOp op) const;
  /// Calls `visit` for the page operands that `tile` is multiplied with in place.
  void forPartners(mlir::Value tile, llvm::function_ref<void(const PageOperand &)> visit) const;
  /// Whether some product wants `tile` as pairs of bf16.
  bool wantsPairs(mlir::Value tile);
  /// memref<rows x columns / 2 x i32>: two bf16 each; null when no product wants it.
  mlir::Value pairsOf(mlir::Value tile) const { return pairs.lookup(tile); }
  mlir::Value allocatePairs(mlir::Value tile);
  void storePairs(Builder &b, mlir::Value buffer, mlir::Value row, int64_t block, mlir::Value values);
  /// memref<rows x groups x f32>: sums of a tile in memory over groups of columns, made where the tile is.
  mlir::Value groupSumsOf(mlir::Value tile, int64_t group) const { return groupSums.lookup({tile, group}); }

  KernelContext &context;
  int64_t lanes;

private:
  llvm::LogicalResult emitBlock(mlir::Block &block);
  llvm::LogicalResult emitLoop(mlir::scf::ForOp loop);
  llvm::LogicalResult emitOp(mlir::Operation *op);
  /// Makes what products with `tile`, which lies in memory, want to know of it beforehand.
  void prepareFirstOperand(Builder &b, mlir::Value tile);
  void emitLoadRows(tile::LoadRowsOp op);
  void emitStoreRows(tile::StoreRowsOp op);
  void emitRowPositions(tile::RowPositionsOp op);
  void emitLoadHeads(tile::LoadHeadsOp op);
  void emitLoadMask(tile::LoadMaskOp op);
  void emitSlotPositions(tile::SlotPositionsOp op);
  void emitGatherPositions(tile::GatherPositionsOp op);
  void emitStoreSlotNumbers(tile::StoreSlotNumbersOp op);
  void emitColumnReduction(mlir::vector::MultiDimReductionOp op);
  /// Memory for a tile, rows padded to whole blocks of lanes.
  mlir::Value allocateTile(mlir::VectorType type);
  void copyInto(Builder &b, mlir::Value tile, mlir::Value buffer);
  /// Clones an element-wise op on other operands and result types.
  mlir::Value cloneElementwise(Builder &b, mlir::Operation *op, mlir::ValueRange operands,
                               llvm::function_ref<mlir::Type(mlir::Type)> retype);

  Builder entry;
  llvm::DenseMap<mlir::Value, mlir::Value> buffers, pairs;
  llvm::DenseMap<std::pair<mlir::Value, int64_t>, mlir::Value> groupSums;
  llvm::DenseMap<mlir::Value, PageOperand> operands;
  llvm::SmallVector<mlir::Operation *> done;
};

inline mlir::Value indexOf(mlir::ImplicitLocOpBuilder &b, int64_t value) {
  return mlir::arith::ConstantIndexOp::create(b, value);
}
inline mlir::Value add(mlir::ImplicitLocOpBuilder &b, mlir::Value x, mlir::Value y) {
  return mlir::arith::AddIOp::create(b, x, y);
}
inline mlir::Value mul(mlir::ImplicitLocOpBuilder &b, mlir::Value x, int64_t y) {
  return mlir::arith::MulIOp::create(b, x, indexOf(b, y));
}
inline mlir::Value floatOf(mlir::ImplicitLocOpBuilder &b, float value) {
  return mlir::arith::ConstantOp::create(b, b.getF32FloatAttr(value));
}

} // namespace kvc

#endif // KVC_LIB_CONVERSION_TILETOVECTOR_TILEEMITTER_H
