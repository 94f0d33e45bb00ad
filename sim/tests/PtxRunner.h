//===- PtxRunner.h - Runs pieces of PTX in tests ----------------*- C++ -*-===//
#ifndef KVCSIM_TESTS_PTXRUNNER_H
#define KVCSIM_TESTS_PTXRUNNER_H

#include "common/Fault.h"
#include "ptx/Session.h"

#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvc::sim::test {

struct RunOptions {
  std::string target = "sm_90a";
  ptx::Dim3 grid, block{32, 1, 1}, cluster;
  uint32_t shared = 0;
  ptx::LaunchOptions launch;
  /// Changes the buffer before the launch, given its address.
  std::function<void(uint64_t, std::vector<uint8_t> &)> prepare;
};

/// Runs `kernel` of a module on one buffer, whose address is its only parameter, and gives the buffer back.
inline std::vector<uint8_t> runModule(const std::string &text, std::vector<uint8_t> buffer,
                                      const RunOptions &options = {}, ptx::LaunchResult *result = nullptr) {
  GlobalMemory memory;
  ptx::LoadedModule module(memory, "test.ptx", text, ptx::parseTarget(options.target));
  const ptx::Program &program = module.kernel("kernel");
  const uint64_t bytes = std::max<size_t>(buffer.size(), 1);
  const uint64_t address = memory.allocate(bytes, "the buffer");
  if (options.prepare) {
    options.prepare(address, buffer);
  }
  std::copy(buffer.begin(), buffer.end(), memory.at(address, bytes, "test"));
  ptx::LaunchConfig config;
  config.grid = options.grid;
  config.block = options.block;
  config.cluster = options.cluster;
  config.dynamicShared = options.shared;
  config.parameters.resize(8);
  std::memcpy(config.parameters.data(), &address, 8);
  ptx::LaunchResult launched = runKernel(program, config, memory, options.launch);
  if (result) {
    *result = std::move(launched);
  }
  const uint8_t *at = memory.at(address, bytes, "test");
  return {at, at + buffer.size()};
}

/// A kernel with this body; %base is the buffer's address, %tid and %lane the thread's numbers.
inline std::string kernelOf(const std::string &body, const std::string &before = "",
                            const std::string &target = "sm_90a") {
  return ".version 8.7\n.target " + target + "\n.address_size 64\n" + before +
         ".entry kernel(.param .u64 buffer)\n{\n.reg .b64 %base, %at, %x<20>;\n.reg .b32 %tid, %lane, %w<40>;\n"
         ".reg .b16 %h<20>;\n.reg .f32 %f<20>;\n.reg .f64 %g<10>;\n.reg .pred %p, %q, %s<10>;\n"
         "ld.param.u64 %base, [buffer];\nmov.u32 %tid, %tid.x;\nmov.u32 %lane, %laneid;\n" +
         body + "\nret;\n}\n";
}

template <typename T> std::vector<uint8_t> bytesOf(const std::vector<T> &values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
template <typename T> std::vector<T> valuesOf(const std::vector<uint8_t> &bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

/// The text of the fault that `f` ends with; "none" where it does not.
template <typename F> std::string faultOf(F f) {
  try {
    f();
  } catch (const Fault &fault) {
    return fault.what();
  }
  return "none";
}

/// One instruction: `d` stands for its destination, `a`, `b`, `c` for sources. Types are those of the registers:
/// b16, b32, b64 or pred (0 or 1).
struct Vector {
  const char *instruction;
  const char *types;
  std::vector<uint64_t> inputs;
  uint64_t expected;
};

/// The result of a vector's instruction in lane 0 of a warp.
inline uint64_t evaluate(const Vector &vector) {
  std::vector<std::string> types;
  std::string word;
  for (const char *c = vector.types;; ++c) {
    if (*c == ' ' || *c == '\0') {
      types.push_back(word);
      word.clear();
      if (*c == '\0') {
        break;
      }
    } else {
      word += *c;
    }
  }
  std::string body;
  const char *const names[] = {"%d", "%a", "%b", "%c"};
  for (size_t i = 0; i < types.size(); ++i) {
    body += ".reg ." + types[i] + " " + names[i] + ";\n";
    const std::string at = "[%base+" + std::to_string(8 * i) + "]";
    if (types[i] == "pred") {
      body += "ld.global.b32 %w1, " + at + ";\nsetp.ne.b32 " + std::string(names[i]) + ", %w1, 0;\n";
    } else {
      body += "ld.global." + types[i] + " " + names[i] + ", " + at + ";\n";
    }
  }
  body += std::string(vector.instruction) + ";\n";
  if (types[0] == "pred") {
    body += "selp.b32 %w1, 1, 0, %d;\ncvt.u64.u32 %x1, %w1;\n";
  } else if (types[0] == "b64") {
    body += "mov.b64 %x1, %d;\n";
  } else {
    body += "cvt.u64.u" + types[0].substr(1) + " %x1, %d;\n";
  }
  body += "setp.eq.u32 %p, %tid, 0;\n@%p st.global.b64 [%base+32], %x1;";
  std::vector<uint64_t> buffer(5, 0);
  // The destination holds garbage before.
  buffer[0] = 0x5a5a5a5a5a5a5a5a;
  std::copy(vector.inputs.begin(), vector.inputs.end(), buffer.begin() + 1);
  RunOptions options;
  options.target = "sm_100a";
  return valuesOf<uint64_t>(runModule(kernelOf(body, "", "sm_100a"), bytesOf(buffer), options))[4];
}

} // namespace kvc::sim::test

#endif // KVCSIM_TESTS_PTXRUNNER_H
