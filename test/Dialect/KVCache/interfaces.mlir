// The upstream interfaces of attention and online_attention, driven by the stock transform operations and passes.
// RUN: kvc-opt %s --transform-interpreter --canonicalize --cse --split-input-file | FileCheck %s

!kv = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16>

// attention becomes one online_attention for each segment, and the final division.
// CHECK-LABEL: func @decompose
// CHECK-SAME: (%[[Q:.*]]: tensor<?x8x64xf32>, %[[C0:.*]]: !kv{{[0-9]*}}, %[[C1:.*]]: !kv{{[0-9]*}}, %[[B:.*]]: !kvcache.batch
// CHECK-DAG: %[[NEG:.*]] = arith.constant 0xFF800000 : f32
// CHECK-DAG: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: linalg.fill ins(%[[ZERO]] : f32) outs(%{{.*}} : tensor<?x8x64xf32>)
// CHECK: linalg.fill ins(%[[NEG]] : f32) outs(%{{.*}} : tensor<?x8xf32>)
// CHECK: %[[E0:.*]] = kvcache.max_length %[[C0]] at %[[B]]
// CHECK: %[[A0:.*]], %[[M0:.*]], %[[S0:.*]] = kvcache.online_attention %[[Q]] over %[[C0]] span %{{.*}}, %[[E0]] at %[[B]] state
// CHECK-SAME: select %{{.*}} {causal, scale
// CHECK-SAME: score {
// CHECK: kvcache.soft_cap
// CHECK: %[[E1:.*]] = kvcache.max_length %[[C1]] at %[[B]]
// CHECK: %[[A1:.*]], %[[M1:.*]], %[[S1:.*]] = kvcache.online_attention %[[Q]] over %[[C1]] span %{{.*}}, %[[E1]] at %[[B]] state %[[A0]], %[[M0]], %[[S0]]
// CHECK-SAME: tree %{{.*}} {causal, scale
// CHECK: %[[OUT:.*]] = linalg.generic {{.*}} ins(%[[A1]], %[[S1]]
// CHECK: arith.divf
// CHECK: arith.select
// CHECK: return %[[OUT]]
func.func @decompose(%q: tensor<?x8x64xf32>, %prefix: !kv, %own: !kv, %batch: !kvcache.batch,
                     %sel: !kvcache.selection<page>, %tree: tensor<?x?xi8>) -> tensor<?x8x64xf32> {
  %out = kvcache.attention %q over %prefix, %own at %batch select %sel tree %tree
      {scale = 0.125 : f32, causal, selected_segments = array<i64: 0>}
      score {
      ^bb0(%s: f32, %b: index, %h: index, %qp: index, %kp: index):
        %t = kvcache.soft_cap %s, 30.0
        kvcache.yield %t
      } : (tensor<?x8x64xf32>, !kv, !kv, !kvcache.batch, !kvcache.selection<page>, tensor<?x?xi8>)
        -> tensor<?x8x64xf32>
  return %out : tensor<?x8x64xf32>
}

// A sink joins the sum of the rows that have seen a key.
// CHECK-LABEL: func @decompose_sinks
// CHECK-SAME: %[[SINK:[a-z0-9]+]]: tensor<8xf32>
// CHECK: %[[A:.*]], %[[M:.*]], %[[S:.*]] = kvcache.online_attention
// CHECK: %[[MAX:.*]] = linalg.generic {{.*}} ins(%[[SINK]] : tensor<8xf32>) outs(%[[M]]
// CHECK: arith.maximumf
// CHECK: arith.select
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[SINK]], %[[M]], %[[MAX]] : {{.*}} outs(%[[S]]
// CHECK: %[[ACC:.*]] = linalg.generic {{.*}} ins(%[[M]], %[[MAX]] : {{.*}} outs(%[[A]]
// CHECK: linalg.generic {{.*}} ins(%[[ACC]], %[[SUM]]
func.func @decompose_sinks(%q: tensor<?x8x64xf32>, %c: !kv, %batch: !kvcache.batch, %sink: tensor<8xf32>)
    -> tensor<?x8x64xf32> {
  %out = kvcache.attention %q over %c at %batch sink_logits %sink {scale = 0.125 : f32}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch, tensor<8xf32>) -> tensor<?x8x64xf32>
  return %out : tensor<?x8x64xf32>
}

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %attention = transform.structured.match ops{["kvcache.attention"]} in %root : (!transform.any_op) -> !transform.any_op
    %new = transform.structured.decompose_interface %attention : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16>

// Tiles of rows know their first row, tiles of heads their first head and the size of a group; tiles of the span carry the state.
// CHECK-LABEL: func @tile
// CHECK-SAME: (%[[Q:.*]]: tensor<?x8x64xf32>, %{{.*}}: !kv{{[0-9]*}}, %{{.*}}: index
// CHECK: scf.for %[[R:.*]] = %c0 to %{{.*}} step %c16
// CHECK: scf.for %[[H:.*]] = %c0 to %c8 step %c4
// CHECK: scf.for %[[S:.*]] = %c0 to %{{.*}} step %c256 iter_args
// CHECK: %[[QT:.*]] = tensor.extract_slice %[[Q]][%[[R]], %[[H]], 0] [%{{.*}}, 4, 64] [1, 1, 1]
// CHECK: kvcache.online_attention %[[QT]] over %{{.*}} span %{{.*}}, %{{.*}} at %{{.*}} state %{{.*}}, %{{.*}}, %{{.*}} from_row %[[R]] from_head %[[H]] {causal, group = 4 : i64, scale
// CHECK: tensor.insert_slice {{.*}} into tensor<?x8x64xf32>
func.func @tile(%q: tensor<?x8x64xf32>, %c: !kv, %begin: index, %end: index, %batch: !kvcache.batch,
                %a: tensor<?x8x64xf32>, %m: tensor<?x8xf32>, %s: tensor<?x8xf32>)
    -> (tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>) {
  %r:3 = kvcache.online_attention %q over %c span %begin, %end at %batch state %a, %m, %s {scale = 0.125 : f32, causal}
      : (tensor<?x8x64xf32>, !kv, index, index, !kvcache.batch, tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>)
      -> (tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>)
  return %r#0, %r#1, %r#2 : tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>
}

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %op = transform.structured.match ops{["kvcache.online_attention"]} in %root : (!transform.any_op) -> !transform.any_op
    %tiled, %loops:3 = transform.structured.tile_using_for %op tile_sizes [16, 4, 256]
        : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
    transform.yield
  }
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16>

// A parallel split over the span: every part has a state of its own; the merge rescales them to the common maximum and
// takes in the state that the op started from.
// CHECK-LABEL: func @split
// CHECK: tensor.empty({{.*}}) : tensor<?x?x8x64xf32>
// CHECK: scf.forall (%[[I:.*]]) = {{.*}} shared_outs(%[[PA:.*]] = %{{.*}}, %[[PM:.*]] = %{{.*}}, %[[PS:.*]] = %{{.*}})
// CHECK: tensor.extract_slice %[[PA]][%{{.*}}, 0, 0, 0] [1, %{{.*}}, 8, 64] [1, 1, 1, 1] : tensor<?x?x8x64xf32> to tensor<?x8x64xf32>
// CHECK: kvcache.online_attention
// CHECK: tensor.parallel_insert_slice {{.*}} into %[[PA]][%{{.*}}, 0, 0, 0] [1, %{{.*}}, 8, 64]
// CHECK: %[[MAX:.*]] = linalg.generic {{.*}}iterator_types = ["reduction", "parallel", "parallel"]
// CHECK: arith.maximumf
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}}iterator_types = ["parallel", "parallel"]
// CHECK: math.exp
// CHECK: %[[ACC:.*]] = linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "parallel"]
// CHECK: %[[NSUM:.*]] = linalg.generic {{.*}}iterator_types = ["reduction", "parallel", "parallel"]{{.*}} outs(%[[SUM]]
// CHECK: %[[NACC:.*]] = linalg.generic {{.*}}iterator_types = ["reduction", "parallel", "parallel", "parallel"]{{.*}} outs(%[[ACC]]
// CHECK: return %[[NACC]], %[[MAX]], %[[NSUM]]
func.func @split(%q: tensor<?x8x64xf32>, %c: !kv, %end: index, %batch: !kvcache.batch,
                %a: tensor<?x8x64xf32>, %m: tensor<?x8xf32>, %s: tensor<?x8xf32>)
    -> (tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>) {
  %begin = arith.constant 0 : index
  %r:3 = kvcache.online_attention %q over %c span %begin, %end at %batch state %a, %m, %s {scale = 0.125 : f32, causal}
      : (tensor<?x8x64xf32>, !kv, index, index, !kvcache.batch, tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>)
      -> (tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>)
  return %r#0, %r#1, %r#2 : tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>
}

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %op = transform.structured.match ops{["kvcache.online_attention"]} in %root : (!transform.any_op) -> !transform.any_op
    %fill:3, %split, %merge:5, %loop = transform.structured.tile_reduction_using_forall %op by tile_sizes = [0, 0, 1024]
        : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op,
           !transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
    transform.yield
  }
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16>

// The sequential form carries one state, the first part, through the loop.
// CHECK-LABEL: func @split_sequential
// CHECK: scf.for %{{.*}} = %c0 to %c4096 step %c512 iter_args(%[[PA:.*]] = %{{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) -> (tensor<512x4x8x64xf32>
// CHECK: tensor.extract_slice %[[PA]][0, 0, 0, 0] [1, 4, 8, 64] [1, 1, 1, 1]
// CHECK: kvcache.online_attention
// CHECK: tensor.insert_slice {{.*}} into %[[PA]][0, 0, 0, 0] [1, 4, 8, 64]
// CHECK: linalg.generic {{.*}}iterator_types = ["reduction", "parallel", "parallel"]
func.func @split_sequential(%q: tensor<4x8x64xf32>, %c: !kv, %batch: !kvcache.batch, %a: tensor<4x8x64xf32>,
                            %m: tensor<4x8xf32>, %s: tensor<4x8xf32>)
    -> (tensor<4x8x64xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %begin = arith.constant 0 : index
  %end = arith.constant 4096 : index
  %r:3 = kvcache.online_attention %q over %c span %begin, %end at %batch state %a, %m, %s {scale = 0.125 : f32, causal}
      : (tensor<4x8x64xf32>, !kv, index, index, !kvcache.batch, tensor<4x8x64xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
      -> (tensor<4x8x64xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
  return %r#0, %r#1, %r#2 : tensor<4x8x64xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %op = transform.structured.match ops{["kvcache.online_attention"]} in %root : (!transform.any_op) -> !transform.any_op
    %fill:3, %split, %merge:5, %loop = transform.structured.tile_reduction_using_for %op by tile_sizes = [0, 0, 512]
        : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op,
           !transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
    transform.yield
  }
}
