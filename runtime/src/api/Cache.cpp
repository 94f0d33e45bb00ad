//===- Cache.cpp - C API: caches and batches ------------------------------===//
//
// Thin functions over core/Cache.h and core/Batch.h.
//
//===----------------------------------------------------------------------===//
#include "api/Handles.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvc::api {

Result<rt::CacheOptions> cacheOptions(const kvc_cache_options_t *given) {
  KVC_ASSIGN_OR_RETURN(kvc_cache_options_t options, readOptions(given, "cache options"));
  rt::CacheOptions converted;
  converted.sequences = options.sequences;
  converted.maxLength = options.max_length;
  converted.pages = options.pages;
  converted.tails = options.tails;
  return converted;
}

void copyStatistics(const rt::CacheStatistics &from, kvc_cache_statistics_t *to) {
  *to = {from.pagesUsed, from.pagesCapacity, from.tailsUsed,     from.tailsCapacity,
         from.slotsUsed, from.bytesUsed,     from.bytesAllocated};
}

namespace {

Status checkTables(const rt::Cache &cache, const kvc_cache_tables_t &tables) {
  if (tables.struct_size != sizeof(tables)) {
    return Status(StatusCode::invalidArgument,
                  fmt::format("cache tables: expects struct_size {}, but got {}", sizeof(tables), tables.struct_size));
  }
  if (tables.tables != cache.tables() || tables.max_pages != cache.maxPages()) {
    return Status(StatusCode::invalidArgument,
                  fmt::format("cache tables: expects {} tables of {} pages, but got {} of {}", cache.tables(),
                              cache.maxPages(), tables.tables, tables.max_pages));
  }
  return {};
}

Status checkPart(kvc_cache_part_t part) {
  if (part != KVC_PAGES && part != KVC_TAILS) {
    return Status(StatusCode::invalidArgument, fmt::format("expects KVC_PAGES or KVC_TAILS, but got {}", int(part)));
  }
  return {};
}

rt::Cache::Part partOf(kvc_cache_part_t part) {
  return part == KVC_PAGES ? rt::Cache::Part::pages : rt::Cache::Part::tails;
}

// Arrays of a batch may be null when they have no elements.
Status checkArray(const char *what, const void *array, size_t count) {
  return array || count == 0 ? Status() : nullArgument(what);
}

} // namespace
} // namespace kvc::api

using namespace kvc;
using namespace kvc::api;

kvc_status_t kvc_cache_create(kvc_module_t *module, size_t cache_spec, const kvc_cache_options_t *options,
                              kvc_cache_t **cache) {
  if (cache) {
    *cache = nullptr;
  }
  return guarded([&]() -> Status {
    KVC_REQUIRE(module);
    KVC_REQUIRE(options);
    KVC_REQUIRE(cache);
    KVC_ASSIGN_OR_RETURN(rt::CacheOptions given, cacheOptions(options));
    const auto &specs = module->module->cacheSpecs();
    if (cache_spec >= specs.size()) {
      return Status(StatusCode::outOfRange,
                    fmt::format("expects one of {} cache specs, but got {}", specs.size(), cache_spec));
    }
    auto handle = std::make_unique<kvc_cache>();
    handle->module = module->module;
    KVC_ASSIGN_OR_RETURN(handle->cache, rt::Cache::create(module->module->device(), specs[cache_spec], given));
    *cache = handle.release();
    return {};
  });
}

void kvc_cache_release(kvc_cache_t *cache) { delete cache; }

kvc_status_t kvc_cache_clone(kvc_cache_t *cache, kvc_cache_t **clone) {
  if (clone) {
    *clone = nullptr;
  }
  return guarded([&]() -> Status {
    KVC_REQUIRE(cache);
    KVC_REQUIRE(clone);
    auto handle = std::make_unique<kvc_cache>();
    handle->module = cache->module;
    KVC_ASSIGN_OR_RETURN(handle->cache, cache->cache->clone());
    *clone = handle.release();
    return {};
  });
}

kvc_status_t kvc_cache_fork(kvc_cache_t *cache, int32_t source, int32_t destination) {
  return guarded([&]() -> Status {
    KVC_REQUIRE(cache);
    return cache->cache->fork(source, destination);
  });
}

kvc_status_t kvc_cache_truncate(kvc_cache_t *cache, int32_t sequence, int64_t length) {
  return guarded([&]() -> Status {
    KVC_REQUIRE(cache);
    return rt::truncateCache(cache->module, cache->cache, sequence, length);
  });
}

kvc_status_t kvc_cache_clear(kvc_cache_t *cache, int32_t sequence) {
  return guarded([&]() -> Status {
    KVC_REQUIRE(cache);
    return cache->cache->clear(sequence);
  });
}

kvc_status_t kvc_cache_length(kvc_cache_t *cache, int32_t sequence, int32_t head, int64_t *length) {
  if (length) {
    *length = 0;
  }
  return guarded([&]() -> Status {
    KVC_REQUIRE(cache);
    KVC_REQUIRE(length);
    KVC_ASSIGN_OR_RETURN(*length, cache->cache->length(sequence, head));
    return {};
  });
}

kvc_status_t kvc_cache_position(kvc_cache_t *cache, int32_t sequence, int64_t *position) {
  if (position) {
    *position = 0;
  }
  return guarded([&]() -> Status {
    KVC_REQUIRE(cache);
    KVC_REQUIRE(position);
    KVC_ASSIGN_OR_RETURN(*position, cache->cache->appended(sequence));
    return {};
  });
}

kvc_status_t kvc_cache_get_statistics(kvc_cache_t *cache, kvc_cache_statistics_t *statistics) {
  return guarded([&]() -> Status {
    KVC_REQUIRE(cache);
    KVC_REQUIRE(statistics);
    copyStatistics(cache->cache->statistics(), statistics);
    return {};
  });
}

kvc_status_t kvc_cache_table_shape(kvc_cache_t *cache, int32_t *sequences, int64_t *tables, int64_t *max_pages) {
  return guarded([&]() -> Status {
    KVC_REQUIRE(cache);
    KVC_REQUIRE(sequences);
    KVC_REQUIRE(tables);
    KVC_REQUIRE(max_pages);
    *sequences = cache->cache->sequences();
    *tables = cache->cache->tables();
    *max_pages = cache->cache->maxPages();
    return {};
  });
}

kvc_status_t kvc_cache_get_tables(kvc_cache_t *cache, const kvc_cache_tables_t *tables) {
  return guarded([&]() -> Status {
    KVC_REQUIRE(cache);
    KVC_REQUIRE(tables);
    KVC_RETURN_IF_ERROR(checkTables(*cache->cache, *tables));
    rt::Cache::Tables copy = cache->cache->exportTables();
    auto give = [](const auto &from, auto *to) {
      if (to) {
        std::copy(from.begin(), from.end(), to);
      }
    };
    give(copy.table, tables->table);
    give(copy.lengths, tables->lengths);
    give(copy.sealed, tables->sealed);
    give(copy.tailTable, tables->tail_table);
    give(copy.appended, tables->positions);
    return {};
  });
}

kvc_status_t kvc_cache_set_tables(kvc_cache_t *cache, const kvc_cache_tables_t *tables) {
  return guarded([&]() -> Status {
    KVC_REQUIRE(cache);
    KVC_REQUIRE(tables);
    KVC_RETURN_IF_ERROR(checkTables(*cache->cache, *tables));
    size_t count = size_t(tables->tables), entries = count * size_t(tables->max_pages);
    size_t sequences = size_t(cache->cache->sequences());
    KVC_RETURN_IF_ERROR(checkArray("table", tables->table, entries));
    KVC_RETURN_IF_ERROR(checkArray("lengths", tables->lengths, count));
    KVC_RETURN_IF_ERROR(checkArray("sealed", tables->sealed, count));
    KVC_RETURN_IF_ERROR(checkArray("tail_table", tables->tail_table, count));
    KVC_RETURN_IF_ERROR(checkArray("positions", tables->positions, sequences));
    return cache->cache->importTables({{tables->table, tables->table + entries},
                                       {tables->lengths, tables->lengths + count},
                                       {tables->sealed, tables->sealed + count},
                                       {tables->tail_table, tables->tail_table + count},
                                       {tables->positions, tables->positions + sequences}});
  });
}

kvc_status_t kvc_cache_read(kvc_cache_t *cache, kvc_cache_part_t part, uint64_t offset, void *data, uint64_t size) {
  return guarded([&]() -> Status {
    KVC_REQUIRE(cache);
    KVC_RETURN_IF_ERROR(checkArray("data", data, size));
    KVC_RETURN_IF_ERROR(checkPart(part));
    return cache->cache->read(partOf(part), offset, data, size);
  });
}

kvc_status_t kvc_cache_write(kvc_cache_t *cache, kvc_cache_part_t part, uint64_t offset, const void *data,
                             uint64_t size) {
  return guarded([&]() -> Status {
    KVC_REQUIRE(cache);
    KVC_RETURN_IF_ERROR(checkArray("data", data, size));
    KVC_RETURN_IF_ERROR(checkPart(part));
    return cache->cache->write(partOf(part), offset, data, size);
  });
}

kvc_status_t kvc_batch_create(kvc_device_t *device, size_t entries, const int32_t *sequences, const int32_t *rows,
                              const int32_t *positions, kvc_batch_t **batch) {
  if (batch) {
    *batch = nullptr;
  }
  return guarded([&]() -> Status {
    KVC_REQUIRE(device);
    KVC_REQUIRE(batch);
    KVC_RETURN_IF_ERROR(checkArray("sequences", sequences, entries));
    KVC_RETURN_IF_ERROR(checkArray("rows", rows, entries));
    size_t total = 0;
    for (size_t i = 0; i < entries; ++i) {
      total += rows[i] > 0 ? size_t(rows[i]) : 0; // what is negative is refused below
    }
    KVC_RETURN_IF_ERROR(checkArray("positions", positions, total));
    auto handle = std::make_unique<kvc_batch>();
    KVC_ASSIGN_OR_RETURN(handle->batch,
                         rt::Batch::create(device->device, {sequences, entries}, {rows, entries}, {positions, total}));
    *batch = handle.release();
    return {};
  });
}

kvc_status_t kvc_batch_create_next(kvc_cache_t *cache, size_t entries, const int32_t *sequences, const int32_t *rows,
                                   kvc_batch_t **batch) {
  if (batch) {
    *batch = nullptr;
  }
  return guarded([&]() -> Status {
    KVC_REQUIRE(cache);
    KVC_REQUIRE(batch);
    KVC_RETURN_IF_ERROR(checkArray("sequences", sequences, entries));
    KVC_RETURN_IF_ERROR(checkArray("rows", rows, entries));
    auto handle = std::make_unique<kvc_batch>();
    KVC_ASSIGN_OR_RETURN(handle->batch, rt::nextBatch(*cache->cache, {sequences, entries}, {rows, entries}));
    *batch = handle.release();
    return {};
  });
}

void kvc_batch_release(kvc_batch_t *batch) { delete batch; }
int32_t kvc_batch_entries(const kvc_batch_t *batch) { return batch ? batch->batch->entries() : 0; }
int32_t kvc_batch_rows(const kvc_batch_t *batch) { return batch ? batch->batch->rows() : 0; }
