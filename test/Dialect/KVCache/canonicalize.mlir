// Folders and canonical forms, and what must stay as it is.
// RUN: kvc-opt %s --canonicalize -split-input-file | FileCheck %s

!kv = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16>
!kivi = !kvcache.cache<heads = 2, dim = 64, page = 32, k = int4<axis = channel>, v = int4, residual = 128>
!ring = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored, window = 128, sinks = 4>
!own = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored, tables = per_head>
#rope = #kvcache.rope<base = 10000.0 : f32, dims = 64, pairing = half>

// CHECK-LABEL: func @append_of_no_rows
// CHECK-NEXT: return %arg0
func.func @append_of_no_rows(%c: !kv, %k: tensor<0x2x64xf32>, %batch: !kvcache.batch) -> !kv {
  %d = kvcache.append %c, %k, %k at %batch : !kv, tensor<0x2x64xf32>, tensor<0x2x64xf32>
  return %d : !kv
}

// Memory is changed in place, so an append may not be looked through there, nor is one that is not used dead.
// CHECK-LABEL: func @append_to_memory_stays
// CHECK: kvcache.append
func.func @append_to_memory_stays(%c: !kvcache.memory<!kv>, %k: memref<?x2x64xf32>, %batch: !kvcache.batch) {
  %d = kvcache.append %c, %k, %k at %batch : !kvcache.memory<!kv>, memref<?x2x64xf32>, memref<?x2x64xf32>
  return
}

// CHECK-LABEL: func @unused_append
// CHECK-NEXT: return
func.func @unused_append(%c: !kv, %k: tensor<?x2x64xf32>, %batch: !kvcache.batch) {
  %d = kvcache.append %c, %k, %k at %batch : !kv, tensor<?x2x64xf32>, tensor<?x2x64xf32>
  return
}

// CHECK-LABEL: func @rope_of_no_rows
// CHECK-NEXT: return %arg0
func.func @rope_of_no_rows(%q: tensor<0x2x64xf32>, %batch: !kvcache.batch) -> tensor<0x2x64xf32> {
  %r = kvcache.rope %q at %batch by #rope : tensor<0x2x64xf32>
  return %r : tensor<0x2x64xf32>
}

// CHECK-LABEL: func @fork_to_itself
// CHECK-NEXT: return %arg0
func.func @fork_to_itself(%c: !kv, %i: index) -> !kv {
  %d = kvcache.fork %c from %i to %i : !kv
  return %d : !kv
}

// CHECK-LABEL: func @idempotent
// CHECK-COUNT-1: kvcache.seal
// CHECK-NOT: kvcache.seal
// CHECK-COUNT-1: kvcache.rebase
// CHECK-NOT: kvcache.rebase
// CHECK-COUNT-1: kvcache.truncate
// CHECK-NOT: kvcache.truncate
func.func @idempotent(%c: !kivi, %d: !own, %l: tensor<?xi32>, %batch: !kvcache.batch) -> (!kivi, !own, !own) {
  %s0 = kvcache.seal %c at %batch : !kivi
  %s1 = kvcache.seal %s0 at %batch : !kivi
  %r0 = kvcache.rebase %d at %batch by #rope : !own
  %r1 = kvcache.rebase %r0 at %batch by #rope : !own
  %t0 = kvcache.truncate %d to %l at %batch : !own, tensor<?xi32>
  %t1 = kvcache.truncate %t0 to %l at %batch : !own, tensor<?xi32>
  return %s1, %r1, %t1 : !kivi, !own, !own
}

// Another batch has other sequences.
// CHECK-LABEL: func @seal_of_two_batches
// CHECK-COUNT-2: kvcache.seal
func.func @seal_of_two_batches(%c: !kivi, %a: !kvcache.batch, %b: !kvcache.batch) -> !kivi {
  %s0 = kvcache.seal %c at %a : !kivi
  %s1 = kvcache.seal %s0 at %b : !kivi
  return %s1 : !kivi
}

// CHECK-LABEL: func @requantize_to_the_same
// CHECK-NEXT: return %arg0
func.func @requantize_to_the_same(%c: !kv, %batch: !kvcache.batch) -> !kv {
  %d = kvcache.requantize %c at %batch : !kv to !kv
  return %d : !kv
}

// CHECK-LABEL: func @pool_of_one
// CHECK-NEXT: return %arg0
func.func @pool_of_one(%s: tensor<?x2x?xf32>) -> tensor<?x2x?xf32> {
  %p = kvcache.pool mean %s {kernel = 1} : tensor<?x2x?xf32>
  return %p : tensor<?x2x?xf32>
}

// CHECK-LABEL: func @compact_that_keeps_all
// CHECK-NEXT: return %arg0
func.func @compact_that_keeps_all(%c: !own, %s: tensor<?x2x64xf32>, %batch: !kvcache.batch) -> !own {
  %keep = kvcache.topk token %s, %c at %batch {k = 64, first = 0, last = 0}
      : tensor<?x2x64xf32>, !own -> !kvcache.selection<token>
  %d = kvcache.compact %c keep %keep at %batch : !own, !kvcache.selection<token>
  return %d : !own
}

// A second selection speaks of the slots that the first compact left: two of them do not become one.
// CHECK-LABEL: func @compact_twice
// CHECK-COUNT-2: kvcache.compact
func.func @compact_twice(%c: !own, %keep: !kvcache.selection<token>, %batch: !kvcache.batch) -> !own {
  %d = kvcache.compact %c keep %keep at %batch : !own, !kvcache.selection<token>
  %e = kvcache.compact %d keep %keep at %batch : !own, !kvcache.selection<token>
  return %e : !own
}

// CHECK-LABEL: func @merge_of_one
// CHECK-NEXT: return %arg0, %arg1
func.func @merge_of_one(%o: tensor<?x8x64xf32>, %l: tensor<?x8xf32>) -> (tensor<?x8x64xf32>, tensor<?x8xf32>) {
  %p, %m = kvcache.merge_states %o, %l : tensor<?x8x64xf32>, tensor<?x8xf32>
  return %p, %m : tensor<?x8x64xf32>, tensor<?x8xf32>
}

// CHECK-LABEL: func @merge_nested
// CHECK-SAME: (%[[O0:.*]]: tensor<?x8x64xf32>, %[[L0:.*]]: tensor<?x8xf32>, %[[O1:.*]]: tensor<?x8x64xf32>, %[[L1:.*]]: tensor<?x8xf32>)
// CHECK-NEXT: kvcache.merge_states %[[O0]], %[[L0]], %[[O0]], %[[L0]], %[[O1]], %[[L1]] :
func.func @merge_nested(%o0: tensor<?x8x64xf32>, %l0: tensor<?x8xf32>, %o1: tensor<?x8x64xf32>, %l1: tensor<?x8xf32>)
    -> (tensor<?x8x64xf32>, tensor<?x8xf32>) {
  %p, %m = kvcache.merge_states %o0, %l0, %o1, %l1 : tensor<?x8x64xf32>, tensor<?x8xf32>
  %q, %n = kvcache.merge_states %o0, %l0, %p, %m : tensor<?x8x64xf32>, tensor<?x8xf32>
  return %q, %n : tensor<?x8x64xf32>, tensor<?x8xf32>
}

// A merge whose result is used elsewhere too would be computed twice.
// CHECK-LABEL: func @merge_nested_used_twice
// CHECK-COUNT-2: kvcache.merge_states
func.func @merge_nested_used_twice(%o: tensor<?x8x64xf32>, %l: tensor<?x8xf32>)
    -> (tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8x64xf32>) {
  %p, %m = kvcache.merge_states %o, %l, %o, %l : tensor<?x8x64xf32>, tensor<?x8xf32>
  %q, %n = kvcache.merge_states %o, %l, %p, %m : tensor<?x8x64xf32>, tensor<?x8xf32>
  return %q, %n, %p : tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8x64xf32>
}

// CHECK-LABEL: func @merge_with_nothing
// CHECK: return %arg0, %arg1
func.func @merge_with_nothing(%o: tensor<4x8x64xf32>, %l: tensor<4x8xf32>) -> (tensor<4x8x64xf32>, tensor<4x8xf32>) {
  %zero = arith.constant dense<0.0> : tensor<4x8x64xf32>
  %none = arith.constant dense<0xFF800000> : tensor<4x8xf32>
  %p, %m = kvcache.merge_states %o, %l, %zero, %none : tensor<4x8x64xf32>, tensor<4x8xf32>
  return %p, %m : tensor<4x8x64xf32>, tensor<4x8xf32>
}

// CHECK-LABEL: func @query_scale
// CHECK: kvcache.attention %arg0 over %arg1 at %arg2 {scale = 6.250000e-02 : f32}
func.func @query_scale(%q: tensor<4x8x64xf32>, %c: !kv, %batch: !kvcache.batch) -> tensor<4x8x64xf32> {
  %half = arith.constant dense<0.5> : tensor<4x8x64xf32>
  %p = arith.mulf %half, %q : tensor<4x8x64xf32>
  %out = kvcache.attention %p over %c at %batch {scale = 0.125 : f32}
      : (tensor<4x8x64xf32>, !kv, !kvcache.batch) -> tensor<4x8x64xf32>
  return %out : tensor<4x8x64xf32>
}

// A scale that leaves f32 stays where it is.
// CHECK-LABEL: func @query_scale_underflow
// CHECK: arith.mulf
func.func @query_scale_underflow(%q: tensor<4x8x64xf32>, %c: !kv, %batch: !kvcache.batch) -> tensor<4x8x64xf32> {
  %tiny = arith.constant dense<1.0e-30> : tensor<4x8x64xf32>
  %p = arith.mulf %tiny, %q : tensor<4x8x64xf32>
  %out = kvcache.attention %p over %c at %batch {scale = 1.0e-30 : f32}
      : (tensor<4x8x64xf32>, !kv, !kvcache.batch) -> tensor<4x8x64xf32>
  return %out : tensor<4x8x64xf32>
}

// CHECK-LABEL: func @region_scale
// CHECK: kvcache.attention %arg0 over %arg1 at %arg2 {scale = 2.500000e-01 : f32} score {
// CHECK-NEXT: ^bb0(%[[S:.*]]: f32,
// CHECK-NEXT: kvcache.soft_cap %[[S]]
func.func @region_scale(%q: tensor<?x8x64xf32>, %c: !kv, %batch: !kvcache.batch) -> tensor<?x8x64xf32> {
  %out = kvcache.attention %q over %c at %batch {scale = 0.125 : f32}
      score {
      ^bb0(%s: f32, %b: index, %h: index, %qp: index, %kp: index):
        %two = arith.constant 2.0 : f32
        %t = arith.mulf %s, %two : f32
        %u = kvcache.soft_cap %t, 30.0
        kvcache.yield %u
      } : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return %out : tensor<?x8x64xf32>
}

// The score is used elsewhere too, or something precedes: the factor stays.
// CHECK-LABEL: func @region_scale_not_first
// CHECK-COUNT-2: arith.mulf
func.func @region_scale_not_first(%q: tensor<?x8x64xf32>, %c: !kv, %batch: !kvcache.batch)
    -> (tensor<?x8x64xf32>, tensor<?x8x64xf32>) {
  %out = kvcache.attention %q over %c at %batch {scale = 0.125 : f32}
      score {
      ^bb0(%s: f32, %b: index, %h: index, %qp: index, %kp: index):
        %two = arith.constant 2.0 : f32
        %t = arith.mulf %s, %two : f32
        %u = arith.addf %t, %s : f32
        kvcache.yield %u
      } : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  %out1 = kvcache.attention %q over %c at %batch {scale = 0.125 : f32}
      score {
      ^bb0(%s: f32, %b: index, %h: index, %qp: index, %kp: index):
        %two = arith.constant 2.0 : f32
        %t = kvcache.soft_cap %s, 30.0
        %u = arith.mulf %t, %two : f32
        kvcache.yield %u
      } : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return %out, %out1 : tensor<?x8x64xf32>, tensor<?x8x64xf32>
}

// CHECK-LABEL: func @identity_region
// CHECK: kvcache.attention %arg0 over %arg1 at %arg2 {scale = 1.250000e-01 : f32} :
func.func @identity_region(%q: tensor<?x8x64xf32>, %c: !kv, %batch: !kvcache.batch, %x: f32) -> tensor<?x8x64xf32> {
  %out = kvcache.attention %q over %c at %batch capture %x {scale = 0.125 : f32}
      score {
      ^bb0(%s: f32, %b: index, %h: index, %qp: index, %kp: index, %y: f32):
        kvcache.yield %s
      } : (tensor<?x8x64xf32>, !kv, !kvcache.batch, f32) -> tensor<?x8x64xf32>
  return %out : tensor<?x8x64xf32>
}

// CHECK-LABEL: func @unused_capture
// CHECK-SAME: %[[USED:[a-z0-9]+]]: f32)
// CHECK: kvcache.attention %arg0 over %arg1 at %arg2 capture %[[USED]] {
// CHECK-NEXT: ^bb0(%{{.*}}: f32, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %{{.*}}: f32):
func.func @unused_capture(%q: tensor<?x8x64xf32>, %c: !kv, %batch: !kvcache.batch, %x: i32, %z: f32) -> tensor<?x8x64xf32> {
  %out = kvcache.attention %q over %c at %batch capture %x, %z {scale = 0.125 : f32}
      score {
      ^bb0(%s: f32, %b: index, %h: index, %qp: index, %kp: index, %y: i32, %w: f32):
        %t = arith.addf %s, %w : f32
        kvcache.yield %t
      } : (tensor<?x8x64xf32>, !kv, !kvcache.batch, i32, f32) -> tensor<?x8x64xf32>
  return %out : tensor<?x8x64xf32>
}

// 132 slots fit into 9 pages of 16.
// CHECK-LABEL: func @selection_of_all_pages_of_a_ring
// CHECK-NOT: topk
// CHECK: kvcache.attention %{{.*}} over %{{.*}} at %{{.*}} {scale = 1.250000e-01 : f32} :
func.func @selection_of_all_pages_of_a_ring(%q: tensor<?x8x64xf32>, %s: tensor<?x2x?xf32>, %c: !ring, %batch: !kvcache.batch)
    -> tensor<?x8x64xf32> {
  %pages = kvcache.topk page %s, %c at %batch {k = 9, first = 0, last = 0}
      : tensor<?x2x?xf32>, !ring -> !kvcache.selection<page>
  %out = kvcache.attention %q over %c at %batch select %pages {scale = 0.125 : f32}
      : (tensor<?x8x64xf32>, !ring, !kvcache.batch, !kvcache.selection<page>) -> tensor<?x8x64xf32>
  return %out : tensor<?x8x64xf32>
}

// CHECK-LABEL: func @selection_of_some_pages_of_a_ring
// CHECK: kvcache.attention %{{.*}} over %{{.*}} at %{{.*}} select %{{.*}} {
func.func @selection_of_some_pages_of_a_ring(%q: tensor<?x8x64xf32>, %s: tensor<?x2x?xf32>, %c: !ring, %batch: !kvcache.batch)
    -> tensor<?x8x64xf32> {
  %pages = kvcache.topk page %s, %c at %batch {k = 8, first = 0, last = 0}
      : tensor<?x2x?xf32>, !ring -> !kvcache.selection<page>
  %out = kvcache.attention %q over %c at %batch select %pages {scale = 0.125 : f32}
      : (tensor<?x8x64xf32>, !ring, !kvcache.batch, !kvcache.selection<page>) -> tensor<?x8x64xf32>
  return %out : tensor<?x8x64xf32>
}

// One of two selections goes: the other says which segment it is for.
// CHECK-LABEL: func @one_selection_of_two
// CHECK: kvcache.attention %{{.*}} over %{{.*}}, %{{.*}} at %{{.*}} select %arg4 {scale = 1.250000e-01 : f32, selected_segments = array<i64: 1>}
func.func @one_selection_of_two(%q: tensor<?x8x64xf32>, %s: tensor<?x2x9xf32>, %c: !ring, %d: !kv,
                                %sel: !kvcache.selection<page>, %batch: !kvcache.batch) -> tensor<?x8x64xf32> {
  %pages = kvcache.topk page %s, %c at %batch {k = 9, first = 0, last = 0}
      : tensor<?x2x9xf32>, !ring -> !kvcache.selection<page>
  %out = kvcache.attention %q over %c, %d at %batch select %pages, %sel {scale = 0.125 : f32}
      : (tensor<?x8x64xf32>, !ring, !kv, !kvcache.batch, !kvcache.selection<page>, !kvcache.selection<page>)
      -> tensor<?x8x64xf32>
  return %out : tensor<?x8x64xf32>
}

// CHECK-LABEL: func @unused_results
// CHECK: %[[LSE:.*]] = kvcache.attention %{{.*}} over %{{.*}} at %{{.*}} returns (lse) {causal, scale = 1.250000e-01 : f32} : {{.*}} -> tensor<?x8xf32>
// CHECK-NEXT: return %[[LSE]]
func.func @unused_results(%q: tensor<?x8x64xf32>, %c: !kv, %batch: !kvcache.batch) -> tensor<?x8xf32> {
  %out, %lse, %stats = kvcache.attention %q over %c at %batch returns (out, lse, stats)
      {scale = 0.125 : f32, causal, stat = #kvcache.stat<sum>, stat_rows = 4}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> (tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x2x?xf32>)
  return %lse : tensor<?x8xf32>
}

// CHECK-LABEL: func @empty_span
// CHECK-NEXT: return %arg3, %arg4
func.func @empty_span(%q: tensor<?x8x64xf32>, %c: !kv, %batch: !kvcache.batch, %a: tensor<?x8x64xf32>, %m: tensor<?x8xf32>)
    -> (tensor<?x8x64xf32>, tensor<?x8xf32>) {
  %begin = arith.constant 8 : index
  %end = arith.constant 4 : index
  %r:3 = kvcache.online_attention %q over %c span %begin, %end at %batch state %a, %m, %m {scale = 0.125 : f32}
      : (tensor<?x8x64xf32>, !kv, index, index, !kvcache.batch, tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>)
      -> (tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>)
  return %r#0, %r#1 : tensor<?x8x64xf32>, tensor<?x8xf32>
}

// -----

// CHECK-LABEL: func @map_scores_of_itself
// CHECK-NEXT: return %arg0
func.func @map_scores_of_itself(%x: tensor<?x2x?xf32>) -> tensor<?x2x?xf32> {
  %z = kvcache.map_scores %x {
  ^bb0(%a: f32):
    kvcache.yield %a
  } : tensor<?x2x?xf32>
  return %z : tensor<?x2x?xf32>
}

// The second operand is not yielded, but where it is -inf the result is.
// CHECK-LABEL: func @map_scores_of_two_stays
// CHECK: kvcache.map_scores
func.func @map_scores_of_two_stays(%x: tensor<?x2x?xf32>, %y: tensor<?x2x?xf32>) -> tensor<?x2x?xf32> {
  %z = kvcache.map_scores %x, %y {
  ^bb0(%a: f32, %b: f32):
    kvcache.yield %a
  } : tensor<?x2x?xf32>
  return %z : tensor<?x2x?xf32>
}
