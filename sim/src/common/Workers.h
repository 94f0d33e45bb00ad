//===- Workers.h - Threads that run the work-groups of a launch -*- C++ -*-===//
//
// The same for every kind of machine code. An item is what runs on its own: a CTA, a cluster, a work-group.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_COMMON_WORKERS_H
#define KVCSIM_COMMON_WORKERS_H

#include "common/Fault.h"
#include "common/GlobalMemory.h"
#include "common/Launch.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace kvc::sim {

/// What a thread has of its own while it runs items.
struct LaunchWorker {
  std::vector<InstCounters> counters;
  std::set<std::string> warnings;
  const Allocation *lastAllocation[2] = {nullptr, nullptr};
  std::mt19937_64 random;
  uint64_t executed = 0;
};

/// Hands items out in their order and keeps the fault of the first one that failed, whatever thread met its own first.
class ItemQueue {
public:
  explicit ItemQueue(uint64_t count) : count(count) {}

  /// The next item; none where all are taken or one before it failed.
  std::optional<uint64_t> take() {
    const uint64_t n = next.fetch_add(1);
    return n >= count || n > limit.load() ? std::nullopt : std::optional(n);
  }

  void note(uint64_t n, const Fault &fault) {
    std::lock_guard lock(mutex);
    if (!failed || n < limit.load()) {
      failed = std::make_unique<Fault>(fault);
      limit = n;
    }
  }

  void throwFault() const {
    if (failed) {
      throw *failed;
    }
  }

private:
  const uint64_t count;
  std::atomic<uint64_t> next{0}, limit{~uint64_t(0)};
  std::mutex mutex;
  std::unique_ptr<Fault> failed;
};

/// Workers for `items`, as many as the options ask for.
template <typename Worker>
std::vector<Worker> makeWorkers(const LaunchOptions &options, uint64_t items, size_t instructions) {
  const unsigned threads = options.threads ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  std::vector<Worker> workers(std::max<uint64_t>(1, std::min<uint64_t>(threads, items)));
  for (Worker &worker : workers) {
    worker.counters.resize(instructions);
  }
  return workers;
}

/// Calls `run(worker)` for each worker, on a thread of its own where there are several.
template <typename Worker, typename Run> void runOnThreads(std::vector<Worker> &workers, Run run) {
  if (workers.size() == 1) {
    run(workers.front());
    return;
  }
  std::vector<std::thread> threads;
  for (Worker &worker : workers) {
    threads.emplace_back([&run, &worker] { run(worker); });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
}

/// What all workers counted and warned of.
template <typename Worker> LaunchResult resultOf(const std::vector<Worker> &workers) {
  LaunchResult result;
  result.counters.resize(workers.front().counters.size());
  std::set<std::string> warnings;
  for (const Worker &worker : workers) {
    for (size_t i = 0; i < result.counters.size(); ++i) {
      result.counters[i].add(worker.counters[i]);
    }
    warnings.insert(worker.warnings.begin(), worker.warnings.end());
  }
  result.warnings.assign(warnings.begin(), warnings.end());
  return result;
}

} // namespace kvc::sim

#endif // KVCSIM_COMMON_WORKERS_H
