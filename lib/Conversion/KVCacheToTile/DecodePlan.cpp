//===- DecodePlan.cpp - Spans of decode steps -----------------------------===//
#include "DecodePlan.h"

#include "AttentionKernel.h"

#include "kvc/Target/Schedule.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;

/// Words of a record.
enum SpanWord : int64_t { SpanCount, SpanList, SpanSequence, SpanRow, SpanBegin, SpanEnd, spanWords };

static bool selectsTokens(AttentionOp op, unsigned segment) {
  Value selection = op.getSelectionOf(segment);
  return selection && cast<SelectionType>(selection.getType()).getUnit() == Unit::Token;
}

int64_t DecodeShape::lists() const {
  AttentionOp attention = op;
  for (auto [i, cache] : llvm::enumerate(attention.getCaches())) {
    if (cast<CacheType>(cache.getType()).getPerHead() || selectsTokens(attention, i)) {
      return kvHeads;
    }
  }
  return 1;
}

bool DecodeShape::beginsAtWindow() const {
  AttentionOp attention = op;
  return attention.getWindowAttr() && !getIntOr(attention.getSinksAttr(), 0) && attention.getSelections().empty() &&
         llvm::none_of(attention.getCaches(),
                       [](Value cache) { return cast<CacheType>(cache.getType()).getStoredPositions(); });
}

namespace {
/// The kernel that makes the plan: an item for each list. Its numbers have 32 bits, as the lengths that they come from:
/// sums and quotients of 64 would be most of the kernel on a GPU.
class PlanKernel {
public:
  PlanKernel(const DecodeShape &shape, KernelBuilder &kernel, ArrayRef<Value> caches, ArrayRef<Value> selections,
             Value batch, Value teams)
      : shape(shape), b(kernel.body), caches(caches), selections(selections), batch(batch), teams(narrow(teams)),
        zero(number(0)), one(number(1)) {}

  void emit(Value own, Value spans, Value lists) {
    Value all = createMul(b, tile::EntriesOp::create(b, batch), createIndex(b, shape.lists()));
    Value total = sums(all, 1, [&](Value list) { return SmallVector<Value>{tilesOf(list).tiles}; })[0];
    Value share = arith::CeilDivUIOp::create(b, total, teams);
    Value ofSpan = maximum(b, number(shape.leastTiles), share);
    // Spans of a list, with its last tiles in one more, and in those that it has anyhow.
    auto countsOf = [&](Value tiles) {
      Value whole = arith::DivUIOp::create(b, tiles, ofSpan);
      return SmallVector<Value>{arith::CeilDivUIOp::create(b, tiles, ofSpan),
                                maximum(b, whole, minimum(b, tiles, one))};
    };
    SmallVector<Value> counted = sums(all, 4, [&](Value list) {
      SmallVector<Value> counts = countsOf(tilesOf(list).tiles);
      Value isBefore = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, list, own);
      for (unsigned i = 0; i < 2; ++i) {
        counts.push_back(arith::SelectOp::create(b, isBefore, counts[i], zero));
      }
      return counts;
    });
    Value fits = arith::CmpIOp::create(b, arith::CmpIPredicate::ule, counted[0], teams);
    auto chosen = [&](Value more, Value fewer) -> Value { return arith::SelectOp::create(b, fits, more, fewer); };
    Value used = chosen(counted[0], counted[1]), first = chosen(counted[2], counted[3]);
    List list = tilesOf(own);
    SmallVector<Value> counts = countsOf(list.tiles);
    Value count = chosen(counts[0], counts[1]);
    store(first, lists, own, 0);
    store(count, lists, own, 1);
    // The first spans have one tile more where the tiles do not divide. A list without spans writes none.
    Value divisor = maximum(b, count, one), ofEach = arith::DivUIOp::create(b, list.tiles, divisor);
    Value longer = arith::RemUIOp::create(b, list.tiles, divisor);
    side(createIndex(b, 0), wide(count), [&](Value at) {
      Value i = narrow(at), next = createAdd(b, i, one);
      auto upTo = [&](Value spansBefore) {
        return createAdd(b, list.first,
                         createAdd(b, createMul(b, spansBefore, ofEach), minimum(b, spansBefore, longer)));
      };
      Value words[spanWords] = {count, narrow(own), narrow(list.sequence), narrow(list.row), upTo(i), upTo(next)};
      for (auto [word, value] : llvm::enumerate(words)) {
        store(value, spans, wide(createAdd(b, first, i)), word);
      }
    });
    side(createAdd(b, wide(used), own), memref::DimOp::create(b, spans, 0), all,
         [&](Value at) { store(zero, spans, at, SpanCount); });
  }

private:
  struct List {
    /// 32 bits.
    Value tiles, first;
    /// Indices.
    Value sequence, row;
  };

  Value number(int64_t value) { return arith::ConstantIntOp::create(b, value, 32); }
  Value narrow(Value index) { return arith::IndexCastUIOp::create(b, b.getI32Type(), index); }
  Value wide(Value number) { return arith::IndexCastUIOp::create(b, b.getIndexType(), number); }

  void store(Value value, Value memory, Value row, int64_t word) {
    memref::StoreOp::create(b, value, memory, ValueRange{row, createIndex(b, word)});
  }

  /// Turns that may run side by side.
  void side(Value from, Value to, Value step, function_ref<void(Value)> body) {
    auto loop = scf::ParallelOp::create(b, ValueRange{from}, ValueRange{to}, ValueRange{step});
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    body(loop.getInductionVars()[0]);
  }
  void side(Value from, Value to, function_ref<void(Value)> body) { side(from, to, createIndex(b, 1), body); }

  /// Sums of numbers over all lists.
  SmallVector<Value> sums(Value all, unsigned count, function_ref<SmallVector<Value>(Value)> numbersOf) {
    SmallVector<Value> start(count, zero);
    auto loop = scf::ParallelOp::create(b, ValueRange{createIndex(b, 0)}, ValueRange{all},
                                        ValueRange{createIndex(b, 1)}, start);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    auto reduce = scf::ReduceOp::create(b, numbersOf(loop.getInductionVars()[0]));
    for (Region &region : reduce.getReductions()) {
      b.setInsertionPointToStart(&region.front());
      scf::ReduceReturnOp::create(b, createAdd(b, region.getArgument(0), region.getArgument(1)));
    }
    return SmallVector<Value>(loop.getResults());
  }

  /// Slots of a segment that are not behind those that the row sees; of a list of selected slots, how many it has.
  Value endOf(unsigned segment, Value entry, Value sequence, Value head, Value row) {
    if (selectsTokens(shape.op, segment)) {
      return narrow(tile::SelectionCountOp::create(b, selections[segment], entry, head, shape.kvHeads));
    }
    Value cache = caches[segment];
    Value length = narrow(tile::CounterOp::create(b, tile::Counter::Length, cache, sequence, head));
    if (!shape.op.getCausal() || cast<CacheType>(cache.getType()).getStoredPositions()) {
      return length;
    }
    return minimum(b, length, createAdd(b, positionOf(row), one));
  }

  Value positionOf(Value row) { return narrow(tile::PositionOp::create(b, batch, row)); }

  List tilesOf(Value list) {
    Value entry = list, head = createIndex(b, 0);
    if (shape.lists() > 1) {
      Value heads = number(shape.lists());
      entry = wide(arith::DivUIOp::create(b, narrow(list), heads));
      head = wide(arith::RemUIOp::create(b, narrow(list), heads));
    }
    auto range = tile::QueryRangeOp::create(b, batch, entry);
    Value row = range.getBegin(), sequence = tile::SequenceOp::create(b, batch, entry);
    Value rows = arith::SubIOp::create(b, narrow(range.getEnd()), narrow(row));
    // Rows of entries without any have no position.
    auto isDecode = scf::IfOp::create(b, TypeRange{b.getI32Type(), b.getI32Type()},
                                      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, rows, one),
                                      /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(isDecode.elseBlock());
    scf::YieldOp::create(b, ValueRange{zero, zero});
    b.setInsertionPointToStart(isDecode.thenBlock());
    Value slots = number(shape.slots), first = zero, end = zero;
    for (unsigned i = 0; i < caches.size(); ++i) {
      end = maximum(b, end, endOf(i, entry, sequence, head, row));
    }
    if (shape.beginsAtWindow()) {
      Value low = arith::SubIOp::create(b, positionOf(row),
                                        number(std::min<int64_t>(getInt(shape.op.getWindowAttr()) - 1, INT32_MAX)));
      first = arith::DivUIOp::create(b, maximum(b, low, zero), slots);
    }
    // A row that sees nothing has a result too: that of its only span.
    Value tiles = arith::SubIOp::create(b, arith::CeilDivUIOp::create(b, end, slots), first);
    scf::YieldOp::create(b, ValueRange{maximum(b, tiles, one), first});
    return {isDecode.getResult(0), isDecode.getResult(1), sequence, row};
  }

  DecodeShape shape;
  ImplicitLocOpBuilder &b;
  ArrayRef<Value> caches, selections;
  Value batch, teams, zero, one;
};
} // namespace

DecodePlan kvc::planDecode(const DecodeShape &shape, ImplicitLocOpBuilder &host) {
  AttentionOp op = shape.op;
  Value batch = op.getBatch(), one = createIndex(host, 1), longest = one;
  for (Value cache : op.getCaches()) {
    longest = maximum(host, longest, tile::MaxLengthOp::create(host, cache, batch));
  }
  Value listsOfEntry = createIndex(host, shape.lists()), singles = tile::SingleRowsOp::create(host, batch);
  Value all = createMul(host, tile::EntriesOp::create(host, batch), listsOfEntry);
  Value divided = createMul(host, singles, listsOfEntry);
  Value side = createMul(host, tile::ProcessorsOp::create(host), createIndex(host, decodeTeamsOfProcessor));
  Value teams = maximum(host, arith::DivUIOp::create(host, side, createIndex(host, shape.itemsOfSpan())), one);
  DecodePlan plan;
  plan.mostOfList = arith::CeilDivSIOp::create(host, longest, createIndex(host, shape.slots * shape.leastTiles));
  // Every list of an entry with one row has a span, and beyond that a span is at least a team's share.
  plan.most = minimum(host, createMul(host, divided, plan.mostOfList), createAdd(host, divided, teams));
  plan.any = minimum(host, singles, one);

  auto words = [&](int64_t width) { return RankedTensorType::get({ShapedType::kDynamic, width}, host.getI32Type()); };
  SmallVector<Value> inputs{batch, teams};
  llvm::append_range(inputs, op.getCaches());
  for (unsigned i = 0; i < op.getCaches().size(); ++i) {
    if (selectsTokens(op, i)) {
      inputs.push_back(op.getSelectionOf(i));
    }
  }
  KernelBuilder kernel(host, "attention_plan", inputs,
                       {createEmpty(host, words(spanWords), plan.most), createEmpty(host, words(2), all)});
  SmallVector<Value> caches, selections;
  unsigned next = 2;
  for (unsigned i = 0; i < op.getCaches().size(); ++i) {
    caches.push_back(kernel.input(next++));
  }
  for (unsigned i = 0; i < op.getCaches().size(); ++i) {
    selections.push_back(selectsTokens(op, i) ? kernel.input(next++) : Value());
  }
  PlanKernel(shape, kernel, caches, selections, kernel.input(0), kernel.input(1))
      .emit(kernel.item, kernel.output(0), kernel.output(1));
  ResultRange results = kernel.dispatch(createMul(host, all, plan.any));
  plan.spans = results[0];
  plan.lists = results[1];
  return plan;
}

static Value loadWord(ImplicitLocOpBuilder &b, Value words, Value row, int64_t word) {
  Value loaded = memref::LoadOp::create(b, words, ValueRange{row, createIndex(b, word)});
  return arith::IndexCastUIOp::create(b, b.getIndexType(), loaded);
}

Span kvc::loadSpan(ImplicitLocOpBuilder &b, const DecodeShape &shape, Value spans, Value number) {
  auto word = [&](SpanWord which) { return loadWord(b, spans, number, which); };
  auto slots = [&](SpanWord which) { return createMul(b, word(which), createIndex(b, shape.slots)); };
  Span span{word(SpanCount), word(SpanList), {}, word(SpanSequence), word(SpanRow), slots(SpanBegin), slots(SpanEnd)};
  if (shape.lists() > 1) {
    Value heads = createIndex(b, shape.lists());
    span.head = arith::RemUIOp::create(b, span.entry, heads);
    span.entry = arith::DivUIOp::create(b, span.entry, heads);
  }
  return span;
}

std::pair<Value, Value> kvc::loadSpansOfList(ImplicitLocOpBuilder &b, Value lists, Value list) {
  return {loadWord(b, lists, list, 0), loadWord(b, lists, list, 1)};
}
