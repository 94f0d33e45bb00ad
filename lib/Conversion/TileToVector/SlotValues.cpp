//===- SlotValues.cpp - Keys and values of single slots and groups --------===//
//
// load_slot, store_slot, load_group, store_group, move_slot: from (sequence, head, slot, channel) to bytes, through the
// page's layout.
//
//===----------------------------------------------------------------------===//
#include "Codec.h"
#include "Ix.h"
#include "KernelContext.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/TypeSwitch.h"
#include <numeric>

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;
using namespace kvc::tile;

namespace {

/// One of K and V of a slot in its page or tail.
class SlotAccess {
public:
  SlotAccess(ImplicitLocOpBuilder &b, KernelContext &context, Value cacheValue, Plane plane, Part part, Value sequence,
             Value head, Value slot)
      : b(b), cache(context.cache(cacheValue)),
        layout(part == Part::Pages ? cache.layout.plane(plane) : cache.layout.tailPlane(plane)),
        bytes(part == Part::Pages ? cache.pages : cache.tails), slot(Ix(b, slot) % layout.slots),
        block(b, part == Part::Pages ? context.headBlock(b, cache, sequence, head, slot)
                                     : context.tailBlock(b, cache, sequence, head)) {}

  Value loadRow(Value channel, int64_t count) const;
  void storeRow(Value channel, Value values) const;
  Value loadGroup(Value channel, int64_t count) const;
  void storeGroup(Value channel, Value values) const;
  /// Copies the row of another slot of the same plane as it is stored.
  void copyRow(const SlotAccess &from) const;
  /// Whether `count` channels from `channel` on are units or one element.
  bool isAligned(Value channel, int64_t count) const;

private:
  // Integers and vectors of them at the place of a unit.
  Value loadUnits(Ix unit, int64_t count) const {
    Value at = (block + unit * layout.unitBytes + layout.codes).get();
    return unitsOfBytes(b, layout, loadBytes(b, bytes, at, b.getI8Type(), count * layout.unitBytes));
  }
  void storeUnits(Ix unit, Value units) const {
    storeBytes(b, bytesOfUnits(b, layout, units), bytes, (block + unit * layout.unitBytes + layout.codes).get());
  }
  Value loadScales(int64_t offset, Ix index, int64_t count) const {
    return loadBytes(b, bytes, (block + index * layout.scaleBytes + offset).get(), layout.format.getScale(), count);
  }
  void storeScale(int64_t offset, Ix index, Value scale) const {
    Value vector = vector::BroadcastOp::create(b, VectorType::get({1}, scale.getType()), scale);
    storeBytes(b, vector, bytes, (block + index * layout.scaleBytes + offset).get());
  }
  void storeScales(Ix index, const QuantizedGroup &group) const {
    storeScale(layout.scales, index, group.scale);
    if (group.zero) {
      storeScale(layout.zeros, index, group.zero);
    }
  }

  IntegerType unitType() const { return getUnitType(b.getContext(), layout); }
  VectorType floats(int64_t count) const { return VectorType::get({count}, b.getF32Type()); }
  Ix at(int64_t value) const { return {b, value}; }
  /// The number of an element's lowest bit, for `count` units.
  Value shift(Ix element, int64_t count) const {
    Value bits = layout.bitOf(element).as(unitType());
    return vector::BroadcastOp::create(b, VectorType::get({count}, unitType()), bits);
  }
  Value slice(Value vector, int64_t offset, int64_t count) const {
    if (cast<VectorType>(vector.getType()).getNumElements() == count) {
      return vector;
    }
    return vector::ExtractStridedSliceOp::create(b, vector, offset, count, 1);
  }
  Value zeros(VectorType type) const { return arith::ConstantOp::create(b, b.getZeroAttr(type)); }
  /// Puts vectors of equal length one behind the other.
  Value concat(ArrayRef<Value> parts) const;
  /// Elements e of `count` units, for all e of a unit, as the units' elements in order.
  Value interleave(ArrayRef<Value> elements) const;
  SmallVector<Value> deinterleave(Value values, int64_t ways) const;
  /// A row's units when they do not lie side by side: `count` units from (slot, channel) on.
  bool strided() const { return layout.packed && layout.plane == Plane::K; }
  /// `count` units that lie `lanes` apart, side by side.
  Value gatherUnits(Ix unit, int64_t count) const;
  int64_t unitsFor(int64_t channels) const { return llvm::divideCeil(channels, layout.pack); }

  Value scaled(Value codes, Value channel) const;
  Value encoded(Value values, Value channel) const;
  /// Slots of a group that lie side by side in one block of lanes.
  int64_t runOf(int64_t count) const { return strided() ? std::gcd(count, layout.lanes) : 1; }

  ImplicitLocOpBuilder &b;
  const CacheMemory &cache;
  const PlaneLayout &layout;
  Value bytes;
  Ix slot;
  Ix block;
};

bool SlotAccess::isAligned(Value channel, int64_t count) const {
  if (count == 1 || layout.pack == 1 || (layout.packed && layout.plane == Plane::V)) {
    return true;
  }
  IntegerAttr constant;
  bool whole = count % layout.pack == 0;
  if (matchPattern(channel, m_Constant(&constant))) {
    int64_t begin = constant.getInt();
    return begin % layout.pack == 0 && (whole || begin + count == layout.channels);
  }
  // Groups: the op's contract says that channels come in multiples of them.
  return whole && layout.format.isInteger() && layout.format.getAxis() == Axis::Token &&
         count % layout.format.getGroup() == 0;
}

Value SlotAccess::concat(ArrayRef<Value> parts) const {
  if (parts.size() == 1) {
    return parts[0];
  }
  auto part = cast<VectorType>(parts[0].getType());
  int64_t count = part.getNumElements();
  Value all = zeros(VectorType::get({count * static_cast<int64_t>(parts.size())}, part.getElementType()));
  for (auto [i, p] : llvm::enumerate(parts)) {
    all = vector::InsertStridedSliceOp::create(b, p, all, count * static_cast<int64_t>(i), 1);
  }
  return all;
}

Value SlotAccess::interleave(ArrayRef<Value> elements) const {
  if (elements.size() == 1) {
    return elements[0];
  }
  SmallVector<Value> even, odd;
  for (auto [e, element] : llvm::enumerate(elements)) {
    (e % 2 ? odd : even).push_back(element);
  }
  return vector::InterleaveOp::create(b, interleave(even), interleave(odd));
}

SmallVector<Value> SlotAccess::deinterleave(Value values, int64_t ways) const {
  if (ways == 1) {
    return {values};
  }
  auto halves = vector::DeinterleaveOp::create(b, values);
  SmallVector<Value> even = deinterleave(halves.getRes1(), ways / 2), odd = deinterleave(halves.getRes2(), ways / 2);
  SmallVector<Value> elements;
  for (auto [e, o] : llvm::zip_equal(even, odd)) {
    elements.push_back(e);
    elements.push_back(o);
  }
  return elements;
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// Numbers from the codes of channels of the slot.
Value SlotAccess::scaled(Value codes, Value channel) const {
  if (!layout.format.isInteger()) {
    return codes;
  }
  int64_t count = cast<VectorType>(codes.getType()).getNumElements();
  auto load = [&](int64_t offset) -> Value {
    Ix first(b, channel);
    if (layout.format.getAxis() == Axis::Channel) {
      return loadScales(offset, layout.scaleOf(slot, first), count);
    }
    int64_t group = std::min(layout.format.getGroup(), count);
    SmallVector<Value> parts;
    for (int64_t c = 0; c < count; c += group) {
      Value scale = loadScales(offset, layout.scaleOf(slot, first + c), 1);
      scale = vector::ExtractOp::create(b, scale, ArrayRef<int64_t>{0});
      parts.push_back(vector::BroadcastOp::create(b, VectorType::get({group}, scale.getType()), scale));
    }
    return concat(parts);
  };
  Value zero = layout.zeros < 0 ? Value() : decodeFloat(b, load(layout.zeros));
  return dequantize(b, codes, decodeScale(b, load(layout.scales)), zero);
}

/// What is stored of numbers: themselves, or the codes of their groups, whose scales are stored on the way.
Value SlotAccess::encoded(Value values, Value channel) const {
  if (!layout.format.isInteger()) {
    return values;
  }
  int64_t count = cast<VectorType>(values.getType()).getNumElements(), size = layout.format.getGroup();
  SmallVector<Value> codes;
  for (int64_t c = 0; c < count; c += size) {
    QuantizedGroup group = quantizeGroup(b, layout.format, slice(values, c, size));
    storeScales(layout.scaleOf(slot, Ix(b, channel) + c), group);
    codes.push_back(group.codes);
  }
  return concat(codes);
}

/// Through memory: a chain of insertions as long as a wide row takes the optimiser minutes.
Value SlotAccess::gatherUnits(Ix unit, int64_t count) const {
  Operation *around = b.getInsertionBlock()->getParentOp();
  while (!isa<func::FuncOp>(around)) {
    around = around->getParentOp();
  }
  auto entry = OpBuilder::atBlockBegin(&cast<func::FuncOp>(around).front());
  Value buffer =
      memref::AllocaOp::create(entry, b.getLoc(), MemRefType::get({count}, unitType()), entry.getI64IntegerAttr(64));
  auto loop = scf::ForOp::create(b, at(0).get(), at(count).get(), at(1).get());
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Ix u(b, loop.getInductionVar());
    Value one = vector::ExtractOp::create(b, loadUnits(unit + u * layout.lanes, 1), ArrayRef<int64_t>{0});
    memref::StoreOp::create(b, one, buffer, u.get());
  }
  return vector::LoadOp::create(b, VectorType::get({count}, unitType()), buffer, at(0).get());
}

Value SlotAccess::loadRow(Value channel, int64_t count) const {
  Ix first(b, channel);
  Ix unit = layout.unitOf(slot, first);
  if (count == 1 || (layout.packed && layout.plane == Plane::V)) {
    Value code = decodeElement(b, layout, loadUnits(unit, count), shift(layout.elementOf(slot, first), count));
    return scaled(code, channel);
  }
  int64_t units = unitsFor(count);
  Value stored = strided() ? gatherUnits(unit, units) : loadUnits(unit, units);
  return scaled(slice(interleave(decodeUnits(b, layout, stored)), 0, count), channel);
}

void SlotAccess::storeRow(Value channel, Value values) const {
  int64_t count = cast<VectorType>(values.getType()).getNumElements();
  Ix first(b, channel);
  Ix unit = layout.unitOf(slot, first);
  Value codes = encoded(values, channel);
  if (count == 1 || (layout.packed && layout.plane == Plane::V)) {
    // Other slots or channels share the bytes.
    Value shifts = shift(layout.elementOf(slot, first), count);
    storeUnits(unit, encodeElement(b, layout, loadUnits(unit, count), shifts, codes));
    return;
  }
  int64_t units = unitsFor(count);
  if (units * layout.pack != count) {
    codes = vector::InsertStridedSliceOp::create(b, codes, zeros(floats(units * layout.pack)), 0, 1);
  }
  Value stored = encodeUnits(b, layout, deinterleave(codes, layout.pack));
  if (!strided()) {
    return storeUnits(unit, stored);
  }
  for (int64_t u = 0; u < units; ++u) {
    storeUnits(unit + u * layout.lanes, slice(stored, u, 1));
  }
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

Value SlotAccess::loadGroup(Value channel, int64_t count) const {
  int64_t run = runOf(count);
  Ix first(b, channel);
  SmallVector<Value> parts;
  for (int64_t s = 0; s < count; s += run) {
    // A group of a ring may go on at its start.
    Ix here = (slot + s) % layout.slots;
    Value shifts = shift(layout.elementOf(here, first), run);
    Value codes = decodeElement(b, layout, loadUnits(layout.unitOf(here, first), run), shifts);
    if (layout.format.isInteger()) {
      auto load = [&](int64_t offset) -> Value {
        Ix index = layout.scaleOf(here, first);
        if (layout.format.getAxis() == Axis::Token) {
          return loadScales(offset, index, run);
        }
        Value scale = vector::ExtractOp::create(b, loadScales(offset, index, 1), ArrayRef<int64_t>{0});
        return vector::BroadcastOp::create(b, VectorType::get({run}, scale.getType()), scale);
      };
      Value zero = layout.zeros < 0 ? Value() : decodeFloat(b, load(layout.zeros));
      codes = dequantize(b, codes, decodeScale(b, load(layout.scales)), zero);
    }
    parts.push_back(codes);
  }
  return concat(parts);
}

void SlotAccess::storeGroup(Value channel, Value values) const {
  int64_t count = cast<VectorType>(values.getType()).getNumElements();
  Ix first(b, channel);
  QuantizedGroup group = quantizeGroup(b, layout.format, values);
  storeScales(layout.scaleOf(slot, first), group);
  if (layout.packed && layout.plane == Plane::V) {
    // A unit is the channel's codes of `pack` slots.
    Value units = encodeUnits(b, layout, deinterleave(group.codes, layout.pack));
    for (int64_t u = 0; u < count / layout.pack; ++u) {
      storeUnits(layout.unitOf(slot + u * layout.pack, first), slice(units, u, 1));
    }
    return;
  }
  int64_t run = runOf(count);
  for (int64_t s = 0; s < count; s += run) {
    Ix unit = layout.unitOf(slot + s, first);
    Value shifts = shift(layout.elementOf(slot + s, first), run);
    storeUnits(unit, encodeElement(b, layout, loadUnits(unit, run), shifts, slice(group.codes, s, run)));
  }
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

void SlotAccess::copyRow(const SlotAccess &from) const {
  Ix zero = at(0);
  Ix here = layout.unitOf(slot, zero), there = layout.unitOf(from.slot, zero);
  if (strided()) {
    for (int64_t u = 0; u < unitsFor(layout.channels); ++u) {
      storeUnits(here + u * layout.lanes, from.loadUnits(there + u * layout.lanes, 1));
    }
  } else if (layout.packed && layout.pack > 1) {
    // Values: other slots share the units.
    int64_t count = layout.channels, bits = layout.format.getBits();
    auto units = VectorType::get({count}, unitType());
    Value mask =
        arith::ConstantOp::create(b, DenseElementsAttr::get(units, b.getIntegerAttr(unitType(), (1ll << bits) - 1)));
    Value element =
        arith::ShRUIOp::create(b, from.loadUnits(there, count), shift(layout.elementOf(from.slot, zero), count));
    Value to = shift(layout.elementOf(slot, zero), count);
    Value placed = arith::ShLIOp::create(b, arith::AndIOp::create(b, element, mask), to);
    Value ones = arith::ConstantOp::create(b, DenseElementsAttr::get(units, b.getIntegerAttr(unitType(), -1)));
    Value keep = arith::XOrIOp::create(b, arith::ShLIOp::create(b, mask, to), ones);
    storeUnits(here, arith::OrIOp::create(b, arith::AndIOp::create(b, loadUnits(here, count), keep), placed));
  } else {
    int64_t count = layout.packed ? layout.channels : layout.rowUnits();
    storeUnits(here, from.loadUnits(there, count));
  }
  if (!layout.format.isInteger()) {
    return;
  }
  for (int64_t offset : {layout.scales, layout.zeros}) {
    for (int64_t c = 0; offset >= 0 && c < layout.channels; c += layout.format.getGroup()) {
      Value scale = from.loadScales(offset, layout.scaleOf(from.slot, zero + c), 1);
      storeScale(offset, layout.scaleOf(slot, zero + c), vector::ExtractOp::create(b, scale, ArrayRef<int64_t>{0}));
    }
  }
}

} // namespace

template <typename Op> static SlotAccess accessOf(ImplicitLocOpBuilder &b, KernelContext &context, Op op, Part part) {
  return {b, context, op.getCache(), op.getPlane(), part, op.getSequence(), op.getHead(), op.getSlot()};
}

static LogicalResult emitUnaligned(Operation *op, int64_t count) {
  return op->emitOpError() << "expects channels that are whole units of the format or one channel, but got " << count;
}

FailureOr<bool> kvc::lowerSlotValue(Operation *op, KernelContext &context) {
  ImplicitLocOpBuilder b(op->getLoc(), op);
  auto replace = [&](ValueRange values) {
    op->replaceAllUsesWith(values);
    op->erase();
    return true;
  };
  return llvm::TypeSwitch<Operation *, FailureOr<bool>>(op)
      .Case([&](LoadSlotOp op) -> FailureOr<bool> {
        SlotAccess slot = accessOf(b, context, op, op.getPart());
        int64_t count = op.getType().getNumElements();
        if (!slot.isAligned(op.getChannel(), count)) {
          return emitUnaligned(op, count);
        }
        return replace(slot.loadRow(op.getChannel(), count));
      })
      .Case([&](StoreSlotOp op) -> FailureOr<bool> {
        SlotAccess slot = accessOf(b, context, op, op.getPart());
        int64_t count = op.getValue().getType().getNumElements();
        if (!slot.isAligned(op.getChannel(), count)) {
          return emitUnaligned(op, count);
        }
        slot.storeRow(op.getChannel(), op.getValue());
        return replace({});
      })
      .Case([&](LoadGroupOp op) {
        return replace(
            accessOf(b, context, op, op.getPart()).loadGroup(op.getChannel(), op.getType().getNumElements()));
      })
      .Case([&](StoreGroupOp op) {
        accessOf(b, context, op, Part::Pages).storeGroup(op.getChannel(), op.getValue());
        return replace({});
      })
      .Case([&](MoveSlotOp op) {
        for (Plane plane : {Plane::K, Plane::V}) {
          auto access = [&](Value slot) {
            return SlotAccess(b, context, op.getCache(), plane, Part::Pages, op.getSequence(), op.getHead(), slot);
          };
          SlotAccess from = access(op.getFrom());
          access(op.getTo()).copyRow(from);
        }
        return replace({});
      })
      .Default([](Operation *) { return false; });
}
