//===- CacheOps.cpp - Operations that write caches, in the oracle ---------===//
//
// Docs: the descriptions of the operations, docs/spec/formats.md (what is stored, when groups are sealed) and
// docs/spec/cache-semantics.md (rings, planes, what stays).
//
//===----------------------------------------------------------------------===//
#include "Internal.h"
#include "kvc/Reference/Formats.h"

#include "llvm/ADT/TypeSwitch.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;
using namespace kvc::reference;

//===----------------------------------------------------------------------===//
// Rotation
//===----------------------------------------------------------------------===//

void reference::rotate(RopeAttr rope, MutableArrayRef<double> x, double position) {
  const int64_t dims = rope.getDims();
  const double base = rope.getBase().getValueAsDouble();
  const bool readsNeighbours = rope.getPairing() != Pairing::Half;
  const bool writesNeighbours = rope.getPairing() == Pairing::Adjacent;
  const SmallVector<double> before(x.begin(), x.end());
  for (int64_t i = 0; i < dims / 2; ++i) {
    const double a = before[readsNeighbours ? 2 * i : i];
    const double b = before[readsNeighbours ? 2 * i + 1 : i + dims / 2];
    const double angle = position * std::pow(base, -2.0 * i / dims);
    const double c = std::cos(angle), s = std::sin(angle);
    x[writesNeighbours ? 2 * i : i] = a * c - b * s;
    x[writesNeighbours ? 2 * i + 1 : i + dims / 2] = a * s + b * c;
  }
}

SmallVector<double> reference::loadKey(const Cache &cache, const Table &table, int64_t slot, int64_t headInTable) {
  const int64_t dim = cache.type.getKDim();
  const Slot &stored = table.slots[slot];
  SmallVector<double> key(ArrayRef<double>(stored.key).slice(headInTable * dim, dim));
  if (RopeAttr rope = cache.type.getRope()) {
    rotate(rope, key, stored.position);
  }
  return key;
}

static LogicalResult evalRope(RopeOp op, Operands operands, Results &results) {
  Tensor out = operands[0].asTensor();
  const Batch &batch = operands[1].asBatch();
  if (failed(checkBatch(op, batch, &out, nullptr))) {
    return failure();
  }
  const int64_t heads = out.shape[1], channels = out.shape[2];
  for (int64_t row = 0; row < batch.rows(); ++row) {
    for (int64_t head = 0; head < heads; ++head) {
      rotate(op.getRope(), MutableArrayRef(out.floats).slice((row * heads + head) * channels, channels),
             batch.positions[row]);
    }
  }
  results.push_back(std::move(out));
  return success();
}

//===----------------------------------------------------------------------===//
// Parts of writing
//===----------------------------------------------------------------------===//

/// Computes the summary of a page from the keys that are read back.
static void recomputeSummary(const Cache &cache, Table &table, int64_t page) {
  if (!cache.type.getMinmaxPlane()) {
    return;
  }
  const int64_t begin = page * cache.type.getPage(), end = std::min(begin + cache.type.getPage(), table.length());
  const size_t size = cache.headsPerTable() * cache.type.getKDim();
  // fmin and fmax take the number where the other is NaN.
  const std::vector<double> none(size, std::numeric_limits<double>::quiet_NaN());
  PageSummary summary{none, none};
  for (int64_t slot = begin; slot < end; ++slot) {
    for (size_t i = 0; i < size; ++i) {
      summary.low[i] = std::fmin(summary.low[i], table.slots[slot].key[i]);
      summary.high[i] = std::fmax(summary.high[i], table.slots[slot].key[i]);
    }
  }
  table.pages.resize(cache.pagesOf(table.length()));
  table.pages[page] = std::move(summary);
}

static void recomputeSummaries(const Cache &cache, Table &table) {
  table.pages.clear();
  for (int64_t page = 0; page < cache.pagesOf(table.length()); ++page) {
    recomputeSummary(cache, table, page);
  }
}

/// Widens the summary of a page by one key as given.
static void widenSummary(const Cache &cache, Table &table, int64_t slot, ArrayRef<double> key) {
  if (!cache.type.getMinmaxPlane()) {
    return;
  }
  const int64_t page = slot / cache.type.getPage();
  if (page == static_cast<int64_t>(table.pages.size())) {
    table.pages.push_back({std::vector<double>(key.begin(), key.end()), std::vector<double>(key.begin(), key.end())});
    return;
  }
  for (auto [low, high, x] : llvm::zip_equal(table.pages[page].low, table.pages[page].high, key)) {
    low = std::fmin(low, x);
    high = std::fmax(high, x);
  }
}

/// Seals up to slot `target`, a multiple of the seal group.
static void sealTo(const Cache &cache, Table &table, int64_t target) {
  if (target > table.sealed) {
    storeSlots(cache.type, table, table.sealed, target);
    table.sealed = target;
  }
}

/// Seals what is older than the residual window, after slots were added.
static void sealOld(const Cache &cache, Table &table) {
  const int64_t group = cache.type.getSealGroup();
  const int64_t old = std::max<int64_t>(table.length() - cache.type.getResidual(), 0);
  sealTo(cache, table, old / group * group);
}

/// What the tail keeps of a vector; without a tail it is stored at once in the cache's formats.
static void roundToTail(CacheType type, MutableArrayRef<double> x) {
  for (double &value : x) {
    value = type.hasTail() ? roundTo(type.getTail(), value) : static_cast<float>(value);
  }
}

/// A slot that was just written: planes at their start values.
static Slot makeSlot(const Cache &cache, int64_t position, ArrayRef<double> key, ArrayRef<double> value) {
  const int64_t heads = cache.headsPerTable(), dim = cache.type.getKDim();
  Slot slot{position, {key.begin(), key.end()}, {value.begin(), value.end()}, {}, {}};
  slot.score.assign(heads, 0.0);
  for (int64_t head = 0; head < heads; ++head) {
    double squares = 0;
    for (double x : key.slice(head * dim, dim)) {
      squares += x * x;
    }
    slot.norm.push_back(std::sqrt(squares));
  }
  roundToTail(cache.type, slot.key);
  roundToTail(cache.type, slot.value);
  return slot;
}

/// The slot of a ring that holds the token at that position.
static int64_t ringSlot(CacheType type, int64_t position) {
  return position < type.getSinks() ? position : type.getSinks() + (position - type.getSinks()) % type.getWindow();
}

/// Writes one row to a table, without sealing.
static LogicalResult writeRow(Operation *op, const Cache &cache, Table &table, int64_t position, ArrayRef<double> key,
                              ArrayRef<double> value) {
  int64_t index = table.length();
  if (cache.type.isRing()) {
    index = ringSlot(cache.type, position);
    if (index > table.length()) {
      return op->emitOpError() << "expects rows of a ring in the order of their positions, but got position "
                               << position << " after " << table.length() << " slots";
    }
  }
  if (index >= cache.capacity) {
    return op->emitOpError() << "expects at most " << cache.capacity << " slots, the capacity of a table, but got more";
  }
  Slot slot = makeSlot(cache, cache.type.getStoredPositions() ? position : index, key, value);
  if (index == table.length()) {
    table.slots.push_back(std::move(slot));
    widenSummary(cache, table, index, key);
  } else {
    table.slots[index] = std::move(slot);
    widenSummary(cache, table, index, key);
  }
  if (!cache.type.hasTail()) {
    // A cache without a tail stores each slot as it comes.
    storeSlots(cache.type, table, index, index + 1);
    table.sealed = table.length();
  }
  return success();
}

/// The channels of the heads that a table holds, of one row of a rows x heads x channels tensor.
static ArrayRef<double> rowOf(const Tensor &tensor, int64_t row, int64_t head, int64_t heads) {
  const int64_t channels = tensor.shape[2];
  return ArrayRef(tensor.floats).slice((row * tensor.shape[1] + head) * channels, heads * channels);
}

//===----------------------------------------------------------------------===//
// append, import
//===----------------------------------------------------------------------===//

/// Calls `body(entry, table, first head)` for every table of the batch's sequences.
template <typename Body> static LogicalResult forEachTable(Cache &cache, const Batch &batch, Body &&body) {
  for (int64_t entry = 0; entry < batch.entries(); ++entry) {
    for (int64_t head = 0; head < cache.type.getTablesPerSequence(); ++head) {
      if (failed(body(entry, cache.table(batch.sequences[entry], head), head))) {
        return failure();
      }
    }
  }
  return success();
}

static LogicalResult evalAppend(AppendOp op, Operands operands, Results &results) {
  Cache cache = operands[0].asCache();
  Tensor keys = operands[1].asTensor();
  const Tensor &values = operands[2].asTensor();
  const Batch &batch = operands[3].asBatch();
  if (failed(checkBatch(op, batch, &keys, &cache)) || failed(checkBatch(op, batch, &values, nullptr))) {
    return failure();
  }
  if (RopeAttr rope = op.getRopeAttr()) {
    const int64_t heads = keys.shape[1], channels = keys.shape[2];
    for (int64_t i = 0; i < batch.rows() * heads; ++i) {
      rotate(rope, MutableArrayRef(keys.floats).slice(i * channels, channels), batch.positions[i / heads]);
    }
  }
  LogicalResult written = forEachTable(cache, batch, [&](int64_t entry, Table &table, int64_t head) -> LogicalResult {
    for (int64_t row = batch.queryOffsets[entry]; row < batch.queryOffsets[entry + 1]; ++row) {
      if (failed(writeRow(op, cache, table, batch.positions[row], rowOf(keys, row, head, cache.headsPerTable()),
                          rowOf(values, row, head, cache.headsPerTable())))) {
        return failure();
      }
    }
    sealOld(cache, table);
    return success();
  });
  results.push_back(std::move(cache));
  return written;
}

static LogicalResult evalImport(ImportOp op, Operands operands, Results &results) {
  Cache cache = operands[0].asCache();
  const Tensor &keys = operands[1].asTensor(), &values = operands[2].asTensor(), &lengths = operands[3].asTensor();
  const Batch &batch = operands[4].asBatch();
  if (failed(checkBatch(op, batch, nullptr, &cache))) {
    return failure();
  }
  const bool nhd = op.getLayout() == DenseLayout::NHD;
  const int64_t slots = std::min(keys.shape[nhd ? 1 : 2], values.shape[nhd ? 1 : 2]);
  for (auto [name, extent] : {std::pair<StringRef, int64_t>{"key", keys.shape[0]},
                              {"value", values.shape[0]},
                              {"lengths", lengths.shape[0]}}) {
    if (extent != batch.entries()) {
      return op.emitOpError() << "expects " << name << " of " << batch.entries() << " entries, but got " << extent;
    }
  }
  auto vectorOf = [&](const Tensor &tensor, int64_t entry, int64_t slot, int64_t head) {
    SmallVector<double> x;
    for (int64_t h = head; h < head + cache.headsPerTable(); ++h) {
      int64_t offset = nhd ? tensor.offset({entry, slot, h, 0}) : tensor.offset({entry, h, slot, 0});
      llvm::append_range(x, ArrayRef(tensor.floats).slice(offset, tensor.shape[3]));
    }
    return x;
  };
  LogicalResult written = forEachTable(cache, batch, [&](int64_t entry, Table &table, int64_t head) -> LogicalResult {
    const int64_t length = lengths.ints[entry];
    if (length < 0 || length > slots) {
      return op.emitOpError() << "expects lengths of 0 to the " << slots << " slots given, but got " << length;
    }
    table = Table();
    for (int64_t slot = 0; slot < length; ++slot) {
      if (failed(writeRow(op, cache, table, slot, vectorOf(keys, entry, slot, head),
                          vectorOf(values, entry, slot, head)))) {
        return failure();
      }
    }
    sealOld(cache, table);
    return success();
  });
  results.push_back(std::move(cache));
  return written;
}

//===----------------------------------------------------------------------===//
// Moving and dropping slots
//===----------------------------------------------------------------------===//

/// Keeps the slots of an ascending list. What is stored moves as it is.
static void keepSlots(const Cache &cache, Table &table, ArrayRef<int64_t> keep) {
  std::vector<Slot> slots;
  int64_t sealed = 0;
  for (int64_t slot : keep) {
    slots.push_back(std::move(table.slots[slot]));
    sealed += slot < table.sealed;
  }
  table.slots = std::move(slots);
  table.sealed = sealed;
  recomputeSummaries(cache, table);
}

static LogicalResult evalCompact(CompactOp op, Operands operands, Results &results) {
  Cache cache = operands[0].asCache();
  const Selection &selection = operands[1].asSelection();
  const Batch &batch = operands[2].asBatch();
  if (failed(checkBatch(op, batch, nullptr, &cache)) || failed(checkSelection(op, selection, batch, cache))) {
    return failure();
  }
  LogicalResult moved = forEachTable(cache, batch, [&](int64_t entry, Table &table, int64_t head) -> LogicalResult {
    keepSlots(cache, table, selection.lists[entry * selection.heads + head]);
    return success();
  });
  results.push_back(std::move(cache));
  return moved;
}

static LogicalResult evalEvict(EvictOp op, Operands operands, Results &results) {
  Cache cache = operands[0].asCache();
  const Tensor &scores = operands[1].asTensor();
  const Batch &batch = operands[2].asBatch();
  if (failed(checkBatch(op, batch, nullptr, &cache)) || failed(checkScores(op, scores, batch, cache, Unit::Token))) {
    return failure();
  }
  const int64_t budget = getInt(op.getBudget()), first = getInt(op.getFirst()), last = getInt(op.getLast());
  LogicalResult dropped = forEachTable(cache, batch, [&](int64_t entry, Table &table, int64_t head) -> LogicalResult {
    if (table.length() > budget) {
      ArrayRef<double> row =
          ArrayRef(scores.floats).slice((entry * scores.shape[1] + head) * scores.shape[2], table.length());
      keepSlots(cache, table, highest(row, budget, first, last));
    }
    return success();
  });
  results.push_back(std::move(cache));
  return dropped;
}

/// The cosine of the angle between two vectors; 0 when one of them is 0.
static double cosine(ArrayRef<double> a, ArrayRef<double> b) {
  double product = 0, squaresA = 0, squaresB = 0;
  for (auto [x, y] : llvm::zip_equal(a, b)) {
    product += x * y;
    squaresA += x * x;
    squaresB += y * y;
  }
  return squaresA == 0 || squaresB == 0 ? 0 : product / std::sqrt(squaresA * squaresB);
}

/// Replaces the kept slots of one table (that of one KV head) by weighted means of themselves and the others.
static LogicalResult mergeIntoKept(MergeSlotsOp op, const Cache &cache, Table &table, ArrayRef<int64_t> keep,
                                   ArrayRef<double> weights) {
  const double least = getFloatOr(op.getMinSimilarityAttr(), -1);
  // The slots that a kept one is the mean of, itself first.
  std::vector<SmallVector<int64_t>> members(keep.size());
  for (auto [into, slot] : llvm::enumerate(keep)) {
    members[into].push_back(slot);
  }
  for (int64_t slot = 0; slot < table.length(); ++slot) {
    if (llvm::is_contained(keep, slot)) {
      continue;
    }
    std::optional<size_t> best;
    double top = -std::numeric_limits<double>::infinity();
    for (auto [into, kept] : llvm::enumerate(keep)) {
      const double similarity = cosine(table.slots[slot].key, table.slots[kept].key);
      if (similarity >= least && similarity > top) {
        best = into;
        top = similarity;
      }
    }
    if (best) {
      members[*best].push_back(slot);
    }
  }
  const std::vector<Slot> before = table.slots;
  for (auto [into, kept] : llvm::enumerate(keep)) {
    if (members[into].size() == 1) {
      continue;
    }
    double total = 0;
    for (int64_t member : members[into]) {
      if (!(weights[member] >= 0)) {
        return op.emitOpError() << "expects weights of at least 0, but got " << weights[member] << " for slot "
                                << member;
      }
      total += weights[member];
    }
    if (total == 0) {
      return op.emitOpError() << "expects weights above 0 among slots that are merged, but got none for slot " << kept;
    }
    Slot &slot = table.slots[kept];
    for (auto field : {&Slot::key, &Slot::value}) {
      for (size_t c = 0; c < (slot.*field).size(); ++c) {
        double sum = 0;
        for (int64_t member : members[into]) {
          sum += weights[member] * (before[member].*field)[c];
        }
        (slot.*field)[c] = sum / total;
      }
    }
    double squares = 0, score = 0;
    for (double x : slot.key) {
      squares += x * x;
    }
    for (int64_t member : members[into]) {
      score += before[member].score[0];
    }
    slot.norm[0] = std::sqrt(squares);
    slot.score[0] = score;
    roundToTail(cache.type, slot.key);
    roundToTail(cache.type, slot.value);
    if (kept < table.sealed) {
      storeSlots(cache.type, table, kept, kept + 1);
    }
  }
  return success();
}

static LogicalResult evalMergeSlots(MergeSlotsOp op, Operands operands, Results &results) {
  Cache cache = operands[0].asCache();
  const Selection &selection = operands[1].asSelection();
  const Tensor &weights = operands[2].asTensor();
  const Batch &batch = operands[3].asBatch();
  if (failed(checkBatch(op, batch, nullptr, &cache)) || failed(checkSelection(op, selection, batch, cache)) ||
      failed(checkScores(op, weights, batch, cache, Unit::Token))) {
    return failure();
  }
  LogicalResult merged = forEachTable(cache, batch, [&](int64_t entry, Table &table, int64_t head) -> LogicalResult {
    ArrayRef<int64_t> keep = selection.lists[entry * selection.heads + head];
    ArrayRef<double> row =
        ArrayRef(weights.floats).slice((entry * weights.shape[1] + head) * weights.shape[2], table.length());
    if (failed(mergeIntoKept(op, cache, table, keep, row))) {
      return failure();
    }
    keepSlots(cache, table, keep);
    return success();
  });
  results.push_back(std::move(cache));
  return merged;
}

static LogicalResult evalCommit(CommitOp op, Operands operands, Results &results) {
  Cache cache = operands[0].asCache();
  const Tensor &accepted = operands[1].asTensor();
  const Batch &batch = operands[2].asBatch();
  if (failed(checkBatch(op, batch, nullptr, &cache))) {
    return failure();
  }
  if (accepted.shape[0] != batch.rows()) {
    return op.emitOpError() << "expects accepted of the " << batch.rows() << " rows of the batch, but got "
                            << accepted.shape[0];
  }
  LogicalResult kept = forEachTable(cache, batch, [&](int64_t entry, Table &table, int64_t) -> LogicalResult {
    const int64_t rows = batch.rowsOf(entry), old = table.length() - rows, group = cache.type.getSealGroup();
    if (old < 0) {
      return op.emitOpError() << "expects a slot for each of the " << rows << " rows of an entry, but got a table of "
                              << table.length();
    }
    SmallVector<int64_t> keep = llvm::to_vector(llvm::seq<int64_t>(0, old));
    for (int64_t row = 0; row < rows; ++row) {
      if (accepted.ints[batch.queryOffsets[entry] + row]) {
        keep.push_back(old + row);
      }
    }
    if (static_cast<int64_t>(keep.size()) == table.length()) {
      return success();
    }
    if (group > 1 && table.sealed > old) {
      // A sealed group that loses slots goes back to the tail with the values it decodes to.
      const int64_t sealed = old / group * group;
      for (int64_t slot = sealed; slot < table.sealed; ++slot) {
        roundToTail(cache.type, table.slots[slot].key);
        roundToTail(cache.type, table.slots[slot].value);
      }
      table.sealed = sealed;
    }
    keepSlots(cache, table, keep);
    if (!cache.type.getStoredPositions()) {
      for (int64_t slot = old; slot < table.length(); ++slot) {
        table.slots[slot].position = slot;
      }
    }
    return success();
  });
  results.push_back(std::move(cache));
  return kept;
}

static LogicalResult evalFetch(FetchOp op, Operands operands, Results &results) {
  const Cache &cache = operands[0].asCache();
  const Selection &selection = operands[1].asSelection();
  const Batch &batch = operands[2].asBatch();
  if (failed(checkBatch(op, batch, nullptr, &cache)) || failed(checkSelection(op, selection, batch, cache))) {
    return failure();
  }
  results.push_back(operands[0]); // where pages lie is no part of a cache's value
  return success();
}

static LogicalResult evalTruncate(TruncateOp op, Operands operands, Results &results) {
  Cache cache = operands[0].asCache();
  const Tensor &lengths = operands[1].asTensor();
  const Batch &batch = operands[2].asBatch();
  if (failed(checkBatch(op, batch, nullptr, &cache))) {
    return failure();
  }
  if (lengths.shape[0] != batch.entries()) {
    return op.emitOpError() << "expects lengths of " << batch.entries() << " entries, but got " << lengths.shape[0];
  }
  LogicalResult cut = forEachTable(cache, batch, [&](int64_t entry, Table &table, int64_t) -> LogicalResult {
    const int64_t length = lengths.ints[entry], group = cache.type.getSealGroup();
    if (length < 0) {
      return op.emitOpError() << "expects lengths of at least 0, but got " << length;
    }
    if (length >= table.length()) {
      return success();
    }
    table.slots.resize(length);
    if (table.sealed > length) {
      // The cut group goes back to the tail with the values it decodes to.
      table.sealed = length / group * group;
      for (int64_t slot = table.sealed; slot < length; ++slot) {
        roundToTail(cache.type, table.slots[slot].key);
        roundToTail(cache.type, table.slots[slot].value);
      }
    }
    table.pages.resize(std::min<size_t>(table.pages.size(), cache.pagesOf(length)));
    if (length % cache.type.getPage()) {
      recomputeSummary(cache, table, length / cache.type.getPage());
    }
    return success();
  });
  results.push_back(std::move(cache));
  return cut;
}

static LogicalResult evalRebase(RebaseOp op, Operands operands, Results &results) {
  Cache cache = operands[0].asCache();
  const Batch &batch = operands[1].asBatch();
  if (failed(checkBatch(op, batch, nullptr, &cache))) {
    return failure();
  }
  LogicalResult moved = forEachTable(cache, batch, [&](int64_t, Table &table, int64_t) -> LogicalResult {
    bool changed = false;
    for (int64_t index = 0; index < table.length(); ++index) {
      Slot &slot = table.slots[index];
      if (slot.position == index) {
        continue;
      }
      const int64_t dim = cache.type.getKDim();
      for (int64_t head = 0; head < cache.headsPerTable(); ++head) {
        rotate(op.getRope(), MutableArrayRef(slot.key).slice(head * dim, dim), index - slot.position);
      }
      slot.position = index;
      roundToTail(cache.type, slot.key);
      if (index < table.sealed) {
        storeKeys(cache.type, table, index, index + 1);
      }
      changed = true;
    }
    if (changed) {
      recomputeSummaries(cache, table);
    }
    return success();
  });
  results.push_back(std::move(cache));
  return moved;
}

//===----------------------------------------------------------------------===//
// The score plane, sealing, formats, sequences
//===----------------------------------------------------------------------===//

static LogicalResult evalAccumulate(AccumulateOp op, Operands operands, Results &results) {
  Cache cache = operands[0].asCache();
  const Tensor &stats = operands[1].asTensor();
  const Batch &batch = operands[2].asBatch();
  if (failed(checkBatch(op, batch, nullptr, &cache)) || failed(checkScores(op, stats, batch, cache, Unit::Token))) {
    return failure();
  }
  const double decay = getFloatOr(op.getDecayAttr(), 1);
  for (int64_t entry = 0; entry < batch.entries(); ++entry) {
    for (int64_t head = 0; head < cache.type.getHeads(); ++head) {
      Table &table = cache.table(batch.sequences[entry], head);
      for (int64_t slot = 0; slot < table.length(); ++slot) {
        double &score = table.slots[slot].score[cache.headInTable(head)];
        const double x = stats.at({entry, head, slot});
        switch (op.getUpdate()) {
        case Update::Add:
          score += x;
          break;
        case Update::Decay:
          score = decay * score + x;
          break;
        case Update::Max:
          score = std::max(score, x);
          break;
        case Update::Replace:
          score = x;
          break;
        }
      }
    }
  }
  results.push_back(std::move(cache));
  return success();
}

static LogicalResult evalSeal(SealOp op, Operands operands, Results &results) {
  Cache cache = operands[0].asCache();
  const Batch &batch = operands[1].asBatch();
  if (failed(checkBatch(op, batch, nullptr, &cache))) {
    return failure();
  }
  const int64_t group = cache.type.getSealGroup();
  LogicalResult sealed = forEachTable(cache, batch, [&](int64_t, Table &table, int64_t) -> LogicalResult {
    sealTo(cache, table, table.length() / group * group);
    return success();
  });
  results.push_back(std::move(cache));
  return sealed;
}

static LogicalResult evalRequantize(RequantizeOp op, Operands operands, Results &results) {
  const Cache &source = operands[0].asCache();
  const Batch &batch = operands[1].asBatch();
  if (failed(checkBatch(op, batch, nullptr, &source))) {
    return failure();
  }
  auto type = cast<CacheType>(op.getResult().getType());
  // The new cache holds as many whole pages as are needed for the old capacity.
  Cache cache = Cache::empty(type, source.sequences(), 0);
  cache.capacity = cache.pagesOf(source.capacity) * type.getPage();
  LogicalResult stored = forEachTable(cache, batch, [&](int64_t entry, Table &table, int64_t head) -> LogicalResult {
    for (const Slot &old : source.table(batch.sequences[entry], head).slots) {
      if (failed(writeRow(op, cache, table, old.position, old.key, old.value))) {
        return failure();
      }
      Slot &slot = table.slots.back();
      slot.position = old.position;
      if (source.type.getScorePlane()) {
        slot.score = old.score;
      }
      if (source.type.getNormPlane()) {
        slot.norm = old.norm;
      }
    }
    sealOld(cache, table);
    return success();
  });
  results.push_back(std::move(cache));
  return stored;
}

static LogicalResult evalFork(ForkOp op, Operands operands, Results &results) {
  Cache cache = operands[0].asCache();
  const int64_t source = operands[1].asInt(), destination = operands[2].asInt();
  for (int64_t sequence : {source, destination}) {
    if (sequence < 0 || sequence >= cache.sequences()) {
      return op.emitOpError() << "expects sequences of 0 to below " << cache.sequences() << ", but got " << sequence;
    }
  }
  for (int64_t head = 0; head < cache.type.getTablesPerSequence(); ++head) {
    cache.table(destination, head) = cache.table(source, head);
  }
  results.push_back(std::move(cache));
  return success();
}

static LogicalResult evalMaxLength(BatchMaxLengthOp op, Operands operands, Results &results) {
  const Cache &cache = operands[0].asCache();
  const Batch &batch = operands[1].asBatch();
  if (failed(checkBatch(op, batch, nullptr, &cache))) {
    return failure();
  }
  int64_t length = 0;
  for (int64_t sequence : batch.sequences) {
    for (int64_t head = 0; head < cache.type.getTablesPerSequence(); ++head) {
      length = std::max(length, cache.table(sequence, head).length());
    }
  }
  results.push_back(length);
  return success();
}

static LogicalResult evalWeight(Evaluator &evaluator, WeightOp op, Results &results) {
  if (!evaluator.getOptions().weights) {
    return op.emitOpError() << "expects a model file with weight \"" << op.getName() << "\", but got none";
  }
  FailureOr<Datum> weight = evaluator.getOptions().weights(op);
  if (failed(weight)) {
    return failure();
  }
  results.push_back(std::move(*weight));
  return success();
}

LogicalResult reference::evalCache(Evaluator &evaluator, Operation *op, Operands operands, Results &results) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](WeightOp weightOp) { return evalWeight(evaluator, weightOp, results); })
      .Case([&](AttendOp) -> LogicalResult {
        return op->emitOpError() << "expects a method to be spliced in before it runs, but got an attention site";
      })
      .Case([&](RopeOp ropeOp) { return evalRope(ropeOp, operands, results); })
      .Case([&](AppendOp appendOp) { return evalAppend(appendOp, operands, results); })
      .Case([&](ImportOp importOp) { return evalImport(importOp, operands, results); })
      .Case([&](CompactOp compactOp) { return evalCompact(compactOp, operands, results); })
      .Case([&](EvictOp evictOp) { return evalEvict(evictOp, operands, results); })
      .Case([&](MergeSlotsOp mergeOp) { return evalMergeSlots(mergeOp, operands, results); })
      .Case([&](CommitOp commitOp) { return evalCommit(commitOp, operands, results); })
      .Case([&](FetchOp fetchOp) { return evalFetch(fetchOp, operands, results); })
      .Case([&](TruncateOp truncateOp) { return evalTruncate(truncateOp, operands, results); })
      .Case([&](RebaseOp rebaseOp) { return evalRebase(rebaseOp, operands, results); })
      .Case([&](AccumulateOp accumulateOp) { return evalAccumulate(accumulateOp, operands, results); })
      .Case([&](SealOp sealOp) { return evalSeal(sealOp, operands, results); })
      .Case([&](RequantizeOp requantizeOp) { return evalRequantize(requantizeOp, operands, results); })
      .Case([&](ForkOp forkOp) { return evalFork(forkOp, operands, results); })
      .Case([&](CopyOp) {
        results.push_back(operands[0]);
        return success();
      })
      .Case([&](BatchEntriesOp) {
        results.push_back(operands[0].asBatch().entries());
        return success();
      })
      .Case([&](BatchMaxLengthOp maxLengthOp) { return evalMaxLength(maxLengthOp, operands, results); })
      .Default([](Operation *other) { return unknownOperation(other); });
}
