//===- ContainerTest.cpp - Tests of the .kvca container -------------------===//
//
// Round trip, files, and damaged bytes: truncation everywhere, flipped bits,
// random bytes behind a valid header.
//
//===----------------------------------------------------------------------===//
#include "support/TestModule.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

namespace kvc::artifact {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

/// A few functions of the test module and little code, so that every byte can be tried.
const fb::ModuleT &smallModule() {
  static const fb::ModuleT small = [] {
    fb::ModuleT module = test::testModule();
    module.targets.resize(1);
    module.targets[0]->code.assign(16, 0xcc);
    for (auto &cache : module.caches) {
      cache->truncate_function.clear();
    }
    std::erase_if(module.plans[0]->functions, [](const auto &function) {
      return function->name != "chain" && function->name != "add_weight" && function->name != "keep_old";
    });
    return module;
  }();
  return small;
}

const std::vector<uint8_t> &smallFile() {
  static const std::vector<uint8_t> file = test::sealed(smallModule());
  return file;
}

/// A header of right size and checksum before any payload.
std::vector<uint8_t> withHeader(const std::vector<uint8_t> &payload) {
  std::vector<uint8_t> file(smallFile().begin(), smallFile().begin() + headerBytes);
  uint64_t size = payload.size();
  uint32_t sum = uint32_t(crc32(crc32(0, nullptr, 0), payload.data(), uInt(payload.size())));
  for (int i = 0; i < 8; ++i) {
    file[size_t(16 + i)] = uint8_t(size >> (8 * i));
  }
  for (int i = 0; i < 4; ++i) {
    file[size_t(24 + i)] = uint8_t(sum >> (8 * i));
  }
  file.insert(file.end(), payload.begin(), payload.end());
  return file;
}

uint64_t rounds(uint64_t usual) { return std::getenv("KVC_LONG_TESTS") ? usual * 50 : usual; }

TEST(Container, RoundTrip) {
  Result<Artifact> artifact = Artifact::fromBytes(smallFile());
  ASSERT_TRUE(artifact.ok()) << artifact.message();
  EXPECT_EQ(artifact->module().provenance()->str(), "tests of the runtime");
  EXPECT_EQ(artifact->module().targets()->size(), 1u);
  EXPECT_TRUE(Artifact::fromBytes(withHeader(test::pack(smallModule()))).ok());
}

TEST(Container, TruncatedAtEveryByte) {
  const std::vector<uint8_t> &file = smallFile();
  for (size_t size = 0; size < file.size(); ++size) {
    Result<Artifact> artifact = Artifact::fromBytes({file.begin(), file.begin() + ptrdiff_t(size)});
    ASSERT_FALSE(artifact.ok()) << size;
    ASSERT_EQ(artifact.status().code(), StatusCode::corrupt);
  }
  std::vector<uint8_t> longer = file;
  longer.push_back(0);
  EXPECT_FALSE(Artifact::fromBytes(longer).ok());
}

TEST(Container, EveryFlippedBitOfTheFileIsFound) {
  std::vector<uint8_t> file = smallFile();
  for (size_t bit = 0; bit < file.size() * 8; bit += bit < headerBytes * 8 ? 1 : 5) {
    file[bit / 8] ^= uint8_t(1 << bit % 8);
    ASSERT_FALSE(Artifact::fromBytes(file).ok()) << bit;
    file[bit / 8] ^= uint8_t(1 << bit % 8);
  }
}

// What a hostile writer would do: the checksum is right, so the verifiers stand alone. The outcome may be success;
// the sanitizers see whether walking the module leaves the buffer.
TEST(Container, DamagedPayloadsWithARightChecksum) {
  std::vector<uint8_t> payload = test::pack(smallModule());
  std::mt19937_64 random(1);
  size_t refused = 0;
  auto try_ = [&](const std::vector<uint8_t> &bytes) {
    Result<Artifact> artifact = Artifact::fromBytes(withHeader(bytes));
    if (artifact.ok()) {
      std::unique_ptr<fb::ModuleT> walked(artifact->module().UnPack());
      ASSERT_NE(walked, nullptr);
    } else {
      ++refused;
      ASSERT_FALSE(artifact.message().empty());
    }
  };
  for (size_t byte = 0; byte < payload.size(); ++byte) {
    std::vector<uint8_t> damaged = payload;
    damaged[byte] ^= uint8_t(1 << random() % 8);
    try_(damaged);
  }
  for (uint64_t round = 0; round < rounds(3000); ++round) {
    std::vector<uint8_t> damaged = payload;
    for (uint64_t change = 0, changes = 1 + random() % 8; change < changes; ++change) {
      size_t at = random() % damaged.size();
      switch (random() % 3) {
      case 0:
        damaged[at] = uint8_t(random());
        break;
      case 1:
        std::fill_n(damaged.begin() + ptrdiff_t(at), std::min<size_t>(4, damaged.size() - at), 0xff);
        break;
      default:
        damaged.resize(std::max<size_t>(at, 1));
        break;
      }
    }
    try_(damaged);
  }
  EXPECT_GT(refused, payload.size() / 10);
}

TEST(Container, RandomBytes) {
  std::mt19937_64 random(2);
  for (uint64_t round = 0; round < rounds(2000); ++round) {
    std::vector<uint8_t> bytes(random() % 300);
    for (uint8_t &byte : bytes) {
      byte = uint8_t(random());
    }
    ASSERT_FALSE(Artifact::fromBytes(bytes).ok());
    ASSERT_FALSE(Artifact::fromBytes(withHeader(bytes)).ok());
    ASSERT_FALSE(seal(bytes).ok());
  }
}

TEST(Container, SaysWhatIsWrong) {
  auto message = [](size_t byte, uint8_t value) {
    std::vector<uint8_t> file = smallFile();
    file[byte] = value;
    return Artifact::fromBytes(file).message();
  };
  EXPECT_THAT(message(0, 'x'), HasSubstr("magic"));
  EXPECT_THAT(message(8, 77), HasSubstr("expects artifact format version 1, but got 77"));
  EXPECT_THAT(message(12, 0), HasSubstr("header of 64 bytes"));
  EXPECT_THAT(message(16, 1), HasSubstr("truncated"));
  EXPECT_THAT(message(24, 0), HasSubstr("checksum"));
  EXPECT_THAT(message(60, 1), HasSubstr("reserved"));
}

class Folder {
public:
  Folder() : path(fs::path(::testing::TempDir()) / ("kvca" + std::to_string(::getpid()))) {
    fs::create_directory(path);
  }
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

TEST(Container, WritesThroughATemporaryFile) {
  Folder folder;
  std::string path = folder.path / "m.kvca";
  std::vector<uint8_t> file = smallFile();
  ASSERT_TRUE(writeFile(path, file).ok());
  ASSERT_TRUE(writeFile(path, file).ok());
  EXPECT_TRUE(Artifact::open(path).ok());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path), fs::directory_iterator()), 1);
  struct stat info;
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  mode_t mask = ::umask(0);
  ::umask(mask);
  EXPECT_EQ(info.st_mode & 0777, 0666 & ~mask);
}

TEST(Container, UnwritablePlaces) {
  Folder folder;
  std::vector<uint8_t> file = smallFile();
  Status status = writeFile(folder.path / "none" / "m.kvca", file);
  EXPECT_EQ(status.code(), StatusCode::notFound);
  EXPECT_THAT(status.message(), HasSubstr("none/m.kvca"));
  fs::create_directory(folder.path / "m.kvca");
  EXPECT_EQ(writeFile(folder.path / "m.kvca", file).code(), StatusCode::io);
  EXPECT_EQ(writeFile("/dev/full/m.kvca", file).code(), StatusCode::io);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path), fs::directory_iterator()), 1);
}

TEST(Container, OpensOnlyFiles) {
  EXPECT_EQ(Artifact::open("no-such-file").status().code(), StatusCode::notFound);
  EXPECT_EQ(Artifact::open("/").status().code(), StatusCode::invalidArgument);
  Folder folder;
  std::string path = folder.path / "bad.kvca";
  std::ofstream(path) << "not an artifact";
  Result<Artifact> artifact = Artifact::open(path);
  EXPECT_EQ(artifact.status().code(), StatusCode::corrupt);
  EXPECT_THAT(artifact.message(), HasSubstr("bad.kvca"));
}

} // namespace
} // namespace kvc::artifact
