//===- ThreadTest.cpp - Conformance: what is thread-safe ------------------===//
//
// The promises at the top of kvc_runtime.h, for ThreadSanitizer to watch.
//
//===----------------------------------------------------------------------===//
#include "Conformance.h"

#include <thread>

namespace kvc::cts {
namespace {

class Threads : public Conformance {
protected:
  int threads() const override { return 4; }

  template <typename Body> void parallel(int count, Body body) {
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        try {
          body(i);
        } catch (const Error &error) {
          ADD_FAILURE() << error.what();
        }
      });
    }
    for (std::thread &thread : threads) {
      thread.join();
    }
  }
};
KVC_INSTANTIATE_FOR_DEVICES(Threads);

TEST_P(Threads, CallsOfOneModuleInParallel) {
  parallel(4, [&](int index) {
    std::vector<float> x(3000, float(index));
    std::vector<int64_t> dims{3000};
    for (int i = 0; i < 30; ++i) {
      auto y = module->call("chain", {Argument::tensor(x.data(), dims), Argument::real(2)})[0].copy<float>();
      for (float value : y) {
        ASSERT_EQ(value, 8 * float(index));
      }
    }
  });
}

TEST_P(Threads, SequencesOfOneContextInParallel) {
  Context context(*module, "layers", {0, 4, 1000, 0, 0});
  parallel(4, [&](int index) {
    for (int round = 0; round < 5; ++round) {
      int32_t sequence = context.create();
      float want = 0;
      for (int i = 1; i <= 10; ++i) {
        BatchHandle batch = context.batch({sequence}, {i});
        std::vector<float> rows(size_t(i) * 4, float(index + 1));
        std::vector<int64_t> dims{i, 4};
        want += float(i * 4 * (index + 1));
        auto results = context.call("layers", {Argument::batch(batch.get()), Argument::tensor(rows.data(), dims)});
        ASSERT_EQ(results[0].copy<float>()[0], want);
      }
      context.statistics();
      context.truncate(sequence, 3);
      context.free(sequence);
    }
  });
  EXPECT_EQ(context.statistics().pages_used, 0);
}

TEST_P(Threads, ClonesShareAPoolInParallel) {
  Cache first = cache(0, 1, 200);
  append("append", first, {0}, {6});
  std::vector<Cache> clones;
  for (int i = 0; i < 4; ++i) {
    clones.push_back(first.clone());
  }
  // The pool has pages for one full table; four clones need 4 x 4 of its 50.
  parallel(4, [&](int index) {
    Cache &mine = clones[size_t(index)];
    for (int i = 0; i < 10; ++i) {
      append("append", mine, {0}, {1}, float(index));
    }
    EXPECT_EQ(sum("sum", mine, 0), float(4 * (21 + 10 * index)));
  });
  EXPECT_EQ(sum("sum", first, 0), 4 * 21);
}

TEST_P(Threads, ErrorsAreOfTheirThread) {
  parallel(4, [&](int index) {
    for (int i = 0; i < 50; ++i) {
      std::string name = "function" + std::to_string(index);
      size_t function;
      ASSERT_EQ(kvc_module_find_function(module->get(), name.c_str(), &function), KVC_NOT_FOUND);
      ASSERT_THAT(kvc_last_error_message(), HasSubstr(name));
    }
  });
}

TEST_P(Threads, HandlesComeAndGo) {
  std::vector<uint8_t> bytes = test::sealed(test::testModule());
  parallel(3, [&](int) {
    for (int i = 0; i < 3; ++i) {
      Device own(GetParam().c_str(), 2);
      Module loaded = Module::load(own, bytes.data(), bytes.size());
      std::vector<float> x(300, 1);
      std::vector<int64_t> dims{300};
      ASSERT_EQ(loaded.call("scale", {Argument::tensor(x.data(), dims), Argument::real(3)})[0].copy<float>()[299], 3);
    }
  });
}

TEST_P(Threads, ResultsDoNotDependOnTheNumberOfThreads) {
  std::vector<uint8_t> bytes = test::sealed(test::testModule());
  std::vector<float> x(10007);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = 1 / float(i + 1);
  }
  std::vector<int64_t> dims{int64_t(x.size())};
  std::vector<float> first;
  for (int count : {1, 2, 3, 8}) {
    Device own(GetParam().c_str(), count);
    Module loaded = Module::load(own, bytes.data(), bytes.size());
    auto y = loaded.call("scale", {Argument::tensor(x.data(), dims), Argument::real(0.3f)})[0].copy<float>();
    if (first.empty()) {
      first = y;
    }
    EXPECT_EQ(y, first);
  }
}

} // namespace
} // namespace kvc::cts
