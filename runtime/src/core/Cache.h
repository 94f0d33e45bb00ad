//===- Cache.h - The KV cache of one layer ----------------------*- C++ -*-===//
//
// Tables, lengths and pages of section 2 of docs/contracts/kernel-abi.md, for
// every sequence of a batch, and the host's side of the steps of section 4.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_CORE_CACHE_H
#define KVC_CORE_CACHE_H

#include "core/Batch.h"
#include "core/PagePool.h"

#include <algorithm>
#include <limits>

namespace kvc::rt {

/// A cache spec of an artifact with the layout of the chosen target.
struct CacheSpec {
  std::string name;
  std::string type; ///< IR text
  uint32_t kvHeads = 1;
  uint32_t tablesPerSequence = 1;
  uint32_t pageSlots = 1;
  uint32_t tailSlots = 0;
  uint32_t residual = 0;
  uint32_t sealGroup = 0;
  std::string truncateFunction;
  uint64_t pageBytes = 0;
  double pagePayloadBytes = 0;
  uint64_t tailBytes = 0;
  double tailSlotPayloadBytes = 0;
};

struct CacheOptions {
  int32_t sequences = 1;
  int64_t maxLength = 0; ///< slots per table
  int64_t pages = 0;     ///< of the pool; 0 = every table can be full
  int64_t tails = 0;     ///< of the pool; 0 = one per table
};

struct CacheStatistics {
  int64_t pagesUsed = 0, pagesCapacity = 0;
  int64_t tailsUsed = 0, tailsCapacity = 0;
  int64_t slotsUsed = 0;       ///< over all tables, shared slots counted each time, incomplete sequences not
  double bytesUsed = 0;        ///< slots in pages and tails with scales, shared ones once, and tables; no padding
  uint64_t bytesAllocated = 0; ///< pages and tails in use as they lie in the pools, and all tables
};

/// Every method but the constants takes the lock of the pool, except those
/// named `...Locked`, whose caller holds it (see `lock`).
class Cache {
public:
  static Result<std::shared_ptr<Cache>> create(std::shared_ptr<Device> device, std::shared_ptr<const CacheSpec> spec,
                                               const CacheOptions &options);
  ~Cache();

  const CacheSpec &spec() const { return *cacheSpec; }
  std::shared_ptr<Device> device() const { return cacheDevice; }
  int32_t sequences() const { return sequenceCount; }
  int64_t tables() const { return int64_t(sequenceCount) * cacheSpec->tablesPerSequence; }
  int64_t maxPages() const { return tableColumns; }
  int64_t maxLength() const { return slotsPerTable; }
  CachePool &pool() const { return *cachePool; }

  // The steps of a plan. `Locked`: the caller holds pool().mutex.

  /// What the reservations would fail with, without changing anything.
  Status checkAppendLocked(const Batch &batch) const;
  Status checkRewriteLocked(const Batch &batch) const;
  Status reserveAppendLocked(const Batch &batch);
  Status reserveRewriteLocked(const Batch &batch);
  /// Entry i's tables get pages for `lengths[i]` slots (0 .. limit), and a tail, none of them shared. That is also the
  /// number of tokens appended from now on.
  Status reserveLengthsLocked(const Batch &batch, const std::vector<int64_t> &lengths, int64_t limit);
  Status releaseLocked(const Batch &batch);
  Status forkLocked(int64_t source, int64_t destination);
  Result<std::shared_ptr<Cache>> cloneLocked() const;
  /// An empty cache of another spec for the same sequences, with pages and tails for the batch's slots here.
  Result<std::shared_ptr<Cache>> createLikeLocked(std::shared_ptr<const CacheSpec> spec, const Batch &batch) const;
  /// The sequences of a batch exist and are whole.
  Status checkBatchLocked(const Batch &batch) const;
  /// The largest length of the batch's tables: now, or when its rows are appended.
  int64_t maxLengthLocked(const Batch &batch, bool isAppended = false) const;
  /// Gives everything back; the cache may only be destroyed afterwards.
  void disposeLocked();
  /// After a call failed half way: the sequences may differ between layers.
  void markBrokenLocked(const Batch &batch);
  /// Array i of section 2: address and dynamic dimensions, appended to `words`.
  void appendWords(std::vector<uint64_t> &words) const;
  // On a device with memory of its own tables and counters lie there, and the host has a copy. Both enqueue copies.
  /// Before a kernel that has the cache as an operand: what the host has changed.
  Status uploadLocked() const;
  /// Behind such a kernel: the counters. The host's copy is right after the next synchronize.
  Status downloadLocked() const;

  // What a user does.
  Status fork(int64_t source, int64_t destination);
  /// Drops the slots from `length` on. Tables that are shorter stay as they
  /// are. unsupported where sealed slots would have to be opened.
  Status truncate(int64_t sequence, int64_t length);
  /// The same check without the change.
  Status checkTruncate(int64_t sequence, int64_t length) const;
  /// The largest length of the tables of a sequence, and, after a function that
  /// truncated from there, the correction of the count of tokens.
  Result<int64_t> longest(int64_t sequence) const;
  Status noteTruncated(int64_t sequence, int64_t longestBefore);
  /// Drops everything, also the broken mark.
  Status clear(int64_t sequence);
  Result<std::shared_ptr<Cache>> clone() const;
  Result<int64_t> length(int64_t sequence, int64_t head) const;
  /// Tokens appended so far: the position of the next one.
  Result<int64_t> appended(int64_t sequence) const;
  CacheStatistics statistics() const;

  /// Copies of the arrays of section 2.
  struct Tables {
    std::vector<int32_t> table, lengths, sealed, tailTable;
    std::vector<int64_t> appended; ///< per sequence, see appended()
  };
  Tables exportTables() const;
  /// Replaces the tables of all sequences, after checking them: pages and tails
  /// in the pool and not named twice (-1 = none), a page for every slot in
  /// pages, 0 <= sealed <= length <= maxLength. Pages that nobody else refers
  /// to keep what they hold.
  Status importTables(const Tables &tables);
  enum class Part { pages, tails };
  Status read(Part part, uint64_t offset, void *destination, uint64_t bytes) const;
  Status write(Part part, uint64_t offset, const void *source, uint64_t bytes);

private:
  Cache() = default;
  Status initialize(std::shared_ptr<Device> device, std::shared_ptr<const CacheSpec> spec,
                    std::shared_ptr<CachePool> pool, int32_t sequences, int64_t maxLength);
  Status checkSequence(int64_t sequence) const;
  Status checkAccess(Part part, uint64_t offset, uint64_t bytes) const;
  Status checkTruncateLocked(int64_t sequence, int64_t length) const;
  int64_t longestLocked(int64_t sequence) const;
  void truncateLocked(int64_t sequence, int64_t length);
  void clearLocked(int64_t sequence);
  Status checkTable(int64_t table) const;
  /// Takes pages `first .. pagesFor(slots) - 1` and a tail for a table, or makes those it has its own.
  Status ownBlocks(int64_t table, int64_t first, int64_t slots);
  /// Adds what ownBlocks would take.
  template <typename Demand>
  void addDemand(int64_t table, int64_t first, int64_t slots, Demand &pages, Demand &tails) const;
  int32_t *row(int64_t table) const { return tableData + table * tableColumns; }
  int64_t pagesFor(int64_t slots) const { return (slots + cacheSpec->pageSlots - 1) / int64_t(cacheSpec->pageSlots); }
  bool hasTail() const { return cacheSpec->tailSlots > 0; }
  template <typename Function> void forEachTable(const Batch &batch, Function function) const;
  /// The host has changed the row of a table; its counters or its tail.
  void noteRow(int64_t table) {
    firstChanged = std::min(firstChanged, table);
    lastChanged = std::max(lastChanged, table);
  }
  void noteCounters() { countersChanged = true; }
  /// Where a part of the host's copy lies for kernels.
  void *onDevice(const int32_t *part) const {
    return (deviceMemory ? deviceMemory.as<int32_t>() : memory.as<int32_t>()) + (part - memory.as<int32_t>());
  }
  uint64_t counterWords() const { return memory.bytes() / sizeof(int32_t) - uint64_t(lengthData - tableData); }

  std::shared_ptr<Device> cacheDevice;
  std::shared_ptr<const CacheSpec> cacheSpec;
  std::shared_ptr<CachePool> cachePool;
  int32_t sequenceCount = 0;
  int64_t slotsPerTable = 0;
  int64_t tableColumns = 0;
  Memory memory;       // the four arrays of tables: page tables, lengths, sealed, tail table
  Memory deviceMemory; // what kernels see of it; none where that is the host's memory
  int32_t *tableData = nullptr;
  int32_t *lengthData = nullptr;
  int32_t *sealedData = nullptr;
  int32_t *tailData = nullptr;
  std::vector<int64_t> appendedCount; // per sequence
  std::vector<uint8_t> broken;        // per sequence
  // What the device has not been told of.
  mutable int64_t firstChanged = std::numeric_limits<int64_t>::max(), lastChanged = -1;
  mutable bool countersChanged = false;
};

} // namespace kvc::rt

#endif // KVC_CORE_CACHE_H
