//===- Attention.cpp - attention becomes tiles with a softmax state ------===//
//
// Entries with one row (decode) are split over spans of slots, which a plan on the device says (DecodePlan.h) and whose
// partial results a further kernel merges in order; entries with more rows (prefill), in a kernel of their own, over
// tiles of query tokens. All query heads of a KV head are rows of one tile, so keys and values are read once.
//
//===----------------------------------------------------------------------===//
#include "AttentionKernel.h"
#include "DecodePlan.h"
#include "Lowerings.h"

#include "kvc/Target/ItemOrder.h"
#include "kvc/Target/PageLayout.h"
#include "kvc/Target/Schedule.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Remarks.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;

/// Dies that the items of a kernel are dealt to.
static int64_t diesOf(AttentionOp op) {
  const Target *target = getTargetOf(op);
  return target && target->team ? target->team->dies : 1;
}

/// The softmax state of a tile: max [M], sum [M], acc [M x Dv].
using State = SmallVector<Value, 3>;

/// Enters a tile of slots into the state.
static State enterTile(AttentionKernel &k, const QueryTile &q, const SlotTile &slots, ValueRange state) {
  ImplicitLocOpBuilder &b = k.b();
  ScoredTile tile = scoreTile(k, q, slots);
  auto step = tile::SoftmaxStepOp::create(b, tile.scores, tile.visible, state[0], state[1], state[2]);
  Value values = slots.operand(k, Plane::V);
  Value acc =
      tile::MmaOp::create(b, state[2].getType(), tile::Contract::Slots, step.getProbs(), values, step.getNewAcc());
  return {step.getNewMax(), step.getNewSum(), acc};
}

/// A loop over tiles of `slots` consecutive slots from `begin` to `end`.
static State enterSpan(AttentionKernel &k, const QueryTile &q, Value cache, tile::Part part, Value begin, Value end,
                       ValueRange state) {
  ImplicitLocOpBuilder &b = k.b();
  int64_t slots = part == tile::Part::Tail ? k.schedule.getSlots() : k.slots;
  auto loop = scf::ForOp::create(b, begin, end, createIndex(b, slots), state);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value slot = loop.getInductionVar();
  Value count = minimum(b, arith::SubIOp::create(b, end, slot), createIndex(b, slots));
  State next = enterTile(k, q, {cache, part, slot, count, slots, Value()}, loop.getRegionIterArgs());
  scf::YieldOp::create(b, next);
  return State(loop.getResults());
}

/// A loop over the selected slots. Spans of a decode step divide the list, not the slots: numbers `begin .. end - 1`.
static State enterTokens(AttentionKernel &k, const QueryTile &q, Value cache, Value selection, Value begin, Value end,
                         ValueRange state) {
  ImplicitLocOpBuilder &b = k.b();
  int64_t slots = k.slots;
  Value n = tile::SelectionCountOp::create(b, selection, k.entry, k.head, k.kvHeads);
  n = end ? minimum(b, n, end) : n;
  auto loop = scf::ForOp::create(b, begin ? begin : createIndex(b, 0), n, createIndex(b, slots), state);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value first = loop.getInductionVar();
  Value count = minimum(b, arith::SubIOp::create(b, n, first), createIndex(b, slots));
  State next = enterTile(k, q, {cache, tile::Part::Pages, first, count, slots, selection}, loop.getRegionIterArgs());
  scf::YieldOp::create(b, next);
  return State(loop.getResults());
}

/// A loop over the selected pages whose first slot lies within `begin .. end` (null: all of them) and that have slots
/// in `low .. high`.
static State enterPages(AttentionKernel &k, const QueryTile &q, Value cache, Value selection, Value begin, Value end,
                        Value low, Value high, ValueRange state) {
  ImplicitLocOpBuilder &b = k.b();
  int64_t page = cast<CacheType>(cache.getType()).getPage();
  // A tile is whole vectors on any machine; of its slots only those of the page count. A page may be several tiles.
  constexpr int64_t granule = 16;
  int64_t slots = std::min<int64_t>(llvm::alignTo(page, granule), llvm::alignTo(k.slots, granule));
  int64_t tiles = llvm::divideCeil(page, slots);
  Value n = tile::SelectionCountOp::create(b, selection, k.entry, k.head, k.kvHeads);
  n = tiles == 1 ? n : createMul(b, n, createIndex(b, tiles));
  auto loop = scf::ForOp::create(b, createIndex(b, 0), n, createIndex(b, 1), state);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value at = loop.getInductionVar(), inPage;
  if (tiles > 1) {
    inPage = createMul(b, arith::RemUIOp::create(b, at, createIndex(b, tiles)), createIndex(b, slots));
    at = arith::DivUIOp::create(b, at, createIndex(b, tiles));
  }
  Value number = tile::SelectionEntryOp::create(b, selection, k.entry, k.head, at, k.kvHeads);
  Value slot = createMul(b, number, createIndex(b, page)), pageEnd = createAdd(b, slot, createIndex(b, page));
  Value inside = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, pageEnd, low);
  auto both = [&](arith::CmpIPredicate predicate, Value x, Value y) {
    inside = arith::AndIOp::create(b, inside, arith::CmpIOp::create(b, predicate, x, y));
  };
  if (begin) {
    both(arith::CmpIPredicate::sge, slot, begin);
    both(arith::CmpIPredicate::slt, slot, end);
  }
  slot = inPage ? createAdd(b, slot, inPage) : slot;
  both(arith::CmpIPredicate::slt, slot, high);
  // A page that is not entered counts no slot, so it leaves the state as it is.
  Value left = minimum(b, arith::SubIOp::create(b, minimum(b, high, pageEnd), slot), createIndex(b, slots));
  Value count = arith::SelectOp::create(b, inside, left, createIndex(b, 0));
  State next = enterTile(k, q, {cache, tile::Part::Pages, slot, count, slots, Value()}, loop.getRegionIterArgs());
  scf::YieldOp::create(b, next);
  return State(loop.getResults());
}

/// Enters all of a segment that lies in slots `begin .. end` (null: everything) and can be visible to the tile.
static State enterSegment(AttentionKernel &k, const QueryTile &q, unsigned segment, Value begin, Value end,
                          ValueRange state) {
  ImplicitLocOpBuilder &b = k.b();
  Value cache = k.caches[segment];
  auto type = cast<CacheType>(cache.getType());
  auto counter = [&](tile::Counter which) {
    return tile::CounterOp::create(b, which, cache, k.sequence, k.head).getResult();
  };
  Value length = counter(tile::Counter::Length);
  Value low = begin ? begin : createIndex(b, 0), high = end ? minimum(b, end, length) : length, seen = length;
  if (!type.getStoredPositions()) {
    // Slots are positions: tiles that no row can see are skipped.
    if (k.op.getCausal()) {
      Value next = createAdd(b, q.last, createIndex(b, 1));
      high = minimum(b, high, next);
      seen = minimum(b, seen, next);
    }
    if (k.op.getWindowAttr() && !getIntOr(k.op.getSinksAttr(), 0) && !(begin && k.beginsAtWindow)) {
      Value first = arith::SubIOp::create(b, q.first, createIndex(b, getInt(k.op.getWindowAttr()) - 1));
      Value slots = createIndex(b, k.slots);
      Value block = createMul(b, arith::DivUIOp::create(b, maximum(b, first, createIndex(b, 0)), slots), slots);
      low = maximum(b, low, block);
    }
  }
  k.enterTree(segment, length);
  Value selection = k.selections[segment];
  if (selection && cast<SelectionType>(selection.getType()).getUnit() == Unit::Token) {
    // It lists slots of the tail too.
    return enterTokens(k, q, cache, selection, begin, end, state);
  }
  Value sealed = type.hasTail() ? counter(tile::Counter::Sealed) : Value();
  auto upTo = [&](Value last) { return sealed ? minimum(b, last, sealed) : last; };
  // A selected page belongs whole to the span that its first slot lies in.
  State next = selection ? enterPages(k, q, cache, selection, begin, end, low, upTo(seen), state)
                         : enterSpan(k, q, cache, tile::Part::Pages, low, upTo(high), state);
  if (!type.hasTail()) {
    return next;
  }
  return enterSpan(k, q, cache, tile::Part::Tail, maximum(b, low, sealed), high, next);
}

/// max = -inf, sum = 0, acc = 0.
static State initialState(AttentionKernel &k, int64_t rows) {
  ImplicitLocOpBuilder &b = k.b();
  VectorType rowType = tileType(b, {rows});
  return {splat(b, rowType, -std::numeric_limits<double>::infinity()), splat(b, rowType, 0.0),
          splat(b, tileType(b, {rows, k.vDim}), 0.0)};
}

/// The sink logits join the denominator of rows that saw something: a row that saw nothing stays empty.
static State joinSinks(AttentionKernel &k, int64_t rows, State state) {
  if (!k.sinkLogits) {
    return state;
  }
  ImplicitLocOpBuilder &b = k.b();
  VectorType type = tileType(b, {rows});
  Value logits = tile::LoadHeadsOp::create(b, type, k.sinkLogits, k.queryHead, k.group);
  Value sink = arith::MulFOp::create(b, logits, splat(b, type, log2e));
  Value seen = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, state[1], splat(b, type, 0.0));
  Value max = arith::SelectOp::create(b, seen, arith::MaximumFOp::create(b, state[0], sink), state[0]);
  Value factor = math::Exp2Op::create(b, arith::SubFOp::create(b, state[0], max));
  factor = arith::SelectOp::create(b, seen, factor, splat(b, type, 1.0));
  Value joined = arith::AddFOp::create(b, arith::MulFOp::create(b, state[1], factor),
                                       math::Exp2Op::create(b, arith::SubFOp::create(b, sink, max)));
  Value sum = arith::SelectOp::create(b, seen, joined, state[1]);
  return {max, sum, arith::MulFOp::create(b, state[2], alongColumns(b, factor, k.vDim))};
}

static void storeTile(AttentionKernel &k, ValueRange state, Value out, Value lse, Value row, Value count) {
  ImplicitLocOpBuilder &b = k.b();
  auto finish = tile::SoftmaxFinishOp::create(b, state[0], state[1], state[2]);
  tile::StoreRowsOp::create(b, finish.getOut(), out, row, k.queryHead, count, k.group);
  if (lse) {
    tile::StoreRowsOp::create(b, finish.getLse(), lse, row, k.queryHead, count, k.group);
  }
}

/// Outputs of the kernel: out, lse (null when nobody wants it), partial out and lse of decode spans.
struct Outputs {
  Value out, lse, partialOut{}, partialLse{};
};

/// Sets the heads of number `rest` of all items, of which parts of `kvHeads` KV heads lie side by side; gives the
/// number among those with the same heads.
static Value setHeads(AttentionKernel &k, Value rest, int64_t kvHeads, int64_t parts) {
  ImplicitLocOpBuilder &b = k.b();
  Value count = createIndex(b, kvHeads * parts), part = arith::RemUIOp::create(b, rest, count);
  k.head = parts == 1 ? part : arith::DivUIOp::create(b, part, createIndex(b, parts)).getResult();
  k.queryHead = createMul(b, part, createIndex(b, k.group));
  return arith::DivUIOp::create(b, rest, count);
}

/// Entries with one row: an item is a span of every segment. Its partial result has its number.
static void emitDecode(AttentionKernel &k, const DecodeShape &shape, Value spans, const Outputs &outputs) {
  ImplicitLocOpBuilder &b = k.b();
  Value number = setHeads(k, k.kernel.item, shape.kvHeads / shape.lists(), shape.parts);
  Span span = loadSpan(b, shape, spans, number);
  if (span.head) {
    k.head = span.head;
    k.queryHead = createAdd(b, k.queryHead, createMul(b, k.head, createIndex(b, k.group * shape.parts)));
  }
  k.entry = span.entry;
  k.sequence = span.sequence;
  k.slots = shape.slots;
  k.beginsAtWindow = shape.beginsAtWindow();
  Value zero = createIndex(b, 0), one = createIndex(b, 1);
  k.entryRows = one;
  auto work = scf::IfOp::create(b, arith::CmpIOp::create(b, arith::CmpIPredicate::ne, span.count, zero),
                                /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(work.thenBlock());
  QueryTile q = loadQueryTile(k, span.row, one, 1);
  State state = initialState(k, q.rows);
  for (unsigned i = 0; i < k.caches.size(); ++i) {
    state = enterSegment(k, q, i, span.begin, span.end, state);
  }
  Value single = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, span.count, one);
  auto direct = scf::IfOp::create(b, single, /*withElseRegion=*/true);
  b.setInsertionPointToStart(direct.thenBlock());
  storeTile(k, joinSinks(k, q.rows, state), outputs.out, outputs.lse, span.row, one);
  // Sinks join a split row where its spans are merged.
  b.setInsertionPointToStart(direct.elseBlock());
  storeTile(k, state, outputs.partialOut, outputs.partialLse, number, one);
}

/// Sets the work item's coordinates where dies have caches of their own: units of work of an entry and KV head, and the
/// parts of its query heads, read the same keys and values. Returns the unit.
static Value setCoordinatesOnDies(AttentionKernel &k, Value entries, Value units, int64_t parts) {
  ImplicitLocOpBuilder &b = k.b();
  auto toWord = [&](Value index) -> Value { return arith::IndexCastUIOp::create(b, b.getI32Type(), index); };
  Value heads = createIndex(b, k.kvHeads), divider = createIndex(b, parts);
  const auto [group, member] = placeOnDies(b, toWord(k.kernel.item), toWord(createMul(b, entries, heads)),
                                           toWord(createMul(b, units, divider)), diesOf(k.op));
  k.entry = arith::DivUIOp::create(b, group, heads);
  k.head = arith::RemUIOp::create(b, group, heads);
  Value part = arith::RemUIOp::create(b, member, divider);
  k.queryHead = createMul(b, createAdd(b, createMul(b, k.head, divider), part), createIndex(b, k.group));
  return arith::DivUIOp::create(b, member, divider);
}

/// Entries with several rows: an item is a tile of tokens. `units`: tiles of an entry; null where dies do not matter.
static void emitPrefill(AttentionKernel &k, const Outputs &outputs, int64_t parts, Value units) {
  ImplicitLocOpBuilder &b = k.b();
  Value entries = tile::EntriesOp::create(b, k.batch), unit;
  if (units) {
    unit = setCoordinatesOnDies(k, entries, units, parts);
  } else {
    Value rest = arith::DivUIOp::create(b, k.kernel.item, entries);
    k.entry = arith::RemUIOp::create(b, k.kernel.item, entries);
    unit = setHeads(k, rest, k.kvHeads, parts);
  }
  k.sequence = tile::SequenceOp::create(b, k.batch, k.entry);
  auto range = tile::QueryRangeOp::create(b, k.batch, k.entry);
  Value begin = range.getBegin(), rows = arith::SubIOp::create(b, range.getEnd(), begin);
  k.entryRows = rows;
  int64_t tokens = k.schedule.getPrefillTokens();
  Value first = createMul(b, unit, createIndex(b, tokens));
  // Entries with one row have spans.
  Value isMine = arith::AndIOp::create(b, arith::CmpIOp::create(b, arith::CmpIPredicate::slt, first, rows),
                                       arith::CmpIOp::create(b, arith::CmpIPredicate::ne, rows, createIndex(b, 1)));
  auto work = scf::IfOp::create(b, isMine, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(work.thenBlock());
  if (units && k.op.getCausal()) {
    // Tiles of later tokens see more: a die that begins with them does not end with one.
    Value last = arith::DivUIOp::create(b, arith::SubIOp::create(b, rows, createIndex(b, 1)), createIndex(b, tokens));
    first = arith::SubIOp::create(b, createMul(b, last, createIndex(b, tokens)), first);
  }
  Value count = minimum(b, arith::SubIOp::create(b, rows, first), createIndex(b, tokens));
  Value row = createAdd(b, begin, first);
  QueryTile q = loadQueryTile(k, row, count, tokens);
  State state = initialState(k, q.rows);
  for (unsigned i = 0; i < k.caches.size(); ++i) {
    state = enterSegment(k, q, i, Value(), Value(), state);
  }
  storeTile(k, joinSinks(k, q.rows, state), outputs.out, outputs.lse, row, count);
}

/// The kernel that merges the spans of entries with one row, in the order of the spans.
static void emitMerge(const DecodeShape &shape, ImplicitLocOpBuilder &host, const DecodePlan &plan, ValueRange partials,
                      int64_t vDim, Value items, Value &out, Value &lse) {
  AttentionOp op = shape.op;
  SmallVector<Value> inputs{partials[0], partials[1], op.getBatch(), plan.lists}, outs{out};
  if (op.getSinkLogits()) {
    inputs.push_back(op.getSinkLogits());
  }
  if (lse) {
    outs.push_back(lse);
  }
  const int64_t queryHeads = cast<RankedTensorType>(op.getQuery().getType()).getDimSize(1);
  KernelBuilder kernel(host, "attention_merge", inputs, outs);
  ImplicitLocOpBuilder &b = kernel.body;
  Value one = createIndex(b, 1), zero = createIndex(b, 0), heads = createIndex(b, queryHeads);
  Value entry = arith::DivUIOp::create(b, kernel.item, heads),
        queryHead = arith::RemUIOp::create(b, kernel.item, heads);
  Value list = entry;
  if (shape.lists() > 1) {
    list = createMul(b, entry, createIndex(b, shape.lists()));
    list = createAdd(b, list, arith::DivUIOp::create(b, queryHead, createIndex(b, queryHeads / shape.lists())));
  }
  auto [first, count] = loadSpansOfList(b, kernel.input(3), list);
  auto work = scf::IfOp::create(b, arith::CmpIOp::create(b, arith::CmpIPredicate::ugt, count, one),
                                /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(work.thenBlock());
    Value row = tile::QueryRangeOp::create(b, kernel.input(2), entry).getBegin();
    auto at = [&, first = first](Value unit) { return createAdd(b, first, unit); };
    auto lseOf = [&](Value unit) {
      return memref::LoadOp::create(b, kernel.input(1), ValueRange{at(unit), queryHead}).getResult();
    };
    Value minusInf = arith::ConstantOp::create(b, b.getF32FloatAttr(-std::numeric_limits<float>::infinity()));
    Value zeroF = arith::ConstantOp::create(b, b.getF32FloatAttr(0.0f));
    auto reduce = [&, count = count](Value init, llvm::function_ref<Value(Value, Value)> step) {
      auto loop = scf::ForOp::create(b, zero, count, one, ValueRange{init});
      OpBuilder::InsertionGuard inner(b);
      b.setInsertionPointToStart(loop.getBody());
      scf::YieldOp::create(b, ValueRange{step(loop.getInductionVar(), loop.getRegionIterArgs()[0])});
      return loop.getResult(0);
    };
    Value max =
        reduce(minusInf, [&](Value u, Value m) { return arith::MaximumFOp::create(b, m, lseOf(u)).getResult(); });
    // Weights relative to the largest; all of them 0 where no span saw anything. NaN is something.
    Value seen = arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, max, minusInf);
    Value shift = arith::SelectOp::create(b, seen, max, zeroF);
    auto weight = [&](Value u) {
      return math::ExpOp::create(b, arith::SubFOp::create(b, lseOf(u), shift)).getResult();
    };
    Value sum = reduce(zeroF, [&](Value u, Value s) { return arith::AddFOp::create(b, s, weight(u)).getResult(); });
    if (op.getSinkLogits()) {
      Value sink = memref::LoadOp::create(b, kernel.input(4), ValueRange{queryHead});
      sum = arith::AddFOp::create(b, sum, math::ExpOp::create(b, arith::SubFOp::create(b, sink, shift)));
    }
    Value safe = arith::SelectOp::create(b, seen, sum, arith::ConstantOp::create(b, b.getF32FloatAttr(1.0f)));
    VectorType channels = tileType(b, {vDim});
    auto placeOf = [&](Value row) { return SmallVector<Value>{row, queryHead, zero}; };
    Value total = reduce(splat(b, channels, 0.0), [&](Value u, Value s) {
      Value x = vector::LoadOp::create(b, channels, kernel.input(0), placeOf(at(u)));
      return arith::AddFOp::create(b, s, arith::MulFOp::create(b, x, everywhere(b, weight(u), {vDim}))).getResult();
    });
    vector::StoreOp::create(b, arith::DivFOp::create(b, total, everywhere(b, safe, {vDim})), kernel.output(0),
                            placeOf(row));
    if (lse) {
      Value value =
          arith::SelectOp::create(b, seen, arith::AddFOp::create(b, max, math::LogOp::create(b, safe)), minusInf);
      memref::StoreOp::create(b, value, kernel.output(1), ValueRange{row, queryHead});
    }
  }
  ResultRange results = kernel.dispatch(items);
  out = results[0];
  if (lse) {
    lse = results[1];
  }
}

/// Says which tile sizes were picked and why, and where a page cannot hold what its format asks for.
static void remarkSchedule(AttentionOp op, tile::ScheduleAttr schedule, int64_t group) {
  auto options = [](StringRef name) { return remark::RemarkOpts::name(name).category("attention"); };
  StringRef why = op->hasAttr("tile.schedule") ? "given by the operation"
                                               : "a query tile of about 64 rows pays for unpacking a tile of slots";
  remark::passed(op.getLoc(), options("schedule"))
      << llvm::formatv(
             "query tiles of {0} tokens x {1} heads, tiles of {2} slots, decode spans of at least {3} slots: {4}",
             schedule.getPrefillTokens(), group, schedule.getSlots(), schedule.getSplit(), why)
             .str();
  const Target *target = getTargetOf(op);
  if (!target) {
    return;
  }
  if (!schedule.getProducers()) {
    std::string reason = op->hasAttr("tile.schedule")
                             ? std::string()
                             : whyNoWarpGroups({group, cast<CacheType>(op.getCaches()[0].getType())}, *target);
    if (!reason.empty()) {
      remark::missed(op.getLoc(), options("roles")) << ("no products of warp groups: " + reason);
    }
  }
  for (Value cache : op.getCaches()) {
    auto type = cast<CacheType>(cache.getType());
    for (Plane plane : {Plane::K, Plane::V}) {
      std::string reason = whyPlainRows(type, plane, *target);
      if (!reason.empty()) {
        remark::missed(op.getLoc(), options("layout"))
            << (stringifyPlane(plane) + " in plain rows, unpacked slot by slot: " + reason).str();
      }
    }
  }
}

/// Inputs of a kernel over all segments: the query, the batch, its own ones, and what every item may look at.
static SmallVector<Value> kernelInputs(AttentionOp op, ValueRange own) {
  SmallVector<Value> inputs{op.getQuery(), op.getBatch()};
  llvm::append_range(inputs, own);
  llvm::append_range(inputs, op.getCaches());
  for (unsigned i = 0; i < op.getCaches().size(); ++i) {
    if (Value selection = op.getSelectionOf(i)) {
      inputs.push_back(selection);
    }
  }
  for (Value value : {op.getSinkLogits(), op.getTreeMask()}) {
    if (value) {
      inputs.push_back(value);
    }
  }
  llvm::append_range(inputs, variableCaptures(op));
  return inputs;
}

/// The kernel with those inputs, `own` of them its own ones.
static AttentionKernel createKernel(AttentionOp op, KernelBuilder &kernel, tile::ScheduleAttr schedule, int64_t heads,
                                    unsigned own) {
  kernel.function->setAttr("tile.schedule", schedule);
  auto type = cast<CacheType>(op.getCaches()[0].getType());
  AttentionKernel k{op, kernel, schedule, heads, type.getHeads(), type.getKDim(), type.getVDim()};
  k.query = kernel.input(0);
  k.batch = kernel.input(1);
  unsigned next = 2 + own;
  for (unsigned i = 0; i < op.getCaches().size(); ++i) {
    k.caches.push_back(kernel.input(next++));
  }
  for (unsigned i = 0; i < op.getCaches().size(); ++i) {
    k.selections.push_back(op.getSelectionOf(i) ? kernel.input(next++) : Value());
  }
  k.sinkLogits = op.getSinkLogits() ? kernel.input(next++) : Value();
  k.treeMask = op.getTreeMask() ? kernel.input(next++) : Value();
  k.takeCaptures(next);
  return k;
}

FailureOr<Replacements> kvc::lowerAttention(AttentionOp op, ImplicitLocOpBuilder &host) {
  auto queryType = cast<RankedTensorType>(op.getQuery().getType());
  auto cacheType = cast<CacheType>(op.getCaches()[0].getType());
  if (op.getTreeMask() && op.getSelectionOf(op.getCaches().size() - 1)) {
    auto selection = cast<SelectionType>(op.getSelectionOf(op.getCaches().size() - 1).getType());
    if (selection.getUnit() == Unit::Token) {
      return op.emitOpError() << "has no lowering of a tree mask over selected tokens yet: select pages";
    }
  }
  int64_t kvHeads = cacheType.getHeads(), group = queryType.getDimSize(1) / kvHeads, vDim = cacheType.getVDim();
  auto schedule = op->getAttrOfType<tile::ScheduleAttr>("tile.schedule");
  if (!schedule) {
    schedule = chooseSchedule({group, cacheType}, getTargetOf(op));
  }
  const int64_t heads = chooseHeads({group, cacheType}, getTargetOf(op)), parts = group / heads;
  remarkSchedule(op, schedule, heads);

  int64_t decodeSlots = schedule.getSlots();
  if (!op->hasAttr("tile.schedule")) {
    decodeSlots = chooseDecodeSlots({heads, cacheType}, getTargetOf(op), schedule);
  }
  const DecodeShape decode{op, kvHeads, parts, decodeSlots,
                           static_cast<int64_t>(llvm::divideCeil(schedule.getSplit(), decodeSlots))};
  DecodePlan plan = planDecode(decode, host);

  Value batch = op.getBatch();
  Value entries = tile::EntriesOp::create(host, batch), rows = tile::RowsOp::create(host, batch);
  int64_t queryHeads = queryType.getDimSize(1), dynamic = ShapedType::kDynamic;
  auto f32 = host.getF32Type();
  bool wantsStats = static_cast<bool>(op.getStats());
  bool wantsLse = op.getLse() || wantsStats;
  SmallVector<Value> rowSize = queryType.isDynamicDim(0) ? SmallVector<Value>{rows} : SmallVector<Value>{};
  Value out = createEmpty(host, RankedTensorType::get({queryType.getDimSize(0), queryHeads, vDim}, f32), rowSize);
  Value lse = wantsLse ? createEmpty(host, RankedTensorType::get({queryType.getDimSize(0), queryHeads}, f32), rowSize)
                       : Value();
  Value partialOut = createEmpty(host, RankedTensorType::get({dynamic, queryHeads, vDim}, f32), plan.most);
  Value partialLse = createEmpty(host, RankedTensorType::get({dynamic, queryHeads}, f32), plan.most);

  SmallVector<Value> outs{out};
  if (lse) {
    outs.push_back(lse);
  }
  SmallVector<Value> spanOuts(outs);
  llvm::append_range(spanOuts, ValueRange{partialOut, partialLse});
  {
    KernelBuilder kernel(host, "attention_decode", kernelInputs(op, plan.spans), spanOuts);
    AttentionKernel k = createKernel(op, kernel, chooseDecodeSchedule(schedule, heads), heads, /*own=*/1);
    emitDecode(k, decode, kernel.input(2),
               {kernel.output(0), lse ? kernel.output(1) : Value(), kernel.output(outs.size()),
                kernel.output(outs.size() + 1)});
    llvm::copy(kernel.dispatch(createMul(host, plan.most, createIndex(host, decode.itemsOfSpan()))), spanOuts.begin());
  }
  llvm::copy(ArrayRef(spanOuts).take_front(outs.size()), outs.begin());

  // Tiles of tokens of entries with several rows, if there are any.
  Value one = createIndex(host, 1), maxRows = tile::MaxRowsOp::create(host, batch);
  Value tiles = arith::CeilDivSIOp::create(host, maxRows, createIndex(host, schedule.getPrefillTokens()));
  tiles = createMul(host, tiles, minimum(host, arith::SubIOp::create(host, maxRows, one), one));
  Value tileItems = createMul(host, createMul(host, entries, createIndex(host, kvHeads * parts)), tiles);
  {
    SmallVector<Value> own;
    if (diesOf(op) > 1) {
      own.push_back(tiles);
    }
    KernelBuilder kernel(host, "attention", kernelInputs(op, own), outs);
    AttentionKernel k = createKernel(op, kernel, schedule, heads, own.size());
    emitPrefill(k, {kernel.output(0), lse ? kernel.output(1) : Value()}, parts,
                own.empty() ? Value() : kernel.input(2));
    llvm::copy(kernel.dispatch(tileItems), outs.begin());
  }
  out = outs[0];
  lse = lse ? outs[1] : Value();

  // Nothing to merge while every list fits one span, or none has any.
  Value isSplit = minimum(host, arith::SubIOp::create(host, plan.mostOfList, one), plan.any);
  Value mergeItems = createMul(host, isSplit, createMul(host, entries, createIndex(host, queryHeads)));
  emitMerge(decode, host, plan, ArrayRef(spanOuts).take_back(2), vDim, mergeItems, out, lse);

  Value stats;
  if (wantsStats) {
    FailureOr<Value> made = lowerAttentionStats(op, host, schedule, lse);
    if (failed(made)) {
      return failure();
    }
    stats = *made;
  }
  Replacements replacements(op.getNumResults());
  for (auto [i, result] : llvm::enumerate(op.getResults())) {
    replacements[i] = result == op.getOut() ? out : result == op.getLse() ? lse : stats;
  }
  return replacements;
}
