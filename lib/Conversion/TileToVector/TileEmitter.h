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

/// Slots of a cache as the operand of a product: how its units are reached.
struct PageOperand {
  const CacheMemory *cache;
  const PlaneLayout *layout;
  tile::Part part;
  mlir::Value memory; // pages or tails
  int64_t slots, channels;
  /// Coordinates in the cache; `slot` is null for selected slots. Only the first `count` slots exist.
  mlir::Value sequence, head, slot, count;
  /// Slots that surely lie side by side in one head block, from a multiple of it on.
  int64_t chunk;

  /// Keys in their layout: byte offsets of the units and scales of each block of lanes.
  llvm::SmallVector<mlir::Value> unitBase, scaleBase;
  /// Per-channel scales of keys (memref<lane blocks x channels x f32>) and per-token scales of values (memref<slots *
  /// groups x f32>), widened; null without.
  mlir::Value wideScales, wideZeros;
  /// Unpacked copy: keys [channels x slots], values [slots x padded channels]; null when read in place.
  mlir::Value staged;

  bool isKey() const { return layout->plane == kvcache::Plane::K; }
  /// Pairs of bf16 that go into the dot instruction as they are.
  bool isPairs() const { return !staged && layout->pack == 2 && !layout->format.isInteger(); }
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

  // Operands.cpp
  void emitOperand(tile::OperandOp op);
  void emitGatherOperand(tile::GatherOperandOp op);
  // Products.cpp
  llvm::LogicalResult emitMma(tile::MmaOp op);
  // Softmax.cpp
  void emitSoftmaxStep(tile::SoftmaxStepOp op);
  void emitSoftmaxFinish(tile::SoftmaxFinishOp op);

  PageOperand &operandOf(mlir::Value value) { return operands.find(value)->second; }
  /// Whether some product wants `tile` as pairs of bf16.
  bool wantsPairs(mlir::Value tile);
  /// memref<rows x columns / 2 x i32>: two bf16 each; null when no product wants it.
  mlir::Value pairsOf(mlir::Value tile) const { return pairs.lookup(tile); }
  mlir::Value allocatePairs(mlir::Value tile);
  void storePairs(Builder &b, mlir::Value buffer, mlir::Value row, int64_t block, mlir::Value values);

  KernelContext &context;
  int64_t lanes;

private:
  llvm::LogicalResult emitBlock(mlir::Block &block);
  llvm::LogicalResult emitLoop(mlir::scf::ForOp loop);
  llvm::LogicalResult emitOp(mlir::Operation *op);
  void emitLoadRows(tile::LoadRowsOp op);
  void emitStoreRows(tile::StoreRowsOp op);
  void emitRowPositions(tile::RowPositionsOp op);
  void emitLoadHeads(tile::LoadHeadsOp op);
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
