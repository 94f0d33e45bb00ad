//===- algorithms.cu - Whole algorithms that check.py compares with NumPy, for sm_80 ---===//
//
// Written from NVIDIA's manuals alone, as programs for these chips are.
//
//===----------------------------------------------------------------------===//
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

// Softmax of rows of halves by a warp each, eight at a time; columns is a multiple of 8.
extern "C" __global__ void softmax_half(const half *x, half *y, int rows, int columns) {
  const int row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= rows) {
    return;
  }
  const uint4 *from = reinterpret_cast<const uint4 *>(x + size_t(row) * columns);
  uint4 *to = reinterpret_cast<uint4 *>(y + size_t(row) * columns);
  float most = -INFINITY, total = 0;
  for (int i = threadIdx.x; i < columns / 8; i += 32) {
    const uint4 words = __ldg(from + i);
    const half2 *pairs = reinterpret_cast<const half2 *>(&words);
    for (int j = 0; j < 4; ++j) {
      const float2 v = __half22float2(pairs[j]);
      const float next = fmaxf(most, fmaxf(v.x, v.y));
      total = total * __expf(most - next) + __expf(v.x - next) + __expf(v.y - next);
      most = next;
    }
  }
  for (int d = 16; d > 0; d /= 2) {
    const float other = __shfl_xor_sync(~0u, most, d), part = __shfl_xor_sync(~0u, total, d), next = fmaxf(most, other);
    total = (most == next ? total : total * __expf(most - next)) + (other == next ? part : part * __expf(other - next));
    most = next;
  }
  const float scale = __fdividef(1, total);
  for (int i = threadIdx.x; i < columns / 8; i += 32) {
    const uint4 words = from[i];
    const half2 *pairs = reinterpret_cast<const half2 *>(&words);
    uint4 results;
    for (int j = 0; j < 4; ++j) {
      const float2 v = __half22float2(pairs[j]);
      reinterpret_cast<half2 *>(&results)[j] = __floats2half2_rn(__expf(v.x - most) * scale, __expf(v.y - most) * scale);
    }
    to[i] = results;
  }
}

// Keeps what is positive, in order: ranks by ballots in a warp, by a scan over warps in a block.
extern "C" __global__ void compact(const int *x, int *kept, int *count, int n) {
  __shared__ int sums[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int base = 0;
  for (int at = 0; at < n; at += blockDim.x) {
    const int i = at + threadIdx.x;
    const int value = i < n ? x[i] : 0;
    const unsigned votes = __ballot_sync(~0u, value > 0);
    if (lane == 0) {
      sums[warp] = __popc(votes);
    }
    __syncthreads();
    if (warp == 0) {
      int sum = lane < blockDim.x / 32 ? sums[lane] : 0;
      for (int d = 1; d < 32; d *= 2) {
        const int lower = __shfl_up_sync(~0u, sum, d);
        sum += lane >= d ? lower : 0;
      }
      sums[lane] = sum;
    }
    __syncthreads();
    const int before = warp ? sums[warp - 1] : 0, all = sums[blockDim.x / 32 - 1];
    if (value > 0) {
      kept[base + before + __popc(votes & ((1u << lane) - 1))] = value;
    }
    base += all;
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    *count = base;
  }
}

// The Cholesky factor of a 32 x 32 matrix in double precision by one warp: lane i holds row i in registers.
extern "C" __global__ void cholesky(const double *a, double *factor) {
  const int lane = threadIdx.x;
  double row[32];
#pragma unroll
  for (int j = 0; j < 32; ++j) {
    row[j] = a[(blockIdx.x * 32 + lane) * 32 + j];
  }
#pragma unroll
  for (int k = 0; k < 32; ++k) {
    const double pivot = sqrt(__shfl_sync(~0u, row[k], k));
    row[k] = lane == k ? pivot : row[k] / pivot;
#pragma unroll
    for (int j = k + 1; j < 32; ++j) {
      row[j] = fma(-row[k], __shfl_sync(~0u, row[k], j), row[j]);
    }
  }
#pragma unroll
  for (int j = 0; j < 32; ++j) {
    factor[(blockIdx.x * 32 + lane) * 32 + j] = j <= lane ? row[j] : 0.0;
  }
}

// Philox numbers (ten rounds) shuffle sixteen small integers that each thread keeps in its own memory.
extern "C" __global__ void shuffle(unsigned seed, uint8_t *out, unsigned *numbers, int n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) {
    return;
  }
  uint8_t items[16];
  for (int j = 0; j < 16; ++j) {
    items[j] = uint8_t(j);
  }
  for (unsigned block = 0; block < 4; ++block) {
    uint4 c = make_uint4(i, block, 0, 0);
    uint2 key = make_uint2(seed, 0x1234567);
    for (int round = 0; round < 10; ++round) {
      const unsigned h0 = __umulhi(0xD2511F53u, c.x), l0 = 0xD2511F53u * c.x, h1 = __umulhi(0xCD9E8D57u, c.z),
                     l1 = 0xCD9E8D57u * c.z;
      c = make_uint4(h1 ^ c.y ^ key.x, l1, h0 ^ c.w ^ key.y, l0);
      key.x += 0x9E3779B9u;
      key.y += 0xBB67AE85u;
    }
    const unsigned words[4] = {c.x, c.y, c.z, c.w};
    for (int w = 0; w < 4; ++w) {
      const int last = 15 - int(block * 4) - w, other = int(words[w] % unsigned(last + 1));
      const uint8_t kept = items[last];
      items[last] = items[other];
      items[other] = kept;
    }
    numbers[4 * i + block] = c.x ^ c.y ^ c.z ^ c.w;
  }
  for (int j = 0; j < 16; ++j) {
    out[16 * i + j] = items[j];
  }
}

// Causal attention of 16 queries by a warp, 32 channels in bf16; tiles of 16 keys pass through shared memory.
extern "C" __global__ void attention_bf16(const __nv_bfloat16 *q, const __nv_bfloat16 *k, const __nv_bfloat16 *v, float *out) {
  __shared__ __align__(16) __nv_bfloat16 ks[16][40], vs[16][40];
  const int lane = threadIdx.x, g = lane / 4, t = lane % 4, first = blockIdx.x * 16;
  auto pair = [](const __nv_bfloat16 *p) { return *reinterpret_cast<const uint32_t *>(p); };
  auto address = [](const void *p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); };
  auto multiply = [](float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  };
  uint32_t queries[2][4];
  for (int s = 0; s < 2; ++s) {
    for (int r = 0; r < 4; ++r) {
      queries[s][r] = pair(q + (first + g + r % 2 * 8) * 32 + s * 16 + r / 2 * 8 + 2 * t);
    }
  }
  float most[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0}, sums[4][4] = {};
  for (int at = 0; at <= first; at += 16) {
    for (int i = lane; i < 64; i += 32) {
      *reinterpret_cast<uint4 *>(&ks[i / 4][i % 4 * 8]) = *reinterpret_cast<const uint4 *>(k + (at + i / 4) * 32 + i % 4 * 8);
      *reinterpret_cast<uint4 *>(&vs[i / 4][i % 4 * 8]) = *reinterpret_cast<const uint4 *>(v + (at + i / 4) * 32 + i % 4 * 8);
    }
    __syncwarp();
    float scores[2][4] = {};
    for (int half = 0; half < 2; ++half) {
      for (int s = 0; s < 2; ++s) {
        multiply(scores[half], queries[s], pair(&ks[half * 8 + g][s * 16 + 2 * t]), pair(&ks[half * 8 + g][s * 16 + 8 + 2 * t]));
      }
      for (int i = 0; i < 4; ++i) {
        const int key = at + half * 8 + 2 * t + i % 2, query = first + g + i / 2 * 8;
        scores[half][i] = key <= query ? scores[half][i] * 0.17677669f : -INFINITY;
      }
    }
    for (int r = 0; r < 2; ++r) {
      float best = most[r];
      for (int half = 0; half < 2; ++half) {
        best = fmaxf(best, fmaxf(scores[half][2 * r], scores[half][2 * r + 1]));
      }
      best = fmaxf(best, __shfl_xor_sync(~0u, best, 1));
      best = fmaxf(best, __shfl_xor_sync(~0u, best, 2));
      const float kept = __expf(most[r] - best);
      most[r] = best;
      float sum = 0;
      for (int half = 0; half < 2; ++half) {
        for (int i = 2 * r; i < 2 * r + 2; ++i) {
          scores[half][i] = __expf(scores[half][i] - best);
          sum += scores[half][i];
        }
      }
      total[r] = total[r] * kept + sum;
      for (int n = 0; n < 4; ++n) {
        sums[n][2 * r] *= kept;
        sums[n][2 * r + 1] *= kept;
      }
    }
    uint32_t weights[4];
    for (int r = 0; r < 4; ++r) {
      const __nv_bfloat162 two = __floats2bfloat162_rn(scores[r / 2][r % 2 * 2], scores[r / 2][r % 2 * 2 + 1]);
      weights[r] = *reinterpret_cast<const uint32_t *>(&two);
    }
    for (int n = 0; n < 4; n += 2) {
      uint32_t b[4];
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                   : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                   : "r"(address(&vs[lane % 16][(n + lane / 16) * 8])));
      multiply(sums[n], weights, b[0], b[1]);
      multiply(sums[n + 1], weights, b[2], b[3]);
    }
    __syncwarp();
  }
  for (int r = 0; r < 2; ++r) {
    float all = total[r];
    all += __shfl_xor_sync(~0u, all, 1);
    all += __shfl_xor_sync(~0u, all, 2);
    for (int n = 0; n < 4; ++n) {
      for (int i = 0; i < 2; ++i) {
        out[(first + g + r * 8) * 32 + n * 8 + 2 * t + i] = sums[n][2 * r + i] / all;
      }
    }
  }
}
