//===- CacheTest.cpp - Operations on caches of the oracle, by hand --------===//
#include "Harness.h"

#include <cmath>

using namespace kvc::reference;

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

/// One head, one channel for keys and for values.
std::string cacheType(const std::string &fields) { return "!kvcache.cache<heads = 1, dim = 1, " + fields + ">"; }

/// func @f(cache, rows, batch, more...) that appends the rows as keys and as values, then runs `body` on %d.
std::string program(const std::string &type, const std::string &more, const std::string &body,
                    const std::string &result) {
  return "!kv = " + type + "\nfunc.func @f(%c: !kv, %x: tensor<?x1x1xf32>, %b: !kvcache.batch" + more + ") -> " +
         result + " {\n  %d = kvcache.append %c, %x, %x at %b : !kv, tensor<?x1x1xf32>, tensor<?x1x1xf32>\n" + body +
         "\n}";
}

Tensor column(std::vector<double> values) {
  const auto count = static_cast<int64_t>(values.size());
  return Tensor::ofFloats({count, 1, 1}, std::move(values));
}

Tensor range(int64_t count) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<double>(i));
  }
  return column(std::move(values));
}

std::vector<double> keysOf(const Table &table) {
  std::vector<double> keys;
  for (const Slot &slot : table.slots) {
    keys.push_back(slot.key[0]);
  }
  return keys;
}

std::vector<int64_t> positionsOf(const Table &table) {
  std::vector<int64_t> positions;
  for (const Slot &slot : table.slots) {
    positions.push_back(slot.position);
  }
  return positions;
}

class ReferenceCache : public ::testing::Test {
protected:
  /// The table after the program, or an empty one.
  Table after(const std::string &type, const std::string &more, const std::string &body, std::vector<Datum> inputs) {
    inputs.insert(inputs.begin(), Datum(oracle.cache(type, 2)));
    auto results = oracle.run(program(type, more, body, "!kv"), inputs);
    EXPECT_EQ(results.size(), 1u) << oracle.errors;
    if (results.empty()) {
      return {};
    }
    cache = results[0].asCache();
    return cache.tables[0];
  }

  Oracle oracle;
  Cache cache;
};
} // namespace

TEST_F(ReferenceCache, AppendSealsWholeGroupsOlderThanTheResidual) {
  // Groups of 4 slots, residual 3: of 10 slots floor(7 / 4) * 4 = 4 are sealed.
  const std::string type = cacheType("page = 4, k = int2<group = 4, axis = channel>, v = f32, residual = 3");
  Table table = after(type, "", "  return %d : !kv", {range(10), rowsAt(0, 10)});
  EXPECT_EQ(table.sealed, 4);
  // 0..3 in two bits are exact; the tail is f16.
  EXPECT_EQ(keysOf(table), (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  table = after(type, "", "  return %d : !kv", {column({0, 1, 1.4, 3, 2049, 5, 6}), rowsAt(0, 7)});
  EXPECT_EQ(table.sealed, 4);
  EXPECT_EQ(keysOf(table), (std::vector<double>{0, 1, 1, 3, 2048, 5, 6}));
  table = after(type, "", "  return %d : !kv", {range(6), rowsAt(0, 6)});
  EXPECT_EQ(table.sealed, 0);
}

TEST_F(ReferenceCache, ACacheWithoutTailStoresAtOnce) {
  Table table =
      after(cacheType("page = 4, k = f16, v = bf16"), "", "  return %d : !kv", {column({2049}), rowsAt(0, 1)});
  EXPECT_EQ(table.sealed, 1);
  EXPECT_EQ(keysOf(table), (std::vector<double>{2048}));
  EXPECT_EQ(table.slots[0].value, (std::vector<double>{2048}));
}

TEST_F(ReferenceCache, SealTakesWholeGroupsOnly) {
  const std::string type = cacheType("page = 4, k = int2<group = 4, axis = channel>, v = f32, residual = 8");
  Table table = after(type, "", "  %e = kvcache.seal %d at %b : !kv\n  return %e : !kv", {range(10), rowsAt(0, 10)});
  EXPECT_EQ(table.sealed, 8);
}

TEST_F(ReferenceCache, TruncateReturnsACutGroupToTheTail) {
  const std::string type = cacheType("page = 4, k = int2<group = 4, axis = channel>, v = f32");
  Tensor lengths = Tensor::ofInts({1}, {6});
  Table table = after(type, ", %n: tensor<?xi32>",
                      "  %e = kvcache.truncate %d to %n at %b : !kv, tensor<?xi32>\n  return %e : !kv",
                      {column({0, 1, 2, 3, 10, 10.9, 10, 13}), rowsAt(0, 8), lengths});
  EXPECT_EQ(table.sealed, 4);
  EXPECT_EQ(keysOf(table), (std::vector<double>{0, 1, 2, 3, 10, 11})); // as decoded
  // Longer than the table: nothing happens.
  table = after(type, ", %n: tensor<?xi32>",
                "  %e = kvcache.truncate %d to %n at %b : !kv, tensor<?xi32>\n  return %e : !kv",
                {range(3), rowsAt(0, 3), Tensor::ofInts({1}, {6})});
  EXPECT_EQ(table.length(), 3);
}

TEST_F(ReferenceCache, RingKeepsSinksAndTheWindow) {
  const std::string type = cacheType("page = 2, k = f32, v = f32, positions = stored, window = 3, sinks = 1");
  Table table = after(type, "", "  return %d : !kv", {range(8), rowsAt(0, 8)});
  // Slot 0: sink. Slots 1..3: positions p with 1 + (p - 1) % 3.
  EXPECT_EQ(positionsOf(table), (std::vector<int64_t>{0, 7, 5, 6}));
}

TEST_F(ReferenceCache, EvictKeepsFirstLastAndTheHighest) {
  const std::string type = cacheType("page = 2, k = f32, v = f32, positions = stored, planes = [minmax, norm, score]");
  Tensor scores = Tensor::ofFloats({1, 1, 7}, {0, 3, 5, 5, 1, 9, 0});
  Table table = after(type, ", %s: tensor<?x1x?xf32>",
                      "  %e = kvcache.evict %d by %s at %b {budget = 4 : i64, first = 1 : i64, last = 1 : i64} : !kv, "
                      "tensor<?x1x?xf32>\n  return %e : !kv",
                      {column({10, -11, 12, 13, 14, 15, 16}), rowsAt(20, 7), scores});
  // 5 at slot 2 before 5 at slot 3.
  EXPECT_EQ(positionsOf(table), (std::vector<int64_t>{20, 22, 25, 26}));
  ASSERT_EQ(table.pages.size(), 2u);
  EXPECT_EQ(table.pages[0].low[0], 10);
  EXPECT_EQ(table.pages[1].high[0], 16);
  EXPECT_EQ(table.slots[2].norm[0], 15);
}

TEST_F(ReferenceCache, CompactKeepsTheList) {
  const std::string type = cacheType("page = 2, k = f32, v = f32, positions = stored");
  Selection keep;
  keep.heads = 1;
  keep.lists = {{1, 2, 4}};
  Table table = after(type, ", %s: !kvcache.selection<token>",
                      "  %e = kvcache.compact %d keep %s at %b : !kv, !kvcache.selection<token>\n  return %e : !kv",
                      {range(5), rowsAt(0, 5), keep});
  EXPECT_EQ(positionsOf(table), (std::vector<int64_t>{1, 2, 4}));
}

TEST_F(ReferenceCache, ForkCopiesAndLeavesTheSource) {
  const std::string type = cacheType("page = 2, k = f32, v = f32");
  after(type, ", %i: index, %j: index", "  %e = kvcache.fork %d from %i to %j : !kv\n  return %e : !kv",
        {range(3), rowsAt(0, 3), Datum(int64_t(0)), Datum(int64_t(1))});
  EXPECT_EQ(keysOf(cache.tables[1]), keysOf(cache.tables[0]));
  EXPECT_EQ(cache.tables[1].length(), 3);
}

TEST_F(ReferenceCache, AccumulateInFourWays) {
  const std::string type = cacheType("page = 2, k = f32, v = f32, planes = [score]");
  Tensor x = Tensor::ofFloats({1, 1, 2}, {4, -2});
  const std::vector<std::pair<std::string, std::vector<double>>> cases = {
      {"add", {8, -4}}, {"decay", {6, -3}}, {"max", {4, 0}}, {"replace", {4, -2}}};
  for (const auto &[update, want] : cases) {
    std::string step = "kvcache.accumulate " + update + " %d, %s at %b {decay = 0.5 : f32} : !kv, tensor<?x1x?xf32>";
    std::string again = step;
    again.replace(again.find("%d"), 2, "%e");
    Table table = after(type, ", %s: tensor<?x1x?xf32>", "  %e = " + step + "\n  %g = " + again + "\n  return %g : !kv",
                        {range(2), rowsAt(0, 2), x});
    ASSERT_EQ(table.length(), 2);
    EXPECT_EQ(table.slots[0].score[0], want[0]) << update;
    EXPECT_EQ(table.slots[1].score[0], want[1]) << update;
  }
}

TEST_F(ReferenceCache, RebaseRotatesToTheIndex) {
  const std::string type = "!kvcache.cache<heads = 1, dim = 2, page = 2, k = f32, v = f32, positions = stored>";
  const std::string text = "!kv = " + type + R"(
    func.func @f(%c: !kv, %x: tensor<?x1x2xf32>, %b: !kvcache.batch) -> !kv {
      %d = kvcache.append %c, %x, %x at %b : !kv, tensor<?x1x2xf32>, tensor<?x1x2xf32>
      %e = "kvcache.rebase"(%d, %b) <{rope = #kvcache.rope<base = 10.0 : f32, dims = 2, pairing = half>}>
          : (!kv, !kvcache.batch) -> !kv
      return %e : !kv
    })";
  auto results = oracle.run(text, {oracle.cache(type), Tensor::ofFloats({1, 1, 2}, {1, 0}), rowsAt(3, 1)});
  ASSERT_EQ(results.size(), 1u) << oracle.errors;
  const Slot &slot = results[0].asCache().tables[0].slots[0];
  // From position 3 to index 0: by -3 radians.
  EXPECT_EQ(slot.position, 0);
  EXPECT_EQ(slot.key[0], static_cast<float>(std::cos(3.0)));
  EXPECT_EQ(slot.key[1], static_cast<float>(-std::sin(3.0)));
  EXPECT_EQ(slot.value, (std::vector<double>{1, 0}));
}

TEST_F(ReferenceCache, RequantizeStoresTheContentsAgain) {
  const std::string type = cacheType("page = 2, k = f32, v = f32");
  const std::string to = cacheType("page = 4, k = int2<group = 4, axis = channel>, v = f16");
  auto results = oracle.run("!kv = " + type + "\n!to = " + to + R"(
    func.func @f(%c: !kv, %x: tensor<?x1x1xf32>, %b: !kvcache.batch) -> !to {
      %d = kvcache.append %c, %x, %x at %b : !kv, tensor<?x1x1xf32>, tensor<?x1x1xf32>
      %e = kvcache.requantize %d at %b : !kv to !to
      return %e : !to
    })",
                            {oracle.cache(type), column({0, 1, 1.4, 3, 0.1}), rowsAt(0, 5)});
  ASSERT_EQ(results.size(), 1u) << oracle.errors;
  const Table &table = results[0].asCache().tables[0];
  EXPECT_EQ(table.sealed, 4);
  EXPECT_EQ(keysOf(table), (std::vector<double>{0, 1, 1, 3, 0.0999755859375}));
}

TEST_F(ReferenceCache, ImportAndExportInBothLayouts) {
  const std::string type = "!kvcache.cache<heads = 2, dim = 1, page = 2, k = f32, v = f32>";
  const std::string text = "!kv = " + type + R"(
    func.func @f(%c: !kv, %k: tensor<?x2x?x1xf32>, %n: tensor<?xi32>, %b: !kvcache.batch) -> tensor<?x?x2x1xf32> {
      %d = kvcache.import %c, %k, %k, %n at %b {layout = #kvcache.dense_layout<hnd>}
          : !kv, tensor<?x2x?x1xf32>, tensor<?x2x?x1xf32>, tensor<?xi32>
      %e = kvcache.export v %d at %b {layout = #kvcache.dense_layout<nhd>} : !kv -> tensor<?x?x2x1xf32>
      return %e : tensor<?x?x2x1xf32>
    })";
  Batch batch{{0, 0, 0}, {1, 0}, {}};
  // Entry 0: heads 1 2 3 and 4 5 6 over three slots, two of them used; entry 1: one used.
  auto results =
      oracle.run(text, {oracle.cache(type, 2), Tensor::ofFloats({2, 2, 3, 1}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}),
                        Tensor::ofInts({2}, {2, 1}), batch});
  ASSERT_EQ(results.size(), 1u) << oracle.errors;
  expectTensor(results[0], {2, 2, 2, 1}, {1, 4, 2, 5, 7, 10, 0, 0});
}

TEST_F(ReferenceCache, ScoresOfFourKinds) {
  const std::string type =
      "!kvcache.cache<heads = 1, dim = 2, page = 2, k = f32, v = f32, planes = [minmax, norm, score]>";
  const std::string text = "!kv = " + type + R"(
    func.func @f(%c: !kv, %k: tensor<?x1x2xf32>, %q: tensor<?x2x2xf32>, %b: !kvcache.batch)
        -> (tensor<?x1x?xf32>, tensor<?x1x?xf32>, tensor<?x1x?xf32>, tensor<?x1x?xf32>) {
      %d = kvcache.append %c, %k, %k at %b : !kv, tensor<?x1x2xf32>, tensor<?x1x2xf32>
      %0 = kvcache.score bound %q, %d at %b : (tensor<?x2x2xf32>, !kv, !kvcache.batch) -> tensor<?x1x?xf32>
      %1 = kvcache.score dot %q, %d at %b : (tensor<?x2x2xf32>, !kv, !kvcache.batch) -> tensor<?x1x?xf32>
      %2 = "kvcache.score"(%d, %b) <{kind = #kvcache<score_kind key_norm>}> : (!kv, !kvcache.batch) -> tensor<?x1x?xf32>
      %3 = "kvcache.score"(%d, %b) <{kind = #kvcache<score_kind plane>}> : (!kv, !kvcache.batch) -> tensor<?x1x?xf32>
      return %0, %1, %2, %3 : tensor<?x1x?xf32>, tensor<?x1x?xf32>, tensor<?x1x?xf32>, tensor<?x1x?xf32>
    })";
  // Entry 0: three keys, one row of two query heads that matter; entry 1: no rows and no keys.
  Batch batch{{0, 3, 3}, {0, 1}, {0, 1, 2}};
  auto results = oracle.run(text, {oracle.cache(type, 2), Tensor::ofFloats({3, 1, 2}, {3, 4, 0, -1, 6, 8}),
                                   Tensor::ofFloats({3, 2, 2}, {1, 0, 0, -1, 0, 0, 0, 0, -9, -9, 0, 0}), batch});
  ASSERT_EQ(results.size(), 4u) << oracle.errors;
  // Page 0: low (0, -1), high (3, 4). Query (1, 0): 3; (0, -1): 1; (-9, -9): 0 + 9; zeros: 0.
  expectTensor(results[0], {2, 1, 2}, {9, 6, -infinity, -infinity});
  expectTensor(results[1], {2, 1, 3}, {3, 9, 6, -infinity, -infinity, -infinity});
  expectTensor(results[2], {2, 1, 3}, {5, 1, 10, -infinity, -infinity, -infinity});
  expectTensor(results[3], {2, 1, 3}, {0, 0, 0, -infinity, -infinity, -infinity});
}

TEST_F(ReferenceCache, PoolsOverNeighboursThatExist) {
  auto text = [](const std::string &mode) {
    return "func.func @f(%s: tensor<?x1x?xf32>) -> tensor<?x1x?xf32> {\n  %p = \"kvcache.pool\"(%s) <{kernel = 3 : "
           "i64, "
           "mode = \"" +
           mode + "\"}> : (tensor<?x1x?xf32>) -> tensor<?x1x?xf32>\n  return %p : tensor<?x1x?xf32>\n}";
  };
  Tensor scores = Tensor::ofFloats({1, 1, 5}, {1, 5, -3, -infinity, -infinity});
  auto top = oracle.run(text("max"), {scores});
  ASSERT_EQ(top.size(), 1u) << oracle.errors;
  expectTensor(top[0], {1, 1, 5}, {5, 5, 5, -infinity, -infinity});
  auto mean = oracle.run(text("mean"), {scores});
  ASSERT_EQ(mean.size(), 1u) << oracle.errors;
  expectTensor(mean[0], {1, 1, 5}, {3, 1, 1, -infinity, -infinity});
}

TEST_F(ReferenceCache, BadInputsAreErrorsAndNothingElse) {
  const std::string type = cacheType("page = 2, k = f32, v = f32");
  const std::string text = program(type, "", "  return %d : !kv", "!kv");
  auto fails = [&](std::vector<Datum> inputs, const std::string &message) {
    oracle.errors.clear();
    EXPECT_TRUE(oracle.run(text, inputs).empty());
    EXPECT_NE(oracle.errors.find(message), std::string::npos) << oracle.errors;
  };
  Cache two = oracle.cache(type, 2, 4);
  fails({two, range(5), rowsAt(0, 5)}, "expects at most 4 slots, the capacity of a table");
  fails({two, range(2), rowsAt(0, 2, 2)}, "below the 2 sequences of the cache, but got 2");
  fails({two, range(2), rowsAt(0, 2, -1)}, "expects sequences of at least 0");
  fails({two, range(2), Batch{{0, 1, 2}, {1, 1}, {0, 0}}}, "but got sequence 1 twice");
  fails({two, range(2), Batch{{0, 2, 1}, {0, 1}, {0}}}, "expects query_offsets that do not decrease");
  fails({two, range(2), Batch{{0, 1}, {0}, {0, 1}}}, "expects query_offsets from 0 to the 2 positions");
  fails({two, range(2), Batch{{1, 2}, {0}, {0, 1}}}, "but got 1 to 2");
  fails({two, range(2), Batch{{}, {0}, {0, 1}}}, "expects query_offsets of 2 elements");
  fails({two, range(3), rowsAt(0, 2)}, "expects as many rows as the batch has positions (2), but got 3");
  fails({two, range(2), Batch{{0, 2}, {0}, {0, -1}}}, "expects positions of 0 to 2147483647, but got -1");
  fails({two, range(2)}, "expects 3 inputs, but got 2");
  fails({two, Tensor::ofFloats({2, 1, 3}, std::vector<double>(6)), rowsAt(0, 2)}, "but got shape [2, 1, 3]");
  fails({range(2), range(2), rowsAt(0, 2)}, "but got a value of another kind");
  fails({oracle.cache(cacheType("page = 4, k = f32, v = f32")), range(2), rowsAt(0, 2)}, "page = 4");
}

TEST_F(ReferenceCache, OutOfRangeOperandsAreErrors) {
  const std::string type = cacheType("page = 2, k = f32, v = f32, positions = stored");
  auto fails = [&](const std::string &more, const std::string &body, const Datum &extra, const std::string &message) {
    oracle.errors.clear();
    EXPECT_TRUE(
        oracle.run(program(type, more, body, "!kv"), {oracle.cache(type), range(2), rowsAt(0, 2), extra}).empty());
    EXPECT_NE(oracle.errors.find(message), std::string::npos) << oracle.errors;
  };
  fails(", %i: index", "  %e = kvcache.fork %d from %i to %i : !kv\n  return %e : !kv", Datum(int64_t(1)),
        "expects sequences of 0 to below 1, but got 1");
  const std::string truncate = "  %e = kvcache.truncate %d to %n at %b : !kv, tensor<?xi32>\n  return %e : !kv";
  fails(", %n: tensor<?xi32>", truncate, Tensor::ofInts({1}, {-1}), "expects lengths of at least 0, but got -1");
  fails(", %n: tensor<?xi32>", truncate, Tensor::ofInts({2}, {1, 1}), "expects lengths of 1 entries, but got 2");
  const std::string compact = "  %e = kvcache.compact %d keep %s at %b : !kv, !kvcache.selection<token>\n"
                              "  return %e : !kv";
  for (const std::vector<int64_t> &list : {std::vector<int64_t>{2}, {-1}, {1, 1}, {1, 0}}) {
    Selection keep;
    keep.heads = 1;
    keep.lists = {list};
    fails(", %s: !kvcache.selection<token>", compact, keep, "expects a selection that ascends");
  }
  const std::string evict = "  %e = kvcache.evict %d by %s at %b {budget = 1 : i64, first = 0 : i64, last = 0 : i64} : "
                            "!kv, tensor<?x1x?xf32>\n  return %e : !kv";
  fails(", %s: tensor<?x1x?xf32>", evict, Tensor::ofFloats({1, 1, 1}, {0}),
        "expects scores of the 2 tokens of a table, but got 1");
}
