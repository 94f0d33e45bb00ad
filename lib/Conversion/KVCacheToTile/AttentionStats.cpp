//===- AttentionStats.cpp - Statistics of attention probabilities --------===//
//
// A second pass over the keys with the log-sum-exp of every row known: each work item owns a run of slots, walks the
// wanted rows in order and reduces their probabilities over rows and the heads of the group. No map of rows x slots is
// ever stored.
//
//===----------------------------------------------------------------------===//
#include "AttentionKernel.h"
#include "Lowerings.h"

#include "kvc/Target/Schedule.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <numeric>

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;

namespace {
struct StatsKernel {
  AttentionKernel k;
  /// Tiles of rows have the heads of one of several parts of the group.
  int64_t parts = 1;
  Value lse{}, stats{};
  /// Slots that each row sees, f32 (null: not wanted).
  Value counts{};
  /// Rows of the batch that count, begin .. end - 1.
  Value begin{}, end{};
  vector::CombiningKind kind = vector::CombiningKind::ADD;
};
} // namespace

/// 1 for the rows of tokens that exist.
static Value existingRows(AttentionKernel &k, int64_t rows, Value count, int64_t slots) {
  ImplicitLocOpBuilder &b = k.b();
  SmallVector<int32_t> tokens;
  for (int64_t m = 0; m < rows; ++m) {
    tokens.push_back(static_cast<int32_t>(m / k.group));
  }
  auto type = VectorType::get({rows}, b.getI32Type());
  Value token = arith::ConstantOp::create(b, DenseElementsAttr::get(type, ArrayRef<int32_t>(tokens)));
  Value limit = everywhere(b, arith::IndexCastOp::create(b, b.getI32Type(), count), {rows});
  return alongColumns(b, arith::CmpIOp::create(b, arith::CmpIPredicate::slt, token, limit), slots);
}

/// Statistics of slots `begin .. end - 1` of one part of the cache.
static void emitSlots(StatsKernel &s, tile::Part part, Value begin, Value end) {
  AttentionKernel &k = s.k;
  ImplicitLocOpBuilder &b = k.b();
  int64_t slots = k.schedule.getSlots(), tokens = k.schedule.getPrefillTokens();
  Value step = createIndex(b, slots), tokenStep = createIndex(b, tokens);
  auto slotLoop = scf::ForOp::create(b, begin, end, step);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(slotLoop.getBody());
  Value slot = slotLoop.getInductionVar();
  Value count = minimum(b, arith::SubIOp::create(b, end, slot), step);
  VectorType columns = tileType(b, {slots});
  Value loopBegin = s.begin, loopEnd = s.end, loopStep = tokenStep;
  if (s.parts > 1) {
    Value tiles = arith::CeilDivSIOp::create(b, arith::SubIOp::create(b, s.end, s.begin), tokenStep);
    loopBegin = createIndex(b, 0);
    loopEnd = createMul(b, tiles, createIndex(b, s.parts));
    loopStep = createIndex(b, 1);
  }
  auto rowLoop = scf::ForOp::create(b, loopBegin, loopEnd, loopStep, ValueRange{splat(b, columns, 0.0)});
  const Value groupHead = k.queryHead;
  {
    OpBuilder::InsertionGuard inner(b);
    b.setInsertionPointToStart(rowLoop.getBody());
    Value row = rowLoop.getInductionVar();
    if (s.parts > 1) {
      Value parts = createIndex(b, s.parts), tile = arith::DivUIOp::create(b, row, parts);
      Value part = arith::RemUIOp::create(b, row, parts);
      k.queryHead = createAdd(b, groupHead, createMul(b, part, createIndex(b, k.group)));
      row = createAdd(b, s.begin, createMul(b, tile, tokenStep));
    }
    Value rows = minimum(b, arith::SubIOp::create(b, s.end, row), tokenStep);
    QueryTile q = loadQueryTile(k, row, rows, tokens);
    ScoredTile tile = scoreTile(k, q, {k.caches[0], part, slot, count, slots, Value()});
    VectorType rowType = tileType(b, {q.rows}), scoreType = tileType(b, {q.rows, slots});
    Value lse = tile::LoadRowsOp::create(b, rowType, s.lse, row, k.queryHead, rows, k.group);
    Value shift = alongColumns(b, arith::MulFOp::create(b, lse, splat(b, rowType, log2e)), slots);
    Value p = math::Exp2Op::create(b, arith::SubFOp::create(b, tile.scores, shift));
    Value visible = arith::AndIOp::create(b, tile.visible, existingRows(k, q.rows, rows, slots));
    // A row whose scores are all -inf has no probabilities. NaN is no such row.
    Value minusInf = splat(b, rowType, -std::numeric_limits<double>::infinity());
    Value seen = arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, lse, minusInf);
    visible = arith::AndIOp::create(b, visible, alongColumns(b, seen, slots));
    p = arith::SelectOp::create(b, visible, p, splat(b, scoreType, 0.0));
    if (s.counts) {
      // A row votes for the slots that get more than an equal share.
      Value seenSlots = tile::LoadRowsOp::create(b, rowType, s.counts, row, k.queryHead, rows, k.group);
      Value share = arith::MulFOp::create(b, p, alongColumns(b, seenSlots, slots));
      Value one = splat(b, scoreType, 1.0);
      // An equal share is not more, though f32 may round it up (a row that sees one slot gives it everything).
      constexpr double rounding = 1e-5;
      Value more = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, share, splat(b, scoreType, 1.0 + rounding));
      p = arith::SelectOp::create(b, more, one, splat(b, scoreType, 0.0));
    }
    Value sum =
        vector::MultiDimReductionOp::create(b, p, rowLoop.getRegionIterArgs()[0], ArrayRef<bool>{true, false}, s.kind);
    scf::YieldOp::create(b, sum);
  }
  k.queryHead = groupHead;
  tile::StoreSlotNumbersOp::create(b, rowLoop.getResult(0), s.stats, k.entry, k.head, slot, count);
}

/// Sets the work item's coordinates in a kernel over (unit of work, KV head, entry); returns the unit.
static Value setCoordinates(AttentionKernel &k) {
  ImplicitLocOpBuilder &b = k.b();
  Value entries = tile::EntriesOp::create(b, k.batch), heads = createIndex(b, k.kvHeads);
  k.entry = arith::RemUIOp::create(b, k.kernel.item, entries);
  Value rest = arith::DivUIOp::create(b, k.kernel.item, entries);
  k.head = arith::RemUIOp::create(b, rest, heads);
  const int64_t queryHeads = cast<RankedTensorType>(k.op.getQuery().getType()).getDimSize(1);
  k.queryHead = createMul(b, k.head, createIndex(b, queryHeads / k.kvHeads));
  k.sequence = tile::SequenceOp::create(b, k.batch, k.entry);
  auto range = tile::QueryRangeOp::create(b, k.batch, k.entry);
  k.entryRows = arith::SubIOp::create(b, range.getEnd(), range.getBegin());
  return arith::DivUIOp::create(b, rest, heads);
}

/// Inputs that kernels of statistics begin with: query, batch, cache and what the masks need.
static SmallVector<Value> statsInputs(AttentionOp op) {
  SmallVector<Value> inputs{op.getQuery(), op.getBatch(), op.getCaches()[0]};
  if (op.getTreeMask()) {
    inputs.push_back(op.getTreeMask());
  }
  return inputs;
}

static AttentionKernel statsKernel(AttentionOp op, KernelBuilder &kernel, tile::ScheduleAttr schedule) {
  auto type = cast<CacheType>(op.getCaches()[0].getType());
  int64_t heads = cast<RankedTensorType>(op.getQuery().getType()).getDimSize(1);
  AttentionKernel k{op, kernel, schedule, heads / type.getHeads(), type.getHeads(), type.getKDim(), type.getVDim()};
  k.query = kernel.input(0);
  k.batch = kernel.input(1);
  k.caches = {kernel.input(2)};
  k.selections = {Value()};
  k.treeMask = op.getTreeMask() ? kernel.input(3) : Value();
  return k;
}

/// Rows x query heads, f32: how many slots each row sees. The sum of a softmax state of equal scores counts them.
static Value countVisible(AttentionOp op, ImplicitLocOpBuilder &host, tile::ScheduleAttr schedule) {
  auto queryType = cast<RankedTensorType>(op.getQuery().getType());
  Value batch = op.getBatch();
  int64_t kvHeads = cast<CacheType>(op.getCaches()[0].getType()).getHeads(), tokens = schedule.getPrefillTokens();
  SmallVector<Value> rowSize;
  if (queryType.isDynamicDim(0)) {
    rowSize.push_back(tile::RowsOp::create(host, batch));
  }
  auto type = RankedTensorType::get(queryType.getShape().take_front(2), host.getF32Type());
  Value counts = createEmpty(host, type, rowSize);
  Value tiles = arith::CeilDivSIOp::create(host, tile::MaxRowsOp::create(host, batch), createIndex(host, tokens));
  Value lists = createMul(host, tile::EntriesOp::create(host, batch), createIndex(host, kvHeads));

  KernelBuilder kernel(host, "attention_visible", statsInputs(op), {counts});
  kernel.function->setAttr("tile.schedule", schedule);
  ImplicitLocOpBuilder &b = kernel.body;
  AttentionKernel k = statsKernel(op, kernel, schedule);
  Value first = createMul(b, setCoordinates(k), createIndex(b, tokens));
  Value begin = tile::QueryRangeOp::create(b, k.batch, k.entry).getBegin();
  createIf(b, arith::CmpIOp::create(b, arith::CmpIPredicate::slt, first, k.entryRows), [&] {
    Value count = minimum(b, arith::SubIOp::create(b, k.entryRows, first), createIndex(b, tokens));
    Value row = createAdd(b, begin, first);
    QueryTile q = loadQueryTile(k, row, count, tokens);
    Value length = tile::CounterOp::create(b, tile::Counter::Length, k.caches[0], k.sequence, k.head);
    k.enterTree(0, length);
    VectorType rowType = tileType(b, {q.rows}), accType = tileType(b, {q.rows, 1});
    SmallVector<Value> state{splat(b, rowType, -std::numeric_limits<double>::infinity()), splat(b, rowType, 0.0),
                             splat(b, accType, 0.0)};
    int64_t slots = schedule.getSlots();
    auto loop = scf::ForOp::create(b, createIndex(b, 0), length, createIndex(b, slots), state);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(loop.getBody());
      Value slot = loop.getInductionVar();
      Value left = minimum(b, arith::SubIOp::create(b, length, slot), createIndex(b, slots));
      SlotTile tile{k.caches[0], tile::Part::Pages, slot, left, slots, Value()};
      Value visible = visibleSlots(k, q, tile, q.positions ? tile.positions(k) : Value());
      Value equal = splat(b, tileType(b, {q.rows, slots}), 0.0);
      ValueRange old = loop.getRegionIterArgs();
      auto step = tile::SoftmaxStepOp::create(b, equal, visible, old[0], old[1], old[2]);
      scf::YieldOp::create(b, ValueRange{step.getNewMax(), step.getNewSum(), step.getNewAcc()});
    }
    tile::StoreRowsOp::create(b, loop.getResult(1), kernel.output(0), row, k.queryHead, count, k.group);
  });
  return kernel.dispatch(createMul(host, lists, tiles))[0];
}

FailureOr<Value> kvc::lowerAttentionStats(AttentionOp op, ImplicitLocOpBuilder &host, tile::ScheduleAttr schedule,
                                          Value lse) {
  if (*op.getStat() != Stat::Sum && *op.getStat() != Stat::Max && *op.getStat() != Stat::Count) {
    return op.emitOpError() << "has no lowering of the statistic " << stringifyStat(*op.getStat()) << " yet";
  }
  if (op.getStatStrideAttr() && getInt(op.getStatStrideAttr()) != 1) {
    return op.emitOpError() << "has no lowering of statistics with a stride yet";
  }
  if (!op.getSelections().empty()) {
    return op.emitOpError() << "has no lowering of statistics over a selection yet";
  }
  Value cache = op.getCaches()[0], batch = op.getBatch();
  auto type = cast<CacheType>(cache.getType());
  Value entries = tile::EntriesOp::create(host, batch), longest = tile::MaxLengthOp::create(host, cache, batch);
  Value stats = createEmpty(host, cast<RankedTensorType>(op.getStats().getType()), {entries, longest});
  Value runs = arith::CeilDivSIOp::create(host, longest, createIndex(host, schedule.getSlots()));
  Value items = createMul(host, createMul(host, entries, createIndex(host, type.getHeads())), runs);
  bool isCount = *op.getStat() == Stat::Count;

  SmallVector<Value> inputs = statsInputs(op);
  unsigned next = inputs.size();
  inputs.push_back(lse);
  if (isCount) {
    inputs.push_back(countVisible(op, host, schedule));
  }
  llvm::append_range(inputs, variableCaptures(op));
  KernelBuilder kernel(host, "attention_stats", inputs, {stats});
  kernel.function->setAttr("tile.schedule", schedule);
  ImplicitLocOpBuilder &b = kernel.body;
  StatsKernel s{statsKernel(op, kernel, schedule)};
  const int64_t group = s.k.group;
  s.k.group = chooseHeads({group, type}, getTargetOf(op));
  s.parts = group / s.k.group;
  s.lse = kernel.input(next++);
  s.counts = isCount ? kernel.input(next++) : Value();
  s.stats = kernel.output(0);
  s.kind = *op.getStat() == Stat::Max ? vector::CombiningKind::MAXNUMF : vector::CombiningKind::ADD;
  s.k.takeCaptures(next);
  AttentionKernel &k = s.k;
  Value low = createMul(b, setCoordinates(k), createIndex(b, schedule.getSlots()));
  auto range = tile::QueryRangeOp::create(b, k.batch, k.entry);
  s.begin = range.getBegin();
  s.end = range.getEnd();
  if (int64_t last = getIntOr(op.getStatRowsAttr(), 0)) {
    s.begin = maximum(b, s.begin, arith::SubIOp::create(b, s.end, createIndex(b, last)));
  }
  // Entries past the table's end are -inf, as in scores.
  Value width = memref::DimOp::create(b, s.stats, 2);
  Value runEnd = createAdd(b, low, createIndex(b, schedule.getSlots()));
  Value length = tile::CounterOp::create(b, tile::Counter::Length, k.caches[0], k.sequence, k.head);
  Value high = minimum(b, runEnd, length);
  k.enterTree(0, length);
  auto unused = scf::ForOp::create(b, maximum(b, low, length), minimum(b, runEnd, width), createIndex(b, 1));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(unused.getBody());
    Value past = arith::ConstantOp::create(b, b.getF32FloatAttr(-std::numeric_limits<float>::infinity()));
    memref::StoreOp::create(b, past, s.stats, ValueRange{k.entry, k.head, unused.getInductionVar()});
  }
  if (!type.hasTail()) {
    emitSlots(s, tile::Part::Pages, low, high);
  } else {
    Value sealed = tile::CounterOp::create(b, tile::Counter::Sealed, k.caches[0], k.sequence, k.head);
    emitSlots(s, tile::Part::Pages, low, minimum(b, high, sealed));
    emitSlots(s, tile::Part::Tail, maximum(b, low, sealed), high);
  }
  return kernel.dispatch(items)[0];
}
