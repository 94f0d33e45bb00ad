// Operations of the kvcache dialect. The first sentence of each description is that of its page in docs/spec.
#ifndef KVC_DIALECTS_KVCACHE_KVCACHEOPS_TD
#define KVC_DIALECTS_KVCACHE_KVCACHEOPS_TD

include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/IR/OpAsmInterface.td"
include "KVCache/KVCacheTypes.td"

class KVCache_PureOp<string mnemonic, list<Trait> traits = []> : KVCache_Op<mnemonic, [Pure] # traits>;

// An op that makes a cache from a cache of the same type.
class KVCache_UpdateOp<string mnemonic, list<Trait> traits = []>
    : KVCache_PureOp<mnemonic, [AllTypesMatch<["cache", "result"]>] # traits> {
  let results = (outs KVCache_Cache:$result);
}

//===----------------------------------------------------------------------===//
// Values around the cache
//===----------------------------------------------------------------------===//

def KVCache_WeightOp : KVCache_PureOp<"weight"> {
  let summary = "a constant tensor of the model, by name";
  let description = [{
    The tensor of that name in the model's file, in its stored encoding; nothing is copied or converted.
    ```mlir
    %w = kvcache.weight "blk.0.attn_q.weight" : tensor<576x576xf32, #kvcache.encoded<q4_1>>
    ```
  }];
  let arguments = (ins StrAttr:$name);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
}

def KVCache_RopeOp : KVCache_PureOp<"rope", [AllTypesMatch<["input", "result"]>]> {
  let summary = "rotates rows by their positions";
  let description = [{
    Applies rotary position embedding to every head of every row, at the row's position in the batch.
    ```mlir
    %r = kvcache.rope %q at %batch by #kvcache.rope<base = 10000.0 : f32, dims = 64, pairing = half> : tensor<?x8x64xf32>
    ```
  }];
  let arguments = (ins KVCache_Rows:$input, KVCache_BatchType:$batch, KVCache_RopeAttr:$rope);
  let results = (outs KVCache_Rows:$result);
  let assemblyFormat = "$input `at` $batch `by` $rope attr-dict `:` type($input)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Writing caches
//===----------------------------------------------------------------------===//

def KVCache_AppendOp : KVCache_UpdateOp<"append"> {
  let summary = "appends the rows of a batch to their sequences";
  let description = [{
    Appends keys and values, one slot a row, encoding them as the cache's type says; groups that become whole and older
    than the residual window are sealed. With `rope` the keys are rotated first.
    ```mlir
    %c1 = kvcache.append %c0, %k, %v at %batch : !kv, tensor<?x8x128xf32>, tensor<?x8x128xf32>
    ```
  }];
  let arguments = (ins KVCache_Cache:$cache, KVCache_Rows:$key, KVCache_Rows:$value, KVCache_BatchType:$batch,
                       OptionalAttr<KVCache_RopeAttr>:$rope);
  let assemblyFormat = [{
    $cache `,` $key `,` $value `at` $batch (`by` $rope^)? attr-dict `:` type($cache) `,` type($key) `,` type($value)
  }];
  let hasVerifier = 1;
}

def KVCache_CompactOp : KVCache_UpdateOp<"compact"> {
  let summary = "keeps the selected slots, in slot order, and drops the others";
  let description = [{
    Every table of the batch keeps exactly the slots of its list, moved together in ascending order; positions move with them.
    ```mlir
    %c1 = kvcache.compact %c0 keep %s at %batch : !kv
    ```
  }];
  let arguments = (ins KVCache_Cache:$cache, KVCache_SelectionType:$keep, KVCache_BatchType:$batch);
  let assemblyFormat = "$cache `keep` $keep `at` $batch attr-dict `:` type($cache) `,` qualified(type($keep))";
  let hasVerifier = 1;
}

def KVCache_EvictOp : KVCache_UpdateOp<"evict"> {
  let summary = "drops the slots with the lowest scores until a budget is met";
  let description = [{
    Every table longer than `budget` keeps its `first` first slots, its `last` last slots and, of the others, those with the
    highest scores (the earlier slot on a tie), `budget` in all. Shorter tables stay as they are.
    ```mlir
    %c1 = kvcache.evict %c0 by %scores at %batch {budget = 256, first = 4, last = 32} : !kv, tensor<?x8x?xf32>
    ```
  }];
  let arguments = (ins KVCache_Cache:$cache, KVCache_Scores:$scores, KVCache_BatchType:$batch,
                       KVCache_IntAttr:$budget, KVCache_IntAttr:$first, KVCache_IntAttr:$last);
  let assemblyFormat = "$cache `by` $scores `at` $batch attr-dict `:` type($cache) `,` type($scores)";
  let hasVerifier = 1;
}

def KVCache_RebaseOp : KVCache_UpdateOp<"rebase"> {
  let summary = "moves keys to new positions: each slot's position becomes its index";
  let description = [{
    Rotates every stored key from its stored position to its slot index and stores that index as its position.
    ```mlir
    %c1 = kvcache.rebase %c0 at %batch by #kvcache.rope<base = 10000.0 : f32, dims = 64, pairing = half> : !kv
    ```
  }];
  let arguments = (ins KVCache_Cache:$cache, KVCache_BatchType:$batch, KVCache_RopeAttr:$rope);
  let assemblyFormat = "$cache `at` $batch `by` $rope attr-dict `:` type($cache)";
  let hasVerifier = 1;
}

def KVCache_AccumulateOp : KVCache_UpdateOp<"accumulate"> {
  let summary = "folds statistics of attention into the cache's score plane";
  let description = [{
    For every slot: `add` score += x; `decay` score = decay * score + x; `max`; `replace`.
    ```mlir
    %c1 = kvcache.accumulate add %c0, %stats at %batch : !kv, tensor<?x8x?xf32>
    ```
  }];
  let arguments = (ins KVCache_UpdateAttr:$update, KVCache_Cache:$cache, KVCache_Scores:$stats, KVCache_BatchType:$batch,
                       DefaultValuedAttr<F32Attr, "1.0f">:$decay);
  let assemblyFormat = "$update $cache `,` $stats `at` $batch attr-dict `:` type($cache) `,` type($stats)";
  let hasVerifier = 1;
}

def KVCache_SealOp : KVCache_UpdateOp<"seal"> {
  let summary = "packs the exact tail: every whole group is sealed, whatever the residual window";
  let description = [{
    Quantises all whole groups of the tail into pages now.
    ```mlir
    %c1 = kvcache.seal %c0 at %batch : !kv
    ```
  }];
  let arguments = (ins KVCache_Cache:$cache, KVCache_BatchType:$batch);
  let assemblyFormat = "$cache `at` $batch attr-dict `:` type($cache)";
  let hasVerifier = 1;
}

def KVCache_RequantizeOp : KVCache_PureOp<"requantize"> {
  let summary = "stores the contents of a cache in other formats";
  let description = [{
    Slots, positions and lengths stay; keys and values are decoded and encoded again as the result's type says.
    ```mlir
    %c1 = kvcache.requantize %c0 at %batch : !kv_f16 to !kv_int8
    ```
  }];
  let arguments = (ins KVCache_Cache:$cache, KVCache_BatchType:$batch);
  let results = (outs KVCache_Cache:$result);
  let assemblyFormat = "$cache `at` $batch attr-dict `:` type($cache) `to` type($result)";
  let hasVerifier = 1;
}

def KVCache_ForkOp : KVCache_UpdateOp<"fork"> {
  let summary = "makes one sequence a copy of another, sharing its pages";
  let description = [{
    The destination's old contents are dropped; pages are shared until one side writes.
    ```mlir
    %c1 = kvcache.fork %c0 from %a to %b : !kv
    ```
  }];
  let arguments = (ins KVCache_Cache:$cache, Index:$source, Index:$destination);
  let assemblyFormat = "$cache `from` $source `to` $destination attr-dict `:` type($cache)";
}

def KVCache_TruncateOp : KVCache_UpdateOp<"truncate"> {
  let summary = "drops the newest slots";
  let description = [{
    Every table of entry i keeps its first min(length, lengths[i]) slots. A sealed group that is cut goes back to the tail,
    with the values it decodes to.
    ```mlir
    %c1 = kvcache.truncate %c0 to %lengths at %batch : !kv, tensor<?xi32>
    ```
  }];
  let arguments = (ins KVCache_Cache:$cache, 1DTensorOf<[I32]>:$lengths, KVCache_BatchType:$batch);
  let assemblyFormat = "$cache `to` $lengths `at` $batch attr-dict `:` type($cache) `,` type($lengths)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Reading caches
//===----------------------------------------------------------------------===//

def KVCache_AttentionOp : KVCache_PureOp<"attention", [AttrSizedOperandSegments]> {
  let summary = "softmax(q k^T) v over the slots of one or more caches";
  let description = [{
    Every row attends, in one softmax, to the visible slots of all segments of its sequence.
    ```mlir
    %out, %lse = kvcache.attention %q over %prefix, %own at %batch returns (out, lse)
        {scale = 0.125 : f32, causal, window = 1024 : i64}
        score {
        ^bb0(%s: f32, %b: index, %h: index, %qp: index, %kp: index):
          %t = kvcache.soft_cap %s, 30.0
          kvcache.yield %t
        } : (tensor<?x32x128xf32>, !kv, !kv, !kvcache.batch) -> (tensor<?x32x128xf32>, tensor<?x32xf32>)
    ```
    `causal`: a slot is visible when its position is not after the row's. `window = w`: and when row - slot < w, or its
    position is below `sinks`. `tree_mask[row, j]`: whether the row sees the j-th row of its own entry (for slots of this step).
    The score region gets (score, batch entry, query head, query position, key position, captures) and yields the new score.
    `sink_logits[h]` joins the softmax denominator of head h. A row that sees nothing gives out = 0 and lse = -inf.
    `stats` are reduced over the last `stat_rows` rows of each entry (0: all) and the query heads of a KV head.
  }];
  let arguments = (ins
    KVCache_Rows:$query,
    Variadic<KVCache_Cache>:$caches,
    KVCache_BatchType:$batch,
    Variadic<KVCache_SelectionType>:$selections,
    Optional<2DTensorOf<[I8]>>:$tree_mask,
    Optional<1DTensorOf<[F32]>>:$sink_logits,
    Variadic<AnyType>:$captures,
    F32Attr:$scale,
    UnitAttr:$causal,
    OptionalAttr<KVCache_IntAttr>:$window,
    OptionalAttr<KVCache_IntAttr>:$sinks,
    OptionalAttr<DenseI64ArrayAttr>:$selected_segments,
    OptionalAttr<KVCache_ResultArrayAttr>:$returns,
    OptionalAttr<KVCache_StatAttr>:$stat,
    OptionalAttr<KVCache_IntAttr>:$stat_rows
  );
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region MaxSizedRegion<1>:$score);
  let assemblyFormat = [{
    $query `over` $caches `at` $batch (`select` $selections^)? (`tree` $tree_mask^)? (`sink_logits` $sink_logits^)?
    (`capture` $captures^)? (`returns` custom<Returns>($returns)^)? attr-dict (`score` $score^)? `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The result of that kind; null when it is not returned.
    ::mlir::Value getResultOf(AttentionResult kind);
    ::mlir::Value getOut() { return getResultOf(AttentionResult::Out); }
    ::mlir::Value getLse() { return getResultOf(AttentionResult::Lse); }
    ::mlir::Value getStats() { return getResultOf(AttentionResult::Stats); }
    /// The selection of segment i; null when all of it is attended to.
    ::mlir::Value getSelectionOf(unsigned segment);
  }];
}

def KVCache_AttendOp : KVCache_PureOp<"attend", [AllTypesMatch<["cache", "result"]>]> {
  let summary = "an attention site of a model: what the method makes of it";
  let description = [{
    Stands for `append` and `attention` of one layer until a method is spliced in; `phase` says which of the method's functions.
    ```mlir
    %out, %c1 = kvcache.attend %q, %k, %v with %c0 at %batch {layer = 0 : i64, phase = "decode", scale = 0.125 : f32}
        : tensor<?x9x64xf32>, tensor<?x3x64xf32>, tensor<?x3x64xf32>, !kv
    ```
  }];
  let arguments = (ins KVCache_Rows:$query, KVCache_Rows:$key, KVCache_Rows:$value, KVCache_Cache:$cache,
                       KVCache_BatchType:$batch, I64Attr:$layer, StrAttr:$phase, F32Attr:$scale,
                       OptionalAttr<KVCache_RopeAttr>:$rope, OptionalAttr<KVCache_IntAttr>:$window);
  let results = (outs KVCache_Rows:$out, KVCache_Cache:$result);
  let assemblyFormat = [{
    $query `,` $key `,` $value `with` $cache `at` $batch (`by` $rope^)? attr-dict `:`
    type($query) `,` type($key) `,` type($value) `,` type($cache) `->` type($out)
  }];
  let hasVerifier = 1;
}

def KVCache_ScoreOp : KVCache_PureOp<"score"> {
  let summary = "scores pages or slots, for every entry and KV head";
  let description = [{
    `bound`: for each page, sum over channels of max(q min, q max) from the min/max summaries, the largest over the rows of the
    entry and the query heads of the group; `dot`: for each slot q . k, likewise; `key_norm`: the norm of the stored key;
    `plane`: the score plane. Entries past a table's end are -inf.
    ```mlir
    %s = kvcache.score bound %q, %c at %batch : (tensor<?x32x128xf32>, !kv, !kvcache.batch) -> tensor<?x8x?xf32>
    ```
  }];
  let arguments = (ins KVCache_ScoreKindAttr:$kind, Optional<KVCache_Rows>:$query, KVCache_Cache:$cache,
                       KVCache_BatchType:$batch);
  let results = (outs KVCache_Scores:$result);
  let assemblyFormat = [{
    $kind ($query^ `,`)? $cache `at` $batch attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def KVCache_PoolOp : KVCache_PureOp<"pool", [AllTypesMatch<["input", "result"]>]> {
  let summary = "slides a window over scores along the slots";
  let description = [{
    The largest (`max`) or mean (`mean`) of the `kernel` neighbours centred on each slot; slots past the table's end do not count.
    ```mlir
    %p = kvcache.pool max %s {kernel = 7 : i64} : tensor<?x8x?xf32>
    ```
  }];
  let arguments = (ins StrAttr:$mode, KVCache_Scores:$input, KVCache_IntAttr:$kernel);
  let results = (outs KVCache_Scores:$result);
  let assemblyFormat = "$mode $input attr-dict `:` type($input)";
  let hasVerifier = 1;
}

def KVCache_TopKOp : KVCache_PureOp<"topk"> {
  let summary = "selects the pages or slots with the highest scores";
  let description = [{
    For every entry and KV head: the `first` first, the `last` last and, of the others, the highest scored (the earlier on a
    tie), `k` in all, in ascending order; all of them where there are no more than k.
    ```mlir
    %sel = kvcache.topk page %s, %c at %batch {k = 64 : i64, first = 1 : i64, last = 2 : i64} : tensor<?x8x?xf32>, !kv
    ```
  }];
  let arguments = (ins KVCache_UnitAttr:$unit, KVCache_Scores:$scores, KVCache_Cache:$cache, KVCache_BatchType:$batch,
                       KVCache_IntAttr:$k, KVCache_IntAttr:$first, KVCache_IntAttr:$last);
  let results = (outs KVCache_SelectionType:$result);
  let assemblyFormat = [{
    $unit $scores `,` $cache `at` $batch attr-dict `:` type($scores) `,` type($cache) `->` qualified(type($result))
  }];
  let hasVerifier = 1;
}

def KVCache_MergeStatesOp : KVCache_PureOp<"merge_states"> {
  let summary = "merges partial attention results over disjoint sets of keys";
  let description = [{
    out = sum_i exp(lse_i - lse) out_i with lse = log sum_i exp(lse_i); all operands as out, lse pairs.
    ```mlir
    %o, %l = kvcache.merge_states %o0, %l0, %o1, %l1 : tensor<?x8x64xf32>, tensor<?x8xf32>
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$states);
  let results = (outs KVCache_Rows:$out, KVCache_Lse:$lse);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasFolder = 1;
}

def KVCache_ExportOp : KVCache_PureOp<"export"> {
  let summary = "decodes stored keys or values into a dense tensor";
  let description = [{
    Slots past a table's end are zero. `layout` orders the axes: `nhd` entry x slot x head x channel, `hnd` entry x head x slot x channel.
    ```mlir
    %k = kvcache.export k %c at %batch {layout = #kvcache.dense_layout<nhd>} : !kv -> tensor<?x?x8x128xf32>
    ```
  }];
  let arguments = (ins KVCache_PlaneAttr:$plane, KVCache_Cache:$cache, KVCache_BatchType:$batch,
                       KVCache_DenseLayoutAttr:$layout);
  let results = (outs 4DTensorOf<[F32]>:$result);
  let assemblyFormat = "$plane $cache `at` $batch attr-dict `:` type($cache) `->` type($result)";
  let hasVerifier = 1;
}

def KVCache_ImportOp : KVCache_UpdateOp<"import"> {
  let summary = "replaces the contents of sequences by dense keys and values";
  let description = [{
    Entry i gets lengths[i] slots; positions are the slots' indices.
    ```mlir
    %c1 = kvcache.import %c0, %k, %v, %lengths at %batch {layout = #kvcache.dense_layout<nhd>}
        : !kv, tensor<?x?x8x128xf32>, tensor<?x?x8x128xf32>, tensor<?xi32>
    ```
  }];
  let arguments = (ins KVCache_Cache:$cache, 4DTensorOf<[F32]>:$key, 4DTensorOf<[F32]>:$value, 1DTensorOf<[I32]>:$lengths,
                       KVCache_BatchType:$batch, KVCache_DenseLayoutAttr:$layout);
  let assemblyFormat = [{
    $cache `,` $key `,` $value `,` $lengths `at` $batch attr-dict `:` type($cache) `,` type($key) `,` type($value) `,` type($lengths)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Score regions
//===----------------------------------------------------------------------===//

def KVCache_YieldOp : KVCache_Op<"yield", [Pure, Terminator, ParentOneOf<["AttentionOp", "OnlineAttentionOp"]>]> {
  let summary = "ends a score region with the new score";
  let description = [{
    The single operand is the score that enters the softmax.
    ```mlir
    kvcache.yield %t
    ```
  }];
  let arguments = (ins F32:$score);
  let assemblyFormat = "$score attr-dict";
}

def KVCache_SoftCapOp : KVCache_PureOp<"soft_cap", [SameOperandsAndResultType]> {
  let summary = "cap * tanh(score / cap)";
  let description = [{
    Bounds a score smoothly to (-cap, cap).
    ```mlir
    %t = kvcache.soft_cap %s, 30.0
    ```
  }];
  let arguments = (ins F32:$score, F32Attr:$cap);
  let results = (outs F32:$result);
  let assemblyFormat = "$score `,` custom<PlainF32>($cap) attr-dict";
  let hasVerifier = 1;
}

def KVCache_AlibiOp : KVCache_PureOp<"alibi"> {
  let summary = "adds a penalty linear in distance";
  let description = [{
    score - slope(head) * (query position - key position), slope(h) = 2^(-8 (h + 1) / heads) (Press et al., arXiv:2108.12409).
    ```mlir
    %t = kvcache.alibi %s, %h, %qp, %kp of 32 heads
    ```
  }];
  let arguments = (ins F32:$score, Index:$head, Index:$query_position, Index:$key_position, I64Attr:$heads);
  let results = (outs F32:$result);
  let assemblyFormat = "$score `,` $head `,` $query_position `,` $key_position `of` custom<PlainI64>($heads) `heads` attr-dict";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// The form with state
//===----------------------------------------------------------------------===//

def KVCache_OnlineAttentionOp : KVCache_PureOp<"online_attention", [AttrSizedOperandSegments]> {
  let summary = "attention over a span of slots that carries the softmax state";
  let description = [{
    Continues (acc, max, sum) over slots `begin .. end-1` of one cache; acc is not yet divided by sum.
    ```mlir
    %a1, %m1, %s1 = kvcache.online_attention %q over %c span %begin, %end at %batch state %a, %m, %s
        {scale = 0.125 : f32, causal}
        : (tensor<?x8x64xf32>, !kv, index, index, !kvcache.batch, tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>)
        -> (tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>)
    ```
  }];
  let arguments = (ins
    KVCache_Rows:$query, KVCache_Cache:$cache, Index:$begin, Index:$end, KVCache_BatchType:$batch,
    3DTensorOf<[F32]>:$acc, 2DTensorOf<[F32]>:$max, 2DTensorOf<[F32]>:$sum,
    Optional<KVCache_SelectionType>:$selection, Optional<2DTensorOf<[I8]>>:$tree_mask, Variadic<AnyType>:$captures,
    F32Attr:$scale, UnitAttr:$causal, OptionalAttr<KVCache_IntAttr>:$window, OptionalAttr<KVCache_IntAttr>:$sinks
  );
  let results = (outs 3DTensorOf<[F32]>:$new_acc, 2DTensorOf<[F32]>:$new_max, 2DTensorOf<[F32]>:$new_sum);
  let regions = (region MaxSizedRegion<1>:$score);
  let assemblyFormat = [{
    $query `over` $cache `span` $begin `,` $end `at` $batch `state` $acc `,` $max `,` $sum (`select` $selection^)?
    (`tree` $tree_mask^)? (`capture` $captures^)? attr-dict (`score` $score^)? `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

#endif // KVC_DIALECTS_KVCACHE_KVCACHEOPS_TD
