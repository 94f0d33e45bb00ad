//===- Ceilings.cpp - What the machine can do at most ---------------------===//
#include "Ceilings.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

static constexpr int repetitions = 5;

/// Median of the seconds that all threads together take for `work(thread)`.
static double medianSeconds(int threads, const std::function<void(int)> &work) {
  std::vector<double> seconds;
  for (int i = 0; i < repetitions; ++i) {
    auto start = std::chrono::steady_clock::now();
    std::vector<std::thread> pool;
    for (int t = 0; t < threads; ++t) {
      pool.emplace_back(work, t);
    }
    for (std::thread &thread : pool) {
      thread.join();
    }
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + repetitions / 2, seconds.end());
  return seconds[repetitions / 2];
}

double kvc::bench::readBandwidth(int threads) {
  constexpr size_t words = size_t(1) << 26; // 512 MiB for each thread
  std::vector<std::unique_ptr<uint64_t[]>> buffers;
  std::vector<uint64_t> sums(threads);
  for (int t = 0; t < threads; ++t) {
    buffers.push_back(std::make_unique<uint64_t[]>(words));
    std::fill_n(buffers.back().get(), words, uint64_t(t) + 1);
  }
  double seconds = medianSeconds(threads, [&](int t) {
    uint64_t sum = 0;
    const uint64_t *buffer = buffers[t].get();
    for (size_t i = 0; i < words; ++i) {
      sum += buffer[i];
    }
    sums[t] += sum;
  });
  // The sums are looked at, so that the loops stay.
  bool read = std::all_of(sums.begin(), sums.end(), [](uint64_t sum) { return sum != 0; });
  return read ? double(threads) * words * sizeof(uint64_t) / seconds : 0.0;
}

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512bf16"))) static float dotLoop(int64_t steps) {
  constexpr int chains = 12;
  __m512 sums[chains];
  for (__m512 &sum : sums) {
    sum = _mm512_setzero_ps();
  }
  __m512bh a = (__m512bh)_mm512_set1_epi32(0x3f803f80), b = a;
  for (int64_t i = 0; i < steps; ++i) {
    for (__m512 &sum : sums) {
      sum = _mm512_dpbf16_ps(sum, a, b);
    }
    __asm__ volatile("" : "+v"(a), "+v"(b));
  }
  __m512 total = sums[0];
  for (int i = 1; i < chains; ++i) {
    total = _mm512_add_ps(total, sums[i]);
  }
  return _mm512_reduce_add_ps(total);
}
#endif

double kvc::bench::bf16Throughput(int threads) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bf16")) {
    constexpr int64_t steps = 20'000'000;
    std::vector<float> results(threads);
    double seconds = medianSeconds(threads, [&](int t) { results[t] = dotLoop(steps); });
    bool ran = std::all_of(results.begin(), results.end(), [](float r) { return r > 0.0f; });
    return ran ? double(threads) * steps * 12 * 32 * 2 / seconds : 0.0;
  }
#endif
  return 0.0;
}
