// Attention over two caches whose pages have different sizes, each with all tokens.
!small = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16>
!large = !kvcache.cache<heads = 2, dim = 64, page = 128, k = f16, v = f16>
func.func @attend(%q: tensor<?x8x64xf32>, %k: tensor<?x2x64xf32>, %v: tensor<?x2x64xf32>, %c: !small, %d: !large, %new: !kvcache.batch, %b: !kvcache.batch) -> tensor<?x8x64xf32> {
  %e = kvcache.append %c, %k, %v at %new : !small, tensor<?x2x64xf32>, tensor<?x2x64xf32>
  %f = kvcache.append %d, %k, %v at %new : !large, tensor<?x2x64xf32>, tensor<?x2x64xf32>
  %o = kvcache.attention %q over %e, %f at %b {scale = 0.125 : f32, causal} : (tensor<?x8x64xf32>, !small, !large, !kvcache.batch) -> tensor<?x8x64xf32>
  return %o : tensor<?x8x64xf32>
}
