//===- Lanes.h - Lane-wise operations ---------------------------*- C++ -*-===//
//
// What one vector instruction does in each lane, without its modifiers: the executor fetches the sources as rows (one
// value of 32 bits per lane; 64-bit values are two rows), applies input modifiers, calls the loop, applies output
// modifiers and writes the active lanes. The loops are compiled for AVX-512, AVX2 and every other host.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_AMDGCN_LANES_H
#define KVCSIM_AMDGCN_LANES_H

#include <cstdint>
#include <span>
#include <string_view>

namespace kvc::sim::amdgcn {

/// Lanes of a row; waves of 32 lanes use the first half.
inline constexpr unsigned rowLanes = 64;

/// What an operand of a vector instruction holds: tells how constants read, what neg and abs do, and how many rows.
enum class Type : uint8_t { None, F16, BF16, F32, F64, I16, B32, B64, H2, S2, F2, B128 };

struct LaneArgs {
  uint32_t *d = nullptr;
  const uint32_t *a = nullptr, *b = nullptr, *c = nullptr;
  unsigned lanes = rowLanes;
  /// A bit per lane: carry or condition in and out. Bits of lanes that do not execute are ignored.
  uint64_t maskIn = 0, maskOut = 0;
  /// A number in the instruction.
  uint32_t immediate = 0;
};
using LaneFn = void (*)(LaneArgs &);

enum LaneFlags : uint32_t {
  /// Writes a mask as its only result (a comparison).
  ResultIsMask = 1,
  /// The second destination is a mask.
  MaskOut = 2,
  /// The last source is a mask; VCC in the short encodings.
  MaskIn = 4,
  /// VCC is read and not written in the text.
  MaskInVcc = 8,
  /// The destination is the last source, too.
  Accumulates = 16,
  /// A comparison that writes EXEC.
  WritesExec = 32,
  /// One of the slow units (exp, log, rcp, rsq, sqrt, sin, cos).
  Transcendental = 64,
  /// The upper half of a register that gets 16 bits stays, on every chip.
  KeepsUpperHalf = 128,
  /// op_sel and op_sel_hi choose halves of 32-bit sources (mixed precision).
  Mixed = 256,
};

struct LaneRow {
  std::string_view name;
  Type d;
  Type s[3];
  uint32_t flags;
  LaneFn fn;
  /// The same with `clamp`, where that is not a limit to 0..1.
  LaneFn saturating = nullptr;
};

/// Null when no row has this name.
const LaneRow *findLaneRow(std::string_view name);

inline unsigned dwordsOf(Type type) {
  return type == Type::B64 || type == Type::F64 || type == Type::F2 ? 2 : type == Type::B128 ? 4 : 1;
}

} // namespace kvc::sim::amdgcn

#endif // KVCSIM_AMDGCN_LANES_H
