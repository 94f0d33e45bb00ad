//===- GraphTest.cpp - Conformance: graphs of launches --------------------===//
//
// A device with graphs gives the bits that it gives without them, whatever grows, changes or fails between the calls.
//
//===----------------------------------------------------------------------===//
#include "Conformance.h"

#include <thread>

namespace kvc::cts {
namespace {

class Graphs : public Conformance {
protected:
  void SetUp() override {
    Conformance::SetUp();
    if (kvc_device_set_graphs(device->get(), 1) == KVC_UNSUPPORTED) {
      EXPECT_EQ(GetParam(), "cpu");
      EXPECT_THAT(kvc_last_error_message(),
                  HasSubstr("expects a device that replays graphs, such as cuda:0, but got '" + GetParam() + "'"));
      GTEST_SKIP() << "a device without graphs";
    }
  }

  /// Appends `counts[i]` rows to sequence `sequences[i]`; the sums over all slots.
  static std::vector<float> step(const Module &module, const Cache &cache, const std::vector<int32_t> &sequences,
                                 const std::vector<int32_t> &counts, float first) {
    BatchHandle batch = cache.next(sequences, counts);
    const int64_t rows = std::accumulate(counts.begin(), counts.end(), int64_t(0));
    std::vector<float> data;
    for (int64_t i = 0; i < 4 * rows; ++i) {
      data.push_back(first + 0.37f * float(i));
    }
    const std::vector<int64_t> dims{rows, 4};
    return module
        .call("append_sum",
              {Argument::cache(cache.get()), Argument::batch(batch.get()), Argument::tensor(data.data(), dims)})[1]
        .copy<float>();
  }
};
KVC_INSTANTIATE_FOR_DEVICES(Graphs);

TEST_P(Graphs, StepsOfGrowingSequencesAreOneGraphWithTheSameBits) {
  Device plain(GetParam().c_str(), 1);
  std::vector<uint8_t> bytes = test::sealed(test::testModule());
  Module direct = Module::load(plain, bytes.data(), bytes.size());
  Cache expected = direct.cache(0, {0, 3, 64, 0, 0}), got = cache(0, 3, 64);
  // The items of `append_sum` are as many as the longest length at least: from here on as many as the entries.
  step(direct, expected, {0, 1, 2}, {3, 3, 3}, 1);
  step(*module, got, {0, 1, 2}, {3, 3, 3}, 1);
  // Pages have four slots: tables grow while the graph stays.
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(step(direct, expected, {0, 2, 1}, {1, 1, 1}, float(i)),
              step(*module, got, {0, 2, 1}, {1, 1, 1}, float(i)))
        << "step " << i;
  }
  // The first step is new, and the second, if its buffers are not where those of the first were.
  EXPECT_EQ(device->graphCounts().captured, 1);
  EXPECT_GE(device->graphCounts().launched, 38);
  EXPECT_EQ(plain.graphCounts().launched, 0);
  EXPECT_EQ(got.length(2), 43);
}

TEST_P(Graphs, WhatChangesIsNoReplay) {
  Device plain(GetParam().c_str(), 1);
  std::vector<uint8_t> bytes = test::sealed(test::testModule());
  Module direct = Module::load(plain, bytes.data(), bytes.size());
  Cache expected = direct.cache(0, {0, 3, 64, 0, 0}), got = cache(0, 3, 64);
  step(direct, expected, {0, 1, 2}, {3, 3, 3}, 1);
  step(*module, got, {0, 1, 2}, {3, 3, 3}, 1);
  // Other rows, other sequences, forks (shared pages are copied) and cuts between them; more shapes than are
  // remembered.
  for (int i = 0; i < 90; ++i) {
    const std::vector<int32_t> sequences = i % 3 ? std::vector<int32_t>{0, 1, 2} : std::vector<int32_t>{2, 0};
    std::vector<int32_t> counts(sequences.size(), 1);
    counts[0] = 1 + i % 45 / 3;
    if (i % 7 == 6) {
      for (Cache *each : {&expected, &got}) {
        each->truncate(0, 3);
        each->fork(0, 1);
        each->clear(2);
      }
    }
    const bool isFull = expected.length(0) + 16 > 64 || expected.length(2) + 16 > 64;
    if (isFull) {
      for (Cache *each : {&expected, &got}) {
        each->clear(0);
        each->clear(2);
      }
    }
    ASSERT_EQ(step(direct, expected, sequences, counts, float(i)), step(*module, got, sequences, counts, float(i)))
        << "step " << i;
  }
}

TEST_P(Graphs, NumbersThatFollowALengthAreExact) {
  Cache held = cache(0, 1, 64);
  for (int i = 1; i <= 5; ++i) {
    BatchHandle batch = held.next({0}, {1});
    const std::vector<float> row(4, 1.0f);
    const std::vector<int64_t> dims{1, 4};
    std::vector<Value> values = module->call("replace", {Argument::cache(held.get()), Argument::batch(batch.get()),
                                                         Argument::tensor(row.data(), dims), Argument::integer(100)});
    EXPECT_EQ(values[1].integer(), i);
  }
}

TEST_P(Graphs, TwoLayersAndTheirCaches) {
  Cache first = cache(0, 2, 64), second = cache(0, 2, 64);
  float total = 0;
  for (int i = 0; i < 20; ++i) {
    BatchHandle batch = first.next({1}, {1});
    const std::vector<float> row(4, float(i));
    const std::vector<int64_t> dims{1, 4};
    total += 4 * float(i);
    EXPECT_THAT(module
                    ->call("layers", {Argument::cache(first.get()), Argument::cache(second.get()),
                                      Argument::batch(batch.get()), Argument::tensor(row.data(), dims)})[2]
                    .copy<float>(),
                ElementsAre(total));
  }
  EXPECT_EQ(device->graphCounts().captured, 1);
}

TEST_P(Graphs, ThreadsCaptureAndReplayAtTheSameTime) {
  constexpr int threads = 3;
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      Cache own = cache(0, 2, 64);
      for (int i = 0; i < 30; ++i) {
        const float first = float(100 * t);
        // Sums of whole numbers and of the same fractions in each row.
        EXPECT_NEAR(step(*module, own, {0}, {1}, first)[0], float(i + 1) * (4 * first + 6 * 0.37f), 0.5f);
      }
    });
  }
  for (std::thread &thread : running) {
    thread.join();
  }
}

TEST_P(Graphs, OffAgainAndWithAProfileKernelsAreLaunchedAlone) {
  Cache held = cache(0, 2, 64);
  for (int i = 0; i < 4; ++i) {
    step(*module, held, {0}, {1}, 1);
  }
  const int64_t launched = device->graphCounts().launched;
  EXPECT_GE(launched, 2);
  device->setProfiling(true);
  step(*module, held, {0}, {1}, 1);
  device->setProfiling(false);
  EXPECT_THAT(device->takeProfile(), HasSubstr("\"kernel\":\"sum_plain\""));
  device->setGraphs(false);
  step(*module, held, {0}, {1}, 1);
  EXPECT_EQ(device->graphCounts().launched, launched);
}

TEST_P(Graphs, LaunchesWithoutItems) {
  const std::vector<int64_t> dims{0}, few{3};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(module->call("chain", {Argument::tensor(std::vector<float>(1).data(), dims), Argument::real(2)})[0]
                  .copy<float>()
                  .size(),
              0u);
  }
  const std::vector<float> x{1, 2, 3};
  for (int i = 0; i < 4; ++i) {
    EXPECT_THAT(module->call("chain", {Argument::tensor(x.data(), few), Argument::real(2)})[0].copy<float>(),
                ElementsAre(8, 16, 24));
  }
}

TEST_P(Graphs, AModuleMayGoWithItsGraphs) {
  std::vector<uint8_t> bytes = test::sealed(test::testModule());
  for (int i = 0; i < 3; ++i) {
    Module other = Module::load(*device, bytes.data(), bytes.size());
    Cache held = other.cache(0, {0, 1, 16, 0, 0});
    for (int k = 0; k < 5; ++k) {
      step(other, held, {0}, {1}, 1);
    }
  }
  EXPECT_EQ(device->graphCounts().captured, 3);
}

} // namespace
} // namespace kvc::cts
