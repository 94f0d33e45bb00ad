//===- RowsTest.cpp - Kernels over rows against plain loops ---------------===//
#include "Harness.h"

#include "gguf/BlockFormats.h"

#include <cmath>
#include <random>

using namespace kvc;
using namespace kvc::test;

namespace {

class RowsTest : public ::testing::TestWithParam<llvm::StringLiteral> {};

/// Rows of an encoded table, by clamped ids, and their RMS norm: one kernel of two results.
TEST_P(RowsTest, GathersDecodesAndNorms) {
  Kernel kernel(R"(
    #both = affine_map<(i, j) -> (i, j)>
    #row = affine_map<(i, j) -> (i)>
    #column = affine_map<(i, j) -> (j)>
    func.func @f(%ids: tensor<?xi32>, %scale: tensor<96xf32>) -> (tensor<?x96xf32>, tensor<?x96xf32>) {
      %table = kvcache.weight "table" : tensor<10x96xf32, #kvcache.encoded<"q5_1">>
      %c0 = arith.constant 0 : index
      %c9 = arith.constant 9 : index
      %zero = arith.constant 0.0 : f32
      %width = arith.constant 96.0 : f32
      %epsilon = arith.constant 1.0e-5 : f32
      %n = tensor.dim %ids, %c0 : tensor<?xi32>
      %e = tensor.empty(%n) : tensor<?x96xf32>
      %x = linalg.generic {indexing_maps = [#row, #both], iterator_types = ["parallel", "parallel"]}
          ins(%ids : tensor<?xi32>) outs(%e : tensor<?x96xf32>) {
      ^bb0(%id: i32, %o: f32):
        %i = arith.index_cast %id : i32 to index
        %low = arith.maxsi %i, %c0 : index
        %r = arith.minsi %low, %c9 : index
        %c = linalg.index 1 : index
        %v = tensor.extract %table[%r, %c] : tensor<10x96xf32, #kvcache.encoded<"q5_1">>
        linalg.yield %v : f32
      } -> tensor<?x96xf32>
      %es = tensor.empty(%n) : tensor<?xf32>
      %start = linalg.fill ins(%zero : f32) outs(%es : tensor<?xf32>) -> tensor<?xf32>
      %s = linalg.generic {indexing_maps = [#both, #row], iterator_types = ["parallel", "reduction"]}
          ins(%x : tensor<?x96xf32>) outs(%start : tensor<?xf32>) {
      ^bb0(%a: f32, %o: f32):
        %m = arith.mulf %a, %a : f32
        %p = arith.addf %o, %m : f32
        linalg.yield %p : f32
      } -> tensor<?xf32>
      %y = linalg.generic {indexing_maps = [#both, #row, #column, #both], iterator_types = ["parallel", "parallel"]}
          ins(%x, %s, %scale : tensor<?x96xf32>, tensor<?xf32>, tensor<96xf32>) outs(%e : tensor<?x96xf32>) {
      ^bb0(%a: f32, %b: f32, %c: f32, %o: f32):
        %mean = arith.divf %b, %width : f32
        %shifted = arith.addf %mean, %epsilon : f32
        %root = math.rsqrt %shifted : f32
        %m = arith.mulf %a, %root : f32
        %p = arith.mulf %m, %c : f32
        linalg.yield %p : f32
      } -> tensor<?x96xf32>
      return %x, %y : tensor<?x96xf32>, tensor<?x96xf32>
    })",
                GetParam());
  ASSERT_TRUE(bool(kernel));
  constexpr int64_t width = 96, entries = 10;
  const gguf::BlockFormat &format = *gguf::findBlockFormat("Q5_1");
  std::mt19937 random(3);
  std::vector<std::byte> table(entries * width / 32 * format.bytesPerBlock);
  for (std::byte &byte : table) {
    byte = std::byte(random());
  }
  for (size_t block = 0; block < table.size(); block += format.bytesPerBlock) {
    uint16_t d = toHalf(0.05f), m = toHalf(-0.7f);
    std::memcpy(&table[block], &d, 2);
    std::memcpy(&table[block + 2], &m, 2);
  }
  std::vector<float> rows(entries * width), scale(width);
  ASSERT_TRUE(gguf::dequantizeRow(format, table, rows).ok());
  for (float &value : scale) {
    value = float(random() % 100) / 50;
  }
  std::vector<int32_t> ids = {3, 9, -4, 0, 1000, 7};
  int64_t n = int64_t(ids.size());
  std::vector<float> x(ids.size() * width, NAN), y(ids.size() * width, NAN);
  kernel({{ids.data(), {n}},
          {table.data(), {entries, width / 32 * 24}},
          {scale.data(), {width}},
          {x.data(), {n, width}},
          {y.data(), {n, width}}},
         2);
  for (int64_t i = 0; i < n; ++i) {
    const float *want = &rows[std::clamp<int64_t>(ids[i], 0, entries - 1) * width];
    double sum = 0;
    for (int64_t j = 0; j < width; ++j) {
      ASSERT_EQ(x[i * width + j], want[j]) << i << ", " << j;
      sum += double(want[j]) * want[j];
    }
    for (int64_t j = 0; j < width; ++j) {
      double norm = want[j] / std::sqrt(sum / width + 1e-5) * scale[j];
      ASSERT_NEAR(y[i * width + j], norm, 1e-5 * std::max(1.0, std::abs(norm))) << i << ", " << j;
    }
  }
}

/// Rows that fill no vector: the largest element of each, and an operation with exp, an index and a column vector.
TEST_P(RowsTest, ReducesAndMapsRaggedRows) {
  Kernel kernel(R"(
    #both = affine_map<(i, j) -> (i, j)>
    #row = affine_map<(i, j) -> (i)>
    #column = affine_map<(i, j) -> (j)>
    func.func @f(%x: tensor<?x37xf32>, %bias: tensor<37xf32>) -> tensor<?x37xf32> {
      %c0 = arith.constant 0 : index
      %low = arith.constant 0xFF800000 : f32
      %n = tensor.dim %x, %c0 : tensor<?x37xf32>
      %em = tensor.empty(%n) : tensor<?xf32>
      %start = linalg.fill ins(%low : f32) outs(%em : tensor<?xf32>) -> tensor<?xf32>
      %max = linalg.generic {indexing_maps = [#both, #row], iterator_types = ["parallel", "reduction"]}
          ins(%x : tensor<?x37xf32>) outs(%start : tensor<?xf32>) {
      ^bb0(%a: f32, %o: f32):
        %m = arith.maximumf %a, %o : f32
        linalg.yield %m : f32
      } -> tensor<?xf32>
      %e = tensor.empty(%n) : tensor<?x37xf32>
      %y = linalg.generic {indexing_maps = [#both, #row, #column, #both], iterator_types = ["parallel", "parallel"]}
          ins(%x, %max, %bias : tensor<?x37xf32>, tensor<?xf32>, tensor<37xf32>) outs(%e : tensor<?x37xf32>) {
      ^bb0(%a: f32, %m: f32, %b: f32, %o: f32):
        %d = arith.subf %a, %m : f32
        %p = math.exp %d : f32
        %j = linalg.index 1 : index
        %k = arith.index_cast %j : index to i32
        %f = arith.sitofp %k : i32 to f32
        %s = arith.addf %p, %f : f32
        %t = arith.addf %s, %b : f32
        linalg.yield %t : f32
      } -> tensor<?x37xf32>
      return %y : tensor<?x37xf32>
    })",
                GetParam());
  ASSERT_TRUE(bool(kernel));
  constexpr int64_t width = 37, n = 5;
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> x(n * width), bias(width), y(n * width, NAN);
  for (float &value : x) {
    value = normal(random);
  }
  for (float &value : bias) {
    value = normal(random);
  }
  kernel({{x.data(), {n, width}}, {bias.data(), {width}}, {y.data(), {n, width}}}, 2);
  for (int64_t i = 0; i < n; ++i) {
    float max = *std::max_element(&x[i * width], &x[i * width] + width);
    for (int64_t j = 0; j < width; ++j) {
      double want = std::exp(double(x[i * width + j]) - max) + double(j) + bias[j];
      ASSERT_NEAR(y[i * width + j], want, 4e-6 * std::max(1.0, std::abs(want))) << i << ", " << j;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, RowsTest, ::testing::ValuesIn(targets), [](const auto &info) {
  std::string name = info.param.str();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

} // namespace
