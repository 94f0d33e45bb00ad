//===- Features.cpp - Targets that this CPU can run -----------------------===//
//
// The table of levels, their detection, and the choice among targets.
//
//===----------------------------------------------------------------------===//
#include "cpu/Features.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string>

namespace kvc::rt::cpu {
namespace {

struct Row {
  Level level;
  const char *name;
  const char *needs;
};

constexpr Row rows[] = {
    {Level::x86_64, "x86-64", "an x86-64 CPU"},
    {Level::x86_64_v3, "x86-64-v3", "an x86-64 CPU with AVX2, FMA, F16C and BMI2"},
    {Level::x86_64_v4, "x86-64-v4", "an x86-64 CPU with AVX-512 F, BW, CD, DQ and VL"},
    {Level::x86_64_v4_bf16, "x86-64-v4-bf16", "an x86-64 CPU with AVX-512 and its BF16 and VNNI extensions"},
    {Level::aarch64, "aarch64", "an aarch64 CPU"},
};

const Row *find(std::string_view name) {
  for (const Row &row : rows) {
    if (row.name == name) {
      return &row;
    }
  }
  return nullptr;
}

bool isX86(Level level) { return level >= Level::x86_64 && level <= Level::x86_64_v4_bf16; }

Level detectHardware() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("x86-64-v3")) {
    return Level::x86_64;
  }
  if (!__builtin_cpu_supports("x86-64-v4")) {
    return Level::x86_64_v3;
  }
  if (!__builtin_cpu_supports("avx512bf16") || !__builtin_cpu_supports("avx512vnni")) {
    return Level::x86_64_v4;
  }
  return Level::x86_64_v4_bf16;
#elif defined(__aarch64__)
  return Level::aarch64;
#else
  return Level::other;
#endif
}

} // namespace

const char *nameOf(Level level) {
  for (const Row &row : rows) {
    if (row.level == level) {
      return row.name;
    }
  }
  return "an unknown architecture";
}

Result<Level> detect() {
  Level level = detectHardware();
  const char *cap = std::getenv("KVC_CPU");
  if (!cap || !*cap) {
    return level;
  }
  const Row *row = find(cap);
  if (!row || isX86(row->level) != isX86(level) || row->level > level) {
    return Status(
        StatusCode::invalidArgument,
        fmt::format("expects KVC_CPU to name a level that this CPU ({}) has, but got '{}'", nameOf(level), cap));
  }
  return row->level;
}

Result<int> rank(Level level, std::string_view target) {
  const Row *row = find(target);
  if (!row) {
    return Status(StatusCode::unsupported, fmt::format("expects a CPU target, but got '{}'", target));
  }
  if (isX86(row->level) != isX86(level) || row->level > level) {
    return Status(StatusCode::unsupported,
                  fmt::format("target '{}' expects {}, but got {}", target, row->needs, nameOf(level)));
  }
  return int(row->level);
}

} // namespace kvc::rt::cpu
