//===- BlockFormatsTest.cpp - Tests of the GGUF block decoders ------------===//
//
// Decoders against blocks whose values an independent implementation decoded
// (test/Inputs/gguf-blocks.json), and against hand-computed values.
//
//===----------------------------------------------------------------------===//
#include "gguf/BlockFormats.h"
#include "support/Half.h"

#include <cmath>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace kvc::gguf {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> fromHex(const std::string &hex) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(std::byte(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

TEST(BlockFormats, DecodeTheReferenceBlocks) {
  std::ifstream stream(KVC_TEST_INPUTS "/gguf-blocks.json");
  ASSERT_TRUE(stream.good());
  std::map<std::string, int> seen;
  for (const auto &row : nlohmann::json::parse(stream)) {
    std::string type = row["type"];
    const BlockFormat *format = findBlockFormat(std::string_view(type));
    ASSERT_TRUE(format) << type;
    EXPECT_EQ(format->id, row["id"].get<uint32_t>());
    std::vector<float> want = row["values"].get<std::vector<float>>(), got(want.size());
    Status status = dequantizeRow(*format, fromHex(row["bytes_hex"]), got);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(got, want) << type;
    ++seen[type];
  }
  for (const char *type : {"F16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"}) {
    EXPECT_GT(seen[type], 0) << type;
  }
}

TEST(BlockFormats, DecodeF32AndBF16) {
  std::vector<float> y(2);
  ASSERT_TRUE(dequantizeRow(*findBlockFormat("F32"), fromHex("0000c03f000080ff"), y).ok());
  EXPECT_EQ(y, (std::vector<float>{1.5f, -std::numeric_limits<float>::infinity()}));
  ASSERT_TRUE(dequantizeRow(*findBlockFormat("BF16"), fromHex("c03f20c1"), y).ok());
  EXPECT_EQ(y, (std::vector<float>{1.5f, -10.0f}));
}

TEST(BlockFormats, RowOfSeveralBlocks) {
  std::vector<std::byte> row = fromHex("003c" + std::string(64, '0') + "0040" + std::string(62, '0') + "ff");
  row[2] = std::byte(5);
  std::vector<float> y(64);
  ASSERT_TRUE(dequantizeRow(*findBlockFormat("Q8_0"), row, y).ok());
  EXPECT_EQ(y[0], 5.0f);
  EXPECT_EQ(y[63], -2.0f);
  EXPECT_EQ(*rowBytes(*findBlockFormat("Q8_0"), 64), 68u);
}

TEST(BlockFormats, RefuseWhatDoesNotFit) {
  const BlockFormat &q8 = *findBlockFormat("Q8_0");
  std::vector<float> y(32);
  EXPECT_THAT(dequantizeRow(q8, std::vector<std::byte>(33), y).message(), HasSubstr("expects 34 bytes"));
  EXPECT_THAT(rowBytes(q8, 33).message(), HasSubstr("multiple of 32"));
  EXPECT_EQ(rowBytes(q8, std::numeric_limits<uint64_t>::max() - 31).status().code(), StatusCode::outOfRange);
  EXPECT_EQ(findBlockFormat(99u), nullptr);
  EXPECT_EQ(findBlockFormat("Q9_9"), nullptr);
  std::set<uint32_t> ids;
  for (const BlockFormat &format : blockFormats()) {
    EXPECT_TRUE(ids.insert(format.id).second) << format.name;
  }
}

TEST(Half, WidensEveryBitPattern) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    float got = halfToFloat(uint16_t(bits));
    int exponent = int(bits >> 10 & 31), mantissa = int(bits & 1023);
    double magnitude = exponent == 31 ? (mantissa ? NAN : INFINITY)
                       : exponent     ? std::ldexp(1024 + mantissa, exponent - 25)
                                      : std::ldexp(mantissa, -24);
    if (std::isnan(magnitude)) {
      EXPECT_TRUE(std::isnan(got)) << bits;
      continue;
    }
    EXPECT_EQ(got, float(bits & 0x8000 ? -magnitude : magnitude)) << bits;
    EXPECT_EQ(std::signbit(got), (bits & 0x8000) != 0) << bits;
  }
}

} // namespace
} // namespace kvc::gguf
