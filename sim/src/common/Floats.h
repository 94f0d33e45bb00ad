//===- Floats.h - Small floating-point formats ------------------*- C++ -*-===//
//
// Bit-exact conversion between double and the formats of GPUs: f16, bf16, tf32, f8 (e4m3, e5m2) with all roundings.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_COMMON_FLOATS_H
#define KVCSIM_COMMON_FLOATS_H

#include <bit>
#include <cmath>
#include <cstdint>

namespace kvc::sim {

/// Nearest even, toward zero, toward minus and plus infinity, nearest with ties away from zero.
enum class Rounding : uint8_t { RN, RZ, RM, RP, RNA };

/// A format with a sign bit, `exponent` and `mantissa` bits, and IEEE's bias.
struct FloatFormat {
  int exponent;
  int mantissa;
  /// False: the code of all ones is NaN and there is no infinity (e4m3).
  bool hasInfinity;
  uint32_t nan;

  constexpr int bias() const { return (1 << (exponent - 1)) - 1; }
  constexpr uint32_t infinity() const { return ((1u << exponent) - 1) << mantissa; }
  constexpr uint32_t largest() const { return hasInfinity ? infinity() - 1 : nan - 1; }
  constexpr uint32_t signBit() const { return 1u << (exponent + mantissa); }
};

// The NaN of each format is the one that GPU instructions generate.
inline constexpr FloatFormat formatF16{5, 10, true, 0x7fff};
inline constexpr FloatFormat formatBF16{8, 7, true, 0x7fff};
inline constexpr FloatFormat formatF32{8, 23, true, 0x7fffffff};
inline constexpr FloatFormat formatE4M3{4, 3, false, 0x7f};
inline constexpr FloatFormat formatE5M2{5, 2, true, 0x7f};

/// The value of a code, exactly.
inline double decodeFloat(const FloatFormat &format, uint32_t code) {
  const bool negative = code & format.signBit();
  const uint32_t magnitude = code & (format.signBit() - 1);
  const uint32_t exponent = magnitude >> format.mantissa;
  const uint32_t fraction = magnitude & ((1u << format.mantissa) - 1);
  double value;
  if (format.hasInfinity ? exponent == (1u << format.exponent) - 1 : magnitude == format.nan) {
    value = format.hasInfinity && fraction == 0 ? HUGE_VAL : std::nan("");
  } else if (exponent == 0) {
    value = std::ldexp(double(fraction), 1 - format.bias() - format.mantissa);
  } else {
    value = std::ldexp(double(fraction | (1u << format.mantissa)), int(exponent) - format.bias() - format.mantissa);
  }
  return negative ? -value : value;
}

/// Rounds once. `saturate`: infinity and what overflows become the largest finite value (of the same sign).
inline uint32_t encodeFloat(const FloatFormat &format, double value, Rounding rounding, bool saturate = false) {
  if (std::isnan(value)) {
    return format.nan;
  }
  const bool negative = std::signbit(value);
  const uint32_t sign = negative ? format.signBit() : 0;
  const double magnitude = std::fabs(value);
  const uint32_t overflow = format.hasInfinity ? format.infinity() : format.nan;
  if (std::isinf(value)) {
    return sign | (saturate ? format.largest() : overflow);
  }
  if (magnitude == 0) {
    return sign;
  }
  int exponent = std::ilogb(magnitude);
  const int smallest = 1 - format.bias();
  if (exponent < smallest) {
    exponent = smallest;
  }
  // Units of the last place; below 2^(mantissa + 1), so the scaling is exact except for what only matters as "a rest".
  const double scaled = std::ldexp(magnitude, format.mantissa - exponent);
  double whole = std::floor(scaled);
  const double rest = scaled - whole;
  bool up = false;
  switch (rounding) {
  case Rounding::RN:
    up = rest > 0.5 || (rest == 0.5 && std::fmod(whole, 2.0) != 0);
    break;
  case Rounding::RNA:
    up = rest >= 0.5;
    break;
  case Rounding::RZ:
    break;
  case Rounding::RM:
    up = rest > 0 && negative;
    break;
  case Rounding::RP:
    up = rest > 0 && !negative;
    break;
  }
  whole += up;
  // A carry out of the fraction raises the exponent by itself: codes are ordered like magnitudes.
  const double unit = std::ldexp(1.0, format.mantissa);
  const uint64_t code =
      whole < unit ? uint64_t(whole) : (uint64_t(exponent + format.bias()) << format.mantissa) + uint64_t(whole - unit);
  if (code > format.largest()) {
    // Rounding toward zero never reaches infinity.
    const bool towardZero =
        rounding == Rounding::RZ || (rounding == Rounding::RM && !negative) || (rounding == Rounding::RP && negative);
    return sign | (saturate || towardZero ? format.largest() : overflow);
  }
  return sign | uint32_t(code);
}

inline float bf16ToFloat(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

/// Nearest even.
inline uint16_t floatToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) {
    return 0x7fff;
  }
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline float f16ToFloat(uint16_t bits) { return float(std::bit_cast<_Float16>(bits)); }

/// Nearest even.
inline uint16_t floatToF16(float value) {
  return value != value ? uint16_t(0x7fff) : std::bit_cast<uint16_t>(_Float16(value));
}

/// a*b+c of doubles whose product is exact, rounded to odd: a later rounding to at most 51 bits is that of the exact
/// sum.
inline double fusedToOdd(double product, double c) {
  const double sum = product + c;
  const double back = sum - product;
  const double error = (product - (sum - back)) + (c - back);
  uint64_t bits = std::bit_cast<uint64_t>(sum);
  // The error of an infinite or undefined sum is no number.
  if ((error > 0 || error < 0) && (bits & 1) == 0) {
    // Toward the exact sum: away from zero when the error has the sum's sign.
    bits += (error > 0) == (sum > 0) ? 1 : -1;
    return std::bit_cast<double>(bits);
  }
  return sum;
}

/// 2^value: a polynomial over -1/2 .. 1/2 (error below 2^-45) and the exponent by its bits. A loop over it is one over
/// vectors.
inline double exp2Double(double value) {
  const double clamped = value > 1100.0 ? 1100.0 : value < -1000.0 ? -1000.0 : value;
  const double safe = value != value ? 0.0 : clamped;
  const double shifter = 0x1.8p52;
  const double n = (safe + shifter) - shifter;
  const double f = (safe - n) * 0.693147180559945309417;
  double p = 1.0 / 479001600;
  p = p * f + 1.0 / 39916800;
  p = p * f + 1.0 / 3628800;
  p = p * f + 1.0 / 362880;
  p = p * f + 1.0 / 40320;
  p = p * f + 1.0 / 5040;
  p = p * f + 1.0 / 720;
  p = p * f + 1.0 / 120;
  p = p * f + 1.0 / 24;
  p = p * f + 1.0 / 6;
  p = p * f + 0.5;
  p = p * f + 1.0;
  p = p * f + 1.0;
  const auto scale = std::bit_cast<double>((std::bit_cast<uint64_t>(n + shifter) + 1023) << 52);
  const double result = value > 1023 ? HUGE_VAL : p * scale;
  return value != value ? value : result;
}

} // namespace kvc::sim

#endif // KVCSIM_COMMON_FLOATS_H
