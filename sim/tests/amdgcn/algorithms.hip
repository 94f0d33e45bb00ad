//===- algorithms.hip - Whole algorithms for the AMDGCN simulator ---------===//
//
// Written as programs for these chips are, from the vendor's manuals alone. sim/tests/amdgcn/algorithms.py compares their
// results with NumPy.
//
//===----------------------------------------------------------------------===//
#include "device.h"

DEVICE int lanes() { return (int)__builtin_amdgcn_wavefrontsize(); }

template <int control, int rows = 0xf, int banks = 0xf> DEVICE int shifted(int x) {
  return __builtin_amdgcn_update_dpp(0, x, control, rows, banks, false);
}

// Sums of a wave's lanes up to each, in registers: shifts in rows of 16, then from row to row.
DEVICE int scanWave(int x) {
  x += shifted<0x111>(x);
  x += shifted<0x112>(x);
  x += shifted<0x114, 0xf, 0xe>(x);
  x += shifted<0x118, 0xf, 0xc>(x);
#if defined(__GFX9__)
  x += shifted<0x142, 0xa>(x);
  x += shifted<0x143, 0xc>(x);
#else
  const int other = (int)__builtin_amdgcn_permlanex16(0, (uint)x, ~0u, ~0u, false, false);
  x += thread() & 16 ? other : 0;
#endif
  return x;
}

// One work-group of 256 scans an array of any length.
KERNEL void scan(const int *a, int *out, int n) {
  LDS int totals[8];
  const int t = thread(), wave = t / lanes(), lane = t % lanes();
  int carry = 0;
  for (int at = 0; at < n; at += 256) {
    const int i = at + t, sum = scanWave(i < n ? a[i] : 0);
    if (lane == lanes() - 1) {
      totals[wave] = sum;
    }
    barrier();
    int before = carry;
    for (int w = 0; w < 256 / lanes(); ++w) {
      before += w < wave ? totals[w] : 0;
      carry += totals[w];
    }
    if (i < n) {
      out[i] = before + sum;
    }
    barrier();
  }
}

// Rows of 64 floats become columns; pairs of them are summed with weights. Both read LDS by strides of 64 elements.
KERNEL void stripes(const float *a, float *columns, float2 *sums) {
  LDS float tile[16 * 64] __attribute__((aligned(16)));
  const int t = thread(), base = group() * 1024;
  for (int r = 0; r < 16; ++r) {
    tile[r * 64 + t] = a[base + r * 64 + t];
  }
  barrier();
  for (int r = 0; r < 16; ++r) {
    columns[base + t * 16 + r] = tile[r * 64 + t];
  }
  const float2 *pairs = (const float2 *)tile;
  float2 sum = 0;
  for (int j = 0; j < 8; ++j) {
    sum += pairs[j * 64 + t] * (float)(j + 1);
  }
  sums[group() * 64 + t] = sum;
}

// A table of halves in LDS by bytes, two at a time into one register, with weights.
KERNEL void lookup(const unsigned char *codes, const half *table, const half2 *weights, half2 *out, int n) {
  LDS half entries[256];
  const int t = thread();
  for (int i = t; i < 256; i += 64) {
    entries[i] = table[i];
  }
  barrier();
  for (int i = t; i < n; i += 64) {
    const half2 pair = {entries[codes[2 * i]], entries[codes[2 * i + 1]]};
    out[i] = pair * weights[i];
  }
}

// Orders 512 integers: steps inside a wave exchange lanes, wider ones go through LDS.
KERNEL void bitonic(int *data) {
  LDS int keys[512];
  const int t = thread(), base = group() * 512;
  int x = data[base + t];
  for (int size = 2; size <= 512; size *= 2) {
    for (int step = size / 2; step > 0; step /= 2) {
      int other;
      if (step < lanes()) {
        other = __builtin_amdgcn_ds_bpermute((t ^ step) * 4, x);
      } else {
        keys[t] = x;
        barrier();
        other = keys[t ^ step];
        barrier();
      }
      const bool keepsLess = ((t & step) == 0) == ((t & size) == 0);
      x = keepsLess == (x < other) ? x : other;
    }
  }
  data[base + t] = x;
}

// z becomes z^2 + c, eight times: products of complex numbers in pairs of registers.
KERNEL void iterate(const float2 *z, const float2 *c, float2 *out, int n) {
  const int i = index();
  if (i >= n) {
    return;
  }
  float2 x = z[i];
  const float2 start = c[i];
  for (int step = 0; step < 8; ++step) {
    const float2 turned = {-x.y, x.x};
    x = __builtin_elementwise_fma(float2(x.x), x, __builtin_elementwise_fma(float2(x.y), turned, start));
  }
  out[i] = x;
}

// What many lanes do to one place: sums, extremes, bits, a counter whose tickets are each drawn once.
KERNEL void atomics(const float *x, const ulong *y, float *sum, float *most, ulong *numbers, uint *ticket, uint *drawn,
                    int n) {
  LDS float part;
  LDS ulong wide[2];
  const int i = index(), t = thread();
  if (t == 0) {
    part = 0;
    wide[0] = 0;
    wide[1] = ~0ul;
  }
  barrier();
  if (i < n) {
    __hip_atomic_fetch_add(&part, x[i], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    __hip_atomic_fetch_add(&wide[0], y[i], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    __hip_atomic_fetch_min(&wide[1], y[i], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    int *place = (int *)most;
    int seen = __hip_atomic_load(place, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    while (__builtin_bit_cast(float, seen) < x[i] &&
           !__hip_atomic_compare_exchange_strong(place, &seen, __builtin_bit_cast(int, x[i]), __ATOMIC_RELAXED,
                                                 __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)) {
    }
    __hip_atomic_fetch_or(&numbers[2], 1ul << (y[i] & 63), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    const uint mine = __hip_atomic_fetch_add(ticket, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __hip_atomic_fetch_add(&drawn[mine], 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  }
  barrier();
  if (t == 0) {
    __hip_atomic_fetch_add(sum, part, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __hip_atomic_fetch_add(&numbers[0], wide[0], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __hip_atomic_fetch_min(&numbers[1], wide[1], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  }
}

// A window of n floats in an array: what is read beyond its end is zero, what is written there is dropped.
KERNEL void windows(float *a, float *out, int first, int n) {
#if defined(__GFX9__)
  constexpr int flags = 0x00020000;
#else
  constexpr int flags = 0x31004000;
#endif
  const __amdgpu_buffer_rsrc_t in = __builtin_amdgcn_make_buffer_rsrc(a + first, 0, n * 4, flags),
                               to = __builtin_amdgcn_make_buffer_rsrc(out, 0, n * 4, flags);
  const int i = index();
  // A scalar offset, and one that fits the instruction.
  const float4 x = __builtin_bit_cast(float4, __builtin_amdgcn_raw_buffer_load_b128(in, i * 16, group() * 16, 0));
  const float y = __builtin_bit_cast(float, __builtin_amdgcn_raw_buffer_load_b32(in, i * 4 + 44, 0, 0));
  const half z = __builtin_bit_cast(half, __builtin_amdgcn_raw_buffer_load_b16(in, i * 2, 0, 0));
  const float4 sum = x + y + (float)z;
  __builtin_amdgcn_raw_buffer_store_b128(__builtin_bit_cast(int4, sum), to, i * 16, 0, 0);
}

// Attention of one query over keys of 4-bit codes with a scale and a zero each, and values in f16: a wave for each query,
// a lane for each key, then for each pair of channels.
KERNEL void attend(const float *q, const uint *codes, const half2 *scales, const half *values, float *out, int keys) {
  LDS float weights[64];
  const int lane = thread(), query = group();
  float most = -__builtin_inff(), total = 0, sum[2] = {0, 0};
  for (int at = 0; at < keys; at += lanes()) {
    const int key = at + lane;
    float score = -__builtin_inff();
    if (key < keys) {
      float product = 0, all = 0;
      for (int word = 0; word < 8; ++word) {
        const uint packed = codes[key * 8 + word];
        for (int e = 0; e < 8; ++e) {
          const float channel = q[query * 64 + word * 8 + e];
          product += channel * (float)(packed >> (4 * e) & 15);
          all += channel;
        }
      }
      const half2 scale = scales[key];
      score = (product * (float)scale.x + all * (float)scale.y) * 0.18033688f;
    }
    float best = score;
    for (int step = 1; step < lanes(); step *= 2) {
      const int other = __builtin_amdgcn_ds_bpermute((lane ^ step) * 4, __builtin_bit_cast(int, best));
      best = __builtin_fmaxf(best, __builtin_bit_cast(float, other));
    }
    best = __builtin_fmaxf(best, most);
    const float kept = __builtin_amdgcn_exp2f(most - best);
    most = best;
    weights[lane] = __builtin_amdgcn_exp2f(score - most);
    barrier();
    total *= kept;
    sum[0] *= kept;
    sum[1] *= kept;
    const int count = keys - at < lanes() ? keys - at : lanes();
    for (int k = 0; k < count; ++k) {
      total += weights[k];
      sum[0] += weights[k] * (float)values[(at + k) * 64 + lane];
      if (lanes() == 32) {
        sum[1] += weights[k] * (float)values[(at + k) * 64 + 32 + lane];
      }
    }
    barrier();
  }
  out[query * 64 + lane] = sum[0] / total;
  if (lanes() == 32) {
    out[query * 64 + 32 + lane] = sum[1] / total;
  }
}

#if defined(__GFX9__)
// c[64, 32] = a[64, k] b[k, 32]: two waves with 32 rows each; panels of b go through LDS, transposed.
KERNEL void gemm_f16(const half *a, const half *b, float *c, int k) {
  LDS half panel[32][36] __attribute__((aligned(16)));
  const int t = thread(), lane = t & 63, wave = t >> 6, i = lane & 31, g = lane >> 5;
  float16 acc = 0;
  for (int s = 0; s < k; s += 32) {
    for (int e = t; e < 32 * 32; e += 128) {
      panel[e & 31][e >> 5] = b[(s + (e >> 5)) * 32 + (e & 31)];
    }
    barrier();
    for (int step = 0; step < 32; step += 8) {
      const half4 x = *(const half4 *)(a + (wave * 32 + i) * k + s + step + 4 * g);
      const half4 y = *(const half4 *)&panel[i][step + 4 * g];
      acc = __builtin_amdgcn_mfma_f32_32x32x8f16(x, y, acc, 0, 0, 0);
    }
    barrier();
  }
  for (int v = 0; v < 16; ++v) {
    c[(wave * 32 + 8 * (v / 4) + 4 * g + v % 4) * 32 + i] = acc[v];
  }
}

// Two products of 32 x 4 by 4 x 32 in bf16, whose operands lie side by side.
KERNEL void pairs_bf16(const short4 *a, const short4 *b, float *c) {
  typedef float float32 __attribute__((ext_vector_type(32)));
  const int lane = thread();
  const float32 acc = __builtin_amdgcn_mfma_f32_32x32x4bf16_1k(a[lane], b[lane], float32(0.5f), 0, 0, 0);
  for (int v = 0; v < 32; ++v) {
    const int row = 8 * (v % 16 / 4) + 4 * (lane / 32) + v % 4;
    c[(v / 16 * 32 + row) * 32 + lane % 32] = acc[v];
  }
}

// Sixteen products of 4 x 4 by 4 x 4.
KERNEL void small_f16(const half4 *a, const half4 *b, float *c) {
  const int lane = thread();
  const float4 acc = __builtin_amdgcn_mfma_f32_4x4x4f16(a[lane], b[lane], float4(0), 0, 0, 0);
  for (int v = 0; v < 4; ++v) {
    c[(lane / 4 * 4 + v) * 4 + lane % 4] = acc[v];
  }
}
#endif

#if defined(__GFX11__)
// c[32, 16] = a[32, k] b[16, k]^T in bf16: two waves, b through LDS.
KERNEL void wmma_bf16(const short *a, const short *b, float *c, int k) {
  LDS short panel[16][24] __attribute__((aligned(16)));
  const int t = thread(), lane = t & 31, wave = t >> 5, i = lane & 15, g = lane >> 4;
  float8 acc = 0;
  for (int s = 0; s < k; s += 16) {
    for (int e = t; e < 256; e += 64) {
      panel[e >> 4][e & 15] = b[(e >> 4) * k + s + (e & 15)];
    }
    barrier();
    const short16 x = *(const short16 *)(a + (wave * 16 + i) * k + s);
    short16 y;
    for (int v = 0; v < 16; ++v) {
      y[v] = panel[i][v];
    }
    acc = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(x, y, acc);
    barrier();
  }
  for (int v = 0; v < 8; ++v) {
    c[(wave * 16 + 2 * v + g) * 16 + i] = acc[v];
  }
}

// Sums in f16, those of two products in the halves of the same registers.
KERNEL void wmma_halves(const half16 *a, const half16 *b, half *c) {
  const int lane = thread(), i = lane & 15, g = lane >> 4;
  half16 acc = (half)0.25f;
  acc = __builtin_amdgcn_wmma_f16_16x16x16_f16_tied_w32(a[i], b[i], acc, false);
  acc = __builtin_amdgcn_wmma_f16_16x16x16_f16_tied_w32(a[16 + i], b[16 + i], acc, true);
  for (int v = 0; v < 16; ++v) {
    c[(v % 2 * 16 + v / 2 * 2 + g) * 16 + i] = acc[v];
  }
}

// Bytes: a with signs, b without.
KERNEL void wmma_bytes(const int4 *a, const int4 *b, int *c) {
  const int lane = thread(), i = lane & 15, g = lane >> 4;
  const int8 acc = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, a[i], false, b[i], int8(7), false);
  for (int v = 0; v < 8; ++v) {
    c[(2 * v + g) * 16 + i] = acc[v];
  }
}
#endif
