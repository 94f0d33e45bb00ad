//===- CacheTest.cpp - Conformance: caches and contexts -------------------===//
//
// Appending, sharing, truncating, exhaustion, tables, statistics.
//
//===----------------------------------------------------------------------===//
#include "Conformance.h"

#include <random>

namespace kvc::cts {
namespace {

class Caches : public Conformance {};
KVC_INSTANTIATE_FOR_DEVICES(Caches);

TEST_P(Caches, AppendsToSeveralSequences) {
  Cache c = cache(0, 3, 100);
  append("append", c, {2, 0}, {5, 2});
  append("append", c, {0}, {1}, 10);
  EXPECT_EQ(c.length(0), 3);
  EXPECT_EQ(c.length(1), 0);
  EXPECT_EQ(c.length(2), 5);
  EXPECT_EQ(sum("sum", c, 2), 4 * (1 + 2 + 3 + 4 + 5));
  EXPECT_EQ(sum("sum", c, 0), 4 * (6 + 7 + 10));
  EXPECT_EQ(sum("sum", c, 1), 0);
}

TEST_P(Caches, TakesNoRowsAndNoEntries) {
  Cache c = cache(0, 2, 8);
  append("append", c, {}, {});
  append("append", c, {1, 0}, {0, 0});
  EXPECT_EQ(c.statistics().pages_used, 0);
  Cache none = cache(0, 0, 0);
  append("append", none, {}, {});
  EXPECT_EQ(none.statistics().pages_capacity, 0);
}

TEST_P(Caches, CountsBytesWithoutPadding) {
  Cache c = cache(0, 2, 100);
  append("append", c, {0, 1}, {6, 1});
  kvc_cache_statistics_t s = c.statistics();
  EXPECT_EQ(s.pages_used, 3);
  EXPECT_EQ(s.slots_used, 7);
  // 7 slots of 16 bytes, 3 table entries, length and sealed of two tables.
  EXPECT_EQ(s.bytes_used, 7 * 16 + (3 + 4) * 4);
  Cache sealed = cache(1, 1, 100);
  append("append_sealed", sealed, {0}, {10});
  s = sealed.statistics();
  // The 9th slot sealed 4: one page of 4 bytes per slot; 6 in the tail. A page is reserved for what the tail holds too.
  EXPECT_EQ(s.bytes_used, 4 * 4 + 6 * 16 + (1 + 1 + 2) * 4);
  EXPECT_EQ(s.tails_used, 1);
}

TEST_P(Caches, SharesAndCopiesPagesOnFork) {
  Cache c = cache(0, 3, 100);
  append("append", c, {0}, {6});
  c.fork(0, 1);
  EXPECT_EQ(c.statistics().pages_used, 2);
  append("append", c, {1}, {1}, 100);
  // The full page stays shared, the other one was copied.
  EXPECT_EQ(c.statistics().pages_used, 3);
  EXPECT_EQ(sum("sum", c, 0), 4 * 21);
  EXPECT_EQ(sum("sum", c, 1), 4 * 121);
  append("append", c, {0}, {1}, 50);
  EXPECT_EQ(c.statistics().pages_used, 3);
  EXPECT_EQ(sum("sum", c, 0), 4 * 71);
  EXPECT_EQ(sum("sum", c, 1), 4 * 121);
  c.clear(0);
  EXPECT_EQ(sum("sum", c, 1), 4 * 121);
  c.clear(1);
  EXPECT_EQ(c.statistics().pages_used, 0);
}

TEST_P(Caches, ForksOverWhatTheDestinationHeld) {
  Cache c = cache(0, 2, 100);
  append("append", c, {0, 1}, {2, 40});
  c.fork(0, 1);
  EXPECT_EQ(c.length(1), 2);
  EXPECT_EQ(c.statistics().pages_used, 1);
  c.fork(1, 1);
  EXPECT_EQ(c.length(1), 2);
  EXPECT_EQ(c.statistics().pages_used, 1);
  expectError(KVC_OUT_OF_RANGE, "expects a sequence from 0 to 1", [&] { c.fork(0, 2); });
  expectError(KVC_OUT_OF_RANGE, "expects a sequence from 0 to 1", [&] { c.fork(-1, 0); });
}

TEST_P(Caches, ForksInsideAPlan) {
  Cache c = cache(0, 2, 100);
  append("append", c, {0}, {3});
  module->call("fork", {Argument::cache(c.get()), Argument::integer(0), Argument::integer(1)});
  EXPECT_EQ(c.length(1), 3);
  expectError(KVC_OUT_OF_RANGE, "expects a sequence",
              [&] { module->call("fork", {Argument::cache(c.get()), Argument::integer(0), Argument::integer(9)}); });
}

TEST_P(Caches, SharesAndCopiesTailsOnFork) {
  Cache c = cache(1, 2, 100);
  append("append_sealed", c, {0}, {10});
  c.fork(0, 1);
  EXPECT_EQ(c.statistics().tails_used, 1);
  append("append_sealed", c, {1}, {4}, 100);
  EXPECT_EQ(c.statistics().tails_used, 2);
  EXPECT_EQ(sum("sum_sealed", c, 0), 4 * 55);
  EXPECT_EQ(sum("sum_sealed", c, 1), 4 * (55 + 100 + 101 + 102 + 103));
  append("append_sealed", c, {0}, {9}, 1);
  EXPECT_EQ(sum("sum_sealed", c, 0), 4 * (55 + 45));
  EXPECT_EQ(sum("sum_sealed", c, 1), 4 * (55 + 406));
}

TEST_P(Caches, Truncates) {
  Cache c = cache(0, 2, 100);
  append("append", c, {0}, {10});
  c.fork(0, 1);
  c.truncate(0, 5);
  EXPECT_EQ(c.length(0), 5);
  EXPECT_EQ(c.position(0), 5);
  EXPECT_EQ(sum("sum", c, 0), 4 * 15);
  append("append", c, {0}, {1}, 100);
  EXPECT_EQ(sum("sum", c, 0), 4 * 115);
  EXPECT_EQ(sum("sum", c, 1), 4 * 55);
  c.truncate(0, 50);
  EXPECT_EQ(c.length(0), 6);
  EXPECT_EQ(c.position(0), 6);
  c.truncate(0, 0);
  EXPECT_EQ(c.position(0), 0);
  expectError(KVC_INVALID_ARGUMENT, "not negative", [&] { c.truncate(0, -1); });
}

TEST_P(Caches, TruncatesIntoSealedSlotsOnlyWithAFunction) {
  Cache rigid = cache(2, 1, 100);
  append("append_rigid", rigid, {0}, {17});
  rigid.truncate(0, 13);
  EXPECT_EQ(rigid.length(0), 13);
  expectError(KVC_UNSUPPORTED, "sealed slots cannot be opened again", [&] { rigid.truncate(0, 7); });
  EXPECT_EQ(rigid.length(0), 13);
  rigid.truncate(0, 0);
  EXPECT_EQ(rigid.length(0), 0);

  Cache open = cache(1, 2, 100);
  append("append_sealed", open, {0}, {17});
  open.fork(0, 1);
  open.truncate(0, 6);
  EXPECT_EQ(open.length(0), 6);
  EXPECT_EQ(open.position(0), 6);
  EXPECT_EQ(sum("sum_sealed", open, 0), 4 * 21);
  EXPECT_EQ(sum("sum_sealed", open, 1), 4 * 153);
}

TEST_P(Caches, ReleasesPagesAfterEviction) {
  Cache c = cache(0, 1, 100);
  append("append", c, {0}, {20});
  EXPECT_EQ(c.statistics().pages_used, 5);
  BatchHandle batch = c.next({0}, {0});
  module->call("keep", {Argument::cache(c.get()), Argument::batch(batch.get()), Argument::integer(6)});
  EXPECT_EQ(c.statistics().pages_used, 2);
  EXPECT_EQ(c.length(0), 6);
  // Positions go on where they were: eviction is not truncation.
  EXPECT_EQ(c.position(0), 20);
}

TEST_P(Caches, RewritingDoesNotTouchWhatIsShared) {
  Cache c = cache(0, 2, 100);
  append("append", c, {0}, {8});
  c.fork(0, 1);
  BatchHandle batch = c.next({0}, {0});
  module->call("keep", {Argument::cache(c.get()), Argument::batch(batch.get()), Argument::integer(2)});
  EXPECT_EQ(c.length(0), 2);
  EXPECT_EQ(c.length(1), 8);
  EXPECT_EQ(sum("sum", c, 1), 4 * 36);
}

TEST_P(Caches, ExhaustionLeavesEverythingAsItWas) {
  Cache c = cache(0, 3, 100, /*pages=*/4);
  append("append", c, {0, 1}, {6, 4});
  expectError(KVC_EXHAUSTED, "expects 2 free pages, but got 1 of 4", [&] { append("append", c, {1}, {5}); });
  expectError(KVC_EXHAUSTED, "exhausted", [&] { append("append", c, {0, 2}, {2, 5}); });
  EXPECT_EQ(c.length(0), 6);
  EXPECT_EQ(c.length(1), 4);
  EXPECT_EQ(c.position(1), 4);
  EXPECT_EQ(sum("sum", c, 0), 4 * 21);
  append("append", c, {1}, {4});
  EXPECT_EQ(c.statistics().pages_used, 4);
  c.clear(0);
  append("append", c, {1}, {5});
  EXPECT_EQ(c.length(1), 13);
}

TEST_P(Caches, ExhaustionByCopyOnWrite) {
  Cache c = cache(0, 3, 100, /*pages=*/3);
  append("append", c, {0}, {6});
  c.fork(0, 1);
  c.fork(0, 2);
  append("append", c, {1}, {1}, 100);
  expectError(KVC_EXHAUSTED, "exhausted", [&] { append("append", c, {2}, {1}); });
  // The last one that shares a page need not copy it.
  c.clear(0);
  append("append", c, {2}, {1}, 50);
  EXPECT_EQ(sum("sum", c, 1), 4 * 121);
  EXPECT_EQ(sum("sum", c, 2), 4 * 71);
  // Two that share a page and write in one batch take one copy.
  Cache pair = cache(0, 2, 100, /*pages=*/2);
  append("append", pair, {0}, {2});
  pair.fork(0, 1);
  append("append", pair, {0, 1}, {1, 1}, 10);
  EXPECT_EQ(sum("sum", pair, 0), 4 * 13);
  EXPECT_EQ(sum("sum", pair, 1), 4 * 14);
}

TEST_P(Caches, LimitsLength) {
  Cache c = cache(0, 1, 10);
  append("append", c, {0}, {10});
  expectError(KVC_OUT_OF_RANGE, "expects at most 10 slots, but got 10 + 1", [&] { append("append", c, {0}, {1}); });
  EXPECT_EQ(c.length(0), 10);
}

TEST_P(Caches, ExhaustionInALaterLayerShowsBeforeTheFirst) {
  Cache first = cache(0, 2, 100), second = cache(0, 2, 100, /*pages=*/1);
  BatchHandle batch = first.next({0}, {5});
  std::vector<float> rows(20, 1);
  std::vector<int64_t> dims{5, 4};
  std::vector<Argument> arguments{Argument::cache(first.get()), Argument::cache(second.get()),
                                  Argument::batch(batch.get()), Argument::tensor(rows.data(), dims)};
  expectError(KVC_EXHAUSTED, "exhausted", [&] { module->call("layers", arguments); });
  EXPECT_EQ(first.length(0), 0);
  EXPECT_EQ(first.statistics().pages_used, 0);
  append("append", first, {0}, {1});
}

TEST_P(Caches, AFailureHalfWayMarksOnlyItsSequences) {
  Cache c = cache(0, 2, 100);
  append("append", c, {0, 1}, {3, 3});
  BatchHandle batch = c.next({0}, {0});
  expectError(KVC_OUT_OF_RANGE, "expects lengths of at least 0, but got -7",
              [&] { module->call("broken", {Argument::cache(c.get()), Argument::batch(batch.get())}); });
  expectError(KVC_INVALID_ARGUMENT, "free it first", [&] { append("append", c, {0}, {1}); });
  expectError(KVC_INVALID_ARGUMENT, "free it first", [&] { c.fork(0, 1); });
  EXPECT_EQ(sum("sum", c, 1), 4 * (4 + 5 + 6));
  append("append", c, {1}, {1});
  c.clear(0);
  append("append", c, {0}, {2});
  EXPECT_EQ(sum("sum", c, 0), 4 * 3);
  c.clear(0);
  c.clear(1);
  EXPECT_EQ(c.statistics().pages_used, 0);
}

TEST_P(Caches, ClonesKeepTheOldValue) {
  Cache c = cache(0, 1, 100, /*pages=*/20);
  append("append", c, {0}, {2});
  BatchHandle batch = c.next({0}, {1});
  std::vector<float> row(4, 100);
  std::vector<int64_t> dims{1, 4};
  {
    auto results = module->call(
        "keep_old", {Argument::cache(c.get()), Argument::batch(batch.get()), Argument::tensor(row.data(), dims)});
    Cache old(results[1].cache());
    results.erase(results.begin(), results.begin() + 2);
    EXPECT_EQ(results[0].integer(), 3);
    EXPECT_EQ(results[1].integer(), 2);
    EXPECT_EQ(sum("sum", c, 0), 4 * 103);
    EXPECT_EQ(sum("sum", old, 0), 4 * 3);
    EXPECT_EQ(c.statistics().pages_used, 2);
    Cache again = old.clone();
    append("append", again, {0}, {1}, 7);
    EXPECT_EQ(sum("sum", old, 0), 4 * 3);
    EXPECT_EQ(sum("sum", again, 0), 4 * 10);
  }
  EXPECT_EQ(c.statistics().pages_used, 1);
}

// --- Random operations against a model ---------------------------------------

/// What a sequence should hold.
using Rows = std::vector<float>;

class RandomOperations : public Conformance {
protected:
  void runSeed(uint64_t seed, size_t spec, const std::string &suffix) {
    std::mt19937_64 random(seed);
    auto below = [&](uint64_t n) { return int64_t(random() % n); };
    constexpr int32_t sequences = 5;
    constexpr int64_t maxLength = 40, pages = 24, tails = 6;
    std::vector<Cache> caches;
    std::vector<std::vector<Rows>> models;
    caches.push_back(cache(spec, sequences, maxLength, pages, tails));
    models.emplace_back(sequences);
    for (int step = 0; step < 150; ++step) {
      size_t which = size_t(below(caches.size()));
      Cache &c = caches[which];
      std::vector<Rows> &model = models[which];
      int32_t a = int32_t(below(sequences)), b = int32_t(below(sequences));
      SCOPED_TRACE("seed " + std::to_string(seed) + ", step " + std::to_string(step));
      switch (below(8)) {
      case 0:
      case 1:
      case 2: {
        std::vector<int32_t> who{a}, counts{int32_t(below(12))};
        if (b != a) {
          who.push_back(b);
          counts.push_back(int32_t(below(5)));
        }
        try {
          append(("append" + suffix).c_str(), c, who, counts, float(step % 7));
        } catch (const Error &error) {
          // Full: nothing may have changed, which the sums below show.
          ASSERT_TRUE(error.status() == KVC_EXHAUSTED || error.status() == KVC_OUT_OF_RANGE) << error.what();
          break;
        }
        float value = float(step % 7);
        for (size_t i = 0; i < who.size(); ++i) {
          for (int32_t row = 0; row < counts[i]; ++row) {
            model[size_t(who[i])].push_back(value++);
          }
        }
        break;
      }
      case 3:
        if (a != b) {
          c.fork(a, b);
          model[size_t(b)] = model[size_t(a)];
        }
        break;
      case 4: {
        int64_t length = below(maxLength);
        try {
          c.truncate(a, length);
        } catch (const Error &error) {
          ASSERT_TRUE(error.status() == KVC_UNSUPPORTED || error.status() == KVC_EXHAUSTED) << error.what();
          break;
        }
        model[size_t(a)].resize(std::min(model[size_t(a)].size(), size_t(length)));
        break;
      }
      case 5:
        c.clear(a);
        model[size_t(a)].clear();
        break;
      case 6:
        if (caches.size() < 3) {
          caches.push_back(c.clone());
          models.push_back(models[which]);
        }
        break;
      default:
        if (caches.size() > 1) {
          caches.erase(caches.begin() + ptrdiff_t(which));
          models.erase(models.begin() + ptrdiff_t(which));
        }
        break;
      }
      for (size_t k = 0; k < caches.size(); ++k) {
        int32_t sequence = int32_t(below(sequences));
        const Rows &rows = models[k][size_t(sequence)];
        ASSERT_EQ(caches[k].length(sequence), int64_t(rows.size()));
        ASSERT_EQ(caches[k].position(sequence), int64_t(rows.size()));
        ASSERT_EQ(sum(("sum" + suffix).c_str(), caches[k], sequence),
                  4 * std::accumulate(rows.begin(), rows.end(), 0.0f));
      }
    }
    for (Cache &c : caches) {
      for (int32_t sequence = 0; sequence < sequences; ++sequence) {
        c.clear(sequence);
      }
    }
    kvc_cache_statistics_t statistics = caches[0].statistics();
    EXPECT_EQ(statistics.pages_used, 0);
    EXPECT_EQ(statistics.tails_used, 0);
    EXPECT_EQ(statistics.bytes_used, 0);
  }
  int rounds() const { return std::getenv("KVC_LONG_TESTS") ? 300 : 12; }
};
KVC_INSTANTIATE_FOR_DEVICES(RandomOperations);

TEST_P(RandomOperations, AgreeWithAModelWithoutATail) {
  for (int seed = 0; seed < rounds(); ++seed) {
    runSeed(uint64_t(seed), 0, "");
  }
}
TEST_P(RandomOperations, AgreeWithAModelWithATail) {
  for (int seed = 0; seed < rounds(); ++seed) {
    runSeed(uint64_t(seed), 1, "_sealed");
  }
}
TEST_P(RandomOperations, AgreeWithAModelThatCannotOpenSealedSlots) {
  for (int seed = 0; seed < rounds(); ++seed) {
    runSeed(uint64_t(seed), 2, "_rigid");
  }
}

// --- Tables ----------------------------------------------------------------

struct Tables {
  explicit Tables(const Cache &cache) {
    int32_t sequences;
    check(kvc_cache_table_shape(cache.get(), &sequences, &view.tables, &view.max_pages));
    table.resize(size_t(view.tables * view.max_pages));
    lengths.resize(size_t(view.tables));
    sealed.resize(size_t(view.tables));
    tails.resize(size_t(view.tables));
    positions.resize(size_t(sequences));
    view.struct_size = sizeof(view);
    view.table = table.data();
    view.lengths = lengths.data();
    view.sealed = sealed.data();
    view.tail_table = tails.data();
    view.positions = positions.data();
    check(kvc_cache_get_tables(cache.get(), &view));
  }
  void set(const Cache &cache) const { check(kvc_cache_set_tables(cache.get(), &view)); }

  kvc_cache_tables_t view{};
  std::vector<int32_t> table, lengths, sealed, tails;
  std::vector<int64_t> positions;
};

TEST_P(Caches, MovesTablesAndPagesToAnotherCache) {
  Cache from = cache(1, 2, 40), to = cache(1, 2, 40);
  append("append_sealed", from, {0, 1}, {11, 18});
  std::vector<char> pages(64 * 20), tails(128 * 2);
  check(kvc_cache_read(from.get(), KVC_PAGES, 0, pages.data(), pages.size()));
  check(kvc_cache_read(from.get(), KVC_TAILS, 0, tails.data(), tails.size()));
  Tables(from).set(to);
  check(kvc_cache_write(to.get(), KVC_PAGES, 0, pages.data(), pages.size()));
  check(kvc_cache_write(to.get(), KVC_TAILS, 0, tails.data(), tails.size()));
  for (int32_t sequence : {0, 1}) {
    EXPECT_EQ(to.length(sequence), from.length(sequence));
    EXPECT_EQ(to.position(sequence), from.position(sequence));
    EXPECT_EQ(sum("sum_sealed", to, sequence), sum("sum_sealed", from, sequence));
  }
  append("append_sealed", to, {0}, {20}, 3);
  EXPECT_EQ(to.length(0), 31);
  expectError(KVC_OUT_OF_RANGE, "expects bytes inside the pages",
              [&] { check(kvc_cache_read(from.get(), KVC_PAGES, 64 * 20 - 1, pages.data(), 2)); });
  expectError(KVC_OUT_OF_RANGE, "expects bytes inside the tails",
              [&] { check(kvc_cache_write(from.get(), KVC_TAILS, UINT64_MAX, tails.data(), 2)); });
}

TEST_P(Caches, RefusesBadTables) {
  Cache c = cache(1, 2, 40);
  append("append_sealed", c, {0, 1}, {14, 18});
  Tables good(c);
  Cache other = c.clone();
  auto refuse = [&](kvc_status_t status, const char *text, auto change) {
    Tables bad = good;
    bad.view.table = bad.table.data();
    bad.view.lengths = bad.lengths.data();
    bad.view.sealed = bad.sealed.data();
    bad.view.tail_table = bad.tails.data();
    bad.view.positions = bad.positions.data();
    change(bad);
    expectError(status, text, [&] { bad.set(c); });
    EXPECT_EQ(sum("sum_sealed", c, 0), 4 * 105);
  };
  refuse(KVC_INVALID_ARGUMENT, "no other cache uses", [](Tables &) {});
  other.clear(0);
  other.clear(1);
  good.set(c);
  EXPECT_EQ(sum("sum_sealed", c, 0), 4 * 105);
  refuse(KVC_OUT_OF_RANGE, "expects a page from 0 to 19, but got 20", [](Tables &t) { t.table[0] = 20; });
  refuse(KVC_OUT_OF_RANGE, "expects a page from 0 to 19, but got -2", [](Tables &t) { t.table[0] = -2; });
  refuse(KVC_INVALID_ARGUMENT, "expects each page once", [](Tables &t) { t.table[0] = t.table[1]; });
  refuse(KVC_INVALID_ARGUMENT, "expects each page once", [](Tables &t) { t.table[10] = t.table[0]; });
  refuse(KVC_INVALID_ARGUMENT, "expects a page for each of 8 slots", [](Tables &t) { t.table[1] = -1; });
  refuse(KVC_INVALID_ARGUMENT, "expects no page after the first -1", [](Tables &t) { t.table[9] = 15; });
  refuse(KVC_OUT_OF_RANGE, "length -1", [](Tables &t) { t.lengths[0] = -1; });
  refuse(KVC_OUT_OF_RANGE, "length 41", [](Tables &t) { t.lengths[0] = 41; });
  refuse(KVC_OUT_OF_RANGE, "at most 8 slots that are not sealed", [](Tables &t) { t.lengths[0] = 20; });
  refuse(KVC_OUT_OF_RANGE, "sealed -4", [](Tables &t) { t.sealed[0] = -4; });
  refuse(KVC_OUT_OF_RANGE, "sealed 15", [](Tables &t) { t.sealed[0] = 15; });
  refuse(KVC_INVALID_ARGUMENT, "expects a tail", [](Tables &t) { t.tails[0] = -1; });
  refuse(KVC_INVALID_ARGUMENT, "expects each tail once", [](Tables &t) { t.tails[0] = t.tails[1]; });
  refuse(KVC_OUT_OF_RANGE, "expects a tail from 0 to 1", [](Tables &t) { t.tails[0] = 2; });
  refuse(KVC_INVALID_ARGUMENT, "count of tokens", [](Tables &t) { t.positions[0] = -1; });
  refuse(KVC_INVALID_ARGUMENT, "expects 2 tables of 10 pages", [](Tables &t) { t.view.tables = 3; });
  refuse(KVC_INVALID_ARGUMENT, "struct_size", [](Tables &t) { t.view.struct_size = 8; });
  refuse(KVC_INVALID_ARGUMENT, "'lengths'", [](Tables &t) { t.view.lengths = nullptr; });
}

// --- Contexts --------------------------------------------------------------

class Contexts : public Conformance {
protected:
  Context context(int32_t sequences, int64_t maxLength, int64_t pages = 0) {
    return Context(*module, "layers", {0, sequences, maxLength, pages, 0});
  }
  float step(Context &context, int32_t sequence, int32_t rows, float value) {
    BatchHandle batch = context.batch({sequence}, {rows});
    std::vector<float> data(size_t(rows) * 4, value);
    std::vector<int64_t> dims{rows, 4};
    return context.call("layers", {Argument::batch(batch.get()), Argument::tensor(data.data(), dims)})[0]
        .copy<float>()[0];
  }
};
KVC_INSTANTIATE_FOR_DEVICES(Contexts);

TEST_P(Contexts, SequencesComeAndGo) {
  Context c = context(2, 100);
  EXPECT_EQ(kvc_context_cache_count(c.get()), 2u);
  int32_t a = c.create(), b = c.create();
  EXPECT_NE(a, b);
  expectError(KVC_EXHAUSTED, "all 2 sequences are in use", [&] { c.create(); });
  EXPECT_EQ(step(c, a, 3, 1), 12);
  EXPECT_EQ(step(c, b, 1, 5), 20);
  EXPECT_EQ(step(c, a, 1, 2), 20);
  EXPECT_EQ(c.position(a), 4);
  c.free(b);
  expectError(KVC_INVALID_ARGUMENT, "in use", [&] { step(c, b, 1, 1); });
  expectError(KVC_INVALID_ARGUMENT, "in use", [&] { c.free(b); });
  int32_t d = c.fork(a);
  EXPECT_EQ(step(c, d, 1, 10), 60);
  EXPECT_EQ(step(c, a, 1, 1), 24);
  c.truncate(d, 2);
  EXPECT_EQ(c.position(d), 2);
  EXPECT_EQ(step(c, d, 0, 0), 8);
  c.free(d);
  c.free(a);
  EXPECT_EQ(c.statistics().pages_used, 0);
  expectError(KVC_INVALID_ARGUMENT, "in use", [&] { c.fork(7); });
}

TEST_P(Contexts, ExhaustionLetsOthersGoOn) {
  Context c = context(3, 100, /*pages=*/3);
  int32_t a = c.create(), b = c.create();
  step(c, a, 8, 1);
  step(c, b, 4, 1);
  expectError(KVC_EXHAUSTED, "exhausted", [&] { step(c, a, 1, 1); });
  EXPECT_EQ(step(c, b, 0, 0), 16);
  EXPECT_EQ(step(c, a, 0, 0), 32);
  c.free(b);
  EXPECT_EQ(step(c, a, 1, 1), 36);
}

TEST_P(Contexts, RefusesFunctionsOfOtherShape) {
  Context c = context(1, 10);
  int32_t a = c.create();
  BatchHandle batch = c.batch({a}, {0});
  std::vector<int64_t> dims{0, 4};
  Argument rows = Argument::tensor(static_cast<const float *>(nullptr), dims);
  expectError(KVC_INVALID_ARGUMENT, "expects 1 caches, but the context has 2",
              [&] { c.call("append", {Argument::batch(batch.get()), rows}); });
  expectError(KVC_INVALID_ARGUMENT, "with cache arguments", [&] { Context(*module, "scale", {0, 1, 10, 0, 0}); });
}

} // namespace
} // namespace kvc::cts
