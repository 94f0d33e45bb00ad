//===- Dense.cpp - Between caches and dense tensors -----------------------===//
//
// export, import and requantize; merge_states, which is on dense tensors alone.
//
//===----------------------------------------------------------------------===//
#include "Lowerings.h"
#include "SlotWriter.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <limits>

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;
using namespace kvc::tile;

/// Slots that are sealed when a table of that length is written anew.
static Value sealedOf(ImplicitLocOpBuilder &b, CacheType type, Value length) {
  return type.hasTail() ? sealTarget(b, type, length) : length;
}

/// Slots of one work item.
static constexpr int64_t exportBlock = 64;

FailureOr<Replacements> kvc::lowerExport(ExportOp op, ImplicitLocOpBuilder &host) {
  auto cacheType = cast<CacheType>(op.getCache().getType());
  auto type = cast<RankedTensorType>(op.getResult().getType());
  const bool nhd = op.getLayout() == DenseLayout::NHD;
  const int64_t slotAxis = nhd ? 1 : 2;
  Value batch = op.getBatch();
  Value entries = EntriesOp::create(host, batch);
  Value extent = type.isDynamicDim(slotAxis) ? Value(MaxLengthOp::create(host, op.getCache(), batch))
                                             : createIndex(host, type.getDimSize(slotAxis));
  SmallVector<Value> sizes;
  for (int64_t axis = 0; axis < type.getRank(); ++axis) {
    if (type.isDynamicDim(axis)) {
      sizes.push_back(axis == 0 ? entries : extent);
    }
  }
  KernelBuilder kernel(host, "export", {op.getCache(), batch, extent}, {createEmpty(host, type, sizes)});
  ImplicitLocOpBuilder &b = kernel.body;
  Value size = createIndex(b, exportBlock), blocks = arith::CeilDivUIOp::create(b, kernel.input(2), size);
  Value list = arith::DivUIOp::create(b, kernel.item, blocks), block = arith::RemUIOp::create(b, kernel.item, blocks);
  Table table = createTable(b, kernel.input(1), kernel.input(0), list);
  Value length = CounterOp::create(b, Counter::Length, table.cache, table.sequence, table.head);
  Value sealed = createSealed(b, table), zero = createIndex(b, 0);
  auto row = VectorType::get({cacheType.getDim(op.getPlane())}, b.getF32Type());
  Value from = createMul(b, block, size), to = arith::MinUIOp::create(b, createAdd(b, from, size), kernel.input(2));
  createFor(b, from, to, [&](Value slot) {
    Value exists = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, slot, length);
    Value x = createIf(
        b, row, exists, [&] { return createStoredRow(b, table, op.getPlane(), slot, sealed); },
        [&] { return arith::ConstantOp::create(b, b.getZeroAttr(row)); });
    SmallVector<Value> place{table.entry, nhd ? slot : table.head, nhd ? table.head : slot, zero};
    vector::StoreOp::create(b, x, kernel.output(0), place);
  });
  Value lists = createMul(host, entries, createIndex(host, cacheType.getHeads()));
  return Replacements(kernel.dispatch(
      createMul(host, lists, arith::CeilDivUIOp::create(host, extent, createIndex(host, exportBlock)))));
}

FailureOr<Replacements> kvc::lowerImport(ImportOp op, ImplicitLocOpBuilder &host) {
  auto type = cast<CacheType>(op.getCache().getType());
  const bool nhd = op.getLayout() == DenseLayout::NHD;
  Value batch = op.getBatch(), lengths = op.getLengths();
  auto extentOf = [&](Value dense) -> Value { return tensor::DimOp::create(host, dense, nhd ? 1 : 2); };
  Value limit = arith::MinUIOp::create(host, extentOf(op.getKey()), extentOf(op.getValue()));
  Value cache = ReserveLengthsOp::create(host, op.getCache(), batch, lengths, limit);
  KernelBuilder kernel(host, "import", {op.getKey(), op.getValue(), lengths, batch}, {cache});
  ImplicitLocOpBuilder &b = kernel.body;
  Table table = createTable(b, kernel.input(3), kernel.output(0), kernel.item);
  Value zero = createIndex(b, 0), one = createIndex(b, 1);
  auto lengthOf = [](ImplicitLocOpBuilder &b, Value lengths, Value entry) -> Value {
    return arith::IndexCastOp::create(b, b.getIndexType(), memref::LoadOp::create(b, lengths, ValueRange{entry}));
  };
  auto load = [&](unsigned input, Plane plane, Value slot) -> Value {
    SmallVector<Value> place{table.entry, nhd ? slot : table.head, nhd ? table.head : slot, zero};
    return vector::LoadOp::create(b, VectorType::get({type.getDim(plane)}, b.getF32Type()), kernel.input(input), place);
  };
  Value length = lengthOf(b, kernel.input(2), table.entry);
  createFor(b, zero, length, zero, [&](Value slot, Value sealed) -> Value {
    createSlotStore(b, table, slot, {load(0, Plane::K, slot), load(1, Plane::V, slot), slot}, {.fresh = true});
    return type.hasTail() ? createSealing(b, table, sealed, sealTarget(b, type, createAdd(b, slot, one))) : sealed;
  });
  cache = kernel.dispatch(createItems(host, batch, type.getHeads()))[0];
  cache = createCounterUpdate(host, "imported", {lengths}, batch, cache, [&](KernelBuilder &k, const Table &table) {
    Value length = lengthOf(k.body, k.input(0), table.entry);
    return Counters{length, sealedOf(k.body, type, length)};
  });
  return Replacements{ReleaseOp::create(host, cache, batch)};
}

FailureOr<Replacements> kvc::lowerRequantize(RequantizeOp op, ImplicitLocOpBuilder &host) {
  auto from = cast<CacheType>(op.getCache().getType()), to = cast<CacheType>(op.getResult().getType());
  Value batch = op.getBatch(), cache = CreateOp::create(host, to, op.getCache(), batch);
  KernelBuilder kernel(host, "requantize", {op.getCache(), batch}, {cache});
  ImplicitLocOpBuilder &b = kernel.body;
  Table source = createTable(b, kernel.input(1), kernel.input(0), kernel.item), table = source;
  table.cache = kernel.output(0);
  auto lengthOf = [](ImplicitLocOpBuilder &b, const Table &source) -> Value {
    return CounterOp::create(b, Counter::Length, source.cache, source.sequence, source.head);
  };
  Value zero = createIndex(b, 0), one = createIndex(b, 1), length = lengthOf(b, source), old = createSealed(b, source);
  auto load = [&](SlotPlane plane, Type number, Value slot) -> Value {
    return LoadNumberOp::create(b, number, plane, source.cache, source.sequence, source.head, slot);
  };
  Value sealed = createFor(b, zero, length, zero, [&](Value slot, Value sealed) -> Value {
    Value position = arith::IndexCastOp::create(b, b.getIndexType(), load(SlotPlane::Position, b.getI32Type(), slot));
    Value key = createStoredRow(b, source, Plane::K, slot, old),
          value = createStoredRow(b, source, Plane::V, slot, old);
    createSlotStore(b, table, slot, {key, value, position}, {.fresh = true, .bounds = false});
    for (auto [isKept, plane] : {std::pair{from.getScorePlane() && to.getScorePlane(), SlotPlane::Score},
                                 std::pair{from.getNormPlane() && to.getNormPlane(), SlotPlane::Norm}}) {
      if (isKept) {
        StoreNumberOp::create(b, plane, load(plane, b.getF32Type(), slot), table.cache, table.sequence, table.head,
                              slot);
      }
    }
    return to.hasTail() ? createSealing(b, table, sealed, sealTarget(b, to, createAdd(b, slot, one))) : sealed;
  });
  if (to.getMinmaxPlane()) {
    createBoundsOf(b, table, zero, length, to.hasTail() ? sealed : Value());
  }
  cache = kernel.dispatch(createItems(host, batch, to.getHeads()))[0];
  auto counters = [&](KernelBuilder &k, const Table &table) {
    Table source = table;
    source.cache = k.input(0);
    Value length = lengthOf(k.body, source);
    return Counters{length, sealedOf(k.body, to, length)};
  };
  return Replacements{createCounterUpdate(host, "requantized", {op.getCache()}, batch, cache, counters)};
}

FailureOr<Replacements> kvc::lowerMergeStates(MergeStatesOp op, ImplicitLocOpBuilder &host) {
  auto outType = cast<RankedTensorType>(op.getOut().getType());
  auto lseType = cast<RankedTensorType>(op.getLse().getType());
  Value rows = tensor::DimOp::create(host, op.getStates()[0], 0);
  auto empty = [&](RankedTensorType type) {
    return createEmpty(host, type, type.isDynamicDim(0) ? ValueRange{rows} : ValueRange{});
  };
  KernelBuilder kernel(host, "merge_states", op.getStates(), {empty(outType), empty(lseType)});
  ImplicitLocOpBuilder &b = kernel.body;
  const size_t states = op.getStates().size() / 2;
  auto row = VectorType::get({outType.getDimSize(2)}, b.getF32Type());
  Value zero = createIndex(b, 0);
  auto number = [&](float x) -> Value { return arith::ConstantOp::create(b, b.getF32FloatAttr(x)); };
  createFor(b, zero, createIndex(b, outType.getDimSize(1)), [&](Value head) {
    SmallVector<Value> place{kernel.item, head}, outPlace{kernel.item, head, zero};
    SmallVector<Value> lses;
    Value none = number(-std::numeric_limits<float>::infinity()), top = none;
    for (size_t s = 0; s < states; ++s) {
      lses.push_back(memref::LoadOp::create(b, kernel.input(2 * s + 1), place));
      top = arith::MaximumFOp::create(b, top, lses.back());
    }
    // A row that saw no key anywhere: out = 0, lse = -inf.
    Value seen = arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, top, none);
    Value shift = arith::SelectOp::create(b, seen, top, number(0));
    Value total = number(0), sum = arith::ConstantOp::create(b, b.getZeroAttr(row));
    for (size_t s = 0; s < states; ++s) {
      Value weight = math::ExpOp::create(b, arith::SubFOp::create(b, lses[s], shift));
      total = arith::AddFOp::create(b, total, weight);
      // A state of no keys has weight 0, whatever its out holds.
      Value counts = arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, weight, number(0));
      Value x = vector::LoadOp::create(b, row, kernel.input(2 * s), outPlace);
      x = arith::MulFOp::create(b, x, vector::BroadcastOp::create(b, row, weight));
      sum = arith::SelectOp::create(b, counts, arith::AddFOp::create(b, sum, x), sum);
    }
    Value divisor = arith::SelectOp::create(b, seen, total, number(1));
    Value out = arith::DivFOp::create(b, sum, vector::BroadcastOp::create(b, row, divisor));
    Value lse = arith::AddFOp::create(b, shift, math::LogOp::create(b, divisor));
    vector::StoreOp::create(b, out, kernel.output(0), outPlace);
    memref::StoreOp::create(b, arith::SelectOp::create(b, seen, lse, none), kernel.output(1), place);
  });
  return Replacements(kernel.dispatch(rows));
}
