//===- ThreadPoolTest.cpp - Tests of the CPU workers ----------------------===//
//
// Every item runs once, on a worker that exists, also after idle times.
//
//===----------------------------------------------------------------------===//
#include "cpu/ThreadPool.h"

#include <chrono>
#include <gtest/gtest.h>

namespace kvc::rt::cpu {
namespace {

struct Counters {
  explicit Counters(size_t items, int workers) : counts(items), workers(workers) {}
  static void body(void *context, int64_t item, int worker) {
    auto *self = static_cast<Counters *>(context);
    EXPECT_GE(worker, 0);
    EXPECT_LT(worker, self->workers);
    // Not atomic: an item that two workers ran would be a race.
    ++self->counts[size_t(item)];
  }
  std::vector<int> counts;
  int workers;
};

class ThreadPools : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, ThreadPools, ::testing::Values(1, 2, 3, 8));

TEST_P(ThreadPools, RunsEveryItemOnce) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.threads(), GetParam());
  for (size_t items : {0, 1, 2, 3, 7, 64, 1000, 100000}) {
    Counters counters(items, GetParam());
    pool.run(Counters::body, &counters, int64_t(items));
    for (int count : counters.counts) {
      ASSERT_EQ(count, 1);
    }
  }
}

TEST_P(ThreadPools, RunsManySmallJobs) {
  ThreadPool pool(GetParam());
  for (int job = 0; job < 3000; ++job) {
    Counters counters(size_t(job % 5), GetParam());
    pool.run(Counters::body, &counters, job % 5);
    for (int count : counters.counts) {
      ASSERT_EQ(count, 1);
    }
  }
}

TEST_P(ThreadPools, WakesSleepers) {
  ThreadPool pool(GetParam());
  for (int job = 0; job < 20; ++job) {
    // Around the time after which workers go to sleep.
    std::this_thread::sleep_for(std::chrono::microseconds(20 * job));
    Counters counters(50, GetParam());
    pool.run(Counters::body, &counters, 50);
    for (int count : counters.counts) {
      ASSERT_EQ(count, 1);
    }
  }
}

TEST(ThreadPool, UsesItsWorkers) {
  ThreadPool pool(3);
  std::atomic<uint32_t> seen{0};
  auto body = [](void *context, int64_t, int worker) {
    static_cast<std::atomic<uint32_t> *>(context)->fetch_or(1u << worker);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  pool.run(body, &seen, 100);
  EXPECT_EQ(seen.load(), 7u);
}

TEST(ThreadPool, StopsWithoutAJob) {
  for (int i = 0; i < 20; ++i) {
    ThreadPool pool(4);
  }
}

} // namespace
} // namespace kvc::rt::cpu
