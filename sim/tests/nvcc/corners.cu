//===- corners.cu - Kernels of rarer instructions that check.py compares with NumPy, for sm_90a ---===//
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <stdint.h>

#define WALKS __device__ __noinline__
#include "../walk.h"

// Atomics of 16 to 128 bits, of pairs and vectors, in global and shared memory; all results are the same in any order.
extern "C" __global__ void wide_atomics(const int *x, double *sum, __nv_bfloat162 *pairs, float4 *quad, long long *most,
                                        unsigned long long *product, unsigned short *shorts, unsigned *wrapped, int n) {
  __shared__ unsigned long long inner;
  __shared__ unsigned down;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x == 0) {
    inner = 1;
    down = 7;
  }
  __syncthreads();
  if (i < n) {
    const int v = x[i];
    atomicAdd(sum, v * 0.5);
    atomicAdd(pairs, __floats2bfloat162_rn(float(v & 1), -1.0f));
    atomicAdd(quad, make_float4(1.0f, float(v & 3), float(v), -2.0f));
    atomicMax(most, (static_cast<long long>(v) << 33) - v);
    // A product of odd numbers by compare and swap of 64 bits.
    unsigned long long old = atomicAdd(&inner, 0), seen;
    do {
      seen = old;
      old = atomicCAS(&inner, seen, seen * (2 * static_cast<unsigned>(v) + 1));
    } while (old != seen);
    // Of 16 bits: every lane has a turn at one of two neighbours.
    unsigned short *to = shorts + (v & 1);
    unsigned short before = *reinterpret_cast<volatile unsigned short *>(to), found;
    while ((found = atomicCAS(to, before, static_cast<unsigned short>(before + 3))) != before) {
      before = found;
    }
    atomicDec(&down, 7);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned long long old = *reinterpret_cast<volatile unsigned long long *>(product), seen;
    do {
      seen = old;
      old = atomicCAS(product, seen, seen * inner);
    } while (old != seen);
    wrapped[blockIdx.x] = down;
  }
}

// Shuffles of 64 bits in segments, reductions and matches of the lanes that are left, after some have returned.
extern "C" __global__ void shuffles64(const long long *x, long long *out, double *folded, int *reduced, unsigned *matched) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
  if (lane % 7 == 5) {
    return;
  }
  const unsigned left = __activemask();
  long long v = x[i];
  // In segments of 8, of which lanes 5, 12, 19 and 26 are gone: they exchange with lanes that never read them.
  const unsigned segment = left & (0xffu << (lane & ~7));
  const int first = __ffs(segment) - 1;
  out[4 * i] = __shfl_sync(segment, v, first);
  out[4 * i + 1] = __shfl_sync(left, v * 3, lane % 2 ? 30 : 1);
  const int low = static_cast<int>(v);
  reduced[6 * i] = __reduce_add_sync(left, low);
  reduced[6 * i + 1] = __reduce_min_sync(segment, low);
  reduced[6 * i + 2] = static_cast<int>(__reduce_max_sync(left, static_cast<unsigned>(low)));
  reduced[6 * i + 3] = static_cast<int>(__reduce_and_sync(segment, static_cast<unsigned>(low) | 0xf0));
  reduced[6 * i + 4] = static_cast<int>(__reduce_or_sync(segment, static_cast<unsigned>(low) & 0x0f0f));
  reduced[6 * i + 5] = static_cast<int>(__reduce_xor_sync(left, static_cast<unsigned>(low)));
  int all;
  matched[3 * i] = __match_any_sync(left, v >> 60);
  matched[3 * i + 1] = __match_all_sync(left, v >> 63, &all);
  matched[3 * i + 2] = all;
  // Lanes of even values fold among themselves, the others stay out.
  double d = static_cast<double>(v);
  const unsigned even = __ballot_sync(left, v % 2 == 0);
  if (v % 2 == 0) {
    for (unsigned rest = even; rest; rest &= rest - 1) {
      const int from = __ffs(rest) - 1;
      d = fmax(d, __shfl_sync(even, static_cast<double>(v), from));
    }
  }
  folded[i] = d;
  out[4 * i + 2] = __popc(even);
  out[4 * i + 3] = __shfl_down_sync(left, v, 7, 16);
}

// Pairs of halves and of bfloat16: fused, saturated, with relu, minima with NaN, masks of comparisons; 8-bit floats.
extern "C" __global__ void pairs(const float2 *x, const float2 *y, const float2 *z, unsigned *o, unsigned short *codes,
                                 unsigned *back, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) {
    return;
  }
  auto half_bits = [](half2 v) { return *reinterpret_cast<unsigned *>(&v); };
  auto bf16_bits = [](__nv_bfloat162 v) { return *reinterpret_cast<unsigned *>(&v); };
  const half2 a = __float22half2_rn(x[i]), b = __float22half2_rn(y[i]), c = __float22half2_rn(z[i]);
  const __nv_bfloat162 p = __float22bfloat162_rn(x[i]), q = __float22bfloat162_rn(y[i]), r = __float22bfloat162_rn(z[i]);
  unsigned *to = o + 16 * i;
  to[0] = half_bits(__hfma2(a, b, c));
  to[1] = half_bits(__hfma2_relu(a, b, c));
  to[2] = half_bits(__hfma2_sat(a, b, c));
  to[3] = half_bits(__hadd2_sat(a, b));
  to[4] = half_bits(__hmin2_nan(a, b));
  to[5] = half_bits(__hmax2(a, __hneg2(b)));
  to[6] = __hgt2_mask(a, b);
  to[7] = __hneu2_mask(a, c);
  to[8] = half_bits(__habs2(__hmul2(a, c)));
  to[9] = bf16_bits(__hfma2(p, q, r));
  to[10] = bf16_bits(__hfma2_relu(p, q, r));
  to[11] = bf16_bits(__hmax2_nan(p, q));
  to[12] = bf16_bits(__hmin2(p, __hneg2(r)));
  to[13] = bf16_bits(__hmul2(p, q));
  to[14] = __hle2_mask(p, q);
  to[15] = half_bits(__halves2half2(__float2half_rz(x[i].x), __float2half_ru(y[i].y)));
  codes[2 * i] = __nv_cvt_float2_to_fp8x2(x[i], __NV_SATFINITE, __NV_E4M3);
  codes[2 * i + 1] = __nv_cvt_float2_to_fp8x2(make_float2(y[i].x * 64, y[i].y * 64), __NV_SATFINITE, __NV_E5M2);
  const __half2_raw four = __nv_cvt_fp8x2_to_halfraw2(codes[2 * i], __NV_E4M3),
                    five = __nv_cvt_fp8x2_to_halfraw2(codes[2 * i + 1], __NV_E5M2);
  back[2 * i] = four.x | unsigned(four.y) << 16;
  back[2 * i + 1] = five.x | unsigned(five.y) << 16;
}

// A product of bf16 of any size by mma: two stages of copies that fill with zeros, B transposed by ldmatrix, results
// by stmatrix. A block of one warp has 16 x 16 results; k and n are multiples of 8.
extern "C" __global__ void ragged_product(const __nv_bfloat16 *a, const __nv_bfloat16 *b, __nv_bfloat16 *c, int m, int n, int k) {
  __shared__ __align__(128) __nv_bfloat16 as[2][16][40], bs[2][32][24], cs[16][24];
  const int lane = threadIdx.x, row0 = blockIdx.y * 16, column0 = blockIdx.x * 16;
  auto shared = [](const void *p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); };
  auto copy = [&](void *to, const __nv_bfloat16 *from, int elements) {
    const int bytes = elements < 0 ? 0 : elements > 8 ? 16 : 2 * elements;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared(to)), "l"(from), "r"(bytes) : "memory");
  };
  auto fetch = [&](int stage, int k0) {
    for (int at = lane; at < 16 * 4; at += 32) {
      const int r = at / 4, e = at % 4 * 8;
      const bool inside = row0 + r < m && k0 + e < k;
      copy(&as[stage][r][e], inside ? a + size_t(row0 + r) * k + k0 + e : a, inside ? k - k0 - e : 0);
    }
    for (int at = lane; at < 32 * 2; at += 32) {
      const int r = at / 2, e = at % 2 * 8;
      const bool inside = k0 + r < k && column0 + e < n;
      copy(&bs[stage][r][e], inside ? b + size_t(k0 + r) * n + column0 + e : b, inside ? n - column0 - e : 0);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  float acc[2][4] = {};
  fetch(0, 0);
  for (int k0 = 0, stage = 0; k0 < k; k0 += 32, stage ^= 1) {
    if (k0 + 32 < k) {
      fetch(stage ^ 1, k0 + 32);
      asm volatile("cp.async.wait_group 1;" ::: "memory");
    } else {
      asm volatile("cp.async.wait_group 0;" ::: "memory");
    }
    __syncwarp();
    for (int step = 0; step < 32; step += 16) {
      uint32_t fa[4], fb[4];
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3])
                   : "r"(shared(&as[stage][lane % 16][step + lane / 16 * 8])));
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(fb[0]), "=r"(fb[1]), "=r"(fb[2]), "=r"(fb[3])
                   : "r"(shared(&bs[stage][step + lane % 16][lane / 16 * 8])));
      for (int h = 0; h < 2; ++h) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                     "{%0, %1, %2, %3};"
                     : "+f"(acc[h][0]), "+f"(acc[h][1]), "+f"(acc[h][2]), "+f"(acc[h][3])
                     : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[2 * h]), "r"(fb[2 * h + 1]));
      }
    }
    __syncwarp();
  }
  uint32_t words[4];
  for (int h = 0; h < 2; ++h) {
    for (int half = 0; half < 2; ++half) {
      const __nv_bfloat162 pair = __floats2bfloat162_rn(acc[h][2 * half], acc[h][2 * half + 1]);
      words[2 * h + half] = *reinterpret_cast<const uint32_t *>(&pair);
    }
  }
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                   shared(&cs[lane % 16][lane / 16 * 8])),
               "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
  __syncwarp();
  for (int at = lane; at < 16 * 16; at += 32) {
    const int r = at / 16, e = at % 16;
    if (row0 + r < m && column0 + e < n) {
      c[size_t(row0 + r) * n + column0 + e] = cs[r][e];
    }
  }
}

// Deep divergence with lanes that leave early, and barriers of the others.
extern "C" __global__ void walks(const unsigned char *program, int length, const int *x, int *out, int *counts) {
  __shared__ int total;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x == 0) {
    total = 0;
  }
  __syncthreads();
  int steps = 0, value = x[i];
  if (value % 3) {
    value = walk(program, length, value, steps);
    if (value < 0 && value % 2 == 0) {
      value = walk(program + 3, length - 3, -value, steps) + 1;
    }
  } else if (value % 5 == 0) {
    value = walk(program + 1, length / 2, value, steps);
  }
  out[i] = value;
  if (steps == 0) {
    return;
  }
  atomicAdd(&total, steps);
  __syncthreads();
  counts[blockIdx.x] = total;
}

// Products of bytes and shorts, bytes and shorts as parts of a word, with limits.
extern "C" __global__ void packed_integers(const unsigned *x, const unsigned *y, const int *z, int *o, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) {
    return;
  }
  const unsigned a = x[i], b = y[i];
  const int c = z[i];
  int *to = o + 10 * i;
  to[0] = __dp4a(int(a), int(b), c);
  to[1] = int(__dp4a(a, b, unsigned(c)));
  asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(to[2]) : "r"(a), "r"(b), "r"(c));
  to[3] = __dp2a_lo(int(a), int(b), c);
  to[4] = int(__dp2a_hi(a, b, unsigned(c)));
  to[5] = int(__vmaxs2(a, b));
  to[6] = int(__viaddmax_s16x2_relu(a, b, unsigned(c)));
  to[7] = int(__vimin3_u16x2(a, b, unsigned(c)));
  to[8] = __viaddmin_s32(int(a), int(b), c);
  to[9] = int(__vavgs4(a, b));
}
