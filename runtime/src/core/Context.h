//===- Context.h - The caches of all layers ---------------------*- C++ -*-===//
//
// One cache for each cache argument of a function, and sequences that come and
// go over all of them together.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_CORE_CONTEXT_H
#define KVC_CORE_CONTEXT_H

#include "core/Executor.h"

namespace kvc::rt {

/// As Cache::truncate; where sealed slots must be opened, the truncate function
/// of the cache's spec does it if the module has one.
Status truncateCache(const std::shared_ptr<Module> &module, const std::shared_ptr<Cache> &cache, int64_t sequence,
                     int64_t length);

/// Thread-safe: operations take turns, calls only as far as they share caches.
class Context {
public:
  static Result<std::shared_ptr<Context>> create(std::shared_ptr<Module> module, size_t function,
                                                 const CacheOptions &options);

  const std::shared_ptr<Module> &module() const { return contextModule; }
  const std::vector<std::shared_ptr<Cache>> &caches() const { return layerCaches; }

  Result<int32_t> createSequence();
  Status freeSequence(int64_t sequence);
  Result<int32_t> forkSequence(int64_t source);
  Status truncateSequence(int64_t sequence, int64_t length);
  Result<int64_t> position(int64_t sequence) const;
  Result<std::shared_ptr<Batch>> batch(std::span<const int32_t> sequences, std::span<const int32_t> rows) const;
  CacheStatistics statistics() const;

  /// `arguments` without the caches; `results` likewise.
  Status call(size_t function, const std::vector<Argument> &arguments, std::vector<CallResult> &results);

private:
  Status checkSequence(int64_t sequence) const;
  Result<int32_t> takeSequence();

  std::shared_ptr<Module> contextModule;
  std::vector<std::shared_ptr<Cache>> layerCaches;
  mutable std::mutex mutex; // of inUse
  std::vector<uint8_t> inUse;
};

/// Positions that follow what each sequence of the cache holds.
Result<std::shared_ptr<Batch>> nextBatch(const Cache &cache, std::span<const int32_t> sequences,
                                         std::span<const int32_t> rows);

} // namespace kvc::rt

#endif // KVC_CORE_CONTEXT_H
