//===- LayoutTest.cpp - Properties of the layout algebra ------------------===//
//
// Random layouts are made of digits dealt out to axes; every law is checked against the map itself, number by number.
//
//===----------------------------------------------------------------------===//
#include "kvc/Target/Layout.h"

#include <gtest/gtest.h>

#include <random>

using namespace kvc;

namespace {
constexpr Axis held[] = {Axis::Register, Axis::Lane, Axis::Warp};
constexpr Axis elements[] = {Axis::Row, Axis::Column};

class Random {
public:
  explicit Random(unsigned seed) : engine(seed) {}
  int64_t below(int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(engine); }

  /// Digits of random sizes between random axes of `ins` and `outs`; some are replicas.
  Layout layout(llvm::ArrayRef<Axis> ins, llvm::ArrayRef<Axis> outs, bool replicas) {
    static constexpr int64_t sizes[] = {2, 2, 3, 4, 5, 8};
    int64_t count = 1 + below(5);
    llvm::SmallVector<Mode> modes;
    llvm::SmallVector<int64_t> order;
    for (int64_t i = 0; i < count; ++i) {
      order.push_back(i);
      modes.push_back({sizes[below(6)], ins[below(ins.size())], 0, outs[below(outs.size())], 0});
      if (replicas && below(4) == 0) {
        modes.back().out = Axis::None;
      }
    }
    // Strides count up in one order for the inputs and in another for the outputs.
    Coordinates next;
    next.value.fill(1);
    for (Mode &mode : modes) {
      mode.inStride = next[mode.in];
      next[mode.in] *= mode.size;
    }
    next.value.fill(1);
    std::shuffle(order.begin(), order.end(), engine);
    for (int64_t i : order) {
      Mode &mode = modes[i];
      if (mode.out != Axis::None) {
        mode.outStride = next[mode.out];
        next[mode.out] *= mode.size;
      }
    }
    return Layout(modes);
  }

private:
  std::mt19937 engine;
};

/// All coordinates of the inputs of a layout.
llvm::SmallVector<Coordinates> inputsOf(const Layout &layout, llvm::ArrayRef<Axis> axes) {
  llvm::SmallVector<Coordinates> all(1);
  for (Axis axis : axes) {
    llvm::SmallVector<Coordinates> next;
    for (const Coordinates &at : all) {
      for (int64_t i = 0; i < layout.inSize(axis); ++i) {
        next.push_back(at);
        next.back()[axis] = i;
      }
    }
    all = std::move(next);
  }
  return all;
}

class LayoutLaws : public testing::TestWithParam<unsigned> {};
} // namespace

TEST_P(LayoutLaws, InverseUndoesTheMap) {
  Random random(GetParam());
  Layout layout = random.layout(held, elements, false);
  ASSERT_TRUE(layout.isValid());
  for (const Coordinates &at : inputsOf(layout, held)) {
    EXPECT_EQ(layout.inverse()(layout(at)), at);
  }
  EXPECT_EQ(layout.inverse().inverse(), layout);
}

TEST_P(LayoutLaws, InverseOfReplicasIsARightInverse) {
  Random random(GetParam());
  Layout layout = random.layout(held, elements, true), inverse = layout.inverse();
  for (const Coordinates &element : inputsOf(inverse, elements)) {
    EXPECT_EQ(layout(inverse(element)), element);
  }
}

TEST_P(LayoutLaws, NoTwoPlacesHoldTheSameElement) {
  Random random(GetParam());
  Layout layout = random.layout(held, elements, false);
  llvm::SmallVector<Coordinates> seen;
  for (const Coordinates &at : inputsOf(layout, held)) {
    Coordinates element = layout(at);
    EXPECT_EQ(llvm::count(seen, element), 0);
    seen.push_back(element);
  }
}

TEST_P(LayoutLaws, ComposeIsOneMapAfterTheOther) {
  Random random(GetParam());
  Layout first = random.layout(held, elements, true);
  // A second map that takes what the first gives: the first's digits, split or not, go anywhere.
  llvm::SmallVector<Mode> modes;
  int64_t address = 1, column = 1;
  Layout inverse = first.inverse();
  for (const Mode &mode : inverse.getModes()) {
    int64_t low = mode.size % 2 == 0 && random.below(2) ? 2 : mode.size;
    modes.push_back({low, mode.in, mode.inStride, Axis::Address, address});
    address *= low;
    modes.push_back({mode.size / low, mode.in, mode.inStride * low, Axis::Column, column});
    column *= mode.size / low;
  }
  Layout second(modes);
  std::optional<Layout> both = first.compose(second);
  ASSERT_TRUE(both);
  for (const Coordinates &at : inputsOf(first, held)) {
    EXPECT_EQ((*both)(at), second(first(at)));
  }
}

TEST_P(LayoutLaws, ComposeWithTheInverseIsTheIdentity) {
  Random random(GetParam());
  Layout layout = random.layout(held, elements, false);
  std::optional<Layout> both = layout.compose(layout.inverse());
  ASSERT_TRUE(both);
  for (const Mode &mode : both->getModes()) {
    EXPECT_EQ(mode.in, mode.out);
    EXPECT_EQ(mode.inStride, mode.outStride);
  }
}

TEST_P(LayoutLaws, ProductRepeatsTheTile) {
  Random random(GetParam());
  Layout tile = random.layout(held, elements, false), outer = random.layout(held, elements, false);
  Layout whole = tile.product(outer);
  ASSERT_TRUE(whole.isValid());
  for (const Coordinates &in : inputsOf(tile, held)) {
    for (const Coordinates &number : inputsOf(outer, held)) {
      Coordinates at, expected;
      for (Axis axis : held) {
        at[axis] = in[axis] + number[axis] * tile.inSize(axis);
      }
      for (Axis axis : elements) {
        expected[axis] = tile(in)[axis] + outer(number)[axis] * tile.outSize(axis);
      }
      EXPECT_EQ(whole(at), expected);
    }
  }
}

TEST_P(LayoutLaws, DivideUndoesProduct) {
  Random random(GetParam());
  Layout tile = random.layout(held, elements, false), outer = random.layout(held, elements, false);
  std::optional<Layout> rest = tile.product(outer).divide(tile);
  ASSERT_TRUE(rest);
  EXPECT_EQ(*rest, outer);
}

TEST_P(LayoutLaws, ProjectKeepsOneAxis) {
  Random random(GetParam());
  Layout layout = random.layout(held, elements, false), rows = layout.project(Axis::Row);
  for (const Coordinates &at : inputsOf(layout, held)) {
    EXPECT_EQ(rows(at)[Axis::Row], layout(at)[Axis::Row]);
    EXPECT_EQ(rows(at)[Axis::Column], 0);
  }
  EXPECT_EQ(rows.inSize(Axis::Register), layout.inSize(Axis::Register));
  Layout compact = rows.withoutReplicatedRegisters();
  EXPECT_EQ(compact.outSize(Axis::Row), rows.outSize(Axis::Row));
  EXPECT_TRUE(compact.isValid());
}

TEST_P(LayoutLaws, ConversionMovesEveryElement) {
  Random random(GetParam());
  Layout from = random.layout(held, elements, false);
  // The same elements held by other registers: digits of the registers in another order.
  llvm::SmallVector<Mode> modes(from.getModes());
  int64_t stride = 1;
  for (Mode &mode : llvm::reverse(modes)) {
    if (mode.in == Axis::Register) {
      mode.inStride = stride;
      stride *= mode.size;
    }
  }
  Layout to(modes);
  Conversion conversion = convert(from, to);
  ASSERT_LE(conversion.cost, ConversionCost::Registers);
  for (const Coordinates &at : inputsOf(to, held)) {
    Coordinates source = at;
    source[Axis::Register] = conversion.source[at[Axis::Register]];
    EXPECT_EQ(from(source), to(at));
  }
  EXPECT_EQ(conversion.cost == ConversionCost::Free, from == to);
}

INSTANTIATE_TEST_SUITE_P(Seeds, LayoutLaws, testing::Range(0u, 60u));

TEST(Layout, RefusesDigitsThatDoNotMeet) {
  // 6 = 2 * 3 has no common digits with 3 * 2.
  Layout first({{2, Axis::Lane, 1, Axis::Row, 1}, {3, Axis::Register, 1, Axis::Row, 2}});
  Layout second({{3, Axis::Row, 1, Axis::Lane, 1}, {2, Axis::Row, 3, Axis::Register, 1}});
  EXPECT_FALSE(first.compose(second));
  EXPECT_EQ(convert(first, second.inverse()).cost, ConversionCost::Staging);
}

TEST(Layout, FindsGapsAndOverlaps) {
  EXPECT_FALSE(Layout({{2, Axis::Lane, 1, Axis::Row, 1}, {2, Axis::Lane, 2, Axis::Row, 4}}).isValid());
  EXPECT_FALSE(Layout({{4, Axis::Lane, 1, Axis::Row, 1}, {2, Axis::Register, 1, Axis::Row, 2}}).isValid());
  EXPECT_TRUE(Layout({{4, Axis::Lane, 1, Axis::Row, 1}, {2, Axis::Register, 1, Axis::Row, 4}}).isValid());
}

TEST(Layout, ConversionSeesWhatItCosts) {
  Layout rows({{4, Axis::Lane, 1, Axis::Row, 1}, {2, Axis::Register, 1, Axis::Column, 1}});
  Layout columns({{4, Axis::Register, 1, Axis::Row, 1}, {2, Axis::Lane, 1, Axis::Column, 1}});
  EXPECT_EQ(convert(rows, rows).cost, ConversionCost::Free);
  EXPECT_EQ(convert(rows, columns).cost, ConversionCost::Lanes);
  Layout warps({{4, Axis::Warp, 1, Axis::Row, 1}, {2, Axis::Register, 1, Axis::Column, 1}});
  EXPECT_EQ(convert(rows, warps).cost, ConversionCost::Staging);
}
