// Heads whose accumulator exceeds a warp's registers: warps divide the channels of the output, each has all scores, and
// queries stay in staging memory. A group of more heads than rows is several work items.
// RUN: kvc-compile %s --emit=vector --target=sm_80 2>/dev/null | FileCheck %s

!mla = !kvcache.cache<heads = 1, dim = 576, v_dim = 512, page = 16, k = f16, v = f16>

// CHECK-LABEL: func.func private @attention_decode(
// CHECK-SAME: tile.schedule = #tile.schedule<prefill_tokens = 1, slots = 32, split = 1024, warps = 4, stages = 2>
// CHECK: %[[HEADS:.*]] = arith.constant 16 : index
// CHECK: gpu.barrier
// CHECK: vector.store {{.*}} : memref<?xi8, #gpu.address_space<workgroup>>, vector<4xi8>
// CHECK: gpu.barrier
// Queries, then keys of 16 slots: two more for the tile's others.
// CHECK: scf.for
// CHECK: tile.load_matrices
// CHECK: tile.load_matrices
// CHECK-COUNT-2: tile.lane_mma
// CHECK: math.exp2
// Of the output each warp has 128 channels.
// CHECK: tile.load_matrices {{.*}} transposed
// CHECK-COUNT-32: tile.lane_mma
// CHECK: scf.yield
// The states of the warps are whole: nothing is merged through staging memory.
// CHECK-NOT: vector.load {{.*}} : memref<?xi8, #gpu.address_space<workgroup>>
// CHECK: memref.store
func.func @mla(%q: tensor<?x128x576xf32>, %c: !mla, %b: !kvcache.batch) -> tensor<?x128x512xf32> {
  %o = kvcache.attention %q over %c at %b {scale = 0.1 : f32, causal} : (tensor<?x128x576xf32>, !mla, !kvcache.batch) -> tensor<?x128x512xf32>
  return %o : tensor<?x128x512xf32>
}
