//===- FileTest.cpp - Tests of the GGUF reader ----------------------------===//
//
// Well-formed files, and damaged and hostile ones: each must give an error that
// names the item, and none may crash or allocate by an unchecked number.
//
//===----------------------------------------------------------------------===//
#include "gguf/Builder.h"
#include "support/Model.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <sys/stat.h>
#include <unistd.h>

namespace kvc::gguf::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t huge = std::numeric_limits<uint64_t>::max();

Builder sample() {
  Builder b;
  b.key("general.architecture", "llama");
  b.key("a.u8", uint8_t(200));
  b.key("a.i8", int8_t(-3));
  b.key("a.u16", uint16_t(65535));
  b.key("a.i16", int16_t(-300));
  b.key("a.u32", uint32_t(4000000000u));
  b.key("a.i32", int32_t(-7));
  b.key("a.u64", uint64_t(1) << 63);
  b.key("a.i64", int64_t(-1));
  b.key("a.f32", 1.5f);
  b.key("a.f64", 2.25);
  b.key("a.yes", true);
  b.keyArray<std::string>("a.words", {"x", "", "yz"});
  b.keyArray<int32_t>("a.numbers", {3, -4});
  b.keyArray<float>("a.floats", {0.5f, 8.0f});
  b.tensor("w", {32, 2}, 2, std::string(36, '\1'));
  b.tensor("n", {3}, 0, std::string(12, '\2'));
  return b;
}

Result<File> parse(const std::string &bytes) { return File::parse(asBytes(bytes), "test.gguf"); }

void expectError(const std::string &bytes, StatusCode code, const std::string &text) {
  Result<File> file = parse(bytes);
  ASSERT_FALSE(file.ok()) << "expected an error with: " << text;
  EXPECT_EQ(file.status().code(), code) << file.message();
  EXPECT_THAT(file.message(), HasSubstr(text));
  EXPECT_THAT(file.message(), HasSubstr("test.gguf"));
}

TEST(GgufFile, ReadsEveryValueType) {
  std::string bytes = sample().finish();
  Result<File> file = parse(bytes);
  ASSERT_TRUE(file.ok()) << file.message();
  EXPECT_EQ(file->keys().size(), 15u);
  EXPECT_EQ(*file->getString("general.architecture"), "llama");
  EXPECT_EQ(*file->getUnsigned("a.u8"), 200u);
  EXPECT_EQ(integerAt(*file->find("a.i8"), 0), -3);
  EXPECT_EQ(*file->getUnsigned("a.u16"), 65535u);
  EXPECT_EQ(integerAt(*file->find("a.i16"), 0), -300);
  EXPECT_EQ(*file->getUnsigned("a.u32"), 4000000000u);
  EXPECT_EQ(integerAt(*file->find("a.i32"), 0), -7);
  EXPECT_EQ(*file->getUnsigned("a.u64"), uint64_t(1) << 63);
  EXPECT_EQ(*file->getFloat("a.f32"), 1.5);
  EXPECT_EQ(*file->getFloat("a.f64"), 2.25);
  EXPECT_TRUE(*file->getBool("a.yes"));
  EXPECT_THAT(*file->getStrings("a.words"), ElementsAre("x", "", "yz"));
  EXPECT_THAT(*file->getIntegers("a.numbers"), ElementsAre(3, -4));
  EXPECT_EQ(floatAt(*file->find("a.floats"), 1), 8.0);
}

TEST(GgufFile, TypedAccessNamesTheProblem) {
  std::string bytes = sample().finish();
  Result<File> file = parse(bytes);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->getUnsigned("none").status().code(), StatusCode::notFound);
  EXPECT_THAT(file->getUnsigned("none").message(), HasSubstr("'none'"));
  EXPECT_THAT(file->getUnsigned("a.i64").message(), HasSubstr("at least 0"));
  EXPECT_THAT(file->getUnsigned("a.f32").message(), HasSubstr("expects an integer for key 'a.f32', but got f32"));
  EXPECT_THAT(file->getString("a.words").message(), HasSubstr("array of 3 string"));
  EXPECT_THAT(file->getStrings("a.numbers").message(), HasSubstr("array of 2 i32"));
  EXPECT_THAT(file->getIntegers("a.floats").message(), HasSubstr("array of 2 f32"));
  EXPECT_THAT(file->getBool("a.u8").message(), HasSubstr("expects a bool"));
  EXPECT_THAT(file->getFloat("a.u8").message(), HasSubstr("floating-point"));
}

TEST(GgufFile, ReadsTensors) {
  std::string bytes = sample().finish();
  Result<File> file = parse(bytes);
  ASSERT_TRUE(file.ok()) << file.message();
  ASSERT_EQ(file->tensors().size(), 2u);
  const Tensor *w = file->findTensor("w"), *n = file->findTensor("n");
  ASSERT_TRUE(w && n);
  EXPECT_EQ(w->format->name, "Q4_0");
  EXPECT_THAT(w->dims, ElementsAre(32, 2));
  EXPECT_EQ(w->rows(), 2u);
  EXPECT_EQ(w->rowSize(), 18u);
  EXPECT_EQ(w->data.size(), 36u);
  EXPECT_EQ(w->data[35], std::byte(1));
  EXPECT_EQ(n->data.size(), 12u);
  EXPECT_EQ(n->data[0], std::byte(2));
  EXPECT_EQ(n->offset % 32, 0u);
  EXPECT_EQ(file->findTensor("v"), nullptr);
}

TEST(GgufFile, VersionTwoAndOwnAlignment) {
  Builder b;
  b.version = 2;
  b.alignment = 64;
  b.key("general.alignment", uint32_t(64));
  b.tensor("a", {1}, 0, std::string(4, '\3'));
  b.tensor("b", {1}, 0, std::string(4, '\4'));
  std::string bytes = b.finish();
  Result<File> file = parse(bytes);
  ASSERT_TRUE(file.ok()) << file.message();
  EXPECT_EQ(file->findTensor("b")->data[0], std::byte(4));
  EXPECT_EQ(file->findTensor("b")->offset - file->dataOffset(), 64u);
}

TEST(GgufFile, EveryTruncationIsAnError) {
  std::string bytes = sample().finish();
  for (size_t n = 0; n < bytes.size(); ++n) {
    // A heap copy of the exact size, so that a sanitizer sees a read past the end.
    std::string cut(bytes, 0, n);
    cut.shrink_to_fit();
    Result<File> file = parse(cut);
    EXPECT_FALSE(file.ok()) << "cut to " << n << " bytes";
  }
}

TEST(GgufFile, EveryBitFlipIsAnErrorOrAFile) {
  std::string bytes = sample().finish();
  size_t accepted = 0;
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = char(flipped[bit / 8] ^ 1 << bit % 8);
    Result<File> file = parse(flipped);
    if (!file.ok()) {
      EXPECT_FALSE(file.message().empty());
      continue;
    }
    ++accepted;
    for (const Tensor &tensor : file->tensors()) {
      EXPECT_LE(tensor.offset + tensor.data.size(), flipped.size());
      EXPECT_EQ(tensor.rows() * tensor.rowSize(), tensor.data.size());
    }
  }
  EXPECT_GT(accepted, 0u); // flips in tensor data and in texts
}

TEST(GgufFile, RandomDamageNeverCrashes) {
  std::string bytes = sample().finish();
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = bytes;
    for (unsigned n = 1 + random() % 8; n > 0; --n) {
      damaged[random() % damaged.size()] = char(random() % 4 ? random() : 0xff);
    }
    Result<File> file = parse(damaged);
    EXPECT_TRUE(file.ok() || !file.message().empty());
  }
}

TEST(GgufFile, HeaderErrors) {
  Builder b;
  b.magic = "GGML";
  expectError(b.finish(), StatusCode::corrupt, "'GGML'");
  b.magic = "GGUF";
  b.version = 1;
  expectError(b.finish(), StatusCode::unsupported, "but got 1");
  b.version = 3u << 24;
  expectError(b.finish(), StatusCode::unsupported, "big-endian");
}

TEST(GgufFile, HugeCountsAreRefusedBeforeAllocation) {
  for (uint64_t count : {huge, huge / 14, uint64_t(1) << 61, uint64_t(1) << 40, uint64_t(1000)}) {
    Builder b;
    b.extraKeys = count;
    expectError(b.finish(), StatusCode::corrupt, "keys");
    Builder t;
    t.extraTensors = count;
    expectError(t.finish(), StatusCode::corrupt, "tensors");
    for (uint32_t type : {0u, 4u, 8u, 10u}) {
      Builder a;
      std::string value;
      Builder::put(value, type);
      Builder::put(value, count);
      a.rawKey("list", uint32_t(ValueType::array), value);
      expectError(a.finish(), StatusCode::corrupt, "'list'");
    }
    Builder s;
    std::string length;
    Builder::put(length, count);
    s.rawKey("text", uint32_t(ValueType::string), length);
    expectError(s.finish(), StatusCode::corrupt, "'text'");
  }
}

TEST(GgufFile, KeyErrors) {
  Builder twice;
  twice.key("k", uint32_t(1));
  twice.key("k", uint32_t(2));
  expectError(twice.finish(), StatusCode::corrupt, "a second key 'k'");
  Builder unnamed;
  unnamed.key("", uint32_t(1));
  expectError(unnamed.finish(), StatusCode::corrupt, "empty");
  Builder type;
  type.rawKey("k", 13, "0000");
  expectError(type.finish(), StatusCode::corrupt, "but got 13");
  Builder boolean;
  boolean.rawKey("k", uint32_t(ValueType::boolean), "\2");
  expectError(boolean.finish(), StatusCode::corrupt, "but got 2");
  Builder nested;
  std::string value;
  Builder::put(value, uint32_t(ValueType::array));
  Builder::put(value, uint64_t(0));
  nested.rawKey("k", uint32_t(ValueType::array), value);
  expectError(nested.finish(), StatusCode::unsupported, "array of arrays");
  Builder escaped;
  escaped.key("k\n\x1b[31m", uint32_t(1));
  escaped.key("k\n\x1b[31m", uint32_t(1));
  expectError(escaped.finish(), StatusCode::corrupt, "'k\\x0a\\x1b[31m'");
}

TEST(GgufFile, AlignmentErrors) {
  for (uint64_t alignment : {uint64_t(0), uint64_t(24), uint64_t(1) << 31, huge}) {
    Builder b;
    b.key("general.alignment", alignment);
    expectError(b.finish(), StatusCode::corrupt, "power of two");
  }
  Builder text;
  text.key("general.alignment", "32");
  expectError(text.finish(), StatusCode::invalidArgument, "an integer");
}

TEST(GgufFile, TensorErrors) {
  auto with = [](const std::vector<uint64_t> &dims, uint32_t type, uint64_t offset) {
    Builder b;
    b.tensor("first", {32}, 0, std::string(128, '\0'));
    b.rawTensor("t", dims, type, offset);
    return b.finish();
  };
  ASSERT_FALSE(with({1}, 0, 0).empty());
  expectError(with({}, 0, 0), StatusCode::corrupt, "dimensions for tensor 't', but got 0");
  expectError(with({1, 1, 1, 1, 1}, 0, 0), StatusCode::corrupt, "but got 5");
  expectError(with({0}, 0, 0), StatusCode::corrupt, "at least 1");
  expectError(with({32, 0}, 0, 0), StatusCode::corrupt, "at least 1");
  expectError(with({31}, 2, 0), StatusCode::corrupt, "multiple of 32 values for type Q4_0, but got 31");
  expectError(with({32}, 4, 0), StatusCode::unsupported, "has type 4");
  expectError(with({32}, 77, 0), StatusCode::unsupported, "tensor 't' has type 77");
  expectError(with({1}, 0, 4), StatusCode::corrupt, "multiple of the alignment");
  expectError(with({1}, 0, 128), StatusCode::corrupt, "within the 128 bytes");
  expectError(with({33}, 0, 0), StatusCode::corrupt, "within the 128 bytes");
  expectError(with({1}, 0, huge - 31), StatusCode::corrupt, "within");
  expectError(with({1}, 0, 64), StatusCode::corrupt, "overlap");
  expectError(with({huge}, 0, 0), StatusCode::corrupt, "64 bits");
  expectError(with({uint64_t(1) << 32, uint64_t(1) << 32}, 0, 0), StatusCode::corrupt, "63 bits");
  expectError(with({uint64_t(1) << 16, uint64_t(1) << 16, uint64_t(1) << 16, uint64_t(1) << 16}, 0, 0),
              StatusCode::corrupt, "63 bits");
  Builder twice;
  twice.tensor("t", {1}, 0, "0000");
  twice.tensor("t", {1}, 0, "0000");
  expectError(twice.finish(), StatusCode::corrupt, "a second tensor 't'");
}

TEST(GgufFile, NamesTypesWithoutADecoder) {
  Builder b;
  b.tensor("t", {256}, 23, std::string(136, '\0'));
  std::string bytes = b.finish();
  Result<File> file = parse(bytes);
  ASSERT_TRUE(file.ok()) << file.message();
  std::vector<float> values(256);
  const Tensor *tensor = file->findTensor("t");
  Status status = dequantizeRow(*tensor->format, tensor->data, values);
  EXPECT_EQ(status.code(), StatusCode::unsupported);
  EXPECT_THAT(status.message(), HasSubstr("IQ4_XS"));
}

TEST(GgufFile, OpensFromDisk) {
  std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / ("gguf" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::string path = (folder / "sample.gguf").string();
  std::ofstream(path, std::ios::binary) << sample().finish();
  Result<File> opened = File::open(path);
  ASSERT_TRUE(opened.ok()) << opened.message();
  File moved = *std::move(opened);
  EXPECT_EQ(moved.findTensor("w")->data[0], std::byte(1));
  EXPECT_EQ(*moved.getString("general.architecture"), "llama");

  EXPECT_EQ(File::open((folder / "none").string()).status().code(), StatusCode::notFound);
  EXPECT_THAT(File::open(folder.string()).message(), HasSubstr("no regular file"));
  std::ofstream(folder / "empty").flush();
  EXPECT_THAT(File::open((folder / "empty").string()).message(), HasSubstr("an empty file"));
  std::string fifo = (folder / "fifo").string();
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(File::open(fifo).message(), HasSubstr("no regular file"));
  std::filesystem::remove_all(folder);
}

TEST(GgufFile, ReadsTheModel) {
  std::string path = kvc::test::smollm2Path();
  if (path.empty()) {
    GTEST_SKIP() << "no model: run utils/setup or set KVC_SMOLLM2_GGUF";
  }
  Result<File> file = File::open(path);
  ASSERT_TRUE(file.ok()) << file.message();
  EXPECT_EQ(file->version(), 3u);
  EXPECT_EQ(file->keys().size(), 33u);
  EXPECT_EQ(file->tensors().size(), 272u);
  EXPECT_EQ(file->dataOffset(), 1785664u);
  EXPECT_EQ(*file->getUnsigned("llama.block_count"), 30u);
  const Tensor *k = file->findTensor("blk.0.attn_k.weight");
  ASSERT_TRUE(k);
  EXPECT_THAT(k->dims, ElementsAre(576, 192));
  EXPECT_EQ(k->format->name, "Q4_1");
  EXPECT_EQ(file->findTensor("token_embd.weight")->format->name, "Q8_0");
}

} // namespace
} // namespace kvc::gguf::test
