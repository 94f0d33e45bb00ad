//===- gfx950.hip - What gfx950 has beside gfx942 -------------------------===//
#include "device.h"

typedef __bf16 bhalf8 __attribute__((ext_vector_type(8)));
typedef short short2 __attribute__((ext_vector_type(2)));
typedef uint uint2v __attribute__((ext_vector_type(2)));

/// Direct loads to LDS are on their way until all memory has been waited for.
DEVICE void landed() {
  __builtin_amdgcn_s_waitcnt(0);
  barrier();
}

DEVICE uint bitsOf(float x) { return __builtin_bit_cast(uint, x); }
DEVICE float floatOf(uint x) { return __builtin_bit_cast(float, x); }

/// The same in lanes that are 16, 32 and 48 apart.
template <typename F> DEVICE float acrossRows(float x, F both) {
  const uint2v halves = __builtin_amdgcn_permlane32_swap(bitsOf(x), bitsOf(x), false, false);
  const float y = both(floatOf(halves.x), floatOf(halves.y));
  const uint2v rows = __builtin_amdgcn_permlane16_swap(bitsOf(y), bitsOf(y), false, false);
  return both(floatOf(rows.x), floatOf(rows.y));
}

/// Attention of 32 queries over n keys (whole tiles of 32), 64 channels: keys and values go straight to LDS, 16 bytes a
/// lane; scores and results are transposed, so probabilities are operands where they are; values are read transposed.
KERNEL void attention_direct(const half *q, const half *k, const half *v, float *out, int n) {
  LDS static half keys[32 * 64], values[32 * 64];
  const int t = thread(), wave = t / 64, l = t % 64, i = l & 15, g = l >> 4;
  half8 queries[2];
  for (int s = 0; s < 2; ++s) {
    queries[s] = *(const half8 *)(q + (16 * wave + i) * 64 + 32 * s + 8 * g);
  }
  float4 sums[4] = {};
  float largest = -__builtin_inff(), weight = 0;
  for (int base = 0; base < n; base += 32) {
    barrier();
    for (int c = 0; c < 2; ++c) {
      const int chunk = 2 * wave + c;
      const int at = base * 64 + (64 * chunk + l) * 8;
      __builtin_amdgcn_global_load_lds((__attribute__((address_space(1))) void *)(k + at),
                                       (__attribute__((address_space(3))) void *)(keys + 512 * chunk), 16, 0, 0);
      __builtin_amdgcn_global_load_lds((__attribute__((address_space(1))) void *)(v + at),
                                       (__attribute__((address_space(3))) void *)(values + 512 * chunk), 16, 0, 0);
    }
    landed();
    float4 scores[2];
    for (int b = 0; b < 2; ++b) {
      scores[b] = 0;
      for (int s = 0; s < 2; ++s) {
        const half8 rows = *(const half8 *)(keys + (16 * b + i) * 64 + 32 * s + 8 * g);
        scores[b] = __builtin_amdgcn_mfma_f32_16x16x32_f16(rows, queries[s], scores[b], 0, 0, 0);
      }
    }
    float top = largest;
    for (int x = 0; x < 8; ++x) {
      top = __builtin_fmaxf(top, scores[x / 4][x % 4]);
    }
    top = acrossRows(top, [](float x, float y) { return __builtin_fmaxf(x, y); });
    const float scale = __builtin_amdgcn_exp2f(largest - top);
    largest = top;
    half8 p;
    float part = 0;
    for (int x = 0; x < 8; ++x) {
      const float e = __builtin_amdgcn_exp2f(scores[x / 4][x % 4] - top);
      p[x] = (half)e;
      part += e;
    }
    weight = weight * scale + acrossRows(part, [](float x, float y) { return x + y; });
    for (int d = 0; d < 4; ++d) {
      half8 columns;
      for (int b = 0; b < 2; ++b) {
        const half *from = values + (16 * b + 4 * g + i / 4) * 64 + 16 * d + 4 * (i % 4);
        const half4 four = __builtin_bit_cast(
            half4, __builtin_amdgcn_ds_read_tr16_b64_v4i16((__attribute__((address_space(3))) short4 *)from));
        for (int x = 0; x < 4; ++x) {
          columns[4 * b + x] = four[x];
        }
      }
      sums[d] = __builtin_amdgcn_mfma_f32_16x16x32_f16(columns, p, sums[d] * scale, 0, 0, 0);
    }
  }
  for (int d = 0; d < 4; ++d) {
    for (int x = 0; x < 4; ++x) {
      out[(16 * wave + i) * 64 + 16 * d + 4 * g + x] = sums[d][x] / weight;
    }
  }
}

/// A product of bf16 in blocks of 32x32; rows of A go to LDS, beyond its first 64 KiB, through a buffer of `rows` rows:
/// others are zeros.
KERNEL void product_bf16_32(const short *a, const short *b, float *out, int k, int rows) {
  LDS static short pool[48 << 10];
  short *tile = pool + (47 << 10);
  const int l = thread(), i = l & 31, g = l >> 5;
  __amdgpu_buffer_rsrc_t buffer = __builtin_amdgcn_make_buffer_rsrc((void *)a, 0, rows * k * 2, 0x27000);
  float16 acc = 0;
  for (int s = 0; s < k; s += 16) {
    barrier();
    // Lane l: 8 elements of row l / 2.
    __builtin_amdgcn_raw_ptr_buffer_load_lds(buffer, (__attribute__((address_space(3))) void *)tile, 16,
                                             ((l / 2) * k + 8 * (l % 2)) * 2, s * 2, 0, 0);
    landed();
    const bhalf8 x = *(const bhalf8 *)(tile + i * 16 + 8 * g);
    short8 y;
    for (int v = 0; v < 8; ++v) {
      y[v] = b[(s + 8 * g + v) * 32 + i];
    }
    acc = __builtin_amdgcn_mfma_f32_32x32x16_bf16(x, __builtin_bit_cast(bhalf8, y), acc, 0, 0, 0);
  }
  for (int v = 0; v < 16; ++v) {
    out[(8 * (v / 4) + 4 * g + v % 4) * 32 + i] = acc[v];
  }
}

/// Bytes: 16x16x64, with B transposed out of LDS; its values are between -8 and 7 and once more packed in 4 bits.
KERNEL void product_bytes_transposed(const signed char *a, const signed char *b, const uint *nibbles, int *out, int *unpacked) {
  LDS static signed char tile[64 * 16];
  LDS static uint packed[64 * 2];
  const int l = thread(), i = l & 15, g = l >> 4;
  *(int4 *)(tile + 16 * l) = *(const int4 *)(b + 16 * l);
  packed[2 * l] = nibbles[2 * l];
  packed[2 * l + 1] = nibbles[2 * l + 1];
  barrier();
  int4 x = *(const int4 *)(a + i * 64 + 16 * g), y;
  for (int h = 0; h < 2; ++h) {
    // Eight rows of 16 bytes: two lanes a row.
    const signed char *from = tile + (16 * g + 8 * h + i / 2) * 16 + 8 * (i % 2);
    const int2 eight = __builtin_amdgcn_ds_read_tr8_b64_v2i32((__attribute__((address_space(3))) int2 *)from);
    y[2 * h] = eight.x;
    y[2 * h + 1] = eight.y;
  }
  const int4 acc = __builtin_amdgcn_mfma_i32_16x16x64_i8(x, y, (int4)0, 0, 0, 0);
  for (int v = 0; v < 4; ++v) {
    out[(4 * g + v) * 16 + i] = acc[v];
  }
  // Sixteen rows of 16 nibbles: a lane has a row before and a column after.
  const int2 sixteen =
      __builtin_amdgcn_ds_read_tr4_b64_v2i32((__attribute__((address_space(3))) int2 *)(packed + 2 * l));
  for (int r = 0; r < 16; ++r) {
    unpacked[(16 * g + r) * 16 + i] = sixteen[r / 8] << (28 - 4 * (r % 8)) >> 28;
  }
}

KERNEL void product_bytes_32(const signed char *a, const signed char *b, int *out, int k) {
  const int l = thread(), i = l & 31, g = l >> 5;
  int16v acc = 0;
  for (int s = 0; s < k; s += 32) {
    int4 x = *(const int4 *)(a + i * k + s + 16 * g), y = *(const int4 *)(b + i * k + s + 16 * g);
    acc = __builtin_amdgcn_mfma_i32_32x32x32_i8(x, y, acc, 0, 0, 0);
  }
  for (int v = 0; v < 16; ++v) {
    out[(8 * (v / 4) + 4 * g + v % 4) * 32 + i] = acc[v];
  }
}

/// Blocks of 32 numbers as fp4 and fp8 with one power of two as their scale, and back.
KERNEL void scaled_codes(const float *x, const float *scales, uint *four, uint *eight, half *back, float *back8) {
  const int i = index();
  float v[8];
  for (int k = 0; k < 8; ++k) {
    v[k] = x[8 * i + k];
  }
  const float scale = scales[i / 4];
  uint w = 0;
  w = __builtin_amdgcn_cvt_scalef32_pk_fp4_f32(w, v[0], v[1], scale, 0);
  w = __builtin_amdgcn_cvt_scalef32_pk_fp4_f32(w, v[2], v[3], scale, 1);
  w = __builtin_amdgcn_cvt_scalef32_pk_fp4_f32(w, v[4], v[5], scale, 2);
  w = __builtin_amdgcn_cvt_scalef32_pk_fp4_f32(w, v[6], v[7], scale, 3);
  four[i] = w;
  half2 *halves = (half2 *)(back + 8 * i);
  halves[0] = __builtin_amdgcn_cvt_scalef32_pk_f16_fp4(w, scale, 0);
  halves[1] = __builtin_amdgcn_cvt_scalef32_pk_f16_fp4(w, scale, 1);
  halves[2] = __builtin_amdgcn_cvt_scalef32_pk_f16_fp4(w, scale, 2);
  halves[3] = __builtin_amdgcn_cvt_scalef32_pk_f16_fp4(w, scale, 3);
  for (int h = 0; h < 2; ++h) {
    short2 pair = 0;
    pair = __builtin_amdgcn_cvt_scalef32_pk_fp8_f32(pair, v[4 * h], v[4 * h + 1], scale, false);
    pair = __builtin_amdgcn_cvt_scalef32_pk_fp8_f32(pair, v[4 * h + 2], v[4 * h + 3], scale, true);
    const uint word = __builtin_bit_cast(uint, pair);
    eight[2 * i + h] = word;
    *(float2 *)(back8 + 8 * i + 4 * h) = __builtin_amdgcn_cvt_scalef32_pk_f32_fp8(word, scale, false);
    back8[8 * i + 4 * h + 2] = __builtin_amdgcn_cvt_scalef32_f32_fp8(word, scale, 2);
    back8[8 * i + 4 * h + 3] = __builtin_amdgcn_cvt_scalef32_f32_fp8(word, scale, 3);
  }
}
