// StreamingLLM (Xiao et al., ICLR 2024, arXiv:2309.17453): the first `sinks` slots and the newest `recent` ones stay, so that
// memory is constant. As in the paper: sinks and window, for the rows of a prompt too. Different: keys keep the positions of
// the text, while the paper counts positions inside the cache; so the model's context bounds the text. Slots are dropped
// after each step (the score plane is all 0 and decides nothing: first + last is the budget).
module attributes {
  kvcache.method = "streamingllm",
  kvcache.doc = "the first keys and the newest stay",
  kvcache.params = {sinks = 4 : i64, recent = 252 : i64},
  kvcache.derived = {budget = "$sinks + $recent"},
  kvcache.cache = "positions = stored, tables = per_head, planes = [score]"
} {
  func.func @step(%q: !kvcache.site<q>, %k: !kvcache.site<k>, %v: !kvcache.site<v>, %c: !kvcache.site<cache>,
                  %b: !kvcache.batch) -> (!kvcache.site<out>, !kvcache.site<cache>) {
    %qr = kvcache.rope %q at %b by <site> : !kvcache.site<q>
    %c1 = kvcache.append %c, %k, %v at %b by <site>
        : !kvcache.site<cache>, !kvcache.site<k>, !kvcache.site<v>
    %o = kvcache.attention %qr over %c1 at %b
        {scale = 1.0 : f32, causal, window = #kvcache.param<"recent">, sinks = #kvcache.param<"sinks">}
        : (!kvcache.site<q>, !kvcache.site<cache>, !kvcache.batch) -> !kvcache.site<out>
    %any = kvcache.score plane %c1 at %b : (!kvcache.site<cache>, !kvcache.batch) -> !kvcache.site<scores>
    %c2 = kvcache.evict %c1 by %any at %b
        {budget = #kvcache.param<"budget">, first = #kvcache.param<"sinks">, last = #kvcache.param<"recent">}
        : !kvcache.site<cache>, !kvcache.site<scores>
    return %o, %c2 : !kvcache.site<out>, !kvcache.site<cache>
  }
}
