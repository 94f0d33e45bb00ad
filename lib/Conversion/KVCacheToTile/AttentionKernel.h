//===- AttentionKernel.h - What attention kernels share ---------*- C++ -*-===//
#ifndef KVC_LIB_CONVERSION_KVCACHETOTILE_ATTENTIONKERNEL_H
#define KVC_LIB_CONVERSION_KVCACHETOTILE_ATTENTIONKERNEL_H

#include "KernelBuilder.h"

namespace kvc {

constexpr double log2e = 1.4426950408889634;

/// What one attention kernel is made of.
struct AttentionKernel {
  kvcache::AttentionOp op;
  KernelBuilder &kernel;
  tile::ScheduleAttr schedule;
  int64_t group, kvHeads, kDim, vDim;
  /// Of a KV tile of the loops that are being made.
  int64_t slots = schedule.getSlots();
  /// Whether spans begin where the window of their row does (DecodePlan.h).
  bool beginsAtWindow = false;
  mlir::Value query{}, batch{}, sinkLogits{}, treeMask{};
  llvm::SmallVector<mlir::Value> caches{}, captures{};
  /// One per cache; null where all of it is attended to.
  llvm::SmallVector<mlir::Value> selections{};

  // Coordinates of the work item, and rows of its entry.
  mlir::Value entry{}, head{}, queryHead{}, sequence{}, entryRows{};
  /// While a segment is entered that a tree mask restricts: what to add to a slot to get its row of the entry.
  mlir::Value treeShift{};

  mlir::ImplicitLocOpBuilder &b() { return kernel.body; }
  /// Sets `treeShift` for segment `i`, whose table has `length` slots.
  void enterTree(unsigned i, mlir::Value length);
  /// Sets `captures`: constants are made anew in the kernel, the others are its inputs from number `input` on.
  void takeCaptures(unsigned input);
};

/// Captures of the score region that a kernel needs as inputs: all but constants.
llvm::SmallVector<mlir::Value> variableCaptures(kvcache::AttentionOp op);

/// A query tile: its rows and what masks need to know of them.
struct QueryTile {
  int64_t rows;
  mlir::Value row, count;  // first row in the batch, tokens
  mlir::Value values;      // vector<rows x kDim>
  mlir::Value positions;   // vector<rows x i32>; null when no mask and no score region looks at positions
  mlir::Value first, last; // positions of the first and last token, index
};

/// Rows `row .. row + count - 1` of the batch (at most `tokens`), all heads of the group.
QueryTile loadQueryTile(AttentionKernel &k, mlir::Value row, mlir::Value count, int64_t tokens);

/// Scores of a tile in units of log 2, and which of them are visible.
struct ScoredTile {
  mlir::Value scores, visible;
};
/// The slots of one tile: `count` of at most `slots` slots, consecutive ones from `first` of a part of a cache or, with
/// a selection of tokens, the selected ones from number `first`.
struct SlotTile {
  mlir::Value cache;
  tile::Part part;
  mlir::Value first, count;
  int64_t slots;
  mlir::Value selection;

  /// As an operand of a product.
  mlir::Value operand(AttentionKernel &k, kvcache::Plane plane) const;
  mlir::Value positions(AttentionKernel &k) const;
};
ScoredTile scoreTile(AttentionKernel &k, const QueryTile &q, const SlotTile &tile);
/// Which slots of a tile the rows see, apart from the score: in use, and not masked. `positions` are those of the slots
/// (null when no mask looks at them).
mlir::Value visibleSlots(AttentionKernel &k, const QueryTile &q, const SlotTile &tile, mlir::Value positions);

/// vector<...xf32> of one value.
mlir::Value splat(mlir::ImplicitLocOpBuilder &b, mlir::VectorType type, double value);
mlir::VectorType tileType(mlir::ImplicitLocOpBuilder &b, llvm::ArrayRef<int64_t> shape);
/// A scalar as every element of a vector.
mlir::Value everywhere(mlir::ImplicitLocOpBuilder &b, mlir::Value scalar, llvm::ArrayRef<int64_t> shape);
/// vector<N> for each column -> vector<M x N>; vector<M> for each row -> vector<M x N>.
mlir::Value alongRows(mlir::ImplicitLocOpBuilder &b, mlir::Value columns, int64_t rows);
mlir::Value alongColumns(mlir::ImplicitLocOpBuilder &b, mlir::Value rows, int64_t columns);
mlir::Value minimum(mlir::ImplicitLocOpBuilder &b, mlir::Value x, mlir::Value y);
mlir::Value maximum(mlir::ImplicitLocOpBuilder &b, mlir::Value x, mlir::Value y);

} // namespace kvc

#endif // KVC_LIB_CONVERSION_KVCACHETOTILE_ATTENTIONKERNEL_H
