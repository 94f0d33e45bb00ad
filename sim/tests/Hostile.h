//===- Hostile.h - Files that are damaged on purpose ------------*- C++ -*-===//
//
// What comes from outside must end in a fault or in a kernel that runs: never in a crash, a hang or an access out of
// bounds (which the sanitizers see).
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_TESTS_HOSTILE_H
#define KVCSIM_TESTS_HOSTILE_H

#include "amdgcn/Session.h"
#include "common/Fault.h"
#include "ptx/Session.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace kvc::sim::test {

/// Instructions of a wave that a damaged kernel may run.
inline constexpr uint64_t hostileInstructions = 4000;

inline LaunchOptions hostileOptions() {
  LaunchOptions options;
  options.threads = 1;
  options.slice = 64;
  options.instructionLimit = hostileInstructions;
  return options;
}

/// Calls `f`; a fault is an answer.
template <typename F> void tolerate(F f) {
  try {
    f();
  } catch (const Fault &) {
  }
}

/// Reads a code object, decodes all of its kernels and runs each with arguments that are zero.
inline void tryCodeObject(const std::vector<uint8_t> &bytes, bool run = true) {
  tolerate([&] {
    const amdgcn::Chip *chip = amdgcn::findChip(amdgcn::targetOf("hostile.hsaco", bytes));
    if (!chip) {
      return;
    }
    GlobalMemory memory;
    amdgcn::LoadedModule module(memory, "hostile.hsaco", bytes, *chip);
    for (const auto &[name, info] : module.object().kernels) {
      tolerate([&, &name = name, &info = info] {
        const amdgcn::Program &program = module.kernel(name);
        if (!run) {
          return;
        }
        LaunchConfig config;
        config.block.x = info.requiredBlock[0] != 0 ? info.requiredBlock[0] : 64;
        config.parameters.resize(std::min<uint32_t>(info.kernargBytes, 4096));
        amdgcn::runKernel(program, config, memory, hostileOptions());
      });
    }
  });
}

/// Parses PTX, decodes all kernels and runs each with parameters that are zero.
inline void tryPtx(std::string text, bool run = true) {
  tolerate([&] {
    GlobalMemory memory;
    ptx::LoadedModule module(memory, "hostile.ptx", std::move(text), ptx::parseTarget("sm_90a"));
    for (const auto &function : module.module().functions) {
      if (!function->isEntry) {
        continue;
      }
      tolerate([&] {
        const ptx::Program &program = module.kernel(function->name);
        if (!run) {
          return;
        }
        LaunchConfig config;
        config.block.x = function->requiredThreads[0] != 0 ? function->requiredThreads[0] : 32;
        config.parameters.resize(program.parameterBytes);
        ptx::runKernel(program, config, memory, hostileOptions());
      });
    }
  });
}

/// Damages files, always in the same order for a seed.
class Damage {
public:
  explicit Damage(uint64_t seed) : random(seed) {}

  uint64_t below(uint64_t n) { return n == 0 ? 0 : random() % n; }

  /// Bits, bytes, words, ranges, or the end. Half of the places are where headers are: in the first and last parts.
  std::vector<uint8_t> bytes(std::vector<uint8_t> file) {
    if (file.empty()) {
      return file;
    }
    for (uint64_t n = 1 + below(4); n != 0; --n) {
      const uint64_t part = std::min<uint64_t>(file.size(), 1024);
      const uint64_t at = below(2) ? below(file.size()) : below(2) ? below(part) : file.size() - 1 - below(part);
      switch (below(6)) {
      case 0:
        file[at] ^= uint8_t(1u << below(8));
        break;
      case 1:
        file[at] = uint8_t(random());
        break;
      case 2: {
        // Numbers at the borders of what fits.
        static constexpr uint64_t words[] = {
            0, 1, 0x7f, 0xff, 0x7fffffff, 0x80000000, 0xffffffff, ~uint64_t(0), ~uint64_t(0) - 7};
        const uint64_t word = words[below(std::size(words))];
        std::memcpy(&file[at], &word, std::min<uint64_t>(below(2) ? 4 : 8, file.size() - at));
        break;
      }
      case 3: {
        const uint64_t from = below(file.size()),
                       count = std::min({1 + below(64), file.size() - at, file.size() - from});
        std::memmove(&file[at], &file[from], count);
        break;
      }
      case 4:
        for (uint64_t i = at, end = std::min<uint64_t>(file.size(), at + 1 + below(16)); i < end; ++i) {
          file[i] = uint8_t(random());
        }
        break;
      default:
        if (below(4) == 0) {
          file.resize(at);
          if (file.empty()) {
            return file;
          }
        }
        break;
      }
    }
    return file;
  }

  /// Lines and words of a text: left out, twice, exchanged, replaced; or bytes.
  std::string text(const std::string &from) {
    std::string to = from;
    for (uint64_t n = 1 + below(3); n != 0 && !to.empty(); --n) {
      const auto [begin, count] = below(2) ? piece(to, "\n", true) : piece(to, " \t\n,;[]{}()", false);
      switch (below(6)) {
      case 0:
        to.erase(begin, count);
        break;
      case 1:
        to.insert(begin, to.substr(begin, count));
        break;
      case 2: {
        const auto [otherBegin, otherCount] = piece(from, " \t\n,;[]{}()", false);
        to.replace(begin, count, from, otherBegin, otherCount);
        break;
      }
      case 3: {
        static constexpr const char *words[] = {"0",
                                                "-1",
                                                "4294967296",
                                                "18446744073709551615",
                                                "99999999999999999999",
                                                "0x",
                                                "0f7f8",
                                                ".b8",
                                                ".reg",
                                                "{",
                                                "}",
                                                "[",
                                                "]",
                                                "(",
                                                "\"",
                                                "/*",
                                                "%r1",
                                                "%tid.x",
                                                "@",
                                                ";",
                                                ":",
                                                "<4000000000>",
                                                "."};
        to.replace(begin, count, words[below(std::size(words))]);
        break;
      }
      case 4:
        to[begin < to.size() ? begin : 0] = char(random());
        break;
      default:
        if (below(4) == 0) {
          to.resize(begin);
        }
        break;
      }
    }
    return to;
  }

private:
  /// Begin and length of a piece between separators, with the last of them for lines.
  std::pair<size_t, size_t> piece(const std::string &of, const char *separators, bool withSeparator) {
    const size_t at = below(of.size());
    const size_t before = of.find_last_of(separators, at), after = of.find_first_of(separators, at);
    const size_t begin = before == std::string::npos ? 0 : before + 1;
    const size_t end = after == std::string::npos ? of.size() : after + withSeparator;
    return begin < end ? std::pair(begin, end - begin) : std::pair(at, size_t(1));
  }

  std::mt19937_64 random;
};

} // namespace kvc::sim::test

#endif // KVCSIM_TESTS_HOSTILE_H
