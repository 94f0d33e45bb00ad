//===- Alu.h - Lane-wise operations -----------------------------*- C++ -*-===//
//
// Lane-wise operations are compiled once for each vector extension of the host; the best that it has is used.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_PTX_ALU_H
#define KVCSIM_PTX_ALU_H

#include "common/Floats.h"
#include "ptx/Program.h"

namespace kvc::sim::ptx {

/// Operands: destinations first, as the instruction writes them.
enum class AluOp : int {
  // Integers.
  Add,
  AddSat,
  Sub,
  SubSat,
  MulLo,
  MulHi,
  MulWide,
  MadLo,
  MadHi,
  MadHiSat,
  MadWide,
  Mul24Lo,
  Mul24Hi,
  Mad24Lo,
  Mad24Hi,
  Sad,
  Div,
  Rem,
  Abs,
  Neg,
  Min,
  Max,
  Popc,
  Clz,
  Bfind,
  BfindShift,
  Brev,
  Bfe,
  Bfi,
  SzextClamp,
  SzextWrap,
  BmskClamp,
  BmskWrap,
  Dp4a,
  Dp2aLo,
  Dp2aHi,
  // Carries: `aux` bit 0: takes the carry, bit 1: gives it.
  AddCarry,
  SubCarry,
  MadLoCarry,
  MadHiCarry,
  // Bits.
  And,
  Or,
  Xor,
  Not,
  Cnot,
  Shl,
  Shr,
  Lop3,
  ShfLClamp,
  ShfLWrap,
  ShfRClamp,
  ShfRWrap,
  Prmt,
  Mov,
  Selp,
  SlctS32,
  SlctF32,
  // Floating point; `Half...` are of 16 bits.
  Fma,
  Copysign,
  Testp,
  Rcp,
  RcpApprox64,
  Sqrt,
  RsqrtApprox,
  DivApprox,
  SinApprox,
  CosApprox,
  Lg2Approx,
  Ex2Approx,
  TanhApprox,
  Min3,
  Max3,
  // Comparison: `aux` is a CompareAux.
  Setp,
  Set,
};

/// Flags of floating-point operations, in Inst::aux and for the choice of the function.
namespace alu {
inline constexpr unsigned ftz = 1;
inline constexpr unsigned sat = 2;
inline constexpr unsigned relu = 4;
inline constexpr unsigned nan = 8;
inline constexpr unsigned xorsign = 16;
/// A Rounding, shifted.
inline constexpr unsigned roundingShift = 8;
} // namespace alu

/// Comparisons: with ordered and unordered forms for floats. Lo, Ls, Hi, Hs are Lt, Le, Gt, Ge of unsigned numbers.
enum class Compare : uint8_t { Eq, Ne, Lt, Le, Gt, Ge, Equ, Neu, Ltu, Leu, Gtu, Geu, Num, Nan };
/// How a comparison is combined with a predicate.
enum class Combine : uint8_t { None, And, Or, Xor };

struct CompareAux {
  Compare compare;
  Combine combine;
  /// The predicate that is combined.
  bool negated;
  bool ftz;
  /// Of set: the type of the destination, which gets 1.0 or all ones.
  Type result;

  uint64_t pack() const {
    return uint64_t(compare) | uint64_t(combine) << 8 | uint64_t(negated) << 16 | uint64_t(ftz) << 17 |
           uint64_t(result) << 24;
  }
  static CompareAux unpack(uint64_t v) {
    return {Compare(v & 255), Combine(v >> 8 & 255), bool(v >> 16 & 1), bool(v >> 17 & 1), Type(v >> 24 & 255)};
  }
};

/// `integral`: to an integral value. Registers may be wider than the types (`dstBytes`, `srcBytes`).
struct ConvertAux {
  Type to, from;
  Rounding rounding;
  bool integral, ftz, sat, relu, satfinite;
  uint8_t dstBytes, srcBytes;

  uint64_t pack() const {
    return uint64_t(to) | uint64_t(from) << 8 | uint64_t(rounding) << 16 | uint64_t(integral) << 24 |
           uint64_t(ftz) << 25 | uint64_t(sat) << 26 | uint64_t(relu) << 27 | uint64_t(satfinite) << 28 |
           uint64_t(dstBytes) << 32 | uint64_t(srcBytes) << 40;
  }
  static ConvertAux unpack(uint64_t v) {
    return {Type(v & 255),     Type(v >> 8 & 255), Rounding(v >> 16 & 255), bool(v >> 24 & 1), bool(v >> 25 & 1),
            bool(v >> 26 & 1), bool(v >> 27 & 1),  bool(v >> 28 & 1),       uint8_t(v >> 32),  uint8_t(v >> 40)};
  }
};

/// The function that executes an operation on a type; null when there is none.
ExecFn pickAlu(AluOp op, Type type, unsigned flags);
/// Of comparisons; `flags`: the Compare, and 256 where denormals are flushed.
ExecFn pickCompare(bool isSet, Type type, unsigned flags);
/// Null for all but the common conversions; `aux` is a packed ConvertAux.
ExecFn pickFastConvert(uint64_t aux);
/// cvt.rn.f16x2.f32 and cvt.rn.bf16x2.f32.
ExecFn pickPack(Type type, bool relu);

/// Whether the host has AVX-512 or AVX2 and the functions for it are used.
std::string_view aluExtension();

} // namespace kvc::sim::ptx

#endif // KVCSIM_PTX_ALU_H
