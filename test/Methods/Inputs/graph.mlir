// Two layers with RoPE, both phases, for the tests of methods.
!kv = !kvcache.cache<heads = 2, dim = 32, page = 16, k = f16, v = f16>
!q = tensor<?x4x32xf32>
!k = tensor<?x2x32xf32>
func.func @prefill(%q: !q, %k: !k, %v: !k, %b: !kvcache.batch, %c0: !kv, %c1: !kv) -> (!q, !kv, !kv) {
  %o, %d0 = kvcache.attend %q, %k, %v with %c0 at %b by <base = 10000.0 : f32, dims = 32, pairing = adjacent> {layer = 0 : i64, phase = "prefill", scale = 0.125 : f32} : !q, !k, !k, !kv -> !q
  %p, %d1 = kvcache.attend %o, %k, %v with %c1 at %b by <base = 10000.0 : f32, dims = 32, pairing = adjacent> {layer = 1 : i64, phase = "prefill", scale = 0.125 : f32} : !q, !k, !k, !kv -> !q
  return %p, %d0, %d1 : !q, !kv, !kv
}
func.func @decode(%q: !q, %k: !k, %v: !k, %b: !kvcache.batch, %c0: !kv, %c1: !kv) -> (!q, !kv, !kv) {
  %o, %d0 = kvcache.attend %q, %k, %v with %c0 at %b by <base = 10000.0 : f32, dims = 32, pairing = adjacent> {layer = 0 : i64, phase = "decode", scale = 0.125 : f32} : !q, !k, !k, !kv -> !q
  %p, %d1 = kvcache.attend %o, %k, %v with %c1 at %b by <base = 10000.0 : f32, dims = 32, pairing = adjacent> {layer = 1 : i64, phase = "decode", scale = 0.125 : f32} : !q, !k, !k, !kv -> !q
  return %p, %d0, %d1 : !q, !kv, !kv
}
