//===- AttentionStats.cpp - Statistics of attention probabilities --------===//
//
// A second pass over the keys with the log-sum-exp of every row known: each work item owns a run of slots, walks the
// wanted rows in order and reduces their probabilities over rows and the heads of the group. No map of rows x slots is
// ever stored.
//
//===----------------------------------------------------------------------===//
#include "AttentionKernel.h"
#include "Lowerings.h"

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
  Value lse, stats;
  /// Rows of the batch that count, begin .. end - 1.
  Value begin, end;
  vector::CombiningKind kind;
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
  auto rowLoop = scf::ForOp::create(b, s.begin, s.end, tokenStep, ValueRange{splat(b, columns, 0.0)});
  {
    OpBuilder::InsertionGuard inner(b);
    b.setInsertionPointToStart(rowLoop.getBody());
    Value row = rowLoop.getInductionVar();
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
    Value sum =
        vector::MultiDimReductionOp::create(b, p, rowLoop.getRegionIterArgs()[0], ArrayRef<bool>{true, false}, s.kind);
    scf::YieldOp::create(b, sum);
  }
  tile::StoreSlotNumbersOp::create(b, rowLoop.getResult(0), s.stats, k.entry, k.head, slot, count);
}

FailureOr<Value> kvc::lowerAttentionStats(AttentionOp op, ImplicitLocOpBuilder &host, tile::ScheduleAttr schedule,
                                          Value lse) {
  if (*op.getStat() != Stat::Sum && *op.getStat() != Stat::Max) {
    return op.emitOpError() << "has no lowering of the statistic " << stringifyStat(*op.getStat()) << " yet";
  }
  if (op.getStatStrideAttr() && getInt(op.getStatStrideAttr()) != 1) {
    return op.emitOpError() << "has no lowering of statistics with a stride yet";
  }
  if (!op.getSelections().empty()) {
    return op.emitOpError() << "has no lowering of statistics over a selection yet";
  }
  auto queryType = cast<RankedTensorType>(op.getQuery().getType());
  Value cache = op.getCaches()[0], batch = op.getBatch();
  auto type = cast<CacheType>(cache.getType());
  int64_t kvHeads = type.getHeads(), group = queryType.getDimSize(1) / kvHeads;
  Value entries = tile::EntriesOp::create(host, batch), longest = tile::MaxLengthOp::create(host, cache, batch);
  Value stats = createEmpty(host, cast<RankedTensorType>(op.getStats().getType()), {entries, longest});
  Value runs = arith::CeilDivSIOp::create(host, longest, createIndex(host, schedule.getSlots()));
  Value items = createMul(host, createMul(host, entries, createIndex(host, kvHeads)), runs);

  SmallVector<Value> inputs{op.getQuery(), batch, cache, lse};
  llvm::append_range(inputs, variableCaptures(op));
  KernelBuilder kernel(host, "attention_stats", inputs, {stats});
  kernel.function->setAttr("tile.schedule", schedule);
  ImplicitLocOpBuilder &b = kernel.body;
  StatsKernel s{AttentionKernel{op,
                                kernel,
                                schedule,
                                group,
                                kvHeads,
                                type.getKDim(),
                                type.getVDim(),
                                kernel.input(0),
                                kernel.input(1),
                                {},
                                {kernel.input(2)},
                                {},
                                {Value()},
                                {},
                                {},
                                {},
                                {}},
                kernel.input(3),
                kernel.output(0),
                {},
                {},
                *op.getStat() == Stat::Sum ? vector::CombiningKind::ADD : vector::CombiningKind::MAXNUMF};
  s.k.takeCaptures(4);
  AttentionKernel &k = s.k;
  Value kernelEntries = tile::EntriesOp::create(b, k.batch);
  k.entry = arith::RemUIOp::create(b, kernel.item, kernelEntries);
  Value rest = arith::DivUIOp::create(b, kernel.item, kernelEntries);
  k.head = arith::RemUIOp::create(b, rest, createIndex(b, kvHeads));
  k.queryHead = createMul(b, k.head, createIndex(b, group));
  Value low =
      createMul(b, arith::DivUIOp::create(b, rest, createIndex(b, kvHeads)), createIndex(b, schedule.getSlots()));
  k.sequence = tile::SequenceOp::create(b, k.batch, k.entry);
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
