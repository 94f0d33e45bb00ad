//===- CacheUser.cpp - What a user does with a cache ----------------------===//
//
// Sequences, statistics, and reading and writing of tables and pages.
//
//===----------------------------------------------------------------------===//
#include "core/Cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

namespace kvc::rt {
namespace {

using Lock = std::lock_guard<std::mutex>;

Status invalid(std::string message) { return Status(StatusCode::invalidArgument, std::move(message)); }

} // namespace

Status Cache::fork(int64_t source, int64_t destination) {
  Lock lock(cachePool->mutex);
  return forkLocked(source, destination);
}

Status Cache::checkTruncate(int64_t sequence, int64_t length) const {
  Lock lock(cachePool->mutex);
  return checkTruncateLocked(sequence, length);
}

Status Cache::truncate(int64_t sequence, int64_t length) {
  Lock lock(cachePool->mutex);
  KVC_RETURN_IF_ERROR(checkTruncateLocked(sequence, length));
  truncateLocked(sequence, length);
  return {};
}

int64_t Cache::longestLocked(int64_t sequence) const {
  const int32_t *first = lengthData + sequence * cacheSpec->tablesPerSequence;
  return *std::max_element(first, first + cacheSpec->tablesPerSequence);
}

Result<int64_t> Cache::longest(int64_t sequence) const {
  Lock lock(cachePool->mutex);
  KVC_RETURN_IF_ERROR(checkSequence(sequence));
  return longestLocked(sequence);
}

Status Cache::noteTruncated(int64_t sequence, int64_t longestBefore) {
  Lock lock(cachePool->mutex);
  KVC_RETURN_IF_ERROR(checkSequence(sequence));
  appendedCount[size_t(sequence)] -= std::max<int64_t>(longestBefore - longestLocked(sequence), 0);
  return {};
}

Status Cache::clear(int64_t sequence) {
  Lock lock(cachePool->mutex);
  KVC_RETURN_IF_ERROR(checkSequence(sequence));
  clearLocked(sequence);
  return {};
}

Result<std::shared_ptr<Cache>> Cache::clone() const {
  Lock lock(cachePool->mutex);
  return cloneLocked();
}

Result<int64_t> Cache::length(int64_t sequence, int64_t head) const {
  Lock lock(cachePool->mutex);
  KVC_RETURN_IF_ERROR(checkSequence(sequence));
  if (head < 0 || head >= cacheSpec->tablesPerSequence) {
    return Status(StatusCode::outOfRange, fmt::format("cache '{}': expects a table from 0 to {}, but got {}",
                                                      cacheSpec->name, cacheSpec->tablesPerSequence - 1, head));
  }
  return int64_t(lengthData[sequence * cacheSpec->tablesPerSequence + head]);
}

Result<int64_t> Cache::appended(int64_t sequence) const {
  Lock lock(cachePool->mutex);
  KVC_RETURN_IF_ERROR(checkSequence(sequence));
  return appendedCount[size_t(sequence)];
}

CacheStatistics Cache::statistics() const {
  Lock lock(cachePool->mutex);
  CacheStatistics result;
  result.pagesUsed = cachePool->pages.used();
  result.pagesCapacity = cachePool->pages.capacity();
  result.tailsUsed = cachePool->tails.used();
  result.tailsCapacity = cachePool->tails.capacity();

  // A shared page counts once, with as many slots as its fullest user has.
  std::unordered_map<int32_t, int64_t> pageFill, tailFill;
  int64_t tableEntries = 0;
  for (int64_t table = 0; table < tables(); ++table) {
    int64_t length = lengthData[table], sealed = sealedData[table];
    if (length == 0 || broken[size_t(table / cacheSpec->tablesPerSequence)]) {
      continue;
    }
    result.slotsUsed += length;
    for (int64_t page = 0; page < pagesFor(sealed) && row(table)[page] >= 0; ++page) {
      int64_t fill = std::min<int64_t>(cacheSpec->pageSlots, sealed - page * cacheSpec->pageSlots);
      int64_t &most = pageFill[row(table)[page]];
      most = std::max(most, fill);
      ++tableEntries;
    }
    if (tailData[table] >= 0) {
      int64_t &most = tailFill[tailData[table]];
      most = std::max(most, length - sealed);
      ++tableEntries;
    }
    tableEntries += 2; // length and sealed
  }
  double pageSlots = 0, tailSlots = 0;
  for (auto [page, fill] : pageFill) {
    pageSlots += double(fill);
  }
  for (auto [tail, fill] : tailFill) {
    tailSlots += double(fill);
  }
  result.bytesUsed = pageSlots * (cacheSpec->pagePayloadBytes / cacheSpec->pageSlots) +
                     tailSlots * cacheSpec->tailSlotPayloadBytes + double(tableEntries) * sizeof(int32_t);
  result.bytesAllocated = uint64_t(result.pagesUsed) * cacheSpec->pageBytes +
                          uint64_t(result.tailsUsed) * cacheSpec->tailBytes + memory.bytes();
  return result;
}

Cache::Tables Cache::exportTables() const {
  Lock lock(cachePool->mutex);
  int64_t count = tables();
  return {{tableData, tableData + count * tableColumns},
          {lengthData, lengthData + count},
          {sealedData, sealedData + count},
          {tailData, tailData + count},
          appendedCount};
}

Status Cache::importTables(const Tables &given) {
  Lock lock(cachePool->mutex);
  const std::string &name = cacheSpec->name;
  int64_t count = tables();
  auto checkSize = [&](const char *what, size_t got, int64_t want) {
    return int64_t(got) == want
               ? Status()
               : invalid(fmt::format("cache '{}': expects {} entries in {}, but got {}", name, want, what, got));
  };
  KVC_RETURN_IF_ERROR(checkSize("table", given.table.size(), count * tableColumns));
  KVC_RETURN_IF_ERROR(checkSize("lengths", given.lengths.size(), count));
  KVC_RETURN_IF_ERROR(checkSize("sealed", given.sealed.size(), count));
  KVC_RETURN_IF_ERROR(checkSize("tail_table", given.tailTable.size(), count));
  KVC_RETURN_IF_ERROR(checkSize("appended", given.appended.size(), sequenceCount));

  // Blocks that this cache alone refers to, or that nobody does, may be named.
  std::unordered_map<int32_t, uint32_t> ownPages, ownTails;
  for (int64_t table = 0; table < count; ++table) {
    for (int64_t page = 0; page < tableColumns && row(table)[page] >= 0; ++page) {
      ++ownPages[row(table)[page]];
    }
    if (tailData[table] >= 0) {
      ++ownTails[tailData[table]];
    }
  }
  std::unordered_map<int32_t, uint32_t> newPages, newTails;
  auto claim = [&](const BlockPool &pool, const std::unordered_map<int32_t, uint32_t> &own,
                   std::unordered_map<int32_t, uint32_t> &claimed, const char *what, int32_t block,
                   int64_t table) -> Status {
    if (block < 0 || block >= pool.capacity()) {
      return Status(StatusCode::outOfRange, fmt::format("cache '{}': table {}: expects a {} from 0 to {}, but got {}",
                                                        name, table, what, pool.capacity() - 1, block));
    }
    if (!claimed.try_emplace(block, 1).second) {
      return invalid(
          fmt::format("cache '{}': table {}: expects each {} once, but got {} again", name, table, what, block));
    }
    auto it = own.find(block);
    if (pool.referencesOf(block) > (it == own.end() ? 0 : it->second)) {
      return invalid(fmt::format("cache '{}': table {}: expects a {} that no other cache uses, but got {}", name, table,
                                 what, block));
    }
    return {};
  };
  for (int64_t table = 0; table < count; ++table) {
    int64_t length = given.lengths[size_t(table)], sealed = given.sealed[size_t(table)];
    if (length < 0 || length > slotsPerTable || sealed < 0 || sealed > length || (!hasTail() && sealed != length) ||
        (hasTail() && length - sealed > int64_t(cacheSpec->tailSlots))) {
      return Status(StatusCode::outOfRange,
                    fmt::format("cache '{}': table {}: expects 0 <= sealed <= length <= {} with at most {} slots that "
                                "are not sealed, but got length {} and sealed {}",
                                name, table, slotsPerTable, cacheSpec->tailSlots, length, sealed));
    }
    bool ended = false;
    for (int64_t page = 0; page < tableColumns; ++page) {
      int32_t block = given.table[size_t(table * tableColumns + page)];
      if (block == -1) {
        if (page < pagesFor(sealed)) {
          return invalid(fmt::format("cache '{}': table {}: expects a page for each of {} slots, but got none for "
                                     "page {}",
                                     name, table, sealed, page));
        }
        ended = true;
        continue;
      }
      if (ended) {
        return invalid(fmt::format("cache '{}': table {}: expects no page after the first -1, but got {} at {}", name,
                                   table, block, page));
      }
      KVC_RETURN_IF_ERROR(claim(cachePool->pages, ownPages, newPages, "page", block, table));
    }
    int32_t tail = given.tailTable[size_t(table)];
    if (tail == -1 && length > sealed) {
      return invalid(
          fmt::format("cache '{}': table {}: expects a tail for {} slots, but got none", name, table, length - sealed));
    }
    if (tail != -1) {
      KVC_RETURN_IF_ERROR(claim(cachePool->tails, ownTails, newTails, "tail", tail, table));
    }
  }
  for (size_t sequence = 0; sequence < given.appended.size(); ++sequence) {
    if (given.appended[sequence] < 0) {
      return invalid(fmt::format("cache '{}': expects a count of tokens that is not negative, but got {}", name,
                                 given.appended[sequence]));
    }
  }

  for (int64_t sequence = 0; sequence < sequenceCount; ++sequence) {
    clearLocked(sequence);
  }
  cachePool->pages.takeThese(newPages);
  cachePool->tails.takeThese(newTails);
  // Clearing has noted every table.
  std::copy(given.table.begin(), given.table.end(), tableData);
  std::copy(given.lengths.begin(), given.lengths.end(), lengthData);
  std::copy(given.sealed.begin(), given.sealed.end(), sealedData);
  std::copy(given.tailTable.begin(), given.tailTable.end(), tailData);
  std::copy(given.appended.begin(), given.appended.end(), appendedCount.begin());
  return {};
}

Status Cache::checkAccess(Part part, uint64_t offset, uint64_t bytes) const {
  const BlockPool &pool = part == Part::pages ? cachePool->pages : cachePool->tails;
  if (offset > pool.bytes() || bytes > pool.bytes() - offset) {
    return Status(StatusCode::outOfRange,
                  fmt::format("cache '{}': expects bytes inside the {} of {} bytes, but got {} at offset {}",
                              cacheSpec->name, part == Part::pages ? "pages" : "tails", pool.bytes(), bytes, offset));
  }
  return {};
}

Status Cache::read(Part part, uint64_t offset, void *destination, uint64_t bytes) const {
  Lock lock(cachePool->mutex);
  KVC_RETURN_IF_ERROR(checkAccess(part, offset, bytes));
  const BlockPool &pool = part == Part::pages ? cachePool->pages : cachePool->tails;
  return cacheDevice->copyToHost(destination, pool.data() + offset, bytes);
}

Status Cache::write(Part part, uint64_t offset, const void *source, uint64_t bytes) {
  Lock lock(cachePool->mutex);
  KVC_RETURN_IF_ERROR(checkAccess(part, offset, bytes));
  const BlockPool &pool = part == Part::pages ? cachePool->pages : cachePool->tails;
  return cacheDevice->copyToDevice(pool.data() + offset, source, bytes);
}

} // namespace kvc::rt
