//===- SlotWriter.h - Tables, slots and sealing in kernels ------*- C++ -*-===//
//
// What kernels that write slots have in common: which table a work item works on, storing a slot with all its planes,
// sealing groups of the tail.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_LIB_CONVERSION_KVCACHETOTILE_SLOTWRITER_H
#define KVC_LIB_CONVERSION_KVCACHETOTILE_SLOTWRITER_H

#include "KernelBuilder.h"

namespace kvc {

/// The KV head of an entry, and the cache it is of.
struct Table {
  mlir::Value cache;
  mlir::Value entry, sequence, head;

  kvcache::CacheType type() const { return llvm::cast<kvcache::CacheType>(cache.getType()); }
};

/// Of list = entry * KV heads + head.
Table createTable(mlir::ImplicitLocOpBuilder &b, mlir::Value batch, mlir::Value cache, mlir::Value list);
/// Of item = entry * tables of a sequence + table: for kernels that treat each table once, whatever heads it holds.
Table createTableOfItem(mlir::ImplicitLocOpBuilder &b, kvcache::CacheType type, mlir::Value batch, mlir::Value cache,
                        mlir::Value item);

/// A slot that is to be written: vectors of f32 and an index.
struct NewSlot {
  mlir::Value key, value, position;
};
/// Whether the slot is behind all others of its page, so that it starts the page's bounds anew when it is the page's
/// first: always, or if an i1 value says so; otherwise it widens them. Without `bounds` they are left to the caller.
struct SlotStoreOptions {
  bool fresh = false;
  mlir::Value freshIf = {};
  bool bounds = true;
};
/// Stores a slot: key and value (in the tail of a cache that has one), position, norm, score 0, the bounds of its page.
void createSlotStore(mlir::ImplicitLocOpBuilder &b, const Table &table, mlir::Value slot, const NewSlot &content,
                     SlotStoreOptions options);
/// Widens the bounds of a page by a key, or starts them with it.
void createBounds(mlir::ImplicitLocOpBuilder &b, const Table &table, mlir::Value page, mlir::Value key,
                  mlir::Value start);

/// Decodes the stored key or value of a slot, wherever it lies. `sealed` is the counter; null for a cache without a
/// tail.
mlir::Value createStoredRow(mlir::ImplicitLocOpBuilder &b, const Table &table, kvcache::Plane plane, mlir::Value slot,
                            mlir::Value sealed);
/// The counter that createStoredRow needs.
mlir::Value createSealed(mlir::ImplicitLocOpBuilder &b, const Table &table);
/// Computes the bounds of pages anew from the stored keys of slots `begin .. end - 1`, begin the first of a page.
void createBoundsOf(mlir::ImplicitLocOpBuilder &b, const Table &table, mlir::Value begin, mlir::Value end,
                    mlir::Value sealed);

/// Slots that ought to be sealed in a table of `length` slots, by the residual window.
mlir::Value sealTarget(mlir::ImplicitLocOpBuilder &b, kvcache::CacheType type, mlir::Value length);
/// Moves groups from the tail to the pages until `target` slots (a multiple of the seal group) are sealed. Returns how
/// many are.
mlir::Value createSealing(mlir::ImplicitLocOpBuilder &b, const Table &table, mlir::Value sealed, mlir::Value target);

/// The counters of a table. A null `sealed`: none without a tail, else at least what append seals of that length.
struct Counters {
  mlir::Value length, sealed = {};
};
/// Dispatches a kernel over the tables of the batch that sets their counters as `body` says. Its inputs are `inputs`
/// and then the batch.
mlir::Value createCounterUpdate(mlir::ImplicitLocOpBuilder &host, mlir::StringRef name, mlir::ValueRange inputs,
                                mlir::Value batch, mlir::Value cache,
                                llvm::function_ref<Counters(KernelBuilder &, const Table &)> body);

/// `entries * n` as a value of the host.
mlir::Value createItems(mlir::ImplicitLocOpBuilder &host, mlir::Value batch, int64_t n);

} // namespace kvc

#endif // KVC_LIB_CONVERSION_KVCACHETOTILE_SLOTWRITER_H
