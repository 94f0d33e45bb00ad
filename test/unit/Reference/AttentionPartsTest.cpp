//===- AttentionPartsTest.cpp - Segments, selections, statistics, states ----===//
#include "Harness.h"

#include <cmath>

using namespace kvc::reference;

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
const double logOf2 = std::log(2.0), logOf3 = std::log(3.0);

/// One channel; keys are 0, so that every visible key has the same weight unless the query says otherwise.
const std::string kv = "!kvcache.cache<heads = 1, dim = 1, page = 2, k = f32, v = f32, positions = stored>";

/// func @f(q, k, v, batch, cache, more...): appends, then `body`, which has %d.
std::string program(const std::string &more, const std::string &body, const std::string &results) {
  return "!kv = " + kv +
         "\nfunc.func @f(%q: tensor<?x?x1xf32>, %k: tensor<?x1x1xf32>, %v: tensor<?x1x1xf32>, %b: !kvcache.batch, "
         "%c: !kv" +
         more + ") -> " + results +
         " {\n  %d = kvcache.append %c, %k, %v at %b : !kv, tensor<?x1x1xf32>, tensor<?x1x1xf32>\n"
         "  %x = tensor.cast %q : tensor<?x?x1xf32> to tensor<?x2x1xf32>\n" +
         body + "\n}";
}

Tensor column(std::vector<double> values, int64_t heads = 1) {
  const auto rows = static_cast<int64_t>(values.size()) / heads;
  return Tensor::ofFloats({rows, heads, 1}, std::move(values));
}

class ReferenceParts : public ::testing::Test {
protected:
  llvm::SmallVector<Datum> run(const std::string &text, const std::vector<Datum> &inputs) {
    auto results = oracle.run(text, inputs);
    EXPECT_FALSE(results.empty()) << oracle.errors;
    return results;
  }
  Datum cache() { return oracle.cache(kv, 2); }

  Oracle oracle;
};
} // namespace

TEST_F(ReferenceParts, TwoSegmentsShareOneSoftmax) {
  auto got = run(program("", R"(
  %o = kvcache.attention %x over %d, %d at %b {scale = 1.0 : f32, causal}
      : (tensor<?x2x1xf32>, !kv, !kv, !kvcache.batch) -> tensor<?x2x1xf32>
  %p, %l = kvcache.attention %x over %d, %c at %b returns (out, lse) {scale = 1.0 : f32, causal}
      : (tensor<?x2x1xf32>, !kv, !kv, !kvcache.batch) -> (tensor<?x2x1xf32>, tensor<?x2xf32>)
  return %o, %l : tensor<?x2x1xf32>, tensor<?x2xf32>)",
                         "(tensor<?x2x1xf32>, tensor<?x2xf32>)"),
                 {column({0, 0, 0, 0}, 2), column({0, 0}), column({1, 3}), rowsAt(0, 2), cache()});
  ASSERT_EQ(got.size(), 2u);
  expectTensor(got[0], {2, 2, 1}, {1, 1, 2, 2});
  expectTensor(got[1], {2, 2}, {0, 0, logOf2, logOf2});
}

TEST_F(ReferenceParts, SelectionsOfPagesAndOfTokens) {
  const std::string body = R"(
  %o = kvcache.attention %x over %d at %b select %s {scale = 1.0 : f32}
      : (tensor<?x2x1xf32>, !kv, !kvcache.batch, !kvcache.selection<UNIT>) -> tensor<?x2x1xf32>
  return %o : tensor<?x2x1xf32>)";
  auto text = [&](const std::string &unit) {
    std::string filled = body;
    filled.replace(filled.find("UNIT"), 4, unit);
    return program(", %s: !kvcache.selection<" + unit + ">", filled, "tensor<?x2x1xf32>");
  };
  Selection selection;
  selection.heads = 1;
  selection.lists = {{0, 2}};
  const std::vector<Datum> inputs{column({0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 2), column({0, 0, 0, 0, 0}),
                                  column({1, 2, 4, 8, 32}), rowsAt(0, 5), cache()};
  auto with = [&](kvc::kvcache::Unit unit) {
    std::vector<Datum> all = inputs;
    selection.unit = unit;
    all.push_back(Datum(selection));
    return all;
  };
  // Pages 0 and 2: slots 0, 1, 4. Tokens 0 and 2.
  auto pages = run(text("page"), with(kvc::kvcache::Unit::Page));
  ASSERT_EQ(pages.size(), 1u);
  expectTensor(pages[0], {5, 2, 1}, std::vector<double>(10, 35.0 / 3));
  auto tokens = run(text("token"), with(kvc::kvcache::Unit::Token));
  ASSERT_EQ(tokens.size(), 1u);
  expectTensor(tokens[0], {5, 2, 1}, std::vector<double>(10, 2.5));
}

TEST_F(ReferenceParts, StatisticsOverRowsAndHeads) {
  auto text = [](const std::string &stat, int rows, const std::string &more) {
    return program("",
                   "  %s = kvcache.attention %x over %d at %b returns (stats) {scale = 1.0 : f32, causal, stat = "
                   "#kvcache.stat<" +
                       stat + ">, stat_rows = " + std::to_string(rows) + more +
                       "} : (tensor<?x2x1xf32>, !kv, !kvcache.batch) -> tensor<?x1x?xf32>\n"
                       "  return %s : tensor<?x1x?xf32>",
                   "tensor<?x1x?xf32>");
  };
  // Keys 0 and 1. Row 0 sees the first: p = 1 for both heads. Row 1: head 0 has q = 0 (halves), head 1 q = log 3
  // (1/4 and 3/4). A second sequence with one row is longer by nothing: its table ends after one slot.
  const std::vector<Datum> inputs{column({0, 0, 0, logOf3, 0, 0}, 2), column({0, 1, 5}), column({1, 1, 1}),
                                  Batch{{0, 2, 3}, {0, 1}, {0, 1, 0}}, cache()};
  auto expectStats = [&](const std::string &stat, int rows, std::vector<double> want, const std::string &more = "") {
    auto got = run(text(stat, rows, more), inputs);
    ASSERT_EQ(got.size(), 1u);
    expectTensor(got[0], {2, 1, 2}, std::move(want));
  };
  expectStats("sum", 0, {2 + 0.5 + 0.25, 0.5 + 0.75, 2, -infinity});
  expectStats("sum", 1, {0.5 + 0.25, 0.5 + 0.75, 2, -infinity});
  expectStats("max", 0, {1, 0.75, 1, -infinity});
  expectStats("max", 1, {0.5, 0.75, 1, -infinity});
  // Above 1 / visible: only 3/4 of two; with one key p = 1 is not above 1.
  expectStats("count", 0, {0, 1, 0, -infinity});
  // Four (row, head) pairs see the first slot, two the second.
  expectStats("mean", 0, {(2 + 0.5 + 0.25) / 4, (0.5 + 0.75) / 2, 1, -infinity});
  expectStats("mean", 1, {(0.5 + 0.25) / 2, (0.5 + 0.75) / 2, 1, -infinity});
  expectStats("decay", 0, {0.5 * 2 + 0.5 + 0.25, 0.5 + 0.75, 2, -infinity}, ", stat_decay = 0.5 : f32");
  expectStats("hits", 0, {2, 1, 2, -infinity}, ", stat_threshold = 0.6 : f32");
  // Every second row, the last included.
  expectStats("sum", 0, {0.5 + 0.25, 0.5 + 0.75, 2, -infinity}, ", stat_stride = 2 : i64");
}

TEST_F(ReferenceParts, TreeMaskRulesTheRowsOfThisStep) {
  // Two slots of the past, then three rows: the second is no ancestor of the third.
  const std::string text = "!kv = " + kv + R"(
    func.func @f(%q: tensor<?x1x1xf32>, %k: tensor<?x1x1xf32>, %v: tensor<?x1x1xf32>, %past: !kvcache.batch,
                 %now: !kvcache.batch, %m: tensor<?x?xi8>, %c: !kv, %old: tensor<?x1x1xf32>) -> tensor<?x1x1xf32> {
      %d = kvcache.append %c, %old, %old at %past : !kv, tensor<?x1x1xf32>, tensor<?x1x1xf32>
      %e = kvcache.append %d, %k, %v at %now : !kv, tensor<?x1x1xf32>, tensor<?x1x1xf32>
      %o = kvcache.attention %q over %e at %now tree %m {scale = 1.0 : f32, causal}
          : (tensor<?x1x1xf32>, !kv, !kvcache.batch, tensor<?x?xi8>) -> tensor<?x1x1xf32>
      return %o : tensor<?x1x1xf32>
    })";
  auto got = run(text, {column({0, 0, 0}), column({0, 0, 0}), column({3, 30, 300}), rowsAt(0, 2),
                        Batch{{0, 3}, {0}, {2, 3, 3}}, Tensor::ofInts({3, 3}, {1, 0, 0, 1, 1, 0, 1, 0, 1}), cache(),
                        column({0, 0})});
  ASSERT_EQ(got.size(), 1u);
  expectTensor(got[0], {3, 1, 1}, {3.0 / 3, 33.0 / 4, 303.0 / 4});
}

TEST_F(ReferenceParts, SinkLogitsJoinTheDenominator) {
  auto got =
      run(program(", %s: tensor<2xf32>", R"(
  %o, %l = kvcache.attention %x over %d at %b sink_logits %s returns (out, lse) {scale = 1.0 : f32}
      : (tensor<?x2x1xf32>, !kv, !kvcache.batch, tensor<2xf32>) -> (tensor<?x2x1xf32>, tensor<?x2xf32>)
  %p, %e = kvcache.attention %x over %c at %b sink_logits %s returns (out, lse) {scale = 1.0 : f32}
      : (tensor<?x2x1xf32>, !kv, !kvcache.batch, tensor<2xf32>) -> (tensor<?x2x1xf32>, tensor<?x2xf32>)
  return %o, %l, %p, %e : tensor<?x2x1xf32>, tensor<?x2xf32>, tensor<?x2x1xf32>, tensor<?x2xf32>)",
                  "(tensor<?x2x1xf32>, tensor<?x2xf32>, tensor<?x2x1xf32>, tensor<?x2xf32>)"),
          {column({0, 0}, 2), column({0}), column({8}), rowsAt(0, 1), cache(), Tensor::ofFloats({2}, {0, logOf3})});
  ASSERT_EQ(got.size(), 4u);
  expectTensor(got[0], {1, 2, 1}, {4, 2});
  expectTensor(got[1], {1, 2}, {logOf2, std::log(4.0)});
  // A row that sees no key.
  expectTensor(got[2], {1, 2, 1}, {0, 0});
  expectTensor(got[3], {1, 2}, {-infinity, -infinity});
}

TEST_F(ReferenceParts, OnlineAttentionOfTwoSpansIsAttention) {
  const std::string text = "!kv = " + kv + R"(
    func.func @f(%q: tensor<?x2x1xf32>, %k: tensor<?x1x1xf32>, %v: tensor<?x1x1xf32>, %old: !kvcache.batch,
                 %b: !kvcache.batch, %c: !kv, %a: tensor<?x2x1xf32>, %m: tensor<?x2xf32>, %s: tensor<?x2xf32>)
        -> (tensor<?x2x1xf32>, tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x2x1xf32>, tensor<?x2xf32>, tensor<?x2xf32>) {
      %d = kvcache.append %c, %k, %v at %old : !kv, tensor<?x1x1xf32>, tensor<?x1x1xf32>
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %many = arith.constant 1000 : index
      %a1, %m1, %s1 = kvcache.online_attention %q over %d span %zero, %one at %b state %a, %m, %s {scale = 1.0 : f32}
          : (tensor<?x2x1xf32>, !kv, index, index, !kvcache.batch, tensor<?x2x1xf32>, tensor<?x2xf32>, tensor<?x2xf32>)
          -> (tensor<?x2x1xf32>, tensor<?x2xf32>, tensor<?x2xf32>)
      %a2, %m2, %s2 = kvcache.online_attention %q over %d span %one, %many at %b state %a1, %m1, %s1 {scale = 1.0 : f32}
          : (tensor<?x2x1xf32>, !kv, index, index, !kvcache.batch, tensor<?x2x1xf32>, tensor<?x2xf32>, tensor<?x2xf32>)
          -> (tensor<?x2x1xf32>, tensor<?x2xf32>, tensor<?x2xf32>)
      %a3, %m3, %s3 = kvcache.online_attention %q over %d span %many, %many at %b state %a2, %m2, %s2
          {scale = 1.0 : f32}
          : (tensor<?x2x1xf32>, !kv, index, index, !kvcache.batch, tensor<?x2x1xf32>, tensor<?x2xf32>, tensor<?x2xf32>)
          -> (tensor<?x2x1xf32>, tensor<?x2xf32>, tensor<?x2xf32>)
      return %a1, %m1, %s1, %a3, %m3, %s3
          : tensor<?x2x1xf32>, tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x2x1xf32>, tensor<?x2xf32>, tensor<?x2xf32>
    })";
  auto got = run(text, {column({0, logOf3}, 2), column({0, 1}), column({8, 4}), rowsAt(0, 2), rowsAt(2, 1), cache(),
                        Tensor::filled({1, 2, 1}, 0), Tensor::filled({1, 2}, -infinity), Tensor::filled({1, 2}, 0)});
  ASSERT_EQ(got.size(), 6u);
  expectTensor(got[0], {1, 2, 1}, {8, 8});
  expectTensor(got[1], {1, 2}, {0, 0});
  expectTensor(got[2], {1, 2}, {1, 1});
  // Head 0: weights 1 and 1. Head 1: scores 0 and log 3, so relative to the larger 1/3 and 1.
  expectTensor(got[3], {1, 2, 1}, {12, 8.0 / 3 + 4});
  expectTensor(got[4], {1, 2}, {0, logOf3});
  expectTensor(got[5], {1, 2}, {2, 4.0 / 3});
}

TEST_F(ReferenceParts, MergeOfStates) {
  const char *text = R"(
    func.func @f(%o0: tensor<?x1x1xf32>, %l0: tensor<?x1xf32>, %o1: tensor<?x1x1xf32>, %l1: tensor<?x1xf32>)
        -> (tensor<?x1x1xf32>, tensor<?x1xf32>) {
      %o, %l = kvcache.merge_states %o0, %l0, %o1, %l1 : tensor<?x1x1xf32>, tensor<?x1xf32>
      return %o, %l : tensor<?x1x1xf32>, tensor<?x1xf32>
    })";
  const double nothing = std::numeric_limits<double>::quiet_NaN();
  auto got = run(text, {column({1, nothing, nothing}), Tensor::ofFloats({3, 1}, {logOf3, -infinity, -infinity}),
                        column({5, 7, nothing}), Tensor::ofFloats({3, 1}, {0, 2, -infinity})});
  ASSERT_EQ(got.size(), 2u);
  expectTensor(got[0], {3, 1, 1}, {2, 7, 0});
  expectTensor(got[1], {3, 1}, {std::log(4.0), 2, -infinity});
}

TEST_F(ReferenceParts, TopKKeepsFirstAndLast) {
  const char *kv = "!kvcache.cache<heads = 1, dim = 1, page = 1, k = f32, v = f32>";
  const std::string text = std::string("!kv = ") + kv + R"(
    func.func @f(%c: !kv, %k: tensor<?x1x1xf32>, %b: !kvcache.batch, %s: tensor<?x1x?xf32>)
        -> (!kvcache.selection<page>, !kvcache.selection<token>) {
      %d = kvcache.append %c, %k, %k at %b : !kv, tensor<?x1x1xf32>, tensor<?x1x1xf32>
      %p = kvcache.topk page %s, %d at %b {k = 3 : i64, first = 1 : i64, last = 1 : i64}
          : tensor<?x1x?xf32>, !kv -> !kvcache.selection<page>
      %t = kvcache.topk token %s, %d at %b {k = 9 : i64, first = 0 : i64, last = 0 : i64}
          : tensor<?x1x?xf32>, !kv -> !kvcache.selection<token>
      return %p, %t : !kvcache.selection<page>, !kvcache.selection<token>
    })";
  const double noNumber = std::numeric_limits<double>::quiet_NaN();
  auto got = run(text, {oracle.cache(kv), column({0, 0, 0, 0, 0}), rowsAt(0, 5),
                        Tensor::ofFloats({1, 1, 6}, {-5, noNumber, 2, 2, 1, 100})});
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].asSelection().lists[0], (std::vector<int64_t>{0, 2, 4}));
  EXPECT_EQ(got[1].asSelection().lists[0], (std::vector<int64_t>{0, 1, 2, 3, 4}));
}
