//===- FormatsTest.cpp - Storage formats of the oracle against hand-made values ==//
#include "kvc/Reference/Formats.h"
#include "Harness.h"

#include "mlir/IR/Builders.h"
#include <cmath>
#include <limits>

using namespace kvc;
using namespace kvc::kvcache;
using namespace kvc::reference;

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double notANumber = std::numeric_limits<double>::quiet_NaN();

class ReferenceFormats : public ::testing::Test {
protected:
  FormatAttr format(llvm::StringRef name, int64_t group, bool symmetric = false, mlir::Type scale = {}) {
    return FormatAttr::get(&oracle.context, lookupFormat(name)->name, group, Axis::Token, symmetric,
                           scale ? scale : b.getF16Type(), false);
  }

  Oracle oracle;
  mlir::Builder b{&oracle.context};
};
} // namespace

TEST_F(ReferenceFormats, HalfRoundsToNearestEven) {
  mlir::Type f16 = b.getF16Type();
  EXPECT_EQ(roundTo(f16, 2049), 2048); // halfway between 2048 and 2050: even mantissa
  EXPECT_EQ(roundTo(f16, 2051), 2052);
  EXPECT_EQ(roundTo(f16, 65519), 65504);
  EXPECT_EQ(roundTo(f16, 65520), infinity);
  EXPECT_EQ(roundTo(f16, 0x1p-24), 0x1p-24); // least subnormal
  EXPECT_EQ(roundTo(f16, 0x1p-25), 0);       // halfway to zero
  EXPECT_TRUE(std::isnan(roundTo(f16, notANumber)));
}

TEST_F(ReferenceFormats, Bfloat16RoundsToNearestEven) {
  mlir::Type bf16 = b.getBF16Type();
  EXPECT_EQ(roundTo(bf16, 257), 256);
  EXPECT_EQ(roundTo(bf16, 259), 260);
  EXPECT_EQ(roundTo(bf16, 1.0 + 0x1p-8), 1.0);
  EXPECT_EQ(roundTo(bf16, -infinity), -infinity);
}

TEST_F(ReferenceFormats, ValuesAreFirstRoundedToF32) {
  // 1 + 2^-11 is halfway in f16; the 2^-40 above it is lost in f32, so the tie goes to even.
  EXPECT_EQ(roundTo(b.getF16Type(), 1.0 + 0x1p-11 + 0x1p-40), 1.0);
}

TEST_F(ReferenceFormats, AsymmetricInt4) {
  // min 0, max 7.5: scale 0.5, zero 0; 0.25 and 0.75 are ties (codes 0 and 2).
  EncodedGroup group = encodeGroup(format("int4", 4), {0, 0.25, 0.75, 7.5});
  EXPECT_EQ(group.scale, 0.5f);
  EXPECT_EQ(group.zero, 0.0f);
  EXPECT_EQ(group.codes, (std::vector<int64_t>{0, 0, 2, 15}));
  EXPECT_EQ(decode(format("int4", 4), group, 15), 7.5);
}

TEST_F(ReferenceFormats, Int3) {
  // min -1, max 2.5: scale 0.5, zero -1; -0.75 and -0.25 are ties (codes 0 and 2).
  FormatAttr int3 = format("int3", 8);
  EncodedGroup group = encodeGroup(int3, {-1, 2.5, -0.75, -0.25, 0, 1, 1.3, 2});
  EXPECT_EQ(group.scale, 0.5f);
  EXPECT_EQ(group.zero, -1.0f);
  EXPECT_EQ(group.codes, (std::vector<int64_t>{0, 7, 0, 2, 2, 4, 5, 6}));
  EXPECT_EQ(decode(int3, group, 7), 2.5);
  group = encodeGroup(format("int3", 8, true), {-3, 3, 0.5, 1.5, 1, 2, -2, -1.5});
  EXPECT_EQ(group.codes, (std::vector<int64_t>{-3, 3, 0, 2, 1, 2, -2, -2}));
}

TEST_F(ReferenceFormats, ZeroIsRoundedAndCodesAreClamped) {
  // min 2049 rounds to 2048 in f16, scale (2052 - 2049) / 3 = 1: codes 1 and 4, clamped to 3.
  EncodedGroup group = encodeGroup(format("int2", 4), {2049, 2052, 2049, 2049});
  EXPECT_EQ(group.zero, 2048.0f);
  EXPECT_EQ(group.codes, (std::vector<int64_t>{1, 3, 1, 1}));
  EXPECT_EQ(decode(format("int2", 4), group, 3), 2051);
}

TEST_F(ReferenceFormats, SymmetricInt8) {
  EncodedGroup group = encodeGroup(format("int8", 4, true), {-127, 63.5, 64.5, 1});
  EXPECT_EQ(group.scale, 1.0f);
  EXPECT_EQ(group.codes, (std::vector<int64_t>{-127, 64, 64, 1}));
  // The scale in f16: 100 / 127 = 0.7874...
  group = encodeGroup(format("int8", 2, true), {100, -100});
  EXPECT_EQ(group.scale, static_cast<float>(roundTo(b.getF16Type(), 100.0f / 127.0f)));
  EXPECT_EQ(group.codes, (std::vector<int64_t>{127, -127}));
}

TEST_F(ReferenceFormats, ScaleIsClampedFromBelow) {
  EncodedGroup group = encodeGroup(format("int4", 2), {3, 3});
  EXPECT_EQ(group.scale, 1e-8f);
  EXPECT_EQ(group.codes, (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(decode(format("int4", 2), group, 0), 3);
  // 0.1 lies above its f16 zero by 2.4e-5: the code saturates, the error stays below that.
  group = encodeGroup(format("int4", 2), {0.1f, 0.1f});
  EXPECT_EQ(group.codes, (std::vector<int64_t>{15, 15}));
  EXPECT_NEAR(decode(format("int4", 2), group, 15), 0.1, 3e-5);
}

TEST_F(ReferenceFormats, ScaleTypes) {
  const std::vector<double> x{0, 1};
  EXPECT_EQ(encodeGroup(format("int4", 2, false, b.getF32Type()), x).scale, 1.0f / 15);
  EXPECT_EQ(encodeGroup(format("int4", 2, false, b.getBF16Type()), x).scale, 0.06689453125f);
  EXPECT_EQ(encodeGroup(format("int4", 2, false, b.getF16Type()), x).scale, 0.066650390625f);
}

TEST_F(ReferenceFormats, WhatIsNotFiniteSpoilsItsGroup) {
  for (double bad : {notANumber, infinity, -infinity}) {
    EncodedGroup group = encodeGroup(format("int8", 2), {1, bad});
    EXPECT_TRUE(std::isnan(decode(format("int8", 2), group, group.codes[0])));
  }
  // A range beyond f16.
  EncodedGroup group = encodeGroup(format("int2", 4), {0, 1, 2, 1e6});
  EXPECT_TRUE(std::isnan(decode(format("int2", 4), group, group.codes[0])));
}

TEST_F(ReferenceFormats, GroupsAlongBothAxes) {
  auto type = [&](llvm::StringRef axis) {
    return oracle
        .cache(
            ("!kvcache.cache<heads = 1, dim = 4, page = 4, v = f32, k = int2<group = 4, axis = " + axis + ">>").str())
        .type;
  };
  auto table = [] {
    Table table;
    for (double x : {0, 1, 2, 3}) {
      table.slots.push_back({0, {x, 10 * x, 100 * x, 7}, {0, 0, 0, 0}, {0}, {0}});
    }
    return table;
  };
  // Each channel has a group of its own: every value is hit.
  Table channel = table();
  storeSlots(type("channel"), channel, 0, 4);
  EXPECT_EQ(channel.slots[2].key, (std::vector<double>{2, 20, 200, 7}));
  // One group for each slot: 2, 20, 200, 7 with step 66 from 2.
  Table token = table();
  storeSlots(type("token"), token, 0, 4);
  EXPECT_EQ(token.slots[2].key, (std::vector<double>{2, 2, 200, 2}));
}
