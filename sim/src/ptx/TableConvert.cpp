//===- TableConvert.cpp - Conversions -------------------------------------===//
#include "common/Floats.h"
#include "ptx/Alu.h"
#include "ptx/Decoder.h"
#include "ptx/DecoderImpl.h"
#include "ptx/Machine.h"

#include <cfenv>
#include <limits>

using namespace kvc::sim;
using namespace kvc::sim::ptx;

namespace {

using Wide = __int128;

template <typename F> void eachLane(uint32_t active, F f) {
  for (uint32_t rest = active; rest != 0; rest &= rest - 1) {
    f(unsigned(__builtin_ctz(rest)));
  }
}

uint64_t loadBits(Warp &warp, Place place, unsigned stride, unsigned lane) {
  uint64_t bits = 0;
  std::memcpy(&bits, warp.lanes<uint8_t>(place) + size_t(lane) * stride, std::min(stride, 8u));
  return bits;
}

void storeBits(Warp &warp, Place place, unsigned stride, unsigned lane, uint64_t bits) {
  std::memcpy(warp.lanes<uint8_t>(place) + size_t(lane) * stride, &bits, std::min(stride, 8u));
}

Wide integerOf(Type type, uint64_t bits) {
  const unsigned n = bitsOf(type);
  const uint64_t value = n == 64 ? bits : bits & ((uint64_t(1) << n) - 1);
  if (isSigned(type) && (value >> (n - 1) & 1)) {
    return Wide(value) - (Wide(1) << n);
  }
  return Wide(value);
}

double floatOf(Type type, uint64_t bits, bool ftz) {
  switch (type) {
  case Type::F16:
    return decodeFloat(formatF16, uint32_t(bits & 0xffff));
  case Type::BF16:
    return decodeFloat(formatBF16, uint32_t(bits & 0xffff));
  case Type::F32: {
    const float value = std::bit_cast<float>(uint32_t(bits));
    return ftz && std::fabs(value) < 0x1p-126f ? std::copysign(0.0, value) : double(value);
  }
  default:
    return std::bit_cast<double>(bits);
  }
}

/// Integers beyond 2^53 are rounded to odd, so that the later rounding is right.
double doubleOf(Wide value) {
  const bool negative = value < 0;
  auto magnitude = (unsigned __int128)(negative ? -value : value);
  int shift = 0;
  bool rest = false;
  while (magnitude >> 53) {
    rest |= magnitude & 1;
    magnitude >>= 1;
    ++shift;
  }
  const double r = std::ldexp(double(uint64_t(magnitude) | (rest ? 1 : 0)), shift);
  return negative ? -r : r;
}

/// A 64-bit integer as f64: one rounding, in the direction that is asked for.
[[clang::noinline]] double roundedDouble(bool isSigned, uint64_t bits, Rounding rounding) {
#pragma STDC FENV_ACCESS ON
  static constexpr int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD, FE_TONEAREST};
  std::fesetround(modes[size_t(rounding)]);
  volatile uint64_t input = bits;
  volatile double result = isSigned ? double(int64_t(input)) : double(uint64_t(input));
  std::fesetround(FE_TONEAREST);
  return result;
}

double roundIntegral(double v, Rounding rounding) {
  switch (rounding) {
  case Rounding::RZ:
    return std::trunc(v);
  case Rounding::RM:
    return std::floor(v);
  case Rounding::RP:
    return std::ceil(v);
  default:
    return std::nearbyint(v);
  }
}

uint64_t encode(const ConvertAux &aux, double value) {
  switch (aux.to) {
  case Type::F16:
    return encodeFloat(formatF16, value, aux.rounding, aux.satfinite);
  case Type::BF16:
    return encodeFloat(formatBF16, value, aux.rounding, aux.satfinite);
  case Type::F32: {
    uint32_t bits = encodeFloat(formatF32, value, aux.rounding);
    if (aux.ftz && (bits & 0x7f800000) == 0) {
      bits &= 0x80000000;
    }
    return bits;
  }
  default:
    return std::bit_cast<uint64_t>(value);
  }
}

/// Rounded to the range of the type; NaN is as the PTX manual has it.
uint64_t encodeInteger(const ConvertAux &aux, double value) {
  const unsigned n = bitsOf(aux.to);
  if (std::isnan(value)) {
    return aux.from == Type::F64 && n == 64 ? uint64_t(1) << 63 : 0;
  }
  const double rounded = roundIntegral(value, aux.rounding);
  if (isSigned(aux.to)) {
    const double limit = std::ldexp(1.0, int(n) - 1);
    if (rounded >= limit) {
      return (uint64_t(1) << (n - 1)) - 1;
    }
    if (rounded < -limit) {
      return uint64_t(-1) << (n - 1);
    }
    return uint64_t(int64_t(rounded));
  }
  if (rounded <= 0) {
    return 0;
  }
  if (rounded >= std::ldexp(1.0, int(n))) {
    return n == 64 ? ~uint64_t(0) : (uint64_t(1) << n) - 1;
  }
  return uint64_t(rounded);
}

uint64_t clampInteger(Type to, Wide value) {
  const unsigned n = bitsOf(to);
  const Wide low = isSigned(to) ? -(Wide(1) << (n - 1)) : 0;
  const Wide high = isSigned(to) ? (Wide(1) << (n - 1)) - 1 : (Wide(1) << n) - 1;
  return uint64_t(value < low ? low : value > high ? high : value);
}

void execConvert(Warp &warp, const Inst &inst, uint32_t active) {
  const ConvertAux aux = ConvertAux::unpack(inst.aux);
  eachLane(active, [&](unsigned lane) {
    const uint64_t bits = loadBits(warp, inst.op[1], aux.srcBytes, lane);
    uint64_t result;
    if (isFloat(aux.from)) {
      double value = floatOf(aux.from, bits, aux.ftz);
      if (isFloat(aux.to)) {
        if (aux.integral) {
          value = roundIntegral(value, aux.rounding);
        }
        if (aux.sat) {
          value = value > 0 ? std::fmin(value, 1.0) : 0.0;
        }
        if (aux.relu && !std::isnan(value)) {
          value = value > 0 ? value : 0.0;
        }
        result = encode(aux, value);
      } else {
        result = encodeInteger(aux, value);
      }
    } else {
      const Wide value = integerOf(aux.from, bits);
      if (isFloat(aux.to)) {
        double wide = doubleOf(value);
        if (aux.to == Type::F64) {
          wide = roundedDouble(isSigned(aux.from), uint64_t(value), aux.rounding);
        }
        if (aux.sat) {
          wide = wide > 0 ? std::fmin(wide, 1.0) : 0.0;
        }
        result = encode(aux, wide);
      } else {
        result = aux.sat ? clampInteger(aux.to, value) : uint64_t(value);
      }
    }
    // A wider register gets the value extended as its type says.
    if (!isFloat(aux.to)) {
      result = uint64_t(integerOf(aux.to, result));
    }
    storeBits(warp, inst.op[0], aux.dstBytes, lane, result);
  });
}

const FloatFormat &formatOf(Type type) {
  switch (type) {
  case Type::F16:
  case Type::F16x2:
    return formatF16;
  case Type::BF16:
  case Type::BF16x2:
    return formatBF16;
  case Type::E4M3x2:
    return formatE4M3;
  case Type::E5M2x2:
    return formatE5M2;
  default:
    return formatF32;
  }
}

/// Two numbers at a time: from two f32 registers (the first makes the upper half) or from a packed register.
void execConvertPair(Warp &warp, const Inst &inst, uint32_t active) {
  const ConvertAux aux = ConvertAux::unpack(inst.aux);
  const FloatFormat &to = formatOf(aux.to);
  const unsigned toBits = bitsOf(aux.to) / 2;
  eachLane(active, [&](unsigned lane) {
    double value[2];
    if (aux.from == Type::F32) {
      value[1] = double(warp.lanes<float>(inst.op[1])[lane]);
      value[0] = double(warp.lanes<float>(inst.op[2])[lane]);
    } else {
      const FloatFormat &from = formatOf(aux.from);
      const unsigned fromBits = bitsOf(aux.from) / 2;
      const uint64_t bits = loadBits(warp, inst.op[1], bitsOf(aux.from) / 8, lane);
      value[0] = decodeFloat(from, uint32_t(bits & ((1u << fromBits) - 1)));
      value[1] = decodeFloat(from, uint32_t(bits >> fromBits & ((1u << fromBits) - 1)));
    }
    uint64_t result = 0;
    for (unsigned i = 0; i < 2; ++i) {
      if (aux.relu && !std::isnan(value[i])) {
        value[i] = value[i] > 0 ? value[i] : 0.0;
      }
      result |= uint64_t(encodeFloat(to, value[i], aux.rounding, aux.satfinite)) << (i * toBits);
    }
    storeBits(warp, inst.op[0], bitsOf(aux.to) / 8, lane, result);
  });
}

/// tf32 keeps 10 bits of the fraction, in the upper bits of an f32.
void execConvertTf32(Warp &warp, const Inst &inst, uint32_t active) {
  const ConvertAux aux = ConvertAux::unpack(inst.aux);
  static constexpr FloatFormat tf32{8, 10, true, 0x7fff >> 0};
  eachLane(active, [&](unsigned lane) {
    double value = double(warp.lanes<float>(inst.op[1])[lane]);
    if (aux.relu && !std::isnan(value)) {
      value = value > 0 ? value : 0.0;
    }
    // The NaN that is generated is that of f32.
    const uint32_t bits = std::isnan(value) ? 0x7fffffffu : encodeFloat(tf32, value, aux.rounding, aux.satfinite) << 13;
    warp.lanes<uint32_t>(inst.op[0])[lane] = bits;
  });
}

/// cvt.pack.sat: two integers, clamped, above what a third operand has.
void execConvertPack(Warp &warp, const Inst &inst, uint32_t active) {
  const ConvertAux aux = ConvertAux::unpack(inst.aux);
  const unsigned n = bitsOf(aux.to);
  eachLane(active, [&](unsigned lane) {
    const auto a = clampInteger(aux.to, integerOf(aux.from, warp.lanes<uint32_t>(inst.op[1])[lane]));
    const auto b = clampInteger(aux.to, integerOf(aux.from, warp.lanes<uint32_t>(inst.op[2])[lane]));
    const uint64_t mask = (uint64_t(1) << n) - 1;
    uint64_t result = (a & mask) << n | (b & mask);
    if (inst.count > 3) {
      result |= uint64_t(warp.lanes<uint32_t>(inst.op[3])[lane]) << (2 * n);
    }
    warp.lanes<uint32_t>(inst.op[0])[lane] = uint32_t(result);
  });
}

} // namespace

static ConvertAux auxOf(const Build &b) {
  ConvertAux aux{};
  aux.to = b.type(0);
  aux.from = b.type(1);
  const int rounding = b.which({"rn", "rz", "rm", "rp", "rna"});
  const int integral = b.which({"rni", "rzi", "rmi", "rpi"});
  aux.rounding = Rounding(integral >= 0 ? integral : std::max(rounding, 0));
  aux.integral = integral >= 0;
  aux.ftz = b.has("ftz");
  aux.sat = b.has("sat");
  aux.relu = b.has("relu");
  aux.satfinite = b.has("satfinite");
  return aux;
}

static void convertRow(Build &b, const Row &row) {
  ConvertAux aux = auxOf(b);
  const bool fromFloat = isFloat(aux.from), toFloat = isFloat(aux.to);
  const bool rounds = b.which({"rn", "rz", "rm", "rp"}) >= 0;
  // Where a rounding can be, and where it must.
  const bool narrows = (fromFloat && toFloat && bitsOf(aux.to) < bitsOf(aux.from)) || (!fromFloat && toFloat) ||
                       (fromFloat && toFloat && bitsOf(aux.to) == bitsOf(aux.from) && aux.to != aux.from);
  if (rounds != narrows && !(fromFloat && toFloat && rounds)) {
    b.refuse(narrows ? "a rounding (.rn, .rz, .rm, .rp)" : "no rounding of a floating-point result");
  }
  if (fromFloat && !toFloat && !aux.integral) {
    b.refuse("an integral rounding (.rni, .rzi, .rmi, .rpi)");
  }
  if (aux.integral && !(fromFloat && (!toFloat || aux.to == aux.from))) {
    b.refuse("an integral rounding only from a float to an integer or to the same float");
  }
  aux.dstBytes = uint8_t(b.dst(aux.to, !toFloat));
  aux.srcBytes = uint8_t(b.src(aux.from, !fromFloat));
  b.inst.aux = aux.pack();
  ConvertAux simple = aux;
  // Widening between floats is exact.
  b.inst.exec = pickFastConvert(simple.pack());
  if (!b.inst.exec) {
    b.inst.exec = execConvert;
  }
}

static void convertPairRow(Build &b, const Row &row) {
  ConvertAux aux = auxOf(b);
  b.dst(aux.to);
  if (aux.from == Type::F32) {
    b.src(Type::F32);
    b.src(Type::F32);
  } else {
    b.src(aux.from);
  }
  b.inst.aux = aux.pack();
  const bool plain = aux.from == Type::F32 && aux.rounding == Rounding::RN && !aux.satfinite &&
                     (aux.to == Type::F16x2 || aux.to == Type::BF16x2);
  b.inst.exec = plain ? pickPack(aux.to, aux.relu) : execConvertPair;
}

static void convertTf32Row(Build &b, const Row &row) {
  const ConvertAux aux = auxOf(b);
  b.dst(Type::B32);
  b.src(Type::F32);
  b.inst.aux = aux.pack();
  b.inst.exec = execConvertTf32;
}

static void convertPackRow(Build &b, const Row &row) {
  const ConvertAux aux = auxOf(b);
  b.dst(Type::B32);
  b.src(Type::S32);
  b.src(Type::S32);
  if (b.typeCount() > 2) {
    b.src(Type::B32);
  }
  b.inst.aux = aux.pack();
  b.inst.exec = execConvertPack;
}

std::span<const Row> kvc::sim::ptx::convertRows() {
  static const Row rows[] = {
      {"cvt [<rnd>|<irnd>] [ftz] [sat] <cvt> <cvt>", Class::Convert, convertRow},
      {"cvt rn|rz relu f16|bf16 f32", Class::Convert, convertRow, 0, 80, 70},
      {"cvt rn|rz [relu] satfinite f16|bf16 f32", Class::Convert, convertRow, 0, 80, 81},
      {"cvt rn|rz [relu] [satfinite] f16x2|bf16x2 f32", Class::Convert, convertPairRow, 0, 80, 70},
      {"cvt rn satfinite [relu] e4m3x2|e5m2x2 f32", Class::Convert, convertPairRow, 0, 89, 78},
      {"cvt rn satfinite [relu] e4m3x2|e5m2x2 f16x2", Class::Convert, convertPairRow, 0, 89, 78},
      {"cvt rn [relu] f16x2 e4m3x2|e5m2x2", Class::Convert, convertPairRow, 0, 89, 78},
      {"cvt rna [satfinite] tf32 f32", Class::Convert, convertTf32Row, 0, 80, 70},
      {"cvt rn|rz [relu] [satfinite] tf32 f32", Class::Convert, convertTf32Row, 0, 90, 78},
      {"cvt pack sat u16|s16 s32", Class::Convert, convertPackRow, 0, 72, 65},
      {"cvt pack sat u8|s8 s32 b32", Class::Convert, convertPackRow, 0, 72, 65},
  };
  return rows;
}
