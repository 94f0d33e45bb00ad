//===- LinearTeam.h - Linear layers of a team on matrix units ---*- C++ -*-===//
//
// Columns of weights are the rows of the instruction, rows of activations its columns, so a lane decodes the columns
// whose sums it holds, and scales them in registers. Activations are split in bf16 numbers that add up to them exactly.
// See docs/rationale/gpu.md.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_LIB_CONVERSION_TILETOGPU_LINEARTEAM_H
#define KVC_LIB_CONVERSION_TILETOGPU_LINEARTEAM_H

#include "../LinearToVector/BlockDecoders.h"

#include "kvc/Dialect/Tile/IR/Lanes.h"
#include "kvc/Dialect/Tile/IR/Tile.h"
#include "kvc/Target/Atoms.h"
#include "kvc/Target/Target.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"

namespace kvc {

/// Warps of a team that runs linear layers.
constexpr int64_t linearWarps = 8;
/// Values of K whose products are emitted together: two steps of the instruction.
constexpr int64_t segmentValues = 32;
/// A limit for values that all exist.
constexpr int64_t allValues = INT64_MAX;

/// How a team takes a pass of rows x columns: warps along rows, columns and K, and how many instructions' worth of rows
/// of activations and columns of weights a warp has.
struct LinearShape {
  int64_t rowTiles, rowWarps, columnTiles, columnWarps, innerWarps;
  /// Activations are split once for all warps, in staging memory.
  bool staged;

  int64_t rows(const MmaAtom &atom) const { return rowTiles * rowWarps * atom.n; }
  int64_t columns(const MmaAtom &atom) const { return columnTiles * columnWarps * atom.m; }
};

/// One weight of a layer, as lanes read it.
struct LinearWeight {
  LinearWeight(tile::LinearOp op, unsigned number, int64_t maxTerms);

  mlir::Value memory;
  const BlockDecoder &decoder;
  bool isPlain;
  int64_t blockValues, blockUnits;
  /// Bytes that the start of every block is a multiple of.
  int64_t alignment;
  /// bf16 numbers of a plain value.
  int64_t terms;
};

/// Where a team's code is and what its lanes are; one for each kernel.
struct LinearContext {
  const TeamFacts &facts;
  const MmaAtom &atom;
  /// Layout of the atom's sums.
  Layout sums;
  /// Lanes that hold different rows of A, of which each has `rowsOfLane` so far apart; lanes that divide a step's
  /// values of K, of which each has `foursOfLane` times four.
  int64_t groups, rowsOfLane, quads, foursOfLane;
  /// Thread, warp; the lane's first row of A, its column of B, its place among those that divide K, its first column of
  /// sums (index).
  mlir::Value thread, warp, group, bColumn, quad, sumColumn;
  mlir::Value staging;
  int64_t stagingBytes = 0;

  int64_t sumsOfLane() const { return sums.inSize(Axis::Register); }
  int64_t columnsOfLane() const { return sumsOfLane() / rowsOfLane; }
  /// Row and column of a register of sums, from the lane's first ones on.
  int64_t rowOf(int64_t reg) const { return sums(reg, 0, 0)[Axis::Row]; }
  int64_t columnOf(int64_t reg) const { return sums(reg, 0, 0)[Axis::Column]; }
};

class LinearTeam {
public:
  using Builder = mlir::ImplicitLocOpBuilder;
  /// `terms`: bf16 numbers of an activation, 3 (exact) or 1.
  LinearTeam(tile::LinearOp op, LinearContext &context, int64_t terms);
  void run();

private:
  using Words = llvm::SmallVector<mlir::Value>;
  /// Of 32 values: for each term the lane's words, half of them for each step of the instruction.
  using SplitWords = llvm::SmallVector<Words>;

  //===-- LinearTeam.cpp ----------------------------------------------------===//
  void emitShape(const LinearShape &shape);
  void emitPass(mlir::Value rowBlock, mlir::Value column);
  /// Sums of this warp: [weight][column tile][row tile][register].
  Words emitSums(mlir::Value rowBlock, mlir::Value column);
  /// Segment `segment` of a step whose values from `limit` on do not exist.
  Words emitSegment(mlir::Value step, int64_t segment, int64_t limit, Words sums);
  void addPlain(const LinearWeight &weight, llvm::ArrayRef<mlir::Value> rows, mlir::Value step, int64_t segment,
                int64_t limit, llvm::ArrayRef<SplitWords> x, llvm::MutableArrayRef<mlir::Value> sums);
  void addCodes(const LinearWeight &weight, llvm::ArrayRef<mlir::Value> rows, mlir::Value step, int64_t segment,
                llvm::ArrayRef<SplitWords> x, llvm::ArrayRef<mlir::Value> xSums,
                llvm::MutableArrayRef<mlir::Value> sums);
  void emitEpilogue(mlir::Value rowBlock, mlir::Value column);
  void emitXSums(mlir::Value rowBlock);
  Words multiply(llvm::ArrayRef<mlir::Value> a, llvm::ArrayRef<mlir::Value> b, llvm::ArrayRef<mlir::Value> acc);

  //===-- LinearOperands.cpp ------------------------------------------------===//
  /// First of the four values number `four` of a segment (or of a step alone) that the lane at place `quad` holds, as
  /// what differs and what is known.
  LaneValues laneValues(mlir::Value quad, int64_t four, bool wholeSegment = true);
  /// Four neighbours of a row as they lie, zeros from `limit` on; `first` counts from `base`, as `limit` does.
  mlir::Value loadFour(mlir::Value memory, mlir::Value row, mlir::Value base, const LaneValues &values, int64_t limit);
  SplitWords split(llvm::ArrayRef<mlir::Value> fours, int64_t terms);
  SplitWords loadX(mlir::Value row, mlir::Value step, int64_t segment, int64_t limit);
  /// Splits values 64 chunk .. of a step for all rows of a pass.
  void stageX(mlir::Value rowBlock, mlir::Value step, int64_t chunk, int64_t limit);
  SplitWords loadStagedX(int64_t rowTile, int64_t segment);
  /// Words of the columns of a lane, in the order of the instruction's operand, for each half and term.
  llvm::SmallVector<SplitWords> loadPlain(const LinearWeight &weight, llvm::ArrayRef<mlir::Value> rows,
                                          mlir::Value step, int64_t segment, int64_t limit);
  /// The same for codes, one half; `wholeSegment`: of two.
  Words loadCodes(const LinearWeight &weight, llvm::ArrayRef<BlockAddress> blocks, int64_t segment, int64_t half,
                  bool wholeSegment);

  mlir::Value index(int64_t value) { return mlir::arith::ConstantIndexOp::create(b, value); }
  mlir::Value add(mlir::Value x, mlir::Value y) { return b.createOrFold<mlir::arith::AddIOp>(x, y); }
  mlir::Value add(mlir::Value x, int64_t y) { return y ? add(x, index(y)) : x; }
  mlir::Value mul(mlir::Value x, int64_t y) { return b.createOrFold<mlir::arith::MulIOp>(x, index(y)); }
  mlir::Value div(mlir::Value x, int64_t y) { return b.createOrFold<mlir::arith::DivUIOp>(x, index(y)); }
  mlir::Value rem(mlir::Value x, int64_t y) { return b.createOrFold<mlir::arith::RemUIOp>(x, index(y)); }
  mlir::Value min(mlir::Value x, mlir::Value y) { return b.createOrFold<mlir::arith::MinUIOp>(x, y); }
  mlir::Value isLess(mlir::Value x, mlir::Value y) {
    return mlir::arith::CmpIOp::create(b, mlir::arith::CmpIPredicate::ult, x, y);
  }
  mlir::Value number(float value) { return mlir::arith::ConstantOp::create(b, b.getF32FloatAttr(value)); }
  void forLoop(mlir::Value begin, mlir::Value end, mlir::Value by, llvm::function_ref<void(mlir::Value)> body);
  /// Staging memory from byte `offset` on.
  mlir::Value view(int64_t offset, llvm::ArrayRef<int64_t> shape, mlir::Type element);
  void useStaging(int64_t bytes) { context.stagingBytes = std::max(context.stagingBytes, bytes); }

  tile::LinearOp op;
  LinearContext &context;
  const MmaAtom &atom;
  /// The form of the atom's instruction that does two steps at once; null where there is none.
  const MmaAtom *pair;
  Builder b;
  llvm::SmallVector<LinearWeight> weights;
  int64_t inner, terms, stepValues, steps, tail, chunkValues;
  /// Neighbours along K that a lane holds: eight or four.
  int64_t laneRun;
  bool hasOffset;

  // Of the shape that is emitted.
  LinearShape shape;
  int64_t passRows, passColumns;
  mlir::Value rowsLeft; ///< of the pass
  mlir::Value rowWarp, columnWarp, innerWarp;
  llvm::SmallVector<mlir::Value> xRows;      ///< of row tiles, of this lane
  llvm::SmallVector<mlir::Value> weightRows; ///< of column tiles, those of this lane in each
  mlir::Value partials, xSumMemory, xMemory;
};

/// Lowers all tile.linear of a kernel that has nothing else to lower.
llvm::LogicalResult lowerLinearKernel(mlir::func::FuncOp kernel, const TeamFacts &facts);

} // namespace kvc

#endif // KVC_LIB_CONVERSION_TILETOGPU_LINEARTEAM_H
