// attention: a kernel of tiles of tokens, one of spans of slots, a plan and a merge of spans, statistics in a second pass.
// RUN: kvc-opt %s --kvc-convert-kvcache-to-tile --canonicalize --split-input-file | FileCheck %s

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>

// CHECK-LABEL: func.func @causal
func.func @causal(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) -> tensor<?x8x64xf32> {
  // CHECK: tile.max_length
  // CHECK: tile.dispatch @attention_plan[
  // CHECK: %[[PARTS:.*]]:3 = tile.dispatch @attention_decode[
  // CHECK: %[[TILES:.*]] = tile.dispatch @attention[{{.*}}] ins({{.*}}) outs(%[[PARTS]]#0)
  // CHECK: %[[OUT:.*]] = tile.dispatch @attention_merge[{{.*}}] ins(%[[PARTS]]#1, %[[PARTS]]#2, {{.*}}) outs(%[[TILES]])
  // CHECK: return %[[OUT]]
  %o = kvcache.attention %q over %c at %b {scale = 0.125 : f32, causal} : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return %o : tensor<?x8x64xf32>
}
// All query heads of a KV head are rows of one tile.
// CHECK-LABEL: func.func private @attention_decode(
// CHECK: scf.if
// CHECK: tile.load_rows {{.*}} -> vector<4x64xf32>
// CHECK: scf.for
// CHECK: tile.mma channels
// CHECK: arith.cmpi sle
// CHECK: tile.softmax_step
// CHECK: tile.mma slots
// CHECK: tile.softmax_finish
// 16 tokens of 4 heads; entries with one row are not its own.
// CHECK-LABEL: func.func private @attention(
// CHECK: arith.cmpi ne, %{{.*}}, %c1
// CHECK: scf.if
// CHECK: tile.load_rows {{.*}} -> vector<64x64xf32>
// CHECK-LABEL: func.func private @attention_merge(

// -----

!kivi = !kvcache.cache<heads = 2, dim = 64, page = 32, k = int4<axis = channel>, v = int4, residual = 64>

// Sealed slots come from pages, the others from the tail, in one softmax.
// CHECK-LABEL: func.func private @attention_decode(
// CHECK: tile.operand k pages
// CHECK: tile.operand v pages
// CHECK: tile.operand k tail
// CHECK: tile.operand v tail
func.func @tail(%q: tensor<?x2x64xf32>, %c: !kivi, %b: !kvcache.batch) -> tensor<?x2x64xf32> {
  %o = kvcache.attention %q over %c at %b {scale = 0.125 : f32} : (tensor<?x2x64xf32>, !kivi, !kvcache.batch) -> tensor<?x2x64xf32>
  return %o : tensor<?x2x64xf32>
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16>

// CHECK-LABEL: func.func private @attention(
// CHECK: math.tanh
// CHECK: math.exp2
// CHECK: tile.softmax_step
func.func @score_region(%q: tensor<?x2x64xf32>, %c: !kv, %b: !kvcache.batch) -> tensor<?x2x64xf32> {
  %o = kvcache.attention %q over %c at %b {scale = 0.125 : f32} score {
  ^bb0(%s: f32, %e: index, %h: index, %qp: index, %kp: index):
    %t = kvcache.soft_cap %s, 30.0
    %u = kvcache.alibi %t, %h, %qp, %kp of 2 heads
    kvcache.yield %u
  } : (tensor<?x2x64xf32>, !kv, !kvcache.batch) -> tensor<?x2x64xf32>
  return %o : tensor<?x2x64xf32>
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16>

// CHECK-LABEL: func.func @statistics
// CHECK: tile.dispatch @attention_stats
// CHECK-LABEL: func.func private @attention_stats(
// CHECK: math.exp2
// CHECK: vector.multi_reduction <add>, {{.*}} [0]
// CHECK: tile.store_slot_numbers
func.func @statistics(%q: tensor<?x2x64xf32>, %c: !kv, %b: !kvcache.batch) -> (tensor<?x2x64xf32>, tensor<?x2x?xf32>) {
  %o, %s = kvcache.attention %q over %c at %b returns(out, stats) {scale = 0.125 : f32, causal, stat = #kvcache.stat<sum>, stat_rows = 32}
      : (tensor<?x2x64xf32>, !kv, !kvcache.batch) -> (tensor<?x2x64xf32>, tensor<?x2x?xf32>)
  return %o, %s : tensor<?x2x64xf32>, tensor<?x2x?xf32>
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16>

// Constants are made anew in the kernel; sinks join the state of rows that saw something, where spans are merged too.
// CHECK-LABEL: func.func @sinks
// CHECK: tile.dispatch @attention[{{.*}}] ins(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %[[SINKS:[^)]*]])
// CHECK: tile.dispatch @attention_merge[{{.*}}] ins({{.*}}, %[[SINKS]])
// CHECK-LABEL: func.func private @attention(
// CHECK: tile.load_heads
// CHECK: tile.softmax_finish
func.func @sinks(%q: tensor<?x2x64xf32>, %c: !kv, %b: !kvcache.batch, %s: tensor<2xf32>) -> tensor<?x2x64xf32> {
  %half = arith.constant 0.5 : f32
  %o = kvcache.attention %q over %c at %b sink_logits %s capture %half {scale = 0.125 : f32} score {
  ^bb0(%x: f32, %e: index, %h: index, %qp: index, %kp: index, %f: f32):
    %y = arith.mulf %x, %f : f32
    kvcache.yield %y
  } : (tensor<?x2x64xf32>, !kv, !kvcache.batch, tensor<2xf32>, f32) -> tensor<?x2x64xf32>
  return %o : tensor<?x2x64xf32>
}
