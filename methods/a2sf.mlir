// A2SF (Jo and Shin, 2024, arXiv:2407.20485): H2O with a forgetting factor, so that old keys do not win by having been summed
// longer. As in the paper: in decoding every step multiplies the sums by the factor before it adds its own. Different: the
// rows of a prompt are summed without forgetting (the paper weights row i by the factor to the number of rows after it);
// the query heads of a KV head are summed.
module attributes {
  kvcache.method = "a2sf",
  kvcache.doc = "keeps the keys with the largest sums of attention, older attention weighing less",
  kvcache.params = {budget = 256 : i64, recent = 64 : i64, factor = 0.9 : f32},
  kvcache.cache = "positions = stored, tables = per_head, planes = [score]"
} {
  func.func @step(%q: !kvcache.site<q>, %k: !kvcache.site<k>, %v: !kvcache.site<v>, %c: !kvcache.site<cache>,
                  %b: !kvcache.batch) -> (!kvcache.site<out>, !kvcache.site<cache>) {
    %qr = kvcache.rope %q at %b by <site> : !kvcache.site<q>
    %c1 = kvcache.append %c, %k, %v at %b by <site>
        : !kvcache.site<cache>, !kvcache.site<k>, !kvcache.site<v>
    %o, %s = kvcache.attention %qr over %c1 at %b returns (out, stats)
        {scale = 1.0 : f32, causal, stat = #kvcache.stat<sum>}
        : (!kvcache.site<q>, !kvcache.site<cache>, !kvcache.batch) -> (!kvcache.site<out>, !kvcache.site<scores>)
    %c2 = kvcache.accumulate decay %c1, %s at %b {decay = #kvcache.param<"factor">} : !kvcache.site<cache>, !kvcache.site<scores>
    %sum = kvcache.score plane %c2 at %b : (!kvcache.site<cache>, !kvcache.batch) -> !kvcache.site<scores>
    %c3 = kvcache.evict %c2 by %sum at %b
        {budget = #kvcache.param<"budget">, first = 0 : i64, last = #kvcache.param<"recent">}
        : !kvcache.site<cache>, !kvcache.site<scores>
    return %o, %c3 : !kvcache.site<out>, !kvcache.site<cache>
  }
}
