// Attention where groups of warps multiply out of staging memory: some warps copy, two groups compute.
// RUN: kvc-compile %s --emit=vector --target=sm_90a 2>/dev/null | FileCheck %s
// RUN: kvc-compile %s --emit=ptx --target=sm_90a 2>/dev/null | FileCheck %s --check-prefix=PTX
// RUN: kvc-compile %s --remarks --emit=vector --target=sm_90a -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

!kv = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16>
!narrow = !kvcache.cache<heads = 2, dim = 64, page = 5, k = f16, v = f16>
!codes = !kvcache.cache<heads = 2, dim = 64, page = 16, k = int8, v = int8>

// Decode: eight warps, none of which does nothing but copy.
// CHECK-LABEL: func.func private @attention_decode(
// CHECK-SAME: tile.schedule = #tile.schedule<prefill_tokens = 32, slots = 128, split = 1024, warps = 8, stages = 3>
// CHECK-SAME: tile.team = 256 : i64
// CHECK-NOT: tile.set_registers
// CHECK: tile.lane_mma "m16n8k16.f16"
// Keys and values are boxes of the pool: head blocks of 4 KiB, keys in front of values.
// CHECK-LABEL: func.func private @attention(
// CHECK-SAME: tile.boxes = [#tile.boxes<argument = 4, offset = 0, strides = [128, 128, 1024, 4096], extents = [64, 8, 1, 2], box = [64, 8, 1, 2, 1], swizzle = 128>,
// CHECK-SAME: #tile.boxes<argument = 4, offset = 2048, strides = [128, 128, 1024, 4096], extents = [64, 8, 1, 2], box = [64, 8, 1, 2, 1], swizzle = 128>]
// CHECK-SAME: tile.schedule = #tile.schedule<prefill_tokens = 32, slots = 128, split = 1024, warps = 8, stages = 3, producers = 4>
// CHECK-SAME: tile.team = 384 : i64
// Prefill: one warp arrives when a tile is there, eight warps when they have read a stage. Queries stay in registers.
// CHECK: tile.phase_init {{.*}} arrivals 1 :
// CHECK-NEXT: tile.phase_init {{.*}} arrivals 8
// CHECK: tile.publish
// CHECK: gpu.barrier
// CHECK: tile.set_registers 232 more
// The first tile. What boxes bring needs no fence.
// CHECK: tile.phase_wait
// CHECK-NOT: tile.publish
// CHECK: tile.group_mma "m64k16.f16"(%
// CHECK: tile.group_mma_wait 0
// CHECK: tile.phase_arrive
// CHECK: math.exp2
// CHECK: tile.phase_wait
// Scores of a tile and output of the one before are on their way together. The values of the tile are waited for between
// its softmax and the output.
// CHECK: scf.for
// CHECK: tile.phase_wait
// CHECK-NOT: tile.publish
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
// CHECK-NOT: tile.publish
// CHECK: tile.group_mma "m64k16.f16"(%
// CHECK: tile.group_mma_wait 0
// The warps that copy: one of them. Whole tiles are boxes.
// CHECK: tile.set_registers 40
// CHECK: scf.if
// CHECK: %[[KEYS:.*]] = tile.box_map 0
// CHECK: %[[VALUES:.*]] = tile.box_map 1
// CHECK: scf.for
// CHECK: tile.phase_wait
// CHECK: tile.copy_boxes 8 of %[[KEYS]][%{{[0-9]+}}] to {{.*}} bytes 2048 arrive[
// The last tile has slots that do not count: zeros arrive for them, and the copying warp makes all visible.
// CHECK: } else {
// CHECK: tile.copy_async
// CHECK: tile.commit_async
// CHECK: tile.phase_wait
// CHECK: tile.copy_boxes 8 of %[[VALUES]][%{{[0-9]+}}] to {{.*}} bytes 2048 arrive[
// CHECK: } else {
// CHECK: tile.copy_async
// CHECK: tile.commit_async
// CHECK-NEXT: tile.wait_async 1
// CHECK-NEXT: tile.publish
// CHECK-NEXT: tile.warp_barrier
// CHECK: tile.phase_arrive
// CHECK: tile.wait_async 0
// CHECK-NEXT: tile.publish
// CHECK-NEXT: tile.warp_barrier
// CHECK: tile.phase_arrive

// PTX: .entry attention(
// PTX: .param .align 64 .b8 attention_param_[[FIRST:[0-9]+]][128],
// PTX-NEXT: .param .align 64 .b8 attention_param_{{[0-9]+}}[128]
// PTX: .minnctapersm 1
// PTX: cvta.param.u64
// PTX: setmaxnreg.inc.sync.aligned.u32 232;
// PTX: mbarrier.try_wait.parity.shared::cta.b64
// PTX: wgmma.fence.sync.aligned;
// PTX: wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16
// PTX: wgmma.commit_group.sync.aligned;
// PTX: setmaxnreg.dec.sync.aligned.u32 40;
// PTX: shfl.sync.idx.b32 block0,
// PTX: elect.sync _|one, -1;
// PTX-NEXT: @!one bra started;
// PTX-NEXT: mbarrier.arrive.expect_tx.shared::cta.b64 _, [%[[BARRIER:r[0-9]+]]+[[AT:[0-9]+]]], 16384;
// PTX-NEXT: cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%{{r[0-9]+}}+0], [%{{rd[0-9]+}}, {zero, zero, zero, zero, block0}], [%[[BARRIER]]+[[AT]]];
// PTX-COUNT-7: cp.async.bulk.tensor.5d
// PTX-NEXT: started:
func.func @causal(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) -> tensor<?x8x64xf32> {
  %o = kvcache.attention %q over %c at %b {scale = 0.125 : f32, causal} : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return %o : tensor<?x8x64xf32>
}

// Pages of five slots: tiles begin within them. Each lane arrives when its pieces of 16 bytes do; those that compute make them visible.
// CHECK-LABEL: func.func private @attention_0(
// CHECK-NOT: tile.boxes
// CHECK: tile.phase_init {{.*}} arrivals 32
// CHECK: tile.phase_wait
// CHECK-NEXT: tile.publish
// CHECK: tile.set_registers 40
// CHECK: tile.copy_async
// CHECK: tile.phase_arrive {{.*}} after_copies
// CHECK: tile.copy_async
// CHECK: tile.phase_arrive {{.*}} after_copies
// PTX: cp.async.mbarrier.arrive.noinc.shared::cta.b64
// REMARK-DAG: warp-groups.mlir:[[#@LINE+2]]:8: remark: [Missed] boxes | Category:attention | Remark="whole tiles are copied in pieces of 16 bytes: tiles may begin within a page, or pages hold few slots"
func.func @narrow(%q: tensor<?x8x64xf32>, %c: !narrow, %b: !kvcache.batch) -> tensor<?x8x64xf32> {
  %o = kvcache.attention %q over %c at %b {scale = 0.125 : f32, causal} : (tensor<?x8x64xf32>, !narrow, !kvcache.batch) -> tensor<?x8x64xf32>
  return %o : tensor<?x8x64xf32>
}

// REMARK-DAG: warp-groups.mlir:[[#@LINE+2]]:8: remark: [Missed] roles | Category:attention | Remark="no products of warp groups: keys and values are not rows of one 16-bit format in pages alone, used as they are stored"
func.func @codes(%q: tensor<?x8x64xf32>, %c: !codes, %b: !kvcache.batch) -> tensor<?x8x64xf32> {
  %o = kvcache.attention %q over %c at %b {scale = 0.125 : f32, causal} : (tensor<?x8x64xf32>, !codes, !kvcache.batch) -> tensor<?x8x64xf32>
  return %o : tensor<?x8x64xf32>
}
