//===- ProgramTest.cpp - Control flow, memory, collectives, errors --------===//
#include "PtxRunner.h"
#include "ptx/Report.h"

#include <random>

using namespace kvc::sim;
using namespace kvc::sim::test;
using testing::HasSubstr;

namespace {

/// Runs a body on `words` zeros.
std::vector<uint32_t> run(const std::string &body, size_t words, const RunOptions &options = {},
                          const std::string &before = "") {
  return valuesOf<uint32_t>(runModule(kernelOf(body, before), bytesOf(std::vector<uint32_t>(words)), options));
}
std::string faultOfBody(const std::string &body, const RunOptions &options = {}, const std::string &before = "") {
  return faultOf([&] { run(body, 64, options, before); });
}

constexpr char storeW0[] = "mul.wide.u32 %at, %tid, 4;\nadd.u64 %at, %at, %base;\nst.global.u32 [%at], %w0;\n";

TEST(ProgramTest, LanesMeetAfterADivergentLoop) {
  // Lane i goes round i times; all of them vote afterwards.
  const auto result =
      run(std::string("mov.u32 %w1, 0;\nmov.u32 %w0, 0;\nLOOP:\nsetp.ge.u32 %p, %w1, %lane;\n@%p bra OUT;\n"
                      "add.u32 %w0, %w0, %w1;\nadd.u32 %w1, %w1, 1;\nbra LOOP;\nOUT:\n"
                      "vote.sync.ballot.b32 %w2, 1, 0xffffffff;\nadd.u32 %w0, %w0, %w2;\n") +
              storeW0,
          32);
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(result[i], i * (i - 1) / 2 + 0xffffffff);
  }
}

TEST(ProgramTest, LanesThatGoStraightToTheEndHaveEnded) {
  // The others meet at barriers and shuffle among themselves, wherever the end stands.
  const std::string rest =
      "bar.sync 0;\nbar.warp.sync 0xffffff80;\nvote.sync.ballot.b32 %w0, 1, 0xffffff80;\n" + std::string(storeW0);
  for (const std::string &body : {"setp.lt.u32 %p, %lane, 7;\n@%p bra OUT;\n" + rest + "OUT:",
                                  "setp.ge.u32 %p, %lane, 7;\n@%p bra ON;\nret;\nON:\n" + rest,
                                  "setp.lt.u32 %p, %lane, 7;\n@%p exit;\n" + rest}) {
    RunOptions two;
    two.block = {64, 1, 1};
    const auto result = run(body, 64, two);
    for (uint32_t i = 0; i < 64; ++i) {
      EXPECT_EQ(result[i], i % 32 < 7 ? 0u : 0xffffff80u) << body;
    }
  }
  // What comes before the end is not the end.
  EXPECT_THAT(faultOfBody("setp.lt.u32 %p, %lane, 7;\n@%p bra OUT;\n" + rest + "OUT:\nadd.u32 %w1, %w1, 1;"),
              HasSubstr("expects all 32 lanes"));
}

TEST(ProgramTest, BothSidesOfNestedBranchesRun) {
  const auto result = run(std::string("and.b32 %w1, %lane, 1;\nand.b32 %w2, %lane, 2;\nmov.u32 %w0, 0;\n"
                                      "setp.eq.u32 %p, %w1, 0;\nsetp.eq.u32 %q, %w2, 0;\n@%p bra A;\n@%q bra B;\n"
                                      "mov.u32 %w0, 3;\nbra END;\nB: mov.u32 %w0, 1;\nbra END;\n"
                                      "A: @%q bra C;\nmov.u32 %w0, 2;\nbra END;\nC: mov.u32 %w0, 0;\nEND:\n") +
                              storeW0,
                          32);
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(result[i], i & 3);
  }
}

TEST(ProgramTest, FunctionsTakeParametersAndReturnEarly) {
  const char function[] = ".func (.param .b32 result) twice(.param .b32 value, .param .align 4 .b8 pair[8])\n{\n"
                          ".reg .b32 %a<4>;\n.reg .pred %p;\nld.param.b32 %a0, [value];\nld.param.b32 %a1, [pair+4];\n"
                          "setp.lt.u32 %p, %a0, 16;\n@%p bra SMALL;\nadd.u32 %a2, %a0, %a1;\n"
                          "st.param.b32 [result], %a2;\nret;\nSMALL: st.param.b32 [result], 7;\nret;\n}\n";
  const auto result = run(std::string("{\n.param .b32 v;\n.param .align 4 .b8 q[8];\n.param .b32 r;\n"
                                      "st.param.b32 [v], %lane;\nst.param.b32 [q+0], 1;\nst.param.b32 [q+4], 100;\n"
                                      "call.uni (r), twice, (v, q);\nld.param.b32 %w0, [r];\n}\n") +
                              storeW0,
                          32, {}, function);
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(result[i], i < 16 ? 7 : i + 100);
  }
}

TEST(ProgramTest, IndexedBranchesGoWhereTheirTableSays) {
  const auto result =
      run(std::string("and.b32 %w1, %lane, 3;\nmov.u32 %w0, 9;\nT: .branchtargets L0, L1, L2, L1;\n"
                      "brx.idx %w1, T;\nL0: mov.u32 %w0, 10;\nbra END;\nL1: mov.u32 %w0, 11;\nbra END;\n"
                      "L2: mov.u32 %w0, 12;\nEND:\n") +
              storeW0,
          32);
  const uint32_t expected[] = {10, 11, 12, 11};
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(result[i], expected[i & 3]);
  }
}

TEST(ProgramTest, ShufflesMoveValuesBetweenLanes) {
  struct {
    const char *instruction;
    int (*source)(int);
  } cases[] = {
      {"shfl.sync.bfly.b32 %w0|%p, %lane, 5, 31, -1", [](int i) { return i ^ 5; }},
      {"shfl.sync.up.b32 %w0|%p, %lane, 3, 0, -1", [](int i) { return i < 3 ? i : i - 3; }},
      {"shfl.sync.down.b32 %w0|%p, %lane, 3, 31, -1", [](int i) { return i + 3 > 31 ? i : i + 3; }},
      {"shfl.sync.idx.b32 %w0|%p, %lane, 9, 0x181f, -1", [](int i) { return (i & 24) | 1; }},
      // Segments of 8 lanes.
      {"shfl.sync.down.b32 %w0|%p, %lane, 2, 0x1807, -1", [](int i) { return (i & 7) + 2 > 7 ? i : i + 2; }},
      {"shfl.sync.up.b32 %w0|%p, %lane, 2, 0x1800, -1", [](int i) { return (i & 7) < 2 ? i : i - 2; }},
  };
  for (const auto &c : cases) {
    const auto result = run(std::string(c.instruction) + ";\n" + storeW0, 32);
    for (int i = 0; i < 32; ++i) {
      EXPECT_EQ(int(result[size_t(i)]), c.source(i)) << c.instruction << ", lane " << i;
    }
  }
}

TEST(ProgramTest, VotesMatchesAndReductions) {
  EXPECT_EQ(run(std::string("setp.lt.u32 %p, %lane, 7;\nvote.sync.ballot.b32 %w0, %p, -1;\n") + storeW0, 32)[9], 127u);
  EXPECT_EQ(run(std::string("setp.lt.u32 %p, %lane, 7;\nvote.sync.any.pred %q, !%p, -1;\nselp.u32 %w0, 1, 0, %q;\n") +
                    storeW0,
                32)[0],
            1u);
  EXPECT_EQ(
      run(std::string("setp.lt.u32 %p, %lane, 7;\nvote.sync.uni.pred %q, %p, -1;\nselp.u32 %w0, 1, 0, %q;\n") + storeW0,
          32)[0],
      0u);
  EXPECT_EQ(run(std::string("and.b32 %w1, %lane, 3;\nmatch.any.sync.b32 %w0, %w1, -1;\n") + storeW0, 32)[2],
            0x44444444u);
  EXPECT_EQ(run(std::string("redux.sync.add.u32 %w0, %lane, -1;\n") + storeW0, 32)[2], 496u);
  EXPECT_EQ(run(std::string("sub.s32 %w1, %lane, 5;\nredux.sync.min.s32 %w0, %w1, -1;\n") + storeW0, 32)[2],
            uint32_t(-5));
  EXPECT_EQ(run(std::string("redux.sync.xor.b32 %w0, %lane, -1;\n") + storeW0, 32)[2], 0u);
  EXPECT_EQ(run(std::string("elect.sync %w0|%p, -1;\n@%p add.u32 %w0, %w0, 50;\n") + storeW0, 32)[0], 50u);
}

TEST(ProgramTest, GroupsOfLanesWithTheirOwnMasksActApart) {
  const auto result = run(std::string("setp.lt.u32 %p, %lane, 16;\nselp.b32 %w1, 0x0000ffff, 0xffff0000, %p;\n"
                                      "redux.sync.add.u32 %w0, %lane, %w1;\nvote.sync.ballot.b32 %w2, 1, %w1;\n"
                                      "popc.b32 %w2, %w2;\nadd.u32 %w0, %w0, %w2;\n") +
                              storeW0,
                          32);
  EXPECT_EQ(result[3], 120u + 16);
  EXPECT_EQ(result[30], 376u + 16);
}

TEST(ProgramTest, LoadsExtendAndVectorsSplit) {
  std::vector<uint32_t> words(16, 0);
  words[0] = 0x80ff7f01;
  words[1] = 0x11223344;
  const auto result = valuesOf<uint32_t>(runModule(
      kernelOf("setp.ne.u32 %p, %tid, 0;\n@%p ret;\nld.global.s8 %w0, [%base+3];\nld.global.u8 %w1, [%base+2];\n"
               "ld.global.s16 %w2, [%base+2];\nld.global.v2.b32 {%w3, %w4}, [%base];\nld.global.v4.u8 {%h0, %h1, %h2, "
               "%h3}, [%base];\n"
               "cvt.u32.u16 %w5, %h1;\nst.global.v4.b32 [%base+16], {%w0, %w1, %w2, %w3};\nst.global.v2.b32 "
               "[%base+32], {%w4, %w5};\n"
               "st.global.u8 [%base+41], %w4;"),
      bytesOf(words)));
  EXPECT_EQ(result[4], 0xffffff80u);
  EXPECT_EQ(result[5], 0xffu);
  EXPECT_EQ(result[6], 0xffff80ffu);
  EXPECT_EQ(result[7], 0x80ff7f01u);
  EXPECT_EQ(result[8], 0x11223344u);
  EXPECT_EQ(result[9], 0x7fu);
  EXPECT_EQ(result[10], 0x4400u);
}

TEST(ProgramTest, GenericAddressesReachSharedAndLocalMemory) {
  const auto result = run(
      std::string(".shared .align 4 .b8 s[128];\n.local .align 4 .b8 l[16];\n"
                  "mov.u64 %x0, s;\ncvta.shared.u64 %x0, %x0;\nmul.wide.u32 %x1, %lane, 4;\nadd.u64 %x0, %x0, %x1;\n"
                  "st.b32 [%x0], %lane;\nmov.u64 %x2, l;\ncvta.local.u64 %x2, %x2;\nld.b32 %w1, [%x0];\n"
                  "st.b32 [%x2+4], %w1;\nld.local.b32 %w0, [l+4];\nisspacep.shared %p, %x0;\n"
                  "@%p add.u32 %w0, %w0, 100;\n") +
          storeW0,
      32);
  EXPECT_EQ(result[9], 109u);
}

TEST(ProgramTest, AtomicsOfManyCtasAddUp) {
  RunOptions options;
  options.grid = {50, 1, 1};
  options.block = {64, 1, 1};
  EXPECT_EQ(run("red.global.add.u32 [%base], 1;", 4, options)[0], 3200u);
  EXPECT_EQ(run("atom.global.add.f32 %f0, [%base], 0f3f800000;", 4, options)[0], 0x45480000u);
  EXPECT_EQ(run("atom.global.inc.u32 %w0, [%base], 9;", 4, options)[0], 0u);
  EXPECT_EQ(run("atom.global.max.s32 %w0, [%base], %tid;", 4, options)[0], 63u);
  EXPECT_EQ(run("setp.eq.u32 %p, %tid, 5;\n@%p atom.global.cas.b32 %w0, [%base], 0, 77;", 4, options)[0], 77u);
}

TEST(ProgramTest, BarriersWithCountsLetProducersGoOn) {
  RunOptions options;
  options.block = {128, 1, 1};
  // Warps 0 and 1 arrive, warps 2 and 3 wait; then all reduce.
  const auto result = run(
      std::string(".shared .align 4 .b8 s[256];\nshl.b32 %w1, %tid, 2;\nsetp.lt.u32 %p, %tid, 64;\n@!%p bra WAIT;\n"
                  "mov.u32 %w3, s;\nadd.u32 %w3, %w3, %w1;\nst.shared.b32 [%w3], %tid;\nbar.arrive 1, 128;\nmov.u32 "
                  "%w0, 1;\nbra END;\n"
                  "WAIT:\nbar.sync 1, 128;\nmov.u32 %w3, s;\nadd.u32 %w3, %w3, %w1;\nld.shared.b32 %w0, [%w3+-256];\n"
                  "END:\nsetp.gt.u32 %q, %w0, 40;\nbar.red.popc.u32 %w4, 2, %q;\nadd.u32 %w0, %w0, %w4;\n") +
          storeW0,
      128, options);
  EXPECT_EQ(result[0], 24u);
  EXPECT_EQ(result[127], 86u);
}

TEST(ProgramTest, SeedsOfTheSchedulerChangeNothing) {
  const std::string body =
      std::string(".shared .align 4 .b8 s[1024];\nmov.u32 %w1, s;\nshl.b32 %w2, %tid, 2;\nadd.u32 %w1, %w1, %w2;\n"
                  "st.shared.b32 [%w1], %tid;\nbar.sync 0;\nxor.b32 %w3, %tid, 255;\nshl.b32 %w3, %w3, 2;\n"
                  "mov.u32 %w4, s;\nadd.u32 %w4, %w4, %w3;\nld.shared.b32 %w0, [%w4];\n") +
      storeW0;
  RunOptions options;
  options.block = {256, 1, 1};
  const auto first = run(body, 256, options);
  for (uint64_t seed = 1; seed < 6; ++seed) {
    options.launch.seed = seed;
    options.launch.slice = 3;
    EXPECT_EQ(run(body, 256, options), first);
  }
  EXPECT_EQ(first[3], 252u);
}

TEST(ProgramTest, CountersSeeSectorsAndConflicts) {
  ptx::LaunchResult result;
  const std::string body = ".shared .align 4 .b8 s[4096];\nmul.wide.u32 %x0, %tid, 64;\nadd.u64 %x0, %x0, "
                           "%base;\nld.global.b32 %w0, [%x0];\n"
                           "shl.b32 %w1, %tid, 7;\nmov.u32 %w2, s;\nadd.u32 %w1, %w1, %w2;\nst.shared.b32 [%w1], %w0;";
  runModule(kernelOf(body), std::vector<uint8_t>(2048), {}, &result);
  uint64_t sectors = 0, wavefronts = 0;
  for (const auto &c : result.counters) {
    sectors += c.sectors;
    wavefronts += c.wavefronts;
  }
  EXPECT_EQ(sectors, 32u);
  EXPECT_EQ(wavefronts, 32u);
}

TEST(ProgramTest, TheModelOfTheTimeFollowsFromTheCounters) {
  // 108 SMs of 1.41 GHz with 2048 flops a cycle: 311.9 Tflop/s; 2039 GB/s.
  ptx::Totals totals;
  totals.mmaFlops = 311869440;
  totals.globalLoadSectors = 2039000000 / 32 / 1000;
  const ptx::ModelTimes times = modelTimes(totals, *ptx::ratesOf(80));
  EXPECT_NEAR(times.tensor, 1.0, 1e-4);
  EXPECT_NEAR(times.dram, 1.0, 1e-4);
  EXPECT_EQ(times.largest(), std::max(times.tensor, times.dram));
  EXPECT_EQ(ptx::ratesOf(70), nullptr);
}

// Errors --------------------------------------------------------------------------------------------------------------

TEST(ProgramTest, SaysWhatIsWrongWithAnAccess) {
  EXPECT_THAT(faultOfBody("ld.global.b32 %w0, [%base+256];"),
              HasSubstr("0 bytes behind the end of the buffer (256 bytes)"));
  EXPECT_THAT(faultOfBody("ld.global.b32 %w0, [%base+2];"), HasSubstr("a multiple of 4"));
  EXPECT_THAT(faultOfBody("ld.global.b32 %w0, [0];"), HasSubstr("test.ptx:"));
  EXPECT_THAT(faultOfBody("ld.global.b32 %w0, [%base+-4];"), HasSubstr("4 bytes before the buffer"));
  EXPECT_THAT(faultOfBody(".shared .b32 s;\nld.shared.b32 %w0, [s+4];"), HasSubstr("4 bytes of shared memory"));
  EXPECT_THAT(faultOfBody(".local .b32 l;\nst.local.b32 [l+4], %w0;"), HasSubstr("local memory"));
  EXPECT_THAT(faultOfBody("st.global.b32 [table], %w0;", {}, ".const .b32 table = 3;\n"),
              HasSubstr("is a variable of the const space"));
}

TEST(ProgramTest, FindsRacesMissingWaitsAndPartialWarps) {
  RunOptions two;
  two.block = {64, 1, 1};
  const std::string exchange =
      ".shared .align 4 .b8 s[256];\nmov.u32 %w1, s;\nshl.b32 %w2, %tid, 2;\nadd.u32 %w1, %w1, %w2;\n"
      "st.shared.b32 [%w1], %tid;\n";
  const std::string other =
      "xor.b32 %w3, %w2, 128;\nmov.u32 %w4, s;\nadd.u32 %w4, %w4, %w3;\nld.shared.b32 %w0, [%w4];";
  EXPECT_EQ(faultOfBody(exchange + "bar.sync 0;\n" + other, two), "none");
  EXPECT_NE(faultOfBody(exchange + other, two), "none");
  EXPECT_THAT(faultOfBody("setp.lt.u32 %p, %lane, 3;\n@%p shfl.sync.bfly.b32 %w0, %lane, 1, 31, -1;"),
              HasSubstr("lanes of the mask"));
  EXPECT_THAT(faultOfBody("setp.lt.u32 %p, %lane, 3;\n@%p bar.sync 0;"), HasSubstr("expects all 32 lanes"));
  const std::string copy =
      ".shared .align 16 .b8 s[512];\nmov.u32 %w1, s;\nshl.b32 %w2, %tid, 4;\nadd.u32 %w1, %w1, %w2;\n"
      "cp.async.cg.shared.global [%w1], [%base], 16;\ncp.async.commit_group;\n";
  EXPECT_EQ(faultOfBody(copy + "cp.async.wait_group 0;\nld.shared.b32 %w0, [%w1];"), "none");
  EXPECT_THAT(faultOfBody(copy + "cp.async.wait_group 1;\nld.shared.b32 %w0, [%w1];"), HasSubstr("expects a wait"));
}

TEST(ProgramTest, ReportsDeadlocksWithTheStateOfEachWarp) {
  RunOptions two;
  two.block = {64, 1, 1};
  const std::string fault =
      faultOfBody("setp.lt.u32 %p, %tid, 32;\n@%p bra A;\nbar.sync 2, 64;\nbra END;\nA: bar.sync 1, 64;\nEND:", two);
  EXPECT_THAT(fault, HasSubstr("deadlock"));
  EXPECT_THAT(fault, HasSubstr("warp 0: lanes 0xffffffff at test.ptx:"));
  EXPECT_THAT(fault, HasSubstr("waits for barrier 1"));
  EXPECT_THAT(fault, HasSubstr("waits for barrier 2"));
  EXPECT_THAT(
      faultOfBody("setp.lt.u32 %p, %tid, 32;\n@%p bra A;\nbar.sync 1, 32;\nbra END;\nA: bar.sync 1, 64;\nEND:", two),
      HasSubstr("expects one count for barrier 1"));
  RunOptions limited;
  limited.launch.instructionLimit = 10000;
  EXPECT_THAT(faultOfBody("L: bra L;", limited), HasSubstr("expects at most 10000 warp instructions"));
}

TEST(ProgramTest, AssertionsEndTheKernel) {
  const char declaration[] = ".extern .func __assertfail(.param .b64 text)\n;\n";
  const std::string body = "setp.gt.u32 %p, %lane, 3;\n@!%p bra END;\n{\n.param .b64 t;\nst.param.b64 [t], "
                           "0;\ncall.uni __assertfail, (t);\n}\nEND:";
  EXPECT_THAT(faultOfBody(body, {}, declaration), HasSubstr("the program ends itself"));
  const std::string other = ".extern .func (.param .b32 r) vprintf(.param .b64 text)\n;\n";
  EXPECT_THAT(
      faultOfBody("{\n.param .b64 t;\n.param .b32 r;\nst.param.b64 [t], 0;\ncall.uni (r), vprintf, (t);\n}", {}, other),
      HasSubstr("expects the body of vprintf"));
}

TEST(ProgramTest, RefusesWhatItDoesNotKnow) {
  struct {
    const char *body, *text;
  } cases[] = {
      {"frobnicate.u32 %w0, %w1;", "expects an instruction that the simulator has"},
      {"add.f8 %w0, %w1, %w2;", "expects modifiers out of"},
      {"add.u32.cc %w0, %w1, %w2;", "expects modifiers out of"},
      {"add.u32 %w0, %w1;", "operands"},
      {"add.u32 %w0, %w1, %w2, %w3;", "expects 3 operands, but got 4"},
      {"add.u32 %x0, %w1, %w2;", "expects a register of 32 bits"},
      {"add.f32 %f0, %f1, 1;", "expects a floating-point number"},
      {"cvt.f16.f32 %h0, %f1;", "expects a rounding"},
      {"cvt.s32.f32 %w0, %f1;", "expects an integral rounding"},
      {"mul.f32x2 %x0, %x1, %x2;", "expects sm_100 or newer"},
      {"ld.shared.b32 %w0, [nothing];", "expects the label nothing"},
      {"bra NOWHERE;", "expects the label NOWHERE"},
      {"mov.u32 %w0, %nothing;", "special register"},
      {"setp.lt.b32 %p, %w0, %w1;", ".eq or .ne"},
      {"tex.1d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%x0, {%f0}];", "expects an instruction that the simulator has"},
  };
  for (const auto &c : cases) {
    EXPECT_THAT(faultOfBody(c.body), HasSubstr(c.text)) << c.body;
    EXPECT_THAT(faultOfBody(c.body), HasSubstr("test.ptx")) << c.body;
  }
}

TEST(ProgramTest, DamagedTextGivesErrors) {
  const std::string whole = kernelOf("add.u32 %w0, %w1, %w2;\n@%p bra L;\nL:\nst.global.v2.b32 [%base+8], {%w0, %w1};");
  std::mt19937 random(3);
  for (int i = 0; i < 3000; ++i) {
    std::string text = whole;
    switch (random() % 3) {
    case 0:
      text.resize(random() % text.size());
      break;
    case 1:
      text.erase(random() % text.size(), random() % 20);
      break;
    default:
      text[random() % text.size()] = char(random());
      break;
    }
    // Any fault is right; what still parses may run.
    faultOf([&] {
      RunOptions options;
      options.launch.instructionLimit = 10000;
      runModule(text, std::vector<uint8_t>(256), options);
    });
  }
}

TEST(ProgramTest, ConstantsAreNotWritten) {
  const char table[] = ".const .align 4 .b32 table[4] = {1, 2, 3, 4};\n";
  const std::string address = "mov.u64 %x1, table;\ncvta.const.u64 %x1, %x1;\n";
  EXPECT_EQ(run(address + "ld.u32 %w0, [%x1+8];\n" + storeW0, 32, {}, table)[5], 3u);
  EXPECT_NE(faultOfBody(address + "st.u32 [%x1+8], %lane;\n", {}, table), "none");
  // Lane i asks for 8 i bytes behind the beginning.
  const auto inside =
      run(address +
              "mul.wide.u32 %x2, %tid, 8;\nadd.u64 %x1, %x1, %x2;\nisspacep.const %p, %x1;\nselp.u32 %w0, 1, 0, %p;\n" +
              storeW0,
          32, {}, table);
  EXPECT_EQ(inside[1], 1u);
  EXPECT_EQ(inside[2], 0u);
}

TEST(ProgramTest, ParametersEnd) {
  EXPECT_EQ(
      run("mov.u64 %x1, buffer;\nld.param.u64 %x2, [%x1];\nsetp.eq.u64 %p, %x2, %base;\nselp.u32 %w0, 1, 0, %p;\n" +
              std::string(storeW0),
          32)[0],
      1u);
  EXPECT_THAT(faultOfBody("mov.u64 %x1, buffer;\nld.param.u64 %x2, [%x1+8];\n"), HasSubstr("8 bytes of parameters"));
}

TEST(ProgramTest, WeakStoresOfTwoWarpsRace) {
  RunOptions two;
  two.block = {64, 1, 1};
  const std::string begin = ".shared .align 4 .b32 s;\nmov.u32 %w1, s;\nsetp.eq.u32 %p, %lane, 0;\n@%p ";
  EXPECT_THAT(faultOfBody(begin + "st.shared.u32 [%w1], %tid;\n", two), HasSubstr("race"));
  EXPECT_EQ(faultOfBody(begin + "st.relaxed.cta.shared.u32 [%w1], %tid;\n", two), "none");
}

TEST(ProgramTest, ClustersShareTheirWindows) {
  // Which CTA an address of shared memory belongs to, and what it is: the own one, and that of the neighbour.
  RunOptions pair;
  pair.grid = {2, 1, 1};
  pair.cluster = {2, 1, 1};
  const auto result = run(".shared .align 4 .b32 s;\nmov.u32 %w1, s;\nmov.u32 %w2, %cluster_ctarank;\n"
                          "xor.b32 %w3, %w2, 1;\ngetctarank.shared::cluster.u32 %w4, %w1;\n"
                          "mapa.shared::cluster.u32 %w5, %w1, %w3;\ngetctarank.shared::cluster.u32 %w6, %w5;\n"
                          "cvt.u64.u32 %x1, %w1;\ncvta.shared.u64 %x1, %x1;\nisspacep.shared::cluster %p, %x1;\n"
                          "selp.u32 %w7, 1, 0, %p;\nmapa.u64 %x2, %x1, %w3;\nisspacep.shared::cta %p, %x2;\n"
                          "selp.u32 %w8, 1, 0, %p;\nisspacep.shared::cluster %p, %x2;\nselp.u32 %w9, 1, 0, %p;\n"
                          "mul.wide.u32 %x3, %w2, 20;\nadd.u64 %x3, %x3, %base;\n"
                          "st.global.b32 [%x3], %w4;\nst.global.b32 [%x3+4], %w6;\nst.global.b32 [%x3+8], %w7;\n"
                          "st.global.b32 [%x3+12], %w8;\nst.global.b32 [%x3+16], %w9;\n",
                          10, pair);
  EXPECT_THAT(result, testing::ElementsAre(0u, 1u, 1u, 0u, 1u, 1u, 0u, 1u, 0u, 1u));
}

} // namespace
