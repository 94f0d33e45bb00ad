//===- BlockFormats.cpp - Table of GGUF tensor types and their decoders ---===//
//
// Scalar reference decoders. They are written to be read against the layout of
// each block, not to be fast: compiled kernels decode weights themselves.
//
//===----------------------------------------------------------------------===//
#include "gguf/BlockFormats.h"

#include "support/Half.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <limits>

namespace kvc::gguf {
namespace {

template <typename T> T load(const std::byte *p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}
uint8_t byteAt(const std::byte *p, int i) { return std::to_integer<uint8_t>(p[i]); }
float halfAt(const std::byte *p) { return halfToFloat(load<uint16_t>(p)); }

void decodeF32(const std::byte *b, float *y) { *y = load<float>(b); }
void decodeF16(const std::byte *b, float *y) { *y = halfAt(b); }
void decodeBF16(const std::byte *b, float *y) { *y = bf16ToFloat(load<uint16_t>(b)); }

/// d, q int8[32]
void decodeQ8_0(const std::byte *b, float *y) {
  float d = halfAt(b);
  for (int j = 0; j < 32; ++j) {
    y[j] = float(load<int8_t>(b + 2 + j)) * d;
  }
}

/// Nibbles of a block of 32: byte j holds value j in its low half and value j + 16 in its high half.
int nibble32(const std::byte *qs, int j) { return j < 16 ? byteAt(qs, j) & 15 : byteAt(qs, j - 16) >> 4; }

/// d, qs[16]
void decodeQ4_0(const std::byte *b, float *y) {
  float d = halfAt(b);
  for (int j = 0; j < 32; ++j) {
    y[j] = float(nibble32(b + 2, j) - 8) * d;
  }
}

/// d, m, qs[16]
void decodeQ4_1(const std::byte *b, float *y) {
  float d = halfAt(b), m = halfAt(b + 2);
  for (int j = 0; j < 32; ++j) {
    y[j] = float(nibble32(b + 4, j)) * d + m;
  }
}

/// d, qh u32, qs[16]; bit j of qh is the fifth bit of value j
void decodeQ5_0(const std::byte *b, float *y) {
  float d = halfAt(b);
  uint32_t high = load<uint32_t>(b + 2);
  for (int j = 0; j < 32; ++j) {
    int q = nibble32(b + 6, j) | int(high >> j & 1) << 4;
    y[j] = float(q - 16) * d;
  }
}

/// d, m, qh u32, qs[16]
void decodeQ5_1(const std::byte *b, float *y) {
  float d = halfAt(b), m = halfAt(b + 2);
  uint32_t high = load<uint32_t>(b + 4);
  for (int j = 0; j < 32; ++j) {
    int q = nibble32(b + 8, j) | int(high >> j & 1) << 4;
    y[j] = float(q) * d + m;
  }
}

/// Scale and minimum (6 bits each) of sub-block j of the 8 that Q4_K and Q5_K pack in 12 bytes.
struct ScaleMin {
  int scale, min;
};
ScaleMin scaleMinK(const std::byte *sc, int j) {
  if (j < 4) {
    return {byteAt(sc, j) & 63, byteAt(sc, j + 4) & 63};
  }
  return {(byteAt(sc, j + 4) & 15) | (byteAt(sc, j - 4) >> 6) << 4, (byteAt(sc, j + 4) >> 4) | (byteAt(sc, j) >> 6)
                                                                                                   << 4};
}

/// Q4_K: d, dmin, sc[12], qs[128]. Q5_K has qh[32] before qs: bit s of qh[l] is the fifth bit of value l of
/// sub-block s. The 32 bytes g of qs hold sub-block 2g in their low and 2g + 1 in their high halves.
void decodeK45(const std::byte *b, const std::byte *qh, const std::byte *qs, float *y) {
  float d = halfAt(b), dmin = halfAt(b + 2);
  for (int s = 0; s < 8; ++s) {
    auto [scale, min] = scaleMinK(b + 4, s);
    float step = d * float(scale), offset = dmin * float(min);
    for (int l = 0; l < 32; ++l) {
      int q = byteAt(qs, 32 * (s / 2) + l) >> 4 * (s & 1) & 15;
      if (qh) {
        q |= (byteAt(qh, l) >> s & 1) << 4;
      }
      y[32 * s + l] = step * float(q) - offset;
    }
  }
}
void decodeQ4_K(const std::byte *b, float *y) { decodeK45(b, nullptr, b + 16, y); }
void decodeQ5_K(const std::byte *b, float *y) { decodeK45(b, b + 16, b + 48, y); }

/// ql[128], qh[64], scales int8[16], d; two halves of 128 values
void decodeQ6_K(const std::byte *b, float *y) {
  float d = halfAt(b + 208);
  for (int h = 0; h < 2; ++h) {
    const std::byte *ql = b + 64 * h, *qh = b + 128 + 32 * h, *scales = b + 192 + 8 * h;
    for (int k = 0; k < 4; ++k) {
      for (int l = 0; l < 32; ++l) {
        int low = byteAt(ql, l + 32 * (k & 1)) >> 4 * (k / 2) & 15;
        int high = byteAt(qh, l) >> 2 * k & 3;
        int q = (low | high << 4) - 32;
        float step = d * float(load<int8_t>(scales + 2 * k + l / 16));
        y[128 * h + 32 * k + l] = step * float(q);
      }
    }
  }
}

// clang-format off
constexpr BlockFormat formats[] = {
    {"F32",     "f32",     0,  1,   4,   decodeF32},
    {"F16",     "f16",     1,  1,   2,   decodeF16},
    {"Q4_0",    "q4_0",    2,  32,  18,  decodeQ4_0},
    {"Q4_1",    "q4_1",    3,  32,  20,  decodeQ4_1},
    {"Q5_0",    "q5_0",    6,  32,  22,  decodeQ5_0},
    {"Q5_1",    "q5_1",    7,  32,  24,  decodeQ5_1},
    {"Q8_0",    "q8_0",    8,  32,  34,  decodeQ8_0},
    {"Q8_1",    "q8_1",    9,  32,  36,  nullptr},
    {"Q2_K",    "q2_k",    10, 256, 84,  nullptr},
    {"Q3_K",    "q3_k",    11, 256, 110, nullptr},
    {"Q4_K",    "q4_k",    12, 256, 144, decodeQ4_K},
    {"Q5_K",    "q5_k",    13, 256, 176, decodeQ5_K},
    {"Q6_K",    "q6_k",    14, 256, 210, decodeQ6_K},
    {"Q8_K",    "q8_k",    15, 256, 292, nullptr},
    {"IQ2_XXS", "iq2_xxs", 16, 256, 66,  nullptr},
    {"IQ2_XS",  "iq2_xs",  17, 256, 74,  nullptr},
    {"IQ3_XXS", "iq3_xxs", 18, 256, 98,  nullptr},
    {"IQ1_S",   "iq1_s",   19, 256, 50,  nullptr},
    {"IQ4_NL",  "iq4_nl",  20, 32,  18,  nullptr},
    {"IQ3_S",   "iq3_s",   21, 256, 110, nullptr},
    {"IQ2_S",   "iq2_s",   22, 256, 82,  nullptr},
    {"IQ4_XS",  "iq4_xs",  23, 256, 136, nullptr},
    {"I8",      "i8",      24, 1,   1,   nullptr},
    {"I16",     "i16",     25, 1,   2,   nullptr},
    {"I32",     "i32",     26, 1,   4,   nullptr},
    {"I64",     "i64",     27, 1,   8,   nullptr},
    {"F64",     "f64",     28, 1,   8,   nullptr},
    {"IQ1_M",   "iq1_m",   29, 256, 56,  nullptr},
    {"BF16",    "bf16",    30, 1,   2,   decodeBF16},
    {"TQ1_0",   "tq1_0",   34, 256, 54,  nullptr},
    {"TQ2_0",   "tq2_0",   35, 256, 66,  nullptr},
    {"MXFP4",   "mxfp4",   39, 32,  17,  nullptr},
};
// clang-format on

} // namespace

std::span<const BlockFormat> blockFormats() { return formats; }

const BlockFormat *findBlockFormat(uint32_t id) {
  auto *it = std::ranges::find(formats, id, &BlockFormat::id);
  return it == std::end(formats) ? nullptr : it;
}

const BlockFormat *findBlockFormat(std::string_view name) {
  auto *it = std::ranges::find(formats, name, &BlockFormat::name);
  return it == std::end(formats) ? nullptr : it;
}

Result<uint64_t> rowBytes(const BlockFormat &format, uint64_t values) {
  if (values % format.valuesPerBlock != 0) {
    return Status(StatusCode::invalidArgument,
                  fmt::format("expects rows of a multiple of {} values for type {}, but got {}", format.valuesPerBlock,
                              format.name, values));
  }
  uint64_t blocks = values / format.valuesPerBlock;
  if (blocks > std::numeric_limits<uint64_t>::max() / format.bytesPerBlock) {
    return Status(StatusCode::outOfRange,
                  fmt::format("expects a row that fits 64 bits, but got {} values of type {}", values, format.name));
  }
  return blocks * format.bytesPerBlock;
}

Status dequantizeRow(const BlockFormat &format, std::span<const std::byte> source, std::span<float> values) {
  if (!format.decodeBlock) {
    return {StatusCode::unsupported, fmt::format("tensor type {} has no decoder in kvc", format.name)};
  }
  KVC_ASSIGN_OR_RETURN(uint64_t bytes, rowBytes(format, values.size()));
  if (source.size() != bytes) {
    return {StatusCode::invalidArgument, fmt::format("expects {} bytes for {} values of type {}, but got {}", bytes,
                                                     values.size(), format.name, source.size())};
  }
  for (uint64_t block = 0, n = bytes / format.bytesPerBlock; block < n; ++block) {
    format.decodeBlock(source.data() + block * format.bytesPerBlock, values.data() + block * format.valuesPerBlock);
  }
  return {};
}

} // namespace kvc::gguf
