//===- KernelContext.h - Memory of caches and batches in a kernel *- C++ -*-===//
//
// While a kernel is lowered, its batch, cache and selection arguments stand for groups of memrefs
// (docs/contracts/kernel-abi.md).
//
//===----------------------------------------------------------------------===//
#ifndef KVC_LIB_CONVERSION_TILETOVECTOR_KERNELCONTEXT_H
#define KVC_LIB_CONVERSION_TILETOVECTOR_KERNELCONTEXT_H

#include "kvc/Dialect/Tile/IR/Tile.h"
#include "kvc/Target/PageLayout.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace kvc {

/// The arrays of one cache argument.
struct CacheMemory {
  mlir::Value pages, table, lengths, sealed, tails, tailTable;
  kvcache::CacheType type;
  PageLayout layout;
};

/// The arrays of one batch argument.
struct BatchMemory {
  mlir::Value queryOffsets, sequences, positions;
};

/// The arrays of one selection argument: counts[list], entries[list][...] with list = entry * KV heads + head.
struct SelectionMemory {
  mlir::Value counts, entries;
};

/// What lowerings of tile operations share within one kernel.
class KernelContext {
public:
  /// Replaces the kernel's batch, cache and selection arguments by their arrays; finish() drops the old ones.
  KernelContext(mlir::func::FuncOp kernel, const Target &target);
  /// Removes the replaced arguments. All uses must be gone: fails with a diagnostic at the first left.
  llvm::LogicalResult finish();

  const CacheMemory &cache(mlir::Value argument) const { return caches.find(argument)->second; }
  const BatchMemory &batch(mlir::Value argument) const { return batches.find(argument)->second; }
  const SelectionMemory &selection(mlir::Value argument) const { return selections.find(argument)->second; }
  const Target &getTarget() const { return target; }

  // Address arithmetic is on index values, which are 64 bits wide everywhere.

  /// Row of the tables for a sequence and KV head.
  mlir::Value tableRow(mlir::ImplicitLocOpBuilder &b, const CacheMemory &cache, mlir::Value sequence,
                       mlir::Value head) const;
  /// Byte offset, in `pages`, of the head block of the logical page that holds `slot`.
  mlir::Value headBlock(mlir::ImplicitLocOpBuilder &b, const CacheMemory &cache, mlir::Value sequence, mlir::Value head,
                        mlir::Value slot) const;
  /// Byte offset, in `tails`, of the head block of a table's tail.
  mlir::Value tailBlock(mlir::ImplicitLocOpBuilder &b, const CacheMemory &cache, mlir::Value sequence,
                        mlir::Value head) const;

  mlir::func::FuncOp kernel;

private:
  const Target &target;
  llvm::DenseMap<mlir::Value, CacheMemory> caches;
  llvm::DenseMap<mlir::Value, BatchMemory> batches;
  llvm::DenseMap<mlir::Value, SelectionMemory> selections;
};

/// Loads `count` elements of `type` at byte offset `offset` of a memref<?xi8>, with no alignment assumed.
mlir::Value loadBytes(mlir::ImplicitLocOpBuilder &b, mlir::Value bytes, mlir::Value offset, mlir::Type type,
                      int64_t count);
/// Stores a vector at byte offset `offset` of a memref<?xi8>, with no alignment assumed.
void storeBytes(mlir::ImplicitLocOpBuilder &b, mlir::Value vector, mlir::Value bytes, mlir::Value offset);

/// Lowers one op of the tile dialect that is about batches, counters and numbers (SlotOps.cpp); false when it is
/// another op.
llvm::FailureOr<bool> lowerSlotOp(mlir::Operation *op, KernelContext &context);

/// Lowers one op that loads or stores keys and values of a slot or a group of slots (SlotValues.cpp); false when it is
/// another op.
llvm::FailureOr<bool> lowerSlotValue(mlir::Operation *op, KernelContext &context);

/// Lowers the tile-valued operations of a kernel (Tiles.cpp).
llvm::LogicalResult lowerTiles(KernelContext &context);

} // namespace kvc

#endif // KVC_LIB_CONVERSION_TILETOVECTOR_KERNELCONTEXT_H
