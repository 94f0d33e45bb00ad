//===- Conformance.h - What the conformance tests share ---------*- C++ -*-===//
//
// A fixture that runs once per device, with the test module loaded on it.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_CTS_CONFORMANCE_H
#define KVC_CTS_CONFORMANCE_H

#include "kvc_runtime.hpp"
#include "support/TestModule.h"

#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>
#include <optional>

namespace kvc::cts {

using namespace kvc::runtime;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

inline std::vector<std::string> devices() {
  const char *variable = std::getenv("KVC_CTS_DEVICES");
  std::string list = variable && *variable ? variable : KVC_CTS_DEFAULT_DEVICES;
  std::vector<std::string> names;
  for (size_t begin = 0; begin <= list.size();) {
    size_t end = std::min(list.find(',', begin), list.size());
    names.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

/// Whether a device takes the text that its code was made from.
inline bool takesPtx(const std::string &device) { return device.starts_with("cuda:") || device.starts_with("sim:sm_"); }

/// Expects that the body throws with this code and text.
template <typename Body> void expectError(kvc_status_t status, const std::string &text, Body body) {
  try {
    body();
    FAIL() << "expects an error with '" << text << "', but got none";
  } catch (const Error &error) {
    EXPECT_EQ(error.status(), status) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(text));
  }
}

class Conformance : public ::testing::TestWithParam<std::string> {
protected:
  void SetUp() override {
    device.emplace(GetParam().c_str(), threads());
    std::vector<uint8_t> bytes = test::sealed(test::testModule());
    module.emplace(Module::load(*device, bytes.data(), bytes.size()));
  }
  virtual int threads() const { return 2; }

  Cache cache(size_t spec, int32_t sequences, int64_t maxLength, int64_t pages = 0, int64_t tails = 0) {
    return module->cache(spec, {0, sequences, maxLength, pages, tails});
  }

  /// Appends rows whose four channels are all `first`, `first + 1`, ... to each sequence of the batch.
  void append(const char *function, const Cache &cache, const std::vector<int32_t> &sequences,
              const std::vector<int32_t> &counts, float first = 1) {
    BatchHandle batch = cache.next(sequences, counts);
    int64_t rows = std::accumulate(counts.begin(), counts.end(), int64_t(0));
    std::vector<float> data;
    for (int64_t row = 0; row < rows; ++row) {
      data.insert(data.end(), 4, first + float(row));
    }
    std::vector<int64_t> dims{rows, 4};
    module->call(function,
                 {Argument::cache(cache.get()), Argument::batch(batch.get()), Argument::tensor(data.data(), dims)});
  }
  float sum(const char *function, const Cache &cache, int32_t sequence) {
    BatchHandle batch = cache.next({sequence}, {0});
    return module->call(function, {Argument::cache(cache.get()), Argument::batch(batch.get())})[0].copy<float>()[0];
  }

  std::optional<Device> device;
  std::optional<Module> module;
};

#define KVC_INSTANTIATE_FOR_DEVICES(suite)                                                                             \
  INSTANTIATE_TEST_SUITE_P(Devices, suite, ::testing::ValuesIn(devices()), [](const auto &info) {                      \
    std::string name = info.param;                                                                                     \
    for (char &letter : name) {                                                                                        \
      letter = std::isalnum(static_cast<unsigned char>(letter)) ? letter : '_';                                        \
    }                                                                                                                  \
    return name;                                                                                                       \
  })

} // namespace kvc::cts

#endif // KVC_CTS_CONFORMANCE_H
