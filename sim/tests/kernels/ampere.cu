// cp.async, ldmatrix and mma.sync: C = A B for one tile of 64 x 64 and any K that is a multiple of 32.
#include <cuda_fp16.h>
#include <stdint.h>

static __device__ uint32_t sharedAddress(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

extern "C" __global__ void ampere(const __half *A, const __half *B, float *C, int K) {
  __shared__ __align__(128) __half a[2][64][32];
  __shared__ __align__(128) __half b[2][32][64];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float c[8][4] = {};
  auto load = [&](int tile, int s) {
    for (int i = threadIdx.x; i < 256; i += 128) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(sharedAddress(&a[s][i / 4][i % 4 * 8])),
                   "l"(A + (i / 4) * K + tile * 32 + i % 4 * 8));
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(sharedAddress(&b[s][i / 8][i % 8 * 8])),
                   "l"(B + (tile * 32 + i / 8) * 64 + i % 8 * 8));
    }
    asm volatile("cp.async.commit_group;");
  };
  load(0, 0);
  for (int tile = 0; tile < K / 32; ++tile) {
    if (tile + 1 < K / 32) {
      load(tile + 1, (tile + 1) & 1);
      asm volatile("cp.async.wait_group 1;");
    } else {
      asm volatile("cp.async.wait_group 0;");
    }
    __syncthreads();
    const int s = tile & 1;
    for (int k = 0; k < 32; k += 16) {
      uint32_t x[4];
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                   : "r"(sharedAddress(&a[s][warp * 16 + lane % 16][k + lane / 16 * 8])));
      for (int n = 0; n < 8; ++n) {
        uint32_t y[2];
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                     : "=r"(y[0]), "=r"(y[1])
                     : "r"(sharedAddress(&b[s][k + lane % 16][n * 8])));
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])
                     : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
      }
    }
    __syncthreads();
  }
  for (int n = 0; n < 8; ++n) {
    for (int i = 0; i < 4; ++i) {
      C[(warp * 16 + lane / 4 + 8 * (i / 2)) * 64 + n * 8 + 2 * (lane % 4) + i % 2] = c[n][i];
    }
  }
}
