// H2O (Zhang et al., NeurIPS 2023, arXiv:2306.14048): keeps the slots with the largest sums of attention probability and the
// newest ones, `budget` in all, for each KV head. As in the paper: the sum runs over all rows since the slot was written, the
// newest `recent` slots are safe, positions stay those of the text. Different: the query heads of a KV head are summed
// (the paper has one per KV head); a prompt is attended to in full and cut once at its end, not row by row.
module attributes {
  kvcache.method = "h2o",
  kvcache.doc = "keeps the keys with the largest sums of attention, and the newest",
  kvcache.params = {budget = 256 : i64, recent = 128 : i64},
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
    %c2 = kvcache.accumulate add %c1, %s at %b : !kvcache.site<cache>, !kvcache.site<scores>
    %sum = kvcache.score plane %c2 at %b : (!kvcache.site<cache>, !kvcache.batch) -> !kvcache.site<scores>
    %c3 = kvcache.evict %c2 by %sum at %b
        {budget = #kvcache.param<"budget">, first = 0 : i64, last = #kvcache.param<"recent">}
        : !kvcache.site<cache>, !kvcache.site<scores>
    return %o, %c3 : !kvcache.site<out>, !kvcache.site<cache>
  }
}
