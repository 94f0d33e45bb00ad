// Scissorhands (Liu et al., NeurIPS 2023, arXiv:2305.17118): keys that mattered go on to matter. Counts, for each KV head and
// slot, how often a row paid it more than the uniform share, and keeps those with the highest counts beside the newest.
// As in the paper: the counter, the protected newest slots, a history window for the prompt. Different: counting goes on
// since the slot was written (the paper: the window only), and slots are dropped one by one, not in batches.
module attributes {
  kvcache.method = "scissorhands",
  kvcache.doc = "keeps the keys that most often got more than the uniform share, and the newest",
  kvcache.params = {budget = 256 : i64, recent = 64 : i64, history = 64 : i64},
  kvcache.cache = "positions = stored, tables = per_head, planes = [score]"
} {
  func.func @step(%q: !kvcache.site<q>, %k: !kvcache.site<k>, %v: !kvcache.site<v>, %c: !kvcache.site<cache>,
                  %b: !kvcache.batch) -> (!kvcache.site<out>, !kvcache.site<cache>) {
    %qr = kvcache.rope %q at %b by <site> : !kvcache.site<q>
    %c1 = kvcache.append %c, %k, %v at %b by <site>
        : !kvcache.site<cache>, !kvcache.site<k>, !kvcache.site<v>
    %o, %hits = kvcache.attention %qr over %c1 at %b returns (out, stats)
        {scale = 1.0 : f32, causal, stat = #kvcache.stat<count>, stat_rows = #kvcache.param<"history">}
        : (!kvcache.site<q>, !kvcache.site<cache>, !kvcache.batch) -> (!kvcache.site<out>, !kvcache.site<scores>)
    %c2 = kvcache.accumulate add %c1, %hits at %b : !kvcache.site<cache>, !kvcache.site<scores>
    %count = kvcache.score plane %c2 at %b : (!kvcache.site<cache>, !kvcache.batch) -> !kvcache.site<scores>
    %c3 = kvcache.evict %c2 by %count at %b
        {budget = #kvcache.param<"budget">, first = 0 : i64, last = #kvcache.param<"recent">}
        : !kvcache.site<cache>, !kvcache.site<scores>
    return %o, %c3 : !kvcache.site<out>, !kvcache.site<cache>
  }
}
