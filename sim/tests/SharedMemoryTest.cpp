//===- SharedMemoryTest.cpp - Checks of shared and global memory ----------===//
#include "common/SharedMemory.h"
#include "common/Fault.h"
#include "common/GlobalMemory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace kvc::sim;
using testing::HasSubstr;

namespace {

class SharedMemoryTest : public testing::Test {
protected:
  void SetUp() override {
    memory.reset(1024, 256, {});
    memory.warn = [this](const std::string &text) { warnings.push_back(text); };
    for (unsigned i = 0; i < warps; ++i) {
      clocks[i].seen[i] = 1;
    }
  }
  void write(unsigned warp, unsigned lane, uint32_t at, uint32_t value) {
    memory.write(1024 + at, 4, &value, {warp, lane, &clocks[warp], false, false});
  }
  uint32_t read(unsigned warp, unsigned lane, uint32_t at, bool async = false) {
    uint32_t value;
    memcpy(&value, memory.read(1024 + at, 4, {warp, lane, &clocks[warp], async, false}), 4);
    return value;
  }
  void barrier() {
    Clocks all;
    for (unsigned i = 0; i < warps; ++i) {
      all.join(clocks[i]);
    }
    for (unsigned i = 0; i < warps; ++i) {
      clocks[i] = all;
      ++clocks[i].seen[i];
    }
  }
  template <typename F> std::string faultOf(F f) {
    try {
      f();
    } catch (const Fault &fault) {
      return fault.what();
    }
    return "none";
  }

  static constexpr unsigned warps = 4;
  SharedMemory memory;
  Clocks clocks[warps];
  std::vector<std::string> warnings;
};

TEST_F(SharedMemoryTest, ReadsWhatABarrierOrders) {
  write(0, 3, 16, 7);
  barrier();
  EXPECT_EQ(read(1, 0, 16), 7u);
  EXPECT_TRUE(warnings.empty());
}

TEST_F(SharedMemoryTest, FindsAReadThatIsNotOrderedAfterAWrite) {
  write(0, 3, 16, 7);
  EXPECT_THAT(faultOf([&] { read(1, 0, 16); }), HasSubstr("it was written by warp 0 lane 3"));
}

TEST_F(SharedMemoryTest, FindsAWriteThatIsNotOrderedAfterReads) {
  write(0, 0, 0, 1);
  barrier();
  for (unsigned warp = 0; warp < warps; ++warp) {
    read(warp, 1, 0);
  }
  EXPECT_THAT(faultOf([&] { write(1, 0, 0, 2); }), HasSubstr("it was read by warp 0"));
  barrier();
  write(1, 0, 0, 2);
}

TEST_F(SharedMemoryTest, FindsAWriteThatIsNotOrderedAfterTheOnlyRead) {
  write(0, 0, 0, 1);
  barrier();
  read(2, 1, 0);
  EXPECT_THAT(faultOf([&] { write(1, 0, 0, 2); }), HasSubstr("it was read by warp 2"));
  write(2, 1, 0, 2);
}

TEST_F(SharedMemoryTest, FindsTheReaderAmongManySets) {
  for (uint32_t at = 0; at < 256; at += 4) {
    write(0, 0, at, at);
  }
  for (unsigned round = 0; round < 20000; ++round) {
    barrier();
    read(round % 3, 0, 4 * (round % 64));
    read((round + 1) % 3, 0, 4 * (round % 64));
  }
  read(3, 0, 128);
  EXPECT_THAT(faultOf([&] { write(1, 0, 128, 2); }), HasSubstr("it was read by warp 3"));
}

TEST_F(SharedMemoryTest, WarnsOfExchangeWithinAWarp) {
  write(0, 3, 16, 7);
  read(0, 3, 16);
  EXPECT_TRUE(warnings.empty());
  read(0, 4, 16);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr("without a warp barrier"));
}

TEST_F(SharedMemoryTest, TakesTheSameValueTwice) {
  write(0, 3, 16, 7);
  write(0, 4, 16, 7);
  write(1, 4, 16, 7);
  EXPECT_TRUE(warnings.empty());
  EXPECT_THAT(faultOf([&] { write(2, 4, 16, 8); }), HasSubstr("race"));
}

TEST_F(SharedMemoryTest, FindsReadsOfWhatWasNotWritten) {
  write(0, 0, 0, 1);
  EXPECT_THAT(faultOf([&] { read(0, 0, 4); }), HasSubstr("a read of offset 4"));
  EXPECT_THAT(faultOf([&] { read(0, 0, 256); }), HasSubstr("256 bytes of shared memory"));
  EXPECT_THAT(faultOf([&] { read(0, 0, uint32_t(-1024)); }), HasSubstr("shared memory"));
}

TEST_F(SharedMemoryTest, FindsTheUseOfACopyBeforeItsWait) {
  const Accessor copy{32, 5, &clocks[0], false, false};
  memory.markPending(1024 + 16, 16, copy);
  EXPECT_THAT(faultOf([&] { read(0, 5, 16); }), HasSubstr("expects a wait for the asynchronous copy"));
  EXPECT_THAT(faultOf([&] { write(0, 5, 20, 1); }), HasSubstr("expects a wait for the asynchronous copy"));
  memory.unmarkPending(1024 + 16, 16);
  ++clocks[0].seen[32];
  const uint32_t value[4] = {1, 2, 3, 4};
  memory.write(1024 + 16, 16, value, copy);
  EXPECT_EQ(read(0, 5, 20), 2u);
  EXPECT_THAT(faultOf([&] { read(1, 5, 20); }), HasSubstr("race"));
  barrier();
  EXPECT_EQ(read(1, 5, 24), 3u);
}

TEST_F(SharedMemoryTest, FindsACopyThatIsNotOrderedAfterReads) {
  const Accessor copy{32, 5, &clocks[0], false, false};
  write(0, 0, 0, 1);
  barrier();
  read(2, 1, 0);
  EXPECT_THAT(faultOf([&] { memory.markPending(1024, 16, copy); }), HasSubstr("it was read by warp 2"));
  barrier();
  EXPECT_EQ(faultOf([&] { memory.markPending(1024, 16, copy); }), "none");
}

TEST_F(SharedMemoryTest, WantsAProxyFenceForAsynchronousReads) {
  write(0, 0, 0, 1);
  barrier();
  EXPECT_THAT(faultOf([&] { read(0, 0, 0, true); }), HasSubstr("fence.proxy.async"));
  clocks[0].fenceProxy();
  EXPECT_EQ(read(0, 0, 0, true), 1u);
  barrier();
  EXPECT_EQ(read(2, 0, 0, true), 1u);
}

TEST(GlobalMemoryTest, WhatWasFreedIsNoMemory) {
  GlobalMemory memory;
  const uint64_t first = memory.allocate(64, "the first"), second = memory.allocate(64, "the second");
  EXPECT_TRUE(memory.free(first));
  EXPECT_FALSE(memory.free(first));
  EXPECT_EQ(memory.find(first), nullptr);
  EXPECT_THROW(memory.at(first, 4, "test"), Fault);
  EXPECT_NE(memory.at(second, 64, "test"), nullptr);
}

} // namespace
