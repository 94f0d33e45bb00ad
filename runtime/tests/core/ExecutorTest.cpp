//===- ExecutorTest.cpp - Plans on a device that runs kernels late --------===//
//
// A device may return from a launch before the kernel has run. LateDevice runs
// kernels as late as it may: when somebody waits or copies. What a plan does
// must not depend on it, and a step of a model must not wait for every layer.
//
//===----------------------------------------------------------------------===//
#include "core/Executor.h"
#include "support/TestModule.h"

#include <cstring>
#include <functional>
#include <gmock/gmock.h>

namespace kvc::rt {
namespace {

using testing::ElementsAre;

class LateDevice final : public Device {
public:
  explicit LateDevice(std::shared_ptr<Device> real) : real(std::move(real)) {}

  const std::string &name() const override { return real->name(); }
  Result<int> rankTarget(std::string_view target) const override { return real->rankTarget(target); }
  const std::string &forcedTarget() const override { return real->forcedTarget(); }
  Result<void *> allocate(uint64_t bytes, MemoryKind kind) override { return real->allocate(bytes, kind); }
  void free(void *memory, uint64_t bytes, MemoryKind kind) override {
    // As a driver does: memory goes when nothing uses it any more.
    runAll();
    real->free(memory, bytes, kind);
  }
  bool isHostMemory() const override { return false; }
  Status copyToDevice(void *destination, const void *source, uint64_t bytes) override {
    runAll();
    return real->copyToDevice(destination, source, bytes);
  }
  Status copyToHost(void *destination, const void *source, uint64_t bytes) override {
    runAll();
    return real->copyToHost(destination, source, bytes);
  }
  Status copyOnDevice(void *destination, const void *source, uint64_t bytes) override {
    runAll();
    return real->copyOnDevice(destination, source, bytes);
  }
  Result<std::shared_ptr<Code>> load(CodeFormat format, std::span<const uint8_t> bytes, std::string_view assembly,
                                     const std::vector<KernelInfo> &kernels) override {
    return real->load(format, bytes, assembly, kernels);
  }
  Status launch(const Code &code, size_t kernel, std::span<const uint64_t> words, int64_t items,
                LaunchReport *) override {
    launched.push_back([this, &code, kernel, words = std::vector<uint64_t>(words.begin(), words.end()), items] {
      ASSERT_TRUE(real->launch(code, kernel, words, items).ok());
    });
    return {};
  }
  Status synchronize() override {
    ++waits;
    runAll();
    return {};
  }

  int waits = 0;
  std::vector<std::function<void()>> launched;

private:
  void runAll() {
    for (std::function<void()> &kernel : std::exchange(launched, {})) {
      kernel();
    }
  }

  std::shared_ptr<Device> real;
};

class Executor : public testing::Test {
protected:
  void SetUp() override {
    device = std::make_shared<LateDevice>(*createDevice("cpu", {1, ""}));
    Result<artifact::Artifact> artifact = artifact::Artifact::fromBytes(test::sealed(test::testModule()));
    ASSERT_TRUE(artifact.ok()) << artifact.message();
    Result<std::shared_ptr<Module>> created = Module::create(device, *std::move(artifact), "");
    ASSERT_TRUE(created.ok()) << created.message();
    module = *created;
  }

  std::shared_ptr<Cache> cache() {
    CacheOptions options;
    options.sequences = 2;
    options.maxLength = 64;
    return *Cache::create(device, module->cacheSpecs()[0], options);
  }
  std::shared_ptr<Batch> batch(std::vector<int32_t> rows) {
    std::vector<int32_t> sequences(rows.size()), positions;
    for (size_t i = 0; i < rows.size(); ++i) {
      sequences[i] = int32_t(i);
      positions.resize(positions.size() + size_t(rows[i]));
    }
    return *Batch::create(device, sequences, rows, positions);
  }
  static Argument of(std::shared_ptr<Cache> cache) {
    Argument argument;
    argument.kind = Argument::Kind::cache;
    argument.cache = std::move(cache);
    return argument;
  }
  static Argument of(std::shared_ptr<Batch> batch) {
    Argument argument;
    argument.kind = Argument::Kind::batch;
    argument.batch = std::move(batch);
    return argument;
  }
  static Argument of(int64_t integer) {
    Argument argument;
    argument.kind = Argument::Kind::integer;
    argument.integer = integer;
    return argument;
  }
  /// Rows of ones.
  Argument rows(int64_t count) {
    ones.assign(size_t(count) * 4, 1.0f);
    Argument argument;
    argument.dims = {count, 4};
    argument.data = ones.data();
    return argument;
  }
  /// Runs a function; `waits` of the device count from here.
  std::vector<CallResult> call(const char *name, std::vector<Argument> arguments) {
    device->waits = 0;
    std::vector<CallResult> results;
    Status status = run(module, *module->findFunction(name), arguments, results);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(device->launched.empty());
    return results;
  }
  static std::vector<float> floats(const CallResult &result) {
    const float *data = static_cast<const float *>(result.data());
    return {data, data + result.dims[0]};
  }

  std::shared_ptr<LateDevice> device;
  std::shared_ptr<Module> module;
  std::vector<float> ones;
};

TEST_F(Executor, LayersAreLaunchedWithoutWaiting) {
  std::shared_ptr<Cache> first = cache(), second = cache();
  for (float times : {1.0f, 2.0f, 3.0f}) {
    auto results = call("layers", {of(first), of(second), of(batch({2, 1})), rows(3)});
    EXPECT_THAT(floats(results[2]), ElementsAre(8 * times, 4 * times));
    EXPECT_EQ(device->waits, 1) << "the one at the end";
  }
}

TEST_F(Executor, LengthsAfterAnAppendAreKnown) {
  std::shared_ptr<Cache> c = cache();
  for (float times : {1.0f, 2.0f}) {
    auto results = call("append_sum", {of(c), of(batch({5, 2})), rows(7)});
    EXPECT_THAT(floats(results[1]), ElementsAre(20 * times, 8 * times));
    EXPECT_EQ(device->waits, 1);
  }
}

TEST_F(Executor, WaitsBeforeTheHostReadsLengths) {
  std::shared_ptr<Cache> c = cache();
  call("append", {of(c), of(batch({9, 3})), rows(12)});
  // The release behind the kernel gives back what it cut off.
  call("keep", {of(c), of(batch({1, 1})), of(4)});
  EXPECT_EQ(device->waits, 2);
  EXPECT_EQ(*c->length(0, 0), 4);
  EXPECT_EQ(*c->length(1, 0), 3);
  EXPECT_EQ(c->statistics().pagesUsed, 2);
}

TEST_F(Executor, LengthsAreNotGuessedWhereSlotsAreReplaced) {
  std::shared_ptr<Cache> c = cache();
  auto results = call("replace", {of(c), of(batch({9, 3})), rows(12), of(4)});
  EXPECT_EQ(results[1].integer, 4);
}

TEST_F(Executor, ClonesStayAsTheyWere) {
  std::shared_ptr<Cache> c = cache();
  call("append", {of(c), of(batch({3})), rows(3)});
  auto results = call("keep_old", {of(c), of(batch({2})), rows(2)});
  EXPECT_EQ(results[2].integer, 5);
  EXPECT_EQ(results[3].integer, 3);
  EXPECT_EQ(*results[1].cache->length(0, 0), 3);
}

TEST_F(Executor, NothingRunsOnAfterAFailure) {
  std::shared_ptr<Cache> c = cache();
  std::vector<CallResult> results;
  Status status = run(module, *module->findFunction("broken"), {of(c), of(batch({1}))}, results);
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(device->launched.empty());
}

} // namespace
} // namespace kvc::rt
