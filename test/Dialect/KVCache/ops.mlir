// Every operation is printed as it is written, in generic form, and in bytecode.
// RUN: kvc-opt %s | FileCheck %s
// RUN: kvc-opt %s | kvc-opt | FileCheck %s
// RUN: kvc-opt %s --mlir-print-op-generic | kvc-opt | FileCheck %s
// RUN: kvc-opt %s --emit-bytecode | kvc-opt | FileCheck %s

#rope = #kvcache.rope<base = 10000.0 : f32, dims = 64, pairing = half>
#half = #kvcache.rope<base = 10000.0 : f32, dims = 32, pairing = adjacent>
!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
!mla = !kvcache.cache<heads = 1, dim = 576, v_dim = 512, page = 16, k = bf16, v = bf16>
!kivi = !kvcache.cache<heads = 2, dim = 64, page = 32, k = int4<axis = channel>, v = int4, residual = 128>
!own = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored, tables = per_head, planes = [score]>
!full = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, planes = [minmax, score, norm]>
!rope = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored>

// Caches and rotations are written once.
// CHECK-DAG: #rope{{[0-9]*}} = #kvcache.rope<base = 1.000000e+04 : f32, dims = 64, pairing = half>
// CHECK-DAG: #rope{{[0-9]*}} = #kvcache.rope<base = 1.000000e+04 : f32, dims = 32, pairing = adjacent>
// CHECK-DAG: !kv{{[0-9]*}} = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
// CHECK-DAG: !kv{{[0-9]*}} = !kvcache.cache<heads = 2, dim = 64, page = 32, k = int4<axis = channel>, v = int4, residual = 128>

// CHECK-LABEL: func @weight
// CHECK: kvcache.weight "blk.0.attn_q.weight" : tensor<576x576xf32, #kvcache.encoded<"q4_1">>
func.func @weight() -> tensor<576x576xf32, #kvcache.encoded<"q4_1">> {
  %w = kvcache.weight "blk.0.attn_q.weight" : tensor<576x576xf32, #kvcache.encoded<"q4_1">>
  return %w : tensor<576x576xf32, #kvcache.encoded<"q4_1">>
}

// CHECK-LABEL: func @sizes
// CHECK: kvcache.entries %{{.*}}
// CHECK: kvcache.max_length %{{.*}} at %{{.*}} : !kv{{[0-9]*}}
func.func @sizes(%c: !kv, %batch: !kvcache.batch) -> (index, index) {
  %n = kvcache.entries %batch
  %m = kvcache.max_length %c at %batch : !kv
  return %n, %m : index, index
}

// CHECK-LABEL: func @rope
// CHECK: kvcache.rope %{{.*}} at %{{.*}} by #rope{{[0-9]*}} : tensor<?x8x64xf32>
func.func @rope(%q: tensor<?x8x64xf32>, %batch: !kvcache.batch) -> tensor<?x8x64xf32> {
  %r = kvcache.rope %q at %batch by #rope : tensor<?x8x64xf32>
  return %r : tensor<?x8x64xf32>
}

// CHECK-LABEL: func @append
// CHECK: kvcache.append %{{.*}}, %{{.*}}, %{{.*}} at %{{.*}} : !kv{{[0-9]*}}, tensor
// CHECK: kvcache.append %{{.*}}, %{{.*}}, %{{.*}} at %{{.*}} by #rope{{[0-9]*}} :
func.func @append(%c0: !kv, %k: tensor<?x2x64xf32>, %v: tensor<?x2x64xf32>, %batch: !kvcache.batch) -> !kv {
  %c1 = kvcache.append %c0, %k, %v at %batch : !kv, tensor<?x2x64xf32>, tensor<?x2x64xf32>
  %c2 = kvcache.append %c1, %k, %v at %batch by #half
      : !kv, tensor<?x2x64xf32>, tensor<?x2x64xf32>
  return %c2 : !kv
}

// CHECK-LABEL: func @fewer_slots
// CHECK: kvcache.compact %{{.*}} keep %{{.*}} at %{{.*}} : !kv{{[0-9]*}}, !kvcache.selection<token>
// CHECK: kvcache.evict %{{.*}} by %{{.*}} at %{{.*}} {budget = 256 : i64, first = 4 : i64, last = 32 : i64}
// CHECK: kvcache.truncate %{{.*}} to %{{.*}} at %{{.*}} : !kv{{[0-9]*}}, tensor<?xi32>
func.func @fewer_slots(%c: !own, %keep: !kvcache.selection<token>, %s: tensor<?x2x?xf32>, %l: tensor<?xi32>,
                       %batch: !kvcache.batch) -> (!own, !own, !own) {
  %a = kvcache.compact %c keep %keep at %batch : !own, !kvcache.selection<token>
  %b = kvcache.evict %c by %s at %batch {budget = 256, first = 4, last = 32} : !own, tensor<?x2x?xf32>
  %d = kvcache.truncate %c to %l at %batch : !own, tensor<?xi32>
  return %a, %b, %d : !own, !own, !own
}

// CHECK-LABEL: func @other_slots
// CHECK: kvcache.merge_slots %{{.*}} keep %{{.*}} weighted %{{.*}} at %{{.*}} {min_similarity = 5.000000e-01 : f32} : !kv{{[0-9]*}}, !kvcache.selection<token>, tensor<?x2x?xf32>
// CHECK: kvcache.commit %{{.*}} accept %{{.*}} at %{{.*}} : !kv{{[0-9]*}}, tensor<?xi8>
// CHECK: kvcache.fetch %{{.*}} of %{{.*}} at %{{.*}} : !kv{{[0-9]*}}, !kvcache.selection<token>
func.func @other_slots(%c: !own, %keep: !kvcache.selection<token>, %w: tensor<?x2x?xf32>, %rows: tensor<?xi8>,
                       %batch: !kvcache.batch) -> (!own, !own, !own) {
  %a = kvcache.merge_slots %c keep %keep weighted %w at %batch {min_similarity = 0.5 : f32}
      : !own, !kvcache.selection<token>, tensor<?x2x?xf32>
  %b = kvcache.commit %c accept %rows at %batch : !own, tensor<?xi8>
  %d = kvcache.fetch %c of %keep at %batch : !own, !kvcache.selection<token>
  return %a, %b, %d : !own, !own, !own
}

// The forms of a rotation after `by`.
// CHECK-LABEL: func @by
// CHECK-COUNT-2: by #rope{{[0-9]*}} :
func.func @by(%q: tensor<?x8x64xf32>, %batch: !kvcache.batch) -> tensor<?x8x64xf32> {
  %0 = kvcache.rope %q at %batch by #rope : tensor<?x8x64xf32>
  %1 = kvcache.rope %0 at %batch by <base = 10000.0 : f32, dims = 64, pairing = half> : tensor<?x8x64xf32>
  return %1 : tensor<?x8x64xf32>
}

// CHECK-LABEL: func @rebase
// CHECK: kvcache.rebase %{{.*}} at %{{.*}} by #rope{{[0-9]*}} :
func.func @rebase(%c: !rope, %batch: !kvcache.batch) -> !rope {
  %r = kvcache.rebase %c at %batch by #rope : !rope
  return %r : !rope
}

// CHECK-LABEL: func @accumulate
// CHECK: kvcache.accumulate add
// CHECK: kvcache.accumulate decay %{{.*}}, %{{.*}} at %{{.*}} {decay = 5.000000e-01 : f32}
// CHECK: kvcache.accumulate max
// CHECK: kvcache.accumulate replace
func.func @accumulate(%c0: !full, %s: tensor<?x2x?xf32>, %batch: !kvcache.batch) -> !full {
  %c1 = kvcache.accumulate add %c0, %s at %batch : !full, tensor<?x2x?xf32>
  %c2 = kvcache.accumulate decay %c1, %s at %batch {decay = 0.5 : f32} : !full, tensor<?x2x?xf32>
  %c3 = kvcache.accumulate max %c2, %s at %batch : !full, tensor<?x2x?xf32>
  %c4 = kvcache.accumulate replace %c3, %s at %batch : !full, tensor<?x2x?xf32>
  return %c4 : !full
}

// CHECK-LABEL: func @storage
// CHECK: kvcache.seal %{{.*}} at %{{.*}} :
// CHECK: kvcache.requantize %{{.*}} at %{{.*}} : !kv{{[0-9]*}} to !kv{{[0-9]*}}
func.func @storage(%c: !kivi, %batch: !kvcache.batch) -> !kv {
  %s = kvcache.seal %c at %batch : !kivi
  %r = kvcache.requantize %s at %batch : !kivi to !kv
  return %r : !kv
}

// CHECK-LABEL: func @copies
// CHECK: kvcache.copy %{{.*}} :
// CHECK: kvcache.fork %{{.*}} from %{{.*}} to %{{.*}} :
func.func @copies(%c: !kv, %a: index, %b: index) -> (!kv, !kv) {
  %d = kvcache.copy %c : !kv
  %f = kvcache.fork %d from %a to %b : !kv
  return %c, %f : !kv, !kv
}

// CHECK-LABEL: func @attention_plain
// CHECK: kvcache.attention %{{.*}} over %{{.*}} at %{{.*}} {causal, scale = 1.250000e-01 : f32} : (tensor<?x8x64xf32>, !kv{{[0-9]*}}, !kvcache.batch) -> tensor<?x8x64xf32>
func.func @attention_plain(%q: tensor<?x8x64xf32>, %c: !kv, %batch: !kvcache.batch) -> tensor<?x8x64xf32> {
  %out = kvcache.attention %q over %c at %batch {scale = 0.125 : f32, causal}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return %out : tensor<?x8x64xf32>
}

// CHECK-LABEL: func @attention_everything
// CHECK: kvcache.attention %{{.*}} over %{{.*}}, %{{.*}} at %{{.*}} select %{{.*}} tree %{{.*}} sink_logits %{{.*}} capture %{{.*}} returns (lse, out)
// CHECK-SAME: selected_segments = array<i64: 0>
// CHECK-SAME: score {
// CHECK: kvcache.soft_cap %{{.*}}, 3.000000e+01
// CHECK: kvcache.alibi %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} of 8 heads
// CHECK: kvcache.yield
func.func @attention_everything(%q: tensor<?x8x64xf32>, %prefix: !kivi, %own: !kv, %batch: !kvcache.batch,
                                %sel: !kvcache.selection<page>, %tree: tensor<?x?xi8>, %sink: tensor<8xf32>, %bias: f32)
    -> (tensor<?x8xf32>, tensor<?x8x64xf32>) {
  %lse, %out = kvcache.attention %q over %prefix, %own at %batch select %sel tree %tree sink_logits %sink capture %bias
      returns (lse, out) {scale = 0.125 : f32, causal, window = 1024, sinks = 4, selected_segments = array<i64: 0>}
      score {
      ^bb0(%s: f32, %b: index, %h: index, %qp: index, %kp: index, %x: f32):
        %t = kvcache.soft_cap %s, 30.0
        %u = kvcache.alibi %t, %h, %qp, %kp of 8 heads
        %w = arith.addf %u, %x : f32
        kvcache.yield %w
      } : (tensor<?x8x64xf32>, !kivi, !kv, !kvcache.batch, !kvcache.selection<page>, tensor<?x?xi8>, tensor<8xf32>, f32)
        -> (tensor<?x8xf32>, tensor<?x8x64xf32>)
  return %lse, %out : tensor<?x8xf32>, tensor<?x8x64xf32>
}

// CHECK-LABEL: func @attention_stats
// CHECK: returns (out, stats) {scale = 1.250000e-01 : f32, stat = #kvcache.stat<sum>, stat_rows = 32 : i64}
func.func @attention_stats(%q: tensor<?x8x64xf32>, %c: !kv, %batch: !kvcache.batch)
    -> (tensor<?x8x64xf32>, tensor<?x2x?xf32>) {
  %out, %stats = kvcache.attention %q over %c at %batch returns (out, stats)
      {scale = 0.125 : f32, stat = #kvcache.stat<sum>, stat_rows = 32}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> (tensor<?x8x64xf32>, tensor<?x2x?xf32>)
  return %out, %stats : tensor<?x8x64xf32>, tensor<?x2x?xf32>
}

// CHECK-LABEL: func @attention_hits
// CHECK: {scale = 1.250000e-01 : f32, stat = #kvcache.stat<hits>, stat_stride = 4 : i64, stat_threshold = 2.500000e-01 : f32}
func.func @attention_hits(%q: tensor<?x8x64xf32>, %c: !kv, %batch: !kvcache.batch) -> tensor<?x2x?xf32> {
  %stats = kvcache.attention %q over %c at %batch returns (stats)
      {scale = 0.125 : f32, stat = #kvcache.stat<hits>, stat_threshold = 0.25 : f32, stat_stride = 4}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x2x?xf32>
  return %stats : tensor<?x2x?xf32>
}

// CHECK-LABEL: func @attention_mla
// CHECK: (tensor<?x128x576xf32>, {{.*}}) -> tensor<?x128x512xf32>
func.func @attention_mla(%q: tensor<?x128x576xf32>, %c: !mla, %batch: !kvcache.batch) -> tensor<?x128x512xf32> {
  %out = kvcache.attention %q over %c at %batch {scale = 0.04 : f32, causal}
      : (tensor<?x128x576xf32>, !mla, !kvcache.batch) -> tensor<?x128x512xf32>
  return %out : tensor<?x128x512xf32>
}

// CHECK-LABEL: func @attend
// CHECK: kvcache.attend %{{.*}}, %{{.*}}, %{{.*}} with %{{.*}} at %{{.*}} {layer = 3 : i64, phase = "decode", scale = 1.250000e-01 : f32}
func.func @attend(%q: tensor<?x8x64xf32>, %k: tensor<?x2x64xf32>, %v: tensor<?x2x64xf32>, %c0: !kv,
                  %batch: !kvcache.batch) -> (tensor<?x8x64xf32>, !kv) {
  %out, %c1 = kvcache.attend %q, %k, %v with %c0 at %batch {layer = 3 : i64, phase = "decode", scale = 0.125 : f32}
      : tensor<?x8x64xf32>, tensor<?x2x64xf32>, tensor<?x2x64xf32>, !kv -> tensor<?x8x64xf32>
  return %out, %c1 : tensor<?x8x64xf32>, !kv
}

// CHECK-LABEL: func @select
// CHECK: kvcache.score bound %{{.*}}, %{{.*}} at %{{.*}} :
// CHECK: kvcache.score dot %{{.*}}, %{{.*}} at %{{.*}} :
// CHECK: kvcache.score key_norm %{{.*}} at %{{.*}} :
// CHECK: kvcache.score plane %{{.*}} at %{{.*}} :
// CHECK: kvcache.pool max %{{.*}} {kernel = 7 : i64} : tensor<?x2x?xf32>
// CHECK: kvcache.topk page %{{.*}}, %{{.*}} at %{{.*}} {first = 1 : i64, k = 64 : i64, last = 2 : i64} : {{.*}} -> !kvcache.selection<page>
// CHECK: kvcache.topk token {{.*}} -> !kvcache.selection<token>
func.func @select(%q: tensor<?x8x64xf32>, %c: !full, %batch: !kvcache.batch)
    -> (!kvcache.selection<page>, !kvcache.selection<token>, tensor<?x2x?xf32>, tensor<?x2x?xf32>) {
  %b = kvcache.score bound %q, %c at %batch : (tensor<?x8x64xf32>, !full, !kvcache.batch) -> tensor<?x2x?xf32>
  %d = kvcache.score dot %q, %c at %batch : (tensor<?x8x64xf32>, !full, !kvcache.batch) -> tensor<?x2x?xf32>
  %n = kvcache.score key_norm %c at %batch : (!full, !kvcache.batch) -> tensor<?x2x?xf32>
  %p = kvcache.score plane %c at %batch : (!full, !kvcache.batch) -> tensor<?x2x?xf32>
  %s = kvcache.pool max %d {kernel = 7} : tensor<?x2x?xf32>
  %pages = kvcache.topk page %b, %c at %batch {k = 64, first = 1, last = 2}
      : tensor<?x2x?xf32>, !full -> !kvcache.selection<page>
  %tokens = kvcache.topk token %s, %c at %batch {k = 64, first = 1, last = 2}
      : tensor<?x2x?xf32>, !full -> !kvcache.selection<token>
  return %pages, %tokens, %n, %p
      : !kvcache.selection<page>, !kvcache.selection<token>, tensor<?x2x?xf32>, tensor<?x2x?xf32>
}

// CHECK-LABEL: func @arithmetic
// CHECK: %[[Z:.*]] = kvcache.map_scores %{{.*}}, %{{.*}} {
// CHECK-NEXT: ^bb0(%{{.*}}: f32, %{{.*}}: f32):
// CHECK-NEXT: arith.subf
// CHECK-NEXT: kvcache.yield
// CHECK-NEXT: } : tensor<?x2x?xf32>
// CHECK: kvcache.threshold token %[[Z]], %{{.*}} at %{{.*}} {first = 4 : i64, last = 32 : i64, value = 5.000000e-01 : f32} : tensor<?x2x?xf32>, !kv{{[0-9]*}} -> !kvcache.selection<token>
func.func @arithmetic(%x: tensor<?x2x?xf32>, %y: tensor<?x2x?xf32>, %c: !kv, %batch: !kvcache.batch)
    -> !kvcache.selection<token> {
  %z = kvcache.map_scores %x, %y {
  ^bb0(%a: f32, %b: f32):
    %d = arith.subf %a, %b : f32
    kvcache.yield %d
  } : tensor<?x2x?xf32>
  %s = kvcache.threshold token %z, %c at %batch {value = 0.5 : f32, first = 4, last = 32}
      : tensor<?x2x?xf32>, !kv -> !kvcache.selection<token>
  return %s : !kvcache.selection<token>
}

// CHECK-LABEL: func @merge
// CHECK: kvcache.merge_states %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tensor<?x8x64xf32>, tensor<?x8xf32>
func.func @merge(%o0: tensor<?x8x64xf32>, %l0: tensor<?x8xf32>, %o1: tensor<?x8x64xf32>, %l1: tensor<?x8xf32>)
    -> (tensor<?x8x64xf32>, tensor<?x8xf32>) {
  %o, %l = kvcache.merge_states %o0, %l0, %o1, %l1 : tensor<?x8x64xf32>, tensor<?x8xf32>
  return %o, %l : tensor<?x8x64xf32>, tensor<?x8xf32>
}

// CHECK-LABEL: func @dense
// CHECK: kvcache.export k %{{.*}} at %{{.*}} {layout = #kvcache.dense_layout<nhd>} : {{.*}} -> tensor<?x?x2x64xf32>
// CHECK: kvcache.export v %{{.*}} at %{{.*}} {layout = #kvcache.dense_layout<hnd>} : {{.*}} -> tensor<?x2x?x64xf32>
// CHECK: kvcache.import %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} at %{{.*}} {layout = #kvcache.dense_layout<nhd>}
func.func @dense(%c: !kv, %lengths: tensor<?xi32>, %batch: !kvcache.batch) -> (!kv, tensor<?x2x?x64xf32>) {
  %k = kvcache.export k %c at %batch {layout = #kvcache.dense_layout<nhd>} : !kv -> tensor<?x?x2x64xf32>
  %v = kvcache.export v %c at %batch {layout = #kvcache.dense_layout<hnd>} : !kv -> tensor<?x2x?x64xf32>
  %c1 = kvcache.import %c, %k, %k, %lengths at %batch {layout = #kvcache.dense_layout<nhd>}
      : !kv, tensor<?x?x2x64xf32>, tensor<?x?x2x64xf32>, tensor<?xi32>
  return %c1, %v : !kv, tensor<?x2x?x64xf32>
}

// CHECK-LABEL: func @online
// CHECK: kvcache.online_attention %{{.*}} over %{{.*}} span %{{.*}}, %{{.*}} at %{{.*}} state %{{.*}}, %{{.*}}, %{{.*}} from_row %{{.*}} from_head %{{.*}} {causal, group = 4 : i64, scale = 1.250000e-01 : f32}
func.func @online(%q: tensor<?x3x64xf32>, %c: !kv, %begin: index, %end: index, %batch: !kvcache.batch,
                  %a: tensor<?x3x64xf32>, %m: tensor<?x3xf32>, %s: tensor<?x3xf32>, %row: index, %head: index)
    -> (tensor<?x3x64xf32>, tensor<?x3xf32>, tensor<?x3xf32>) {
  %a1, %m1, %s1 = kvcache.online_attention %q over %c span %begin, %end at %batch state %a, %m, %s
      from_row %row from_head %head {scale = 0.125 : f32, causal, group = 4 : i64}
      : (tensor<?x3x64xf32>, !kv, index, index, !kvcache.batch, tensor<?x3x64xf32>, tensor<?x3xf32>, tensor<?x3xf32>,
         index, index) -> (tensor<?x3x64xf32>, tensor<?x3xf32>, tensor<?x3xf32>)
  return %a1, %m1, %s1 : tensor<?x3x64xf32>, tensor<?x3xf32>, tensor<?x3xf32>
}

// CHECK-LABEL: func @memory
// CHECK: kvcache.append %{{.*}} : !kvcache.memory<!kv{{[0-9]*}}>, memref<?x2x64xf32>, memref<?x2x64xf32>
func.func @memory(%m: !kvcache.memory<!kv>, %k: memref<?x2x64xf32>, %v: memref<?x2x64xf32>, %batch: !kvcache.batch)
    -> !kvcache.memory<!kv> {
  %n = kvcache.append %m, %k, %v at %batch : !kvcache.memory<!kv>, memref<?x2x64xf32>, memref<?x2x64xf32>
  return %n : !kvcache.memory<!kv>
}

// CHECK-LABEL: func @method
// CHECK-SAME: !kvcache.site<q>
// CHECK: kvcache.topk token {{.*}} {first = 0 : i64, k = #kvcache.param<"budget">, last = 0 : i64} : !kvcache.site<scores>, !kvcache.site<cache>
func.func @method(%q: !kvcache.site<q>, %c: !kvcache.site<cache>, %batch: !kvcache.batch) -> !kvcache.selection<token> {
  %s = kvcache.score dot %q, %c at %batch : (!kvcache.site<q>, !kvcache.site<cache>, !kvcache.batch) -> !kvcache.site<scores>
  %t = kvcache.topk token %s, %c at %batch {k = #kvcache.param<"budget">, first = 0, last = 0}
      : !kvcache.site<scores>, !kvcache.site<cache> -> !kvcache.selection<token>
  return %t : !kvcache.selection<token>
}
