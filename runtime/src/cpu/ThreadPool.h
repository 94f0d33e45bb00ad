//===- ThreadPool.h - Workers of the CPU device -----------------*- C++ -*-===//
//
// Runs the items of one job at a time on a fixed set of threads. Own code and
// not a library's, so that ThreadSanitizer sees every hand-over.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_CPU_THREADPOOL_H
#define KVC_CPU_THREADPOOL_H

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace kvc::rt::cpu {

class ThreadPool {
public:
  /// A job is called once per item with the number of the worker that runs it
  /// (0 = the caller).
  using Body = void (*)(void *context, int64_t item, int worker);

  /// `threads` counts the caller: threads - 1 are started.
  explicit ThreadPool(int threads);
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;
  ~ThreadPool();

  int threads() const { return int(workers.size()) + 1; }

  /// Runs body for items 0 .. items-1 and returns when all are done. Items are
  /// handed out by a counter; who runs which is not deterministic. One caller
  /// at a time.
  void run(Body body, void *context, int64_t items);

private:
  void work(int worker);
  void help(int worker);
  bool hasNewJob(uint32_t seen) const;

  // The job. Written only while no worker is inside (state: closed, 0 active).
  Body body = nullptr;
  void *context = nullptr;
  int64_t items = 0;
  int64_t chunk = 1;
  std::atomic<int64_t> next{0};

  // generation << 32 | closed << 31 | workers inside. A worker joins a job by
  // raising the count while the job is open, so that one that wakes too late
  // never touches it and the caller never waits for a sleeper.
  std::atomic<uint64_t> state;
  std::atomic<int> sleepers{0};
  std::atomic<bool> stopping{false};
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<std::thread> workers;
};

} // namespace kvc::rt::cpu

#endif // KVC_CPU_THREADPOOL_H
