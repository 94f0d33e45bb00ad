//===- ampere.cu - Kernels that check.py compares with NumPy, for sm_80 ---===//
//
// Written as users of CUDA write them: cooperative groups, warp intrinsics, atomics, half precision, inline mma. They say
// nothing about how the simulator works.
//
//===----------------------------------------------------------------------===//
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline_primitives.h>
#include <stdint.h>

namespace cg = cooperative_groups;

// c[m, n] = a[m, k] b[n, k]^T: f16 with f32 sums, ldmatrix, two stages of cp.async. A warp makes 16 x 32; k is a
// multiple of 32.
extern "C" __global__ void gemm_f16(const half *a, const half *b, float *c, int n, int k) {
  __shared__ __align__(16) half as[2][16][40], bs[2][32][40];
  const int lane = threadIdx.x, row = blockIdx.x * 16, column = blockIdx.y * 32;
  float sums[4][4] = {};
  auto load = [&](int stage, int at) {
    for (int i = lane; i < 64; i += 32) {
      __pipeline_memcpy_async(&as[stage][i / 4][i % 4 * 8], a + (row + i / 4) * k + at + i % 4 * 8, 16);
    }
    for (int i = lane; i < 128; i += 32) {
      __pipeline_memcpy_async(&bs[stage][i / 4][i % 4 * 8], b + (column + i / 4) * k + at + i % 4 * 8, 16);
    }
    __pipeline_commit();
  };
  load(0, 0);
  for (int at = 0, stage = 0; at < k; at += 32, stage ^= 1) {
    if (at + 32 < k) {
      load(stage ^ 1, at + 32);
      __pipeline_wait_prior(1);
    } else {
      __pipeline_wait_prior(0);
    }
    __syncwarp();
    for (int step = 0; step < 2; ++step) {
      uint32_t x[4];
      uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(&as[stage][lane % 16][step * 16 + lane / 16 * 8]));
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                   : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                   : "r"(address));
      for (int tile = 0; tile < 4; ++tile) {
        uint32_t y[2];
        address = static_cast<uint32_t>(
            __cvta_generic_to_shared(&bs[stage][tile * 8 + lane % 8][step * 16 + lane / 8 % 2 * 8]));
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(y[0]), "=r"(y[1]) : "r"(address));
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};"
                     : "+f"(sums[tile][0]), "+f"(sums[tile][1]), "+f"(sums[tile][2]), "+f"(sums[tile][3])
                     : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
      }
    }
    __syncwarp();
  }
  for (int tile = 0; tile < 4; ++tile) {
    for (int i = 0; i < 4; ++i) {
      c[(row + lane / 4 + i / 2 * 8) * n + column + tile * 8 + lane % 4 * 2 + i % 2] = sums[tile][i];
    }
  }
}

// One tile of m16n8k8 in tf32 and one of m16n8k32 in s8, operands straight from memory: a is row by row, b column by
// column.
extern "C" __global__ void mma_tf32(const float *a, const float *b, float *c) {
  const int lane = threadIdx.x, g = lane / 4, t = lane % 4;
  auto tf32 = [](float x) {
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
  };
  float d[4] = {};
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
               "{%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(tf32(a[g * 8 + t])), "r"(tf32(a[(g + 8) * 8 + t])), "r"(tf32(a[g * 8 + t + 4])),
                 "r"(tf32(a[(g + 8) * 8 + t + 4])), "r"(tf32(b[g * 8 + t])), "r"(tf32(b[g * 8 + t + 4])));
  for (int i = 0; i < 4; ++i) {
    c[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = d[i];
  }
}
extern "C" __global__ void mma_s8(const int *a, const int *b, int *c) {
  const int lane = threadIdx.x, g = lane / 4, t = lane % 4;
  int d[4] = {1, 2, 3, 4};
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
               : "r"(a[g * 8 + t]), "r"(a[(g + 8) * 8 + t]), "r"(a[g * 8 + t + 4]), "r"(a[(g + 8) * 8 + t + 4]),
                 "r"(b[g * 8 + t]), "r"(b[g * 8 + t + 4]));
  for (int i = 0; i < 4; ++i) {
    c[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = d[i];
  }
}

// Counts of bytes: in shared memory first, with atomics; then added to the result.
extern "C" __global__ void histogram(const uint8_t *data, unsigned *counts, int n) {
  __shared__ unsigned local[256];
  local[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    atomicAdd(&local[data[i]], 1u);
  }
  __syncthreads();
  if (local[threadIdx.x]) {
    atomicAdd(&counts[threadIdx.x], local[threadIdx.x]);
  }
}

// The greatest float by compare and swap, the least and the exclusive or of integers, a counter that wraps, and the sum
// of pairs of halves.
extern "C" __global__ void atomics(const float *x, const int *y, float *most, int *least, int *bits, unsigned *wrapped,
                                   half2 *pairs, unsigned long long *wide) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  int *address = reinterpret_cast<int *>(most), old = *address, seen;
  do {
    seen = old;
    if (__int_as_float(seen) >= x[i]) {
      break;
    }
    old = atomicCAS(address, seen, __float_as_int(x[i]));
  } while (old != seen);
  atomicMin(least, y[i]);
  atomicXor(bits, y[i]);
  atomicInc(wrapped, 9);
  atomicAdd(pairs, __floats2half2_rn(1, 2));
  atomicAdd(wide, 1ull << 33);
}

// The sum of an array in one launch: the block that comes last adds the others' parts.
__device__ unsigned arrived;
extern "C" __global__ void sum_last_block(const float *x, float *parts, float *sum, int n) {
  __shared__ float warps[32];
  __shared__ bool last;
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
  auto whole = [&](float value) {
    value = cg::reduce(warp, value, cg::plus<float>());
    if (warp.thread_rank() == 0) {
      warps[warp.meta_group_rank()] = value;
    }
    block.sync();
    value = threadIdx.x < warp.meta_group_size() ? warps[threadIdx.x] : 0.0f;
    block.sync();
    return warp.meta_group_rank() == 0 ? cg::reduce(warp, value, cg::plus<float>()) : 0.0f;
  };
  float value = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    value += x[i];
  }
  value = whole(value);
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = value;
    __threadfence();
    last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
  }
  block.sync();
  if (last) {
    __threadfence();
    value = whole(threadIdx.x < gridDim.x ? *const_cast<volatile float *>(parts + threadIdx.x) : 0.0f);
    if (threadIdx.x == 0) {
      *sum = value;
    }
  }
}

// Groups of cooperative groups: an inclusive scan in tiles of 16, ranks among the lanes of a branch, labels of equal
// values.
extern "C" __global__ void groups(const int *x, int *scan, int *rank, int *leader, unsigned *match, int *sums) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  cg::thread_block_tile<16> tile = cg::tiled_partition<16>(cg::this_thread_block());
  scan[i] = cg::inclusive_scan(tile, x[i], cg::plus<int>());
  rank[i] = -1;
  if (x[i] % 3 == 0) {
    cg::coalesced_group active = cg::coalesced_threads();
    rank[i] = active.thread_rank() * 100 + active.size();
  }
  leader[i] = tile.shfl(x[i], 5) + tile.shfl_xor(x[i], 3) - tile.shfl_down(x[i], 2);
  match[i] = __match_any_sync(0xffffffff, x[i] % 4);
  sums[i] = __reduce_add_sync(0xffffffff, x[i]) + __reduce_max_sync(0xffffffff, x[i]) +
            int(__reduce_or_sync(0xffffffff, unsigned(x[i]))) + __popc(__ballot_sync(0xffffffff, x[i] & 1)) +
            (__all_sync(0xffffffff, x[i] >= 0) ? 1000 : 0) + (__any_sync(0xffffffff, x[i] == 7) ? 5000 : 0);
}

// A bitonic sort of 1024 integers by one block.
extern "C" __global__ void bitonic(int *data) {
  extern __shared__ int keys[];
  const unsigned i = threadIdx.x;
  keys[i] = data[i];
  __syncthreads();
  for (unsigned size = 2; size <= blockDim.x; size *= 2) {
    for (unsigned step = size / 2; step > 0; step /= 2) {
      const unsigned other = i ^ step;
      if (other > i) {
        const int a = keys[i], b = keys[other];
        if ((a > b) == ((i & size) == 0)) {
          keys[i] = b;
          keys[other] = a;
        }
      }
      __syncthreads();
    }
  }
  data[i] = keys[i];
}

// Bits and wide integers.
extern "C" __global__ void bits(const unsigned *x, const unsigned *y, unsigned *o, unsigned long long *w, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) {
    return;
  }
  const unsigned a = x[i], b = y[i];
  o[8 * i] = __brev(a);
  o[8 * i + 1] = __popc(a) * 100 + __clz(b);
  o[8 * i + 2] = __byte_perm(a, b, 0x3615);
  o[8 * i + 3] = __funnelshift_l(a, b, b & 31);
  o[8 * i + 4] = __umulhi(a, b);
  o[8 * i + 5] = unsigned(__ffs(int(a)));
  o[8 * i + 6] = b ? a / b : a % 7;
  o[8 * i + 7] = unsigned(int(a) >> (b & 15)) ^ __vadd4(a, b);
  w[2 * i] = __umul64hi((uint64_t(a) << 32) | b, (uint64_t(b) << 32) | a);
  w[2 * i + 1] = ((uint64_t(a) << 32) | b) / (uint64_t(b) + 3) + ((uint64_t(b) << 20) % (uint64_t(a) + 5));
}

// Elementwise functions in three precisions.
extern "C" __global__ void functions(const float *x, float *f, double *d, half *h, __nv_bfloat16 *bf, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) {
    return;
  }
  const float v = x[i];
  f[4 * i] = 0.5f * v * (1 + erff(v * 0.70710678f));
  f[4 * i + 1] = __expf(-v * v) + sinf(v) * cosf(v);
  f[4 * i + 2] = rsqrtf(v * v + 1) + logf(v * v + 0.5f);
  f[4 * i + 3] = tanhf(v) * powf(fabsf(v) + 0.25f, 1.5f);
  d[i] = exp(double(v)) / (1 + exp(double(v))) + sqrt(fabs(double(v)));
  const half hv = __float2half_rn(v);
  h[i] = __hfma(hv, hv, __hmul(hv, __float2half_rn(0.5f)));
  bf[i] = __float2bfloat16_rn(v * 1.0078125f);
}

// Rows of a matrix become columns, through a tile in shared memory.
extern "C" __global__ void transpose(const float *x, float *y, int rows, int columns) {
  __shared__ float tile[32][33];
  int column = blockIdx.x * 32 + threadIdx.x;
  for (int row = blockIdx.y * 32 + threadIdx.y, i = threadIdx.y; i < 32; i += 8, row += 8) {
    if (row < rows && column < columns) {
      tile[i][threadIdx.x] = x[row * columns + column];
    }
  }
  __syncthreads();
  int row = blockIdx.y * 32 + threadIdx.x;
  for (int c = blockIdx.x * 32 + threadIdx.y, i = threadIdx.y; i < 32; i += 8, c += 8) {
    if (row < rows && c < columns) {
      y[c * rows + row] = tile[threadIdx.x][i];
    }
  }
}
