//===- Append.cpp - New slots: append and import --------------------------===//
//
// One kernel writes slots, a second one sets the counters: with one table for several KV heads, work items of all heads
// read the old counters.
//
//===----------------------------------------------------------------------===//
#include "SlotWriter.h"

#include "../Utils/Rotation.h"
#include "Lowerings.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;
using namespace kvc::tile;

/// Slots that one work item writes at least, where slots can be written independently.
static constexpr int64_t smallestBlock = 64;

/// Slot of a ring for a position: the first `sinks` stay, the others share `window` slots.
static Value ringSlot(ImplicitLocOpBuilder &b, CacheType type, Value position) {
  Value sinks = createIndex(b, type.getSinks());
  // Below the sinks this wraps around, but is not chosen.
  Value beyond = arith::RemUIOp::create(b, arith::SubIOp::create(b, position, sinks), createIndex(b, type.getWindow()));
  Value isSink = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, position, sinks);
  return arith::SelectOp::create(b, isSink, position, createAdd(b, sinks, beyond));
}

namespace {
/// The rows of an append, row by row of one KV head.
struct AppendRows {
  AppendOp op;
  KernelBuilder &kernel;
  ImplicitLocOpBuilder &b;
  CacheType type;
  Value head;

  Value load(unsigned input, Value row, int64_t channels) {
    auto vector = VectorType::get({channels}, b.getF32Type());
    return vector::LoadOp::create(b, vector, kernel.input(input), ValueRange{row, head, createIndex(b, 0)});
  }
  NewSlot slot(Value row, Value position) {
    Value key = load(0, row, type.getKDim());
    if (RopeAttr rope = op.getRopeAttr()) {
      key = createRotation(b, rope, key, createRopeAngles(b, rope, position));
    }
    return {key, load(1, row, type.getVDim()), position};
  }
};
} // namespace

FailureOr<Replacements> kvc::lowerAppend(AppendOp op, ImplicitLocOpBuilder &host) {
  auto type = cast<CacheType>(op.getCache().getType());
  Value cache = op.getCache(), batch = op.getBatch();
  if (type.isRing()) {
    // Any slot of a ring may be overwritten.
    cache = ReserveOp::create(host, ReserveMode::Rewrite, cache, batch);
  }
  cache = ReserveOp::create(host, ReserveMode::Append, cache, batch);
  Value entries = EntriesOp::create(host, batch), heads = createIndex(host, type.getHeads());

  // Whole blocks of pages are independent of each other. A tail or a ring is written in order by one work item.
  const bool inOrder = type.hasTail() || type.isRing();
  const int64_t block = llvm::alignTo(smallestBlock, type.getPage());
  Value blocks = createIndex(host, 1);
  if (!inOrder) {
    Value most = arith::CeilDivUIOp::create(host, MaxRowsOp::create(host, batch), createIndex(host, block));
    blocks = createAdd(host, most, blocks);
  }

  KernelBuilder kernel(host, "append", {op.getKey(), op.getValue(), batch, blocks}, {cache});
  ImplicitLocOpBuilder &b = kernel.body;
  Value list = arith::DivUIOp::create(b, kernel.item, kernel.input(3));
  Value number = arith::RemUIOp::create(b, kernel.item, kernel.input(3));
  Table table = createTable(b, kernel.input(2), kernel.output(0), list);
  auto range = QueryRangeOp::create(b, kernel.input(2), table.entry);
  Value length = CounterOp::create(b, Counter::Length, table.cache, table.sequence, table.head);
  AppendRows rows{op, kernel, b, type, table.head};
  auto positionOf = [&](Value row) -> Value { return PositionOp::create(b, kernel.input(2), row); };

  if (!inOrder) {
    Value first = createAdd(b, arith::DivUIOp::create(b, length, createIndex(b, block)), number);
    Value from = createMul(b, first, createIndex(b, block)), to = createAdd(b, from, createIndex(b, block));
    Value end = createAdd(b, length, arith::SubIOp::create(b, range.getEnd(), range.getBegin()));
    Value shift = arith::SubIOp::create(b, range.getBegin(), length);
    createFor(b, arith::MaxUIOp::create(b, from, length), arith::MinUIOp::create(b, to, end), [&](Value slot) {
      Value row = createAdd(b, slot, shift);
      createSlotStore(b, table, slot, rows.slot(row, positionOf(row)), {.fresh = true});
    });
  } else if (type.isRing()) {
    createFor(b, range.getBegin(), range.getEnd(), length, [&](Value row, Value used) {
      Value position = positionOf(row), slot = ringSlot(b, type, position);
      Value fresh = arith::CmpIOp::create(b, arith::CmpIPredicate::uge, slot, used);
      createSlotStore(b, table, slot, rows.slot(row, position), {.freshIf = fresh});
      return Value(arith::MaxUIOp::create(b, used, createAdd(b, slot, createIndex(b, 1))));
    });
  } else {
    Value sealed = CounterOp::create(b, Counter::Sealed, table.cache, table.sequence, table.head);
    Value shift = arith::SubIOp::create(b, length, range.getBegin());
    createFor(b, range.getBegin(), range.getEnd(), sealed, [&](Value row, Value sealedBefore) {
      Value slot = createAdd(b, row, shift);
      createSlotStore(b, table, slot, rows.slot(row, positionOf(row)), {.fresh = true});
      return createSealing(b, table, sealedBefore, sealTarget(b, type, createAdd(b, slot, createIndex(b, 1))));
    });
  }
  cache = kernel.dispatch(createMul(host, createMul(host, entries, heads), blocks))[0];

  return Replacements{
      createCounterUpdate(host, "advance", {}, batch, cache, [&](KernelBuilder &advance, const Table &table) {
        ImplicitLocOpBuilder &b = advance.body;
        auto range = QueryRangeOp::create(b, advance.input(0), table.entry);
        Value old = CounterOp::create(b, Counter::Length, table.cache, table.sequence, table.head);
        Value length = createAdd(b, old, arith::SubIOp::create(b, range.getEnd(), range.getBegin()));
        if (type.isRing()) {
          length = arith::MinUIOp::create(b, length, createIndex(b, type.getSinks() + type.getWindow()));
        }
        return Counters{length};
      })};
}
