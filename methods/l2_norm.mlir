// L2-norm (Devoto et al., EMNLP 2024, arXiv:2406.11430): keys with a small L2 norm get most of the attention, so the keys with
// the largest norms go, and no attention score is needed. As in the paper: the norm alone decides, for each KV head, after
// the prompt and whenever a step is over budget; norms are those of the rotated keys, whose length rotation leaves as it is.
// Different: the newest `recent` slots are safe; `first_layer` is a parameter (the paper keeps the first two layers whole).
module attributes {
  kvcache.method = "l2_norm",
  kvcache.doc = "keeps the keys with the smallest L2 norms, and the newest",
  kvcache.params = {budget = 256 : i64, recent = 16 : i64, first_layer = 2 : i64},
  kvcache.cache = "positions = stored, tables = per_head, planes = [norm]",
  kvcache.layers = "$first_layer.."
} {
  func.func @step(%q: !kvcache.site<q>, %k: !kvcache.site<k>, %v: !kvcache.site<v>, %c: !kvcache.site<cache>,
                  %b: !kvcache.batch) -> (!kvcache.site<out>, !kvcache.site<cache>) {
    %qr = kvcache.rope %q at %b by <site> : !kvcache.site<q>
    %c1 = kvcache.append %c, %k, %v at %b by <site>
        : !kvcache.site<cache>, !kvcache.site<k>, !kvcache.site<v>
    %o = kvcache.attention %qr over %c1 at %b {scale = 1.0 : f32, causal}
        : (!kvcache.site<q>, !kvcache.site<cache>, !kvcache.batch) -> !kvcache.site<out>
    %norm = kvcache.score key_norm %c1 at %b : (!kvcache.site<cache>, !kvcache.batch) -> !kvcache.site<scores>
    %low = kvcache.map_scores %norm {
    ^bb0(%x: f32):
      %y = arith.negf %x : f32
      kvcache.yield %y
    } : !kvcache.site<scores>
    %c2 = kvcache.evict %c1 by %low at %b
        {budget = #kvcache.param<"budget">, first = 0 : i64, last = #kvcache.param<"recent">}
        : !kvcache.site<cache>, !kvcache.site<scores>
    return %o, %c2 : !kvcache.site<out>, !kvcache.site<cache>
  }
}
