//===- AttentionOps.cpp - Operations that read caches, in the oracle ------===//
#include "Internal.h"

#include "llvm/ADT/TypeSwitch.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;
using namespace kvc::reference;

static constexpr double infinity = std::numeric_limits<double>::infinity();

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

int64_t reference::unitsOf(const Cache &cache, Unit unit, int64_t sequence, int64_t head) {
  const Table &table = cache.table(sequence, head);
  return unit == Unit::Token ? table.length() : cache.pagesOf(table.sealed);
}

LogicalResult reference::checkSelection(Operation *op, const Selection &selection, const Batch &batch,
                                        const Cache &cache) {
  if (selection.heads != cache.type.getHeads() ||
      static_cast<int64_t>(selection.lists.size()) != batch.entries() * selection.heads) {
    return op->emitOpError() << "expects a selection of " << batch.entries() << " entries x " << cache.type.getHeads()
                             << " KV heads, but got " << selection.lists.size() << " lists for " << selection.heads
                             << " heads";
  }
  for (int64_t entry = 0; entry < batch.entries(); ++entry) {
    for (int64_t head = 0; head < selection.heads; ++head) {
      const int64_t count = unitsOf(cache, selection.unit, batch.sequences[entry], head);
      int64_t before = -1;
      for (int64_t index : selection.lists[entry * selection.heads + head]) {
        if (index <= before || index >= count) {
          return op->emitOpError() << "expects a selection that ascends from 0 to below the " << count << " "
                                   << stringifyUnit(selection.unit) << "s of the table, but got " << index << " after "
                                   << before;
        }
        before = index;
      }
    }
  }
  return success();
}

LogicalResult reference::checkScores(Operation *op, const Tensor &scores, const Batch &batch, const Cache &cache,
                                     Unit unit) {
  if (scores.shape[0] != batch.entries() || scores.shape[1] != cache.type.getHeads()) {
    return op->emitOpError() << "expects scores of " << batch.entries() << " entries x " << cache.type.getHeads()
                             << " KV heads, but got [" << ArrayRef(scores.shape) << "]";
  }
  for (int64_t entry = 0; entry < batch.entries(); ++entry) {
    for (int64_t head = 0; head < cache.type.getHeads(); ++head) {
      const int64_t count = unitsOf(cache, unit, batch.sequences[entry], head);
      if (count > scores.shape[2]) {
        return op->emitOpError() << "expects scores of the " << count << " " << stringifyUnit(unit)
                                 << "s of a table, but got " << scores.shape[2];
      }
    }
  }
  return success();
}

/// The extent of a slot or page dimension of a result: static, or the largest of the batch's tables.
static FailureOr<int64_t> extentOf(Operation *op, int64_t fixed, const Cache &cache, const Batch &batch, Unit unit) {
  int64_t largest = 0;
  for (int64_t sequence : batch.sequences) {
    for (int64_t head = 0; head < cache.type.getHeads(); ++head) {
      const int64_t length = cache.table(sequence, head).length();
      largest = std::max(largest, unit == Unit::Token ? length : cache.pagesOf(length));
    }
  }
  if (ShapedType::isDynamic(fixed)) {
    return largest;
  }
  if (fixed < largest) {
    return op->emitOpError() << "expects a result with room for " << largest << " " << stringifyUnit(unit)
                             << "s, but got " << fixed,
           failure();
  }
  return fixed;
}

/// The larger of two scores; NaN when one of them is.
static double larger(double a, double b) { return std::isnan(a) || std::isnan(b) ? a + b : std::max(a, b); }

static double dot(ArrayRef<double> a, ArrayRef<double> b) {
  double sum = 0;
  for (auto [x, y] : llvm::zip_equal(a, b)) {
    sum += x * y;
  }
  return sum;
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

namespace {
/// What attention and online_attention have in common.
struct Site {
  Evaluator &evaluator;
  Operation *op;
  const Tensor &query; // rows x query heads x channels
  const Batch &batch;
  double scale;
  bool causal;
  std::optional<int64_t> window;
  int64_t sinks;
  const Tensor *tree = nullptr; // rows x rows of the largest entry
  Region &score;
  SmallVector<Datum> captures;
  // A tile of a larger attention: where its rows and heads start, and how many query heads share a KV head.
  int64_t firstRow = 0;
  int64_t firstHead = 0;
  std::optional<int64_t> group = std::nullopt;

  int64_t queryHeads() const { return query.shape[1]; }
  int64_t kvHeadOf(int64_t head, const Cache &cache) const {
    return head / (group ? *group : queryHeads() / cache.type.getHeads());
  }
};

/// Where a row stands.
struct Row {
  int64_t entry;
  int64_t index; // of all rows of the batch
  int64_t head;  // of all query heads
};

/// One visible slot of a row.
struct Visible {
  int64_t segment;
  int64_t slot;
  double score;
};
} // namespace

/// The row of its entry that wrote a slot in this step: the newest slots are the rows of the entry, in order.
static std::optional<int64_t> stepRowOf(const Table &table, const Batch &batch, int64_t entry, int64_t slot) {
  const int64_t first = table.length() - batch.rowsOf(entry);
  return slot >= first ? std::optional<int64_t>(slot - first) : std::nullopt;
}

/// Whether masks let a row see a slot. Positions decide, except for the tree mask.
static bool isVisible(const Site &site, const Row &row, const Table &table, int64_t slot) {
  const int64_t rowPosition = site.batch.positions[row.index], slotPosition = table.slots[slot].position;
  if (site.causal && slotPosition > rowPosition) {
    return false;
  }
  if (site.window && rowPosition - slotPosition >= *site.window && slotPosition >= site.sinks) {
    return false;
  }
  if (site.tree) {
    if (std::optional<int64_t> other = stepRowOf(table, site.batch, row.entry, slot)) {
      return site.tree->ints[site.tree->offset({row.index - site.firstRow, *other})] != 0;
    }
  }
  return true;
}

/// The score of a row and a slot that it sees.
static FailureOr<double> scoreOf(const Site &site, const Row &row, const Cache &cache, int64_t kvHead, int64_t slot) {
  const Table &table = cache.table(site.batch.sequences[row.entry], kvHead);
  const int64_t dim = cache.type.getKDim();
  const int64_t offset = (row.index - site.firstRow) * site.queryHeads() + row.head - site.firstHead;
  ArrayRef<double> query = ArrayRef(site.query.floats).slice(offset * dim, dim);
  const double score = site.scale * dot(query, loadKey(cache, table, slot, cache.headInTable(kvHead)));
  if (site.score.empty()) {
    return score;
  }
  SmallVector<Datum> arguments{Datum(score), Datum(row.entry), Datum(row.head), Datum(site.batch.positions[row.index]),
                               Datum(table.slots[slot].position)};
  llvm::append_range(arguments, site.captures);
  FailureOr<SmallVector<Datum>> yielded = site.evaluator.runBlock(site.score.front(), arguments);
  if (failed(yielded)) {
    return failure();
  }
  return yielded->front().asFloat();
}

/// Adds the slots begin .. end-1 of a segment that a row sees, with their scores.
static LogicalResult collect(const Site &site, const Row &row, const Cache &cache, const Selection *selection,
                             int64_t segment, int64_t begin, int64_t end, SmallVectorImpl<Visible> &visible) {
  const int64_t kvHead = site.kvHeadOf(row.head, cache);
  const Table &table = cache.table(site.batch.sequences[row.entry], kvHead);
  for (int64_t slot = std::max<int64_t>(begin, 0); slot < std::min(end, table.length()); ++slot) {
    // Pages are selected of what is sealed; what is in the tail is always there.
    const bool isPage = selection && selection->unit == Unit::Page;
    if (selection && !(isPage && slot >= table.sealed)) {
      const int64_t unit = isPage ? slot / cache.type.getPage() : slot;
      if (!llvm::is_contained(selection->lists[row.entry * selection->heads + kvHead], unit)) {
        continue;
      }
    }
    if (!isVisible(site, row, table, slot)) {
      continue;
    }
    FailureOr<double> score = scoreOf(site, row, cache, kvHead, slot);
    if (failed(score)) {
      return failure();
    }
    visible.push_back({segment, slot, *score});
  }
  return success();
}

static LogicalResult checkTree(Operation *op, const Tensor *tree, const Cache &cache, const Batch &batch) {
  if (!tree) {
    return success();
  }
  if (cache.type.isRing()) {
    return op->emitOpError() << "expects a cache without a ring for a tree mask, as the newest slots of a ring have "
                                "no order, but got window "
                             << cache.type.getWindow();
  }
  if (tree->shape[0] != batch.rows()) {
    return op->emitOpError() << "expects a tree mask of " << batch.rows() << " rows, but got " << tree->shape[0];
  }
  for (int64_t entry = 0; entry < batch.entries(); ++entry) {
    if (batch.rowsOf(entry) > tree->shape[1]) {
      return op->emitOpError() << "expects a tree mask of at least " << batch.rowsOf(entry) << " columns, but got "
                               << tree->shape[1];
    }
    for (int64_t head = 0; head < cache.type.getTablesPerSequence(); ++head) {
      if (cache.table(batch.sequences[entry], head).length() < batch.rowsOf(entry)) {
        return op->emitOpError() << "expects the " << batch.rowsOf(entry)
                                 << " rows of an entry in its table for a tree mask, but got "
                                 << cache.table(batch.sequences[entry], head).length() << " slots";
      }
    }
  }
  return success();
}

/// Checks operands of an attention that types leave open.
static LogicalResult checkSite(const Site &site, const Cache &cache, const Selection *selection) {
  if (failed(checkBatch(site.op, site.batch, &site.query, &cache))) {
    return failure();
  }
  return selection ? checkSelection(site.op, *selection, site.batch, cache) : success();
}

static std::optional<int64_t> windowOf(Attribute window) {
  return window ? std::optional<int64_t>(getInt(window)) : std::nullopt;
}

/// The value of a visible slot for a query head.
static ArrayRef<double> valueOf(const Site &site, const Cache &cache, const Row &row, int64_t slot) {
  const int64_t kvHead = site.kvHeadOf(row.head, cache), dim = cache.type.getVDim();
  const Table &table = cache.table(site.batch.sequences[row.entry], kvHead);
  return ArrayRef(table.slots[slot].value).slice(cache.headInTable(kvHead) * dim, dim);
}

/// Calls `body` for every row of the batch and query head.
template <typename Body> static LogicalResult forEachRow(const Batch &batch, int64_t queryHeads, Body &&body) {
  for (int64_t entry = 0; entry < batch.entries(); ++entry) {
    for (int64_t row = batch.queryOffsets[entry]; row < batch.queryOffsets[entry + 1]; ++row) {
      for (int64_t head = 0; head < queryHeads; ++head) {
        if (failed(body(Row{entry, row, head}))) {
          return failure();
        }
      }
    }
  }
  return success();
}

static LogicalResult evalAttention(Evaluator &evaluator, AttentionOp op, Operands operands, Results &results) {
  auto datumOf = [&](mlir::Value value) -> const Datum & {
    return operands[std::distance(op->operand_begin(), llvm::find(op->getOperands(), value))];
  };
  SmallVector<const Cache *> caches;

  Site site{evaluator,
            op,
            datumOf(op.getQuery()).asTensor(),
            datumOf(op.getBatch()).asBatch(),
            op.getScale().convertToFloat(),
            op.getCausal(),
            windowOf(op.getWindowAttr()),
            getIntOr(op.getSinksAttr(), 0),
            nullptr,
            op.getScore(),
            {}};
  for (mlir::Value capture : op.getCaptures()) {
    site.captures.push_back(datumOf(capture));
  }
  SmallVector<const Selection *> selections;
  for (auto [segment, value] : llvm::enumerate(op.getCaches())) {
    caches.push_back(&datumOf(value).asCache());
    mlir::Value selection = op.getSelectionOf(segment);
    selections.push_back(selection ? &datumOf(selection).asSelection() : nullptr);
    if (failed(checkSite(site, *caches.back(), selections.back()))) {
      return failure();
    }
  }
  // Slots of this step lie in the last segment.
  const Tensor *tree = op.getTreeMask() ? &datumOf(op.getTreeMask()).asTensor() : nullptr;
  if (failed(checkTree(op, tree, *caches.back(), site.batch))) {
    return failure();
  }
  const Tensor *sinkLogits = op.getSinkLogits() ? &datumOf(op.getSinkLogits()).asTensor() : nullptr;
  if (sinkLogits && sinkLogits->shape[0] != site.queryHeads()) {
    return op.emitOpError() << "expects sink_logits of " << site.queryHeads() << " heads, but got "
                            << sinkLogits->shape[0];
  }

  const Batch &batch = site.batch;
  const int64_t queryHeads = site.queryHeads(), vDim = caches[0]->type.getVDim();
  Tensor out = Tensor::filled({batch.rows(), queryHeads, vDim}, 0.0);
  Tensor lse = Tensor::filled({batch.rows(), queryHeads}, -infinity);
  std::optional<Tensor> stats;
  const int64_t kvHeads = caches[0]->type.getHeads(), statRows = getIntOr(op.getStatRowsAttr(), 0),
                statStride = getIntOr(op.getStatStrideAttr(), 1);
  const double statDecay = getFloatOr(op.getStatDecayAttr(), 1),
               statThreshold = getFloatOr(op.getStatThresholdAttr(), 0);
  Tensor seen; // by how many counted rows, for the mean
  if (mlir::Value value = op.getStats()) {
    FailureOr<int64_t> slots =
        extentOf(op, cast<RankedTensorType>(value.getType()).getDimSize(2), *caches[0], batch, Unit::Token);
    if (failed(slots) || failed(checkSize(evaluator, op, {batch.entries(), kvHeads, *slots}))) {
      return failure();
    }
    // Past a table's end: -inf, as in scores.
    stats = Tensor::filled({batch.entries(), kvHeads, *slots}, -infinity);
    seen = Tensor::filled(stats->shape, 0.0);
    for (int64_t entry = 0; entry < batch.entries(); ++entry) {
      for (int64_t head = 0; head < kvHeads; ++head) {
        for (int64_t slot = 0; slot < caches[0]->table(batch.sequences[entry], head).length(); ++slot) {
          stats->at({entry, head, slot}) = 0.0;
        }
      }
    }
  }

  LogicalResult done = forEachRow(batch, queryHeads, [&](const Row &row) -> LogicalResult {
    SmallVector<Visible> visible;
    for (auto [segment, cache] : llvm::enumerate(caches)) {
      site.tree = segment + 1 == caches.size() ? tree : nullptr;
      if (failed(collect(site, row, *cache, selections[segment], segment, 0, cache->capacity, visible))) {
        return failure();
      }
    }
    double top = -infinity;
    for (const Visible &v : visible) {
      top = larger(top, v.score);
    }
    // A row that sees nothing, or only scores of -inf, keeps out = 0 and lse = -inf.
    if (top == -infinity) {
      return success();
    }
    double denominator = 0;
    for (const Visible &v : visible) {
      denominator += std::exp(v.score - top);
    }
    if (sinkLogits) {
      denominator += std::exp(sinkLogits->floats[row.head] - top);
    }
    lse.at({row.index, row.head}) = top + std::log(denominator);

    const int64_t later = batch.queryOffsets[row.entry + 1] - 1 - row.index; // rows of the entry after this one
    const bool counted = stats && (statRows == 0 || later < statRows) && later % statStride == 0;
    for (const Visible &v : visible) {
      const double p = std::exp(v.score - top) / denominator;
      ArrayRef<double> value = valueOf(site, *caches[v.segment], row, v.slot);
      for (int64_t channel = 0; channel < vDim; ++channel) {
        out.at({row.index, row.head, channel}) += p * value[channel];
      }
      if (counted) {
        double &stat = stats->at({row.entry, row.head / (queryHeads / kvHeads), v.slot});
        switch (*op.getStat()) {
        case Stat::Sum:
          stat += p;
          break;
        case Stat::Max:
          stat = std::max(stat, p);
          break;
        case Stat::Count:
          stat += p > 1.0 / static_cast<double>(visible.size());
          break;
        case Stat::Mean:
          stat += p;
          seen.at({row.entry, row.head / (queryHeads / kvHeads), v.slot}) += 1;
          break;
        case Stat::Decay:
          stat += std::pow(statDecay, static_cast<double>(later)) * p;
          break;
        case Stat::Hits:
          stat += p > statThreshold;
          break;
        }
      }
    }
    return success();
  });
  if (failed(done)) {
    return failure();
  }
  if (stats && *op.getStat() == Stat::Mean) {
    for (auto [stat, count] : llvm::zip_equal(stats->floats, seen.floats)) {
      stat = count == 0 ? stat : stat / count;
    }
  }
  for (mlir::Value result : op.getResults()) {
    if (result == op.getOut()) {
      results.push_back(out);
    } else if (result == op.getLse()) {
      results.push_back(lse);
    } else {
      results.push_back(*stats);
    }
  }
  return success();
}

static LogicalResult evalOnlineAttention(Evaluator &evaluator, OnlineAttentionOp op, Operands operands,
                                         Results &results) {
  const Cache &cache = operands[1].asCache();
  const int64_t begin = operands[2].asInt(), end = operands[3].asInt();
  Tensor acc = operands[5].asTensor(), max = operands[6].asTensor(), sum = operands[7].asTensor();
  Site site{evaluator,
            op,
            operands[0].asTensor(),
            operands[4].asBatch(),
            op.getScale().convertToFloat(),
            op.getCausal(),
            windowOf(op.getWindowAttr()),
            getIntOr(op.getSinksAttr(), 0),
            nullptr,
            op.getScore(),
            {}};
  unsigned next = 8;
  const Selection *selection = op.getSelection() ? &operands[next++].asSelection() : nullptr;
  site.tree = op.getTreeMask() ? &operands[next++].asTensor() : nullptr;
  site.firstRow = op.getRowOffset() ? operands[next++].asInt() : 0;
  site.firstHead = op.getHeadOffset() ? operands[next++].asInt() : 0;
  if (IntegerAttr group = op.getGroupAttr()) {
    site.group = group.getInt();
  }
  llvm::append_range(site.captures, operands.drop_front(next));
  const int64_t rows = site.query.shape[0], heads = site.queryHeads();
  const bool isTile = op.getRowOffset() || rows != site.batch.rows();
  if (failed(checkBatch(op, site.batch, isTile ? nullptr : &site.query, &cache)) ||
      (selection && failed(checkSelection(op, *selection, site.batch, cache))) ||
      (!isTile && failed(checkTree(op, site.tree, cache, site.batch)))) {
    return failure();
  }
  if (site.firstRow < 0 || site.firstRow + rows > site.batch.rows()) {
    return op.emitOpError() << "expects rows of the " << site.batch.rows() << " of the batch, but got " << rows
                            << " from row " << site.firstRow;
  }
  if (site.firstHead < 0 || site.kvHeadOf(site.firstHead + heads - 1, cache) >= cache.type.getHeads()) {
    return op.emitOpError() << "expects query heads of the " << cache.type.getHeads() << " KV heads, but got " << heads
                            << " from head " << site.firstHead;
  }
  const SmallVector<int64_t> state{rows, heads};
  SmallVector<int64_t> accShape = state;
  accShape.push_back(cache.type.getVDim());
  if (acc.shape != accShape || max.shape != state || sum.shape != state) {
    return op.emitOpError() << "expects a state of [" << accShape << "] and [" << state << "], but got ["
                            << ArrayRef(acc.shape) << "], [" << ArrayRef(max.shape) << "] and [" << ArrayRef(sum.shape)
                            << "]";
  }

  LogicalResult done = forEachRow(site.batch, heads, [&](const Row &inTile) -> LogicalResult {
    const Row row{inTile.entry, inTile.index, inTile.head + site.firstHead};
    const int64_t stateRow = row.index - site.firstRow;
    if (stateRow < 0 || stateRow >= rows) {
      return success();
    }
    SmallVector<Visible> visible;
    if (failed(collect(site, row, cache, selection, 0, begin, end, visible))) {
      return failure();
    }
    double &top = max.at({stateRow, inTile.head}), &total = sum.at({stateRow, inTile.head});
    double newTop = top;
    for (const Visible &v : visible) {
      newTop = larger(newTop, v.score);
    }
    if (newTop == -infinity) {
      return success();
    }
    MutableArrayRef<double> sums =
        MutableArrayRef(acc.floats).slice((stateRow * heads + inTile.head) * accShape[2], accShape[2]);
    const double rescale = std::exp(top - newTop);
    total *= rescale;
    for (double &x : sums) {
      x *= rescale;
    }
    for (const Visible &v : visible) {
      const double weight = std::exp(v.score - newTop);
      total += weight;
      for (auto [x, value] : llvm::zip_equal(sums, valueOf(site, cache, row, v.slot))) {
        x += weight * value;
      }
    }
    top = newTop;
    return success();
  });
  results.append({std::move(acc), std::move(max), std::move(sum)});
  return done;
}

static LogicalResult evalMergeStates(MergeStatesOp op, Operands operands, Results &results) {
  const Tensor &first = operands[0].asTensor();
  const int64_t channels = first.shape[2];
  Tensor out = Tensor::filled(first.shape, 0.0), lse = Tensor::filled(operands[1].asTensor().shape, -infinity);
  for (auto [i, operand] : llvm::enumerate(operands)) {
    const Tensor &like = i % 2 ? lse : out;
    if (operand.asTensor().shape != like.shape || out.shape[0] != lse.shape[0] || out.shape[1] != lse.shape[1]) {
      return op.emitOpError() << "expects states of equal shapes, but got operand " << i << " of ["
                              << ArrayRef(operand.asTensor().shape) << "]";
    }
  }
  for (int64_t i = 0; i < lse.size(); ++i) {
    double top = -infinity, total = 0;
    for (size_t s = 1; s < operands.size(); s += 2) {
      top = larger(top, operands[s].asTensor().floats[i]);
    }
    if (top == -infinity) {
      continue;
    }
    for (size_t s = 1; s < operands.size(); s += 2) {
      total += std::exp(operands[s].asTensor().floats[i] - top);
    }
    lse.floats[i] = top + std::log(total);
    for (size_t s = 0; s < operands.size(); s += 2) {
      const double stateLse = operands[s + 1].asTensor().floats[i];
      if (stateLse == -infinity) {
        continue; // a state of no keys, whatever its out holds
      }
      const double weight = std::exp(stateLse - lse.floats[i]);
      for (int64_t c = 0; c < channels; ++c) {
        out.floats[i * channels + c] += weight * operands[s].asTensor().floats[i * channels + c];
      }
    }
  }
  results.push_back(std::move(out));
  results.push_back(std::move(lse));
  return success();
}

//===----------------------------------------------------------------------===//
// Scores and selections
//===----------------------------------------------------------------------===//

static LogicalResult evalScore(Evaluator &evaluator, ScoreOp op, Operands operands, Results &results) {
  const Tensor *query = op.getQuery() ? &operands[0].asTensor() : nullptr;
  const Cache &cache = operands[query ? 1 : 0].asCache();
  const Batch &batch = operands[query ? 2 : 1].asBatch();
  if (failed(checkBatch(op, batch, query, &cache))) {
    return failure();
  }
  const bool ofPages = op.getKind() == ScoreKind::Bound || op.getKind() == ScoreKind::Mean;
  const Unit unit = ofPages ? Unit::Page : Unit::Token;
  FailureOr<int64_t> extent =
      extentOf(op, cast<RankedTensorType>(op.getResult().getType()).getDimSize(2), cache, batch, unit);
  const int64_t kvHeads = cache.type.getHeads(), dim = cache.type.getKDim();
  if (failed(extent) || failed(checkSize(evaluator, op, {batch.entries(), kvHeads, *extent}))) {
    return failure();
  }
  Tensor scores = Tensor::filled({batch.entries(), kvHeads, *extent}, -infinity);

  for (int64_t entry = 0; entry < batch.entries(); ++entry) {
    for (int64_t head = 0; head < kvHeads; ++head) {
      const Table &table = cache.table(batch.sequences[entry], head);
      const int64_t inTable = cache.headInTable(head);
      // The largest of f(query vector) over the rows of the entry and the query heads of the group.
      auto largest = [&](auto &&f) {
        const int64_t group = query->shape[1] / kvHeads;
        double top = -infinity;
        for (int64_t row = batch.queryOffsets[entry]; row < batch.queryOffsets[entry + 1]; ++row) {
          for (int64_t h = head * group; h < (head + 1) * group; ++h) {
            top = std::fmax(top, f(ArrayRef(query->floats).slice((row * query->shape[1] + h) * dim, dim)));
          }
        }
        return top;
      };
      for (int64_t i = 0; i < unitsOf(cache, unit, batch.sequences[entry], head); ++i) {
        double &score = scores.at({entry, head, i});
        switch (op.getKind()) {
        case ScoreKind::Bound:
          score = largest([&](ArrayRef<double> q) {
            double bound = 0;
            for (int64_t c = 0; c < dim; ++c) {
              bound += std::fmax(q[c] * table.pages[i].low[inTable * dim + c],
                                 q[c] * table.pages[i].high[inTable * dim + c]);
            }
            return bound;
          });
          break;
        case ScoreKind::Dot: {
          SmallVector<double> key = loadKey(cache, table, i, inTable);
          score = largest([&](ArrayRef<double> q) { return dot(q, key); });
          break;
        }
        case ScoreKind::Mean: {
          const int64_t begin = i * cache.type.getPage(), end = std::min(begin + cache.type.getPage(), table.length());
          SmallVector<double> mean(dim, 0.0);
          for (int64_t slot = begin; slot < end; ++slot) {
            for (int64_t c = 0; c < dim; ++c) {
              mean[c] += table.slots[slot].key[inTable * dim + c] / static_cast<double>(end - begin);
            }
          }
          score = largest([&](ArrayRef<double> q) { return dot(q, mean); });
          break;
        }
        case ScoreKind::KeyNorm:
          score = table.slots[i].norm[inTable];
          break;
        case ScoreKind::Plane:
          score = table.slots[i].score[inTable];
          break;
        }
      }
    }
  }
  results.push_back(std::move(scores));
  return success();
}

static LogicalResult evalPool(PoolOp op, Operands operands, Results &results) {
  const Tensor &input = operands[0].asTensor();
  const int64_t half = getInt(op.getKernel()) / 2, extent = input.shape[2];
  Tensor out = Tensor::filled(input.shape, -infinity);
  for (int64_t row = 0; row < input.shape[0] * input.shape[1]; ++row) {
    ArrayRef<double> scores = ArrayRef(input.floats).slice(row * extent, extent);
    for (int64_t slot = 0; slot < extent; ++slot) {
      // -inf: past the table's end. It neither counts nor gets a value.
      if (scores[slot] == -infinity) {
        continue;
      }
      double top = -infinity, sum = 0;
      int64_t count = 0;
      for (int64_t i = std::max<int64_t>(slot - half, 0); i <= std::min(slot + half, extent - 1); ++i) {
        if (scores[i] != -infinity) {
          top = std::max(top, scores[i]);
          sum += scores[i];
          ++count;
        }
      }
      out.floats[row * extent + slot] = op.getMode() == "max" ? top : sum / static_cast<double>(count);
    }
  }
  results.push_back(std::move(out));
  return success();
}

SmallVector<int64_t> reference::highest(ArrayRef<double> scores, int64_t count, int64_t first, int64_t last) {
  const int64_t size = scores.size();
  SmallVector<int64_t> all = llvm::to_vector(llvm::seq<int64_t>(0, size));
  if (size <= count) {
    return all;
  }
  auto rank = [&](int64_t i) { return std::isnan(scores[i]) ? -infinity : scores[i]; };
  auto kept = [&](int64_t i) { return i < first || i >= size - last; };
  llvm::sort(all, [&](int64_t a, int64_t b) {
    if (kept(a) != kept(b)) {
      return kept(a);
    }
    return rank(a) != rank(b) ? rank(a) > rank(b) : a < b;
  });
  all.resize(count);
  llvm::sort(all);
  return all;
}

static LogicalResult evalTopK(TopKOp op, Operands operands, Results &results) {
  const Tensor &scores = operands[0].asTensor();
  const Cache &cache = operands[1].asCache();
  const Batch &batch = operands[2].asBatch();
  const int64_t k = getInt(op.getK()), first = getInt(op.getFirst()), last = getInt(op.getLast());
  if (failed(checkBatch(op, batch, nullptr, &cache)) || failed(checkScores(op, scores, batch, cache, op.getUnit()))) {
    return failure();
  }
  if (first + last > k) {
    return op.emitOpError() << "expects first + last of at most k (" << k << "), but got " << first + last;
  }
  Selection selection;
  selection.unit = op.getUnit();
  selection.heads = cache.type.getHeads();
  for (int64_t entry = 0; entry < batch.entries(); ++entry) {
    for (int64_t head = 0; head < selection.heads; ++head) {
      const int64_t count = unitsOf(cache, op.getUnit(), batch.sequences[entry], head);
      SmallVector<int64_t> list = highest(
          ArrayRef(scores.floats).slice((entry * selection.heads + head) * scores.shape[2], count), k, first, last);
      selection.lists.emplace_back(list.begin(), list.end());
    }
  }
  results.push_back(std::move(selection));
  return success();
}

static LogicalResult evalExport(Evaluator &evaluator, ExportOp op, Operands operands, Results &results) {
  const Cache &cache = operands[0].asCache();
  const Batch &batch = operands[1].asBatch();
  const bool nhd = op.getLayout() == DenseLayout::NHD;
  auto type = cast<RankedTensorType>(op.getResult().getType());
  if (failed(checkBatch(op, batch, nullptr, &cache))) {
    return failure();
  }
  FailureOr<int64_t> slots = extentOf(op, type.getDimSize(nhd ? 1 : 2), cache, batch, Unit::Token);
  if (failed(slots)) {
    return failure();
  }
  const int64_t heads = cache.type.getHeads(), dim = cache.type.getDim(op.getPlane());
  SmallVector<int64_t> shape{batch.entries(), nhd ? *slots : heads, nhd ? heads : *slots, dim};
  if (failed(checkSize(evaluator, op, shape))) {
    return failure();
  }
  Tensor out = Tensor::filled(shape, 0.0);
  for (int64_t entry = 0; entry < batch.entries(); ++entry) {
    for (int64_t head = 0; head < heads; ++head) {
      const Table &table = cache.table(batch.sequences[entry], head);
      for (int64_t slot = 0; slot < table.length(); ++slot) {
        const std::vector<double> &stored = op.getPlane() == Plane::K ? table.slots[slot].key : table.slots[slot].value;
        for (int64_t channel = 0; channel < dim; ++channel) {
          double &to = nhd ? out.at({entry, slot, head, channel}) : out.at({entry, head, slot, channel});
          to = stored[cache.headInTable(head) * dim + channel];
        }
      }
    }
  }
  results.push_back(std::move(out));
  return success();
}

LogicalResult reference::evalAttention(Evaluator &evaluator, Operation *op, Operands operands, Results &results) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](AttentionOp attentionOp) { return ::evalAttention(evaluator, attentionOp, operands, results); })
      .Case([&](OnlineAttentionOp onlineOp) { return evalOnlineAttention(evaluator, onlineOp, operands, results); })
      .Case([&](MergeStatesOp mergeOp) { return evalMergeStates(mergeOp, operands, results); })
      .Case([&](ScoreOp scoreOp) { return evalScore(evaluator, scoreOp, operands, results); })
      .Case([&](PoolOp poolOp) { return evalPool(poolOp, operands, results); })
      .Case([&](TopKOp topKOp) { return evalTopK(topKOp, operands, results); })
      .Case([&](ExportOp exportOp) { return evalExport(evaluator, exportOp, operands, results); })
      .Case([&](SoftCapOp softCapOp) -> LogicalResult {
        const double cap = softCapOp.getCap().convertToFloat();
        results.push_back(cap * std::tanh(operands[0].asFloat() / cap));
        return success();
      })
      .Case([&](AlibiOp alibiOp) -> LogicalResult {
        const double slope =
            std::exp2(-8.0 * static_cast<double>(operands[1].asInt() + 1) / static_cast<double>(alibiOp.getHeads()));
        results.push_back(operands[0].asFloat() -
                          slope * static_cast<double>(operands[2].asInt() - operands[3].asInt()));
        return success();
      })
      .Default([](Operation *other) { return unknownOperation(other); });
}
