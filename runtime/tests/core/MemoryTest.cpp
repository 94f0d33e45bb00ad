//===- MemoryTest.cpp - Tests of pools and temporaries --------------------===//
//
// Reference counts of blocks, reuse of buffers, allocation at the limits.
//
//===----------------------------------------------------------------------===//
#include "core/PagePool.h"
#include "core/Temporaries.h"

#include <cstring>
#include <gtest/gtest.h>

namespace kvc::rt {
namespace {

std::shared_ptr<Device> cpu() { return *createDevice("cpu", {1, ""}); }

TEST(BlockPool, CountsReferences) {
  BlockPool pool;
  ASSERT_TRUE(pool.initialize(cpu(), 64, 3).ok());
  int32_t a = pool.take();
  pool.share(a);
  EXPECT_EQ(pool.used(), 1);
  std::memset(pool.block(a), 7, 64);
  int32_t copy = *pool.makeUnique(a);
  EXPECT_NE(copy, a);
  EXPECT_EQ(pool.block(copy)[63], 7);
  EXPECT_EQ(pool.referencesOf(a), 1u);
  EXPECT_EQ(*pool.makeUnique(a), a);
  pool.drop(a);
  pool.drop(copy);
  EXPECT_EQ(pool.available(), 3);
}

TEST(BlockPool, RefusesSizesThatCannotBe) {
  BlockPool pool;
  EXPECT_FALSE(pool.initialize(cpu(), 64, -1).ok());
  EXPECT_FALSE(pool.initialize(cpu(), 64, int64_t(1) << 40).ok());
  Status status = pool.initialize(cpu(), uint64_t(1) << 40, int64_t(1) << 30);
  EXPECT_EQ(status.code(), StatusCode::outOfRange);
  status = pool.initialize(cpu(), uint64_t(1) << 40, 1 << 22);
  EXPECT_EQ(status.code(), StatusCode::exhausted);
  EXPECT_TRUE(pool.initialize(cpu(), 64, 0).ok());
}

TEST(Temporaries, ReusesBuffers) {
  auto temporaries = std::make_shared<Temporaries>(cpu());
  void *first;
  {
    Temporary buffer = *temporaries->allocate(1000);
    first = buffer.data();
    EXPECT_EQ(uintptr_t(first) % 64, 0u);
    EXPECT_EQ(temporaries->keptBytes(), 0u);
  }
  EXPECT_GE(temporaries->keptBytes(), 1000u);
  Temporary again = *temporaries->allocate(1010);
  EXPECT_EQ(again.data(), first);
  Temporary other = *temporaries->allocate(1010);
  EXPECT_NE(other.data(), first);
}

TEST(Temporaries, WastesAtMostAQuarter) {
  auto temporaries = std::make_shared<Temporaries>(cpu());
  for (uint64_t bytes = 256; bytes < 3000000; bytes = bytes * 9 / 8 + 1) {
    temporaries = std::make_shared<Temporaries>(cpu());
    {
      Temporary buffer = *temporaries->allocate(bytes);
    }
    EXPECT_GE(temporaries->keptBytes(), bytes);
    EXPECT_LE(temporaries->keptBytes(), bytes + bytes / 4 + 64);
  }
}

TEST(Temporaries, FailsWithAnError) {
  auto temporaries = std::make_shared<Temporaries>(cpu());
  Result<Temporary> buffer = temporaries->allocate(uint64_t(1) << 62);
  ASSERT_FALSE(buffer.ok());
  EXPECT_EQ(buffer.status().code(), StatusCode::exhausted);
}

TEST(CpuDevice, AllocatesFromNothingToGibibytes) {
  std::shared_ptr<Device> device = cpu();
  for (uint64_t bytes :
       {uint64_t(0), uint64_t(1), uint64_t(64), (uint64_t(1) << 22) - 1, uint64_t(1) << 22, uint64_t(1) << 33}) {
    Memory memory = *Memory::allocate(device, bytes, MemoryKind::device);
    EXPECT_EQ(uintptr_t(memory.data()) % 64, 0u);
    if (bytes) {
      memory.as<char>()[bytes - 1] = 1;
    }
  }
}

} // namespace
} // namespace kvc::rt
