//===- Features.h - Targets that this CPU can run ---------------*- C++ -*-===//
//
// Which code of an artifact a CPU can run: the table of CPU targets and the
// features that each needs.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_CPU_FEATURES_H
#define KVC_CPU_FEATURES_H

#include "support/Result.h"

#include <string_view>

namespace kvc::rt::cpu {

/// What matters of a CPU, from the lowest to the highest. A level includes the
/// ones before it of the same architecture.
enum class Level {
  other,          ///< neither x86-64 nor aarch64
  x86_64,         ///< less than x86-64-v3
  x86_64_v3,      ///< AVX2, FMA, F16C, BMI2
  x86_64_v4,      ///< AVX-512 F, BW, CD, DQ, VL
  x86_64_v4_bf16, ///< x86-64-v4 with AVX512-BF16 and AVX512-VNNI
  aarch64,
};

/// The level of this machine. The environment variable KVC_CPU caps it by the
/// name of a level (x86-64, x86-64-v3, x86-64-v4, ...), for tests; an unknown
/// or a higher name is an error.
Result<Level> detect();

const char *nameOf(Level level);

/// How much a CPU of this level prefers the target (larger is better), or what
/// it lacks.
Result<int> rank(Level level, std::string_view target);

} // namespace kvc::rt::cpu

#endif // KVC_CPU_FEATURES_H
