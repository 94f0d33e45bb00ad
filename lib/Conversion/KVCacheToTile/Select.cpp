//===- Select.cpp - Scores and selections ---------------------------------===//
//
// score, pool, topk, threshold.
//
//===----------------------------------------------------------------------===//
#include "../Utils/Rotation.h"
#include "Lowerings.h"
#include "SlotWriter.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <limits>

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;
using namespace kvc::tile;

/// Slots or pages of one work item.
static constexpr int64_t scoreBlock = 64;

static Value createFloat(ImplicitLocOpBuilder &b, float value) {
  return arith::ConstantOp::create(b, b.getF32FloatAttr(value));
}

static constexpr float minusInfinity = -std::numeric_limits<float>::infinity();

static Value ceilDiv(ImplicitLocOpBuilder &b, Value x, int64_t by) {
  return arith::CeilDivUIOp::create(b, x, createIndex(b, by));
}

/// How many slots or pages of a table a score or selection speaks of. Of a cache with a tail only pages with sealed
/// slots count as pages: attention over a selection always sees the tail.
static Value unitsOf(ImplicitLocOpBuilder &b, const Table &table, Unit unit) {
  Value sealed = unit == Unit::Page ? createSealed(b, table) : Value();
  Value slots = sealed ? sealed : CounterOp::create(b, Counter::Length, table.cache, table.sequence, table.head);
  return unit == Unit::Page ? ceilDiv(b, slots, table.type().getPage()) : slots;
}

//===----------------------------------------------------------------------===//
// score
//===----------------------------------------------------------------------===//

namespace {
/// The kernel of one score op: f(slot or page) for a table.
struct ScoreKernel {
  ScoreOp op;
  ImplicitLocOpBuilder &b;
  Table table;
  /// Null without a query.
  Value query, begin, end, sealed;

  VectorType keyType() const { return VectorType::get({table.type().getKDim()}, b.getF32Type()); }

  /// The largest f(q) over the rows of the entry and the query heads of the group.
  Value largest(function_ref<Value(Value)> f) {
    const int64_t group = cast<MemRefType>(query.getType()).getDimSize(1) / table.type().getHeads();
    Value first = createMul(b, table.head, createIndex(b, group));
    return createFor(b, begin, end, createFloat(b, minusInfinity), [&](Value row, Value top) {
      return createFor(b, createIndex(b, 0), createIndex(b, group), top, [&](Value member, Value top) -> Value {
        SmallVector<Value> place{row, createAdd(b, first, member), createIndex(b, 0)};
        Value q = vector::LoadOp::create(b, keyType(), query, place);
        return arith::MaxNumFOp::create(b, top, f(q));
      });
    });
  }
  Value number(SlotPlane plane, Value slot) {
    return LoadNumberOp::create(b, b.getF32Type(), plane, table.cache, table.sequence, table.head, slot);
  }
  Value sum(Value x) { return vector::ReductionOp::create(b, vector::CombiningKind::ADD, x); }

  Value score(Value unit) {
    switch (op.getKind()) {
    case ScoreKind::Bound: {
      auto load = [&](Bound bound) -> Value {
        return LoadBoundOp::create(b, keyType(), bound, table.cache, table.sequence, table.head, unit,
                                   createIndex(b, 0));
      };
      Value low = load(Bound::Min), high = load(Bound::Max);
      return largest([&](Value q) {
        return sum(arith::MaxNumFOp::create(b, arith::MulFOp::create(b, q, low), arith::MulFOp::create(b, q, high)));
      });
    }
    case ScoreKind::Dot: {
      Value key = createStoredRow(b, table, Plane::K, unit, sealed);
      if (RopeAttr rope = table.type().getRope()) {
        Value word =
            LoadNumberOp::create(b, b.getI32Type(), SlotPlane::Position, table.cache, table.sequence, table.head, unit);
        Value position = arith::IndexCastOp::create(b, b.getIndexType(), word);
        key = createRotation(b, rope, key, createRopeAngles(b, rope, position));
      }
      return largest([&](Value q) { return sum(arith::MulFOp::create(b, q, key)); });
    }
    case ScoreKind::KeyNorm:
      return number(SlotPlane::Norm, unit);
    case ScoreKind::Plane:
      return number(SlotPlane::Score, unit);
    case ScoreKind::Mean:
      break; // caches with that plane are refused before
    }
    llvm_unreachable("every kind that has a lowering is handled");
  }
};
} // namespace

FailureOr<Replacements> kvc::lowerScore(ScoreOp op, ImplicitLocOpBuilder &host) {
  auto cacheType = cast<CacheType>(op.getCache().getType());
  auto type = cast<RankedTensorType>(op.getResult().getType());
  const Unit unit = op.getKind() == ScoreKind::Bound ? Unit::Page : Unit::Token;
  Value batch = op.getBatch(), entries = EntriesOp::create(host, batch);
  Value extent;
  if (type.isDynamicDim(2)) {
    extent = MaxLengthOp::create(host, op.getCache(), batch);
    extent = unit == Unit::Page ? ceilDiv(host, extent, cacheType.getPage()) : extent;
  } else {
    extent = createIndex(host, type.getDimSize(2));
  }
  SmallVector<Value> sizes;
  if (type.isDynamicDim(0)) {
    sizes.push_back(entries);
  }
  if (type.isDynamicDim(2)) {
    sizes.push_back(extent);
  }
  SmallVector<Value> inputs{op.getCache(), batch, extent};
  if (op.getQuery()) {
    inputs.push_back(op.getQuery());
  }
  KernelBuilder kernel(host, "score", inputs, {createEmpty(host, type, sizes)});
  ImplicitLocOpBuilder &b = kernel.body;
  Value blocks = ceilDiv(b, kernel.input(2), scoreBlock);
  Value list = arith::DivUIOp::create(b, kernel.item, blocks), block = arith::RemUIOp::create(b, kernel.item, blocks);
  Table table = createTable(b, kernel.input(1), kernel.input(0), list);
  ScoreKernel score{op, b, table, {}, {}, {}, createSealed(b, table)};
  if (op.getQuery()) {
    auto range = QueryRangeOp::create(b, kernel.input(1), table.entry);
    score.query = kernel.input(3);
    score.begin = range.getBegin();
    score.end = range.getEnd();
  }
  Value units = unitsOf(b, table, unit);
  Value from = createMul(b, block, createIndex(b, scoreBlock));
  Value to = arith::MinUIOp::create(b, createAdd(b, from, createIndex(b, scoreBlock)), kernel.input(2));
  createFor(b, from, to, [&](Value i) {
    Value exists = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, i, units);
    Value x = createIf(
        b, b.getF32Type(), exists, [&] { return score.score(i); }, [&] { return createFloat(b, minusInfinity); });
    memref::StoreOp::create(b, x, kernel.output(0), ValueRange{table.entry, table.head, i});
  });
  Value lists = createMul(host, entries, createIndex(host, cacheType.getHeads()));
  return Replacements(kernel.dispatch(createMul(host, lists, ceilDiv(host, extent, scoreBlock))));
}

//===----------------------------------------------------------------------===//
// pool
//===----------------------------------------------------------------------===//

FailureOr<Replacements> kvc::lowerPool(PoolOp op, ImplicitLocOpBuilder &host) {
  auto type = cast<RankedTensorType>(op.getInput().getType());
  auto extentOf = [&](int64_t axis) -> Value { return tensor::DimOp::create(host, op.getInput(), axis); };
  SmallVector<Value> sizes;
  for (int64_t axis = 0; axis < type.getRank(); ++axis) {
    if (type.isDynamicDim(axis)) {
      sizes.push_back(extentOf(axis));
    }
  }
  KernelBuilder kernel(host, "pool", {op.getInput()}, {createEmpty(host, type, sizes)});
  ImplicitLocOpBuilder &b = kernel.body;
  Value input = kernel.input(0), heads = createIndex(b, type.getDimSize(1));
  Value entry = arith::DivUIOp::create(b, kernel.item, heads), head = arith::RemUIOp::create(b, kernel.item, heads);
  Value extent = memref::DimOp::create(b, input, 2), half = createIndex(b, getInt(op.getKernel()) / 2);
  Value zero = createIndex(b, 0), one = createIndex(b, 1), past = createFloat(b, minusInfinity);
  auto load = [&](Value slot) -> Value { return memref::LoadOp::create(b, input, ValueRange{entry, head, slot}); };
  // -inf: past the table's end. It neither counts nor gets a value.
  auto exists = [&](Value x) -> Value { return arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, x, past); };
  const bool isMax = op.getMode() == "max";
  createFor(b, zero, extent, [&](Value slot) {
    Value from = arith::SubIOp::create(b, arith::MaxUIOp::create(b, slot, half), half);
    Value to = arith::MinUIOp::create(b, createAdd(b, slot, createAdd(b, half, one)), extent);
    Value pooled = createFor(b, from, to, isMax ? past : createFloat(b, 0), [&](Value i, Value sum) -> Value {
      Value x = load(i);
      if (isMax) {
        return arith::MaxNumFOp::create(b, sum, x);
      }
      return arith::AddFOp::create(b, sum, arith::SelectOp::create(b, exists(x), x, createFloat(b, 0)));
    });
    if (!isMax) {
      Value count = createFor(b, from, to, createFloat(b, 0), [&](Value i, Value sum) -> Value {
        Value n = arith::SelectOp::create(b, exists(load(i)), createFloat(b, 1), createFloat(b, 0));
        return arith::AddFOp::create(b, sum, n);
      });
      pooled = arith::DivFOp::create(b, pooled, count);
    }
    pooled = arith::SelectOp::create(b, exists(load(slot)), pooled, past);
    memref::StoreOp::create(b, pooled, kernel.output(0), ValueRange{entry, head, slot});
  });
  return Replacements(kernel.dispatch(createMul(host, extentOf(0), createIndex(host, type.getDimSize(1)))));
}

//===----------------------------------------------------------------------===//
// topk
//===----------------------------------------------------------------------===//

/// Scores as integers of the same order: NaN lowest, both zeros equal.
static Value orderedKey(ImplicitLocOpBuilder &b, Value score) {
  Value isNan = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, score, score);
  Value isZero = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, score, createFloat(b, 0));
  Value x = arith::SelectOp::create(b, isNan, createFloat(b, minusInfinity), score);
  x = arith::SelectOp::create(b, isZero, createFloat(b, 0), x);
  auto word = [&](int64_t value) -> Value { return arith::ConstantIntOp::create(b, b.getI32Type(), value); };
  Value bits = arith::BitcastOp::create(b, b.getI32Type(), x);
  // Negative numbers in two's complement instead of sign and magnitude.
  Value sign = arith::ShRSIOp::create(b, bits, word(31));
  return arith::XOrIOp::create(b, bits, arith::AndIOp::create(b, sign, word(0x7fffffff)));
}

namespace {
/// Candidates of one list: units `from .. to - 1` with their scores.
struct Candidates {
  ImplicitLocOpBuilder &b;
  Value scores, entry, head, from, to;

  Value key(Value unit) const {
    return orderedKey(b, memref::LoadOp::create(b, scores, ValueRange{entry, head, unit}));
  }
  /// How many have a key of at least, or above, `threshold`.
  Value count(arith::CmpIPredicate predicate, Value threshold) const {
    return createFor(b, from, to, createIndex(b, 0), [&](Value unit, Value n) -> Value {
      Value counts = arith::CmpIOp::create(b, predicate, key(unit), threshold);
      return createAdd(b, n, arith::IndexCastUIOp::create(b, b.getIndexType(), counts));
    });
  }
  /// The largest key that at least `k` candidates reach (the smallest i32 when there are fewer): one bit at a time.
  Value threshold(Value k) const {
    auto word = [&](int64_t value) -> Value { return arith::ConstantIntOp::create(b, b.getI32Type(), value); };
    Value lowest = word(std::numeric_limits<int32_t>::min());
    return createFor(b, createIndex(b, 0), createIndex(b, 32), lowest, [&](Value i, Value known) -> Value {
      Value bit = arith::ShRUIOp::create(b, lowest, arith::IndexCastOp::create(b, b.getI32Type(), i));
      Value tried = arith::XOrIOp::create(b, known, bit);
      Value reached = arith::CmpIOp::create(b, arith::CmpIPredicate::uge, count(arith::CmpIPredicate::sge, tried), k);
      return arith::SelectOp::create(b, reached, tried, known);
    });
  }
};
} // namespace

Value kvc::createTopK(ImplicitLocOpBuilder &host, Unit unit, Value scores, Value cache, Value batch, const TopK &keep) {
  auto cacheType = cast<CacheType>(cache.getType());
  Value lists = createItems(host, batch, cacheType.getHeads());
  constexpr int64_t dynamic = ShapedType::kDynamic;
  Value counts = createEmpty(host, RankedTensorType::get({dynamic}, host.getI32Type()), lists);
  // No list is longer than the scores, however large k is.
  Value width = arith::MinUIOp::create(host, createIndex(host, keep.k), tensor::DimOp::create(host, scores, 2));
  Value entries = createEmpty(host, RankedTensorType::get({dynamic, dynamic}, host.getI32Type()), {lists, width});
  KernelBuilder kernel(host, "topk", {scores, cache, batch}, {counts, entries});
  ImplicitLocOpBuilder &b = kernel.body;
  Table table = createTable(b, kernel.input(2), kernel.input(1), kernel.item);
  Value units = unitsOf(b, table, unit), zero = createIndex(b, 0), one = createIndex(b, 1);
  Value count = arith::MinUIOp::create(b, units, createIndex(b, keep.k));
  auto storeWord = [&](Value word, Value target, ValueRange place) {
    memref::StoreOp::create(b, arith::IndexCastOp::create(b, b.getI32Type(), word), target, place);
  };
  storeWord(count, kernel.output(0), kernel.item);
  auto storeEntry = [&](Value at, Value value) { storeWord(value, kernel.output(1), {kernel.item, at}); };

  Value fits = arith::CmpIOp::create(b, arith::CmpIPredicate::ule, units, createIndex(b, keep.k));
  createIf(b, fits, [&] { createFor(b, zero, count, [&](Value i) { storeEntry(i, i); }); });
  createIf(b, arith::CmpIOp::create(b, arith::CmpIPredicate::ugt, units, createIndex(b, keep.k)), [&] {
    Value first = createIndex(b, keep.first), end = arith::SubIOp::create(b, units, createIndex(b, keep.last));
    Value wanted = createIndex(b, keep.k - keep.first - keep.last);
    Candidates candidates{b, kernel.input(0), table.entry, table.head, first, end};
    Value threshold = candidates.threshold(wanted);
    // Of those that tie at the threshold, the earliest fill up what is above it.
    Value ties = arith::SubIOp::create(b, wanted, candidates.count(arith::CmpIPredicate::sgt, threshold));
    createFor(b, zero, first, [&](Value i) { storeEntry(i, i); });
    SmallVector<Value> start{first, ties};
    Value place = createFor(b, first, end, start, [&](Value i, ValueRange state) -> SmallVector<Value> {
      Value place = state[0], tiesLeft = state[1], key = candidates.key(i);
      Value isTie = arith::AndIOp::create(b, arith::CmpIOp::create(b, arith::CmpIPredicate::eq, key, threshold),
                                          arith::CmpIOp::create(b, arith::CmpIPredicate::ne, tiesLeft, zero));
      Value isAbove = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, key, threshold);
      Value taken = arith::OrIOp::create(b, isAbove, isTie);
      createIf(b, taken, [&] { storeEntry(place, i); });
      return {createAdd(b, place, arith::SelectOp::create(b, taken, one, zero)),
              arith::SubIOp::create(b, tiesLeft, arith::SelectOp::create(b, isTie, one, zero))};
    })[0];
    createFor(b, end, units, [&](Value i) { storeEntry(createAdd(b, place, arith::SubIOp::create(b, i, end)), i); });
  });
  ResultRange arrays = kernel.dispatch(lists);
  return MakeSelectionOp::create(host, SelectionType::get(host.getContext(), unit), arrays[0], arrays[1]);
}

FailureOr<Replacements> kvc::lowerTopK(TopKOp op, ImplicitLocOpBuilder &host) {
  TopK keep{getInt(op.getK()), getInt(op.getFirst()), getInt(op.getLast())};
  if (keep.first + keep.last > keep.k) {
    return op.emitOpError() << "expects first + last of at most k (" << keep.k << "), but got "
                            << keep.first + keep.last;
  }
  return Replacements{createTopK(host, op.getUnit(), op.getScores(), op.getCache(), op.getBatch(), keep)};
}

//===----------------------------------------------------------------------===//
// threshold
//===----------------------------------------------------------------------===//

FailureOr<Replacements> kvc::lowerThreshold(ThresholdOp op, ImplicitLocOpBuilder &host) {
  Value lists = createItems(host, op.getBatch(), cast<CacheType>(op.getCache().getType()).getHeads());
  // A list may hold every unit that has a score.
  Value extent = tensor::DimOp::create(host, op.getScores(), 2);
  constexpr int64_t dynamic = ShapedType::kDynamic;
  Value counts = createEmpty(host, RankedTensorType::get({dynamic}, host.getI32Type()), lists);
  Value entries = createEmpty(host, RankedTensorType::get({dynamic, dynamic}, host.getI32Type()), {lists, extent});
  KernelBuilder kernel(host, "threshold", {op.getScores(), op.getCache(), op.getBatch()}, {counts, entries});
  ImplicitLocOpBuilder &b = kernel.body;
  Table table = createTable(b, kernel.input(2), kernel.input(1), kernel.item);
  Value scores = kernel.input(0), zero = createIndex(b, 0), one = createIndex(b, 1);
  Value units = arith::MinUIOp::create(b, unitsOf(b, table, op.getUnit()), memref::DimOp::create(b, scores, 2));
  Value first = arith::MinUIOp::create(b, createIndex(b, getInt(op.getFirst())), units);
  Value last = arith::MinUIOp::create(b, createIndex(b, getInt(op.getLast())), units);
  Value end = arith::MaxUIOp::create(b, arith::SubIOp::create(b, units, last), first);
  Value value = createFloat(b, static_cast<float>(getFloatOr(op.getValue(), 0)));
  auto storeWord = [&](Value word, Value target, ValueRange place) {
    memref::StoreOp::create(b, arith::IndexCastOp::create(b, b.getI32Type(), word), target, place);
  };
  Value count = createFor(b, zero, units, zero, [&](Value i, Value place) -> Value {
    Value score = memref::LoadOp::create(b, scores, ValueRange{table.entry, table.head, i});
    Value taken = arith::CmpFOp::create(b, arith::CmpFPredicate::OGE, score, value); // NaN reaches nothing
    taken = arith::OrIOp::create(b, taken, arith::CmpIOp::create(b, arith::CmpIPredicate::ult, i, first));
    taken = arith::OrIOp::create(b, taken, arith::CmpIOp::create(b, arith::CmpIPredicate::uge, i, end));
    createIf(b, taken, [&] { storeWord(i, kernel.output(1), {kernel.item, place}); });
    return createAdd(b, place, arith::SelectOp::create(b, taken, one, zero));
  });
  storeWord(count, kernel.output(0), kernel.item);
  ResultRange arrays = kernel.dispatch(lists);
  return Replacements{
      MakeSelectionOp::create(host, SelectionType::get(host.getContext(), op.getUnit()), arrays[0], arrays[1])};
}
