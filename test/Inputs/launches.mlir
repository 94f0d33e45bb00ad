// Attention at another batch than that of the append.
!kv = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16>
func.func @attend(%q: tensor<?x8x64xf32>, %k: tensor<?x2x64xf32>, %v: tensor<?x2x64xf32>, %c: !kv, %new: !kvcache.batch, %b: !kvcache.batch) -> tensor<?x8x64xf32> {
  %d = kvcache.append %c, %k, %v at %new : !kv, tensor<?x2x64xf32>, tensor<?x2x64xf32>
  %o = kvcache.attention %q over %d at %b {scale = 0.125 : f32, causal} : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return %o : tensor<?x8x64xf32>
}
