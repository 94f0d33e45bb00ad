//===- PendingWork.h - Kernels that a call has not waited for ---*- C++ -*-===//
//
// A device may run kernels later than they are launched. Tables and counters of
// caches are read and written by kernels and by the host: this says when the
// host must wait. Where the device replays graphs, launches are kept until then.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_CORE_PENDINGWORK_H
#define KVC_CORE_PENDINGWORK_H

#include "core/Cache.h"

#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace kvc::rt {

/// Of one call, whose caches are locked.
class PendingWork {
public:
  /// With `queues`, launches of `code` are kept, and made together.
  PendingWork(Device &device, const Code &code, bool queues) : device(device), code(code), queues(queues) {}

  Status launch(size_t kernel, const std::vector<uint64_t> &words, int64_t items) {
    if (!queues) {
      return device.launch(code, kernel, words, items);
    }
    queued.push_back({kernel, words, items});
    return {};
  }

  /// Makes what is kept.
  Status flush() { return queued.empty() ? Status() : device.launchAll(code, std::exchange(queued, {})); }

  /// Forgets what is kept: the call has failed.
  void drop() { queued.clear(); }

  /// A kernel that has this cache as an operand will be launched next.
  Status addKernelOf(const Cache &cache) {
    busy.insert(&cache);
    rewritten.erase(&cache);
    return cache.uploadLocked();
  }

  /// Before the host touches a cache.
  Status waitFor(const Cache &cache) {
    appended.erase(&cache);
    return busy.contains(&cache) ? waitForAll() : Status();
  }

  Status waitForAll() {
    Status first = flush();
    auto then = [&](Status status) {
      if (first.ok()) {
        first = std::move(status);
      }
    };
    for (const Cache *cache : std::exchange(busy, {})) {
      then(cache->downloadLocked());
    }
    then(device.synchronize());
    return first;
  }

  /// The next kernel may change any slot.
  void noteRewrite(const Cache &cache) { rewritten.insert(&cache); }

  /// The next kernel appends the rows of `batch`, for which there is room. Where it may change any slot as well, as
  /// that of a ring, the lengths are its own business.
  void noteAppend(const Cache &cache, const Batch &batch) {
    if (!rewritten.contains(&cache)) {
      appended[&cache] = {&batch, cache.maxLengthLocked(batch, /*isAppended=*/true)};
    }
  }

  /// The largest length of the tables of a batch. After an append it is known before the kernels have run, so that the
  /// layers of a model are launched without waiting for one.
  Result<int64_t> maxLength(const Cache &cache, const Batch &batch) {
    if (auto it = appended.find(&cache); it != appended.end() && it->second.batch == &batch) {
      return it->second.maxLength;
    }
    KVC_RETURN_IF_ERROR(waitFor(cache));
    return cache.maxLengthLocked(batch);
  }

private:
  struct Appended {
    const Batch *batch;
    int64_t maxLength;
  };

  Device &device;
  const Code &code;
  const bool queues;
  std::vector<Launch> queued;
  std::unordered_set<const Cache *> busy;
  /// Caches with a reservation for a kernel that is not launched yet.
  std::unordered_set<const Cache *> rewritten;
  /// Of caches whose last reservation was for an append alone.
  std::unordered_map<const Cache *, Appended> appended;
};

} // namespace kvc::rt

#endif // KVC_CORE_PENDINGWORK_H
