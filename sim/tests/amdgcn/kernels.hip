//===- kernels.hip - Kernels for the AMDGCN simulator ---------------------===//
//
// Compiled by clang for every chip, without ROCm: sim/tests/amdgcn/check.py runs them and compares with NumPy.
//
//===----------------------------------------------------------------------===//
#include "device.h"

KERNEL void vector_add(const float *a, const float *b, float *out, int n) {
  const int i = index();
  if (i < n) {
    out[i] = a[i] + b[i];
  }
}

// Grids and blocks of three dimensions.
KERNEL void places(int *out, int width, int height) {
  const int x = (int)(__builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x() + __builtin_amdgcn_workitem_id_x());
  const int y = (int)(__builtin_amdgcn_workgroup_id_y() * __builtin_amdgcn_workgroup_size_y() + __builtin_amdgcn_workitem_id_y());
  const int z = (int)(__builtin_amdgcn_workgroup_id_z() * __builtin_amdgcn_workgroup_size_z() + __builtin_amdgcn_workitem_id_z());
  out[(z * height + y) * width + x] = x + 1000 * y + 1000000 * z;
}

// A tree in LDS.
KERNEL void sum_lds(const float *a, float *out, int n) {
  LDS float part[256];
  const int t = thread();
  float sum = 0;
  for (int i = group() * 256 + t; i < n; i += 256 * 4) {
    sum += a[i];
  }
  part[t] = sum;
  barrier();
  for (int k = 128; k > 0; k >>= 1) {
    if (t < k) {
      part[t] += part[t + k];
    }
    barrier();
  }
  if (t == 0) {
    out[group()] = part[0];
  }
}

template <int control> DEVICE float permuted(float x) {
  return __builtin_bit_cast(float, __builtin_amdgcn_update_dpp(0, __builtin_bit_cast(int, x), control, 0xf, 0xf, true));
}

// Sums of rows of 16 lanes by permutations.
KERNEL void row_sums(const float *a, float *out) {
  const int i = index();
  float x = a[i];
  x += permuted<0xb1>(x);
  x += permuted<0x4e>(x);
  x += permuted<0x141>(x);
  x += permuted<0x140>(x);
  out[i] = x;
}

// Shifts, rotations and quads, with and without bounds and masks.
KERNEL void row_shifts(const int *a, int *out) {
  const int i = index(), n = 64 * 4;
  out[i] = __builtin_amdgcn_update_dpp(-1, a[i], 0x111, 0xf, 0xf, false);
  out[n + i] = __builtin_amdgcn_update_dpp(-1, a[i], 0x103, 0xf, 0xf, true);
  out[2 * n + i] = __builtin_amdgcn_update_dpp(-1, a[i], 0x125, 0x5, 0xf, false);
  out[3 * n + i] = __builtin_amdgcn_update_dpp(-1, a[i], 0x1b, 0xf, 0x3, false);
}

KERNEL void lane_exchange(const int *a, int *out) {
  const int i = index(), n = 64 * 4, t = thread();
  out[i] = __builtin_amdgcn_ds_swizzle(a[i], 0x041f);
  out[n + i] = __builtin_amdgcn_ds_bpermute(((t * 7) & 31) * 4, a[i]);
  out[2 * n + i] = __builtin_amdgcn_readlane(a[i], 5) + __builtin_amdgcn_readfirstlane(a[i]);
  out[3 * n + i] = (int)__builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
}

KERNEL void transpose(const float *a, float *out, int n) {
  LDS float tile[32][33];
  const int x = thread() & 31, y = thread() >> 5;
  const int bx = (int)__builtin_amdgcn_workgroup_id_x() * 32, by = (int)__builtin_amdgcn_workgroup_id_y() * 32;
  for (int r = y; r < 32; r += 8) {
    tile[r][x] = a[(by + r) * n + bx + x];
  }
  barrier();
  for (int r = y; r < 32; r += 8) {
    out[(bx + r) * n + by + x] = tile[x][r];
  }
}

KERNEL void histogram(const uint *a, uint *counts, uint *most, int n) {
  LDS uint local[16];
  const int t = thread();
  if (t < 16) {
    local[t] = 0;
  }
  barrier();
  for (int i = index(); i < n; i += 4 * 256) {
    __hip_atomic_fetch_add(&local[a[i] & 15], 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    __hip_atomic_fetch_max(most, a[i], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  }
  barrier();
  if (t < 16) {
    __hip_atomic_fetch_add(&counts[t], local[t], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  }
}

// Lanes that leave a loop one by one, and calls that nest.
KERNEL void collatz(const uint *a, uint *steps, int n) {
  const int i = index();
  if (i >= n) {
    return;
  }
  ulong x = a[i];
  uint count = 0;
  while (x != 1) {
    if (x & 1) {
      x = 3 * x + 1;
    } else {
      x >>= 1;
    }
    if (++count > 400) {
      break;
    }
  }
  steps[i] = count;
}

KERNEL void math(const float *a, const float *b, float *out, int n) {
  const int i = index();
  if (i >= n) {
    return;
  }
  const float x = a[i], y = b[i];
  out[i] = x / y;
  out[n + i] = __builtin_sqrtf(x);
  out[2 * n + i] = __builtin_amdgcn_exp2f(y);
  out[3 * n + i] = __builtin_amdgcn_rcpf(x);
  out[4 * n + i] = __builtin_amdgcn_rsqf(x);
  out[5 * n + i] = __builtin_amdgcn_logf(x);
  out[6 * n + i] = __builtin_fmaf(x, y, -y);
  out[7 * n + i] = __builtin_fmaxf(__builtin_fminf(x, y), -1.0f) + __builtin_floorf(y) + __builtin_rintf(x);
}

KERNEL void integers(const int *a, const int *b, int *out, int n) {
  const int i = index();
  if (i >= n) {
    return;
  }
  const int x = a[i], y = b[i];
  const long wide = (long)x * y + 12345678901l;
  out[i] = (int)(wide >> 17);
  out[n + i] = x / (y | 1);
  out[2 * n + i] = (int)((uint)x % ((uint)y | 1u));
  out[3 * n + i] = __builtin_popcount((uint)x) + __builtin_clz((uint)x | 1u) * 100;
  out[4 * n + i] = (x << (y & 31)) ^ (int)((uint)y >> (x & 31)) ^ (x >> (y & 15));
  out[5 * n + i] = (x > y ? x : y) - (x < 0 ? y : -x);
  out[6 * n + i] = (int)(short)(x + y) * (int)(signed char)y;
  out[7 * n + i] = (int)((ulong)wide / 1000003ul);
}

KERNEL void halves(const half *a, const half *b, half *out, int n) {
  const int i = index();
  if (i >= n) {
    return;
  }
  const half2 x = {a[2 * i], a[2 * i + 1]}, y = {b[2 * i], b[2 * i + 1]};
  const half2 sum = x + y, product = x * y;
  out[2 * i] = sum.x;
  out[2 * i + 1] = sum.y;
  out[2 * n + 2 * i] = product.x;
  out[2 * n + 2 * i + 1] = product.y;
  const half2 fused = __builtin_elementwise_fma(x, y, half2(-y));
  out[4 * n + 2 * i] = fused.x;
  out[4 * n + 2 * i + 1] = fused.y;
  out[6 * n + 2 * i] = (half)((float)x.x * (float)y.y + (float)x.y);
  out[6 * n + 2 * i + 1] = (half)(float)(int)(short)(x.x > y.x ? x.y : y.y);
}

KERNEL void bfloats(const float *a, unsigned short *out, float *back, int n) {
  const int i = index();
  if (i < n) {
    const __bf16 x = (__bf16)a[i];
    out[i] = __builtin_bit_cast(unsigned short, x);
    back[i] = (float)x * 3.0f;
  }
}

// An array whose place cannot be known before it runs: private memory.
KERNEL void private_array(const int *a, int *out, int n) {
  const int i = index();
  if (i >= n) {
    return;
  }
  volatile int values[16];
  for (int k = 0; k < 16; ++k) {
    values[k] = a[i] * k;
  }
  int sum = 0;
  for (int k = 0; k < 16; ++k) {
    sum += values[(a[i] + k * 5) & 15] * (k + 1);
  }
  out[i] = sum;
}

// Raw buffers: what is out of bounds is zero.
KERNEL void buffers(float *a, float *out, int n) {
  const int i = index();
  const __amdgpu_buffer_rsrc_t in = __builtin_amdgcn_make_buffer_rsrc(a, 0, n * 4, 0x00027000);
  const float x = __builtin_bit_cast(float, __builtin_amdgcn_raw_buffer_load_b32(in, i * 4, 0, 0));
  const float2 y = __builtin_bit_cast(float2, __builtin_amdgcn_raw_buffer_load_b64(in, (i & ~1) * 4, 0, 0));
  out[i] = x + 10 * y.x + 100 * y.y;
}

__attribute__((device)) int table[4] = {3, 1, 4, 1};
__attribute__((device)) int *chosen = &table[2];
KERNEL void variables(int *out) {
  const int i = thread();
  out[i] = table[i & 3] + *chosen;
}

#if defined(__GFX9__)
// One tile of 32 x 32 or 16 x 16 by a wave: a (m x k), b (k x n), row by row.
KERNEL void mfma_f16_16(const half *a, const half *b, float *out, int k) {
  const int l = thread(), i = l & 15, g = l >> 4;
  float4 acc = 0;
  for (int s = 0; s < k; s += 16) {
    half4 x, y;
    for (int v = 0; v < 4; ++v) {
      x[v] = a[i * k + s + 4 * g + v];
      y[v] = b[(s + 4 * g + v) * 16 + i];
    }
    acc = __builtin_amdgcn_mfma_f32_16x16x16f16(x, y, acc, 0, 0, 0);
  }
  for (int v = 0; v < 4; ++v) {
    out[(4 * g + v) * 16 + i] = acc[v];
  }
}

KERNEL void mfma_f16_32(const half *a, const half *b, float *out, int k) {
  const int l = thread(), i = l & 31, g = l >> 5;
  float16 acc = 0;
  for (int s = 0; s < k; s += 8) {
    half4 x, y;
    for (int v = 0; v < 4; ++v) {
      x[v] = a[i * k + s + 4 * g + v];
      y[v] = b[(s + 4 * g + v) * 32 + i];
    }
    acc = __builtin_amdgcn_mfma_f32_32x32x8f16(x, y, acc, 0, 0, 0);
  }
  for (int v = 0; v < 16; ++v) {
    out[(8 * (v / 4) + 4 * g + v % 4) * 32 + i] = acc[v];
  }
}

KERNEL void mfma_bf16_16(const short *a, const short *b, float *out, int k) {
  const int l = thread(), i = l & 15, g = l >> 4;
  float4 acc = 0;
  for (int s = 0; s < k; s += 16) {
    short4 x, y;
    for (int v = 0; v < 4; ++v) {
      x[v] = a[i * k + s + 4 * g + v];
      y[v] = b[(s + 4 * g + v) * 16 + i];
    }
    acc = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(x, y, acc, 0, 0, 0);
  }
  for (int v = 0; v < 4; ++v) {
    out[(4 * g + v) * 16 + i] = acc[v];
  }
}

KERNEL void mfma_f32_16(const float *a, const float *b, float *out, int k) {
  const int l = thread(), i = l & 15, g = l >> 4;
  float4 acc = 0;
  for (int s = 0; s < k; s += 4) {
    acc = __builtin_amdgcn_mfma_f32_16x16x4f32(a[i * k + s + g], b[(s + g) * 16 + i], acc, 0, 0, 0);
  }
  for (int v = 0; v < 4; ++v) {
    out[(4 * g + v) * 16 + i] = acc[v];
  }
}

#if !defined(__gfx90a__)
KERNEL void mfma_i8_16(const signed char *a, const signed char *b, int *out, int k) {
  const int l = thread(), i = l & 15, g = l >> 4;
  int4 acc = 0;
  for (int s = 0; s < k; s += 32) {
    ulong x = 0, y = 0;
    for (int v = 0; v < 8; ++v) {
      x |= (ulong)(unsigned char)a[i * k + s + 8 * g + v] << (8 * v);
      y |= (ulong)(unsigned char)b[(s + 8 * g + v) * 16 + i] << (8 * v);
    }
    acc = __builtin_amdgcn_mfma_i32_16x16x32_i8((long)x, (long)y, acc, 0, 0, 0);
  }
  for (int v = 0; v < 4; ++v) {
    out[(4 * g + v) * 16 + i] = acc[v];
  }
}

KERNEL void mfma_fp8_16(const unsigned char *a, const unsigned char *b, float *out, int k) {
  const int l = thread(), i = l & 15, g = l >> 4;
  float4 acc = 0;
  for (int s = 0; s < k; s += 32) {
    ulong x = 0, y = 0;
    for (int v = 0; v < 8; ++v) {
      x |= (ulong)a[i * k + s + 8 * g + v] << (8 * v);
      y |= (ulong)b[(s + 8 * g + v) * 16 + i] << (8 * v);
    }
    acc = __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8((long)x, (long)y, acc, 0, 0, 0);
  }
  for (int v = 0; v < 4; ++v) {
    out[(4 * g + v) * 16 + i] = acc[v];
  }
}

KERNEL void fp8_round(const float *a, unsigned char *codes, float *back, int n) {
  const int i = index();
  if (4 * i + 3 < n) {
    int word = __builtin_amdgcn_cvt_pk_fp8_f32(a[4 * i], a[4 * i + 1], 0, false);
    word = __builtin_amdgcn_cvt_pk_fp8_f32(a[4 * i + 2], a[4 * i + 3], word, true);
    for (int k = 0; k < 4; ++k) {
      codes[4 * i + k] = (unsigned char)(word >> (8 * k));
    }
    back[4 * i] = __builtin_amdgcn_cvt_f32_fp8(word, 0);
    back[4 * i + 1] = __builtin_amdgcn_cvt_f32_fp8(word, 1);
    const float2 upper = __builtin_amdgcn_cvt_pk_f32_fp8(word, true);
    back[4 * i + 2] = upper.x;
    back[4 * i + 3] = upper.y;
  }
}
#endif

#if defined(__gfx950__)
KERNEL void mfma_f16_16_k32(const half *a, const half *b, float *out, int k) {
  const int l = thread(), i = l & 15, g = l >> 4;
  float4 acc = 0;
  for (int s = 0; s < k; s += 32) {
    half8 x, y;
    for (int v = 0; v < 8; ++v) {
      x[v] = a[i * k + s + 8 * g + v];
      y[v] = b[(s + 8 * g + v) * 16 + i];
    }
    acc = __builtin_amdgcn_mfma_f32_16x16x32_f16(x, y, acc, 0, 0, 0);
  }
  for (int v = 0; v < 4; ++v) {
    out[(4 * g + v) * 16 + i] = acc[v];
  }
}
#endif
#endif

#if defined(__GFX11__)
KERNEL void wmma_f16(const half *a, const half *b, float *out, int k) {
  const int l = thread(), i = l & 15, g = l >> 4;
  float8 acc = 0;
  for (int s = 0; s < k; s += 16) {
    half16 x, y;
    for (int v = 0; v < 16; ++v) {
      x[v] = a[i * k + s + v];
      y[v] = b[(s + v) * 16 + i];
    }
    acc = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(x, y, acc);
  }
  for (int v = 0; v < 8; ++v) {
    out[(2 * v + g) * 16 + i] = acc[v];
  }
}
#elif defined(__GFX12__)
KERNEL void wmma_f16(const half *a, const half *b, float *out, int k) {
  const int l = thread(), i = l & 15, g = l >> 4;
  float8 acc = 0;
  for (int s = 0; s < k; s += 16) {
    half8 x, y;
    for (int v = 0; v < 8; ++v) {
      const int at = s + 8 * g + v;
      x[v] = a[i * k + at];
      y[v] = b[at * 16 + i];
    }
    acc = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(x, y, acc);
  }
  for (int v = 0; v < 8; ++v) {
    out[(v + 8 * g) * 16 + i] = acc[v];
  }
}

KERNEL void fp8_round(const float *a, unsigned char *codes, float *back, int n) {
  const int i = index();
  if (4 * i + 3 < n) {
    int word = __builtin_amdgcn_cvt_pk_fp8_f32(a[4 * i], a[4 * i + 1], 0, false);
    word = __builtin_amdgcn_cvt_pk_fp8_f32(a[4 * i + 2], a[4 * i + 3], word, true);
    for (int k = 0; k < 4; ++k) {
      codes[4 * i + k] = (unsigned char)(word >> (8 * k));
    }
    back[4 * i] = __builtin_amdgcn_cvt_f32_fp8(word, 0);
    back[4 * i + 1] = __builtin_amdgcn_cvt_f32_fp8(word, 1);
    back[4 * i + 2] = __builtin_amdgcn_cvt_f32_fp8(word, 2);
    back[4 * i + 3] = __builtin_amdgcn_cvt_f32_fp8(word, 3);
  }
}
#endif
