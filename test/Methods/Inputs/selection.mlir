// Scores that are computed, and what they select: arithmetic over a chain of map_scores, thresholds of tokens and pages.
!kv = !kvcache.cache<heads = 2, dim = 16, page = 8, k = f16, v = f16, positions = stored, tables = per_head, planes = [norm, score, minmax]>

func.func @select(%c: !kv, %q: tensor<?x4x16xf32>, %k: tensor<?x2x16xf32>, %v: tensor<?x2x16xf32>, %b: !kvcache.batch)
    -> (tensor<?x2x?xf32>, tensor<?x4x16xf32>, tensor<?x4x16xf32>, tensor<?x4x16xf32>, tensor<?x?x2x16xf32>) {
  %c1 = kvcache.append %c, %k, %v at %b : !kv, tensor<?x2x16xf32>, tensor<?x2x16xf32>
  %norm = kvcache.score key_norm %c1 at %b : (!kv, !kvcache.batch) -> tensor<?x2x?xf32>
  %dot = kvcache.score dot %q, %c1 at %b : (tensor<?x4x16xf32>, !kv, !kvcache.batch) -> tensor<?x2x?xf32>
  // The logarithm of what is past the end is NaN, and must not matter.
  %low = kvcache.map_scores %norm {
  ^bb0(%x: f32):
    %l = math.log %x : f32
    %n = arith.negf %l : f32
    kvcache.yield %n
  } : tensor<?x2x?xf32>
  %mixed = kvcache.map_scores %low, %dot {
  ^bb0(%x: f32, %y: f32):
    %cap = kvcache.soft_cap %y, 3.0
    %half = arith.constant 0.5 : f32
    %h = arith.mulf %cap, %half : f32
    %s = arith.addf %x, %h : f32
    kvcache.yield %s
  } : tensor<?x2x?xf32>
  %tokens = kvcache.threshold token %mixed, %c1 at %b {value = 0.25 : f32, first = 1, last = 2}
      : tensor<?x2x?xf32>, !kv -> !kvcache.selection<token>
  %out = kvcache.attention %q over %c1 at %b select %tokens {scale = 0.25 : f32, causal}
      : (tensor<?x4x16xf32>, !kv, !kvcache.batch, !kvcache.selection<token>) -> tensor<?x4x16xf32>
  %bound = kvcache.score bound %q, %c1 at %b : (tensor<?x4x16xf32>, !kv, !kvcache.batch) -> tensor<?x2x?xf32>
  %less = kvcache.map_scores %bound {
  ^bb0(%x: f32):
    %six = arith.constant 6.0 : f32
    %d = arith.subf %x, %six : f32
    kvcache.yield %d
  } : tensor<?x2x?xf32>
  %pages = kvcache.threshold page %less, %c1 at %b {value = 20.0 : f32, first = 0, last = 1}
      : tensor<?x2x?xf32>, !kv -> !kvcache.selection<page>
  %paged = kvcache.attention %q over %c1 at %b select %pages {scale = 0.25 : f32, causal}
      : (tensor<?x4x16xf32>, !kv, !kvcache.batch, !kvcache.selection<page>) -> tensor<?x4x16xf32>
  %dense = kvcache.attention %q over %c1 at %b {scale = 0.25 : f32, causal}
      : (tensor<?x4x16xf32>, !kv, !kvcache.batch) -> tensor<?x4x16xf32>
  %c2 = kvcache.compact %c1 keep %tokens at %b : !kv, !kvcache.selection<token>
  %kept = kvcache.export k %c2 at %b {layout = #kvcache.dense_layout<nhd>} : !kv -> tensor<?x?x2x16xf32>
  return %mixed, %out, %paged, %dense, %kept
      : tensor<?x2x?xf32>, tensor<?x4x16xf32>, tensor<?x4x16xf32>, tensor<?x4x16xf32>, tensor<?x?x2x16xf32>
}
