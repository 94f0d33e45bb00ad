//===- LengthsTest.cpp - Lengths of caches for sequences that grow --------===//
#include "core/Lengths.h"
#include "support/TestModule.h"

#include <gtest/gtest.h>

namespace kvc::rt {
namespace {

TEST(Lengths, AreRoundedToAQuarterOfAPowerOfTwo) {
  constexpr int64_t room = 1 << 20;
  for (auto [length, rounded] : std::initializer_list<std::pair<int64_t, int64_t>>{{0, 1024},
                                                                                   {1, 1024},
                                                                                   {1024, 1024},
                                                                                   {1025, 2048},
                                                                                   {4096, 4096},
                                                                                   {4097, 5120},
                                                                                   {8193, 10240},
                                                                                   {100000, 114688}}) {
    EXPECT_EQ(roundUpLength(length, room), rounded) << length;
  }
  // Never above what a table can hold, never below the length.
  EXPECT_EQ(roundUpLength(10, 64), 64);
  EXPECT_EQ(roundUpLength(70, 64), 70);
}

TEST(Lengths, FunctionsThatReturnALengthKeepIt) {
  Result<artifact::Artifact> artifact = artifact::Artifact::fromBytes(test::sealed(test::testModule()));
  ASSERT_TRUE(artifact.ok()) << artifact.message();
  int seen = 0;
  for (const fb::Function *function : *artifact->module().plans()->Get(0)->functions()) {
    const std::string name = function->name()->str();
    for (auto [known, may] :
         {std::pair{"append_sum", true}, {"scale", true}, {"replace", false}, {"keep_old", false}}) {
      if (name == known) {
        EXPECT_EQ(mayRoundLengths(*function), may) << name;
        ++seen;
      }
    }
  }
  EXPECT_EQ(seen, 4);
}

} // namespace
} // namespace kvc::rt
