// Score regions whose numbers stock folders bring to other shapes: one row, one head, tables of slopes.
// RUN: kvc-compile %s --emit=vector --target=sm_80 2>/dev/null | FileCheck %s
// RUN: kvc-compile %s --emit=vector --target=sm_90a -o %t
// RUN: kvc-compile %s --emit=vector --target=gfx942 -o %t
// RUN: kvc-compile %s --emit=vector --target=gfx1100 -o %t

!kv = !kvcache.cache<heads = 1, dim = 64, page = 16, k = f16, v = f16>

// One head: its slope is known, and a distance is all that a score changes by.
// CHECK-LABEL: func.func private @attention_decode(
// CHECK: tile.lane_mma
func.func @alibi_one_head(%q: tensor<?x1x64xf32>, %c: !kv, %b: !kvcache.batch) -> tensor<?x1x64xf32> {
  %o = kvcache.attention %q over %c at %b {scale = 0.125 : f32, causal} score {
  ^bb0(%s: f32, %e: index, %h: index, %qp: index, %kp: index):
    %t = kvcache.alibi %s, %h, %qp, %kp of 1 heads
    kvcache.yield %t
  } : (tensor<?x1x64xf32>, !kv, !kvcache.batch) -> tensor<?x1x64xf32>
  return %o : tensor<?x1x64xf32>
}

// One KV head with a group.
// CHECK-LABEL: func.func private @attention_decode_0(
// CHECK: tile.lane_mma
func.func @alibi_group(%q: tensor<?x4x64xf32>, %c: !kv, %b: !kvcache.batch) -> tensor<?x4x64xf32> {
  %o = kvcache.attention %q over %c at %b {scale = 0.125 : f32, causal} score {
  ^bb0(%s: f32, %e: index, %h: index, %qp: index, %kp: index):
    %t = kvcache.alibi %s, %h, %qp, %kp of 4 heads
    kvcache.yield %t
  } : (tensor<?x4x64xf32>, !kv, !kvcache.batch) -> tensor<?x4x64xf32>
  return %o : tensor<?x4x64xf32>
}
