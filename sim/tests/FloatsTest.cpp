//===- FloatsTest.cpp - Small floating-point formats ----------------------===//
#include "common/Floats.h"

#include <gtest/gtest.h>
#include <random>

using namespace kvc::sim;

namespace {

TEST(FloatsTest, CodesOfF16SurviveARoundTrip) {
  for (uint32_t code = 0; code < 65536; ++code) {
    const double value = decodeFloat(formatF16, code);
    EXPECT_EQ(std::isnan(value), (code & 0x7fff) > 0x7c00);
    if (!std::isnan(value)) {
      ASSERT_EQ(value, double(std::bit_cast<_Float16>(uint16_t(code))));
      for (Rounding r : {Rounding::RN, Rounding::RZ, Rounding::RM, Rounding::RP}) {
        ASSERT_EQ(encodeFloat(formatF16, value, r), code);
      }
    }
  }
}

TEST(FloatsTest, NearestEvenIsTheHosts) {
  std::mt19937 random(1);
  for (int i = 0; i < 200000; ++i) {
    const float value = std::bit_cast<float>(uint32_t(random()));
    if (value == value) {
      ASSERT_EQ(encodeFloat(formatF16, double(value), Rounding::RN), std::bit_cast<uint16_t>(_Float16(value)));
      ASSERT_EQ(encodeFloat(formatBF16, double(value), Rounding::RN), floatToBf16(value));
    }
  }
}

TEST(FloatsTest, RoundsInEveryDirection) {
  // 1 + 3/8 of a unit of e4m3 at 1, which is 1/8.
  const double value = 1 + 3.0 / 64;
  EXPECT_EQ(encodeFloat(formatE4M3, value, Rounding::RN), 0x38u);
  EXPECT_EQ(encodeFloat(formatE4M3, value, Rounding::RP), 0x39u);
  EXPECT_EQ(encodeFloat(formatE4M3, value, Rounding::RM), 0x38u);
  EXPECT_EQ(encodeFloat(formatE4M3, -value, Rounding::RM), 0xb9u);
  EXPECT_EQ(encodeFloat(formatE4M3, 1 + 1.0 / 16, Rounding::RN), 0x38u);
  EXPECT_EQ(encodeFloat(formatE4M3, 1 + 1.0 / 16, Rounding::RNA), 0x39u);
}

TEST(FloatsTest, OverflowsTowardZeroToTheLargestNumber) {
  for (double value : {65536.0, 1e6, 1e300}) {
    EXPECT_EQ(encodeFloat(formatF16, value, Rounding::RZ), 0x7bffu);
    EXPECT_EQ(encodeFloat(formatF16, -value, Rounding::RZ), 0xfbffu);
    EXPECT_EQ(encodeFloat(formatF16, value, Rounding::RM), 0x7bffu);
    EXPECT_EQ(encodeFloat(formatF16, -value, Rounding::RM), 0xfc00u);
    EXPECT_EQ(encodeFloat(formatF16, value, Rounding::RP), 0x7c00u);
    EXPECT_EQ(encodeFloat(formatF16, -value, Rounding::RP), 0xfbffu);
    EXPECT_EQ(encodeFloat(formatF16, value, Rounding::RN), 0x7c00u);
  }
  // Infinity is no overflow.
  EXPECT_EQ(encodeFloat(formatF16, HUGE_VAL, Rounding::RZ), 0x7c00u);
}

TEST(FloatsTest, EightBitFormatsOverflowAsTheirManualSays) {
  EXPECT_EQ(decodeFloat(formatE4M3, 0x7e), 448.0);
  EXPECT_EQ(encodeFloat(formatE4M3, 500, Rounding::RN, true), 0x7eu);
  EXPECT_EQ(encodeFloat(formatE4M3, 500, Rounding::RN), 0x7fu);
  EXPECT_EQ(encodeFloat(formatE4M3, -HUGE_VAL, Rounding::RN, true), 0xfeu);
  EXPECT_EQ(decodeFloat(formatE5M2, 0x7b), 57344.0);
  EXPECT_EQ(encodeFloat(formatE5M2, 1e9, Rounding::RN, true), 0x7bu);
  EXPECT_EQ(encodeFloat(formatE5M2, 1e9, Rounding::RN), 0x7cu);
  EXPECT_EQ(encodeFloat(formatE4M3, 0x1p-9, Rounding::RN), 1u);
  EXPECT_EQ(encodeFloat(formatE4M3, 0x1p-10, Rounding::RN), 0u);
}

TEST(FloatsTest, SumsRoundedToOddGiveTheFusedResult) {
  std::mt19937 random(2);
  for (int i = 0; i < 300000; ++i) {
    const uint16_t a = uint16_t(random()), b = uint16_t(random()), c = uint16_t(random());
    const double x = decodeFloat(formatF16, a), y = decodeFloat(formatF16, b), z = decodeFloat(formatF16, c);
    // long double holds the product and, for these exponents, the sum.
    const long double exact = static_cast<long double>(x) * y + z;
    if (std::isnan(x) || std::isnan(y) || std::isnan(z) || std::isinf(x) || std::isinf(y) || std::isinf(z) ||
        fabsl(exact) > 65504) {
      continue;
    }
    const auto direct = static_cast<double>(exact);
    if (static_cast<long double>(direct) == exact) {
      ASSERT_EQ(encodeFloat(formatF16, fusedToOdd(x * y, z), Rounding::RN),
                encodeFloat(formatF16, direct, Rounding::RN));
    }
  }
  // 1 + 2^-11 is a tie; a bit far below decides it.
  EXPECT_EQ(encodeFloat(formatF16, fusedToOdd(0x1p-24 * 0x1p-24, 1 + 0x1p-11), Rounding::RN), 0x3c01u);
  EXPECT_EQ(encodeFloat(formatF16, fusedToOdd(-0x1p-24 * 0x1p-24, 1 + 0x1p-11), Rounding::RN), 0x3c00u);
}

} // namespace
