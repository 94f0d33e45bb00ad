// TMA, mbarrier and wgmma: C = A B^T with a producer warp and one consumer warpgroup.
#include <cuda_fp16.h>
#include <stdint.h>

static __device__ uint32_t sharedAddress(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

static __device__ uint64_t descriptor(uint32_t address) {
  // 128-byte swizzle, K-major: 8 rows of 128 bytes follow each other after 1024 bytes.
  return (uint64_t)(address >> 4 & 0x3fff) | (uint64_t)1 << 16 | (uint64_t)64 << 32 | (uint64_t)1 << 62;
}

static __device__ void waitParity(uint32_t barrier, uint32_t parity) {
  asm volatile("{\n.reg .pred p;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra DONE;\nbra WAIT;\nDONE:\n}"
               ::"r"(barrier), "r"(parity) : "memory");
}

struct alignas(64) TensorMap {
  char bytes[128];
};

constexpr int M = 64, N = 64, K = 64, stages = 3;

// Blocks of 160 threads: warps 0-3 multiply, warp 4 loads. Shared memory: stages of A and B, then barriers.
extern "C" __global__ void hopper(const __grid_constant__ TensorMap mapA, const __grid_constant__ TensorMap mapB, float *c,
                                  int tiles, int ldc) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t base = sharedAddress(shared);
  const uint32_t stageBytes = (M + N) * K * 2;
  const uint32_t full = base + stages * stageBytes, empty = full + 8 * stages;
  const int warp = threadIdx.x / 32;
  if (threadIdx.x == 0) {
    for (int i = 0; i < stages; ++i) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full + 8 * i));
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 128;" ::"r"(empty + 8 * i));
    }
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  __syncthreads();
  if (warp == 4) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    uint32_t elected = 0;
    asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(elected));
    if (elected) {
      for (int t = 0; t < tiles; ++t) {
        const int s = t % stages;
        if (t >= stages) {
          waitParity(empty + 8 * s, (t / stages - 1) & 1);
        }
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full + 8 * s), "r"(stageBytes) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     ::"r"(base + s * stageBytes), "l"(&mapA), "r"(t * K), "r"(int(blockIdx.y) * M), "r"(full + 8 * s) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     ::"r"(base + s * stageBytes + M * K * 2), "l"(&mapB), "r"(t * K), "r"(int(blockIdx.x) * N), "r"(full + 8 * s) : "memory");
      }
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 152;");
  float d[32];
  for (int i = 0; i < 32; ++i) {
    d[i] = 0;
  }
  for (int t = 0; t < tiles; ++t) {
    const int s = t % stages;
    waitParity(full + 8 * s, t / stages & 1);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int k = 0; k < K; k += 16) {
      const uint64_t a = descriptor(base + s * stageBytes + 2 * k), b = descriptor(base + s * stageBytes + M * K * 2 + 2 * k);
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
                   "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,"
                   "%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, p, 1, 1, 0, 0;\n}"
                   : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
                     "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
                     "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
                     "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
                   : "l"(a), "l"(b), "r"(1));
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(empty + 8 * s) : "memory");
  }
  const int lane = threadIdx.x % 32;
  for (int i = 0; i < 32; ++i) {
    const int row = blockIdx.y * M + 16 * warp + lane / 4 + 8 * (i / 2 % 2), column = blockIdx.x * N + 8 * (i / 4) + 2 * (lane % 4) + i % 2;
    c[row * ldc + column] = d[i];
  }
}
