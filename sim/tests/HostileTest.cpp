//===- HostileTest.cpp - Damaged code objects and PTX ---------------------===//
//
// KVCSIM_FUZZ_SECONDS (default 3) bounds each test; KVCSIM_FUZZ_SEED (default 1) draws other damage.
//
//===----------------------------------------------------------------------===//
#include "Hostile.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace kvc::sim;
using namespace kvc::sim::test;

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

uint64_t setting(const char *name, uint64_t otherwise) {
  const char *value = std::getenv(name);
  return value ? std::strtoull(value, nullptr, 10) : otherwise;
}

std::vector<std::vector<uint8_t>> filesOf(const char *folder, const char *extension) {
  std::vector<std::filesystem::path> paths;
  std::error_code problem;
  for (const auto &entry : std::filesystem::directory_iterator(folder, problem)) {
    if (entry.path().extension() == extension) {
      paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::vector<uint8_t>> files;
  for (const auto &path : paths) {
    std::ifstream file(path, std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return files;
}

/// Calls `once(number)` until the time is over. Nothing that is called may take long.
template <typename F> void repeat(F once) {
  constexpr double longest = 20;
  const double end = now() + double(setting("KVCSIM_FUZZ_SECONDS", 3));
  uint64_t number = 0;
  for (double begin = now(); begin < end; ++number) {
    once(number);
    const double after = now();
    ASSERT_LT(after - begin, longest) << "input " << number;
    begin = after;
  }
  testing::Test::RecordProperty("inputs", int(number));
  ASSERT_GT(number, 20u);
}

template <typename T> T pick(const std::vector<T> &from, uint64_t number) { return from[number % from.size()]; }

TEST(HostileTest, SoundCodeObjectsRun) {
  const auto files = filesOf(KVCSIM_OBJECTS, ".hsaco");
  ASSERT_FALSE(files.empty());
  for (const auto &file : files) {
    const amdgcn::Chip *chip = amdgcn::findChip(amdgcn::targetOf("sound", file));
    ASSERT_NE(chip, nullptr);
    GlobalMemory memory;
    amdgcn::LoadedModule module(memory, "sound", file, *chip);
    EXPECT_FALSE(module.object().kernels.empty());
    tryCodeObject(file);
  }
}

TEST(HostileTest, DamagedCodeObjects) {
  const auto files = filesOf(KVCSIM_OBJECTS, ".hsaco");
  ASSERT_FALSE(files.empty());
  const uint64_t seed = setting("KVCSIM_FUZZ_SEED", 1);
  repeat([&](uint64_t number) {
    Damage damage(seed * 1000003 + number);
    tryCodeObject(damage.bytes(pick(files, number)), number % 4 == 0);
  });
}

TEST(HostileTest, CodeObjectsThatEndEarly) {
  const auto files = filesOf(KVCSIM_OBJECTS, ".hsaco");
  ASSERT_FALSE(files.empty());
  repeat([&](uint64_t number) {
    auto file = pick(files, number);
    file.resize(file.size() * (number * 37 % 1009) / 1009);
    tryCodeObject(file, false);
  });
}

/// Directives and operands that nvcc's kernels do not have, too.
constexpr char module[] = R"(.version 8.7
.target sm_90a, debug
.address_size 64
.file 1 "a.cu"
.extern .shared .align 16 .b8 dynamic[];
.global .align 8 .u64 pointers[4] = {table, table+8, generic(table), 0};
.global .align 4 .b32 table[8] = {1, 2, 0x3, -4, 0f3f800000};
.const .f32 scale = 0f40000000;
.visible .func (.param .b32 out) twice(.param .b32 value)
{
  .reg .b32 %a;
  ld.param.b32 %a, [value];
  add.u32 %a, %a, %a;
  st.param.b32 [out], %a;
  ret;
}
.visible .entry kernel(.param .u64 .ptr .global .align 16 buffer, .param .align 4 .b8 pair[8])
.maxntid 128, 1, 1
.minnctapersm 2
{
  .reg .b64 %x<9>;
  .reg .b32 %r<9>, %single;
  .reg .f32 %f<4>;
  .reg .pred %p<3>;
  .local .align 8 .b8 stack[32];
  .shared .align 8 .b8 tile[256];
  .loc 1 3 0, function_name $info, inlined_at 1 7 3
  ld.param.u64 %x1, [buffer];
  ld.param.v2.u32 {%r1, %r2}, [pair];
  cvta.to.global.u64 %x2, %x1;
  mov.u64 %x3, stack;
  st.local.u32 [%x3+4], %r1;
  mov.u32 %r3, %tid.x;
  mad.wide.u32 %x4, %r3, 4, %x2;
  setp.lt.u32 %p0, %r3, 4096;
  setp.lt.and.u32 %p1|%p2, %r3, 16, !%p0;
 $loop:
  @%p1 bra.uni $done;
  {
    .reg .b64 %x9;
    .param .b32 v, r;
    mov.b64 %x9, {%r1, %r2};
    st.param.b32 [v], %r3;
    call.uni (r), twice, (v);
    ld.param.b32 %r4, [r];
  }
  atom.global.add.u32 %r5, [%x4], %r4;
  shfl.sync.bfly.b32 %r6|%p2, %r5, 1, 0x1f, 0xffffffff;
  bar.sync 0;
  add.u32 %r3, %r3, 32;
  setp.gt.u32 %p1, %r3, 100;
  @!%p1 bra $loop;
 targets: .branchtargets $loop, $done;
  and.b32 %r7, %r3, 1;
  brx.idx %r7, targets;
 $done:
  ret;
}
)";

std::vector<std::string> sources() {
  std::vector<std::string> texts{module};
  for (const auto &file : filesOf(KVCSIM_KERNELS, ".ptx")) {
    texts.emplace_back(file.begin(), file.end());
  }
  return texts;
}

TEST(HostileTest, SoundPtxRuns) {
  for (const std::string &text : sources()) {
    GlobalMemory memory;
    ptx::LoadedModule loaded(memory, "sound", text, ptx::parseTarget("sm_90a"));
    EXPECT_FALSE(loaded.module().functions.empty());
    tryPtx(text);
  }
}

TEST(HostileTest, DamagedPtx) {
  const auto texts = sources();
  const uint64_t seed = setting("KVCSIM_FUZZ_SEED", 1);
  repeat([&](uint64_t number) {
    Damage damage(seed * 1000003 + number);
    // The small text has more of its damage where it matters.
    tryPtx(damage.text(number % 4 ? texts[0] : pick(texts, number / 4)), number % 2 == 0);
  });
}

TEST(HostileTest, PtxThatEndsEarly) {
  const std::string text = module;
  for (size_t end = 0; end < text.size(); ++end) {
    tryPtx(text.substr(0, end), false);
  }
}

} // namespace
