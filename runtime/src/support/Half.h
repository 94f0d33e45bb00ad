//===- Half.h - 16-bit floating point to 32 bits ----------------*- C++ -*-===//
//
// Exact widening of IEEE binary16 and bfloat16 bit patterns, NaN included.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_SUPPORT_HALF_H
#define KVC_SUPPORT_HALF_H

#include <bit>
#include <cstdint>

namespace kvc {

inline float bf16ToFloat(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

inline float halfToFloat(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16;
  uint32_t exponent = (bits >> 10) & 31;
  uint32_t mantissa = bits & 0x3ff;
  if (exponent == 31) {
    return std::bit_cast<float>(sign | 0x7f800000 | mantissa << 13);
  }
  if (exponent == 0) {
    // Zero or subnormal: mantissa * 2^-24 is exact in binary32.
    float magnitude = float(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

} // namespace kvc

#endif // KVC_SUPPORT_HALF_H
