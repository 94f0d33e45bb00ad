// Attention where groups of warps multiply out of staging memory: some warps copy, two groups compute.
// RUN: kvc-compile %s --emit=vector --target=sm_90a 2>/dev/null | FileCheck %s
// RUN: kvc-compile %s --emit=ptx --target=sm_90a 2>/dev/null | FileCheck %s --check-prefix=PTX
// RUN: kvc-compile %s --remarks --emit=tile --target=sm_90a -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

!kv = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16>
!codes = !kvcache.cache<heads = 2, dim = 64, page = 16, k = int8, v = int8>

// Decode: eight warps, none of which does nothing but copy.
// CHECK-LABEL: func.func private @attention_decode(
// CHECK-SAME: tile.schedule = #tile.schedule<prefill_tokens = 32, slots = 128, split = 1024, warps = 8, stages = 3>
// CHECK-SAME: tile.team = 256 : i64
// CHECK-NOT: tile.set_registers
// CHECK: tile.lane_mma "m16n8k16.f16"
// CHECK-LABEL: func.func private @attention(
// CHECK-SAME: tile.schedule = #tile.schedule<prefill_tokens = 32, slots = 128, split = 1024, warps = 8, stages = 3, producers = 4>
// CHECK-SAME: tile.team = 384 : i64
// Prefill: the lanes of one warp arrive when their copies end, eight warps when they have read a stage. Queries stay in
// registers.
// CHECK: tile.phase_init {{.*}} arrivals 32
// CHECK-NEXT: tile.phase_init {{.*}} arrivals 8
// CHECK: gpu.barrier
// CHECK: tile.set_registers 232 more
// The first tile.
// CHECK: tile.phase_wait
// CHECK-NEXT: tile.publish
// CHECK: tile.group_mma "m64k16.f16"(%
// CHECK: tile.group_mma_wait 0
// CHECK: tile.phase_arrive
// CHECK: math.exp2
// CHECK: tile.phase_wait
// Scores of a tile and output of the one before are on their way together. The values of the tile are waited for between
// its softmax and the output.
// CHECK: scf.for
// CHECK: tile.phase_wait
// CHECK-NEXT: tile.publish
// CHECK: tile.group_mma "m64k16.f16"(%
// CHECK: tile.group_mma "m64k16.f16"(%
// CHECK-SAME: transposed
// CHECK: tile.group_mma_wait 1
// CHECK: tile.phase_arrive
// CHECK: math.exp2
// CHECK: tile.phase_wait
// CHECK-NEXT: tile.group_mma_wait 0
// CHECK: arith.truncf
// CHECK: tile.phase_arrive
// CHECK: scf.yield
// CHECK: tile.group_mma "m64k16.f16"(%
// CHECK: tile.group_mma_wait 0
// The warps that copy: one of them.
// CHECK: tile.set_registers 40
// CHECK: scf.if
// CHECK: scf.for
// CHECK: tile.phase_wait
// CHECK: tile.copy_async
// CHECK: tile.phase_arrive {{.*}} after_copies
// CHECK: tile.phase_wait
// CHECK: tile.copy_async
// CHECK: tile.phase_arrive {{.*}} after_copies

// PTX: .minnctapersm 1
// PTX: setmaxnreg.inc.sync.aligned.u32 232;
// PTX: mbarrier.try_wait.parity.shared::cta.b64
// PTX: wgmma.fence.sync.aligned;
// PTX: wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16
// PTX: wgmma.commit_group.sync.aligned;
// PTX: setmaxnreg.dec.sync.aligned.u32 40;
// PTX: cp.async.mbarrier.arrive.noinc.shared::cta.b64
func.func @causal(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) -> tensor<?x8x64xf32> {
  %o = kvcache.attention %q over %c at %b {scale = 0.125 : f32, causal} : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return %o : tensor<?x8x64xf32>
}

// REMARK: warp-groups.mlir:[[#@LINE+2]]:8: remark: [Missed] roles | Category:attention | Remark="no products of warp groups: keys and values are not rows of one 16-bit format in pages alone, used as they are stored"
func.func @codes(%q: tensor<?x8x64xf32>, %c: !codes, %b: !kvcache.batch) -> tensor<?x8x64xf32> {
  %o = kvcache.attention %q over %c at %b {scale = 0.125 : f32, causal} : (tensor<?x8x64xf32>, !codes, !kvcache.batch) -> tensor<?x8x64xf32>
  return %o : tensor<?x8x64xf32>
}
