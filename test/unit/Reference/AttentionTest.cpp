//===- AttentionTest.cpp - Attention of the oracle against hand-made values ===//
#include "Harness.h"

#include <cmath>

using namespace kvc::reference;

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double notANumber = std::numeric_limits<double>::quiet_NaN();

/// One KV head, one query head, two key channels, one value channel, f32.
constexpr const char *kv = "!kvcache.cache<heads = 1, dim = 2, v_dim = 1, page = 2, k = f32, v = f32>";

/// Appends k, v and attends: (q, k, v, batch, cache) -> (out, lse).
std::string attend(const std::string &type, const std::string &attributes, const std::string &score = "") {
  return "func.func @f(%q: tensor<?x1x2xf32>, %k: tensor<?x1x2xf32>, %v: tensor<?x1x1xf32>, %b: !kvcache.batch, "
         "%c: " +
         type +
         ") -> (tensor<?x1x1xf32>, tensor<?x1xf32>) {\n"
         "  %d = kvcache.append %c, %k, %v at %b : " +
         type +
         ", tensor<?x1x2xf32>, tensor<?x1x1xf32>\n"
         "  %o, %l = kvcache.attention %q over %d at %b returns (out, lse) {scale = 1.0 : f32" +
         attributes + "} " + score + " : (tensor<?x1x2xf32>, " + type +
         ", !kvcache.batch) -> (tensor<?x1x1xf32>, tensor<?x1xf32>)\n"
         "  return %o, %l : tensor<?x1x1xf32>, tensor<?x1xf32>\n}";
}

Tensor rows(std::vector<double> values, int64_t channels) {
  const auto count = static_cast<int64_t>(values.size()) / channels;
  return Tensor::ofFloats({count, 1, channels}, std::move(values));
}
} // namespace

TEST(ReferenceAttention, OneKeyGivesItsValue) {
  Oracle oracle;
  auto got =
      oracle.run(attend(kv, ""), {rows({2, 3}, 2), rows({5, 7}, 2), rows({11}, 1), rowsAt(0, 1), oracle.cache(kv)});
  ASSERT_EQ(got.size(), 2u) << oracle.errors;
  expectTensor(got[0], {1, 1, 1}, {11});
  expectTensor(got[1], {1, 1}, {2 * 5 + 3 * 7});
}

TEST(ReferenceAttention, TwoKeysInProportionThreeToOne) {
  Oracle oracle;
  // Scores log 3 and 0: weights 3/4 and 1/4.
  auto got = oracle.run(attend(kv, ""), {rows({std::log(3.0), 0, 0, 0}, 2), rows({1, 0, 0, 1}, 2), rows({1, 5}, 1),
                                         rowsAt(0, 2), oracle.cache(kv)});
  ASSERT_EQ(got.size(), 2u) << oracle.errors;
  expectTensor(got[0], {2, 1, 1}, {2, 3});
  expectTensor(got[1], {2, 1}, {std::log(4.0), std::log(2.0)});
}

TEST(ReferenceAttention, CausalIsAlignedAtTheEnd) {
  Oracle oracle;
  auto got = oracle.run(attend(kv, ", causal"), {rows({0, 0, 0, 0, 0, 0}, 2), rows({1, 0, 0, 1, 1, 1}, 2),
                                                 rows({3, 6, 12}, 1), rowsAt(0, 3), oracle.cache(kv)});
  ASSERT_EQ(got.size(), 2u) << oracle.errors;
  expectTensor(got[0], {3, 1, 1}, {3, 4.5, 7});
  expectTensor(got[1], {3, 1}, {0, std::log(2.0), std::log(3.0)});
}

TEST(ReferenceAttention, WindowAndSinksAreInPositions) {
  Oracle oracle;
  auto got = oracle.run(attend(kv, ", causal, window = 2 : i64, sinks = 1 : i64"),
                        {rows(std::vector<double>(10, 0.0), 2), rows(std::vector<double>(10, 0.0), 2),
                         rows({1, 2, 4, 8, 16}, 1), rowsAt(0, 5), oracle.cache(kv)});
  ASSERT_EQ(got.size(), 2u) << oracle.errors;
  expectTensor(got[0], {5, 1, 1}, {1, 1.5, 7.0 / 3, 13.0 / 3, 25.0 / 3});
}

TEST(ReferenceAttention, RowThatSeesNothingGivesZeroAndMinusInfinity) {
  Oracle oracle;
  // Positions are stored: the only key stands after the row.
  const char *text = R"(
    !kv = !kvcache.cache<heads = 1, dim = 2, v_dim = 1, page = 2, k = f32, v = f32, positions = stored>
    func.func @f(%q: tensor<?x1x2xf32>, %k: tensor<?x1x2xf32>, %v: tensor<?x1x1xf32>, %later: !kvcache.batch,
                 %now: !kvcache.batch, %c: !kv) -> (tensor<?x1x1xf32>, tensor<?x1xf32>) {
      %d = kvcache.append %c, %k, %v at %later : !kv, tensor<?x1x2xf32>, tensor<?x1x1xf32>
      %o, %l = kvcache.attention %q over %d at %now returns (out, lse) {scale = 1.0 : f32, causal}
          : (tensor<?x1x2xf32>, !kv, !kvcache.batch) -> (tensor<?x1x1xf32>, tensor<?x1xf32>)
      return %o, %l : tensor<?x1x1xf32>, tensor<?x1xf32>
    })";
  auto cache = oracle.cache("!kvcache.cache<heads = 1, dim = 2, v_dim = 1, page = 2, k = f32, v = f32, "
                            "positions = stored>");
  auto got = oracle.run(text, {rows({1, 1}, 2), rows({notANumber, infinity}, 2), rows({notANumber}, 1), rowsAt(9, 1),
                               rowsAt(3, 1), cache});
  ASSERT_EQ(got.size(), 2u) << oracle.errors;
  expectTensor(got[0], {1, 1, 1}, {0});
  expectTensor(got[1], {1, 1}, {-infinity});
}

TEST(ReferenceAttention, NothingAtAll) {
  Oracle oracle;
  auto got = oracle.run(attend(kv, ""), {rows({}, 2), rows({}, 2), rows({}, 1), Batch{{0}, {}, {}}, oracle.cache(kv)});
  ASSERT_EQ(got.size(), 2u) << oracle.errors;
  expectTensor(got[0], {0, 1, 1}, {});
  got = oracle.run(attend(kv, ""), {rows({}, 2), rows({}, 2), rows({}, 1), rowsAt(0, 0), oracle.cache(kv)});
  ASSERT_EQ(got.size(), 2u) << oracle.errors;
  expectTensor(got[1], {0, 1}, {});
}

TEST(ReferenceAttention, VeryNegativeScoresAreNotMasked) {
  Oracle oracle;
  auto got = oracle.run(attend(kv, ""), {rows({-1e30, 0, -1e30, 0}, 2), rows({1, 0, 1, 0}, 2), rows({2, 4}, 1),
                                         rowsAt(0, 2), oracle.cache(kv)});
  ASSERT_EQ(got.size(), 2u) << oracle.errors;
  expectTensor(got[0], {2, 1, 1}, {3, 3});
}

TEST(ReferenceAttention, NaNOfAVisibleKeyReachesItsRowsOnly) {
  Oracle oracle;
  auto got = oracle.run(attend(kv, ", causal"), {rows({1, 0, 1, 0}, 2), rows({1, 0, notANumber, 0}, 2), rows({2, 4}, 1),
                                                 rowsAt(0, 2), oracle.cache(kv)});
  ASSERT_EQ(got.size(), 2u) << oracle.errors;
  expectTensor(got[0], {2, 1, 1}, {2, notANumber});
}

TEST(ReferenceAttention, ScoreRegionSeesItsArguments) {
  Oracle oracle;
  // score + 100 * query position + 10 * key position: softmax is of 10 * key position; lse has the rest.
  const char *score = R"(score {
    ^bb0(%s: f32, %e: index, %h: index, %qp: index, %kp: index):
      %i = arith.index_cast %qp : index to i32
      %j = arith.index_cast %kp : index to i32
      %a = arith.sitofp %i : i32 to f32
      %g = arith.sitofp %j : i32 to f32
      %hundred = arith.constant 100.0 : f32
      %log3 = arith.constant 0x3F8C9F54 : f32
      %x = arith.mulf %a, %hundred : f32
      %y = arith.mulf %g, %log3 : f32
      %t = arith.addf %s, %x : f32
      %u = arith.addf %t, %y : f32
      kvcache.yield %u
    })";
  auto got = oracle.run(attend(kv, "", score), {rows({0, 0, 0, 0}, 2), rows({0, 0, 0, 0}, 2), rows({1, 5}, 1),
                                                rowsAt(0, 2), oracle.cache(kv)});
  ASSERT_EQ(got.size(), 2u) << oracle.errors;
  expectTensor(got[0], {2, 1, 1}, {4, 4}, 1e-6);
  expectTensor(got[1], {2, 1}, {std::log(4.0), 100 + std::log(4.0)}, 1e-6);
}

TEST(ReferenceAttention, GroupedQueryHeadsShareAKeyHead) {
  Oracle oracle;
  const char *text = R"(
    !kv = !kvcache.cache<heads = 2, dim = 1, page = 2, k = f32, v = f32>
    func.func @f(%q: tensor<?x4x1xf32>, %k: tensor<?x2x1xf32>, %b: !kvcache.batch, %c: !kv) -> (tensor<?x4x1xf32>, tensor<?x4xf32>) {
      %d = kvcache.append %c, %k, %k at %b : !kv, tensor<?x2x1xf32>, tensor<?x2x1xf32>
      %o, %l = kvcache.attention %q over %d at %b returns (out, lse) {scale = 2.0 : f32}
          : (tensor<?x4x1xf32>, !kv, !kvcache.batch) -> (tensor<?x4x1xf32>, tensor<?x4xf32>)
      return %o, %l : tensor<?x4x1xf32>, tensor<?x4xf32>
    })";
  auto got =
      oracle.run(text, {Tensor::ofFloats({1, 4, 1}, {1, 2, 3, 4}), Tensor::ofFloats({1, 2, 1}, {5, 7}), rowsAt(0, 1),
                        oracle.cache("!kvcache.cache<heads = 2, dim = 1, page = 2, k = f32, v = f32>")});
  ASSERT_EQ(got.size(), 2u) << oracle.errors;
  expectTensor(got[0], {1, 4, 1}, {5, 5, 7, 7});
  expectTensor(got[1], {1, 4}, {10, 20, 42, 56});
}

TEST(ReferenceRope, RotatesPairsByPosition) {
  Oracle oracle;
  auto text = [](const char *pairing) {
    return std::string(
               "func.func @f(%x: tensor<?x1x4xf32>, %b: !kvcache.batch) -> tensor<?x1x4xf32> {\n"
               "  %y = \"kvcache.rope\"(%x, %b) <{rope = #kvcache.rope<base = 100.0 : f32, dims = 4, pairing = ") +
           pairing +
           ">}> : (tensor<?x1x4xf32>, !kvcache.batch) -> tensor<?x1x4xf32>\n  return %y : tensor<?x1x4xf32>\n}";
  };
  // Angles at position 3: 3 and 3 / 10.
  const double c0 = std::cos(3.0), s0 = std::sin(3.0), c1 = std::cos(0.3), s1 = std::sin(0.3);
  Tensor x = Tensor::ofFloats({1, 1, 4}, {1, 2, 3, 4});
  auto half = oracle.run(text("half"), {x, rowsAt(3, 1)});
  ASSERT_EQ(half.size(), 1u) << oracle.errors;
  expectTensor(half[0], {1, 1, 4}, {c0 - 3 * s0, 2 * c1 - 4 * s1, s0 + 3 * c0, 2 * s1 + 4 * c1});
  auto adjacent = oracle.run(text("adjacent"), {x, rowsAt(3, 1)});
  ASSERT_EQ(adjacent.size(), 1u) << oracle.errors;
  expectTensor(adjacent[0], {1, 1, 4}, {c0 - 2 * s0, s0 + 2 * c0, 3 * c1 - 4 * s1, 3 * s1 + 4 * c1});
}
