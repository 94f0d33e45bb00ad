//===- hopper.cu - Kernels that check.py compares with NumPy, for sm_90a --===//
#include <cooperative_groups.h>
#include <cuda.h>
#include <cuda/barrier>
#include <cuda_fp16.h>
#include <stdint.h>

namespace cg = cooperative_groups;
namespace cde = cuda::device::experimental;
using Barrier = cuda::barrier<cuda::thread_scope_block>;

// A tile of a matrix through TMA, scaled, and back: y = 2 x where the tile is; tiles at the edge are cut.
extern "C" __global__ void tma_scale(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap out) {
  __shared__ alignas(128) float tile[16][32];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ Barrier barrier;
  if (threadIdx.x == 0) {
    init(&barrier, blockDim.x);
    cde::fence_proxy_async_shared_cta();
  }
  __syncthreads();
  Barrier::arrival_token token;
  if (threadIdx.x == 0) {
    cde::cp_async_bulk_tensor_2d_global_to_shared(&tile, &in, blockIdx.x * 32, blockIdx.y * 16, barrier);
    token = cuda::device::barrier_arrive_tx(barrier, 1, sizeof(tile));
  } else {
    token = barrier.arrive();
  }
  barrier.wait(std::move(token));
  for (int i = threadIdx.x; i < 512; i += blockDim.x) {
    tile[i / 32][i % 32] *= 2;
  }
  cde::fence_proxy_async_shared_cta();
  __syncthreads();
  if (threadIdx.x == 0) {
    cde::cp_async_bulk_tensor_2d_shared_to_global(&out, blockIdx.x * 32, blockIdx.y * 16, &tile);
    cde::cp_async_bulk_commit_group();
    cde::cp_async_bulk_wait_group_read<0>();
  }
}

// c[64, 64] = a[64, 64] b[64, 64]^T with wgmma; both lie in shared memory in rows of 128 bytes, swizzled.
extern "C" __global__ void wgmma_f16(const half *a, const half *b, float *c) {
  __shared__ alignas(1024) half as[64 * 64], bs[64 * 64];
  for (int i = threadIdx.x; i < 64 * 64; i += 128) {
    const int row = i / 64, chunk = i % 64 / 8, at = row * 64 + (chunk ^ (row % 8)) * 8 + i % 8;
    as[at] = a[i];
    bs[at] = b[i];
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  float d[32];
  auto descriptor = [](const half *data, int step) {
    const uint64_t address = static_cast<uint64_t>(__cvta_generic_to_shared(data)) + step * 32;
    // Start, leading offset (not used), stride of eight rows (1024 bytes), swizzle of 128 bytes.
    return (address >> 4 & 0x3fff) | uint64_t(1) << 16 | uint64_t(1024 >> 4) << 32 | uint64_t(1) << 62;
  };
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  for (int step = 0; step < 4; ++step) {
    const uint64_t x = descriptor(as, step), y = descriptor(bs, step);
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
                 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,"
                 "%27,%28,%29,%30,%31}, %32, %33, p, 1, 1, 0, 0;\n}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                   "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),
                   "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),
                   "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]),
                   "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
                 : "l"(x), "l"(y), "r"(step));
  }
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int i = 0; i < 32; ++i) {
    const int row = warp * 16 + lane / 4 + i % 4 / 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
    c[row * 64 + column] = d[i];
  }
}

// Blocks of a cluster read each other's shared memory: y = the sum of what all four blocks hold at a place.
extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_sum(const float *x, float *y) {
  __shared__ float mine[64];
  cg::cluster_group cluster = cg::this_cluster();
  mine[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
  cluster.sync();
  float sum = 0;
  for (unsigned rank = 0; rank < cluster.num_blocks(); ++rank) {
    sum += cluster.map_shared_rank(mine, rank)[threadIdx.x] * float(rank + 1);
  }
  cluster.sync();
  y[blockIdx.x * 64 + threadIdx.x] = sum + float(cluster.block_rank());
}

// Two warps make what two others use, through a ring of mbarriers and bulk copies of 512 bytes: y = x summed in chunks.
extern "C" __global__ void bulk_ring(const float *x, float *y, int chunks) {
  __shared__ alignas(128) float ring[2][128];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ Barrier full[2], empty[2];
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) {
      init(&full[i], 1);
      init(&empty[i], 32);
    }
    cde::fence_proxy_async_shared_cta();
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    if (threadIdx.x == 0) {
      for (int i = 0; i < chunks; ++i) {
        if (i >= 2) {
          empty[i % 2].wait_parity((i / 2 - 1) & 1);
        }
        cde::cp_async_bulk_global_to_shared(ring[i % 2], x + i * 128, 512, full[i % 2]);
        (void)cuda::device::barrier_arrive_tx(full[i % 2], 1, 512);
      }
    }
  } else {
    const int lane = threadIdx.x - 32;
    for (int i = 0; i < chunks; ++i) {
      full[i % 2].wait_parity((i / 2) & 1);
      float sum = 0;
      for (int j = lane; j < 128; j += 32) {
        sum += ring[i % 2][j];
      }
      for (int d = 16; d > 0; d /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, d);
      }
      if (lane == 0) {
        y[i] = sum;
      }
      (void)empty[i % 2].arrive();
    }
  }
}
