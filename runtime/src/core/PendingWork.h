//===- PendingWork.h - Kernels that a call has not waited for ---*- C++ -*-===//
//
// A device may run kernels later than they are launched. Tables and counters of
// caches are read and written by kernels and by the host: this says when the
// host must wait.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_CORE_PENDINGWORK_H
#define KVC_CORE_PENDINGWORK_H

#include "core/Cache.h"

#include <unordered_map>
#include <unordered_set>

namespace kvc::rt {

/// Of one call, whose caches are locked.
class PendingWork {
public:
  explicit PendingWork(Device &device) : device(device) {}

  /// A kernel that has this cache as an operand was launched.
  void addKernelOf(const Cache &cache) {
    busy.insert(&cache);
    rewritten.erase(&cache);
  }

  /// Before the host touches a cache.
  Status waitFor(const Cache &cache) {
    appended.erase(&cache);
    return busy.contains(&cache) ? waitForAll() : Status();
  }

  Status waitForAll() {
    busy.clear();
    return device.synchronize();
  }

  /// The next kernel may change any slot.
  void noteRewrite(const Cache &cache) { rewritten.insert(&cache); }

  /// The next kernel appends the rows of `batch`, for which there is room. Where it may change any slot as well, as
  /// that of a ring, the lengths are its own business.
  void noteAppend(const Cache &cache, const Batch &batch) {
    if (!rewritten.contains(&cache)) {
      appended[&cache] = {&batch, cache.maxLengthAfterAppendLocked(batch)};
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
  std::unordered_set<const Cache *> busy;
  /// Caches with a reservation for a kernel that is not launched yet.
  std::unordered_set<const Cache *> rewritten;
  /// Of caches whose last reservation was for an append alone.
  std::unordered_map<const Cache *, Appended> appended;
};

} // namespace kvc::rt

#endif // KVC_CORE_PENDINGWORK_H
