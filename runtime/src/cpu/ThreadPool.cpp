//===- ThreadPool.cpp - Workers of the CPU device -------------------------===//
//
// Hand-over of jobs: spin for a short time, then sleep.
//
//===----------------------------------------------------------------------===//
#include "cpu/ThreadPool.h"

#include <algorithm>
#include <chrono>

namespace kvc::rt::cpu {
namespace {

constexpr uint64_t closedBit = uint64_t(1) << 31;
constexpr uint64_t countMask = closedBit - 1;

// The steps of a decode follow each other within microseconds; waking a
// sleeper takes tens of them. Longer than that, spinning only burns power.
constexpr std::chrono::microseconds spinTime{60};

uint32_t generationOf(uint64_t state) { return uint32_t(state >> 32); }
bool isOpen(uint64_t state) { return !(state & closedBit); }

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Spins until the condition holds or the time is over; true if it holds.
template <typename Condition> bool spin(Condition condition) {
  auto end = std::chrono::steady_clock::now() + spinTime;
  do {
    for (int i = 0; i < 64; ++i) {
      if (condition()) {
        return true;
      }
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return condition();
}

} // namespace

ThreadPool::ThreadPool(int threads) : state(closedBit) {
  workers.reserve(size_t(std::max(threads, 1) - 1));
  for (int i = 1; i < threads; ++i) {
    workers.emplace_back([this, i] { work(i); });
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  wake.notify_all();
  for (std::thread &worker : workers) {
    worker.join();
  }
}

bool ThreadPool::hasNewJob(uint32_t seen) const {
  uint64_t now = state.load();
  return isOpen(now) && generationOf(now) != seen;
}

void ThreadPool::run(Body jobBody, void *jobContext, int64_t jobItems) {
  if (jobItems <= 0) {
    return;
  }
  if (workers.empty() || jobItems == 1) {
    for (int64_t item = 0; item < jobItems; ++item) {
      jobBody(jobContext, item, 0);
    }
    return;
  }
  body = jobBody;
  context = jobContext;
  items = jobItems;
  // Small enough that the last chunks balance the load, large enough that the
  // counter is not what threads wait for.
  chunk = std::clamp<int64_t>(jobItems / (int64_t(threads()) * 16), 1, 1024);
  next.store(0, std::memory_order_relaxed);
  uint64_t generation = uint64_t(generationOf(state.load()) + 1) << 32;
  state.store(generation);
  if (sleepers.load() > 0) {
    // The empty critical section orders this after a sleeper's last look.
    {
      std::lock_guard lock(mutex);
    }
    wake.notify_all();
  }
  help(0);
  state.fetch_or(closedBit);
  while (!spin([&] { return (state.load() & countMask) == 0; })) {
    std::this_thread::yield();
  }
}

void ThreadPool::help(int worker) {
  for (;;) {
    int64_t begin = next.fetch_add(chunk, std::memory_order_relaxed);
    if (begin >= items) {
      return;
    }
    int64_t end = std::min(begin + chunk, items);
    for (int64_t item = begin; item < end; ++item) {
      body(context, item, worker);
    }
  }
}

void ThreadPool::work(int worker) {
  uint32_t seen = 0;
  for (;;) {
    if (!spin([&] { return hasNewJob(seen) || stopping.load(); })) {
      std::unique_lock lock(mutex);
      sleepers.fetch_add(1);
      wake.wait(lock, [&] { return hasNewJob(seen) || stopping.load(); });
      sleepers.fetch_sub(1);
    }
    if (stopping.load()) {
      return;
    }
    uint64_t now = state.load();
    while (isOpen(now) && generationOf(now) != seen) {
      if (state.compare_exchange_weak(now, now + 1)) {
        seen = generationOf(now);
        help(worker);
        state.fetch_sub(1);
        break;
      }
    }
  }
}

} // namespace kvc::rt::cpu
