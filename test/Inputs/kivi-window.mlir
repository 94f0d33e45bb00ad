// A module written by hand: paged 4-bit KIVI storage, a sliding window, a score region, log-sum-exp.
!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = int4<axis = channel>, v = int4, residual = 64>
!rows = tensor<?x8x64xf32>
!kvrows = tensor<?x2x64xf32>
#rope = #kvcache.rope<base = 10000.0 : f32, dims = 64, pairing = half>

func.func @attend(%c0: !kv, %b: !kvcache.batch, %q: !rows, %k: !kvrows, %v: !kvrows) -> (!rows, tensor<?x8xf32>) {
  %qr = kvcache.rope %q at %b by #rope : !rows
  %c1 = kvcache.append %c0, %k, %v at %b by #rope : !kv, !kvrows, !kvrows
  %out, %lse = kvcache.attention %qr over %c1 at %b returns(out, lse) {scale = 0.125 : f32, causal, window = 100 : i64} score {
  ^bb0(%s: f32, %entry: index, %head: index, %qp: index, %kp: index):
    %capped = kvcache.soft_cap %s, 20.0
    %biased = kvcache.alibi %capped, %head, %qp, %kp of 8 heads
    kvcache.yield %biased
  } : (!rows, !kv, !kvcache.batch) -> (!rows, tensor<?x8xf32>)
  return %out, %lse : !rows, tensor<?x8xf32>
}
