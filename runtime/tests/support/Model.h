//===- Model.h - The real model that tests may use --------------*- C++ -*-===//
//
// Where the SmolLM2 GGUF file lies: the environment variable KVC_SMOLLM2_GGUF,
// else the path that the build was configured with, if a file is there.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_TESTS_SUPPORT_MODEL_H
#define KVC_TESTS_SUPPORT_MODEL_H

#include <cstdlib>
#include <filesystem>
#include <string>

namespace kvc::test {

/// The path, or an empty string when there is no model: the test then skips.
inline std::string smollm2Path() {
  if (const char *path = std::getenv("KVC_SMOLLM2_GGUF")) {
    return path;
  }
  return std::filesystem::exists(KVC_SMOLLM2_GGUF) ? KVC_SMOLLM2_GGUF : "";
}

} // namespace kvc::test

#endif // KVC_TESTS_SUPPORT_MODEL_H
