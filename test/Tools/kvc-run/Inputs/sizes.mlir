// One function for each promise that a call can break.
!kv = !kvcache.cache<heads = 2, dim = 8, page = 4, k = f16, v = f16, positions = stored, tables = per_head, planes = [score]>
!rows = tensor<?x2x8xf32>
!scores = tensor<?x2x?xf32>
!dense = tensor<?x?x2x8xf32>

func.func @rope(%b: !kvcache.batch, %q: !rows) -> !rows {
  %r = kvcache.rope %q at %b by <base = 10000.0 : f32, dims = 8, pairing = half> : !rows
  return %r : !rows
}

func.func @attend(%c: !kv, %b: !kvcache.batch, %q: !rows {kvcache.name = "query"}, %k: !rows, %v: !rows) -> !rows {
  %c1 = kvcache.append %c, %k, %v at %b : !kv, !rows, !rows
  %o = kvcache.attention %q over %c1 at %b {scale = 1.0 : f32, causal} : (!rows, !kv, !kvcache.batch) -> !rows
  return %o : !rows
}

func.func @add(%x: !rows, %y: !rows) -> !rows {
  %z = arith.addf %x, %y : !rows
  return %z : !rows
}

func.func @five(%x: !rows) -> tensor<5x2x8xf32> {
  %y = tensor.cast %x : !rows to tensor<5x2x8xf32>
  %z = arith.addf %y, %y : tensor<5x2x8xf32>
  return %z : tensor<5x2x8xf32>
}

func.func @import(%c: !kv, %b: !kvcache.batch, %k: !dense, %v: !dense, %l: tensor<?xi32>) -> !dense {
  %c1 = kvcache.import %c, %k, %v, %l at %b {layout = #kvcache.dense_layout<nhd>} : !kv, !dense, !dense, tensor<?xi32>
  %e = kvcache.export k %c1 at %b {layout = #kvcache.dense_layout<nhd>} : !kv -> !dense
  return %e : !dense
}

func.func @truncate(%c: !kv, %b: !kvcache.batch, %k: !rows, %l: tensor<?xi32>) -> !dense {
  %c1 = kvcache.append %c, %k, %k at %b : !kv, !rows, !rows
  %c2 = kvcache.truncate %c1 to %l at %b : !kv, tensor<?xi32>
  %e = kvcache.export k %c2 at %b {layout = #kvcache.dense_layout<nhd>} : !kv -> !dense
  return %e : !dense
}

func.func @evict(%c: !kv, %b: !kvcache.batch, %k: !rows, %s: !scores) -> !dense {
  %c1 = kvcache.append %c, %k, %k at %b : !kv, !rows, !rows
  %c2 = kvcache.evict %c1 by %s at %b {budget = 2 : i64, first = 0 : i64, last = 1 : i64} : !kv, !scores
  %e = kvcache.export k %c2 at %b {layout = #kvcache.dense_layout<nhd>} : !kv -> !dense
  return %e : !dense
}

func.func @topk(%c: !kv, %b: !kvcache.batch, %k: !rows, %s: !scores) -> !rows {
  %c1 = kvcache.append %c, %k, %k at %b : !kv, !rows, !rows
  %sel = kvcache.topk token %s, %c1 at %b {k = 2 : i64, first = 0 : i64, last = 0 : i64} : !scores, !kv -> !kvcache.selection<token>
  %o = kvcache.attention %k over %c1 at %b select %sel {scale = 1.0 : f32, causal} : (!rows, !kv, !kvcache.batch, !kvcache.selection<token>) -> !rows
  return %o : !rows
}

func.func @accumulate(%c: !kv, %b: !kvcache.batch, %k: !rows, %s: !scores) -> !scores {
  %c1 = kvcache.append %c, %k, %k at %b : !kv, !rows, !rows
  %c2 = kvcache.accumulate add %c1, %s at %b : !kv, !scores
  %r = kvcache.score plane %c2 at %b : (!kv, !kvcache.batch) -> !scores
  return %r : !scores
}

func.func @merge(%a: !rows, %l: tensor<?x2xf32>, %b: !rows, %m: tensor<?x2xf32>) -> !rows {
  %o, %p = kvcache.merge_states %a, %l, %b, %m : !rows, tensor<?x2xf32>
  return %o : !rows
}

func.func @fixed(%c: !kv, %b: !kvcache.batch, %k: !rows) -> tensor<?x2x2x8xf32> {
  %c1 = kvcache.append %c, %k, %k at %b : !kv, !rows, !rows
  %e = kvcache.export k %c1 at %b {layout = #kvcache.dense_layout<nhd>} : !kv -> tensor<?x2x2x8xf32>
  return %e : tensor<?x2x2x8xf32>
}
