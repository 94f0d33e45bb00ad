//===- FeaturesTest.cpp - Tests of the choice of a CPU target -------------===//
//
// The rank table, the cap by KVC_CPU, and what a CPU that is too old is told.
//
//===----------------------------------------------------------------------===//
#include "cpu/Features.h"

#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvc::rt::cpu {
namespace {

using ::testing::HasSubstr;

class CpuVariable {
public:
  explicit CpuVariable(const char *value) { ::setenv("KVC_CPU", value, 1); }
  ~CpuVariable() { ::unsetenv("KVC_CPU"); }
};

TEST(Features, PrefersTheHighestThatRuns) {
  EXPECT_GT(*rank(Level::x86_64_v4_bf16, "x86-64-v4-bf16"), *rank(Level::x86_64_v4_bf16, "x86-64-v4"));
  EXPECT_GT(*rank(Level::x86_64_v4, "x86-64-v4"), *rank(Level::x86_64_v4, "x86-64-v3"));
  EXPECT_TRUE(rank(Level::x86_64_v3, "x86-64-v3").ok());
}

TEST(Features, SaysWhatIsMissing) {
  Result<int> result = rank(Level::x86_64, "x86-64-v3");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::unsupported);
  EXPECT_THAT(result.message(), HasSubstr("expects an x86-64 CPU with AVX2, FMA, F16C and BMI2, but got x86-64"));
  EXPECT_THAT(rank(Level::x86_64_v4, "x86-64-v4-bf16").message(), HasSubstr("BF16"));
  EXPECT_FALSE(rank(Level::aarch64, "x86-64-v3").ok());
  EXPECT_FALSE(rank(Level::x86_64_v4, "aarch64").ok());
  EXPECT_FALSE(rank(Level::x86_64_v4, "").ok());
}

TEST(Features, VariableLowersTheLevel) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "expects an x86-64 machine";
#endif
  {
    CpuVariable variable("x86-64");
    EXPECT_EQ(*detect(), Level::x86_64);
  }
  for (const char *bad : {"pdp-11", "aarch64", "x86"}) {
    CpuVariable variable(bad);
    Result<Level> level = detect();
    ASSERT_FALSE(level.ok());
    EXPECT_THAT(level.message(), HasSubstr(bad));
  }
  CpuVariable variable("");
  EXPECT_TRUE(detect().ok());
}

} // namespace
} // namespace kvc::rt::cpu
