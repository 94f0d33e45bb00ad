// Attention for a target whose lanes are threads: a ring of copies, matrix instructions, masks behind a branch.
// RUN: kvc-compile %s --emit=vector --target=sm_80 2>/dev/null | FileCheck %s

!kv = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16>

// CHECK-LABEL: func.func private @attention_decode(
// CHECK-SAME: tile.schedule = #tile.schedule<prefill_tokens = 32, slots = 64, split = 1024, warps = 4, stages = 2>
// CHECK-SAME: tile.staging = 32768 : i64, tile.team = 128 : i64
// Decode: 8 rows, every warp 32 of 128 slots. Queries go through staging memory once.
// CHECK: gpu.barrier
// CHECK-COUNT-4: tile.load_matrices
// CHECK: gpu.barrier
// CHECK: tile.copy_async
// CHECK: tile.commit_async
// CHECK: scf.for
// Values of the tile are on their way while its keys are used, and keys of the next tile while its values are.
// CHECK: tile.wait_async 0
// CHECK-NEXT: gpu.barrier
// CHECK: tile.copy_async
// CHECK: tile.load_matrices
// CHECK-COUNT-16: tile.lane_mma "m16n8k16.f16"
// Whole tiles carry no masks; the maximum is that of the four lanes of a row.
// CHECK: scf.if
// CHECK: arith.select
// CHECK-COUNT-2: gpu.shuffle xor
// All lanes of a warp rescale or none: factors go to the lanes that hold the rows of the accumulator.
// CHECK: gpu.subgroup_reduce or
// CHECK: scf.if
// CHECK-COUNT-2: gpu.shuffle idx
// CHECK: math.exp2
// CHECK: arith.truncf %{{.*}} : vector<2xf32> to vector<2xf16>
// CHECK: tile.wait_async 0
// CHECK-NEXT: gpu.barrier
// CHECK: tile.load_matrices {{.*}} transposed
// CHECK-COUNT-8: tile.lane_mma "m16n8k16.f16"
// CHECK: scf.yield
// CHECK: tile.wait_async 0
// Warps merge what they hold of a row.
// CHECK: vector.store {{.*}}#gpu.address_space<workgroup>
// CHECK: gpu.barrier
// CHECK: vector.load {{.*}}#gpu.address_space<workgroup>
// Prefill: every warp 32 of the 128 rows, all slots.
// CHECK-LABEL: func.func private @attention(
// CHECK-SAME: tile.staging = 32768 : i64, tile.team = 128 : i64
// CHECK: scf.for
// CHECK-COUNT-64: tile.lane_mma "m16n8k16.f16"
// CHECK: tile.load_matrices {{.*}} transposed
// CHECK-COUNT-64: tile.lane_mma "m16n8k16.f16"
func.func @causal(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) -> tensor<?x8x64xf32> {
  %o = kvcache.attention %q over %c at %b {scale = 0.125 : f32, causal} : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return %o : tensor<?x8x64xf32>
}

!wide = !kvcache.cache<heads = 2, dim = 128, page = 16, k = f16, v = f16>

// With 128 channels a prefill tile has one stage, and its queries stay in front of it; decode has a tile of twice the slots.
// CHECK-LABEL: func.func private @attention_decode_0(
// CHECK-SAME: tile.schedule = #tile.schedule<prefill_tokens = 32, slots = 64, split = 1024, warps = 4>
// CHECK-SAME: tile.staging = 65536 : i64
// Decode.
// CHECK: scf.for
// CHECK: gpu.subgroup_reduce
// CHECK: tile.wait_async 0
// CHECK: tile.wait_async 0
// CHECK-LABEL: func.func private @attention_0(
// CHECK-SAME: tile.staging = 65536 : i64
// Prefill: keys of the first tile, then its values; keys of the next one when all are past its keys.
// CHECK: tile.commit_async
// CHECK-NOT: tile.commit_async
// CHECK: scf.for
// CHECK: tile.wait_async 0
// CHECK-NEXT: gpu.barrier
// CHECK: tile.copy_async
// CHECK: tile.commit_async
// A step's queries are loaded for two instructions' rows.
// CHECK-COUNT-2: tile.load_matrices {{.*}} : memref
// CHECK: tile.lane_mma "m16n8k16.f16"
// CHECK: tile.wait_async 0
// CHECK-NEXT: gpu.barrier
// CHECK: tile.commit_async
// CHECK: tile.load_matrices {{.*}} transposed
func.func @staged_queries(%q: tensor<?x8x128xf32>, %c: !wide, %b: !kvcache.batch) -> tensor<?x8x128xf32> {
  %o = kvcache.attention %q over %c at %b {scale = 0.088 : f32, causal} : (tensor<?x8x128xf32>, !wide, !kvcache.batch) -> tensor<?x8x128xf32>
  return %o : tensor<?x8x128xf32>
}
