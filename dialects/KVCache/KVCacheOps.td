// Operations of the kvcache dialect. The first sentence of each description is that of its page in docs/spec.
#ifndef KVC_DIALECTS_KVCACHE_KVCACHEOPS_TD
#define KVC_DIALECTS_KVCACHE_KVCACHEOPS_TD

include "mlir/Dialect/Linalg/IR/LinalgInterfaces.td"
include "mlir/Interfaces/DestinationStyleOpInterface.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/TilingInterface.td"
include "mlir/IR/OpAsmInterface.td"
include "KVCache/KVCacheTypes.td"

class KVCache_PureOp<string mnemonic, list<Trait> traits = []> : KVCache_Op<mnemonic, [Pure] # traits>;

// An op on caches and tensors. It has no effects; once bufferised it reads, writes and allocates memory.
class KVCache_ValueOp<string mnemonic, list<Trait> traits = []>
    : KVCache_Op<mnemonic, [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
                            DeclareOpInterfaceMethods<ConditionallySpeculatable>] # traits> {
  let extraClassDefinition = [{
    void $cppClass::getEffects(
        ::llvm::SmallVectorImpl<::mlir::SideEffects::EffectInstance<::mlir::MemoryEffects::Effect>> &effects) {
      ::kvc::kvcache::op_detail::getValueOpEffects(*this, effects);
    }
    ::mlir::Speculation::Speculatability $cppClass::getSpeculatability() {
      return ::kvc::kvcache::op_detail::getValueOpSpeculatability(*this);
    }
  }];
}

// An op that makes a cache from a cache of the same type.
class KVCache_UpdateOp<string mnemonic, list<Trait> traits = []>
    : KVCache_ValueOp<mnemonic, [AllTypesMatch<["cache", "result"]>] # traits> {
  let results = (outs KVCache_Cache:$result);
}

// The shapes of the results can be computed from the operands.
def KVCache_Reify : DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>;

//===----------------------------------------------------------------------===//
// Values around the cache
//===----------------------------------------------------------------------===//

def KVCache_WeightOp : KVCache_PureOp<"weight"> {
  let summary = "a constant tensor of the model, by name";
  let description = [{
    The tensor of that name in the model's file, in its stored encoding; nothing is copied or converted.
    ```mlir
    %w = kvcache.weight "blk.0.attn_q.weight" : tensor<576x576xf32, #kvcache.encoded<"q4_1">>
    ```
  }];
  let arguments = (ins StrAttr:$name);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def KVCache_ParameterOp : KVCache_PureOp<"parameter"> {
  let summary = "in a method: the value of a parameter";
  let description = [{
    The value of a parameter of the method that it stands in; a constant once the method is spliced into a graph.
    ```mlir
    %alpha = kvcache.parameter "alpha" : f32
    ```
  }];
  let arguments = (ins KVCache_ParamAttr:$param);
  let results = (outs AnyTypeOf<[F32, I64]>:$result);
  let assemblyFormat = "custom<ParamName>($param) attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def KVCache_RopeOp : KVCache_ValueOp<"rope", [AllTypesMatch<["input", "result"]>, KVCache_Reify]> {
  let summary = "rotates rows by their positions";
  let description = [{
    Applies rotary position embedding to every head of every row, at the row's position in the batch.
    ```mlir
    %r = kvcache.rope %q at %batch by #rope : tensor<?x8x64xf32>
    ```
  }];
  let arguments = (ins KVCache_Rows:$input, KVCache_BatchType:$batch, KVCache_RopeAttr:$rope);
  let results = (outs KVCache_Rows:$result);
  let assemblyFormat = "$input `at` $batch `by` custom<Rope>($rope) attr-dict `:` type($input)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def KVCache_BatchEntriesOp : KVCache_PureOp<"entries"> {
  let summary = "the number of entries of a batch";
  let description = [{
    The number of sequences that take part in this step.
    ```mlir
    %n = kvcache.entries %batch
    ```
  }];
  let arguments = (ins KVCache_BatchType:$batch);
  let results = (outs Index:$result);
  let assemblyFormat = "$batch attr-dict";
}

def KVCache_BatchMaxLengthOp : KVCache_ValueOp<"max_length"> {
  let summary = "the number of slots of the longest table of a batch";
  let description = [{
    The largest number of slots in use over the tables of the batch's sequences, 0 for an empty batch.
    ```mlir
    %n = kvcache.max_length %c at %batch : !kv
    ```
  }];
  let arguments = (ins KVCache_Cache:$cache, KVCache_BatchType:$batch);
  let results = (outs Index:$result);
  let assemblyFormat = "$cache `at` $batch attr-dict `:` type($cache)";
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
    $cache `,` $key `,` $value `at` $batch (`by` custom<Rope>($rope)^)? attr-dict `:` type($cache) `,` type($key) `,` type($value)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
}

def KVCache_CompactOp : KVCache_UpdateOp<"compact"> {
  let summary = "keeps the selected slots, in slot order, and drops the others";
  let description = [{
    Every table of the batch keeps exactly the slots of its list, moved together in ascending order; positions move with them.
    ```mlir
    %c1 = kvcache.compact %c0 keep %s at %batch : !kv, !kvcache.selection<token>
    ```
  }];
  let arguments = (ins KVCache_Cache:$cache, KVCache_SelectionType:$keep, KVCache_BatchType:$batch);
  let assemblyFormat = "$cache `keep` $keep `at` $batch attr-dict `:` type($cache) `,` qualified(type($keep))";
  let hasVerifier = 1;
  let hasFolder = 1;
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

def KVCache_MergeSlotsOp : KVCache_UpdateOp<"merge_slots"> {
  let summary = "keeps the selected slots and merges every other into the one that it is most like";
  let description = [{
    Keeps the selected slots and merges every other slot into the kept one whose stored key has the highest cosine similarity
    to its own. A kept slot becomes the mean of itself and what is merged into it, weighted by `weights`. Slots whose
    similarity stays below `min_similarity` are dropped.
    ```mlir
    %c1 = kvcache.merge_slots %c0 keep %s weighted %w at %batch {min_similarity = 0.5 : f32}
        : !kv, !kvcache.selection<token>, tensor<?x8x?xf32>
    ```
  }];
  let arguments = (ins KVCache_Cache:$cache, KVCache_SelectionType:$keep, KVCache_Scores:$weights,
                       KVCache_BatchType:$batch, OptionalAttr<KVCache_FloatAttr>:$min_similarity);
  let assemblyFormat = [{
    $cache `keep` $keep `weighted` $weights `at` $batch attr-dict `:` type($cache) `,` qualified(type($keep)) `,`
    type($weights)
  }];
  let hasVerifier = 1;
}

def KVCache_CommitOp : KVCache_UpdateOp<"commit"> {
  let summary = "keeps the accepted rows of a speculated tree";
  let description = [{
    Drops, of the newest slots of every table, one for each row of the batch's entry, those whose row was not accepted. The
    accepted ones move together in slot order; older slots stay.
    ```mlir
    %c1 = kvcache.commit %c0 accept %accepted at %batch : !kv, tensor<?xi8>
    ```
  }];
  let arguments = (ins KVCache_Cache:$cache, KVCache_RowMask:$accepted, KVCache_BatchType:$batch);
  let assemblyFormat = "$cache `accept` $accepted `at` $batch attr-dict `:` type($cache) `,` type($accepted)";
  let hasVerifier = 1;
}

def KVCache_FetchOp : KVCache_UpdateOp<"fetch"> {
  let summary = "brings selected pages or slots to the memory that attention reads";
  let description = [{
    Brings the selected pages or slots from a slower tier to the memory that attention reads; the contents of the cache stay
    as they are.
    ```mlir
    %c1 = kvcache.fetch %c0 of %pages at %batch : !kv, !kvcache.selection<page>
    ```
  }];
  let arguments = (ins KVCache_Cache:$cache, KVCache_SelectionType:$selection, KVCache_BatchType:$batch);
  let assemblyFormat = "$cache `of` $selection `at` $batch attr-dict `:` type($cache) `,` qualified(type($selection))";
}

def KVCache_RebaseOp : KVCache_UpdateOp<"rebase"> {
  let summary = "moves keys to new positions: each slot's position becomes its index";
  let description = [{
    Rotates every stored key from its stored position to its slot index and stores that index as its position.
    ```mlir
    %c1 = kvcache.rebase %c0 at %batch by #rope : !kv
    ```
  }];
  let arguments = (ins KVCache_Cache:$cache, KVCache_BatchType:$batch, KVCache_RopeAttr:$rope);
  let assemblyFormat = "$cache `at` $batch `by` custom<Rope>($rope) attr-dict `:` type($cache)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def KVCache_AccumulateOp : KVCache_UpdateOp<"accumulate"> {
  let summary = "folds statistics of attention into the cache's score plane";
  let description = [{
    Folds one number for each slot into the cache's score plane. `add`: score + x; `decay`: decay * score + x; `max`: the
    larger of score and x; `replace`: x. `decay` is a number or a parameter.
    ```mlir
    %c1 = kvcache.accumulate add %c0, %stats at %batch : !kv, tensor<?x8x?xf32>
    ```
  }];
  let arguments = (ins KVCache_UpdateAttr:$update, KVCache_Cache:$cache, KVCache_Scores:$stats, KVCache_BatchType:$batch,
                       OptionalAttr<KVCache_FloatAttr>:$decay);
  let assemblyFormat = "`` $update $cache `,` $stats `at` $batch attr-dict `:` type($cache) `,` type($stats)";
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
  let hasFolder = 1;
}

def KVCache_RequantizeOp : KVCache_ValueOp<"requantize"> {
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
  let hasFolder = 1;
}

def KVCache_CopyOp : KVCache_UpdateOp<"copy"> {
  let summary = "a cache with the same contents and memory of its own";
  let description = [{
    Equal to its operand; bufferisation puts it where an update may not happen in place because the old value is still
    needed. Pages are shared until one side writes.
    ```mlir
    %c1 = kvcache.copy %c0 : !kv
    ```
  }];
  let arguments = (ins KVCache_Cache:$cache);
  let assemblyFormat = "$cache attr-dict `:` type($cache)";
}

def KVCache_ForkOp : KVCache_UpdateOp<"fork"> {
  let summary = "makes one sequence a copy of another, sharing its pages";
  let description = [{
    Makes the destination sequence a copy of the source sequence. Its old contents are dropped; pages are shared until one
    side writes.
    ```mlir
    %c1 = kvcache.fork %c0 from %a to %b : !kv
    ```
  }];
  let arguments = (ins KVCache_Cache:$cache, Index:$source, Index:$destination);
  let assemblyFormat = "$cache `from` $source `to` $destination attr-dict `:` type($cache)";
  let hasFolder = 1;
  let hasVerifier = 1;
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
  let arguments = (ins KVCache_Cache:$cache, KVCache_Lengths:$lengths, KVCache_BatchType:$batch);
  let assemblyFormat = "$cache `to` $lengths `at` $batch attr-dict `:` type($cache) `,` type($lengths)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

//===----------------------------------------------------------------------===//
// Reading caches
//===----------------------------------------------------------------------===//

def KVCache_AttentionOp : KVCache_ValueOp<"attention", [
    IsolatedFromAbove, // score_region_c6
    AttrSizedOperandSegments, KVCache_Reify, DeclareOpInterfaceMethods<AggregatedOpInterface, ["decomposeOperation"]>]> {
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
    `stats` are reduced over the last `stat_rows` rows of each entry (0: all), of these every `stat_stride`-th counted from
    the last (default 1), and the query heads of a KV head.
  }];
  let arguments = (ins
    KVCache_Rows:$query,
    Variadic<KVCache_Cache>:$caches,
    KVCache_BatchType:$batch,
    Variadic<KVCache_SelectionType>:$selections,
    Optional<KVCache_TreeMask>:$tree_mask,
    Optional<KVCache_SinkLogits>:$sink_logits,
    Variadic<AnyType>:$captures,
    F32Attr:$scale,
    UnitAttr:$causal,
    OptionalAttr<KVCache_IntAttr>:$window,
    OptionalAttr<KVCache_IntAttr>:$sinks,
    OptionalAttr<DenseI64ArrayAttr>:$selected_segments,
    OptionalAttr<KVCache_ResultArrayAttr>:$returns,
    OptionalAttr<KVCache_StatAttr>:$stat,
    OptionalAttr<KVCache_IntAttr>:$stat_rows,
    OptionalAttr<KVCache_IntAttr>:$stat_stride,
    OptionalAttr<KVCache_FloatAttr>:$stat_decay,
    OptionalAttr<KVCache_FloatAttr>:$stat_threshold
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
    /// What is returned, in order.
    ::llvm::SmallVector<AttentionResult> getReturnKinds();
    /// The type of a result, given those of the query rows and of a segment.
    static ::mlir::RankedTensorType inferResultType(AttentionResult kind, ::mlir::ShapedType query, CacheType cache);
    /// The result of that kind; null when it is not returned.
    ::mlir::Value getResultOf(AttentionResult kind);
    ::mlir::Value getOut() { return getResultOf(AttentionResult::Out); }
    ::mlir::Value getLse() { return getResultOf(AttentionResult::Lse); }
    ::mlir::Value getStats() { return getResultOf(AttentionResult::Stats); }
    /// The selection of segment i; null when all of it is attended to.
    ::mlir::Value getSelectionOf(unsigned segment);
  }];
  let hasCanonicalizer = 1;
}

def KVCache_AttendOp : KVCache_ValueOp<"attend", [AllTypesMatch<["cache", "result"]>, KVCache_Reify]> {
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
    $query `,` $key `,` $value `with` $cache `at` $batch (`by` custom<Rope>($rope)^)? attr-dict `:`
    type($query) `,` type($key) `,` type($value) `,` type($cache) `->` type($out)
  }];
  let hasVerifier = 1;
}

def KVCache_ScoreOp : KVCache_ValueOp<"score", [KVCache_Reify]> {
  let summary = "scores pages or slots, for every entry and KV head";
  let description = [{
    Gives every page or slot of every entry and KV head a number, the higher the more it matters. `bound`: for each page, sum over channels of max(q min, q max) from the min/max summaries, the largest over the rows of the
    entry and the query heads of the group; `dot`: for each slot q . k, likewise; `key_norm`: the norm of the stored key;
    `plane`: the score plane; `mean`: for each page, q . (mean of its keys), likewise. Entries past a table's end are -inf.
    ```mlir
    %s = kvcache.score bound %q, %c at %batch : (tensor<?x32x128xf32>, !kv, !kvcache.batch) -> tensor<?x8x?xf32>
    ```
  }];
  let arguments = (ins KVCache_ScoreKindAttr:$kind, Optional<KVCache_Rows>:$query, KVCache_Cache:$cache,
                       KVCache_BatchType:$batch);
  let results = (outs KVCache_Scores:$result);
  let assemblyFormat = [{
    `` $kind custom<ScoreOperands>($query, $cache) `at` $batch attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def KVCache_PoolOp : KVCache_ValueOp<"pool", [AllTypesMatch<["input", "result"]>, KVCache_Reify]> {
  let summary = "slides a window over scores along the slots";
  let description = [{
    Replaces every score by the largest (`max`) or the mean (`mean`) of the `kernel` scores centred on it. Slots past the
    table's end do not count.
    ```mlir
    %p = kvcache.pool max %s {kernel = 7 : i64} : tensor<?x8x?xf32>
    ```
  }];
  let arguments = (ins StrAttr:$mode, KVCache_Scores:$input, KVCache_IntAttr:$kernel);
  let results = (outs KVCache_Scores:$result);
  let assemblyFormat = "custom<PoolMode>($mode) $input attr-dict `:` type($input)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def KVCache_TopKOp : KVCache_ValueOp<"topk"> {
  let summary = "selects the pages or slots with the highest scores";
  let description = [{
    Selects units for every entry and KV head, in ascending order: the `first` first, the `last` last and, of the others, the highest scored (the earlier on a
    tie), `k` in all; all of them where there are no more than k.
    ```mlir
    %sel = kvcache.topk page %s, %c at %batch {k = 64, first = 1, last = 2}
        : tensor<?x8x?xf32>, !kv -> !kvcache.selection<page>
    ```
  }];
  let arguments = (ins KVCache_UnitAttr:$unit, KVCache_Scores:$scores, KVCache_Cache:$cache, KVCache_BatchType:$batch,
                       KVCache_IntAttr:$k, KVCache_IntAttr:$first, KVCache_IntAttr:$last);
  let results = (outs KVCache_SelectionType:$result);
  let assemblyFormat = [{
    `` $unit $scores `,` $cache `at` $batch attr-dict `:` type($scores) `,` type($cache) `->` qualified(type($result))
  }];
  let hasVerifier = 1;
}

def KVCache_ThresholdOp : KVCache_ValueOp<"threshold"> {
  let summary = "selects the pages or slots whose score reaches a value";
  let description = [{
    Selects units for every entry and KV head, in ascending order: the `first` first, the `last` last and, of the others, all
    whose score is at least `value`.
    ```mlir
    %sel = kvcache.threshold token %s, %c at %batch {value = 0.01 : f32, first = 4, last = 32}
        : tensor<?x8x?xf32>, !kv -> !kvcache.selection<token>
    ```
  }];
  let arguments = (ins KVCache_UnitAttr:$unit, KVCache_Scores:$scores, KVCache_Cache:$cache, KVCache_BatchType:$batch,
                       KVCache_FloatAttr:$value, KVCache_IntAttr:$first, KVCache_IntAttr:$last);
  let results = (outs KVCache_SelectionType:$result);
  let assemblyFormat = [{
    `` $unit $scores `,` $cache `at` $batch attr-dict `:` type($scores) `,` type($cache) `->` qualified(type($result))
  }];
  let hasVerifier = 1;
}

def KVCache_MapScoresOp : KVCache_ValueOp<"map_scores", [
    IsolatedFromAbove, // map_scores_c6
    KVCache_Reify]> {
  let summary = "computes scores from scores, element by element";
  let description = [{
    Computes every score of the result from the scores at the same place of the operands, by a region over scalars. Where an
    operand holds -inf (past a table's end) the result is -inf.
    ```mlir
    %z = kvcache.map_scores %x, %y {
    ^bb0(%a: f32, %b: f32):
      %s = arith.subf %a, %b : f32
      kvcache.yield %s
    } : tensor<?x8x?xf32>
    ```
  }];
  let arguments = (ins Variadic<KVCache_Scores>:$inputs);
  let results = (outs KVCache_Scores:$result);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasFolder = 1;
}

def KVCache_MergeStatesOp : KVCache_ValueOp<"merge_states", [KVCache_Reify]> {
  let summary = "merges partial attention results over disjoint sets of keys";
  let description = [{
    Merges results of attention over disjoint sets of keys into the result over their union. out = sum_i exp(lse_i - lse) out_i with lse = log sum_i exp(lse_i); all operands as out, lse pairs.
    ```mlir
    %o, %l = kvcache.merge_states %o0, %l0, %o1, %l1 : tensor<?x8x64xf32>, tensor<?x8xf32>
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$states);
  let results = (outs KVCache_Rows:$out, KVCache_Lse:$lse);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def KVCache_ExportOp : KVCache_ValueOp<"export", [KVCache_Reify]> {
  let summary = "decodes stored keys or values into a dense tensor";
  let description = [{
    Decodes the keys or the values of the batch's sequences into a dense tensor. Slots past a table's end are zero. `layout` orders the axes: `nhd` entry x slot x head x channel, `hnd` entry x head x slot x channel.
    ```mlir
    %k = kvcache.export k %c at %batch {layout = #kvcache.dense_layout<nhd>} : !kv -> tensor<?x?x8x128xf32>
    ```
  }];
  let arguments = (ins KVCache_PlaneAttr:$plane, KVCache_Cache:$cache, KVCache_BatchType:$batch,
                       KVCache_DenseLayoutAttr:$layout);
  let results = (outs KVCache_Keys:$result);
  let assemblyFormat = "`` $plane $cache `at` $batch attr-dict `:` type($cache) `->` type($result)";
  let hasVerifier = 1;
}

def KVCache_ImportOp : KVCache_UpdateOp<"import"> {
  let summary = "replaces the contents of sequences by dense keys and values";
  let description = [{
    Replaces the contents of the batch's sequences by dense keys and values. Entry i gets lengths[i] slots; positions are the
    slots' indices.
    ```mlir
    %c1 = kvcache.import %c0, %k, %v, %lengths at %batch {layout = #kvcache.dense_layout<nhd>}
        : !kv, tensor<?x?x8x128xf32>, tensor<?x?x8x128xf32>, tensor<?xi32>
    ```
  }];
  let arguments = (ins KVCache_Cache:$cache, KVCache_Keys:$key, KVCache_Keys:$value, KVCache_Lengths:$lengths,
                       KVCache_BatchType:$batch, KVCache_DenseLayoutAttr:$layout);
  let assemblyFormat = [{
    $cache `,` $key `,` $value `,` $lengths `at` $batch attr-dict `:` type($cache) `,` type($key) `,` type($value) `,` type($lengths)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Score regions
//===----------------------------------------------------------------------===//

def KVCache_YieldOp : KVCache_Op<"yield", [Pure, Terminator, ParentOneOf<["AttentionOp", "OnlineAttentionOp", "MapScoresOp"]>]> {
  let summary = "ends a region over scores with the new score";
  let description = [{
    The single operand is the new score: of an attention, the one that enters the softmax.
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
    Lowers a score in proportion to the distance between query and key: score - slope(head) * (query position - key
    position), slope(h) = 2^(-8 (h + 1) / heads) (Press et al., arXiv:2108.12409).
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

def KVCache_OnlineAttentionOp : KVCache_ValueOp<"online_attention", [
    IsolatedFromAbove, // score_region_c6
    AttrSizedOperandSegments, KVCache_Reify, DestinationStyleOpInterface,
    DeclareOpInterfaceMethods<TilingInterface,
        ["getLoopIteratorTypes", "getIterationDomain", "getTiledImplementation", "getResultTilePosition",
         "generateResultTileValue", "getIterationDomainTileFromResultTile"]>,
    DeclareOpInterfaceMethods<PartialReductionOpInterface,
        ["generateInitialTensorForPartialReduction", "tileToPartialReduction", "mergeReductions",
         "getPartialResultTilePosition"]>]> {
  let summary = "attention over a span of slots that carries the softmax state";
  let description = [{
    Continues the softmax state (acc, max, sum) of every row over the slots `begin .. end-1` of one cache. acc is not yet
    divided by sum; the state of a row that has seen nothing is (0, -inf, 0).
    ```mlir
    %a1, %m1, %s1 = kvcache.online_attention %q over %c span %begin, %end at %batch state %a, %m, %s
        {scale = 0.125 : f32, causal}
        : (tensor<?x8x64xf32>, !kv, index, index, !kvcache.batch, tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>)
        -> (tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>)
    ```
    A tile of the rows and query heads of a larger op says where it starts (`from_row`, `from_head`) and, when it has not
    all heads, how many query heads share a KV head (`group`).
  }];
  let arguments = (ins
    KVCache_Rows:$query, KVCache_Cache:$cache, Index:$begin, Index:$end, KVCache_BatchType:$batch,
    KVCache_Acc:$acc, KVCache_PerHead:$max, KVCache_PerHead:$sum,
    Optional<KVCache_SelectionType>:$selection, Optional<KVCache_TreeMask>:$tree_mask,
    Optional<Index>:$row_offset, Optional<Index>:$head_offset, Variadic<AnyType>:$captures,
    F32Attr:$scale, UnitAttr:$causal, OptionalAttr<KVCache_IntAttr>:$window, OptionalAttr<KVCache_IntAttr>:$sinks,
    OptionalAttr<I64Attr>:$group
  );
  let results = (outs KVCache_Acc:$new_acc, KVCache_PerHead:$new_max, KVCache_PerHead:$new_sum);
  let regions = (region MaxSizedRegion<1>:$score);
  let assemblyFormat = [{
    $query `over` $cache `span` $begin `,` $end `at` $batch `state` $acc `,` $max `,` $sum (`from_row` $row_offset^)?
    (`from_head` $head_offset^)? (`select` $selection^)? (`tree` $tree_mask^)? (`capture` $captures^)? attr-dict
    (`score` $score^)? `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
  let extraClassDeclaration = [{
    /// acc, max, sum.
    ::mlir::MutableOperandRange getDpsInitsMutable();
    /// Query heads that share a KV head; 0 when that is not known yet.
    int64_t getGroupSize();
  }];
}

#endif // KVC_DIALECTS_KVCACHE_KVCACHEOPS_TD
