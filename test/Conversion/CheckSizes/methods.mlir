// Scores that are computed of the cache itself, also through other operations, are known to cover it; every size is asserted once.
// RUN: kvc-opt %s --kvc-stop-after=tile | FileCheck %s

!kv = !kvcache.cache<heads = 2, dim = 8, page = 4, k = f16, v = f16, positions = stored, tables = per_head, planes = [score]>
!rows = tensor<?x2x8xf32>
!scores = tensor<?x2x?xf32>

// CHECK-LABEL: @evict_by_its_own_scores
// CHECK-SAME: (%[[C:.*]]: !kv, %[[B:.*]]: !kvcache.batch, %[[Q:.*]]: tensor<?x2x8xf32>, %[[K:.*]]: tensor<?x2x8xf32>)
// CHECK-DAG: %[[ROWS:.*]] = tile.rows %[[B]]
// CHECK-DAG: %[[KROWS:.*]] = tensor.dim %[[K]], %c0
// CHECK-DAG: %[[KOK:.*]] = arith.cmpi eq, %[[KROWS]], %[[ROWS]]
// CHECK: cf.assert %[[KOK]], "kvcache.append: rows of key"
// CHECK: %[[QROWS:.*]] = tensor.dim %[[Q]], %c0
// CHECK: %[[QOK:.*]] = arith.cmpi eq, %[[QROWS]], %[[ROWS]]
// CHECK: cf.assert %[[QOK]], "kvcache.attention: rows of query"
// CHECK-NOT: cf.assert
// CHECK: return
func.func @evict_by_its_own_scores(%c: !kv, %b: !kvcache.batch, %q: !rows, %k: !rows) -> (!rows, !kv) {
  %c1 = kvcache.append %c, %k, %k at %b : !kv, !rows, !rows
  %out, %stats = kvcache.attention %q over %c1 at %b returns(out, stats) {scale = 1.0 : f32, causal, stat = #kvcache.stat<sum>}
      : (!rows, !kv, !kvcache.batch) -> (!rows, !scores)
  %more = arith.addf %stats, %stats : !scores
  %c2 = kvcache.accumulate add %c1, %more at %b : !kv, !scores
  %scores = kvcache.score plane %c2 at %b : (!kv, !kvcache.batch) -> !scores
  %pooled = kvcache.pool max %scores {kernel = 3 : i64} : !scores
  %c3 = kvcache.evict %c2 by %pooled at %b {budget = 2 : i64, first = 0 : i64, last = 1 : i64} : !kv, !scores
  return %out, %c3 : !rows, !kv
}
