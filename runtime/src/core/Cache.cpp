//===- Cache.cpp - The KV cache of one layer ------------------------------===//
//
// Creation, the steps of a plan, and what a user does with sequences.
//
//===----------------------------------------------------------------------===//
#include "core/Cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace kvc::rt {
namespace {

Status invalid(std::string message) { return Status(StatusCode::invalidArgument, std::move(message)); }

/// Counts the blocks that a reservation will take. Blocks that several tables
/// of the batch share are copied for all but the last of them.
class Demand {
public:
  explicit Demand(const BlockPool &pool) : pool(pool) {}

  void addNew() { ++count; }
  void addUnique(int32_t block) {
    uint32_t references = pool.referencesOf(block);
    if (references == 1) {
      return;
    }
    auto [it, isFirst] = remaining.try_emplace(block, references);
    if (it->second > 1) {
      --it->second;
      ++count;
    }
  }

  Status check(const char *what, const std::string &cache) const {
    if (count <= pool.available()) {
      return {};
    }
    return Status(StatusCode::exhausted,
                  fmt::format("the pool of cache '{}' is exhausted: expects {} free {}, but got {} of {}; free or "
                              "truncate sequences, or make the pool larger",
                              cache, count, what, pool.available(), pool.capacity()));
  }

private:
  const BlockPool &pool;
  std::unordered_map<int32_t, uint32_t> remaining;
  int64_t count = 0;
};

} // namespace

Result<std::shared_ptr<Cache>> Cache::create(std::shared_ptr<Device> device, std::shared_ptr<const CacheSpec> spec,
                                             const CacheOptions &options) {
  constexpr int64_t maxSequences = 1 << 20;
  constexpr int64_t maxSlots = std::numeric_limits<int32_t>::max() - 1024;
  if (options.sequences < 0 || options.sequences > maxSequences) {
    return invalid(
        fmt::format("cache '{}': expects 0 to {} sequences, but got {}", spec->name, maxSequences, options.sequences));
  }
  if (options.maxLength < 0 || options.maxLength > maxSlots) {
    return invalid(fmt::format("cache '{}': expects a maximal length of 0 to {} slots, but got {}", spec->name,
                               maxSlots, options.maxLength));
  }
  if (options.pages < 0 || options.tails < 0) {
    return invalid(fmt::format("cache '{}': expects pool sizes that are not negative, but got {} pages and {} tails",
                               spec->name, options.pages, options.tails));
  }
  int64_t tables = int64_t(options.sequences) * spec->tablesPerSequence;
  int64_t columns = (options.maxLength + spec->pageSlots - 1) / int64_t(spec->pageSlots);
  auto pool = std::make_shared<CachePool>();
  int64_t pages = options.pages;
  if (pages == 0 && __builtin_mul_overflow(tables, columns, &pages)) {
    pages = std::numeric_limits<int64_t>::max();
  }
  if (Status status = pool->pages.initialize(device, spec->pageBytes, pages); !status.ok()) {
    return std::move(status).withContext(fmt::format("pages of cache '{}'", spec->name));
  }
  int64_t tails = spec->tailSlots == 0 ? 0 : options.tails == 0 ? tables : options.tails;
  if (Status status = pool->tails.initialize(device, spec->tailBytes, tails); !status.ok()) {
    return std::move(status).withContext(fmt::format("tails of cache '{}'", spec->name));
  }
  std::shared_ptr<Cache> cache(new Cache());
  KVC_RETURN_IF_ERROR(
      cache->initialize(std::move(device), std::move(spec), std::move(pool), options.sequences, options.maxLength));
  return cache;
}

Status Cache::initialize(std::shared_ptr<Device> device, std::shared_ptr<const CacheSpec> spec,
                         std::shared_ptr<CachePool> pool, int32_t sequences, int64_t maxLength) {
  cacheDevice = std::move(device);
  cacheSpec = std::move(spec);
  cachePool = std::move(pool);
  slotsPerTable = maxLength;
  sequenceCount = sequences;
  tableColumns = pagesFor(maxLength);
  uint64_t tableCount = uint64_t(tables());
  auto aligned = [](uint64_t words) { return (words + 15) / 16 * 16; };
  uint64_t tableWords = 0, words = 0;
  if (__builtin_mul_overflow(tableCount, uint64_t(tableColumns), &tableWords) ||
      __builtin_mul_overflow(aligned(tableWords) + 3 * aligned(tableCount), sizeof(int32_t), &words)) {
    return Status(StatusCode::outOfRange, fmt::format("cache '{}': expects page tables that can be addressed, but "
                                                      "got {} tables of {} pages",
                                                      cacheSpec->name, tableCount, tableColumns));
  }
  KVC_ASSIGN_OR_RETURN(memory, Memory::allocate(cacheDevice, words, MemoryKind::shared));
  tableData = memory.as<int32_t>();
  lengthData = tableData + aligned(tableWords);
  sealedData = lengthData + aligned(tableCount);
  tailData = sealedData + aligned(tableCount);
  if (!cacheDevice->isHostMemory()) {
    KVC_ASSIGN_OR_RETURN(deviceMemory, Memory::allocate(cacheDevice, words, MemoryKind::device));
  }
  noteRow(0);
  noteRow(std::max<int64_t>(int64_t(tableCount) - 1, 0));
  noteCounters();
  std::fill_n(tableData, tableWords, -1);
  std::fill_n(lengthData, tableCount, 0);
  std::fill_n(sealedData, tableCount, 0);
  std::fill_n(tailData, tableCount, -1);
  appendedCount.assign(size_t(sequences), 0);
  broken.assign(size_t(sequences), 0);
  return {};
}

Cache::~Cache() {
  // Without tables (creation failed) there is nothing to give back.
  if (!memory) {
    return;
  }
  std::lock_guard lock(cachePool->mutex);
  disposeLocked();
}

void Cache::disposeLocked() {
  for (int64_t sequence = 0; sequence < sequenceCount; ++sequence) {
    clearLocked(sequence);
  }
  memory = Memory();
  deviceMemory = Memory();
}

template <typename Function> void Cache::forEachTable(const Batch &batch, Function function) const {
  int64_t perSequence = cacheSpec->tablesPerSequence;
  for (int32_t entry = 0; entry < batch.entries(); ++entry) {
    for (int64_t head = 0; head < perSequence; ++head) {
      function(batch.sequence(size_t(entry)) * perSequence + head, int64_t(batch.rowsOf(size_t(entry))));
    }
  }
}

Status Cache::checkSequence(int64_t sequence) const {
  if (sequence < 0 || sequence >= sequenceCount) {
    return Status(StatusCode::outOfRange, fmt::format("cache '{}': expects a sequence from 0 to {}, but got {}",
                                                      cacheSpec->name, sequenceCount - 1, sequence));
  }
  return {};
}

Status Cache::checkBatchLocked(const Batch &batch) const {
  if (batch.maxSequence() >= sequenceCount) {
    return checkSequence(batch.maxSequence());
  }
  for (int32_t entry = 0; entry < batch.entries(); ++entry) {
    if (broken[size_t(batch.sequence(size_t(entry)))]) {
      return invalid(fmt::format("cache '{}': sequence {} was left incomplete by a call that failed: free it first",
                                 cacheSpec->name, batch.sequence(size_t(entry))));
    }
  }
  return {};
}

// Kernels write lengths; what they wrote is checked before the host relies on
// it.
Status Cache::checkTable(int64_t table) const {
  int64_t length = lengthData[table], sealed = sealedData[table];
  if (length < 0) {
    // A truncate to what an operand of the call says.
    return Status(StatusCode::outOfRange,
                  fmt::format("cache '{}': expects lengths of at least 0, but got {} for table {}", cacheSpec->name,
                              length, table));
  }
  if (length > slotsPerTable || sealed < 0 || sealed > length || (!hasTail() && sealed != length)) {
    return Status(StatusCode::internal,
                  fmt::format("cache '{}': table {} has length {} and {} sealed slots after a kernel, which do not "
                              "fit {} slots",
                              cacheSpec->name, table, length, sealed, slotsPerTable));
  }
  return {};
}

template <typename Demand>
void Cache::addDemand(int64_t table, int64_t first, int64_t slots, Demand &pages, Demand &tails) const {
  for (int64_t page = first; page < pagesFor(slots); ++page) {
    int32_t physical = row(table)[page];
    physical < 0 ? pages.addNew() : pages.addUnique(physical);
  }
  if (hasTail()) {
    tailData[table] < 0 ? tails.addNew() : tails.addUnique(tailData[table]);
  }
}

Status Cache::ownBlocks(int64_t table, int64_t first, int64_t slots) {
  auto own = [](BlockPool &pool, int32_t &block, auto note) -> Status {
    int32_t owned = block;
    if (block < 0) {
      owned = pool.take();
    } else {
      KVC_ASSIGN_OR_RETURN(owned, pool.makeUnique(block));
    }
    if (owned != block) {
      block = owned;
      note();
    }
    return {};
  };
  for (int64_t page = first; page < pagesFor(slots); ++page) {
    KVC_RETURN_IF_ERROR(own(cachePool->pages, row(table)[page], [&] { noteRow(table); }));
  }
  return hasTail() ? own(cachePool->tails, tailData[table], [&] { noteCounters(); }) : Status();
}

Status Cache::checkAppendLocked(const Batch &batch) const {
  KVC_RETURN_IF_ERROR(checkBatchLocked(batch));
  Demand pages(cachePool->pages), tails(cachePool->tails);
  Status status;
  forEachTable(batch, [&](int64_t table, int64_t rows) {
    if (!status.ok() || rows == 0) {
      return;
    }
    if (status = checkTable(table); !status.ok()) {
      return;
    }
    int64_t length = lengthData[table];
    if (length + rows > slotsPerTable) {
      status = Status(StatusCode::outOfRange,
                      fmt::format("cache '{}': sequence {} expects at most {} slots, but got {} + {} new ones",
                                  cacheSpec->name, table / cacheSpec->tablesPerSequence, slotsPerTable, length, rows));
      return;
    }
    addDemand(table, sealedData[table] / cacheSpec->pageSlots, length + rows, pages, tails);
  });
  KVC_RETURN_IF_ERROR(status);
  KVC_RETURN_IF_ERROR(pages.check("pages", cacheSpec->name));
  return tails.check("tails", cacheSpec->name);
}

Status Cache::reserveAppendLocked(const Batch &batch) {
  KVC_RETURN_IF_ERROR(checkAppendLocked(batch));
  Status status;
  forEachTable(batch, [&](int64_t table, int64_t rows) {
    if (rows > 0 && status.ok()) {
      // Sealing writes from slot `sealed` on, not only from `length` on.
      status = ownBlocks(table, sealedData[table] / cacheSpec->pageSlots, lengthData[table] + rows);
    }
  });
  KVC_RETURN_IF_ERROR(status);
  for (int32_t entry = 0; entry < batch.entries(); ++entry) {
    appendedCount[size_t(batch.sequence(size_t(entry)))] += batch.rowsOf(size_t(entry));
  }
  return {};
}

Status Cache::checkRewriteLocked(const Batch &batch) const {
  KVC_RETURN_IF_ERROR(checkBatchLocked(batch));
  Demand pages(cachePool->pages), tails(cachePool->tails);
  Status status;
  forEachTable(batch, [&](int64_t table, int64_t) {
    if (!status.ok()) {
      return;
    }
    status = checkTable(table);
    for (int64_t page = 0; status.ok() && page < tableColumns && row(table)[page] >= 0; ++page) {
      pages.addUnique(row(table)[page]);
    }
    if (status.ok() && tailData[table] >= 0) {
      tails.addUnique(tailData[table]);
    }
  });
  KVC_RETURN_IF_ERROR(status);
  KVC_RETURN_IF_ERROR(pages.check("pages", cacheSpec->name));
  return tails.check("tails", cacheSpec->name);
}

Status Cache::reserveRewriteLocked(const Batch &batch) {
  KVC_RETURN_IF_ERROR(checkRewriteLocked(batch));
  Status status;
  auto own = [&](BlockPool &pool, int32_t &block) {
    if (Result<int32_t> unique = pool.makeUnique(block); unique.ok()) {
      block = *unique;
    } else {
      status = unique.status();
    }
  };
  forEachTable(batch, [&](int64_t table, int64_t) {
    noteRow(table);
    for (int64_t page = 0; page < tableColumns && row(table)[page] >= 0; ++page) {
      own(cachePool->pages, row(table)[page]);
    }
    if (tailData[table] >= 0) {
      own(cachePool->tails, tailData[table]);
      noteCounters();
    }
  });
  return status;
}

Status Cache::reserveLengthsLocked(const Batch &batch, const std::vector<int64_t> &lengths, int64_t limit) {
  KVC_RETURN_IF_ERROR(checkBatchLocked(batch));
  if (lengths.size() != size_t(batch.entries())) {
    return invalid(fmt::format("cache '{}': expects lengths of {} entries, but got {}", cacheSpec->name,
                               batch.entries(), lengths.size()));
  }
  limit = std::min(limit, slotsPerTable);
  for (int64_t length : lengths) {
    if (length < 0 || length > limit) {
      return Status(StatusCode::outOfRange, fmt::format("cache '{}': expects lengths of 0 to {} slots, but got {}",
                                                        cacheSpec->name, limit, length));
    }
  }
  auto forEach = [&](auto function) {
    for (size_t entry = 0; entry < lengths.size(); ++entry) {
      int64_t first = batch.sequence(entry) * int64_t(cacheSpec->tablesPerSequence);
      for (int64_t table = first; table < first + cacheSpec->tablesPerSequence; ++table) {
        function(table, lengths[entry]);
      }
    }
  };
  Demand pages(cachePool->pages), tails(cachePool->tails);
  forEach([&](int64_t table, int64_t length) { addDemand(table, 0, length, pages, tails); });
  KVC_RETURN_IF_ERROR(pages.check("pages", cacheSpec->name));
  KVC_RETURN_IF_ERROR(tails.check("tails", cacheSpec->name));
  Status status;
  forEach([&](int64_t table, int64_t length) {
    if (status.ok()) {
      status = ownBlocks(table, 0, length);
    }
  });
  KVC_RETURN_IF_ERROR(status);
  for (size_t entry = 0; entry < lengths.size(); ++entry) {
    appendedCount[size_t(batch.sequence(entry))] = lengths[entry];
  }
  return {};
}

Status Cache::releaseLocked(const Batch &batch) {
  KVC_RETURN_IF_ERROR(checkBatchLocked(batch));
  Status status;
  forEachTable(batch, [&](int64_t table, int64_t) {
    if (!status.ok()) {
      return;
    }
    status = checkTable(table);
    for (int64_t page = pagesFor(lengthData[table]); status.ok() && page < tableColumns && row(table)[page] >= 0;
         ++page) {
      cachePool->pages.drop(std::exchange(row(table)[page], -1));
      noteRow(table);
    }
  });
  return status;
}

int64_t Cache::maxLengthLocked(const Batch &batch, bool isAppended) const {
  int64_t longest = 0;
  forEachTable(batch, [&](int64_t table, int64_t rows) {
    longest = std::max(longest, lengthData[table] + (isAppended ? rows : 0));
  });
  return longest;
}

void Cache::markBrokenLocked(const Batch &batch) {
  for (int32_t entry = 0; entry < batch.entries(); ++entry) {
    broken[size_t(batch.sequence(size_t(entry)))] = 1;
  }
}

void Cache::appendWords(std::vector<uint64_t> &words) const {
  auto address = [](const void *pointer) { return uint64_t(reinterpret_cast<uintptr_t>(pointer)); };
  uint64_t tableCount = uint64_t(tables());
  for (uint64_t word : {address(cachePool->pages.data()), cachePool->pages.bytes(),       // pages
                        address(onDevice(tableData)), tableCount, uint64_t(tableColumns), // table
                        address(onDevice(lengthData)), tableCount,                        // lengths
                        address(onDevice(sealedData)), tableCount,                        // sealed
                        address(cachePool->tails.data()), cachePool->tails.bytes(),       // tails
                        address(onDevice(tailData)), tableCount}) {                       // tail_table
    words.push_back(word);
  }
}

Status Cache::uploadLocked() const {
  if (!deviceMemory) {
    return {};
  }
  auto upload = [&](const int32_t *from, uint64_t words) {
    return cacheDevice->enqueueCopyToDevice(onDevice(from), from, words * sizeof(int32_t));
  };
  if (firstChanged <= lastChanged && lastChanged < tables()) {
    KVC_RETURN_IF_ERROR(upload(row(firstChanged), uint64_t((lastChanged - firstChanged + 1) * tableColumns)));
  }
  if (countersChanged) {
    KVC_RETURN_IF_ERROR(upload(lengthData, counterWords()));
  }
  firstChanged = std::numeric_limits<int64_t>::max();
  lastChanged = -1;
  countersChanged = false;
  return {};
}

Status Cache::downloadLocked() const {
  if (!deviceMemory) {
    return {};
  }
  // Lengths and what is sealed: kernels change neither tables nor tails.
  const auto words = uint64_t(tailData - lengthData);
  return cacheDevice->enqueueCopyToHost(lengthData, onDevice(lengthData), words * sizeof(int32_t));
}

Status Cache::forkLocked(int64_t source, int64_t destination) {
  KVC_RETURN_IF_ERROR(checkSequence(source));
  KVC_RETURN_IF_ERROR(checkSequence(destination));
  if (broken[size_t(source)]) {
    return invalid(fmt::format("cache '{}': sequence {} was left incomplete by a call that failed: free it first",
                               cacheSpec->name, source));
  }
  if (source == destination) {
    return {}; // docs/spec/cache-semantics.md: nothing changes
  }
  clearLocked(destination);
  int64_t perSequence = cacheSpec->tablesPerSequence;
  for (int64_t head = 0; head < perSequence; ++head) {
    int64_t from = source * perSequence + head, to = destination * perSequence + head;
    for (int64_t page = 0; page < tableColumns && row(from)[page] >= 0; ++page) {
      row(to)[page] = row(from)[page];
      cachePool->pages.share(row(from)[page]);
    }
    if (tailData[from] >= 0) {
      tailData[to] = tailData[from];
      cachePool->tails.share(tailData[from]);
    }
    lengthData[to] = lengthData[from];
    sealedData[to] = sealedData[from];
    noteRow(to);
    noteCounters();
  }
  appendedCount[size_t(destination)] = appendedCount[size_t(source)];
  return {};
}

Result<std::shared_ptr<Cache>> Cache::cloneLocked() const {
  std::shared_ptr<Cache> copy(new Cache());
  KVC_RETURN_IF_ERROR(copy->initialize(cacheDevice, cacheSpec, cachePool, sequenceCount, slotsPerTable));
  for (int64_t table = 0; table < tables(); ++table) {
    for (int64_t page = 0; page < tableColumns && row(table)[page] >= 0; ++page) {
      copy->row(table)[page] = row(table)[page];
      cachePool->pages.share(row(table)[page]);
    }
    copy->tailData[table] = tailData[table];
    if (tailData[table] >= 0) {
      cachePool->tails.share(tailData[table]);
    }
    copy->lengthData[table] = lengthData[table];
    copy->sealedData[table] = sealedData[table];
  }
  copy->appendedCount = appendedCount;
  copy->broken = broken;
  return copy;
}

Result<std::shared_ptr<Cache>> Cache::createLikeLocked(std::shared_ptr<const CacheSpec> spec,
                                                       const Batch &batch) const {
  KVC_RETURN_IF_ERROR(checkBatchLocked(batch));
  CacheOptions options;
  options.sequences = sequenceCount;
  options.maxLength = slotsPerTable;
  KVC_ASSIGN_OR_RETURN(std::shared_ptr<Cache> cache, create(cacheDevice, std::move(spec), options));
  Status status;
  forEachTable(batch, [&](int64_t table, int64_t) {
    if (status.ok() && (status = checkTable(table)).ok() && lengthData[table] > 0) {
      status = cache->ownBlocks(table, 0, lengthData[table]);
    }
  });
  KVC_RETURN_IF_ERROR(status);
  for (int32_t entry = 0; entry < batch.entries(); ++entry) {
    size_t sequence = size_t(batch.sequence(size_t(entry)));
    cache->appendedCount[sequence] = appendedCount[sequence];
  }
  return cache;
}

void Cache::truncateLocked(int64_t sequence, int64_t length) {
  int64_t perSequence = cacheSpec->tablesPerSequence;
  int64_t longest = longestLocked(sequence);
  for (int64_t table = sequence * perSequence; table < (sequence + 1) * perSequence; ++table) {
    noteRow(table);
    noteCounters();
    if (lengthData[table] > length) {
      lengthData[table] = int32_t(length);
      sealedData[table] = std::min(sealedData[table], int32_t(length));
    }
    for (int64_t page = pagesFor(lengthData[table]); page < tableColumns && row(table)[page] >= 0; ++page) {
      cachePool->pages.drop(std::exchange(row(table)[page], -1));
    }
    if (lengthData[table] == 0 && tailData[table] >= 0) {
      cachePool->tails.drop(std::exchange(tailData[table], -1));
    }
  }
  appendedCount[size_t(sequence)] -= std::max<int64_t>(longest - length, 0);
}

void Cache::clearLocked(int64_t sequence) {
  // Does not read lengths: a kernel that failed may have left any number.
  int64_t perSequence = cacheSpec->tablesPerSequence;
  for (int64_t table = sequence * perSequence; table < (sequence + 1) * perSequence; ++table) {
    noteRow(table);
    noteCounters();
    for (int64_t page = 0; page < tableColumns && row(table)[page] >= 0; ++page) {
      cachePool->pages.drop(std::exchange(row(table)[page], -1));
    }
    if (tailData[table] >= 0) {
      cachePool->tails.drop(std::exchange(tailData[table], -1));
    }
    lengthData[table] = sealedData[table] = 0;
  }
  appendedCount[size_t(sequence)] = 0;
  broken[size_t(sequence)] = 0;
}

Status Cache::checkTruncateLocked(int64_t sequence, int64_t length) const {
  KVC_RETURN_IF_ERROR(checkSequence(sequence));
  if (length < 0) {
    return invalid(
        fmt::format("cache '{}': expects a length that is not negative, but got {}", cacheSpec->name, length));
  }
  if (broken[size_t(sequence)]) {
    return invalid(fmt::format("cache '{}': sequence {} was left incomplete by a call that failed: free it first",
                               cacheSpec->name, sequence));
  }
  int64_t perSequence = cacheSpec->tablesPerSequence;
  for (int64_t table = sequence * perSequence; table < (sequence + 1) * perSequence; ++table) {
    if (hasTail() && length > 0 && length < sealedData[table]) {
      return Status(StatusCode::unsupported,
                    fmt::format("cache '{}': expects to keep the {} sealed slots of sequence {}, but got length {}: "
                                "sealed slots cannot be opened again",
                                cacheSpec->name, sealedData[table], sequence, length));
    }
  }
  return {};
}

} // namespace kvc::rt
