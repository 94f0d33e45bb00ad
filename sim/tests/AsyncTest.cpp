//===- AsyncTest.cpp - Asynchronous copies, mbarriers, atomics, matrices --===//
#include "PtxRunner.h"

using namespace kvc::sim;
using namespace kvc::sim::test;
using testing::HasSubstr;

namespace {

/// Runs a body on a buffer of words.
std::vector<uint32_t> run(const std::string &body, std::vector<uint32_t> words, const RunOptions &options = {}) {
  return valuesOf<uint32_t>(runModule(kernelOf(body), bytesOf(words), options));
}
std::string faultOfBody(const std::string &body, const RunOptions &options = {}) {
  return faultOf([&] { run(body, std::vector<uint32_t>(1024), options); });
}
std::vector<uint32_t> counting(size_t n) {
  std::vector<uint32_t> words(n);
  for (size_t i = 0; i < n; ++i) {
    words[i] = uint32_t(i + 1);
  }
  return words;
}

constexpr char storeW0[] = "mul.wide.u32 %at, %tid, 4;\nadd.u64 %at, %at, %base;\nst.global.u32 [%at], %w0;\n";
/// %w1: 16 bytes of shared memory for each lane; %x1: 16 bytes of the buffer.
constexpr char slots[] =
    ".shared .align 128 .b8 s[4096];\n.shared .align 8 .b64 bar;\nmov.u32 %w1, s;\nshl.b32 %w2, %tid, "
    "4;\nadd.u32 %w1, %w1, %w2;\ncvt.u64.u32 %x1, %w2;\nadd.u64 %x1, %x1, %base;\nmov.u32 %w10, bar;\n";

// cp.async ------------------------------------------------------------------------------------------------------------

TEST(CopyTest, FillsWithZerosBehindTheSource) {
  // Lane i copies 4 (i % 5) bytes of its 16; the sum of its words is that of the first i % 5.
  const auto result =
      run(std::string(slots) +
              "rem.u32 %w3, %lane, 5;\nshl.b32 %w3, %w3, 2;\n"
              "cp.async.cg.shared.global [%w1], [%x1], 16, %w3;\ncp.async.wait_all;\n"
              "ld.shared.v4.b32 {%w4, %w5, %w6, %w7}, [%w1];\nadd.u32 %w4, %w4, %w5;\nadd.u32 %w6, %w6, "
              "%w7;\nadd.u32 %w0, %w4, %w6;\n" +
              storeW0,
          counting(128));
  for (uint32_t lane = 0; lane < 32; ++lane) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < lane % 5; ++i) {
      sum += 4 * lane + i + 1;
    }
    EXPECT_EQ(result[lane], sum) << lane;
  }
  EXPECT_THAT(faultOfBody(std::string(slots) + "cp.async.ca.shared.global [%w1], [%x1], 4, 8;"),
              HasSubstr("expects at most 4 bytes of the source"));
}

TEST(CopyTest, IgnoresTheSourceWhereThePredicateSaysSo) {
  const auto result = run(std::string(slots) +
                              "setp.lt.u32 %p, %lane, 7;\ncp.async.ca.shared.global [%w1], [%x1], 8, %p;\n"
                              "cp.async.wait_all;\nld.shared.b32 %w0, [%w1];\n" +
                              storeW0,
                          counting(128));
  EXPECT_EQ(result[6], 0u);
  EXPECT_EQ(result[7], 29u);
}

TEST(CopyTest, ReadsTheSourceWhenItIsWaitedFor) {
  // The source changes between the copy and the wait: the copy takes effect as late as it may.
  const auto result =
      run(std::string(slots) + "cp.async.ca.shared.global [%w1], [%x1], 4;\nst.global.b32 [%x1], 1000;\n"
                               "cp.async.commit_group;\ncp.async.wait_group 0;\nld.shared.b32 %w0, [%w1];\n"
                               "st.global.b32 [%x1+4], %w0;\n",
          counting(128));
  EXPECT_EQ(result[1], 1000u);
}

TEST(CopyTest, WritesToAPendingDestinationAreErrors) {
  const std::string copy = std::string(slots) + "cp.async.ca.shared.global [%w1], [%x1], 16, 4;\n";
  EXPECT_EQ(faultOfBody(copy + "cp.async.wait_all;\nst.shared.v4.b32 [%w1], {%w1, %w1, %w1, %w1};"), "none");
  // Of another lane: only the bytes of the copy are in question, zeros too.
  EXPECT_THAT(faultOfBody(copy + "xor.b32 %w1, %w1, 16;\nst.shared.b32 [%w1+12], %w1;"), HasSubstr("expects a wait"));
  EXPECT_EQ(
      faultOfBody(copy + "cp.async.wait_all;\nxor.b32 %w1, %w1, 16;\nbar.warp.sync -1;\nld.shared.b32 %w0, [%w1+12];"),
      "none");
  EXPECT_THAT(faultOfBody(copy + "xor.b32 %w1, %w1, 16;\ncp.async.ca.shared.global [%w1], [%x1], 16;"),
              HasSubstr("before another one"));
}

TEST(CopyTest, ArrivesAtAnMbarrierWhenItIsDone) {
  for (const char *arrive :
       {"cp.async.mbarrier.arrive.noinc.shared.b64 [%w10];\n",
        "cp.async.mbarrier.arrive.shared.b64 [%w10];\nmbarrier.arrive.shared.b64 %x2, [%w10];\n"}) {
    const auto result = run(std::string(slots) +
                                "setp.eq.u32 %p, %tid, 0;\n@%p mbarrier.init.shared.b64 [%w10], 32;\nbar.sync 0;\n"
                                "cp.async.ca.shared.global [%w1], [%x1], 16;\n" +
                                arrive +
                                "WAIT: mbarrier.try_wait.parity.shared.b64 %q, [%w10], 0;\n@!%q bra WAIT;\n"
                                "xor.b32 %w1, %w1, 16;\nld.shared.b32 %w0, [%w1+8];\n" +
                                storeW0,
                            counting(128));
    EXPECT_EQ(result[2], 4u * 3 + 3) << arrive;
    EXPECT_EQ(result[31], 4u * 30 + 3) << arrive;
  }
}

// mbarrier ------------------------------------------------------------------------------------------------------------

/// The first word that a single thread stores to the buffer; before it the barrier has `count` arrivals to wait for.
uint32_t single(unsigned count, const std::string &body) {
  RunOptions one;
  one.block = {1, 1, 1};
  return run(std::string(slots) + "mbarrier.init.shared.b64 [%w10], " + std::to_string(count) + ";\nmov.u32 %w0, 9;\n" +
                 body + "\nst.global.b32 [%base], %w0;",
             std::vector<uint32_t>(4), one)[0];
}
std::string faultOfSingle(unsigned count, const std::string &body) {
  return faultOf([&] { single(count, body); });
}
constexpr char isOver[] = "mbarrier.test_wait.parity.shared.b64 %q, [%w10], 0;\nselp.u32 %w0, 1, 0, %q;\n";
constexpr char isSecondOver[] = "mbarrier.test_wait.parity.shared.b64 %q, [%w10], 1;\nselp.u32 %w0, 1, 0, %q;\n";

TEST(MbarrierTest, PhasesEndWithTheLastArrival) {
  EXPECT_EQ(single(3, std::string("mbarrier.arrive.shared.b64 %x2, [%w10], 2;\n") + isOver), 0u);
  EXPECT_EQ(single(3, std::string("mbarrier.arrive.shared.b64 %x2, [%w10], 3;\n") + isOver), 1u);
  // The next phase waits for as many.
  EXPECT_EQ(
      single(2, std::string("mbarrier.arrive.shared.b64 %x2, [%w10], 2;\nmbarrier.arrive.shared.b64 %x2, [%w10];\n") +
                    isSecondOver),
      0u);
  EXPECT_EQ(single(2, std::string(
                          "mbarrier.arrive.shared.b64 %x2, [%w10], 2;\nmbarrier.arrive.shared.b64 %x2, [%w10], 2;\n") +
                          isSecondOver),
            1u);
  EXPECT_THAT(faultOfSingle(2, "mbarrier.arrive.shared.b64 %x2, [%w10], 3;"),
              HasSubstr("expects at most 2 more arrivals"));
  EXPECT_THAT(faultOfSingle(2, "mbarrier.inval.shared.b64 [%w10];\nmbarrier.arrive.shared.b64 %x2, [%w10];"),
              HasSubstr("expects an mbarrier that was initialised"));
}

TEST(MbarrierTest, StatesSayWhichPhase) {
  EXPECT_EQ(
      single(
          1,
          "mbarrier.arrive.shared.b64 %x2, [%w10];\nmbarrier.test_wait.shared.b64 %q, [%w10], %x2;\nselp.u32 %w0, 1, "
          "0, %q;"),
      1u);
  EXPECT_EQ(single(5, "mbarrier.arrive.shared.b64 %x2, [%w10], 2;\nmbarrier.pending_count.b64 %w0, %x2;"), 5u);
  EXPECT_EQ(single(5, "mbarrier.arrive.shared.b64 %x2, [%w10], 2;\nmbarrier.arrive.shared.b64 %x2, "
                      "[%w10];\nmbarrier.pending_count.b64 %w0, %x2;"),
            3u);
}

TEST(MbarrierTest, DroppedArrivalsAreMissingFromThenOn) {
  const std::string drop = "mbarrier.arrive_drop.shared.b64 %x2, [%w10];\nmbarrier.arrive.shared.b64 %x2, [%w10];\n"
                           "mbarrier.arrive.shared.b64 %x2, [%w10];\n";
  EXPECT_EQ(single(2, drop + isSecondOver), 1u);
}

TEST(MbarrierTest, PhasesWaitForBytes) {
  const std::string expect = "mbarrier.arrive.expect_tx.shared.b64 %x2, [%w10], 48;\n";
  EXPECT_EQ(single(1, expect + isOver), 0u);
  EXPECT_EQ(single(1, expect + "mbarrier.complete_tx.shared::cta.b64 [%w10], 32;\n" + isOver), 0u);
  EXPECT_EQ(single(1, expect + "mbarrier.complete_tx.shared::cta.b64 [%w10], 48;\n" + isOver), 1u);
  EXPECT_EQ(single(1, std::string(
                          "mbarrier.expect_tx.shared::cta.b64 [%w10], 48;\nmbarrier.arrive.shared.b64 %x2, [%w10];\n") +
                          isOver),
            0u);
}

TEST(MbarrierTest, OrdersWhatCameBeforeTheArrival) {
  RunOptions two;
  two.block = {64, 1, 1};
  const std::string both = std::string(slots) +
                           "setp.eq.u32 %p, %tid, 0;\n@%p mbarrier.init.shared.b64 [%w10], 32;\nbar.sync 0;\n"
                           "setp.ge.u32 %p, %tid, 32;\n@%p bra OTHER;\nst.shared.b32 [%w1], %tid;\n"
                           "mbarrier.arrive.shared.b64 %x2, [%w10];\nbra END;\nOTHER:\n";
  const std::string wait = "WAIT: mbarrier.try_wait.parity.shared.b64 %q, [%w10], 0;\n@!%q bra WAIT;\n";
  const std::string use = "ld.shared.b32 %w0, [%w1+-512];\nEND:";
  EXPECT_EQ(faultOfBody(both + wait + use, two), "none");
  EXPECT_NE(faultOfBody(both + use, two), "none");
}

// Bulk copies ---------------------------------------------------------------------------------------------------------

constexpr char load64[] =
    "setp.eq.u32 %p, %tid, 0;\n@!%p bra READY;\nmov.u32 %w4, s;\nmbarrier.init.shared.b64 [%w10], 1;\n"
    "fence.mbarrier_init.release.cluster;\nmbarrier.arrive.expect_tx.shared.b64 %x2, [%w10], 64;\n"
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%w4], [%base], 64, [%w10];\n"
    "READY:\nbar.sync 0;\n";
constexpr char wait0[] = "WAIT: mbarrier.try_wait.parity.shared.b64 %q, [%w10], 0;\n@!%q bra WAIT;\n";
constexpr char readWord[] = "mov.u32 %w4, s;\nand.b32 %w5, %tid, 15;\nshl.b32 %w5, %w5, 2;\nadd.u32 %w4, %w4, %w5;\n"
                            "ld.shared.b32 %w0, [%w4];\n";

TEST(BulkTest, LoadsArriveBeforeThePhaseEnds) {
  const auto result =
      run(std::string(slots) + load64 + wait0 + readWord + "add.u32 %w0, %w0, 100;\n" + storeW0, counting(64));
  EXPECT_EQ(result[15], 116u);
  EXPECT_THAT(faultOfBody(std::string(slots) + load64 + readWord), HasSubstr("expects a wait"));
  EXPECT_THAT(faultOfBody(std::string(slots) + load64 + "mov.u32 %w4, s;\nst.shared.b32 [%w4], 7;\n" + wait0),
              HasSubstr("expects a wait"));
}

TEST(BulkTest, StoresNeedAProxyFenceAndLeaveTheSourceAloneAfterTheWait) {
  const std::string begin = std::string(slots) + "st.shared.v4.b32 [%w1], {%tid, 7, 8, 9};\n";
  const std::string store =
      "cp.async.bulk.global.shared::cta.bulk_group [%x1], [%w1], 16;\ncp.async.bulk.commit_group;\n";
  const auto result =
      run(begin + "fence.proxy.async;\n" + store + "cp.async.bulk.wait_group 0;\n", std::vector<uint32_t>(128));
  EXPECT_EQ(result[4 * 31], 31u);
  EXPECT_EQ(result[4 * 31 + 3], 9u);
  EXPECT_THAT(faultOfBody(begin + store + "cp.async.bulk.wait_group 0;"), HasSubstr("expects fence.proxy.async"));
  // What the source holds when the wait is over has no influence; before it does.
  const std::string change = "st.shared.b32 [%w1], 77;\n";
  EXPECT_EQ(run(begin + "fence.proxy.async;\n" + store + "cp.async.bulk.wait_group.read 0;\n" + change,
                std::vector<uint32_t>(128))[4],
            1u);
  EXPECT_NE(faultOfBody(begin + "fence.proxy.async;\n" + store + change + "cp.async.bulk.wait_group 0;\n"), "none");
}

// wgmma ---------------------------------------------------------------------------------------------------------------

/// Ones plus 64 x 8 products of ones (A, or registers of A) and ones, k = 16, by a warpgroup; `before` stands before
/// the product, `signs` are what A and B are multiplied with.
std::string productOf(const std::string &before, bool registersA, const std::string &signs = "1, 1") {
  return ".shared .align 128 .b8 s[4096];\nmov.u32 %w1, s;\nshl.b32 %w2, %tid, 4;\nadd.u32 %w1, %w1, %w2;\n"
         "mov.b32 %w3, 0x3c003c00;\nst.shared.v4.b32 [%w1], {%w3, %w3, %w3, %w3};\nst.shared.v4.b32 [%w1+2048], {%w3, "
         "%w3, "
         "%w3, %w3};\nfence.proxy.async;\nbar.sync 0;\nmov.u32 %w4, s;\nshr.u32 %w4, %w4, 4;\nand.b32 %w4, %w4, "
         "0x3fff;\n"
         // Leading 128 bytes, stride 256 bytes, no swizzle.
         "or.b32 %w4, %w4, 0x80000;\nmov.b32 %w5, 16;\nmov.b64 %x1, {%w4, %w5};\nmov.f32 %f0, 0f3f800000;\nmov.f32 "
         "%f1, "
         "%f0;\nmov.f32 %f2, %f0;\nmov.f32 %f3, %f0;\n" +
         before + "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, " +
         (registersA ? "{%w3, %w3, %w3, %w3}, %x1, 1, " + signs + ", 0;\n" : "%x1, %x1, 1, " + signs + ", 0, 0;\n") +
         "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\nmov.b32 %w0, %f3;\n" + storeW0;
}

TEST(WarpgroupTest, ProductsNeedAFenceAfterOtherUsesOfTheirRegisters) {
  RunOptions group;
  group.block = {128, 1, 1};
  const std::string fence = "wgmma.fence.sync.aligned;\n", use = "add.f32 %f1, %f1, %f1;\n",
                    useA = "add.u32 %w3, %w3, 0;\n";
  for (bool registersA : {false, true}) {
    EXPECT_EQ(run(productOf(fence, registersA), std::vector<uint32_t>(1024), group)[77], 0x41880000u);
    EXPECT_THAT(faultOfBody(productOf("", registersA), group), HasSubstr("before the first matrix product"));
    EXPECT_THAT(faultOfBody(productOf(fence + use, registersA), group), HasSubstr("a register of D"));
    EXPECT_EQ(faultOfBody(productOf(use + fence, registersA), group), "none");
    EXPECT_THAT(faultOfBody(productOf(fence + useA, registersA), group),
                HasSubstr(registersA ? "a register of A" : "none"));
  }
}

TEST(WarpgroupTest, ReadsThroughTheAsynchronousProxy) {
  RunOptions group;
  group.block = {128, 1, 1};
  std::string body = productOf("wgmma.fence.sync.aligned;\n", false);
  const std::string fence = "fence.proxy.async;\n";
  EXPECT_EQ(faultOfBody(body, group), "none");
  body.erase(body.find(fence), fence.size());
  EXPECT_THAT(faultOfBody(body, group), HasSubstr("expects fence.proxy.async"));
}

TEST(WarpgroupTest, IntegersSaturateWhereTheySaySo) {
  // 2^31 - 1 and 32 products of 60 and 60, as both operands are bytes 0x3c.
  RunOptions group;
  group.block = {128, 1, 1};
  for (auto [modifier, expected] : {std::pair(".satfinite", 0x7fffffffu), std::pair("", 0x7fffffffu + 32 * 3600)}) {
    std::string body = productOf("mov.b32 %w20, 0x7fffffff;\nmov.b32 %w21, %w20;\nmov.b32 %w22, %w20;\n"
                                 "mov.b32 %w23, %w20;\nwgmma.fence.sync.aligned;\n",
                                 false);
    auto replace = [&](const std::string &from, const std::string &to) {
      for (size_t at = 0; (at = body.find(from, at)) != std::string::npos; at += to.size()) {
        body.replace(at, from.size(), to);
      }
    };
    replace("0x3c003c00", "0x3c3c3c3c");
    replace("m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}",
            "m64n8k32" + std::string(modifier) + ".s32.s8.s8 {%w20, %w21, %w22, %w23}");
    replace("%x1, %x1, 1, 1, 1, 0, 0;", "%x1, %x1, 1;");
    replace("mov.b32 %w0, %f3;", "mov.b32 %w0, %w23;");
    EXPECT_EQ(run(body, std::vector<uint32_t>(1024), group)[77], expected) << modifier;
  }
}

TEST(WarpgroupTest, OperandsAreNegated) {
  RunOptions group;
  group.block = {128, 1, 1};
  const std::pair<const char *, uint32_t> signs[] = {
      {"1, 1", 0x41880000}, {"-1, 1", 0xc1700000}, {"1, -1", 0xc1700000}, {"-1, -1", 0x41880000}};
  for (bool registersA : {false, true}) {
    for (auto [scales, expected] : signs) {
      EXPECT_EQ(
          run(productOf("wgmma.fence.sync.aligned;\n", registersA, scales), std::vector<uint32_t>(1024), group)[77],
          expected)
          << scales;
    }
  }
}

TEST(WarpgroupTest, AGroupTakesEffectWhenItIsWaitedFor) {
  RunOptions group;
  group.block = {128, 1, 1};
  const std::string end = "wgmma.wait_group.sync.aligned 0;\n", commit = "wgmma.commit_group.sync.aligned;\n";
  std::string body = productOf("mov.f32 %f4, %f0;\nmov.f32 %f5, %f0;\nmov.f32 %f6, %f0;\nmov.f32 %f7, %f0;\n"
                               "wgmma.fence.sync.aligned;\n",
                               false);
  const std::string second = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f4, %f5, %f6, %f7}, %x1, %x1, 1, 1, "
                             "1, 0, 0;\n" +
                             commit;
  // What the second group reads is changed: too early while only the first one has been waited for.
  const std::string change = "bar.sync 0;\nst.shared.b32 [%w1], 0;\n";
  const size_t at = body.find(end);
  auto with = [&](const std::string &waits) {
    return std::string(body).replace(at, end.size(), second + waits + "mov.b32 %f3, %f7;\n");
  };
  EXPECT_EQ(run(with(end + change), std::vector<uint32_t>(1024), group)[77], 0x41880000u);
  EXPECT_NE(faultOfBody(with("wgmma.wait_group.sync.aligned 1;\n" + change + end), group), "none");
  // The first one's registers may be used, the second one's may not.
  const std::string first = "wgmma.wait_group.sync.aligned 1;\nadd.f32 %f8, %f3, %f3;\n";
  EXPECT_EQ(faultOfBody(with(first + end), group), "none");
  EXPECT_THAT(faultOfBody(with("wgmma.wait_group.sync.aligned 1;\nadd.f32 %f8, %f7, %f7;\n" + end), group),
              HasSubstr("expects wgmma.wait_group"));
}

TEST(WarpgroupTest, ResultsInFlightAreNoOperandsOfTheNextProduct) {
  RunOptions group;
  group.block = {128, 1, 1};
  const std::string first = "mov.b32 %w20, 0;\nmov.b32 %w21, 0;\nwgmma.fence.sync.aligned;\n"
                            "wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%w20, %w21}, %x1, %x1, 1, 1, 1, 0, 0;\n"
                            "wgmma.commit_group.sync.aligned;\n";
  for (const char *wait : {"", "wgmma.wait_group.sync.aligned 0;\n"}) {
    std::string body = productOf(first + wait, true);
    const std::string a = "{%w3, %w3, %w3, %w3}, %x1, 1";
    body.replace(body.find(a), a.size(), "{%w20, %w21, %w20, %w21}, %x1, 1");
    if (*wait) {
      // 1 + 16 * 16: what the first product gave, times ones.
      EXPECT_EQ(run(body, std::vector<uint32_t>(1024), group)[77], 0x43808000u);
    } else {
      EXPECT_THAT(faultOfBody(body, group), HasSubstr("in flight is used as A"));
    }
  }
}

// Collectives of some lanes -------------------------------------------------------------------------------------------

TEST(PartialTest, OtherLanesKeepTheirPredicates) {
  // Lanes 0 to 15 compare, shuffle (out of range: false), match, elect and vote; the others had true before.
  for (const char *instruction : {"setp.eq.u32 %q, %lane, 99", "shfl.sync.up.b32 %w1|%q, %lane, 31, 0, 0xffff",
                                  "match.all.sync.b32 %w1|%q, %lane, 0xffff", "vote.sync.all.pred %q, !%p, 0xffff"}) {
    const auto result = run(std::string("setp.lt.u32 %p, %lane, 16;\nsetp.ge.u32 %q, %lane, 0;\n@%p ") + instruction +
                                ";\nselp.u32 %w0, 1, 0, %q;\n" + storeW0,
                            std::vector<uint32_t>(32));
    EXPECT_EQ(result[15], 0u) << instruction;
    EXPECT_EQ(result[16], 1u) << instruction;
  }
}

TEST(PartialTest, MatchesGiveTheLanes) {
  EXPECT_EQ(run(std::string("match.all.sync.b32 %w0|%q, 5, -1;\n") + storeW0, std::vector<uint32_t>(32))[3],
            0xffffffffu);
  EXPECT_EQ(run(std::string("shr.u32 %w1, %lane, 4;\nmatch.any.sync.b32 %w0, %w1, -1;\n") + storeW0,
                std::vector<uint32_t>(32))[20],
            0xffff0000u);
}

TEST(PartialTest, ReductionsOfFloatsPassOverNan) {
  RunOptions options;
  options.target = "sm_100a";
  auto reduce = [&](const char *instruction) {
    return valuesOf<uint32_t>(
        runModule(kernelOf(std::string("cvt.rn.f32.u32 %f1, %lane;\nneg.f32 %f1, %f1;\n"
                                       "setp.eq.u32 %p, %lane, 3;\n@%p mov.f32 %f1, 0f7fc00000;\n") +
                               instruction + ", %f1, -1;\nmov.b32 %w0, %f0;\n" + storeW0,
                           "", "sm_100a"),
                  bytesOf(std::vector<uint32_t>(32)), options))[0];
  };
  EXPECT_EQ(reduce("redux.sync.min.f32 %f0"), 0xc1f80000u);
  EXPECT_EQ(reduce("redux.sync.max.f32 %f0"), 0x80000000u);
  EXPECT_EQ(reduce("redux.sync.max.abs.f32 %f0"), 0x41f80000u);
  EXPECT_EQ(reduce("redux.sync.min.NaN.f32 %f0"), 0x7fffffffu);
}

TEST(PartialTest, BarriersReduceOverAllWarps) {
  RunOptions three;
  three.block = {96, 1, 1};
  auto reduce = [&](const std::string &instruction) {
    return run("setp.lt.u32 %p, %tid, 40;\n" + instruction + ";\nselp.u32 %w0, 1, 0, %q;\n" + storeW0,
               std::vector<uint32_t>(96), three)[95];
  };
  EXPECT_EQ(reduce("bar.red.and.pred %q, 1, %p"), 0u);
  EXPECT_EQ(reduce("bar.red.or.pred %q, 1, %p"), 1u);
  EXPECT_EQ(reduce("bar.red.or.pred %q, 1, !%p"), 1u);
  EXPECT_EQ(
      run("setp.ge.u32 %p, %tid, 64;\nbar.red.and.pred %q, 1, %p;\nselp.u32 %w0, 1, 0, %q;\n" + std::string(storeW0),
          std::vector<uint32_t>(96), three)[95],
      0u);
  EXPECT_EQ(run("setp.lt.u32 %p, %tid, 40;\nbar.red.popc.u32 %w0, 1, !%p;\n" + std::string(storeW0),
                std::vector<uint32_t>(96), three)[0],
            56u);
  EXPECT_EQ(run("bar.red.or.pred %q, 1, !%p;\nselp.u32 %w0, 1, 0, %q;\n" + std::string(storeW0),
                std::vector<uint32_t>(96), three)[0],
            1u);
  // Warps that have ended are not waited for.
  EXPECT_EQ(run("setp.ge.u32 %p, %tid, 64;\n@%p ret;\nbar.sync 0;\nmov.u32 %w0, 3;\n" + std::string(storeW0),
                std::vector<uint32_t>(96), three)[0],
            3u);
  EXPECT_THAT(faultOfBody("bar.sync 1, 64;", three), HasSubstr("barrier 1"));
}

TEST(PartialTest, WarpBarriersWantAllLanesOfTheirMask) {
  EXPECT_EQ(faultOfBody("setp.lt.u32 %p, %lane, 16;\n@%p bar.warp.sync 0xffff;"), "none");
  EXPECT_THAT(faultOfBody("setp.lt.u32 %p, %lane, 16;\n@%p bar.warp.sync -1;"),
              HasSubstr("expects the lanes of the mask"));
}

TEST(PartialTest, GuardedIndexedBranchesFallThrough) {
  const auto result =
      run(std::string("and.b32 %w1, %lane, 1;\nmov.u32 %w0, 5;\nsetp.lt.u32 %p, %lane, 8;\n"
                      "T: .branchtargets L0, L1;\n@%p brx.idx %w1, T;\nbra END;\nL0: mov.u32 %w0, 10;\nbra END;\n"
                      "L1: mov.u32 %w0, 11;\nEND:\n") +
              storeW0,
          std::vector<uint32_t>(32));
  EXPECT_EQ(result[6], 10u);
  EXPECT_EQ(result[7], 11u);
  EXPECT_EQ(result[8], 5u);
}

// Atomics -------------------------------------------------------------------------------------------------------------

TEST(AtomicTest, SumsOfF32FlushDenormalsInGlobalMemoryOnly) {
  RunOptions one;
  one.block = {1, 1, 1};
  EXPECT_EQ(run("atom.global.add.f32 %f0, [%base], 0f00000003;", {2}, one)[0], 0u);
  EXPECT_EQ(
      run(".shared .b32 s;\nst.shared.b32 [s], 2;\natom.shared.add.f32 %f0, [s], 0f00000003;\nld.shared.b32 %w0, [s];\n"
          "st.global.b32 [%base], %w0;",
          {0}, one)[0],
      5u);
}

TEST(AtomicTest, HalvesAddAndCompareApart) {
  RunOptions one;
  one.block = {1, 1, 1};
  EXPECT_EQ(run("mov.b32 %w1, 0x40003c00;\natom.global.add.noftz.f16x2 %w0, [%base], %w1;", {0x3c003c00}, one)[0],
            0x42004000u);
  EXPECT_EQ(run("mov.b32 %w1, 0x3f803f80;\nred.global.add.noftz.bf16x2 [%base], %w1;", {0x3f804000}, one)[0],
            0x40004040u);
  EXPECT_EQ(run("mov.b16 %h1, 0x8000;\nmov.b16 %h2, 0x0000;\n"
                "atom.global.min.noftz.v2.f16 {%h3, %h4}, [%base], {%h1, %h2};",
                {0x80000000}, one)[0],
            0x80008000u);
}

TEST(AtomicTest, SharedAtomicsOrderWhatTheyGuard) {
  RunOptions two;
  two.block = {64, 1, 1};
  // Warp 0 writes, then sets the flag; warp 1 asks for the flag by an atomic until it is set, then reads.
  const std::string begin =
      ".shared .b32 data, flag;\nsetp.eq.u32 %p, %tid, 0;\n@%p st.shared.b32 [flag], 0;\nbar.sync 0;\n"
      "setp.lt.u32 %p, %tid, 32;\n@!%p bra READ;\nsetp.eq.u32 %q, %lane, 0;\n"
      "@%q st.shared.b32 [data], 9;\n@%q atom.shared.exch.b32 %w1, [flag], 1;\nbra END;\nREAD:\n";
  EXPECT_EQ(faultOfBody(begin + "ASK: atom.shared.or.b32 %w1, [flag], 0;\nsetp.eq.u32 %q, %w1, 0;\n@%q bra ASK;\n"
                                "ld.shared.b32 %w0, [data];\nEND:",
                        two),
            "none");
  EXPECT_NE(faultOfBody(begin + "ld.shared.b32 %w0, [data];\nEND:", two), "none");
}

// Counters ------------------------------------------------------------------------------------------------------------

TEST(CounterTest, WideSharedAccessesAreServedInParts) {
  auto wavefronts = [](const std::string &body, bool ideal) {
    ptx::LaunchResult result;
    runModule(kernelOf(body), std::vector<uint8_t>(4096), {}, &result);
    uint64_t sum = 0;
    for (const auto &c : result.counters) {
      sum += ideal ? c.idealWavefronts : c.wavefronts;
    }
    return sum;
  };
  const std::string begin = ".shared .align 16 .b8 s[8192];\nmov.u32 %w1, s;\nshl.b32 %w2, %tid, ";
  // 16 bytes a lane without gaps: four wavefronts, as few as there can be; 8 bytes: two.
  EXPECT_EQ(wavefronts(begin + "4;\nadd.u32 %w1, %w1, %w2;\nst.shared.v4.b32 [%w1], {%tid, %tid, %tid, %tid};", false),
            4u);
  EXPECT_EQ(wavefronts(begin + "4;\nadd.u32 %w1, %w1, %w2;\nst.shared.v4.b32 [%w1], {%tid, %tid, %tid, %tid};", true),
            4u);
  EXPECT_EQ(wavefronts(begin + "3;\nadd.u32 %w1, %w1, %w2;\nst.shared.v2.b32 [%w1], {%tid, %tid};", false), 2u);
  // Every lane 32 bytes apart: of each quarter two lanes meet in a bank.
  EXPECT_EQ(wavefronts(begin + "5;\nadd.u32 %w1, %w1, %w2;\nst.shared.v4.b32 [%w1], {%tid, %tid, %tid, %tid};", false),
            8u);
  // One word for all lanes: a broadcast.
  EXPECT_EQ(wavefronts(begin + "0;\nst.shared.b32 [%w1], 1;", false), 1u);
}

TEST(CounterTest, SectorsHave32Bytes) {
  ptx::LaunchResult result;
  runModule(kernelOf("mul.wide.u32 %x0, %tid, 4;\nadd.u64 %x0, %x0, %base;\nld.global.b32 %w0, [%x0];"),
            std::vector<uint8_t>(128), {}, &result);
  uint64_t sectors = 0, bytes = 0;
  for (const auto &c : result.counters) {
    sectors += c.sectors;
    bytes += c.bytes;
  }
  EXPECT_EQ(sectors, 4u);
  EXPECT_EQ(bytes, 128u);
}

// Matrices ------------------------------------------------------------------------------------------------------------

/// Element (row, column) of the products, from what lanes store: four words each, as the manual's figures have it.
template <typename T> T elementOf(const std::vector<uint32_t> &words, unsigned row, unsigned column) {
  const unsigned lane = row % 8 * 4 + column / 2, i = (row / 8) * 2 + column % 2;
  return std::bit_cast<T>(words[lane * 4 + i]);
}

TEST(MatrixTest, IntegersOfTwoTypesSaturate) {
  // A: all bytes 200 (unsigned) or -56 (signed); B: all bytes -3; k = 32.
  const std::string begin = "mov.b32 %w1, 0xc8c8c8c8;\nmov.b32 %w2, 0xfdfdfdfd;\n";
  auto product = [&](const std::string &types, const std::string &start) {
    return run(begin + "mov.b32 %w3, " + start + ";\nmma.sync.aligned.m16n8k32.row.col" + types +
                   " {%w4, %w5, %w6, %w7}, {%w1, %w1, %w1, %w1}, {%w2, %w2}, {%w3, %w3, %w3, %w3};\n"
                   "shl.b32 %w8, %lane, 4;\ncvt.u64.u32 %x1, %w8;\nadd.u64 %x1, %x1, %base;\n"
                   "st.global.v4.b32 [%x1], {%w4, %w5, %w6, %w7};",
               std::vector<uint32_t>(128));
  };
  EXPECT_EQ(elementOf<int32_t>(product(".s32.u8.s8.s32", "5"), 3, 7), 32 * 200 * -3 + 5);
  EXPECT_EQ(elementOf<int32_t>(product(".s32.s8.u8.s32", "5"), 12, 0), 32 * -56 * 253 + 5);
  EXPECT_EQ(elementOf<int32_t>(product(".satfinite.s32.u8.s8.s32", "0x80000010"), 3, 7), INT32_MIN);
  EXPECT_EQ(elementOf<int32_t>(product(".s32.u8.s8.s32", "0x80000010"), 3, 7), int32_t(0x80000010u - 19200u));
}

TEST(MatrixTest, Tf32ReadsNineteenBits) {
  // 1 + 2^-13 counts as 1; 1 + 2^-10 does not.
  for (auto [bits, expected] : {std::pair{0x3f800400u, 8.0f}, {0x3f802000u, 8.0f * (1 + 0x1p-10f)}}) {
    const auto result =
        run("mov.b32 %w1, " + std::to_string(bits) +
                ";\nmov.b32 %w2, 0x3f800000;\nmov.f32 %f9, 0f00000000;\n"
                "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f0, %f1, %f2, %f3}, {%w1, %w1, %w1, %w1}, "
                "{%w2, %w2}, {%f9, %f9, %f9, %f9};\n"
                "shl.b32 %w8, %lane, 4;\ncvt.u64.u32 %x1, %w8;\nadd.u64 %x1, %x1, %base;\n"
                "st.global.v4.f32 [%x1], {%f0, %f1, %f2, %f3};",
            std::vector<uint32_t>(128));
    EXPECT_EQ(elementOf<float>(result, 9, 4), expected);
  }
}

TEST(MatrixTest, DoublesHaveTheirPlaces) {
  // A[i][k] = 10 i + k is in lane 4 i + k, B[k][j] = 100 k + j in lane 4 j + k; C is 0.
  const auto bytes =
      runModule(kernelOf("shr.u32 %w1, %lane, 2;\nand.b32 %w2, %lane, 3;\nmad.lo.u32 %w3, %w1, 10, %w2;\nmad.lo.u32 "
                         "%w4, %w2, 100, %w1;\n"
                         "cvt.rn.f64.u32 %g0, %w3;\ncvt.rn.f64.u32 %g1, %w4;\nmov.f64 %g2, 0d0000000000000000;\n"
                         "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%g3, %g4}, {%g0}, {%g1}, {%g2, %g2};\n"
                         "shl.b32 %w8, %lane, 4;\ncvt.u64.u32 %x1, %w8;\nadd.u64 %x1, %x1, %base;\nst.global.v2.f64 "
                         "[%x1], {%g3, %g4};"),
                std::vector<uint8_t>(512));
  const auto d = valuesOf<double>(bytes);
  for (unsigned i = 0; i < 8; ++i) {
    for (unsigned j = 0; j < 8; ++j) {
      double sum = 0;
      for (unsigned k = 0; k < 4; ++k) {
        sum += (10 * i + k) * (100.0 * k + j);
      }
      EXPECT_EQ(d[i * 8 + j], sum) << i << ", " << j;
    }
  }
}

TEST(MatrixTest, SumsInHalvesFillBothHalves) {
  // All ones; C: column parity says 1 or 2.
  const auto result =
      run("mov.b32 %w1, 0x3c003c00;\nmov.b32 %w2, 0x40003c00;\n"
          "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%w3, %w4}, {%w1, %w1, %w1, %w1}, {%w1, %w1}, {%w2, "
          "%w2};\nmov.b32 %w0, %w3;\n" +
              std::string(storeW0),
          std::vector<uint32_t>(32));
  EXPECT_EQ(result[5], 0x4c804c40u); // 18 and 17
}

TEST(MatrixTest, MatricesMoveAndTranspose) {
  // Lane l holds elements (l / 4, 2 (l % 4)) and the one beside: their value is 16 row + column.
  const std::string begin =
      ".shared .align 16 .b8 s[256];\nmov.u32 %w9, s;\nshr.u32 %w1, %lane, 2;\nand.b32 %w2, %lane, 3;\n"
      "shl.b32 %w1, %w1, 4;\nmad.lo.u32 %w1, %w2, 2, %w1;\nadd.u32 %w2, %w1, 1;\nshl.b32 %w2, %w2, 16;\n"
      "or.b32 %w1, %w1, %w2;\nand.b32 %w3, %lane, 7;\nshl.b32 %w3, %w3, 4;\nadd.u32 %w3, %w3, %w9;\n";
  auto expect = [](const std::vector<uint32_t> &result, bool transposed, const char *what) {
    for (uint32_t lane = 0; lane < 32; ++lane) {
      const uint32_t g = lane / 4, c = 2 * (lane % 4);
      EXPECT_EQ(result[lane],
                transposed ? (16 * c + g) | (16 * (c + 1) + g) << 16 : (16 * g + c) | (16 * g + c + 1) << 16)
          << what << ", lane " << lane;
    }
  };
  const std::vector<uint32_t> zeros(32);
  expect(run(begin + "movmatrix.sync.aligned.m8n8.trans.b16 %w0, %w1;\n" + storeW0, zeros), true, "movmatrix");
  for (bool storeTransposed : {false, true}) {
    for (bool loadTransposed : {false, true}) {
      expect(run(begin + "stmatrix.sync.aligned.m8n8.x1" + (storeTransposed ? ".trans" : "") +
                     ".shared.b16 [%w3], {%w1};\nbar.warp.sync -1;\nldmatrix.sync.aligned.m8n8.x1" +
                     (loadTransposed ? ".trans" : "") + ".shared.b16 {%w0}, [%w3];\n" + storeW0,
                 zeros),
             storeTransposed != loadTransposed, "stmatrix and ldmatrix");
    }
  }
}

} // namespace
