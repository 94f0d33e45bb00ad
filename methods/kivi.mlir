// KIVI (Liu et al., ICML 2024, arXiv:2402.02750): asymmetric codes, keys per channel, values per token, with the newest
// tokens exact. As in the paper: groups of 32, residual of 128, whole groups sealed, one softmax over codes and residual.
// Different: values leave the residual in whole groups too (the paper moves them one by one); scale and zero are f16; the newest
// tokens are f32, so that codes are those of what the model computed.
module attributes {
  kvcache.method = "kivi",
  kvcache.doc = "keys in codes per channel, values per token, the newest tokens exact",
  kvcache.params = {bits = 2 : i64, group = 32 : i64, residual = 128 : i64},
  kvcache.cache = "page = $group, k = int$bits<axis = channel, group = $group>, v = int$bits<group = $group>, residual = $residual, tail = f32"
} {
  func.func @step(%q: !kvcache.site<q>, %k: !kvcache.site<k>, %v: !kvcache.site<v>, %c: !kvcache.site<cache>,
                  %b: !kvcache.batch) -> (!kvcache.site<out>, !kvcache.site<cache>) {
    %qr = kvcache.rope %q at %b by <site> : !kvcache.site<q>
    %c1 = kvcache.append %c, %k, %v at %b by <site>
        : !kvcache.site<cache>, !kvcache.site<k>, !kvcache.site<v>
    %o = kvcache.attention %qr over %c1 at %b {scale = 1.0 : f32, causal}
        : (!kvcache.site<q>, !kvcache.site<cache>, !kvcache.batch) -> !kvcache.site<out>
    return %o, %c1 : !kvcache.site<out>, !kvcache.site<cache>
  }
}
