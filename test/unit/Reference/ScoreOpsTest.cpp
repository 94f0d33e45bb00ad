//===- ScoreOpsTest.cpp - Scores, selections and slots that move, by hand -===//
#include "Harness.h"

#include <cmath>

using namespace kvc::reference;

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

using Lists = std::vector<std::vector<int64_t>>;

Tensor scoresOf(std::vector<double> values) {
  const auto count = static_cast<int64_t>(values.size());
  return Tensor::ofFloats({1, 1, count}, std::move(values));
}

/// func @f(cache, keys, values, batch, more...) that appends rows of one head and runs `body` on %d.
std::string program(const std::string &type, int dim, const std::string &more, const std::string &body) {
  const std::string rows = "tensor<?x1x" + std::to_string(dim) + "xf32>";
  return "!kv = " + type + "\nfunc.func @f(%c: !kv, %k: " + rows + ", %v: " + rows + ", %b: !kvcache.batch" + more +
         ") -> !kv {\n  %d = kvcache.append %c, %k, %v at %b : !kv, " + rows + ", " + rows + "\n" + body +
         "\n  return %e : !kv\n}";
}

Selection tokens(std::vector<int64_t> list) {
  Selection selection;
  selection.heads = 1;
  selection.lists = {std::move(list)};
  return selection;
}

class ReferenceScores : public ::testing::Test {
protected:
  /// The only table after the program; empty when it fails.
  Table after(const std::string &text, const std::string &type, std::vector<Datum> inputs) {
    inputs.insert(inputs.begin(), Datum(oracle.cache(type)));
    auto results = oracle.run(text, inputs);
    return results.empty() ? Table() : results[0].asCache().tables[0];
  }

  Oracle oracle;
};
} // namespace

TEST_F(ReferenceScores, MapKeepsWhatIsPastTheEnd) {
  const std::string text = R"(
    func.func @f(%x: tensor<?x1x?xf32>, %y: tensor<?x1x?xf32>) -> tensor<?x1x?xf32> {
      %z = kvcache.map_scores %x, %y {
      ^bb0(%a: f32, %b: f32):
        %n = arith.negf %a : f32
        %p = arith.mulf %n, %b : f32
        kvcache.yield %p
      } : tensor<?x1x?xf32>
      return %z : tensor<?x1x?xf32>
    })";
  auto got =
      oracle.run(text, {scoresOf({1, 2, infinity, -infinity, 5, std::nan("")}), scoresOf({3, -4, 1, 1, -infinity, 1})});
  ASSERT_EQ(got.size(), 1u) << oracle.errors;
  expectTensor(got[0], {1, 1, 6}, {-3, 8, -infinity, -infinity, -infinity, std::nan("")});
  EXPECT_TRUE(oracle.run(text, {scoresOf({1, 2}), scoresOf({1})}).empty());
  EXPECT_NE(oracle.errors.find("expects operands of one shape, but got [1, 1, 2] and, as operand 1, [1, 1, 1]"),
            std::string::npos)
      << oracle.errors;
}

TEST_F(ReferenceScores, ThresholdSelectsWhatReachesIt) {
  const std::string type = "!kvcache.cache<heads = 1, dim = 1, page = 2, k = f32, v = f32>";
  auto select = [&](const std::string &unit, const std::string &value, int first, int last,
                    std::vector<double> scores) -> Lists {
    const std::string text = "!kv = " + type + R"(
      func.func @f(%c: !kv, %k: tensor<?x1x1xf32>, %b: !kvcache.batch, %s: tensor<?x1x?xf32>) -> !kvcache.selection<)" +
                             unit + R"(> {
        %d = kvcache.append %c, %k, %k at %b : !kv, tensor<?x1x1xf32>, tensor<?x1x1xf32>
        %t = kvcache.threshold )" +
                             unit + " %s, %d at %b {value = " + value + " : f32, first = " + std::to_string(first) +
                             ", last = " + std::to_string(last) + "} : tensor<?x1x?xf32>, !kv -> !kvcache.selection<" +
                             unit + ">\n        return %t : !kvcache.selection<" + unit + ">\n      }";
    auto got = oracle.run(
        text, {oracle.cache(type), Tensor::ofFloats({5, 1, 1}, {0, 0, 0, 0, 0}), rowsAt(0, 5), scoresOf(scores)});
    EXPECT_EQ(got.size(), 1u) << oracle.errors;
    return got.empty() ? Lists() : got[0].asSelection().lists;
  };
  const double nan = std::nan("");
  EXPECT_EQ(select("token", "2.0", 0, 0, {1, 2, 3, nan, 2.5, 9}), (Lists{{1, 2, 4}})); // the 9 is past the end
  EXPECT_EQ(select("token", "9.0", 0, 0, {1, 2, 3, nan, 2.5}), (Lists{{}}));
  EXPECT_EQ(select("token", "9.0", 1, 2, {1, 2, 3, nan, 2.5}), (Lists{{0, 3, 4}}));
  EXPECT_EQ(select("token", "9.0", 4, 7, {1, 2, 3, nan, 2.5}), (Lists{{0, 1, 2, 3, 4}}));
  EXPECT_EQ(select("page", "1.0", 0, 0, {1, 0, 4}), (Lists{{0, 2}}));
}

TEST_F(ReferenceScores, MergesIntoTheMostSimilarSlot) {
  const std::string type = "!kvcache.cache<heads = 1, dim = 2, page = 2, k = f32, v = f32, positions = stored, "
                           "tables = per_head, planes = [score, norm]>";
  auto merge = [&](const std::string &least, std::vector<int64_t> keep, std::vector<double> weights) {
    const std::string body = "  %e = kvcache.merge_slots %d keep %s weighted %w at %b" + least +
                             " : !kv, !kvcache.selection<token>, tensor<?x1x?xf32>";
    return after(program(type, 2, ", %s: !kvcache.selection<token>, %w: tensor<?x1x?xf32>", body), type,
                 {Tensor::ofFloats({4, 1, 2}, {1, 0, 0, 2, 4, 0, -1, 1}),
                  Tensor::ofFloats({4, 1, 2}, {1, 1, 2, 2, 3, 3, 4, 4}), rowsAt(10, 4), tokens(std::move(keep)),
                  scoresOf(std::move(weights))});
  };
  // Slot 2 points as slot 0 does; slot 3 is nearer to slot 1.
  Table table = merge("", {0, 1}, {3, 1, 1, 3});
  ASSERT_EQ(table.length(), 2) << oracle.errors;
  EXPECT_EQ(table.slots[0].key, (std::vector<double>{(3 * 1 + 4) / 4.0, 0}));
  EXPECT_EQ(table.slots[0].value, (std::vector<double>{(3 * 1 + 3) / 4.0, (3 * 1 + 3) / 4.0}));
  EXPECT_EQ(table.slots[0].norm[0], 1.75);
  EXPECT_EQ(table.slots[1].key, (std::vector<double>{-0.75, (2 + 3) / 4.0}));
  EXPECT_EQ(table.slots[0].position, 10);
  EXPECT_EQ(table.slots[1].position, 11);
  // Slot 3 is not like enough to slot 1 (cosine 0.707) and goes.
  table = merge(" {min_similarity = 0.8 : f32}", {0, 1}, {3, 1, 1, 3});
  ASSERT_EQ(table.length(), 2) << oracle.errors;
  EXPECT_EQ(table.slots[1].key, (std::vector<double>{0, 2}));
  EXPECT_EQ(merge("", {}, {1, 1, 1, 1}).length(), 0);
  EXPECT_EQ(oracle.errors, "");
  merge("", {0, 1}, {0, 1, 0, 3});
  EXPECT_NE(oracle.errors.find("expects weights above 0 among slots that are merged, but got none for slot 0"),
            std::string::npos)
      << oracle.errors;
  merge("", {0, 1}, {1, 1, -1, 3});
  EXPECT_NE(oracle.errors.find("expects weights of at least 0, but got"), std::string::npos) << oracle.errors;
}

TEST_F(ReferenceScores, CommitKeepsTheAcceptedRows) {
  const std::string body = R"(  %d1 = kvcache.append %d, %k1, %k1 at %b1 : !kv, tensor<?x1x1xf32>, tensor<?x1x1xf32>
  %e = kvcache.commit %d1 accept %a at %b1 : !kv, tensor<?xi8>)";
  const std::string more = ", %k1: tensor<?x1x1xf32>, %b1: !kvcache.batch, %a: tensor<?xi8>";
  auto commit = [&](const std::string &type, std::vector<int64_t> accepted) {
    Batch tree = rowsAt(2, 4);
    tree.positions = {2, 2, 3, 3}; // two nodes at each depth
    const auto rows = static_cast<int64_t>(accepted.size());
    return after(program(type, 1, more, body), type,
                 {Tensor::ofFloats({2, 1, 1}, {1, 2}), Tensor::ofFloats({2, 1, 1}, {1, 2}), rowsAt(0, 2),
                  Tensor::ofFloats({4, 1, 1}, {3, 4, 5, 6}), tree, Tensor::ofInts({rows}, std::move(accepted))});
  };
  for (const char *positions : {"implicit", "stored"}) {
    const std::string type =
        std::string("!kvcache.cache<heads = 1, dim = 1, page = 2, k = f32, v = f32, positions = ") + positions + ">";
    Table table = commit(type, {0, 1, 0, 1});
    ASSERT_EQ(table.length(), 4) << oracle.errors;
    EXPECT_EQ(table.slots[2].key[0], 4);
    EXPECT_EQ(table.slots[3].key[0], 6);
    EXPECT_EQ(table.slots[2].position, 2);
    EXPECT_EQ(table.slots[3].position, 3);
    EXPECT_EQ(commit(type, {0, 0, 0, 0}).length(), 2);
    EXPECT_EQ(commit(type, {1, 1, 1, 1}).length(), 6);
  }
  // Groups of two tokens: what was sealed with a dropped row is in the tail again.
  const std::string grouped =
      "!kvcache.cache<heads = 1, dim = 1, page = 2, k = int8<axis = channel, group = 2>, v = f32>";
  Table table = commit(grouped, {1, 0, 0, 0});
  ASSERT_EQ(table.length(), 3) << oracle.errors;
  EXPECT_EQ(table.sealed, 2);
  EXPECT_EQ(oracle.errors, "");
  commit(grouped, {1, 0});
  EXPECT_NE(oracle.errors.find("expects accepted of the 4 rows of the batch, but got 2"), std::string::npos)
      << oracle.errors;
}

TEST_F(ReferenceScores, FetchChecksItsSelectionAndChangesNothing) {
  const std::string type = "!kvcache.cache<heads = 1, dim = 1, page = 2, k = f32, v = f32>";
  const std::string text = program(type, 1, ", %s: !kvcache.selection<token>",
                                   "  %e = kvcache.fetch %d of %s at %b : !kv, !kvcache.selection<token>");
  std::vector<Datum> inputs{Tensor::ofFloats({2, 1, 1}, {1, 2}), Tensor::ofFloats({2, 1, 1}, {1, 2}), rowsAt(0, 2),
                            tokens({1})};
  EXPECT_EQ(after(text, type, inputs).length(), 2) << oracle.errors;
  inputs.back() = tokens({2});
  EXPECT_EQ(after(text, type, inputs).length(), 0);
  EXPECT_NE(oracle.errors.find("expects a selection that ascends"), std::string::npos) << oracle.errors;
}

TEST_F(ReferenceScores, MeanOfAPage) {
  const std::string type = "!kvcache.cache<heads = 1, dim = 2, page = 2, k = f32, v = f32, planes = [mean]>";
  const std::string text = "!kv = " + type + R"(
    func.func @f(%c: !kv, %k: tensor<?x1x2xf32>, %q: tensor<?x2x2xf32>, %b: !kvcache.batch) -> tensor<?x1x?xf32> {
      %d = kvcache.append %c, %k, %k at %b : !kv, tensor<?x1x2xf32>, tensor<?x1x2xf32>
      %0 = kvcache.score mean %q, %d at %b : (tensor<?x2x2xf32>, !kv, !kvcache.batch) -> tensor<?x1x?xf32>
      return %0 : tensor<?x1x?xf32>
    })";
  // Pages: mean of (3, 4) and (1, -2) is (2, 1); (6, 8). Queries (1, 0) and (0, -1), the others 0.
  auto got = oracle.run(text, {oracle.cache(type), Tensor::ofFloats({3, 1, 2}, {3, 4, 1, -2, 6, 8}),
                               Tensor::ofFloats({3, 2, 2}, {1, 0, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0}), rowsAt(0, 3)});
  ASSERT_EQ(got.size(), 1u) << oracle.errors;
  expectTensor(got[0], {1, 1, 2}, {2, 6});
}

TEST_F(ReferenceScores, CachesThatAreNotEvaluatedAreNamed) {
  for (auto [fields, name] : {std::pair<std::string, std::string>{"k = f32, v = alias<from = 0>", "v = alias"},
                              {"k = int8<group = 2, hadamard>, v = f32", "hadamard"}}) {
    const std::string type = "!kvcache.cache<heads = 1, dim = 2, page = 2, " + fields + ">";
    const std::string text = "func.func @f(%c: " + type + ") -> " + type + " {\n  return %c : " + type + "\n}";
    oracle.errors.clear();
    EXPECT_TRUE(oracle.run(text, {oracle.cache(type)}).empty());
    EXPECT_NE(oracle.errors.find("is not evaluated yet for a cache with " + name), std::string::npos) << oracle.errors;
  }
}
