//===- Pull.cpp - Lazy expressions of tiles, element by element -----------===//
#include "TeamEmitter.h"

using namespace mlir;
using namespace kvc;

/// Clones an element-wise op on scalars.
static Value cloneScalar(ImplicitLocOpBuilder &b, Operation *op, ValueRange operands) {
  OperationState state(op->getLoc(), op->getName());
  state.addOperands(operands);
  state.addTypes(cast<VectorType>(op->getResult(0).getType()).getElementType());
  state.addAttributes(op->getAttrs());
  return b.create(state)->getResult(0);
}

static Value scalarOf(ImplicitLocOpBuilder &b, Attribute value) {
  return arith::ConstantOp::create(b, cast<TypedAttr>(value));
}

/// Entry `at` of a table of numbers that count: in steps, in rounds of `period`, or each of them `period` times. Null
/// for other tables.
static Value tableOf(ImplicitLocOpBuilder &b, DenseElementsAttr dense, Value at) {
  SmallVector<int64_t> values;
  for (const APInt &value : dense.getValues<APInt>()) {
    values.push_back(value.getSExtValue());
  }
  const auto count = static_cast<int64_t>(values.size());
  auto isAll = [&](auto formula) {
    for (int64_t i = 0; i < count; ++i) {
      if (values[i] != formula(i)) {
        return false;
      }
    }
    return true;
  };
  const int64_t step = values[1] - values[0];
  if (isAll([&](int64_t i) { return values[0] + step * i; })) {
    return addWords(b, mulWords(b, at, step), values[0]);
  }
  for (int64_t period = 2; period < count; ++period) {
    if (isAll([&](int64_t i) { return i % period; })) {
      return b.createOrFold<arith::RemUIOp>(at, wordOf(b, period));
    }
    if (isAll([&](int64_t i) { return i / period; })) {
      return b.createOrFold<arith::DivUIOp>(at, wordOf(b, period));
    }
  }
  return Value();
}

/// A constant's entry, at a coordinate that is asked for only where entries differ; null where the table is too long.
/// What no formula gives is chosen among the entries of a period: numbers of heads have as many as a group.
static Value entryOf(ImplicitLocOpBuilder &b, DenseElementsAttr dense, llvm::function_ref<Value()> coordinate) {
  if (dense.isSplat()) {
    return scalarOf(b, dense.getSplatValue<Attribute>());
  }
  Value at = coordinate();
  Type element = dense.getElementType();
  if (element.isInteger(32) || element.isIndex()) {
    if (Value number = tableOf(b, dense, at)) {
      return element.isIndex() ? toIndex(b, number) : number;
    }
  }
  constexpr size_t mostEntries = 64;
  auto entries = llvm::to_vector(dense.getValues<Attribute>());
  size_t period = 1;
  auto repeats = [&] {
    for (size_t i = period; i < entries.size(); ++i) {
      if (entries[i] != entries[i - period]) {
        return false;
      }
    }
    return true;
  };
  while (!repeats()) {
    ++period;
  }
  if (period > mostEntries) {
    return Value();
  }
  Value number = b.createOrFold<arith::RemUIOp>(at, wordOf(b, static_cast<int64_t>(period)));
  Value entry = scalarOf(b, entries[0]);
  for (size_t i = 1; i < period; ++i) {
    Value isThis = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, number, wordOf(b, static_cast<int64_t>(i)));
    entry = arith::SelectOp::create(b, isThis, scalarOf(b, entries[i]), entry);
  }
  return entry;
}

Value TeamEmitter::pull(Builder &b, Value tile, const Layout &layout, int64_t reg) {
  auto type = cast<VectorType>(tile.getType());
  Type element = type.getElementType();
  auto poison = [&]() -> Value { return arith::ConstantOp::create(b, b.getZeroAttr(element)); };
  if (auto found = fragments.find(tile); found != fragments.end()) {
    const Fragment &fragment = found->second;
    if (fragment.layout == layout) {
      return fragment.registers[reg];
    }
    Conversion conversion = convert(fragment.layout, layout);
    if (conversion.cost <= ConversionCost::Registers) {
      return fragment.registers[conversion.source[reg]];
    }
    std::string from, to;
    llvm::raw_string_ostream(from) << fragment.layout;
    llvm::raw_string_ostream(to) << layout;
    fail(*tile.getUsers().begin()) << "needs values in the layout " << to << " that are held as " << from
                                   << ": has no lowering between lanes yet";
    return poison();
  }
  Operation *op = tile.getDefiningOp();
  if (!op) {
    fail(*tile.getUsers().begin()) << "uses a tile that a block carries: has no lowering to teams yet";
    return poison();
  }
  if (auto load = dyn_cast<tile::LoadRowsOp>(op)) {
    return loadRowElement(load, layout, reg);
  }
  if (auto mask = dyn_cast<tile::LoadMaskOp>(op)) {
    return loadMaskElement(b, mask, layout, reg);
  }
  // A tile of one row or one column has the same element along the other axis.
  const Axis only = type.getDimSize(1) == 1 ? Axis::Row : Axis::Column;
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto dense = cast<DenseElementsAttr>(constant.getValue());
    const bool isLine = type.getDimSize(0) == 1 || type.getDimSize(1) == 1;
    Value number =
        isLine || dense.isSplat() ? entryOf(b, dense, [&] { return coordinate(b, layout, only, reg); }) : Value();
    if (!number) {
      fail(op) << "is a table of different numbers, which has no lowering to teams yet";
      return poison();
    }
    return number;
  }
  if (auto broadcast = dyn_cast<vector::BroadcastOp>(op)) {
    Value source = broadcast.getSource();
    auto sourceType = dyn_cast<VectorType>(source.getType());
    if (!sourceType) {
      return source;
    }
    if (sourceType.getRank() == 2) {
      return pull(b, source, layout, reg);
    }
    // Of a tile with one row, stock folders write the one element of that row as vector<1>, without a shape cast.
    return pullAlong(b, source, sourceType.getNumElements() == 1 ? Axis::Row : Axis::Column, layout, reg);
  }
  if (auto cast = dyn_cast<vector::ShapeCastOp>(op); cast && cast.getSourceVectorType().getRank() == 1) {
    return pullAlong(b, cast.getSource(), only, layout, reg);
  }
  if (!op->hasTrait<OpTrait::Elementwise>()) {
    fail(op) << "has no lowering to teams yet";
    return poison();
  }
  SmallVector<Value> parts;
  for (Value operand : op->getOperands()) {
    parts.push_back(isa<VectorType>(operand.getType()) ? pull(b, operand, layout, reg) : operand);
  }
  return cloneScalar(b, op, parts);
}

Value TeamEmitter::pullAlong(Builder &b, Value tile, Axis axis, const Layout &layout, int64_t reg) {
  auto type = cast<VectorType>(tile.getType());
  Type element = type.getElementType();
  auto poison = [&]() -> Value { return arith::ConstantOp::create(b, b.getZeroAttr(element)); };
  int64_t compact = compactRegister(layout, axis, reg);
  if (auto found = fragments.find(tile); found != fragments.end()) {
    return found->second.registers[compact];
  }
  Operation *op = tile.getDefiningOp();
  if (!op) {
    fail(*tile.getUsers().begin()) << "uses a tile that a block carries: has no lowering to teams yet";
    return poison();
  }
  if (isa<tile::LoadRowsOp, tile::RowPositionsOp, tile::LoadHeadsOp>(op)) {
    if (axis != Axis::Row) {
      fail(op) << "as numbers of columns has no lowering to teams yet";
      return poison();
    }
    return loadRowNumber(op, layout, reg);
  }
  if (auto positions = dyn_cast<tile::SlotPositionsOp>(op)) {
    if (cast<kvcache::CacheType>(positions.getCache().getType()).getStoredPositions()) {
      return loadColumnPosition(op, layout, reg);
    }
    return addWords(b, toWord(b, positions.getSlot()), coordinate(b, layout, axis, reg));
  }
  if (isa<tile::GatherPositionsOp>(op)) {
    return loadColumnPosition(op, layout, reg);
  }
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto dense = cast<DenseElementsAttr>(constant.getValue());
    Value number = entryOf(b, dense, [&] { return coordinate(b, layout, axis, reg); });
    if (!number) {
      fail(op) << "is a table of different numbers, which has no lowering to teams yet";
      return poison();
    }
    return number;
  }
  if (auto broadcast = dyn_cast<vector::BroadcastOp>(op)) {
    Value source = broadcast.getSource();
    return isa<VectorType>(source.getType()) ? pullAlong(b, source, Axis::Row, layout, reg) : source;
  }
  if (auto cast = dyn_cast<vector::ShapeCastOp>(op);
      cast && cast.getSourceVectorType().getRank() == 2 &&
      cast.getSourceVectorType().getDimSize(axis == Axis::Row ? 1 : 0) == 1) {
    return pull(b, cast.getSource(), layout, reg);
  }
  if (!op->hasTrait<OpTrait::Elementwise>()) {
    fail(op) << "has no lowering to teams yet";
    return poison();
  }
  SmallVector<Value> parts;
  for (Value operand : op->getOperands()) {
    parts.push_back(isa<VectorType>(operand.getType()) ? pullAlong(b, operand, axis, layout, reg) : operand);
  }
  return cloneScalar(b, op, parts);
}

SmallVector<Value> TeamEmitter::pullAll(Builder &b, Value tile, const Layout &layout) {
  SmallVector<Value> values;
  if (cast<VectorType>(tile.getType()).getRank() == 2) {
    for (int64_t i = 0; i < layout.inSize(Axis::Register); ++i) {
      values.push_back(pull(b, tile, layout, i));
    }
    return values;
  }
  values.resize(compactCount(layout, Axis::Row));
  for (int64_t i = 0; i < layout.inSize(Axis::Register); ++i) {
    Value &value = values[compactRegister(layout, Axis::Row, i)];
    if (!value) {
      value = pullAlong(b, tile, Axis::Row, layout, i);
    }
  }
  return values;
}

//===----------------------------------------------------------------------===//
// What is true of all elements
//===----------------------------------------------------------------------===//

namespace {
/// Least and greatest of a tile's i32 elements; null where unknown.
struct Bounds {
  Value low, high;
  explicit operator bool() const { return low && high; }
};

class BoundsOf {
public:
  explicit BoundsOf(ImplicitLocOpBuilder &b) : b(b) {}

  Bounds operator()(Value tile) {
    if (!isa<VectorType>(tile.getType())) {
      return {tile, tile};
    }
    Operation *op = tile.getDefiningOp();
    if (!op) {
      return {};
    }
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      auto values = llvm::to_vector(cast<DenseElementsAttr>(constant.getValue()).getValues<int32_t>());
      auto [low, high] = std::minmax_element(values.begin(), values.end());
      return {wordOf(b, *low), wordOf(b, *high)};
    }
    if (isa<vector::BroadcastOp, vector::ShapeCastOp>(op)) {
      return (*this)(op->getOperand(0));
    }
    if (auto positions = dyn_cast<tile::RowPositionsOp>(op)) {
      // Positions of an entry's rows ascend. They are loaded where the rows are.
      ImplicitLocOpBuilder at(op->getLoc(), op);
      Value one = indexOf(at, 1);
      Value last = arith::SubIOp::create(at, arith::AddIOp::create(at, positions.getRow(), positions.getCount()), one);
      return {toWord(at, tile::PositionOp::create(at, positions.getBatch(), positions.getRow())),
              toWord(at, tile::PositionOp::create(at, positions.getBatch(), last))};
    }
    if (auto positions = dyn_cast<tile::SlotPositionsOp>(op)) {
      if (cast<kvcache::CacheType>(positions.getCache().getType()).getStoredPositions()) {
        return {};
      }
      Value low = toWord(b, positions.getSlot());
      return {low, addWords(b, low, positions.getType().getDimSize(0) - 1)};
    }
    if (isa<arith::SubIOp, arith::AddIOp>(op)) {
      Bounds x = (*this)(op->getOperand(0)), y = (*this)(op->getOperand(1));
      if (!x || !y) {
        return {};
      }
      if (isa<arith::AddIOp>(op)) {
        return {fold<arith::AddIOp>(b, x.low, y.low), fold<arith::AddIOp>(b, x.high, y.high)};
      }
      return {fold<arith::SubIOp>(b, x.low, y.high), fold<arith::SubIOp>(b, x.high, y.low)};
    }
    return {};
  }

private:
  ImplicitLocOpBuilder &b;
};
} // namespace

Value TeamEmitter::impliesAll(Builder &b, Value tile) {
  Operation *op = tile.getDefiningOp();
  if (!op) {
    return Value();
  }
  if (isa<vector::BroadcastOp, vector::ShapeCastOp>(op)) {
    Value source = op->getOperand(0);
    return isa<VectorType>(source.getType()) ? impliesAll(b, source) : source;
  }
  if (isa<arith::AndIOp, arith::OrIOp>(op)) {
    Value x = impliesAll(b, op->getOperand(0)), y = impliesAll(b, op->getOperand(1));
    if (isa<arith::OrIOp>(op)) {
      return x && y ? fold<arith::OrIOp>(b, x, y) : x ? x : y;
    }
    return x && y ? fold<arith::AndIOp>(b, x, y) : Value();
  }
  auto compare = dyn_cast<arith::CmpIOp>(op);
  if (!compare || !cast<VectorType>(compare.getLhs().getType()).getElementType().isInteger(32)) {
    return Value();
  }
  BoundsOf boundsOf(b);
  Bounds x = boundsOf(compare.getLhs()), y = boundsOf(compare.getRhs());
  if (!x || !y) {
    return Value();
  }
  switch (compare.getPredicate()) {
  case arith::CmpIPredicate::slt:
  case arith::CmpIPredicate::sle:
    return arith::CmpIOp::create(b, compare.getPredicate(), x.high, y.low);
  case arith::CmpIPredicate::sgt:
  case arith::CmpIPredicate::sge:
    return arith::CmpIOp::create(b, compare.getPredicate(), x.low, y.high);
  default:
    return Value();
  }
}
