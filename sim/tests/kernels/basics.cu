// What ordinary kernels use: libdevice functions, local arrays, shared reductions, warp primitives, atomics, 64-bit division.
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace cg = cooperative_groups;

extern "C" __global__ void softmax(const float *in, float *out, int columns) {
  __shared__ float partial[32];
  const float *row = in + (long long)blockIdx.x * columns;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  float most = -INFINITY;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    most = fmaxf(most, row[i]);
  }
  for (int o = 16; o; o /= 2) {
    most = fmaxf(most, __shfl_xor_sync(~0u, most, o));
  }
  if (lane == 0) {
    partial[warp] = most;
  }
  __syncthreads();
  for (int w = 0; w < warps; ++w) {
    most = fmaxf(most, partial[w]);
  }
  __syncthreads();
  float sum = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    sum += expf(row[i] - most);
  }
  for (int o = 16; o; o /= 2) {
    sum += __shfl_xor_sync(~0u, sum, o);
  }
  if (lane == 0) {
    partial[warp] = sum;
  }
  __syncthreads();
  sum = 0;
  for (int w = 0; w < warps; ++w) {
    sum += partial[w];
  }
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    out[(long long)blockIdx.x * columns + i] = expf(row[i] - most) / sum;
  }
}

__device__ __noinline__ double series(double x, int n) {
  double terms[16];
  double t = 1;
  for (int i = 0; i < n; ++i) {
    terms[i] = t;
    t *= x / (i + 1);
  }
  double sum = 0;
  for (int i = n - 1; i >= 0; --i) {
    sum += terms[i];
  }
  return sum;
}

extern "C" __global__ void mathematics(const float *in, double *out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    const float x = in[i];
    out[6 * i] = sinf(x);
    out[6 * i + 1] = logf(fabsf(x) + 1);
    out[6 * i + 2] = pow((double)fabsf(x), 1.5);
    out[6 * i + 3] = series(x, 16);
    out[6 * i + 4] = (double)((long long)(x * 1e6f) / 1237);
    out[6 * i + 5] = sqrtf(fabsf(x)) + rsqrtf(fabsf(x) + 1) + erff(x);
  }
}

extern "C" __global__ void histogram(const unsigned *in, unsigned *counts, int n) {
  __shared__ unsigned bins[64];
  for (int i = threadIdx.x; i < 64; i += blockDim.x) {
    bins[i] = 0;
  }
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    atomicAdd(&bins[in[i] % 64], 1u);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 64; i += blockDim.x) {
    atomicAdd(&counts[i], bins[i]);
  }
}

extern "C" __global__ void groups(const int *in, int *out, int n) {
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<16>(block);
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  int v = i < n ? in[i] : 0;
  for (int o = tile.size() / 2; o; o /= 2) {
    v += tile.shfl_down(v, o);
  }
  if (tile.thread_rank() == 0) {
    out[i / 16] = v + (int)tile.meta_group_rank();
  }
}

extern "C" __global__ void halves(const __half2 *a, const __nv_bfloat162 *b, __half2 *c, __nv_bfloat162 *d, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    c[i] = __hfma2(a[i], a[i], __hmax2(a[i], __float2half2_rn(0.5f)));
    d[i] = __hfma2(b[i], __float2bfloat162_rn(1.5f), b[i]);
  }
}
