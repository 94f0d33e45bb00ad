//===- Rewrite.cpp - Changes of slots that are there already --------------===//
//
// seal, truncate, compact, evict, rebase, accumulate.
//
//===----------------------------------------------------------------------===//
#include "../Utils/Rotation.h"
#include "Lowerings.h"
#include "SlotWriter.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;
using namespace kvc::tile;

static Value lengthOf(ImplicitLocOpBuilder &b, const Table &table) {
  return CounterOp::create(b, Counter::Length, table.cache, table.sequence, table.head);
}

static Value roundDown(ImplicitLocOpBuilder &b, Value x, int64_t multiple) {
  Value m = createIndex(b, multiple);
  return createMul(b, arith::DivUIOp::create(b, x, m), m);
}

static Value compare(ImplicitLocOpBuilder &b, arith::CmpIPredicate predicate, Value x, Value y) {
  return arith::CmpIOp::create(b, predicate, x, y);
}

static Value select(ImplicitLocOpBuilder &b, Value condition, Value yes, Value no) {
  return arith::SelectOp::create(b, condition, yes, no);
}

/// The batch's sequences, with no page or tail shared.
static Value reserveRewrite(ImplicitLocOpBuilder &host, Value cache, Value batch) {
  return ReserveOp::create(host, ReserveMode::Rewrite, cache, batch);
}

//===----------------------------------------------------------------------===//
// seal
//===----------------------------------------------------------------------===//

FailureOr<Replacements> kvc::lowerSeal(SealOp op, ImplicitLocOpBuilder &host) {
  auto type = cast<CacheType>(op.getCache().getType());
  Value batch = op.getBatch(), cache = reserveRewrite(host, op.getCache(), batch);
  auto target = [&](ImplicitLocOpBuilder &b, const Table &table) {
    return roundDown(b, lengthOf(b, table), type.getSealGroup());
  };
  KernelBuilder kernel(host, "seal", {batch}, {cache});
  Table table = createTable(kernel.body, kernel.input(0), kernel.output(0), kernel.item);
  createSealing(kernel.body, table, createSealed(kernel.body, table), target(kernel.body, table));
  cache = kernel.dispatch(createItems(host, batch, type.getHeads()))[0];
  return Replacements{createCounterUpdate(host, "sealed", {}, batch, cache, [&](KernelBuilder &k, const Table &table) {
    ImplicitLocOpBuilder &b = k.body;
    return Counters{lengthOf(b, table), arith::MaxUIOp::create(b, createSealed(b, table), target(b, table))};
  })};
}

//===----------------------------------------------------------------------===//
// truncate
//===----------------------------------------------------------------------===//

/// The length that an entry's tables are to be cut to.
static Value wantedLength(ImplicitLocOpBuilder &b, const Table &table, Value lengths) {
  Value want = memref::LoadOp::create(b, lengths, ValueRange{table.entry});
  return arith::IndexCastOp::create(b, b.getIndexType(), want);
}

/// The length that a table is cut to; one below 0 cuts nothing.
static Value cutLength(ImplicitLocOpBuilder &b, const Table &table, Value lengths) {
  return arith::MinUIOp::create(b, lengthOf(b, table), wantedLength(b, table, lengths));
}

/// How many slots stay sealed: a cut group does not.
static Value cutSealed(ImplicitLocOpBuilder &b, const Table &table, Value length, Value sealed) {
  return arith::MinUIOp::create(b, sealed,
                                select(b, compare(b, arith::CmpIPredicate::ult, length, sealed),
                                       roundDown(b, length, table.type().getSealGroup()), sealed));
}

FailureOr<Replacements> kvc::lowerTruncate(TruncateOp op, ImplicitLocOpBuilder &host) {
  auto type = cast<CacheType>(op.getCache().getType());
  Value batch = op.getBatch(), cache = op.getCache();
  // Without a tail and bounds only the counters change.
  if (type.hasTail() || type.getMinmaxPlane()) {
    cache = reserveRewrite(host, cache, batch);
    KernelBuilder kernel(host, "truncate", {op.getLengths(), batch}, {cache});
    ImplicitLocOpBuilder &b = kernel.body;
    Table table = createTable(b, kernel.input(1), kernel.output(0), kernel.item);
    Value old = lengthOf(b, table), length = cutLength(b, table, kernel.input(0)), sealed = createSealed(b, table);
    if (sealed) {
      sealed = cutSealed(b, table, length, sealed);
      Value wasSealed = arith::MinUIOp::create(b, createSealed(b, table), length);
      createFor(b, sealed, wasSealed, [&](Value slot) {
        for (Plane plane : {Plane::K, Plane::V}) {
          Value row = createStoredRow(b, table, plane, slot, {});
          StoreSlotOp::create(b, plane, Part::Tail, row, table.cache, table.sequence, table.head, slot,
                              createIndex(b, 0));
        }
      });
    }
    if (type.getMinmaxPlane()) {
      // A page that keeps some of its slots.
      createIf(b, compare(b, arith::CmpIPredicate::ult, length, old),
               [&] { createBoundsOf(b, table, roundDown(b, length, type.getPage()), length, sealed); });
    }
    cache = kernel.dispatch(createItems(host, batch, type.getHeads()))[0];
  }
  cache = createCounterUpdate(host, "cut", {op.getLengths()}, batch, cache, [&](KernelBuilder &k, const Table &table) {
    ImplicitLocOpBuilder &b = k.body;
    Value length = cutLength(b, table, k.input(0)), want = wantedLength(b, table, k.input(0));
    Value sealed = type.hasTail() ? cutSealed(b, table, length, createSealed(b, table)) : length;
    // The host refuses a length below 0 where it releases pages.
    Value refused = compare(b, arith::CmpIPredicate::slt, want, createIndex(b, 0));
    return Counters{select(b, refused, want, length), sealed};
  });
  return Replacements{ReleaseOp::create(host, cache, batch)};
}

//===----------------------------------------------------------------------===//
// compact, evict
//===----------------------------------------------------------------------===//

/// Moves what lies with a slot beside its key and value.
static void moveNumbers(ImplicitLocOpBuilder &b, const Table &table, Value from, Value to) {
  CacheType type = table.type();
  auto move = [&](bool present, SlotPlane plane, Type number) {
    if (present) {
      Value x = LoadNumberOp::create(b, number, plane, table.cache, table.sequence, table.head, from);
      StoreNumberOp::create(b, plane, x, table.cache, table.sequence, table.head, to);
    }
  };
  move(type.getStoredPositions(), SlotPlane::Position, b.getI32Type());
  move(type.getScorePlane(), SlotPlane::Score, b.getF32Type());
  move(type.getNormPlane(), SlotPlane::Norm, b.getF32Type());
}

namespace {
/// Exact rows on their way to new places of the ring, where one may land on another that has not left yet.
struct TailCopy {
  Value key, value;

  static TailCopy create(ImplicitLocOpBuilder &b, CacheType type) {
    auto rows = [&](Plane plane) -> Value {
      return memref::AllocaOp::create(b, MemRefType::get({type.getTailSlots(), type.getDim(plane)}, b.getF32Type()));
    };
    return {rows(Plane::K), rows(Plane::V)};
  }
  Value of(Plane plane) const { return plane == Plane::K ? key : value; }
};
} // namespace

/// Keeps the slots of `keep`. `always`: bounds are computed anew even of a table that keeps all its slots.
static Value createCompact(ImplicitLocOpBuilder &host, Value cache, Value keep, Value batch, bool always) {
  auto type = cast<CacheType>(cache.getType());
  cache = reserveRewrite(host, cache, batch);
  KernelBuilder kernel(host, "compact", {keep, batch}, {cache});
  ImplicitLocOpBuilder &b = kernel.body;
  TailCopy copy = type.hasTail() ? TailCopy::create(b, type) : TailCopy();
  // One table for each KV head, or one head: the verifier sees to it.
  Table table = createTable(b, kernel.input(1), kernel.output(0), kernel.item);
  Value selection = kernel.input(0), zero = createIndex(b, 0);
  auto heads = b.getI64IntegerAttr(type.getHeads());
  Value length = lengthOf(b, table), sealed = createSealed(b, table);
  Value count = SelectionCountOp::create(b, selection, table.entry, table.head, heads);
  auto sourceOf = [&](Value to) -> Value {
    return SelectionEntryOp::create(b, selection, table.entry, table.head, to, heads);
  };
  // The kept slots that are sealed come first, as lists ascend.
  Value kept = count;
  if (sealed) {
    kept = createFor(b, zero, count, zero, [&](Value to, Value before) -> Value {
      Value inPages = compare(b, arith::CmpIPredicate::ult, sourceOf(to), sealed);
      return createAdd(b, before, arith::IndexCastUIOp::create(b, b.getIndexType(), inPages));
    });
    createFor(b, kept, count, [&](Value to) {
      Value place = arith::SubIOp::create(b, to, kept), from = sourceOf(to);
      for (Plane plane : {Plane::K, Plane::V}) {
        auto row = VectorType::get({type.getDim(plane)}, b.getF32Type());
        Value x = LoadSlotOp::create(b, row, plane, Part::Tail, table.cache, table.sequence, table.head, from, zero);
        vector::StoreOp::create(b, x, copy.of(plane), ValueRange{place, zero});
      }
    });
  }
  createFor(b, zero, count, [&](Value to) {
    Value from = sourceOf(to);
    createIf(b, compare(b, arith::CmpIPredicate::ne, from, to), [&] {
      moveNumbers(b, table, from, to);
      auto move = [&] { MoveSlotOp::create(b, table.cache, table.sequence, table.head, from, to); };
      sealed ? createIf(b, compare(b, arith::CmpIPredicate::ult, to, kept), move) : move();
    });
  });
  if (sealed) {
    createFor(b, kept, count, [&](Value to) {
      Value place = arith::SubIOp::create(b, to, kept);
      for (Plane plane : {Plane::K, Plane::V}) {
        auto row = VectorType::get({type.getDim(plane)}, b.getF32Type());
        Value x = vector::LoadOp::create(b, row, copy.of(plane), ValueRange{place, zero});
        StoreSlotOp::create(b, plane, Part::Tail, x, table.cache, table.sequence, table.head, to, zero);
      }
    });
  }
  if (type.getMinmaxPlane()) {
    auto bounds = [&] { createBoundsOf(b, table, zero, count, sealed ? kept : Value()); };
    always ? bounds() : createIf(b, compare(b, arith::CmpIPredicate::ult, count, length), bounds);
  }
  // The only item of this table: nobody else reads its counters.
  SetCounterOp::create(b, Counter::Length, table.cache, table.sequence, table.head, count);
  SetCounterOp::create(b, Counter::Sealed, table.cache, table.sequence, table.head, kept);
  cache = kernel.dispatch(createItems(host, batch, type.getHeads()))[0];
  return ReleaseOp::create(host, cache, batch);
}

FailureOr<Replacements> kvc::lowerCompact(CompactOp op, ImplicitLocOpBuilder &host) {
  return Replacements{createCompact(host, op.getCache(), op.getKeep(), op.getBatch(), /*always=*/true)};
}

FailureOr<Replacements> kvc::lowerEvict(EvictOp op, ImplicitLocOpBuilder &host) {
  TopK keep{getInt(op.getBudget()), getInt(op.getFirst()), getInt(op.getLast())};
  Value selection = createTopK(host, Unit::Token, op.getScores(), op.getCache(), op.getBatch(), keep);
  return Replacements{createCompact(host, op.getCache(), selection, op.getBatch(), /*always=*/false)};
}

//===----------------------------------------------------------------------===//
// rebase
//===----------------------------------------------------------------------===//

FailureOr<Replacements> kvc::lowerRebase(RebaseOp op, ImplicitLocOpBuilder &host) {
  auto type = cast<CacheType>(op.getCache().getType());
  Value batch = op.getBatch(), cache = reserveRewrite(host, op.getCache(), batch);
  KernelBuilder kernel(host, "rebase", {batch}, {cache});
  ImplicitLocOpBuilder &b = kernel.body;
  Table table = createTable(b, kernel.input(0), kernel.output(0), kernel.item);
  Value length = lengthOf(b, table), sealed = createSealed(b, table), zero = createIndex(b, 0);
  Value never = arith::ConstantIntOp::create(b, b.getI1Type(), 0);
  Value changed = createFor(b, zero, length, never, [&](Value slot, Value before) -> Value {
    Value word =
        LoadNumberOp::create(b, b.getI32Type(), SlotPlane::Position, table.cache, table.sequence, table.head, slot);
    Value position = arith::IndexCastOp::create(b, b.getIndexType(), word);
    Value moves = compare(b, arith::CmpIPredicate::ne, position, slot);
    createIf(b, moves, [&] {
      RopeAngles angles = createRopeAngles(b, op.getRope(), arith::SubIOp::create(b, slot, position));
      Value key = createRotation(b, op.getRope(), createStoredRow(b, table, Plane::K, slot, sealed), angles);
      auto store = [&](Part part) {
        StoreSlotOp::create(b, Plane::K, part, key, table.cache, table.sequence, table.head, slot, zero);
      };
      if (sealed) {
        createIf(b, compare(b, arith::CmpIPredicate::ult, slot, sealed), [&] { store(Part::Pages); });
        createIf(b, compare(b, arith::CmpIPredicate::uge, slot, sealed), [&] { store(Part::Tail); });
      } else {
        store(Part::Pages);
      }
      StoreNumberOp::create(b, SlotPlane::Position, arith::IndexCastOp::create(b, b.getI32Type(), slot), table.cache,
                            table.sequence, table.head, slot);
    });
    return arith::OrIOp::create(b, before, moves);
  });
  if (type.getMinmaxPlane()) {
    createIf(b, changed, [&] { createBoundsOf(b, table, zero, length, sealed); });
  }
  return Replacements(kernel.dispatch(createItems(host, batch, type.getHeads())));
}

//===----------------------------------------------------------------------===//
// accumulate
//===----------------------------------------------------------------------===//

FailureOr<Replacements> kvc::lowerAccumulate(AccumulateOp op, ImplicitLocOpBuilder &host) {
  auto type = cast<CacheType>(op.getCache().getType());
  Value batch = op.getBatch(), cache = reserveRewrite(host, op.getCache(), batch);
  KernelBuilder kernel(host, "accumulate", {op.getStats(), batch}, {cache});
  ImplicitLocOpBuilder &b = kernel.body;
  Table table = createTable(b, kernel.input(1), kernel.output(0), kernel.item);
  createFor(b, createIndex(b, 0), lengthOf(b, table), [&](Value slot) {
    Value x = memref::LoadOp::create(b, kernel.input(0), ValueRange{table.entry, table.head, slot});
    Value old =
        LoadNumberOp::create(b, b.getF32Type(), SlotPlane::Score, table.cache, table.sequence, table.head, slot);
    auto combined = [&]() -> Value {
      switch (op.getUpdate()) {
      case Update::Add:
        return arith::AddFOp::create(b, old, x);
      case Update::Decay: {
        Value decay =
            arith::ConstantOp::create(b, b.getF32FloatAttr(static_cast<float>(getFloatOr(op.getDecayAttr(), 1))));
        return arith::AddFOp::create(b, arith::MulFOp::create(b, old, decay), x);
      }
      case Update::Max:
        return arith::MaxNumFOp::create(b, old, x);
      case Update::Replace:
        return x;
      }
      llvm_unreachable("every update is handled");
    };
    StoreNumberOp::create(b, SlotPlane::Score, combined(), table.cache, table.sequence, table.head, slot);
  });
  return Replacements(kernel.dispatch(createItems(host, batch, type.getHeads())));
}
