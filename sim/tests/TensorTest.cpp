//===- TensorTest.cpp - Tensor copies and operands of warpgroup products --===//
#include "PtxRunner.h"
#include "common/Floats.h"
#include "ptx/TensorMap.h"

#include <random>

using namespace kvc::sim;
using namespace kvc::sim::test;
using testing::ElementsAreArray;
using testing::HasSubstr;

namespace {

// Tensor copies -------------------------------------------------------------------------------------------------------

constexpr uint32_t height = 8, quietNan = 0x7fffffff;

/// A tensor of u32, height x `width`, whose element (y, x) is 100 y + x, behind the map and a box of results.
struct Tensor {
  uint32_t width = 8;
  unsigned box[2] = {8, 2};
  uint8_t steps[2] = {1, 1};
  /// 1: 32 bytes, 2: 64, 3: 128.
  uint8_t swizzle = 0;
  bool fillNan = false;

  static constexpr uint32_t tensorAt = 4096, results = 1024;

  RunOptions options() const {
    RunOptions options;
    options.prepare = [*this](uint64_t address, std::vector<uint8_t> &buffer) {
      ptx::TensorMap map{};
      map.magic = ptx::TensorMap::mark;
      map.rank = 2;
      map.elementBytes = 4;
      map.swizzle = swizzle;
      map.fillNan = fillNan;
      map.last[0] = width - 1;
      map.last[1] = height - 1;
      map.stride[0] = 4 * width;
      map.address = address + tensorAt;
      for (unsigned i = 0; i < 2; ++i) {
        map.boxLast[i] = uint8_t(box[i] - 1);
        map.elementStride[i] = steps[i];
      }
      std::memcpy(buffer.data(), &map, sizeof map);
      for (uint32_t i = 0; i < height * width; ++i) {
        const uint32_t value = i / width * 100 + i % width;
        std::memcpy(buffer.data() + tensorAt + 4 * i, &value, 4);
      }
    };
    return options;
  }
  uint32_t elements() const { return box[0] * box[1]; }

  /// The words of shared memory after a load of the box at (x, y).
  std::vector<uint32_t> load(int x, int y) const {
    const std::string body =
        ".shared .align 1024 .b8 s[2048];\n.shared .align 8 .b64 bar;\nmov.u32 %w1, s;\nmov.u32 %w10, bar;\n"
        "setp.eq.u32 %p, %tid, 0;\n@!%p bra READY;\nmbarrier.init.shared.b64 [%w10], 1;\n"
        "fence.mbarrier_init.release.cluster;\nmbarrier.arrive.expect_tx.shared.b64 %x2, [%w10], " +
        std::to_string(4 * elements()) + ";\nmov.u32 %w4, " + std::to_string(x) + ";\nmov.u32 %w5, " +
        std::to_string(y) +
        ";\ncp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%w1], [%base, {%w4, %w5}], "
        "[%w10];\nREADY:\nbar.sync 0;\nWAIT: mbarrier.try_wait.parity.shared.b64 %q, [%w10], 0;\n@!%q bra WAIT;\n"
        "mov.u32 %w6, %tid;\nCOPY: setp.ge.u32 %p, %w6, " +
        std::to_string(elements()) +
        ";\n@%p bra END;\nshl.b32 %w7, %w6, 2;\nadd.u32 %w8, %w1, %w7;\nld.shared.b32 %w0, [%w8];\n"
        "cvt.u64.u32 %x3, %w7;\nadd.u64 %x3, %x3, %base;\nst.global.b32 [%x3+" +
        std::to_string(results) + "], %w0;\nadd.u32 %w6, %w6, 32;\nbra COPY;\nEND:\n";
    const auto words =
        valuesOf<uint32_t>(runModule(kernelOf(body), std::vector<uint8_t>(tensorAt + 4 * height * width), options()));
    return {words.begin() + results / 4, words.begin() + results / 4 + elements()};
  }

  /// The tensor after a store of the numbers 1000, 1001, ... of shared memory into the box at (x, y).
  std::vector<uint32_t> store(int x, int y) const {
    const std::string body =
        ".shared .align 1024 .b8 s[2048];\nmov.u32 %w1, s;\nmov.u32 %w6, %tid;\nFILL: setp.ge.u32 %p, %w6, " +
        std::to_string(elements()) +
        ";\n@%p bra READY;\nshl.b32 %w7, %w6, 2;\nadd.u32 %w8, %w1, %w7;\nadd.u32 %w9, %w6, 1000;\n"
        "st.shared.b32 [%w8], %w9;\nadd.u32 %w6, %w6, 32;\nbra FILL;\nREADY:\nfence.proxy.async;\nbar.sync 0;\n"
        "setp.eq.u32 %p, %tid, 0;\n@!%p bra END;\nmov.u32 %w4, " +
        std::to_string(x) + ";\nmov.u32 %w5, " + std::to_string(y) +
        ";\ncp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%base, {%w4, %w5}], [%w1];\n"
        "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nEND:\n";
    const auto words =
        valuesOf<uint32_t>(runModule(kernelOf(body), std::vector<uint8_t>(tensorAt + 4 * height * width), options()));
    return {words.begin() + tensorAt / 4, words.end()};
  }
};

TEST(TensorTest, LoadsABox) {
  const uint32_t expected[] = {302, 303, 304, 305, 402, 403, 404, 405};
  EXPECT_THAT((Tensor{.box = {4, 2}}.load(2, 3)), ElementsAreArray(expected));
}

TEST(TensorTest, FillsWhatIsOutside) {
  const uint32_t left[] = {0, 0, 0, 1, 0, 0, 100, 101}, right[] = {706, 707, 0, 0, 0, 0, 0, 0};
  EXPECT_THAT((Tensor{.box = {4, 2}}.load(-2, 0)), ElementsAreArray(left));
  EXPECT_THAT((Tensor{.box = {4, 2}}.load(6, 7)), ElementsAreArray(right));
  const uint32_t above[] = {quietNan, quietNan, quietNan, quietNan, quietNan, 0, 1, 2};
  EXPECT_THAT((Tensor{.box = {4, 2}, .fillNan = true}.load(-1, -1)), ElementsAreArray(above));
}

TEST(TensorTest, TakesEverySecondElement) {
  const uint32_t expected[] = {101, 103, 105, 107, 301, 303, 305, 307};
  EXPECT_THAT((Tensor{.box = {4, 2}, .steps = {2, 2}}.load(1, 1)), ElementsAreArray(expected));
}

/// Where the swizzle puts the 16-byte piece of an offset: bits 4 .. of it by exclusive or with bits 7 .. of it.
uint32_t swizzledWord(uint32_t word, unsigned bits) {
  const uint32_t byte = 4 * word;
  return (byte ^ ((byte >> 7 & ((1u << bits) - 1)) << 4)) / 4;
}

TEST(TensorTest, SwizzlesWhatItLoadsAndStores) {
  for (unsigned bits = 1; bits <= 3; ++bits) {
    const uint32_t width = 4u << bits;
    Tensor tensor{.width = width, .box = {width, height}, .swizzle = uint8_t(bits)};
    const auto loaded = tensor.load(0, 0);
    const auto stored = tensor.store(0, 0);
    for (uint32_t i = 0; i < width * height; ++i) {
      EXPECT_EQ(loaded[swizzledWord(i, bits)], i / width * 100 + i % width) << bits;
      EXPECT_EQ(stored[i], 1000 + swizzledWord(i, bits)) << bits;
    }
  }
}

TEST(TensorTest, StoresOnlyWhatIsInside) {
  const auto stored = Tensor{.box = {4, 2}}.store(-1, 7);
  EXPECT_EQ(stored[7 * 8], 1001u);
  EXPECT_EQ(stored[7 * 8 + 2], 1003u);
  EXPECT_EQ(stored[7 * 8 + 3], 703u);
  EXPECT_EQ(stored[6 * 8 + 7], 607u);
}

TEST(TensorTest, WantsAMap) {
  RunOptions options;
  EXPECT_THAT(faultOf([&] {
                runModule(kernelOf(".shared .align 128 .b8 s[128];\nmov.u32 %w1, s;\nmov.u32 %w4, 0;\n"
                                   "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%base, {%w4, %w4}], [%w1];"),
                          std::vector<uint8_t>(256), options);
              }),
              HasSubstr("expects a tensor map"));
}

// Operands of warpgroup products --------------------------------------------------------------------------------------

/// An operand of `rows` x `k` elements of 2 bytes (16 channels of k a step) in shared memory at `base`.
struct Operand {
  /// Its fastest dimension is k, or the rows.
  bool transposed;
  /// Of the descriptor: 0 none, 1: 128 bytes, 2: 64, 3: 32.
  unsigned mode;
  uint32_t rows;

  uint32_t chunks() const { return (const uint32_t[]){1, 8, 4, 2}[mode]; }
  /// Bytes between groups of pieces along one direction and the other.
  uint32_t leading() const { return chunks() == 1 ? 128 : 2048; }
  uint32_t stride() const { return chunks() == 1 ? 256 : 128 * chunks(); }

  /// Byte of an element, from the beginning of the operand, as the matrix descriptor of PTX defines it.
  uint32_t at(uint32_t row, uint32_t k) const {
    const uint32_t w = chunks();
    uint32_t byte;
    if (!transposed) {
      byte = row % 8 * 16 * w + row / 8 * stride() + k / 8 * (w == 1 ? leading() : 16) + k % 8 * 2;
    } else if (w == 1) {
      byte = row / 8 * stride() + k % 8 * 16 + k / 8 * leading() + row % 8 * 2;
    } else {
      byte = row / 8 % w * 16 + row / 8 / w * leading() + k % 8 * 16 * w + k / 8 * stride() + row % 8 * 2;
    }
    const unsigned bits = (const unsigned[]){0, 3, 2, 1}[mode];
    return byte ^ ((byte >> 7 & ((1u << bits) - 1)) << 4);
  }
  uint64_t descriptor() const {
    return uint64_t(leading() >> 4) << 16 | uint64_t(stride() >> 4) << 32 | uint64_t(mode) << 62;
  }
};

constexpr uint32_t columns = 16, depth = 16, rowCount = 64;

/// D (64 x 16) of a product of f16 numbers, A from shared memory or from registers.
std::vector<float> product(const Operand &a, const Operand &b, bool registersA, const std::vector<_Float16> &valuesA,
                           const std::vector<_Float16> &valuesB) {
  // Shared memory: A at 0, B at 16384. The buffer: A's bytes, B's bytes, A for registers, the results.
  constexpr uint32_t bAt = 16384, bytes = 32768, registersAt = bytes, resultsAt = registersAt + rowCount * depth * 2;
  std::vector<uint8_t> buffer(resultsAt + rowCount * columns * 4);
  for (uint32_t k = 0; k < depth; ++k) {
    for (uint32_t row = 0; row < rowCount; ++row) {
      std::memcpy(buffer.data() + a.at(row, k), &valuesA[row * depth + k], 2);
      std::memcpy(buffer.data() + registersAt + 2 * (row * depth + k), &valuesA[row * depth + k], 2);
    }
    for (uint32_t column = 0; column < columns; ++column) {
      std::memcpy(buffer.data() + bAt + b.at(column, k), &valuesB[column * depth + k], 2);
    }
  }
  std::string body =
      ".shared .align 1024 .b8 s[32768];\nmov.u32 %w1, s;\nshl.b32 %w2, %tid, 4;\nmov.u32 %w3, 0;\n"
      "FILL: add.u32 %w4, %w2, %w3;\ncvt.u64.u32 %x1, %w4;\nadd.u64 %x1, %x1, %base;\n"
      "ld.global.v4.b32 {%w5, %w6, %w7, %w8}, [%x1];\nadd.u32 %w4, %w4, %w1;\n"
      "st.shared.v4.b32 [%w4], {%w5, %w6, %w7, %w8};\nadd.u32 %w3, %w3, 2048;\nsetp.lt.u32 %p, %w3, 32768;\n"
      "@%p bra FILL;\nfence.proxy.async;\nbar.sync 0;\n"
      // Row and column pair of a lane: rows 16 (warp) + lane / 4 and 8 more, k = 2 (lane % 4) and 8 more.
      "shr.u32 %w4, %tid, 5;\nshl.b32 %w4, %w4, 4;\nshr.u32 %w5, %lane, 2;\nadd.u32 %w4, %w4, %w5;\n"
      "and.b32 %w5, %lane, 3;\nshl.b32 %w6, %w4, 5;\nshl.b32 %w7, %w5, 2;\nadd.u32 %w6, %w6, %w7;\n"
      "cvt.u64.u32 %x1, %w6;\nadd.u64 %x1, %x1, %base;\n"
      "ld.global.b32 %w20, [%x1+32768];\nld.global.b32 %w21, [%x1+33024];\n"
      "ld.global.b32 %w22, [%x1+32784];\nld.global.b32 %w23, [%x1+33040];\n"
      "shr.u32 %w8, %w1, 4;\nand.b32 %w8, %w8, 0x3fff;\ncvt.u64.u32 %x2, %w8;\n";
  body += "or.b64 %x3, %x2, " + std::to_string(a.descriptor()) + ";\nadd.u64 %x4, %x2, " + std::to_string(bAt >> 4) +
          ";\nor.b64 %x4, %x4, " + std::to_string(b.descriptor()) + ";\n";
  std::string d;
  for (unsigned i = 0; i < 8; ++i) {
    d += (i ? ", %f" : "%f") + std::to_string(i);
    body += "mov.f32 %f" + std::to_string(i) + ", 0f00000000;\n";
  }
  body += "wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {" + d + "}, ";
  body += registersA ? "{%w20, %w21, %w22, %w23}, %x4, 1, 1, 1, "
                     : "%x3, %x4, 1, 1, 1, " + std::to_string(a.transposed) + ", ";
  body += std::to_string(b.transposed) + ";\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n";
  // Results: rows as above, columns 8 (i / 4) + 2 (lane % 4) + i % 2.
  body += "shl.b32 %w6, %w4, 6;\nshl.b32 %w7, %w5, 3;\nadd.u32 %w6, %w6, %w7;\ncvt.u64.u32 %x1, %w6;\n"
          "add.u64 %x1, %x1, %base;\nadd.u64 %x1, %x1, " +
          std::to_string(resultsAt) + ";\n";
  for (unsigned i = 0; i < 8; ++i) {
    body += "st.global.f32 [%x1+" + std::to_string((i >> 1 & 1) * 8 * 64 + (i >> 2) * 32 + (i & 1) * 4) + "], %f" +
            std::to_string(i) + ";\n";
  }
  RunOptions group;
  group.block = {128, 1, 1};
  const auto result = runModule(kernelOf(body), buffer, group);
  return valuesOf<float>({result.begin() + resultsAt, result.end()});
}

TEST(WarpgroupOperandTest, LieAsTheirDescriptorsSay) {
  std::mt19937 random(7);
  std::uniform_int_distribution<int> small(-8, 8);
  std::vector<_Float16> a(rowCount * depth), b(columns * depth);
  for (_Float16 &v : a) {
    v = _Float16(small(random));
  }
  for (_Float16 &v : b) {
    v = _Float16(small(random));
  }
  std::vector<float> expected(rowCount * columns);
  for (uint32_t i = 0; i < rowCount * columns; ++i) {
    for (uint32_t k = 0; k < depth; ++k) {
      expected[i] += float(a[i / columns * depth + k]) * float(b[i % columns * depth + k]);
    }
  }
  for (bool transposed : {false, true}) {
    for (unsigned mode = 0; mode < 4; ++mode) {
      const Operand left{transposed, mode, rowCount}, right{transposed, mode, columns};
      EXPECT_EQ(product(left, right, false, a, b), expected) << transposed << ", mode " << mode;
      EXPECT_EQ(product(left, right, true, a, b), expected) << "A in registers, " << transposed << ", mode " << mode;
    }
  }
}

} // namespace
