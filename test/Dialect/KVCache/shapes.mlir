// Dimensions of results in terms of the operands: shape reification, driven by the stock pass; and the decomposition as a pass.
// RUN: kvc-opt %s --resolve-ranked-shaped-type-result-dims --canonicalize --cse | FileCheck %s
// RUN: kvc-opt %s --kvc-decompose-attention --canonicalize -verify-diagnostics | FileCheck %s --check-prefix=DECOMPOSED

!kv = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, planes = [minmax]>

// CHECK-LABEL: func @attention
// CHECK-SAME: (%[[Q:.*]]: tensor<?x8x64xf32>, %[[C:.*]]: !kv{{[0-9]*}}, %[[B:.*]]: !kvcache.batch)
// CHECK-DAG: %[[ROWS:.*]] = tensor.dim %[[Q]], %c0
// CHECK-DAG: %[[ENTRIES:.*]] = kvcache.entries %[[B]]
// CHECK-DAG: %[[SLOTS:.*]] = kvcache.max_length %[[C]] at %[[B]]
// CHECK: return %[[ROWS]], %[[ROWS]], %[[ENTRIES]], %[[SLOTS]]
// DECOMPOSED-LABEL: func @attention
// DECOMPOSED: kvcache.attention
func.func @attention(%q: tensor<?x8x64xf32>, %c: !kv, %batch: !kvcache.batch) -> (index, index, index, index) {
  // expected-remark@+1 {{expects no stats to decompose, as a state does not carry them, but got returns}}
  %out, %lse, %stats = kvcache.attention %q over %c at %batch returns (out, lse, stats)
      {scale = 0.125 : f32, stat = #kvcache.stat<sum>}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> (tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x2x?xf32>)
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %a = tensor.dim %out, %c0 : tensor<?x8x64xf32>
  %b = tensor.dim %lse, %c0 : tensor<?x8xf32>
  %d = tensor.dim %stats, %c0 : tensor<?x2x?xf32>
  %e = tensor.dim %stats, %c2 : tensor<?x2x?xf32>
  return %a, %b, %d, %e : index, index, index, index
}

// CHECK-LABEL: func @scores_of_pages
// CHECK-DAG: %[[N:.*]] = kvcache.max_length
// CHECK-DAG: %[[PAGES:.*]] = arith.ceildivui %[[N]], %c16
// CHECK: return %[[PAGES]]
func.func @scores_of_pages(%q: tensor<?x8x64xf32>, %c: !kv, %batch: !kvcache.batch) -> index {
  %s = kvcache.score bound %q, %c at %batch : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x2x?xf32>
  %c2 = arith.constant 2 : index
  %d = tensor.dim %s, %c2 : tensor<?x2x?xf32>
  return %d : index
}

// CHECK-LABEL: func @computed_scores
// CHECK: %[[N:.*]] = kvcache.max_length
// CHECK: return %[[N]]
func.func @computed_scores(%q: tensor<?x8x64xf32>, %c: !kv, %batch: !kvcache.batch) -> index {
  %s = kvcache.score dot %q, %c at %batch : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x2x?xf32>
  %z = kvcache.map_scores %s {
  ^bb0(%x: f32):
    %y = arith.negf %x : f32
    kvcache.yield %y
  } : tensor<?x2x?xf32>
  %c2 = arith.constant 2 : index
  %d = tensor.dim %z, %c2 : tensor<?x2x?xf32>
  return %d : index
}

// CHECK-LABEL: func @dense
// CHECK-DAG: %[[E:.*]] = kvcache.entries
// CHECK-DAG: %[[N:.*]] = kvcache.max_length
// CHECK: return %[[E]], %[[N]]
func.func @dense(%c: !kv, %batch: !kvcache.batch) -> (index, index) {
  %k = kvcache.export k %c at %batch {layout = #kvcache.dense_layout<hnd>} : !kv -> tensor<?x2x?x64xf32>
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %a = tensor.dim %k, %c0 : tensor<?x2x?x64xf32>
  %b = tensor.dim %k, %c2 : tensor<?x2x?x64xf32>
  return %a, %b : index, index
}

// Both results, from one state.
// DECOMPOSED-LABEL: func @out_and_lse
// DECOMPOSED: %[[A:.*]], %[[M:.*]], %[[S:.*]] = kvcache.online_attention
// DECOMPOSED: %[[LSE:.*]] = linalg.generic {{.*}} ins(%[[M]], %[[S]]
// DECOMPOSED: math.log
// DECOMPOSED: %[[OUT:.*]] = linalg.generic {{.*}} ins(%[[A]], %[[S]]
// DECOMPOSED: arith.divf
// DECOMPOSED: return %[[LSE]], %[[OUT]]
func.func @out_and_lse(%q: tensor<?x8x64xf32>, %c: !kv, %batch: !kvcache.batch) -> (tensor<?x8xf32>, tensor<?x8x64xf32>) {
  %lse, %out = kvcache.attention %q over %c at %batch returns (lse, out) {scale = 0.125 : f32, causal}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> (tensor<?x8xf32>, tensor<?x8x64xf32>)
  return %lse, %out : tensor<?x8xf32>, tensor<?x8x64xf32>
}
