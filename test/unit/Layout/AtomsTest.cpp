//===- AtomsTest.cpp - Layouts of matrix instructions ---------------------===//
//
// The formulas are those of the instruction set's manual, written out for lane 4 g + t and element i.
//
//===----------------------------------------------------------------------===//
#include "kvc/Target/Atoms.h"

#include <gtest/gtest.h>

using namespace kvc;

namespace {
void expectHeld(const Layout &layout, int64_t registers, llvm::function_ref<int64_t(int64_t, int64_t, int64_t)> row,
                llvm::function_ref<int64_t(int64_t, int64_t, int64_t)> column) {
  ASSERT_TRUE(layout.isValid());
  ASSERT_EQ(layout.inSize(Axis::Register), registers);
  ASSERT_EQ(layout.inSize(Axis::Lane), 32);
  for (int64_t lane = 0; lane < 32; ++lane) {
    for (int64_t i = 0; i < registers; ++i) {
      Coordinates at = layout(i, lane, 0);
      EXPECT_EQ(at[Axis::Row], row(lane / 4, lane % 4, i)) << "lane " << lane << " element " << i;
      EXPECT_EQ(at[Axis::Column], column(lane / 4, lane % 4, i)) << "lane " << lane << " element " << i;
    }
  }
}
} // namespace

TEST(Atoms, M16N8K16) {
  for (const char *name : {"m16n8k16.f16", "m16n8k16.bf16"}) {
    const MmaAtom *atom = lookupMmaAtom(name);
    ASSERT_TRUE(atom);
    expectHeld(
        atom->a(), 8, [](int64_t g, int64_t, int64_t i) { return g + 8 * ((i & 2) != 0); },
        [](int64_t, int64_t t, int64_t i) { return 2 * t + (i & 1) + 8 * (i >= 4); });
    expectHeld(
        atom->b(), 4, [](int64_t, int64_t t, int64_t i) { return 2 * t + (i & 1) + 8 * (i >= 2); },
        [](int64_t g, int64_t, int64_t) { return g; });
    expectHeld(
        atom->d(), 4, [](int64_t g, int64_t, int64_t i) { return g + 8 * (i >= 2); },
        [](int64_t, int64_t t, int64_t i) { return 2 * t + (i & 1); });
  }
}

TEST(Atoms, M16N8K32) {
  const MmaAtom *atom = lookupMmaAtom("m16n8k32.i8");
  ASSERT_TRUE(atom);
  auto inUpperRows = [](int64_t i) { return (i >= 4 && i < 8) || i >= 12; };
  expectHeld(
      atom->a(), 16, [&](int64_t g, int64_t, int64_t i) { return g + 8 * inUpperRows(i); },
      [](int64_t, int64_t t, int64_t i) { return 4 * t + (i & 3) + 16 * (i >= 8); });
  expectHeld(
      atom->b(), 8, [](int64_t, int64_t t, int64_t i) { return 4 * t + (i & 3) + 16 * (i >= 4); },
      [](int64_t g, int64_t, int64_t) { return g; });
}

TEST(Atoms, LoadedMatrices) {
  expectHeld(
      loadedMatrices(4, false), 8, [](int64_t g, int64_t, int64_t i) { return 8 * (i / 2) + g; },
      [](int64_t, int64_t t, int64_t i) { return 2 * t + (i & 1); });
  Layout transposed = loadedMatrices(1, true);
  for (int64_t lane = 0; lane < 32; ++lane) {
    for (int64_t i = 0; i < 2; ++i) {
      EXPECT_EQ(transposed(i, lane, 0)[Axis::Row], 2 * (lane % 4) + i);
      EXPECT_EQ(transposed(i, lane, 0)[Axis::Column], lane / 4);
    }
  }
}

// Two accumulators side by side are an operand of the next product as they are: probabilities stay in registers.
TEST(Atoms, AccumulatorsOf16BitAtomsAreOperands) {
  const MmaAtom *atom = lookupMmaAtom("m16n8k16.f16");
  Layout scores = atom->d().product(Layout({{8, Axis::Register, 1, Axis::Column, 1}}));
  Layout probabilities = atom->a().product(Layout({{4, Axis::Register, 1, Axis::Column, 1}}));
  EXPECT_EQ(convert(scores, probabilities).cost, ConversionCost::Free);
}

TEST(Atoms, AccumulatorsOf8BitAtomsAreNot) {
  const MmaAtom *atom = lookupMmaAtom("m16n8k32.i8");
  Layout scores = atom->d().product(Layout({{4, Axis::Register, 1, Axis::Column, 1}}));
  EXPECT_GE(convert(scores, atom->a()).cost, ConversionCost::Lanes);
}
