//===- Salu.cpp - Scalar instructions -------------------------------------===//
#include "amdgcn/Salu.h"

#include "amdgcn/Machine.h"
#include "common/Floats.h"

#include <cmath>
#include <unordered_map>

using namespace kvc::sim;
using namespace kvc::sim::amdgcn;

namespace {

using u32 = uint32_t;
using i32 = int32_t;
using u64 = uint64_t;
using i64 = int64_t;

template <typename T> constexpr Type typeOf() {
  return std::is_same_v<T, float>      ? Type::F32
         : std::is_same_v<T, _Float16> ? Type::F16
         : sizeof(T) == 8              ? Type::B64
                                       : Type::B32;
}
template <typename T> T read(const Wave &wave, const Source &source) {
  if constexpr (sizeof(T) == 8) {
    return std::bit_cast<T>(scalar64(wave, source));
  } else if constexpr (sizeof(T) == 2) {
    return std::bit_cast<T>(uint16_t(scalar32(wave, source)));
  } else {
    return std::bit_cast<T>(scalar32(wave, source));
  }
}
template <typename T> void write(Wave &wave, const Inst &inst, T value) {
  if constexpr (sizeof(T) == 8) {
    wave.setPair(inst.d.first, std::bit_cast<uint64_t>(value));
  } else if constexpr (sizeof(T) == 2) {
    setScalar(wave, inst.d.first, std::bit_cast<uint16_t>(value));
  } else {
    setScalar(wave, inst.d.first, std::bit_cast<uint32_t>(value));
  }
}

// What happens to SCC: it stays, it gets what F says, or whether the result is not zero.
enum class SccRule { Keep, Set, NonZero };

template <typename Signature, SccRule rule, auto F> struct Op;
template <typename D, typename... Args, SccRule rule, auto F> struct Op<D(Args...), rule, F> {
  static void run(Wave &wave, const Inst &inst) { apply(wave, inst, std::index_sequence_for<Args...>()); }
  template <size_t... I> static void apply(Wave &wave, const Inst &inst, std::index_sequence<I...>) {
    bool scc = wave.s[sreg::Scc] != 0;
    const D result = F(read<Args>(wave, inst.s[I])..., scc);
    write<D>(wave, inst, result);
    if constexpr (rule == SccRule::NonZero) {
      wave.s[sreg::Scc] = result != D(0);
    } else if constexpr (rule == SccRule::Set) {
      wave.s[sreg::Scc] = scc;
    }
  }
  static constexpr ScalarRow row(std::string_view name, uint32_t flags) {
    ScalarRow result{name, typeOf<D>(), {}, sizeof...(Args), flags, run};
    const Type types[] = {typeOf<Args>()...};
    for (size_t i = 0; i < sizeof...(Args); ++i) {
      result.s[i] = types[i];
    }
    return result;
  }
};

template <typename Signature, SccRule rule, auto F> constexpr ScalarRow op(std::string_view name, uint32_t flags = 0) {
  return Op<Signature, rule, F>::row(name, flags);
}

/// Comparisons write SCC only.
template <typename A, typename B, auto F> struct ScalarCompare {
  static void run(Wave &wave, const Inst &inst) {
    wave.s[sreg::Scc] = F(read<A>(wave, inst.s[0]), read<B>(wave, inst.s[1]));
  }
};
template <typename A, typename B, auto F> constexpr ScalarRow compare(std::string_view name) {
  return {name, Type::None, {typeOf<A>(), typeOf<B>(), Type::None}, 2, 0, ScalarCompare<A, B, F>::run};
}

/// Saves EXEC and combines it with a mask; SCC is whether a lane is left.
template <typename T, auto F, bool keepsResult> void saveExec(Wave &wave, const Inst &inst) {
  const T mask = read<T>(wave, inst.s[0]);
  const auto exec = T(wave.exec());
  const T result = F(mask, exec);
  write<T>(wave, inst, keepsResult ? result : exec);
  wave.setExec(result);
  wave.s[sreg::Scc] = wave.exec() != 0;
}
template <typename T, auto F, bool keepsResult = false> constexpr ScalarRow saving(std::string_view name) {
  return {name, typeOf<T>(), {typeOf<T>(), Type::None, Type::None}, 1, 0, saveExec<T, F, keepsResult>};
}

#define KVCSIM_SAVE_EXEC(NAME, EXPRESSION)                                                                             \
  saving<u32, [](u32 s, u32 e) { return u32(EXPRESSION); }>(NAME "_saveexec_b32"),                                     \
      saving<u64, [](u64 s, u64 e) { return u64(EXPRESSION); }>(NAME "_saveexec_b64")
#define KVCSIM_BITS(NAME, EXPRESSION)                                                                                  \
  op<u32(u32, u32), SccRule::NonZero, [](u32 a, u32 b, bool &) { return u32(EXPRESSION); }>(NAME "_b32"),              \
      op<u64(u64, u64), SccRule::NonZero, [](u64 a, u64 b, bool &) { return u64(EXPRESSION); }>(NAME "_b64")
#define KVCSIM_COMPARES(SUFFIX, T)                                                                                     \
  compare<T, T, [](T a, T b) { return a == b; }>("s_cmp_eq_" SUFFIX),                                                  \
      compare<T, T, [](T a, T b) { return a != b; }>("s_cmp_lg_" SUFFIX),                                              \
      compare<T, T, [](T a, T b) { return a > b; }>("s_cmp_gt_" SUFFIX),                                               \
      compare<T, T, [](T a, T b) { return a >= b; }>("s_cmp_ge_" SUFFIX),                                              \
      compare<T, T, [](T a, T b) { return a < b; }>("s_cmp_lt_" SUFFIX),                                               \
      compare<T, T, [](T a, T b) { return a <= b; }>("s_cmp_le_" SUFFIX)

#define KVCSIM_COMPARE_FLOATS(SUFFIX, T)                                                                               \
  compare<T, T, [](T a, T b) { return a < b; }>("s_cmp_lt_" SUFFIX),                                                   \
      compare<T, T, [](T a, T b) { return a == b; }>("s_cmp_eq_" SUFFIX),                                              \
      compare<T, T, [](T a, T b) { return a <= b; }>("s_cmp_le_" SUFFIX),                                              \
      compare<T, T, [](T a, T b) { return a > b; }>("s_cmp_gt_" SUFFIX),                                               \
      compare<T, T, [](T a, T b) { return a < b || a > b; }>("s_cmp_lg_" SUFFIX),                                      \
      compare<T, T, [](T a, T b) { return a >= b; }>("s_cmp_ge_" SUFFIX),                                              \
      compare<T, T, [](T a, T b) { return a == a && b == b; }>("s_cmp_o_" SUFFIX),                                     \
      compare<T, T, [](T a, T b) { return a != a || b != b; }>("s_cmp_u_" SUFFIX),                                     \
      compare<T, T, [](T a, T b) { return !(a >= b); }>("s_cmp_nge_" SUFFIX),                                          \
      compare<T, T, [](T a, T b) { return !(a < b || a > b); }>("s_cmp_nlg_" SUFFIX),                                  \
      compare<T, T, [](T a, T b) { return !(a > b); }>("s_cmp_ngt_" SUFFIX),                                           \
      compare<T, T, [](T a, T b) { return !(a <= b); }>("s_cmp_nle_" SUFFIX),                                          \
      compare<T, T, [](T a, T b) { return !(a == b); }>("s_cmp_neq_" SUFFIX),                                          \
      compare<T, T, [](T a, T b) { return !(a < b); }>("s_cmp_nlt_" SUFFIX)

using half = _Float16;

/// The larger number and the smaller one; -0 is below +0. `passes`: a NaN is passed over when the other is a number.
template <bool passes> float larger(float a, float b) {
  if (a != a || b != b) {
    return passes ? (a != a ? b : a) : a != a ? a : b;
  }
  return a > b ? a : a < b ? b : std::signbit(a) ? b : a;
}
template <bool passes> float smaller(float a, float b) { return -larger<passes>(-a, -b); }

template <typename T> T bitField(T value, u32 description, bool isSigned) {
  const unsigned bits = sizeof(T) * 8, offset = description & (bits - 1),
                 width = std::min(description >> 16 & 127, bits);
  if (width == 0) {
    return 0;
  }
  T field = T(value >> offset);
  // A field beyond the end is filled from the sign, or with zeros.
  if (isSigned) {
    using S = std::make_signed_t<T>;
    field = T(S(value) >> offset);
    return width >= bits ? field : T(S(T(field << (bits - width))) >> (bits - width));
  }
  return width >= bits ? field : T(field & ((T(1) << width) - 1));
}

template <typename T> i32 leadingBit(T x) { return x == 0 ? -1 : std::countl_zero(x); }
template <typename T> i32 trailingBit(T x) { return x == 0 ? -1 : std::countr_zero(x); }
i32 leadingSign(i32 x) {
  const u32 y = u32(x < 0 ? ~x : x);
  return y == 0 ? -1 : std::countl_zero(y);
}

u32 packHalves(u32 lo, u32 hi) { return (lo & 0xffff) | (hi << 16); }

void cselect32(Wave &wave, const Inst &inst) {
  write<u32>(wave, inst, read<u32>(wave, inst.s[wave.s[sreg::Scc] ? 0 : 1]));
}
void cselect64(Wave &wave, const Inst &inst) {
  write<u64>(wave, inst, read<u64>(wave, inst.s[wave.s[sreg::Scc] ? 0 : 1]));
}
void cmove32(Wave &wave, const Inst &inst) {
  if (wave.s[sreg::Scc]) {
    write<u32>(wave, inst, read<u32>(wave, inst.s[0]));
  }
}
void cmove64(Wave &wave, const Inst &inst) {
  if (wave.s[sreg::Scc]) {
    write<u64>(wave, inst, read<u64>(wave, inst.s[0]));
  }
}

template <typename T, bool value> void bitSet(Wave &wave, const Inst &inst) {
  const T bit = T(1) << (read<u32>(wave, inst.s[0]) & (sizeof(T) * 8 - 1));
  const T old = sizeof(T) == 8 ? T(wave.pair(inst.d.first)) : T(wave.s[inst.d.first]);
  write<T>(wave, inst, value ? T(old | bit) : T(old & ~bit));
}

constexpr ScalarRow rows[] = {
    op<u32(u32), SccRule::Keep, [](u32 a, bool &) { return a; }>("s_mov_b32"),
    op<u64(u64), SccRule::Keep, [](u64 a, bool &) { return a; }>("s_mov_b64"),
    op<u32(u32), SccRule::Keep, [](u32 a, bool &) { return a; }>("s_movk_i32"),
    {"s_cmov_b32", Type::B32, {Type::B32}, 1, ReadsDestination, cmove32},
    {"s_cmov_b64", Type::B64, {Type::B64}, 1, ReadsDestination, cmove64},
    {"s_cmovk_i32", Type::B32, {Type::B32}, 1, ReadsDestination, cmove32},
    {"s_cselect_b32", Type::B32, {Type::B32, Type::B32}, 2, 0, cselect32},
    {"s_cselect_b64", Type::B64, {Type::B64, Type::B64}, 2, 0, cselect64},
    {"s_bitset0_b32", Type::B32, {Type::B32}, 1, ReadsDestination, bitSet<u32, false>},
    {"s_bitset1_b32", Type::B32, {Type::B32}, 1, ReadsDestination, bitSet<u32, true>},
    {"s_bitset0_b64", Type::B64, {Type::B32}, 1, ReadsDestination, bitSet<u64, false>},
    {"s_bitset1_b64", Type::B64, {Type::B32}, 1, ReadsDestination, bitSet<u64, true>},
    op<u32(u32), SccRule::NonZero, [](u32 a, bool &) { return ~a; }>("s_not_b32"),
    op<u64(u64), SccRule::NonZero, [](u64 a, bool &) { return ~a; }>("s_not_b64"),
    op<u32(u32), SccRule::Keep, [](u32 a, bool &) { return __builtin_bitreverse32(a); }>("s_brev_b32"),
    op<u64(u64), SccRule::Keep, [](u64 a, bool &) { return __builtin_bitreverse64(a); }>("s_brev_b64"),
    op<u32(u32), SccRule::NonZero, [](u32 a, bool &) { return u32(std::popcount(~a)); }>("s_bcnt0_i32_b32"),
    op<u32(u64), SccRule::NonZero, [](u64 a, bool &) { return u32(std::popcount(~a)); }>("s_bcnt0_i32_b64"),
    op<u32(u32), SccRule::NonZero, [](u32 a, bool &) { return u32(std::popcount(a)); }>("s_bcnt1_i32_b32"),
    op<u32(u64), SccRule::NonZero, [](u64 a, bool &) { return u32(std::popcount(a)); }>("s_bcnt1_i32_b64"),
    op<i32(u32), SccRule::Keep, [](u32 a, bool &) { return trailingBit(~a); }>("s_ff0_i32_b32"),
    op<i32(u32), SccRule::Keep, [](u32 a, bool &) { return trailingBit(a); }>("s_ff1_i32_b32"),
    op<i32(u64), SccRule::Keep, [](u64 a, bool &) { return trailingBit(a); }>("s_ff1_i32_b64"),
    op<i32(u32), SccRule::Keep, [](u32 a, bool &) { return leadingBit(a); }>("s_flbit_i32_b32"),
    op<i32(u64), SccRule::Keep, [](u64 a, bool &) { return leadingBit(a); }>("s_flbit_i32_b64"),
    op<i32(i32), SccRule::Keep, [](i32 a, bool &) { return leadingSign(a); }>("s_flbit_i32"),
    op<i32(u32), SccRule::Keep, [](u32 a, bool &) { return i32(int8_t(a)); }>("s_sext_i32_i8"),
    op<i32(u32), SccRule::Keep, [](u32 a, bool &) { return i32(int16_t(a)); }>("s_sext_i32_i16"),
    op<i32(i32), SccRule::NonZero, [](i32 a, bool &) { return a < 0 ? i32(0 - u32(a)) : a; }>("s_abs_i32"),
    op<u32(u32, u32), SccRule::Set,
       [](u32 a, u32 b, bool &scc) {
         const u64 sum = u64(a) + b;
         scc = sum >> 32;
         return u32(sum);
       }>("s_add_u32"),
    op<u32(u32, u32), SccRule::Set,
       [](u32 a, u32 b, bool &scc) {
         scc = b > a;
         return a - b;
       }>("s_sub_u32"),
    op<i32(i32, i32), SccRule::Set,
       [](i32 a, i32 b, bool &scc) {
         i32 sum = 0;
         scc = __builtin_add_overflow(a, b, &sum);
         return sum;
       }>("s_add_i32"),
    op<i32(i32, i32), SccRule::Set,
       [](i32 a, i32 b, bool &scc) {
         i32 difference = 0;
         scc = __builtin_sub_overflow(a, b, &difference);
         return difference;
       }>("s_sub_i32"),
    op<u32(u32, u32), SccRule::Set,
       [](u32 a, u32 b, bool &scc) {
         const u64 sum = u64(a) + b + scc;
         scc = sum >> 32;
         return u32(sum);
       }>("s_addc_u32", ReadsScc),
    op<u32(u32, u32), SccRule::Set,
       [](u32 a, u32 b, bool &scc) {
         const u32 result = a - b - scc;
         scc = u64(b) + scc > a;
         return result;
       }>("s_subb_u32", ReadsScc),
    op<u64(u64, u64), SccRule::Keep, [](u64 a, u64 b, bool &) { return a + b; }>("s_add_nc_u64"),
    op<u64(u64, u64), SccRule::Keep, [](u64 a, u64 b, bool &) { return a - b; }>("s_sub_nc_u64"),
    op<u64(u64, u64), SccRule::Keep, [](u64 a, u64 b, bool &) { return a * b; }>("s_mul_u64"),
    op<u32(u32, u32), SccRule::Set,
       [](u32 a, u32 b, bool &scc) {
         scc = a < b;
         return std::min(a, b);
       }>("s_min_u32"),
    op<u32(u32, u32), SccRule::Set,
       [](u32 a, u32 b, bool &scc) {
         scc = a >= b;
         return std::max(a, b);
       }>("s_max_u32"),
    op<i32(i32, i32), SccRule::Set,
       [](i32 a, i32 b, bool &scc) {
         scc = a < b;
         return std::min(a, b);
       }>("s_min_i32"),
    op<i32(i32, i32), SccRule::Set,
       [](i32 a, i32 b, bool &scc) {
         scc = a >= b;
         return std::max(a, b);
       }>("s_max_i32"),
    KVCSIM_BITS("s_and", a &b),
    KVCSIM_BITS("s_or", a | b),
    KVCSIM_BITS("s_xor", a ^ b),
    KVCSIM_BITS("s_andn2", a & ~b),
    KVCSIM_BITS("s_orn2", a | ~b),
    KVCSIM_BITS("s_nand", ~(a &b)),
    KVCSIM_BITS("s_nor", ~(a | b)),
    KVCSIM_BITS("s_xnor", ~(a ^ b)),
    op<u32(u32, u32), SccRule::NonZero, [](u32 a, u32 b, bool &) { return a << (b & 31); }>("s_lshl_b32"),
    op<u64(u64, u32), SccRule::NonZero, [](u64 a, u32 b, bool &) { return a << (b & 63); }>("s_lshl_b64"),
    op<u32(u32, u32), SccRule::NonZero, [](u32 a, u32 b, bool &) { return a >> (b & 31); }>("s_lshr_b32"),
    op<u64(u64, u32), SccRule::NonZero, [](u64 a, u32 b, bool &) { return a >> (b & 63); }>("s_lshr_b64"),
    op<i32(i32, u32), SccRule::NonZero, [](i32 a, u32 b, bool &) { return a >> (b & 31); }>("s_ashr_i32"),
    op<i64(i64, u32), SccRule::NonZero, [](i64 a, u32 b, bool &) { return a >> (b & 63); }>("s_ashr_i64"),
    op<u32(u32, u32), SccRule::Keep, [](u32 a, u32 b, bool &) { return ((1u << (a & 31)) - 1) << (b & 31); }>(
        "s_bfm_b32"),
    op<u64(u32, u32), SccRule::Keep, [](u32 a, u32 b, bool &) { return ((u64(1) << (a & 63)) - 1) << (b & 63); }>(
        "s_bfm_b64"),
    op<u32(u32, u32), SccRule::NonZero, [](u32 a, u32 b, bool &) { return bitField(a, b, false); }>("s_bfe_u32"),
    op<u32(u32, u32), SccRule::NonZero, [](u32 a, u32 b, bool &) { return bitField(a, b, true); }>("s_bfe_i32"),
    op<u64(u64, u32), SccRule::NonZero, [](u64 a, u32 b, bool &) { return bitField(a, b, false); }>("s_bfe_u64"),
    op<u64(u64, u32), SccRule::NonZero, [](u64 a, u32 b, bool &) { return bitField(a, b, true); }>("s_bfe_i64"),
    op<u32(u32, u32), SccRule::Keep, [](u32 a, u32 b, bool &) { return a * b; }>("s_mul_i32"),
    op<u32(u32, u32), SccRule::Keep, [](u32 a, u32 b, bool &) { return u32(u64(a) * b >> 32); }>("s_mul_hi_u32"),
    op<i32(i32, i32), SccRule::Keep, [](i32 a, i32 b, bool &) { return i32(i64(a) * b >> 32); }>("s_mul_hi_i32"),
    op<u32(i32, i32), SccRule::NonZero,
       [](i32 a, i32 b, bool &) {
         const u32 d = u32(a) - u32(b);
         return i32(d) < 0 ? 0 - d : d;
       }>("s_absdiff_i32"),
    op<u32(u32, u32), SccRule::Set,
       [](u32 a, u32 b, bool &scc) {
         const u64 sum = (u64(a) << 1) + b;
         scc = sum >> 32;
         return u32(sum);
       }>("s_lshl1_add_u32"),
    op<u32(u32, u32), SccRule::Set,
       [](u32 a, u32 b, bool &scc) {
         const u64 sum = (u64(a) << 2) + b;
         scc = sum >> 32;
         return u32(sum);
       }>("s_lshl2_add_u32"),
    op<u32(u32, u32), SccRule::Set,
       [](u32 a, u32 b, bool &scc) {
         const u64 sum = (u64(a) << 3) + b;
         scc = sum >> 32;
         return u32(sum);
       }>("s_lshl3_add_u32"),
    op<u32(u32, u32), SccRule::Set,
       [](u32 a, u32 b, bool &scc) {
         const u64 sum = (u64(a) << 4) + b;
         scc = sum >> 32;
         return u32(sum);
       }>("s_lshl4_add_u32"),
    op<u32(u32, u32), SccRule::Keep, [](u32 a, u32 b, bool &) { return packHalves(a, b); }>("s_pack_ll_b32_b16"),
    op<u32(u32, u32), SccRule::Keep, [](u32 a, u32 b, bool &) { return packHalves(a, b >> 16); }>("s_pack_lh_b32_b16"),
    op<u32(u32, u32), SccRule::Keep, [](u32 a, u32 b, bool &) { return packHalves(a >> 16, b >> 16); }>(
        "s_pack_hh_b32_b16"),
    op<u32(u32, u32), SccRule::Keep, [](u32 a, u32 b, bool &) { return packHalves(a >> 16, b); }>("s_pack_hl_b32_b16"),
    KVCSIM_COMPARES("i32", i32),
    KVCSIM_COMPARES("u32", u32),
    compare<u64, u64, [](u64 a, u64 b) { return a == b; }>("s_cmp_eq_u64"),
    compare<u64, u64, [](u64 a, u64 b) { return a != b; }>("s_cmp_lg_u64"),
    compare<u32, u32, [](u32 a, u32 b) { return (a >> (b & 31) & 1) == 0; }>("s_bitcmp0_b32"),
    compare<u32, u32, [](u32 a, u32 b) { return (a >> (b & 31) & 1) != 0; }>("s_bitcmp1_b32"),
    compare<u64, u32, [](u64 a, u32 b) { return (a >> (b & 63) & 1) == 0; }>("s_bitcmp0_b64"),
    compare<u64, u32, [](u64 a, u32 b) { return (a >> (b & 63) & 1) != 0; }>("s_bitcmp1_b64"),
    KVCSIM_SAVE_EXEC("s_and", s &e),
    KVCSIM_SAVE_EXEC("s_or", s | e),
    KVCSIM_SAVE_EXEC("s_xor", s ^ e),
    KVCSIM_SAVE_EXEC("s_andn2", s & ~e),
    KVCSIM_SAVE_EXEC("s_orn2", s | ~e),
    KVCSIM_SAVE_EXEC("s_nand", ~(s &e)),
    KVCSIM_SAVE_EXEC("s_nor", ~(s | e)),
    KVCSIM_SAVE_EXEC("s_xnor", ~(s ^ e)),
    KVCSIM_SAVE_EXEC("s_andn1", ~s &e),
    KVCSIM_SAVE_EXEC("s_orn1", ~s | e),
    saving<u32, [](u32 s, u32 e) { return s & ~e; }, true>("s_andn2_wrexec_b32"),
    saving<u64, [](u64 s, u64 e) { return s & ~e; }, true>("s_andn2_wrexec_b64"),
    saving<u32, [](u32 s, u32 e) { return ~s & e; }, true>("s_andn1_wrexec_b32"),
    saving<u64, [](u64 s, u64 e) { return ~s & e; }, true>("s_andn1_wrexec_b64"),
    // Scalar floats of gfx11.5 and gfx12.
    op<float(float, float), SccRule::Keep, [](float a, float b, bool &) { return a + b; }>("s_add_f32"),
    op<float(float, float), SccRule::Keep, [](float a, float b, bool &) { return a - b; }>("s_sub_f32"),
    op<float(float, float), SccRule::Keep, [](float a, float b, bool &) { return a * b; }>("s_mul_f32"),
    op<float(float, float), SccRule::Keep, [](float a, float b, bool &) { return larger<true>(a, b); }>(
        "s_max_num_f32"),
    op<float(float, float), SccRule::Keep, [](float a, float b, bool &) { return smaller<true>(a, b); }>(
        "s_min_num_f32"),
    op<float(float, float), SccRule::Keep, [](float a, float b, bool &) { return larger<false>(a, b); }>(
        "s_maximum_f32"),
    op<float(float, float), SccRule::Keep, [](float a, float b, bool &) { return smaller<false>(a, b); }>(
        "s_minimum_f32"),
    op<float(float, float, float), SccRule::Keep, [](float a, float b, float c, bool &) { return std::fma(a, b, c); }>(
        "s_fmac_f32", Accumulates),
    op<float(float, float, float), SccRule::Keep, [](float a, float b, float c, bool &) { return std::fma(a, b, c); }>(
        "s_fmamk_f32"),
    op<float(float, float, float), SccRule::Keep, [](float a, float b, float c, bool &) { return std::fma(a, b, c); }>(
        "s_fmaak_f32"),
    op<half(half, half), SccRule::Keep, [](half a, half b, bool &) { return half(float(a) + float(b)); }>("s_add_f16"),
    op<half(half, half), SccRule::Keep, [](half a, half b, bool &) { return half(float(a) - float(b)); }>("s_sub_f16"),
    op<half(half, half), SccRule::Keep, [](half a, half b, bool &) { return half(float(a) * float(b)); }>("s_mul_f16"),
    op<half(half, half), SccRule::Keep, [](half a, half b, bool &) { return half(larger<true>(a, b)); }>(
        "s_max_num_f16"),
    op<half(half, half), SccRule::Keep, [](half a, half b, bool &) { return half(smaller<true>(a, b)); }>(
        "s_min_num_f16"),
    op<half(half, half), SccRule::Keep, [](half a, half b, bool &) { return half(larger<false>(a, b)); }>(
        "s_maximum_f16"),
    op<half(half, half), SccRule::Keep, [](half a, half b, bool &) { return half(smaller<false>(a, b)); }>(
        "s_minimum_f16"),
    op<half(half, half, half), SccRule::Keep,
       [](half a, half b, half c, bool &) { return half(fusedToOdd(double(a) * double(b), double(c))); }>("s_fmac_f16",
                                                                                                          Accumulates),
    op<half(half), SccRule::Keep, [](half a, bool &) { return half(std::floor(float(a))); }>("s_floor_f16"),
    op<half(half), SccRule::Keep, [](half a, bool &) { return half(std::ceil(float(a))); }>("s_ceil_f16"),
    op<half(half), SccRule::Keep, [](half a, bool &) { return half(std::trunc(float(a))); }>("s_trunc_f16"),
    op<half(half), SccRule::Keep, [](half a, bool &) { return half(__builtin_roundevenf(float(a))); }>("s_rndne_f16"),
    op<u32(float, float), SccRule::Keep,
       [](float a, float b, bool &) {
         return encodeFloat(formatF16, a, Rounding::RZ) | (encodeFloat(formatF16, b, Rounding::RZ) << 16);
       }>("s_cvt_pk_rtz_f16_f32"),
    op<float(u32), SccRule::Keep, [](u32 a, bool &) { return f16ToFloat(uint16_t(a >> 16)); }>("s_cvt_hi_f32_f16"),
    KVCSIM_COMPARE_FLOATS("f32", float),
    KVCSIM_COMPARE_FLOATS("f16", half),
    op<float(float), SccRule::Keep, [](float a, bool &) { return std::floor(a); }>("s_floor_f32"),
    op<float(float), SccRule::Keep, [](float a, bool &) { return std::ceil(a); }>("s_ceil_f32"),
    op<float(float), SccRule::Keep, [](float a, bool &) { return std::trunc(a); }>("s_trunc_f32"),
    op<float(float), SccRule::Keep, [](float a, bool &) { return __builtin_roundevenf(a); }>("s_rndne_f32"),
    op<float(i32), SccRule::Keep, [](i32 a, bool &) { return float(a); }>("s_cvt_f32_i32"),
    op<float(u32), SccRule::Keep, [](u32 a, bool &) { return float(a); }>("s_cvt_f32_u32"),
    op<i32(float), SccRule::Keep,
       [](float a, bool &) {
         return a != a ? 0 : a <= -2147483648.0f ? i32(1u << 31) : a >= 2147483648.0f ? 2147483647 : i32(a);
       }>("s_cvt_i32_f32"),
    op<u32(float), SccRule::Keep,
       [](float a, bool &) { return a != a || a <= 0     ? 0u
                                    : a >= 4294967296.0f ? ~0u
                                                         : u32(a); }>("s_cvt_u32_f32"),
    op<float(u32), SccRule::Keep, [](u32 a, bool &) { return f16ToFloat(uint16_t(a)); }>("s_cvt_f32_f16"),
    op<u32(float), SccRule::Keep, [](float a, bool &) { return u32(floatToF16(a)); }>("s_cvt_f16_f32"),
};

/// Names of later instruction sets.
constexpr std::pair<std::string_view, std::string_view> aliases[] = {
    {"s_add_co_u32", "s_add_u32"},
    {"s_sub_co_u32", "s_sub_u32"},
    {"s_add_co_i32", "s_add_i32"},
    {"s_sub_co_i32", "s_sub_i32"},
    {"s_add_co_ci_u32", "s_addc_u32"},
    {"s_sub_co_ci_u32", "s_subb_u32"},
    {"s_add_u64", "s_add_nc_u64"},
    {"s_sub_u64", "s_sub_nc_u64"},
    {"s_and_not1_b32", "s_andn2_b32"},
    {"s_and_not1_b64", "s_andn2_b64"},
    {"s_or_not1_b32", "s_orn2_b32"},
    {"s_or_not1_b64", "s_orn2_b64"},
    {"s_ctz_i32_b32", "s_ff1_i32_b32"},
    {"s_ctz_i32_b64", "s_ff1_i32_b64"},
    {"s_clz_i32_u32", "s_flbit_i32_b32"},
    {"s_clz_i32_u64", "s_flbit_i32_b64"},
    {"s_cls_i32", "s_flbit_i32"},
    {"s_and_not1_saveexec_b32", "s_andn2_saveexec_b32"},
    {"s_and_not1_saveexec_b64", "s_andn2_saveexec_b64"},
    {"s_or_not1_saveexec_b32", "s_orn2_saveexec_b32"},
    {"s_or_not1_saveexec_b64", "s_orn2_saveexec_b64"},
    {"s_and_not0_saveexec_b32", "s_andn1_saveexec_b32"},
    {"s_and_not0_saveexec_b64", "s_andn1_saveexec_b64"},
    {"s_or_not0_saveexec_b32", "s_orn1_saveexec_b32"},
    {"s_or_not0_saveexec_b64", "s_orn1_saveexec_b64"},
    {"s_and_not1_wrexec_b32", "s_andn2_wrexec_b32"},
    {"s_and_not1_wrexec_b64", "s_andn2_wrexec_b64"},
    {"s_and_not0_wrexec_b32", "s_andn1_wrexec_b32"},
    {"s_and_not0_wrexec_b64", "s_andn1_wrexec_b64"},
};

} // namespace

const ScalarRow *kvc::sim::amdgcn::findScalarRow(std::string_view name) {
  static const std::unordered_map<std::string_view, const ScalarRow *> byName = [] {
    std::unordered_map<std::string_view, const ScalarRow *> map;
    for (const ScalarRow &row : rows) {
      map.emplace(row.name, &row);
    }
    for (const auto &[alias, original] : aliases) {
      map.emplace(alias, map.at(original));
    }
    return map;
  }();
  auto found = byName.find(name);
  return found == byName.end() ? nullptr : found->second;
}
