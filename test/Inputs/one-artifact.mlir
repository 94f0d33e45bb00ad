// Append, then attention of prefill and decode rows over what the sequences hold: a KIVI int4 cache and one of f16.
!kivi = !kvcache.cache<heads = 2, dim = 64, page = 32, k = int4<axis = channel>, v = int4, residual = 32>
!plain = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16>
!kv = tensor<?x2x64xf32>
!q = tensor<?x8x64xf32>
!lse = tensor<?x8xf32>

func.func @step(%k: !kv, %v: !kv, %new: !kvcache.batch, %q: !q, %b: !kvcache.batch, %kivi: !kivi, %plain: !plain)
    -> (!q, !lse, !q, !lse) {
  %c0 = kvcache.append %kivi, %k, %v at %new : !kivi, !kv, !kv
  %o0:2 = kvcache.attention %q over %c0 at %b returns (out, lse) {scale = 0.125 : f32, causal} : (!q, !kivi, !kvcache.batch) -> (!q, !lse)
  %c1 = kvcache.append %plain, %k, %v at %new : !plain, !kv, !kv
  %o1:2 = kvcache.attention %q over %c1 at %b returns (out, lse) {scale = 0.125 : f32, causal} : (!q, !plain, !kvcache.batch) -> (!q, !lse)
  return %o0#0, %o0#1, %o1#0, %o1#1 : !q, !lse, !q, !lse
}
