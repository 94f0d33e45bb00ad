//===- CallTest.cpp - Conformance: modules and calls ----------------------===//
//
// Tensors, scalars, views, constants, weights, sizes.
//
//===----------------------------------------------------------------------===//
#include "Conformance.h"
#include "gguf/Builder.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace kvc::cts {
namespace {

class Calls : public Conformance {};
KVC_INSTANTIATE_FOR_DEVICES(Calls);

TEST_P(Calls, ScalesTensorsOfEverySize) {
  for (int64_t n : {0, 1, 63, 64, 65, 1000, 100000}) {
    std::vector<float> x(static_cast<size_t>(n));
    std::iota(x.begin(), x.end(), 1.0f);
    std::vector<int64_t> dims{n};
    auto results = module->call("scale", {Argument::tensor(x.data(), dims), Argument::real(2)});
    EXPECT_THAT(results[0].dims(), ElementsAre(n));
    std::vector<float> y = results[0].copy<float>();
    ASSERT_EQ(y.size(), x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(y[i], 2 * x[i]);
    }
  }
}

TEST_P(Calls, TakesArgumentsByName) {
  std::vector<float> x{1, 2};
  std::vector<int64_t> dims{2};
  auto results = module->call("scale", {Argument::real(3).named("factor"), Argument::tensor(x.data(), dims)});
  EXPECT_THAT(results[0].copy<float>(), ElementsAre(3, 6));
  expectError(KVC_INVALID_ARGUMENT, "expects no argument 'y'",
              [&] { module->call("scale", {Argument::real(3).named("y"), Argument::tensor(x.data(), dims)}); });
  expectError(KVC_INVALID_ARGUMENT, "expects only one argument 'factor'",
              [&] { module->call("scale", {Argument::real(3).named("factor"), Argument::real(3).named("factor")}); });
}

TEST_P(Calls, CopiesMisalignedTensors) {
  std::vector<char> bytes(4 * sizeof(float) + 1);
  const float x[4] = {1, 2, 3, 4};
  memcpy(bytes.data() + 1, x, sizeof(x));
  std::vector<int64_t> dims{4};
  Argument argument = Argument::tensor(x, dims);
  argument.kvc_argument_t::tensor.data = bytes.data() + 1;
  EXPECT_THAT(module->call("scale", {argument, Argument::real(2)})[0].copy<float>(), ElementsAre(2, 4, 6, 8));
}

TEST_P(Calls, ChainsBuffersAndReturnsViews) {
  std::vector<float> x{1, 2, 3, 4, 5};
  std::vector<int64_t> dims{5};
  for (int repeat = 0; repeat < 3; ++repeat) {
    auto results = module->call("chain", {Argument::tensor(x.data(), dims), Argument::real(2)});
    EXPECT_THAT(results[0].copy<float>(), ElementsAre(8, 16, 24, 32, 40));
    EXPECT_THAT(results[1].copy<float>(), ElementsAre(12, 16, 20));
    EXPECT_THAT(results[2].copy<float>(), ElementsAre(4, 8, 12, 16, 20));
  }
}

TEST_P(Calls, AddsAConstantThroughScratch) {
  std::vector<float> x{1, 2, 3, 4};
  std::vector<int64_t> dims{4};
  EXPECT_THAT(module->call("add_constant", {Argument::tensor(x.data(), dims)})[0].copy<float>(),
              ElementsAre(11, 22, 33, 44));
}

TEST_P(Calls, ProfilesDispatches) {
  std::vector<float> x{1, 2, 3};
  std::vector<int64_t> dims{3};
  auto scale = [&] { module->call("scale", {Argument::tensor(x.data(), dims), Argument::real(2)}); };
  scale();
  EXPECT_EQ(device->takeProfile(), "[]");
  device->setProfiling(true);
  scale();
  scale();
  device->setProfiling(false);
  scale();
  const std::string profile = device->takeProfile();
  const std::string entry = "{\"function\":\"scale\",\"kernel\":\"scale\",\"device\":\"" + GetParam() + "\",\"items\":";
  EXPECT_EQ(profile.find("[" + entry), 0u) << profile;
  const size_t second = profile.find("," + entry);
  ASSERT_NE(second, std::string::npos) << profile;
  EXPECT_EQ(profile.find(entry, second + 2), std::string::npos) << profile;
  EXPECT_EQ(profile.find("\"counters\":{\"") != std::string::npos, GetParam().starts_with("sim:")) << profile;
  EXPECT_EQ(device->takeProfile(), "[]");
}

TEST_P(Calls, PassesScalars) {
  auto results = module->call("scalars", {Argument::integer(-5000000000), Argument::integer(-7), Argument::real(0.5)});
  EXPECT_THAT(results[0].copy<double>(), ElementsAre(-5000000000.0, -7, 0.5));
  EXPECT_EQ(results[1].integer(), -5000000007);
  EXPECT_EQ(results[2].real(), 0.5f);
  expectError(KVC_OUT_OF_RANGE, "expects an i32", [&] {
    module->call("scalars", {Argument::integer(0), Argument::integer(int64_t(1) << 31), Argument::real(0)});
  });
  expectError(KVC_OUT_OF_RANGE, "overflows", [&] {
    module->call("scalars", {Argument::integer(INT64_MAX), Argument::integer(1), Argument::real(0)});
  });
}

TEST_P(Calls, PassesNaNAndInfinityThrough) {
  std::vector<float> x{NAN, INFINITY, -INFINITY};
  std::vector<int64_t> dims{3};
  auto y = module->call("scale", {Argument::tensor(x.data(), dims), Argument::real(2)})[0].copy<float>();
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], INFINITY);
  EXPECT_EQ(y[2], -INFINITY);
}

TEST_P(Calls, ReadsSizesFromArguments) {
  std::vector<int64_t> dims{2};
  auto call = [&](int32_t a, int32_t b) {
    std::vector<int32_t> sizes{a, b};
    return module->call("sized", {Argument::tensor(sizes.data(), dims)})[0].dims();
  };
  EXPECT_THAT(call(3, 5), ElementsAre(3, 5));
  EXPECT_THAT(call(0, 2000000000), ElementsAre(0, 2000000000));
  expectError(KVC_INVALID_ARGUMENT, "not negative", [&] { call(-3, 5); });
  expectError(KVC_OUT_OF_RANGE, "at most", [&] { call(2000000000, 2000000000); });
  std::vector<int32_t> one{1};
  std::vector<int64_t> oneDim{1};
  expectError(KVC_OUT_OF_RANGE, "reads element 1",
              [&] { module->call("sized", {Argument::tensor(one.data(), oneDim)}); });
}

TEST_P(Calls, CountsRowsOfBatches) {
  Cache held = cache(0, 4, 8);
  auto count = [&](const std::vector<int32_t> &sequences, const std::vector<int32_t> &rows) {
    BatchHandle batch = held.next(sequences, rows);
    std::vector<int64_t> counted;
    for (const Value &value : module->call("count_rows", {Argument::batch(batch.get())})) {
      counted.push_back(value.integer());
    }
    return counted;
  };
  EXPECT_THAT(count({0, 1, 2, 3}, {1, 1, 1, 1}), ElementsAre(4, 4, 1, 4));
  EXPECT_THAT(count({2, 0, 3, 1}, {1, 0, 5, 1}), ElementsAre(4, 7, 5, 2));
  EXPECT_THAT(count({1, 3}, {2, 3}), ElementsAre(2, 5, 3, 0));
  EXPECT_THAT(count({}, {}), ElementsAre(0, 0, 0, 0));
}

TEST_P(Calls, BindsWeights) {
  std::vector<float> x{1, 2, 3, 4};
  std::vector<int64_t> dims{4};
  expectError(KVC_INVALID_ARGUMENT, "bind a model file",
              [&] { module->call("add_weight", {Argument::tensor(x.data(), dims)}); });
  std::filesystem::path folder = std::filesystem::path(::testing::TempDir());
  auto write = [&](const std::string &name, const std::string &tensor, uint32_t type, float bias) {
    std::vector<float> values(4, bias);
    gguf::test::Builder builder;
    builder.key("general.architecture", "test");
    builder.tensor(tensor, {4}, type, std::string(reinterpret_cast<const char *>(values.data()), type == 0 ? 16 : 8));
    std::string path = folder / (std::to_string(::getpid()) + name);
    std::ofstream(path, std::ios::binary) << builder.finish();
    return path;
  };
  std::string good = write("good.gguf", "bias", 0, 7), other = write("other.gguf", "weights", 0, 7),
              half = write("half.gguf", "bias", 1, 7);
  expectError(KVC_NOT_FOUND, "expects a tensor 'bias'", [&] { module->bindWeights(other); });
  expectError(KVC_INVALID_ARGUMENT, "expects 16 bytes of type F32", [&] { module->bindWeights(half); });
  expectError(KVC_NOT_FOUND, "none.gguf", [&] { module->bindWeights(folder / "none.gguf"); });
  module->bindWeights(good);
  EXPECT_THAT(module->call("add_weight", {Argument::tensor(x.data(), dims)})[0].copy<float>(),
              ElementsAre(8, 9, 10, 11));
  for (const std::string &path : {good, other, half}) {
    std::filesystem::remove(path);
  }
}

TEST_P(Calls, DescribesItsFunctions) {
  EXPECT_STREQ(kvc_module_provenance(module->get()), "tests of the runtime");
  size_t append = module->function("append");
  EXPECT_STREQ(kvc_module_function_name(module->get(), append), "append");
  kvc_port_t port;
  check(kvc_module_argument(module->get(), append, 0, &port));
  EXPECT_EQ(port.kind, KVC_CACHE);
  EXPECT_EQ(port.cache_spec, 0u);
  check(kvc_module_argument(module->get(), append, 1, &port));
  EXPECT_EQ(port.kind, KVC_BATCH);
  check(kvc_module_argument(module->get(), append, 2, &port));
  EXPECT_EQ(port.kind, KVC_TENSOR);
  EXPECT_STREQ(port.name, "rows");
  EXPECT_EQ(port.dtype, KVC_F32);
  ASSERT_EQ(port.rank, 2);
  EXPECT_EQ(port.dims[0], -1);
  EXPECT_EQ(port.dims[1], 4);
  check(kvc_module_result(module->get(), append, 0, &port));
  EXPECT_EQ(port.kind, KVC_CACHE);
  kvc_cache_spec_t spec;
  ASSERT_EQ(kvc_module_cache_spec_count(module->get()), 3u);
  check(kvc_module_cache_spec(module->get(), 1, &spec));
  EXPECT_STREQ(spec.name, "sealed");
  EXPECT_EQ(spec.page_bytes, 64u);
  EXPECT_EQ(spec.tail_slots, 8);
}

TEST_P(Calls, KeepsValuesAfterTheModuleIsGone) {
  std::vector<float> x{1, 2};
  std::vector<int64_t> dims{2};
  auto results = module->call("scale", {Argument::tensor(x.data(), dims), Argument::real(2)});
  module.reset();
  device.reset();
  EXPECT_THAT(results[0].copy<float>(), ElementsAre(2, 4));
}

} // namespace
} // namespace kvc::cts
