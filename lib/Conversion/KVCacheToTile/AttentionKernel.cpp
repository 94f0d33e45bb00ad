//===- AttentionKernel.cpp - Query tiles, scores and visibility ----------===//
#include "AttentionKernel.h"
#include "ScoreRegion.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <numeric>

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;

VectorType kvc::tileType(ImplicitLocOpBuilder &b, ArrayRef<int64_t> shape) {
  return VectorType::get(shape, b.getF32Type());
}

Value kvc::splat(ImplicitLocOpBuilder &b, VectorType type, double value) {
  return arith::ConstantOp::create(b, DenseElementsAttr::get(type, b.getFloatAttr(type.getElementType(), value)));
}

Value kvc::alongRows(ImplicitLocOpBuilder &b, Value columns, int64_t rows) {
  auto type = cast<VectorType>(columns.getType());
  return vector::BroadcastOp::create(b, VectorType::get({rows, type.getDimSize(0)}, type.getElementType()), columns);
}

Value kvc::alongColumns(ImplicitLocOpBuilder &b, Value rows, int64_t columns) {
  auto type = cast<VectorType>(rows.getType());
  int64_t m = type.getDimSize(0);
  Value column = vector::ShapeCastOp::create(b, VectorType::get({m, 1}, type.getElementType()), rows);
  return vector::BroadcastOp::create(b, VectorType::get({m, columns}, type.getElementType()), column);
}

Value kvc::minimum(ImplicitLocOpBuilder &b, Value x, Value y) { return arith::MinSIOp::create(b, x, y); }
Value kvc::maximum(ImplicitLocOpBuilder &b, Value x, Value y) { return arith::MaxSIOp::create(b, x, y); }

Value kvc::everywhere(ImplicitLocOpBuilder &b, Value scalar, ArrayRef<int64_t> shape) {
  return vector::BroadcastOp::create(b, VectorType::get(shape, scalar.getType()), scalar);
}

Value kvc::visibleSlots(AttentionKernel &k, const QueryTile &q, const SlotTile &tile, Value slotPositions) {
  ImplicitLocOpBuilder &b = k.b();
  int64_t slots = tile.slots;
  SmallVector<int32_t> numbers(slots);
  std::iota(numbers.begin(), numbers.end(), 0);
  auto words = VectorType::get({slots}, b.getI32Type());
  Value number = arith::ConstantOp::create(b, DenseElementsAttr::get(words, ArrayRef<int32_t>(numbers)));
  Value limit = everywhere(b, arith::IndexCastOp::create(b, b.getI32Type(), tile.count), {slots});
  Value used = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, number, limit);
  Value visible = alongRows(b, used, q.rows);
  auto both = [&](Value condition) { visible = arith::AndIOp::create(b, visible, condition); };
  auto constant = [&](int64_t value) {
    return everywhere(b, arith::ConstantOp::create(b, b.getI32IntegerAttr(value)), {q.rows, slots});
  };
  if (k.treeShift) {
    Value mask = tile::LoadMaskOp::create(b, VectorType::get({q.rows, slots}, b.getI32Type()), k.treeMask, q.row,
                                          createAdd(b, tile.first, k.treeShift), q.count, k.entryRows, k.group);
    both(arith::CmpIOp::create(b, arith::CmpIPredicate::ne, mask, constant(0)));
  }
  if (!k.op.getCausal() && !k.op.getWindowAttr()) {
    return visible;
  }
  Value slot = alongRows(b, slotPositions, q.rows), row = alongColumns(b, q.positions, slots);
  if (k.op.getCausal()) {
    both(arith::CmpIOp::create(b, arith::CmpIPredicate::sle, slot, row));
  }
  if (Attribute window = k.op.getWindowAttr()) {
    Value distance = arith::SubIOp::create(b, row, slot);
    Value near = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, distance, constant(getInt(window)));
    if (int64_t sinks = getIntOr(k.op.getSinksAttr(), 0)) {
      Value sink = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, slot, constant(sinks));
      near = arith::OrIOp::create(b, near, sink);
    }
    both(near);
  }
  return visible;
}

void AttentionKernel::enterTree(unsigned i, Value length) {
  // The newest slots of the last segment are the rows of this step.
  treeShift = treeMask && i + 1 == caches.size() ? arith::SubIOp::create(b(), entryRows, length).getResult() : Value();
}

QueryTile kvc::loadQueryTile(AttentionKernel &k, Value row, Value count, int64_t tokens) {
  ImplicitLocOpBuilder &b = k.b();
  QueryTile q;
  q.rows = tokens * k.group;
  q.row = row;
  q.count = count;
  VectorType type = tileType(b, {q.rows, k.kDim});
  q.values = tile::LoadRowsOp::create(b, type, k.query, row, k.queryHead, count, k.group);
  // Without a score region the scale and the change to base 2 go into the query.
  bool plain = k.op.getScore().empty();
  double factor = k.op.getScale().convertToFloat() * (plain ? log2e : 1.0);
  q.values = arith::MulFOp::create(b, q.values, splat(b, type, factor));
  if (!plain || k.op.getCausal() || k.op.getWindowAttr()) {
    q.positions =
        tile::RowPositionsOp::create(b, VectorType::get({q.rows}, b.getI32Type()), k.batch, row, count, k.group);
  }
  q.first = tile::PositionOp::create(b, k.batch, row);
  q.last = tile::PositionOp::create(b, k.batch, arith::SubIOp::create(b, createAdd(b, row, count), createIndex(b, 1)));
  return q;
}

SmallVector<Value> kvc::variableCaptures(AttentionOp op) {
  SmallVector<Value> captures;
  for (Value capture : op.getCaptures()) {
    if (!capture.getDefiningOp<arith::ConstantOp>()) {
      captures.push_back(capture);
    }
  }
  return captures;
}

void AttentionKernel::takeCaptures(unsigned input) {
  for (Value capture : op.getCaptures()) {
    auto constant = capture.getDefiningOp<arith::ConstantOp>();
    captures.push_back(constant ? arith::ConstantOp::create(b(), constant.getValue()).getResult()
                                : kernel.input(input++));
  }
}

Value SlotTile::operand(AttentionKernel &k, Plane plane) const {
  ImplicitLocOpBuilder &b = k.b();
  auto type = tile::OperandType::get(b.getContext(), slots, plane == Plane::K ? k.kDim : k.vDim);
  if (selection) {
    return tile::GatherOperandOp::create(b, type, plane, cache, k.sequence, k.head, selection, k.entry, first, count);
  }
  return tile::OperandOp::create(b, type, plane, part, cache, k.sequence, k.head, first, count);
}

Value SlotTile::positions(AttentionKernel &k) const {
  ImplicitLocOpBuilder &b = k.b();
  auto type = VectorType::get({slots}, b.getI32Type());
  if (selection) {
    return tile::GatherPositionsOp::create(b, type, cache, k.sequence, k.head, selection, k.entry, first, count);
  }
  return tile::SlotPositionsOp::create(b, type, part, cache, k.sequence, k.head, first);
}

ScoredTile kvc::scoreTile(AttentionKernel &k, const QueryTile &q, const SlotTile &tile) {
  ImplicitLocOpBuilder &b = k.b();
  VectorType type = tileType(b, {q.rows, tile.slots});
  Value scores = tile::MmaOp::create(b, type, tile::Contract::Channels, q.values, tile.operand(k, Plane::K), Value());
  Value positions = q.positions ? tile.positions(k) : Value();
  if (!k.op.getScore().empty()) {
    ScoreTile region{scores, k.entry, k.queryHead, q.positions, positions, q.rows, tile.slots, k.group, k.captures};
    scores = inlineScoreRegion(b, k.op.getScore(), region);
    scores = arith::MulFOp::create(b, scores, splat(b, type, log2e));
  }
  return {scores, visibleSlots(k, q, tile, positions)};
}
