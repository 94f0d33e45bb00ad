//===- Floats8.h - 8-bit and 4-bit floats of AMD chips ----------*- C++ -*-===//
//
// "fp8" and "bf8": with IEEE's bias and infinities where the format has them (OCP: e4m3, e5m2), or FNUZ (gfx942): one
// more bias, no infinities, no negative zero, whose code is the only NaN.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_AMDGCN_FLOATS8_H
#define KVCSIM_AMDGCN_FLOATS8_H

#include "common/Floats.h"

namespace kvc::sim::amdgcn {

enum class Float8 : uint8_t { E4M3, E5M2, E4M3Fnuz, E5M2Fnuz };

inline double decodeFloat8(Float8 format, uint8_t code) {
  if (format == Float8::E4M3) {
    return decodeFloat(formatE4M3, code);
  }
  if (format == Float8::E5M2) {
    return decodeFloat(formatE5M2, code);
  }
  if (code == 0x80) {
    return std::nan("");
  }
  const int mantissa = format == Float8::E4M3Fnuz ? 3 : 2, bias = format == Float8::E4M3Fnuz ? 8 : 16;
  const int exponent = (code & 0x7f) >> mantissa, fraction = code & ((1 << mantissa) - 1);
  const double value = exponent == 0 ? std::ldexp(fraction, 1 - bias - mantissa)
                                     : std::ldexp(fraction | (1 << mantissa), exponent - bias - mantissa);
  return code & 0x80 ? -value : value;
}

/// Nearest even; what is too large becomes the largest finite value or, without `saturate`, NaN (infinity in e5m2).
inline uint8_t encodeFloat8(Float8 format, double value, bool saturate) {
  if (format == Float8::E4M3) {
    return uint8_t(encodeFloat(formatE4M3, value, Rounding::RN, saturate));
  }
  if (format == Float8::E5M2) {
    return uint8_t(encodeFloat(formatE5M2, value, Rounding::RN, saturate));
  }
  if (std::isnan(value)) {
    return 0x80;
  }
  const int mantissa = format == Float8::E4M3Fnuz ? 3 : 2, bias = format == Float8::E4M3Fnuz ? 8 : 16;
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const double magnitude = std::fabs(value);
  const double largest = decodeFloat8(format, 0x7f);
  if (std::isinf(magnitude)) {
    return saturate ? sign | 0x7f : 0x80;
  }
  const int exponent = magnitude == 0 ? 1 - bias : std::max(std::ilogb(magnitude), 1 - bias);
  const double scaled = std::ldexp(magnitude, mantissa - exponent);
  const double whole = std::nearbyint(scaled);
  if (std::ldexp(whole, exponent - mantissa) > largest) {
    return saturate ? sign | 0x7f : 0x80;
  }
  const auto units = unsigned(whole);
  const unsigned code =
      units < (1u << mantissa) ? units : (unsigned(exponent + bias) << mantissa) + units - (1u << mantissa);
  return code == 0 ? 0 : uint8_t(sign | code);
}

/// "fp4" (e2m1): no infinity and no NaN, which becomes the largest value.
inline constexpr FloatFormat formatE2M1{2, 1, false, 8};

/// What a scale says: only its exponent counts.
inline double scaleOf(float scale) {
  const int exponent = int(std::bit_cast<uint32_t>(scale) >> 23 & 0xff);
  return exponent == 0xff ? std::nan("") : std::ldexp(1.0, exponent - 127);
}

} // namespace kvc::sim::amdgcn

#endif // KVCSIM_AMDGCN_FLOATS8_H
