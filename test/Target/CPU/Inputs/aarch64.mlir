// A prompt is appended, then a decode step: keys of 4 bits and values of 8, with a split of long tables.
!kv = !kvcache.cache<heads = 2, dim = 64, page = 16, k = int4, v = int8>
!rows = tensor<?x8x64xf32>
!kvrows = tensor<?x2x64xf32>

func.func @decode(%c0: !kv, %prompt: !kvcache.batch, %k0: !kvrows, %v0: !kvrows,
                  %b: !kvcache.batch, %q: !rows, %k: !kvrows, %v: !kvrows) -> !rows {
  %c1 = kvcache.append %c0, %k0, %v0 at %prompt : !kv, !kvrows, !kvrows
  %c2 = kvcache.append %c1, %k, %v at %b : !kv, !kvrows, !kvrows
  %out = kvcache.attention %q over %c2 at %b {scale = 0.125 : f32, causal} : (!rows, !kv, !kvcache.batch) -> !rows
  return %out : !rows
}
