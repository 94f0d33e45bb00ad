// Masks and statistics beyond causal attention: a tree of speculated rows, and how often a slot got more than its share.
!kv = !kvcache.cache<heads = 2, dim = 64, page = 16, k = int4, v = int8>
!rows = tensor<?x8x64xf32>
!kvrows = tensor<?x2x64xf32>

func.func @tree(%c0: !kv, %b: !kvcache.batch, %q: !rows, %k: !kvrows, %v: !kvrows, %mask: tensor<?x?xi8>) -> !rows {
  %c1 = kvcache.append %c0, %k, %v at %b : !kv, !kvrows, !kvrows
  %out = kvcache.attention %q over %c1 at %b tree %mask {scale = 0.125 : f32, causal}
      : (!rows, !kv, !kvcache.batch, tensor<?x?xi8>) -> !rows
  return %out : !rows
}

func.func @count(%c0: !kv, %b: !kvcache.batch, %q: !rows, %k: !kvrows, %v: !kvrows) -> (!rows, tensor<?x2x?xf32>) {
  %c1 = kvcache.append %c0, %k, %v at %b : !kv, !kvrows, !kvrows
  %out, %counts = kvcache.attention %q over %c1 at %b returns (out, stats)
      {scale = 0.125 : f32, causal, window = 90 : i64, stat = #kvcache.stat<count>, stat_rows = 40 : i64}
      : (!rows, !kv, !kvcache.batch) -> (!rows, tensor<?x2x?xf32>)
  return %out, %counts : !rows, tensor<?x2x?xf32>
}
