//===- DecodePlan.h - Spans of decode steps ---------------------*- C++ -*-===//
//
// A small kernel divides the slots of all sequences with one row into spans, from the lengths in the device's memory:
//
//   tiles of a list   = tiles of slots that its row can see, at least one; none for an entry with other rows
//   tiles of a span   = max(the schedule's least, tiles of all lists / teams that run side by side, rounded up)
//   spans of a list   = its tiles / tiles of a span, rounded up where all spans then run side by side, else rounded
//                       down, at least one; its spans differ by one tile at most
//
// A list is a sequence, or one KV head of it where tables or selections belong to heads. The host knows a bound of the
// spans alone, so a captured graph stays valid while sequences grow.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_LIB_CONVERSION_KVCACHETOTILE_DECODEPLAN_H
#define KVC_LIB_CONVERSION_KVCACHETOTILE_DECODEPLAN_H

#include "KernelBuilder.h"

namespace kvc {

/// What the division of a decode step depends on.
struct DecodeShape {
  kvcache::AttentionOp op;
  int64_t kvHeads;
  /// Parts of a group of query heads that are items of their own.
  int64_t parts;
  /// Slots of a tile, and tiles that a span has at least.
  int64_t slots, leastTiles;

  /// Lists of an entry: KV heads where their tables or selections differ, else 1.
  int64_t lists() const;
  /// Work items of a span.
  int64_t itemsOfSpan() const { return kvHeads / lists() * parts; }
  /// Whether spans begin where the window of their row does.
  bool beginsAtWindow() const;
};

/// The plan in host functions.
struct DecodePlan {
  /// Tensors: a record of each span, spans that are not used behind the others; the first span of each list and their
  /// number.
  mlir::Value spans, lists;
  /// Spans at most of all lists together, and of one list; 1 where an entry has one row, else 0: nothing is launched
  /// for spans then.
  mlir::Value most, mostOfList, any;
};

/// Inserts the dispatch of the kernel that makes the plan.
DecodePlan planDecode(const DecodeShape &shape, mlir::ImplicitLocOpBuilder &host);

/// The record of a span in a kernel.
struct Span {
  /// Spans of its list; 0 where the span is not used.
  mlir::Value count;
  mlir::Value entry, head, sequence, row;
  /// Slots, multiples of a tile.
  mlir::Value begin, end;
};
/// `head` stays null where an entry has one list.
Span loadSpan(mlir::ImplicitLocOpBuilder &b, const DecodeShape &shape, mlir::Value spans, mlir::Value number);

/// The first span of a list, and their number.
std::pair<mlir::Value, mlir::Value> loadSpansOfList(mlir::ImplicitLocOpBuilder &b, mlir::Value lists, mlir::Value list);

} // namespace kvc

#endif // KVC_LIB_CONVERSION_KVCACHETOTILE_DECODEPLAN_H
