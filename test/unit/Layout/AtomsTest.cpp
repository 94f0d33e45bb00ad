//===- AtomsTest.cpp - Layouts of matrix instructions ---------------------===//
//
// The formulas are those of the instruction set's manual, written out for lane 4 g + t and element i.
//
//===----------------------------------------------------------------------===//
#include "kvc/Target/Atoms.h"

#include <gtest/gtest.h>

using namespace kvc;

namespace {
/// `row` and `column` of lane and element.
void expectHeldByLanes(const Layout &layout, int64_t lanes, int64_t registers,
                       llvm::function_ref<int64_t(int64_t, int64_t)> row,
                       llvm::function_ref<int64_t(int64_t, int64_t)> column) {
  ASSERT_TRUE(layout.isValid());
  ASSERT_EQ(layout.inSize(Axis::Register), registers);
  ASSERT_EQ(layout.inSize(Axis::Lane), lanes);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    for (int64_t i = 0; i < registers; ++i) {
      Coordinates at = layout(i, lane, 0);
      EXPECT_EQ(at[Axis::Row], row(lane, i)) << "lane " << lane << " element " << i;
      EXPECT_EQ(at[Axis::Column], column(lane, i)) << "lane " << lane << " element " << i;
    }
  }
}

void expectHeld(const Layout &layout, int64_t registers, llvm::function_ref<int64_t(int64_t, int64_t, int64_t)> row,
                llvm::function_ref<int64_t(int64_t, int64_t, int64_t)> column) {
  expectHeldByLanes(
      layout, 32, registers, [&](int64_t lane, int64_t i) { return row(lane / 4, lane % 4, i); },
      [&](int64_t lane, int64_t i) { return column(lane / 4, lane % 4, i); });
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

// The instructions below are exchanged in the table: its B is the first operand of the instruction, whose rows are
// columns here, its A the second one transposed, its D the result transposed.

TEST(Atoms, M16N16OfWaves64) {
  for (const char *name : {"m16n16k16w64.f16", "m16n16k16w64.bf16", "m16n16k32w64.f16", "m16n16k32w64.bf16"}) {
    const MmaAtom *atom = lookupMmaAtom(name);
    ASSERT_TRUE(atom);
    const int64_t elements = atom->k / 4;
    // With 32 values of k the instruction's element v of lane l is 8 (l / 16) + v. Both operands count them anew, so
    // that results side by side are an operand.
    auto summed = [&](int64_t lane, int64_t v) {
      return elements == 4 ? 4 * (lane / 16) + v : 16 * (v / 4) + 4 * (lane / 16) + v % 4;
    };
    auto other = [](int64_t lane, int64_t) { return lane % 16; };
    expectHeldByLanes(atom->a(), 64, elements, other, summed);
    expectHeldByLanes(atom->b(), 64, elements, summed, other);
    expectHeldByLanes(atom->d(), 64, 4, other, [](int64_t lane, int64_t v) { return 4 * (lane / 16) + v; });
  }
}

TEST(Atoms, M32N32OfWaves64) {
  for (const char *name : {"m32n32k8w64.f16", "m32n32k8w64.bf16", "m32n32k16w64.f16", "m32n32k16w64.bf16"}) {
    const MmaAtom *atom = lookupMmaAtom(name);
    ASSERT_TRUE(atom);
    const int64_t elements = atom->k / 2;
    // With 16 values of k the instruction's element v of lane l is 8 (l / 32) + v: counted anew as above.
    auto summed = [](int64_t lane, int64_t v) { return 8 * (v / 4) + 4 * (lane / 32) + v % 4; };
    auto other = [](int64_t lane, int64_t) { return lane % 32; };
    expectHeldByLanes(atom->a(), 64, elements, other, summed);
    expectHeldByLanes(atom->b(), 64, elements, summed, other);
    expectHeldByLanes(atom->d(), 64, 16, other,
                      [](int64_t lane, int64_t v) { return 8 * (v / 4) + 4 * (lane / 32) + v % 4; });
  }
}

TEST(Atoms, M16N16OfWaves32) {
  for (const char *name : {"m16n16k16w32.f16", "m16n16k16w32.bf16"}) {
    const MmaAtom *atom = lookupMmaAtom(name);
    ASSERT_TRUE(atom);
    // Element v of lane l is k = 8 (v / 4) + 4 (l / 16) + v % 4 of the instruction, in both operands.
    auto summed = [](int64_t lane, int64_t v) { return 8 * (lane / 16) + v; };
    auto other = [](int64_t lane, int64_t) { return lane % 16; };
    expectHeldByLanes(atom->a(), 32, 8, other, summed);
    expectHeldByLanes(atom->b(), 32, 8, summed, other);
    expectHeldByLanes(atom->d(), 32, 8, other, [](int64_t lane, int64_t v) { return v + 8 * (lane / 16); });
  }
}

TEST(Atoms, M16N16HeldTwice) {
  for (const char *name : {"m16n16k16w32x2.f16", "m16n16k16w32x2.bf16"}) {
    const MmaAtom *atom = lookupMmaAtom(name);
    ASSERT_TRUE(atom);
    // Row i of the instruction's first operand and of its result is column `columnOf(i)` here.
    auto columnOf = [](int64_t i) { return i / 2 + 8 * (i % 2); };
    auto element = [](int64_t, int64_t v) { return v; };
    auto row = [](int64_t lane, int64_t) { return lane % 16; };
    expectHeldByLanes(atom->a(), 32, 16, row, element);
    expectHeldByLanes(atom->b(), 32, 16, element, [&](int64_t lane, int64_t) { return columnOf(lane % 16); });
    expectHeldByLanes(atom->d(), 32, 8, row, [&](int64_t lane, int64_t v) { return columnOf(2 * v + lane / 16); });
  }
}

// What lanes hold for two steps of an instruction is what they hold for one of the other.
TEST(Atoms, PairsTakeTheOperandsOfTwoSteps) {
  const std::pair<const char *, const char *> pairs[] = {{"m16n16k16w64.f16", "m16n16k32w64.f16"},
                                                         {"m16n16k16w64.bf16", "m16n16k32w64.bf16"},
                                                         {"m32n32k8w64.f16", "m32n32k16w64.f16"},
                                                         {"m32n32k8w64.bf16", "m32n32k16w64.bf16"}};
  for (auto [one, two] : pairs) {
    EXPECT_EQ(pairedAtom(*lookupMmaAtom(one)), lookupMmaAtom(two)) << one;
  }
  for (const MmaAtom &atom : getMmaAtoms()) {
    const MmaAtom *pair = pairedAtom(atom);
    if (!pair) {
      continue;
    }
    EXPECT_EQ(pair->k, 2 * atom.k);
    const int64_t held = atom.a().inSize(Axis::Register);
    for (int64_t lane = 0; lane < 64; ++lane) {
      for (int64_t i = 0; i < 2 * held; ++i) {
        EXPECT_EQ(pair->a()(i, lane, 0)[Axis::Column], atom.a()(i % held, lane, 0)[Axis::Column] + i / held * atom.k);
        EXPECT_EQ(pair->b()(i, lane, 0)[Axis::Row], atom.b()(i % held, lane, 0)[Axis::Row] + i / held * atom.k);
      }
    }
  }
}

TEST(Atoms, ResultsOfExchangedAtomsAreOperands) {
  for (const char *name :
       {"m16n16k16w64.f16", "m16n16k32w64.f16", "m32n32k8w64.f16", "m32n32k16w64.f16", "m16n16k16w32.f16"}) {
    const MmaAtom *atom = lookupMmaAtom(name);
    Layout scores = atom->d().product(Layout({{64 / atom->n, Axis::Register, 1, Axis::Column, 1}}));
    Layout probabilities = atom->a().product(Layout({{64 / atom->k, Axis::Register, 1, Axis::Column, 1}}));
    EXPECT_LE(convert(scores, probabilities).cost, ConversionCost::Registers) << name;
  }
  const MmaAtom *twice = lookupMmaAtom("m16n16k16w32x2.f16");
  EXPECT_EQ(convert(twice->d(), twice->a()).cost, ConversionCost::Lanes);
}
