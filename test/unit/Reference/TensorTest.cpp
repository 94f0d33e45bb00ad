//===- TensorTest.cpp - What graphs around caches use, in the oracle ------===//
#include "Harness.h"

#include <cmath>

using namespace kvc::reference;

namespace {
Tensor matrix(int64_t rows, std::vector<double> values) {
  const auto columns = static_cast<int64_t>(values.size()) / rows;
  return Tensor::ofFloats({rows, columns}, std::move(values));
}

class ReferenceTensor : public ::testing::Test {
protected:
  llvm::SmallVector<Datum> run(const std::string &text, const std::vector<Datum> &inputs) {
    auto results = oracle.run(text, inputs);
    EXPECT_FALSE(results.empty()) << oracle.errors;
    return results;
  }
  void fails(const std::string &text, const std::vector<Datum> &inputs, const std::string &message,
             Options options = {}) {
    oracle.errors.clear();
    EXPECT_TRUE(oracle.run(text, inputs, std::move(options)).empty());
    EXPECT_NE(oracle.errors.find(message), std::string::npos) << oracle.errors;
  }
  Oracle oracle;
};
} // namespace

TEST_F(ReferenceTensor, MatmulWithTransposedMap) {
  auto got = run(R"(
    #m = affine_map<(m, n, k) -> (m, k)>
    #n = affine_map<(m, n, k) -> (n, k)>
    #o = affine_map<(m, n, k) -> (m, n)>
    func.func @f(%x: tensor<?x2xf32>, %w: tensor<3x2xf32>) -> tensor<?x3xf32> {
      %c0 = arith.constant 0 : index
      %zero = arith.constant 0.0 : f32
      %rows = tensor.dim %x, %c0 : tensor<?x2xf32>
      %e = tensor.empty(%rows) : tensor<?x3xf32>
      %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x3xf32>) -> tensor<?x3xf32>
      %y = linalg.matmul indexing_maps = [#m, #n, #o] ins(%x, %w : tensor<?x2xf32>, tensor<3x2xf32>)
          outs(%z : tensor<?x3xf32>) -> tensor<?x3xf32>
      return %y : tensor<?x3xf32>
    })",
                 {matrix(2, {1, 2, 3, 4}), matrix(3, {1, 0, 0, 1, 10, 100})});
  ASSERT_EQ(got.size(), 1u);
  expectTensor(got[0], {2, 3}, {1, 2, 210, 3, 4, 430});
}

TEST_F(ReferenceTensor, WhatIsNotWrittenIsNaN) {
  auto got = run("func.func @f() -> tensor<2xf32> {\n  %e = tensor.empty() : tensor<2xf32>\n"
                 "  return %e : tensor<2xf32>\n}",
                 {});
  ASSERT_EQ(got.size(), 1u);
  EXPECT_TRUE(std::isnan(got[0].asTensor().floats[1]));
}

TEST_F(ReferenceTensor, GenericWithGatherIndexAndReduction) {
  // Row lookups of a table, plus the column; then sums of squares of each row.
  auto got = run(R"(
    #id = affine_map<(i, j) -> (i, j)>
    #row = affine_map<(i, j) -> (i)>
    func.func @f(%ids: tensor<?xi32>, %table: tensor<3x2xf32>) -> (tensor<?x2xf32>, tensor<?xf32>) {
      %c0 = arith.constant 0 : index
      %n = tensor.dim %ids, %c0 : tensor<?xi32>
      %e = tensor.empty(%n) : tensor<?x2xf32>
      %g = linalg.generic {indexing_maps = [#row, #id], iterator_types = ["parallel", "parallel"]}
          ins(%ids : tensor<?xi32>) outs(%e : tensor<?x2xf32>) {
      ^bb0(%id: i32, %o: f32):
        %r = arith.index_cast %id : i32 to index
        %j = linalg.index 1 : index
        %x = tensor.extract %table[%r, %j] : tensor<3x2xf32>
        %k = arith.index_cast %j : index to i32
        %f = arith.sitofp %k : i32 to f32
        %y = arith.addf %x, %f : f32
        linalg.yield %y : f32
      } -> tensor<?x2xf32>
      %zero = arith.constant 0.0 : f32
      %s = tensor.splat %zero[%n] : tensor<?xf32>
      %q = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
          ins(%g : tensor<?x2xf32>) outs(%s : tensor<?xf32>) {
      ^bb0(%x: f32, %acc: f32):
        %x2 = arith.mulf %x, %x : f32
        %t = arith.addf %acc, %x2 : f32
        linalg.yield %t : f32
      } -> tensor<?xf32>
      return %g, %q : tensor<?x2xf32>, tensor<?xf32>
    })",
                 {Tensor::ofInts({2}, {2, 0}), matrix(3, {1, 2, 3, 4, 5, 6})});
  ASSERT_EQ(got.size(), 2u);
  expectTensor(got[0], {2, 2}, {5, 7, 1, 3});
  expectTensor(got[1], {2}, {74, 10});
}

TEST_F(ReferenceTensor, ShapesAndSlices) {
  auto got = run(R"(
    func.func @f(%x: tensor<2x6xf32>, %i: index)
        -> (tensor<2x2x3xf32>, tensor<12xf32>, tensor<3xf32>, tensor<2x6xf32>, tensor<4x6xf32>, tensor<2x7xf32>) {
      %0 = tensor.expand_shape %x [[0], [1, 2]] output_shape [2, 2, 3] : tensor<2x6xf32> into tensor<2x2x3xf32>
      %1 = tensor.collapse_shape %x [[0, 1]] : tensor<2x6xf32> into tensor<12xf32>
      %2 = tensor.extract_slice %x[%i, 1] [1, 3] [1, 2] : tensor<2x6xf32> to tensor<3xf32>
      %3 = tensor.insert_slice %2 into %x[0, %i] [1, 3] [1, 1] : tensor<3xf32> into tensor<2x6xf32>
      %4 = tensor.concat dim(0) %x, %3 : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<4x6xf32>
      %pad = arith.constant -1.0 : f32
      %5 = tensor.pad %x low[0, 1] high[0, 0] {
      ^bb0(%a: index, %b: index):
        tensor.yield %pad : f32
      } : tensor<2x6xf32> to tensor<2x7xf32>
      return %0, %1, %2, %3, %4, %5 : tensor<2x2x3xf32>, tensor<12xf32>, tensor<3xf32>, tensor<2x6xf32>,
          tensor<4x6xf32>, tensor<2x7xf32>
    })",
                 {matrix(2, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}), Datum(int64_t(1))});
  ASSERT_EQ(got.size(), 6u);
  const std::vector<double> x{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  expectTensor(got[0], {2, 2, 3}, x);
  expectTensor(got[1], {12}, x);
  expectTensor(got[2], {3}, {7, 9, 11});
  expectTensor(got[3], {2, 6}, {0, 7, 9, 11, 4, 5, 6, 7, 8, 9, 10, 11});
  expectTensor(got[4], {4, 6}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0, 7, 9, 11, 4, 5, 6, 7, 8, 9, 10, 11});
  expectTensor(got[5], {2, 7}, {-1, 0, 1, 2, 3, 4, 5, -1, 6, 7, 8, 9, 10, 11});
}

TEST_F(ReferenceTensor, ControlFlowAndCalls) {
  auto got = run(R"(
    func.func private @twice(%x: i64) -> i64 {
      %y = arith.addi %x, %x : i64
      return %y : i64
    }
    func.func @f(%n: index) -> (i64, i64) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %one = arith.constant 1 : i64
      %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %one) -> i64 {
        %y = func.call @twice(%x) : (i64) -> i64
        scf.yield %y : i64
      }
      %limit = arith.constant 100 : i64
      %big = arith.cmpi sgt, %r, %limit : i64
      %s = scf.if %big -> i64 {
        scf.yield %limit : i64
      } else {
        scf.yield %r : i64
      }
      return %r, %s : i64, i64
    })",
                 {Datum(int64_t(8))});
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].asInt(), 256);
  EXPECT_EQ(got[1].asInt(), 100);
}

TEST_F(ReferenceTensor, IntegersWrapAndNarrowFloatsRound) {
  auto got = run(R"(
    func.func @f(%x: i8, %y: f32) -> (i8, i32, i32, f32, i1, i32) {
      %a = arith.addi %x, %x : i8
      %s = arith.extsi %a : i8 to i32
      %u = arith.extui %a : i8 to i32
      %h = arith.truncf %y : f32 to f16
      %w = arith.extf %h : f16 to f32
      %t = arith.cmpi ugt, %u, %s : i32
      %m = arith.extsi %t : i1 to i32
      return %a, %s, %u, %w, %t, %m : i8, i32, i32, f32, i1, i32
    })",
                 {Datum(int64_t(100)), Datum(2049.0)});
  ASSERT_EQ(got.size(), 6u);
  EXPECT_EQ(got[0].asInt(), -56);
  EXPECT_EQ(got[1].asInt(), -56);
  EXPECT_EQ(got[2].asInt(), 200);
  EXPECT_EQ(got[3].asFloat(), 2048);
  EXPECT_EQ(got[4].asInt(), 0);
  EXPECT_EQ(got[5].asInt(), 0);
}

TEST_F(ReferenceTensor, ErrorsInsteadOfCrashes) {
  const std::string extract = "func.func @f(%x: tensor<?xf32>, %i: index) -> f32 {\n"
                              "  %y = tensor.extract %x[%i] : tensor<?xf32>\n  return %y : f32\n}";
  fails(extract, {Tensor::ofFloats({2}, {1, 2}), Datum(int64_t(2))}, "expects an index inside [2], but got [2]");
  fails(extract, {Tensor::ofFloats({2}, {1, 2}), Datum(int64_t(-1))}, "but got [-1]");
  fails("func.func @f(%a: i32) -> i32 {\n  %z = arith.constant 0 : i32\n  %b = arith.divsi %a, %z : i32\n"
        "  return %b : i32\n}",
        {Datum(int64_t(1))}, "expects a division whose result exists, but got 1 by 0");
  fails("func.func @f(%n: index) -> tensor<?x1024xf32> {\n  %e = tensor.empty(%n) : tensor<?x1024xf32>\n"
        "  return %e : tensor<?x1024xf32>\n}",
        {Datum(int64_t(1) << 50)}, "expects a tensor of at most");
  fails("func.func @f() {\n  call @f() : () -> ()\n  return\n}", {}, "expects calls nested at most 256 deep");
  fails("func.func @f(%n: index) {\n  %c0 = arith.constant 0 : index\n  scf.for %i = %c0 to %n step %c0 {\n  }\n"
        "  return\n}",
        {Datum(int64_t(5))}, "expects a step above 0, but got 0");
  fails(
      "func.func @f() -> tensor<4xf32> {\n  %w = kvcache.weight \"w\" : tensor<4xf32>\n  return %w : tensor<4xf32>\n}",
      {}, "expects a model file with weight \"w\"");
  fails("func.func @f(%x: f32) -> vector<2xf32> {\n  %v = vector.broadcast %x : f32 to vector<2xf32>\n"
        "  return %v : vector<2xf32>\n}",
        {Datum(1.0)}, "that the reference oracle knows, but got 'vector.broadcast'");
  fails("func.func private @f()", {}, "expects a function with a body");
}

TEST_F(ReferenceTensor, WeightsComeFromTheCaller) {
  Options options;
  options.weights = [](kvc::kvcache::WeightOp op) -> mlir::FailureOr<Datum> {
    return Datum(Tensor::ofFloats(op.getType().getShape(), {1, 2}));
  };
  auto results = oracle.run("func.func @f() -> tensor<2xf32> {\n  %w = kvcache.weight \"w\" : tensor<2xf32>\n"
                            "  return %w : tensor<2xf32>\n}",
                            {}, options);
  ASSERT_EQ(results.size(), 1u) << oracle.errors;
  expectTensor(results[0], {2}, {1, 2});
  // A provider that answers in another shape is an error, not a wrong result.
  options.weights = [](kvc::kvcache::WeightOp) -> mlir::FailureOr<Datum> {
    return Datum(Tensor::ofFloats({3}, {1, 2, 3}));
  };
  fails(
      "func.func @f() -> tensor<2xf32> {\n  %w = kvcache.weight \"w\" : tensor<2xf32>\n  return %w : tensor<2xf32>\n}",
      {}, "but got shape [3]", options);
}
