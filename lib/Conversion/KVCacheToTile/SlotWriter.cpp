//===- SlotWriter.cpp - Tables, slots and sealing in kernels -------------===//
#include "SlotWriter.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;
using namespace kvc::tile;

Table kvc::createTable(ImplicitLocOpBuilder &b, Value batch, Value cache, Value list) {
  Value heads = createIndex(b, cast<CacheType>(cache.getType()).getHeads());
  Value entry = arith::DivUIOp::create(b, list, heads), head = arith::RemUIOp::create(b, list, heads);
  return {cache, entry, SequenceOp::create(b, batch, entry), head};
}

Table kvc::createTableOfItem(ImplicitLocOpBuilder &b, CacheType type, Value batch, Value cache, Value item) {
  if (type.getPerHead()) {
    return createTable(b, batch, cache, item);
  }
  return {cache, item, SequenceOp::create(b, batch, item), createIndex(b, 0)};
}

void kvc::createBounds(ImplicitLocOpBuilder &b, const Table &table, Value page, Value key, Value start) {
  Value zero = createIndex(b, 0);
  auto update = [&](Bound bound, auto combine) {
    Value old = LoadBoundOp::create(b, key.getType(), bound, table.cache, table.sequence, table.head, page, zero);
    Value wide = combine(old, key);
    StoreBoundOp::create(b, bound, arith::SelectOp::create(b, start, key, wide), table.cache, table.sequence,
                         table.head, page, zero);
  };
  update(Bound::Min, [&](Value x, Value y) -> Value { return arith::MinNumFOp::create(b, x, y); });
  update(Bound::Max, [&](Value x, Value y) -> Value { return arith::MaxNumFOp::create(b, x, y); });
}

void kvc::createSlotStore(ImplicitLocOpBuilder &b, const Table &table, Value slot, const NewSlot &content,
                          SlotStoreOptions options) {
  CacheType type = table.type();
  Part part = type.hasTail() ? Part::Tail : Part::Pages;
  Value zero = createIndex(b, 0);
  for (auto [plane, value] : {std::pair{Plane::K, content.key}, std::pair{Plane::V, content.value}}) {
    StoreSlotOp::create(b, plane, part, value, table.cache, table.sequence, table.head, slot, zero);
  }
  auto number = [&](SlotPlane plane, Value value) {
    StoreNumberOp::create(b, plane, value, table.cache, table.sequence, table.head, slot);
  };
  if (type.getStoredPositions()) {
    number(SlotPlane::Position, arith::IndexCastOp::create(b, b.getI32Type(), content.position));
  }
  if (type.getScorePlane()) {
    number(SlotPlane::Score, arith::ConstantOp::create(b, b.getF32FloatAttr(0.0f)));
  }
  if (type.getNormPlane()) {
    Value squares =
        vector::ReductionOp::create(b, vector::CombiningKind::ADD, arith::MulFOp::create(b, content.key, content.key));
    number(SlotPlane::Norm, math::SqrtOp::create(b, squares));
  }
  if (type.getMinmaxPlane() && options.bounds) {
    Value pageSlots = createIndex(b, type.getPage());
    Value page = arith::DivUIOp::create(b, slot, pageSlots);
    Value start = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, arith::RemUIOp::create(b, slot, pageSlots), zero);
    if (!options.fresh) {
      start = arith::AndIOp::create(b, start, options.freshIf);
    }
    createBounds(b, table, page, content.key, start);
  }
}

//===----------------------------------------------------------------------===//
// Sealing
//===----------------------------------------------------------------------===//

Value kvc::sealTarget(ImplicitLocOpBuilder &b, CacheType type, Value length) {
  Value residual = createIndex(b, type.getResidual()), group = createIndex(b, type.getSealGroup());
  Value old = arith::SubIOp::create(b, arith::MaxUIOp::create(b, length, residual), residual);
  return createMul(b, arith::DivUIOp::create(b, old, group), group);
}

/// Seals one of K and V of the slots `first .. first + seal group - 1`.
static void sealPlane(ImplicitLocOpBuilder &b, const Table &table, Plane plane, Value first) {
  CacheType type = table.type();
  FormatAttr format = type.getFormat(plane);
  Value end = createAdd(b, first, createIndex(b, type.getSealGroup()));
  const int64_t channels = type.getDim(plane);
  if (format.isInteger() && format.getAxis() == Axis::Channel) {
    auto group = VectorType::get({format.getGroup()}, b.getF32Type());
    createFor(b, first, end, format.getGroup(), [&](Value slot) {
      createFor(b, createIndex(b, 0), createIndex(b, channels), [&](Value channel) {
        Value x =
            LoadGroupOp::create(b, group, plane, Part::Tail, table.cache, table.sequence, table.head, slot, channel);
        StoreGroupOp::create(b, plane, x, table.cache, table.sequence, table.head, slot, channel);
      });
    });
    return;
  }
  auto row = VectorType::get({channels}, b.getF32Type());
  Value zero = createIndex(b, 0);
  createFor(b, first, end, [&](Value slot) {
    Value x = LoadSlotOp::create(b, row, plane, Part::Tail, table.cache, table.sequence, table.head, slot, zero);
    StoreSlotOp::create(b, plane, Part::Pages, x, table.cache, table.sequence, table.head, slot, zero);
  });
}

Value kvc::createSealing(ImplicitLocOpBuilder &b, const Table &table, Value sealed, Value target) {
  createFor(b, sealed, target, table.type().getSealGroup(), [&](Value first) {
    sealPlane(b, table, Plane::K, first);
    sealPlane(b, table, Plane::V, first);
  });
  return arith::MaxUIOp::create(b, sealed, target);
}

//===----------------------------------------------------------------------===//
// Stored rows
//===----------------------------------------------------------------------===//

Value kvc::createSealed(ImplicitLocOpBuilder &b, const Table &table) {
  if (!table.type().hasTail()) {
    return {};
  }
  return CounterOp::create(b, Counter::Sealed, table.cache, table.sequence, table.head);
}

Value kvc::createStoredRow(ImplicitLocOpBuilder &b, const Table &table, Plane plane, Value slot, Value sealed) {
  auto row = VectorType::get({table.type().getDim(plane)}, b.getF32Type());
  auto load = [&](Part part) -> Value {
    return LoadSlotOp::create(b, row, plane, part, table.cache, table.sequence, table.head, slot, createIndex(b, 0));
  };
  if (!sealed) {
    return load(Part::Pages);
  }
  Value inPages = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, slot, sealed);
  return createIf(b, row, inPages, [&] { return load(Part::Pages); }, [&] { return load(Part::Tail); });
}

void kvc::createBoundsOf(ImplicitLocOpBuilder &b, const Table &table, Value begin, Value end, Value sealed) {
  Value pageSlots = createIndex(b, table.type().getPage());
  createFor(b, begin, end, [&](Value slot) {
    Value page = arith::DivUIOp::create(b, slot, pageSlots);
    Value inPage = arith::RemUIOp::create(b, slot, pageSlots);
    Value start = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, inPage, createIndex(b, 0));
    createBounds(b, table, page, createStoredRow(b, table, Plane::K, slot, sealed), start);
  });
}

//===----------------------------------------------------------------------===//
// Counters
//===----------------------------------------------------------------------===//

Value kvc::createItems(ImplicitLocOpBuilder &host, Value batch, int64_t n) {
  return createMul(host, EntriesOp::create(host, batch), createIndex(host, n));
}

Value kvc::createCounterUpdate(ImplicitLocOpBuilder &host, StringRef name, ValueRange inputs, Value batch, Value cache,
                               function_ref<Counters(KernelBuilder &, const Table &)> body) {
  auto type = cast<CacheType>(cache.getType());
  SmallVector<Value> all(inputs);
  all.push_back(batch);
  KernelBuilder kernel(host, name, all, {cache});
  ImplicitLocOpBuilder &b = kernel.body;
  Table table = createTableOfItem(b, type, kernel.input(inputs.size()), kernel.output(0), kernel.item);
  Counters counters = body(kernel, table);
  if (!counters.sealed) {
    counters.sealed =
        type.hasTail() ? Value(arith::MaxUIOp::create(b, createSealed(b, table), sealTarget(b, type, counters.length)))
                       : counters.length;
  }
  SetCounterOp::create(b, Counter::Length, table.cache, table.sequence, table.head, counters.length);
  SetCounterOp::create(b, Counter::Sealed, table.cache, table.sequence, table.head, counters.sealed);
  return kernel.dispatch(createItems(host, batch, type.getTablesPerSequence()))[0];
}
