//===- Datum.h - Values of the reference oracle -----------------*- C++ -*-===//
//
// What the oracle computes with. Floating point of every width is held as double, integers as 64 bits. A cache is
// held by what it means, slot by slot; physical pages, packing and table indices do not exist here.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_REFERENCE_DATUM_H
#define KVC_REFERENCE_DATUM_H

#include "kvc/Dialect/KVCache/IR/KVCache.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

namespace kvc::reference {

/// A dense tensor, row major. Either `floats` or `ints` holds the elements.
struct Tensor {
  llvm::SmallVector<int64_t> shape;
  bool isFloat = true;
  std::vector<double> floats;
  std::vector<int64_t> ints;

  static Tensor ofFloats(llvm::ArrayRef<int64_t> shape, std::vector<double> values);
  static Tensor ofInts(llvm::ArrayRef<int64_t> shape, std::vector<int64_t> values);
  /// All elements equal.
  static Tensor filled(llvm::ArrayRef<int64_t> shape, double value);

  int64_t rank() const { return shape.size(); }
  int64_t size() const { return isFloat ? floats.size() : ints.size(); }
  /// Offset of an element; indices must be inside the shape.
  int64_t offset(llvm::ArrayRef<int64_t> indices) const;
  double &at(llvm::ArrayRef<int64_t> indices) { return floats[offset(indices)]; }
  double at(llvm::ArrayRef<int64_t> indices) const { return floats[offset(indices)]; }
};

/// A `!kvcache.batch`: the three arrays of docs/contracts/kernel-abi.md.
struct Batch {
  std::vector<int64_t> queryOffsets; // [entries + 1]
  std::vector<int64_t> sequences;    // [entries]
  std::vector<int64_t> positions;    // [rows]

  int64_t entries() const { return sequences.size(); }
  int64_t rows() const { return positions.size(); }
  int64_t rowsOf(int64_t entry) const { return queryOffsets[entry + 1] - queryOffsets[entry]; }
};

/// A `!kvcache.selection`: for each (entry, KV head), pages or slots. lists[entry * heads + head].
struct Selection {
  kvcache::Unit unit = kvcache::Unit::Token;
  int64_t heads = 0;
  std::vector<std::vector<int64_t>> lists;
};

/// One slot of a table. Keys and values are what is read back: decoded when sealed, exact (in the tail type) else.
struct Slot {
  int64_t position = 0;
  std::vector<double> key;   // [heads of the table * dim]
  std::vector<double> value; // [heads of the table * v_dim]
  std::vector<double> score; // [heads of the table]
  std::vector<double> norm;  // [heads of the table]
};

/// Least and greatest key channels of a page: [heads of the table * dim].
struct PageSummary {
  std::vector<double> low, high;
};

/// The slots of one sequence, or of one KV head of a sequence.
struct Table {
  std::vector<Slot> slots;
  /// Slots 0 .. sealed-1 are stored in the cache's formats, the others exactly.
  int64_t sealed = 0;
  std::vector<PageSummary> pages; // only with the plane minmax

  int64_t length() const { return slots.size(); }
};

/// A cache value: tables[sequence * tables per sequence + head].
struct Cache {
  kvcache::CacheType type;
  /// Slots that a table can hold.
  int64_t capacity = 0;
  std::vector<Table> tables;

  static Cache empty(kvcache::CacheType type, int64_t sequences, int64_t capacity);

  int64_t sequences() const { return static_cast<int64_t>(tables.size()) / type.getTablesPerSequence(); }
  int64_t headsPerTable() const { return type.getPerHead() ? 1 : type.getHeads(); }
  /// The table with that KV head, and the head's index inside the table.
  Table &table(int64_t sequence, int64_t head) {
    return tables[sequence * type.getTablesPerSequence() + (type.getPerHead() ? head : 0)];
  }
  const Table &table(int64_t sequence, int64_t head) const { return const_cast<Cache *>(this)->table(sequence, head); }
  int64_t headInTable(int64_t head) const { return type.getPerHead() ? 0 : head; }
  /// Pages that hold `length` slots.
  int64_t pagesOf(int64_t length) const { return (length + type.getPage() - 1) / type.getPage(); }
};

/// Any value of a module. Tensors, caches, batches and selections are shared and never changed once shared.
class Datum {
public:
  Datum() = default;
  Datum(double value) : storage(value) {}
  Datum(int64_t value) : storage(value) {}
  Datum(Tensor value) : storage(std::make_shared<const Tensor>(std::move(value))) {}
  Datum(Batch value) : storage(std::make_shared<const Batch>(std::move(value))) {}
  Datum(Selection value) : storage(std::make_shared<const Selection>(std::move(value))) {}
  Datum(Cache value) : storage(std::make_shared<const Cache>(std::move(value))) {}

  bool isFloat() const { return std::holds_alternative<double>(storage); }
  bool isInt() const { return std::holds_alternative<int64_t>(storage); }
  bool isTensor() const { return std::holds_alternative<std::shared_ptr<const Tensor>>(storage); }
  bool isBatch() const { return std::holds_alternative<std::shared_ptr<const Batch>>(storage); }
  bool isSelection() const { return std::holds_alternative<std::shared_ptr<const Selection>>(storage); }
  bool isCache() const { return std::holds_alternative<std::shared_ptr<const Cache>>(storage); }

  // The value of that kind; the kind must be right.
  double asFloat() const { return *std::get_if<double>(&storage); }
  int64_t asInt() const { return *std::get_if<int64_t>(&storage); }
  const Tensor &asTensor() const { return **std::get_if<std::shared_ptr<const Tensor>>(&storage); }
  const Batch &asBatch() const { return **std::get_if<std::shared_ptr<const Batch>>(&storage); }
  const Selection &asSelection() const { return **std::get_if<std::shared_ptr<const Selection>>(&storage); }
  const Cache &asCache() const { return **std::get_if<std::shared_ptr<const Cache>>(&storage); }

private:
  std::variant<std::monostate, double, int64_t, std::shared_ptr<const Tensor>, std::shared_ptr<const Batch>,
               std::shared_ptr<const Selection>, std::shared_ptr<const Cache>>
      storage;
};

} // namespace kvc::reference

#endif // KVC_REFERENCE_DATUM_H
