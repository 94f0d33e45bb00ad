// Quest (Tang et al., ICML 2024, arXiv:2406.10774): a decode step reads only the pages whose keys may score highest, by an
// upper bound from the least and greatest key of a page in each channel. As in the paper: the bound, pages of 16, the
// first 2 layers read all, nothing is dropped, a prompt reads all. Different: the query heads of a KV head share a list, by
// their largest bound (the paper has one per KV head); the newest page is always read.
module attributes {
  kvcache.method = "quest",
  kvcache.doc = "a decode step reads the pages that may score highest",
  kvcache.params = {page = 16 : i64, pages = 16 : i64, first_layer = 2 : i64},
  kvcache.cache = "page = $page, planes = [minmax]",
  kvcache.layers = "$first_layer.."
} {
  func.func @prefill(%q: !kvcache.site<q>, %k: !kvcache.site<k>, %v: !kvcache.site<v>, %c: !kvcache.site<cache>,
                     %b: !kvcache.batch) -> (!kvcache.site<out>, !kvcache.site<cache>) {
    %qr = kvcache.rope %q at %b by <site> : !kvcache.site<q>
    %c1 = kvcache.append %c, %k, %v at %b by <site>
        : !kvcache.site<cache>, !kvcache.site<k>, !kvcache.site<v>
    %o = kvcache.attention %qr over %c1 at %b {scale = 1.0 : f32, causal}
        : (!kvcache.site<q>, !kvcache.site<cache>, !kvcache.batch) -> !kvcache.site<out>
    return %o, %c1 : !kvcache.site<out>, !kvcache.site<cache>
  }
  func.func @decode(%q: !kvcache.site<q>, %k: !kvcache.site<k>, %v: !kvcache.site<v>, %c: !kvcache.site<cache>,
                    %b: !kvcache.batch) -> (!kvcache.site<out>, !kvcache.site<cache>) {
    %qr = kvcache.rope %q at %b by <site> : !kvcache.site<q>
    %c1 = kvcache.append %c, %k, %v at %b by <site>
        : !kvcache.site<cache>, !kvcache.site<k>, !kvcache.site<v>
    %bound = kvcache.score bound %qr, %c1 at %b
        : (!kvcache.site<q>, !kvcache.site<cache>, !kvcache.batch) -> !kvcache.site<scores>
    %best = kvcache.topk page %bound, %c1 at %b {k = #kvcache.param<"pages">, first = 0 : i64, last = 1 : i64}
        : !kvcache.site<scores>, !kvcache.site<cache> -> !kvcache.selection<page>
    %o = kvcache.attention %qr over %c1 at %b select %best {scale = 1.0 : f32, causal}
        : (!kvcache.site<q>, !kvcache.site<cache>, !kvcache.batch, !kvcache.selection<page>) -> !kvcache.site<out>
    return %o, %c1 : !kvcache.site<out>, !kvcache.site<cache>
  }
}
