// SnapKV (Li et al., NeurIPS 2024, arXiv:2404.14469): at the end of a prompt the last `window` rows vote, by the attention
// that they pay, for the slots to keep. As in the paper: sum over the rows, max pooling along the slots, the top slots and
// the window stay, decoding adds slots and drops none. Different: the query heads of a KV head vote together (the paper has
// one per KV head); a prompt that is appended in several chunks is cut after each.
module attributes {
  kvcache.method = "snapkv",
  kvcache.doc = "the last rows of the prompt vote for the keys to keep",
  kvcache.params = {budget = 256 : i64, window = 32 : i64, kernel = 7 : i64},
  kvcache.cache = "positions = stored, tables = per_head"
} {
  func.func @prefill(%q: !kvcache.site<q>, %k: !kvcache.site<k>, %v: !kvcache.site<v>, %c: !kvcache.site<cache>,
                     %b: !kvcache.batch) -> (!kvcache.site<out>, !kvcache.site<cache>) {
    %qr = kvcache.rope %q at %b by <site> : !kvcache.site<q>
    %c1 = kvcache.append %c, %k, %v at %b by <site>
        : !kvcache.site<cache>, !kvcache.site<k>, !kvcache.site<v>
    %o, %s = kvcache.attention %qr over %c1 at %b returns (out, stats)
        {scale = 1.0 : f32, causal, stat = #kvcache.stat<sum>, stat_rows = #kvcache.param<"window">}
        : (!kvcache.site<q>, !kvcache.site<cache>, !kvcache.batch) -> (!kvcache.site<out>, !kvcache.site<scores>)
    %votes = kvcache.pool max %s {kernel = #kvcache.param<"kernel">} : !kvcache.site<scores>
    %c2 = kvcache.evict %c1 by %votes at %b
        {budget = #kvcache.param<"budget">, first = 0 : i64, last = #kvcache.param<"window">}
        : !kvcache.site<cache>, !kvcache.site<scores>
    return %o, %c2 : !kvcache.site<out>, !kvcache.site<cache>
  }
  func.func @decode(%q: !kvcache.site<q>, %k: !kvcache.site<k>, %v: !kvcache.site<v>, %c: !kvcache.site<cache>,
                    %b: !kvcache.batch) -> (!kvcache.site<out>, !kvcache.site<cache>) {
    %qr = kvcache.rope %q at %b by <site> : !kvcache.site<q>
    %c1 = kvcache.append %c, %k, %v at %b by <site>
        : !kvcache.site<cache>, !kvcache.site<k>, !kvcache.site<v>
    %o = kvcache.attention %qr over %c1 at %b {scale = 1.0 : f32, causal}
        : (!kvcache.site<q>, !kvcache.site<cache>, !kvcache.batch) -> !kvcache.site<out>
    return %o, %c1 : !kvcache.site<out>, !kvcache.site<cache>
  }
}
