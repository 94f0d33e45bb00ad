//===- ItemOrder.h - Which items run on which die --------------*- C++ -*-===//
#ifndef KVC_TARGET_ITEMORDER_H
#define KVC_TARGET_ITEMORDER_H

#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Value.h"

namespace kvc {

/// Of items that come in groups with as many members each: an item's group, and its number there (index).
struct ItemPlace {
  mlir::Value group, member;
};

/// The place of item `item` of `groups` x `members` (all i32) on a chip that deals items to its `dies` (a power of two)
/// in turn, where items of a group read the same memory. While as many groups as dies are left, a round of them goes to
/// the dies, one each; the groups that are left then come in blocks of a half, a quarter ... of the dies, and each is
/// spread over as many dies as its block has fewer groups: no die has more than its share, and no group more dies than
/// that takes. On each die a group's members follow each other in their order, one group behind the other.
ItemPlace placeOnDies(mlir::ImplicitLocOpBuilder &b, mlir::Value item, mlir::Value groups, mlir::Value members,
                      int64_t dies);

} // namespace kvc

#endif // KVC_TARGET_ITEMORDER_H
