//===- ThreadsTest.cpp - Work-groups on several threads -------------------===//
//
// Kernels whose work-groups meet in global memory, by atomics: for the thread sanitizer, and for equal results.
//
//===----------------------------------------------------------------------===//
#include "PtxRunner.h"
#include "amdgcn/Session.h"

#include <fstream>

using namespace kvc::sim;
using namespace kvc::sim::test;

namespace {

constexpr unsigned groups = 24;

TEST(ThreadsTest, PtxAtomicsOfManyCtas) {
  // Counts of tid & 7 in shared memory, then added to global memory.
  const std::string body = "mov.u32 %w1, tile;\nand.b32 %w2, %tid, 7;\nshl.b32 %w3, %w2, 2;\nadd.u32 %w3, %w3, %w1;\n"
                           "setp.lt.u32 %p, %tid, 8;\nshl.b32 %w4, %tid, 2;\nadd.u32 %w4, %w4, %w1;\n"
                           "@%p st.shared.u32 [%w4], 0;\nbar.sync 0;\natom.shared.add.u32 %w5, [%w3], 1;\nbar.sync 0;\n"
                           "@!%p bra OUT;\nld.shared.u32 %w6, [%w4];\nmul.wide.u32 %at, %tid, 4;\n"
                           "add.u64 %at, %at, %base;\nred.global.add.u32 [%at], %w6;\nOUT:\n";
  for (const unsigned threads : {1u, 4u}) {
    RunOptions options;
    options.grid.x = groups;
    options.block.x = 64;
    options.launch.threads = threads;
    const auto counts = valuesOf<uint32_t>(
        runModule(kernelOf(body, ".shared .align 4 .b8 tile[32];\n"), bytesOf(std::vector<uint32_t>(8)), options));
    EXPECT_EQ(counts, std::vector<uint32_t>(8, groups * 8)) << threads << " threads";
  }
}

TEST(ThreadsTest, PtxFaultOfTheFirstCta) {
  const std::string body =
      "mov.u32 %w1, %ctaid.x;\nsetp.lt.u32 %p, %w1, 3;\n@%p bra OUT;\nst.global.u32 [%x1], 0;\nOUT:\n";
  RunOptions options;
  options.grid.x = groups;
  options.launch.threads = 4;
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(faultOf([&] { runModule(kernelOf("mov.u64 %x1, 0;\n" + body), {0, 0, 0, 0}, options); }),
                testing::HasSubstr("(3, 0, 0)"));
  }
}

class AmdgcnThreadsTest : public testing::TestWithParam<const char *> {};

/// The histogram of kernels.hip: LDS atomics in each work-group, then global ones.
TEST_P(AmdgcnThreadsTest, AtomicsOfManyWorkGroups) {
  std::ifstream file(std::string(KVCSIM_OBJECTS) + "/kernels-" + GetParam() + ".hsaco", std::ios::binary);
  const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  ASSERT_FALSE(bytes.empty());
  std::vector<uint32_t> values(groups * 100), expected(16);
  for (uint32_t i = 0; i < values.size(); ++i) {
    values[i] = i * 2654435761u >> 3;
    ++expected[values[i] & 15];
  }
  for (const unsigned threads : {1u, 4u}) {
    GlobalMemory memory;
    amdgcn::LoadedModule module(memory, "kernels.hsaco", bytes, *amdgcn::findChip(GetParam()));
    auto upload = [&](const std::vector<uint32_t> &from) {
      const uint64_t address = memory.allocate(from.size() * 4, "a buffer");
      std::memcpy(memory.at(address, from.size() * 4, "test"), from.data(), from.size() * 4);
      return address;
    };
    const uint64_t counts = upload(std::vector<uint32_t>(16)), most = upload({0}), input = upload(values);
    LaunchConfig config;
    config.grid.x = 4;
    config.block.x = 256;
    config.parameters.resize(28);
    const uint64_t pointers[] = {input, counts, most};
    const auto count = uint32_t(values.size());
    std::memcpy(config.parameters.data(), pointers, sizeof(pointers));
    std::memcpy(config.parameters.data() + sizeof(pointers), &count, 4);
    LaunchOptions options;
    options.threads = threads;
    amdgcn::runKernel(module.kernel("histogram"), config, memory, options);
    std::vector<uint32_t> got(16);
    std::memcpy(got.data(), memory.at(counts, 64, "test"), 64);
    EXPECT_EQ(got, expected) << threads << " threads";
    uint32_t largest = 0;
    std::memcpy(&largest, memory.at(most, 4, "test"), 4);
    EXPECT_EQ(largest, *std::max_element(values.begin(), values.end()));
  }
}

INSTANTIATE_TEST_SUITE_P(Chips, AmdgcnThreadsTest, testing::Values("gfx942", "gfx1100"));

} // namespace
