// Every constraint of docs/spec that an operation verifies: the name of a function starts with the constraint's label.
// RUN: kvc-opt %s -split-input-file -verify-diagnostics

func.func @weight_c1_name() {
  // expected-error@+1 {{expects the name of a tensor, but got an empty one}}
  %w = kvcache.weight "" : tensor<4xf32>
  return
}

// -----

#wide = #kvcache.rope<base = 10000.0 : f32, dims = 128, pairing = half>
func.func @rope_c1_dims(%q: tensor<?x8x64xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects rope dims of at most 64, but got 128}}
  %r = kvcache.rope %q at %b by #wide : tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @append_c1_key_heads(%c: !kv, %k: tensor<?x3x64xf32>, %v: tensor<?x2x64xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects heads of key 2, but got 3}}
  %d = kvcache.append %c, %k, %v at %b : !kv, tensor<?x3x64xf32>, tensor<?x2x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @append_c1_key_dynamic_heads(%c: !kv, %k: tensor<?x?x64xf32>, %v: tensor<?x2x64xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects heads of key 2, but got ?}}
  %d = kvcache.append %c, %k, %v at %b : !kv, tensor<?x?x64xf32>, tensor<?x2x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @append_c1_key_channels(%c: !kv, %k: tensor<?x2x32xf32>, %v: tensor<?x2x64xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects channels of key 64, but got 32}}
  %d = kvcache.append %c, %k, %v at %b : !kv, tensor<?x2x32xf32>, tensor<?x2x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @append_c2_value(%c: !kv, %k: tensor<?x2x64xf32>, %v: tensor<?x2x32xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects channels of value 64, but got 32}}
  %d = kvcache.append %c, %k, %v at %b : !kv, tensor<?x2x64xf32>, tensor<?x2x32xf32>
  return
}

// -----

!roped = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, rope = #kvcache.rope<base = 1.0e4 : f32, dims = 64, pairing = half>>
#rope = #kvcache.rope<base = 10000.0 : f32, dims = 64, pairing = half>
func.func @append_c3_rope_twice(%c: !roped, %k: tensor<?x2x64xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects no rope on append to a cache that rotates keys when loaded, but got both}}
  %d = kvcache.append %c, %k, %k at %b by #rope : !roped, tensor<?x2x64xf32>, tensor<?x2x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
#wide = #kvcache.rope<base = 10000.0 : f32, dims = 128, pairing = half>
func.func @append_c4_rope_dims(%c: !kv, %k: tensor<?x2x64xf32>, %v: tensor<?x2x64xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects rope dims of at most 64, but got 128}}
  %d = kvcache.append %c, %k, %v at %b by #wide : !kv, tensor<?x2x64xf32>, tensor<?x2x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @append_c5_rows(%c: !kv, %k: tensor<4x2x64xf32>, %v: tensor<5x2x64xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects rows of value 4, but got 5}}
  %d = kvcache.append %c, %k, %v at %b : !kv, tensor<4x2x64xf32>, tensor<5x2x64xf32>
  return
}

// -----

!own = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored, tables = per_head>
func.func @compact_c1_unit(%c: !own, %s: !kvcache.selection<page>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a selection of unit token, but got page}}
  %d = kvcache.compact %c keep %s at %b : !own, !kvcache.selection<page>
  return
}

// -----

!kivi = !kvcache.cache<heads = 2, dim = 64, page = 32, k = int4<axis = channel>, v = int4, residual = 128>
func.func @compact_c2_groups(%c: !kivi, %s: !kvcache.selection<token>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a cache whose slots can move one by one, but got groups of 32 tokens that share scales; requantize the cache first}}
  %d = kvcache.compact %c keep %s at %b : !kivi, !kvcache.selection<token>
  return
}

// -----

!ring = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored, window = 128, sinks = 4>
func.func @compact_c2_ring(%c: !ring, %s: !kvcache.selection<token>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a cache without a ring, but got window 128}}
  %d = kvcache.compact %c keep %s at %b : !ring, !kvcache.selection<token>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @compact_c3_implicit_positions(%c: !kv, %s: !kvcache.selection<token>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a cache with positions = stored, but got implicit positions}}
  %d = kvcache.compact %c keep %s at %b : !kv, !kvcache.selection<token>
  return
}

// -----

!stored = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored>
func.func @compact_c3_one_table(%c: !stored, %s: !kvcache.selection<token>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a cache with tables = per_head, as every KV head keeps its own slots, but got one table per sequence}}
  %d = kvcache.compact %c keep %s at %b : !stored, !kvcache.selection<token>
  return
}

// -----

!kivi = !kvcache.cache<heads = 2, dim = 64, page = 32, k = int4<axis = channel>, v = int4, residual = 128>
func.func @evict_c1_groups(%c: !kivi, %s: tensor<?x2x?xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a cache whose slots can move one by one, but got groups of 32 tokens}}
  %d = kvcache.evict %c by %s at %b {budget = 8, first = 0, last = 0} : !kivi, tensor<?x2x?xf32>
  return
}

// -----

!own = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored, tables = per_head>
func.func @evict_c2_scores(%c: !own, %s: tensor<?x4x?xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects KV heads of scores 2, but got 4}}
  %d = kvcache.evict %c by %s at %b {budget = 8, first = 0, last = 0} : !own, tensor<?x4x?xf32>
  return
}

// -----

!own = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored, tables = per_head>
func.func @evict_c3_budget(%c: !own, %s: tensor<?x2x?xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects budget of at least 1, but got 0}}
  %d = kvcache.evict %c by %s at %b {budget = 0, first = 0, last = 0} : !own, tensor<?x2x?xf32>
  return
}

// -----

!own = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored, tables = per_head>
func.func @evict_c3_first(%c: !own, %s: tensor<?x2x?xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects first of at least 0, but got -1}}
  %d = kvcache.evict %c by %s at %b {budget = 8, first = -1, last = 0} : !own, tensor<?x2x?xf32>
  return
}

// -----

!own = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored, tables = per_head>
func.func @evict_c4_first_and_last(%c: !own, %s: tensor<?x2x?xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects first + last of at most the budget 8, but got 4 + 5}}
  %d = kvcache.evict %c by %s at %b {budget = 8, first = 4, last = 5} : !own, tensor<?x2x?xf32>
  return
}

// -----

!own = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored, tables = per_head>
func.func @evict_c4_overflow(%c: !own, %s: tensor<?x2x?xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects first + last of at most the budget 8, but got}}
  %d = kvcache.evict %c by %s at %b {budget = 8, first = 9223372036854775807, last = 9223372036854775807} : !own, tensor<?x2x?xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @evict_c5_implicit_positions(%c: !kv, %s: tensor<?x2x?xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a cache with positions = stored, but got implicit positions}}
  %d = kvcache.evict %c by %s at %b {budget = 8, first = 0, last = 0} : !kv, tensor<?x2x?xf32>
  return
}

// -----

!kivi = !kvcache.cache<heads = 2, dim = 64, page = 32, k = int4<axis = channel>, v = int4, residual = 128>
#rope = #kvcache.rope<base = 10000.0 : f32, dims = 64, pairing = half>
func.func @rebase_c1_groups(%c: !kivi, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a cache whose slots can move one by one, but got groups of 32 tokens}}
  %d = kvcache.rebase %c at %b by #rope : !kivi
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
#rope = #kvcache.rope<base = 10000.0 : f32, dims = 64, pairing = half>
func.func @rebase_c2_implicit_positions(%c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a cache with positions = stored, but got implicit positions}}
  %d = kvcache.rebase %c at %b by #rope : !kv
  return
}

// -----

!late = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored, rope = #kvcache.rope<base = 1.0e4 : f32, dims = 64, pairing = half>>
#rope = #kvcache.rope<base = 10000.0 : f32, dims = 64, pairing = half>
func.func @rebase_c3_rotated_when_loaded(%c: !late, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a cache that stores rotated keys, but got one that rotates them when loaded}}
  %d = kvcache.rebase %c at %b by #rope : !late
  return
}

// -----

!stored = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored>
#wide = #kvcache.rope<base = 10000.0 : f32, dims = 128, pairing = half>
func.func @rebase_c4_dims(%c: !stored, %b: !kvcache.batch) {
  // expected-error@+1 {{expects rope dims of at most 64, but got 128}}
  %d = kvcache.rebase %c at %b by #wide : !stored
  return
}

// -----

!stored = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored>
#reorders = #kvcache.rope<base = 10000.0 : f32, dims = 64, pairing = adjacent_to_half>
func.func @rebase_c5_reorders(%c: !stored, %b: !kvcache.batch) {
  // expected-error@+1 {{expects the pairing of the stored keys, half or adjacent, but got adjacent_to_half}}
  %d = kvcache.rebase %c at %b by #reorders : !stored
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @accumulate_c1_plane(%c: !kv, %s: tensor<?x2x?xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a cache with the plane score, but got}}
  %d = kvcache.accumulate add %c, %s at %b : !kv, tensor<?x2x?xf32>
  return
}

// -----

!sc = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, planes = [score]>
func.func @accumulate_c2_stats(%c: !sc, %s: tensor<?x3x?xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects KV heads of stats 2, but got 3}}
  %d = kvcache.accumulate add %c, %s at %b : !sc, tensor<?x3x?xf32>
  return
}

// -----

!sc = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, planes = [score]>
func.func @accumulate_c3_range(%c: !sc, %s: tensor<?x2x?xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a decay between 0 and 1, but got 1.500000e+00}}
  %d = kvcache.accumulate decay %c, %s at %b {decay = 1.5 : f32} : !sc, tensor<?x2x?xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @seal_c1_tail(%c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a cache with a tail of exact tokens, but got}}
  %d = kvcache.seal %c at %b : !kv
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
!four = !kvcache.cache<heads = 4, dim = 64, page = 32, k = f16, v = f16>
func.func @requantize_c1_heads(%c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects caches that differ only in page, formats, tail and planes, but got}}
  %d = kvcache.requantize %c at %b : !kv to !four
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
!stored = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored>
func.func @requantize_c1_positions(%c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects caches that differ only in page, formats, tail and planes, but got}}
  %d = kvcache.requantize %c at %b : !kv to !stored
  return
}

// -----

!ring = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored, window = 128, sinks = 4>
!stored = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored>
func.func @requantize_c2_ring(%c: !ring, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a cache without a ring, but got window 128}}
  %d = kvcache.requantize %c at %b : !ring to !stored
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @fork_c1_negative(%c: !kv, %to: index) {
  %minus = arith.constant -1 : index
  // expected-error@+1 {{expects source of at least 0, but got -1}}
  %d = kvcache.fork %c from %minus to %to : !kv
  return
}

// -----

!ring = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored, window = 128, sinks = 4>
func.func @truncate_c1_ring(%c: !ring, %l: tensor<?xi32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a cache without a ring, but got window 128}}
  %d = kvcache.truncate %c to %l at %b : !ring, tensor<?xi32>
  return
}

// -----

func.func @attention_c1_no_cache(%q: tensor<?x8x64xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects at least one cache, but got none}}
  %o = "kvcache.attention"(%q, %b) <{operandSegmentSizes = array<i32: 1, 0, 1, 0, 0, 0, 0>, scale = 1.0 : f32}> ({})
      : (tensor<?x8x64xf32>, !kvcache.batch) -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attention_c2_query_heads(%q: tensor<?x7x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects query heads 1 to 128 times the 2 KV heads, but got 7}}
  %o = kvcache.attention %q over %c at %b {scale = 1.0 : f32}
      : (tensor<?x7x64xf32>, !kv, !kvcache.batch) -> tensor<?x7x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attention_c2_dynamic_heads(%q: tensor<?x?x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects query heads 1 to 128 times the 2 KV heads, but got ?}}
  %o = kvcache.attention %q over %c at %b {scale = 1.0 : f32}
      : (tensor<?x?x64xf32>, !kv, !kvcache.batch) -> tensor<?x?x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attention_c2_group_of_129(%q: tensor<?x258x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects query heads 1 to 128 times the 2 KV heads, but got 258}}
  %o = kvcache.attention %q over %c at %b {scale = 1.0 : f32}
      : (tensor<?x258x64xf32>, !kv, !kvcache.batch) -> tensor<?x258x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attention_c3_channels(%q: tensor<?x8x128xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects channels of query 64, but got 128}}
  %o = kvcache.attention %q over %c at %b {scale = 1.0 : f32}
      : (tensor<?x8x128xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attention_c3_dynamic_channels(%q: tensor<?x8x?xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects channels of query 64, but got ?}}
  %o = kvcache.attention %q over %c at %b {scale = 1.0 : f32}
      : (tensor<?x8x?xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
!narrow = !kvcache.cache<heads = 2, dim = 64, v_dim = 32, page = 32, k = f16, v = f16>
func.func @attention_c4_head_dim(%q: tensor<?x8x64xf32>, %c: !kv, %d: !narrow, %b: !kvcache.batch) {
  // expected-error@+1 {{expects segments of equal heads and value channels, but got}}
  %o = kvcache.attention %q over %c, %d at %b {scale = 1.0 : f32}
      : (tensor<?x8x64xf32>, !kv, !narrow, !kvcache.batch) -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attention_c5_number_of_selections(%q: tensor<?x8x64xf32>, %c: !kv, %d: !kv, %s: !kvcache.selection<page>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects selections of number 2, but got 1}}
  %o = kvcache.attention %q over %c, %d at %b select %s {scale = 1.0 : f32}
      : (tensor<?x8x64xf32>, !kv, !kv, !kvcache.batch, !kvcache.selection<page>) -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attention_c5_segment_out_of_range(%q: tensor<?x8x64xf32>, %c: !kv, %s: !kvcache.selection<page>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects selected_segments that are distinct and below 1, but got 1}}
  %o = kvcache.attention %q over %c at %b select %s {scale = 1.0 : f32, selected_segments = array<i64: 1>}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch, !kvcache.selection<page>) -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attention_c5_size(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects selected_segments of size 0, but got 1}}
  %o = kvcache.attention %q over %c at %b {scale = 1.0 : f32, selected_segments = array<i64: 0>}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attention_c6_window(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects window of at least 1, but got 0}}
  %o = kvcache.attention %q over %c at %b {scale = 1.0 : f32, window = 0}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attention_c6_sinks_without_window(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a window with sinks, but got none}}
  %o = kvcache.attention %q over %c at %b {scale = 1.0 : f32, sinks = 4}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attention_c7_twice(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects distinct returns, but got out twice}}
  %o:2 = kvcache.attention %q over %c at %b returns (out, out) {scale = 1.0 : f32}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> (tensor<?x8x64xf32>, tensor<?x8x64xf32>)
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attention_c7_number_of_results(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects at least one result, and as many as in returns: 2, but got 1}}
  %o = kvcache.attention %q over %c at %b returns (out, lse) {scale = 1.0 : f32}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attention_c8_stat_missing(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects stat exactly when stats are returned, but got none}}
  %o = kvcache.attention %q over %c at %b returns (stats) {scale = 1.0 : f32}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x2x?xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attention_c8_stat_orphan(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects stat exactly when stats are returned, but got one}}
  %o = kvcache.attention %q over %c at %b {scale = 1.0 : f32, stat = #kvcache.stat<sum>}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attention_c8_stat_rows_orphan(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects stat_rows only when stats are returned, but got 4}}
  %o = kvcache.attention %q over %c at %b {scale = 1.0 : f32, stat_rows = 4}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attention_c8_segments(%q: tensor<?x8x64xf32>, %c: !kv, %d: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects one segment when stats are returned, but got 2}}
  %o = kvcache.attention %q over %c, %d at %b returns (stats) {scale = 1.0 : f32, stat = #kvcache.stat<sum>}
      : (tensor<?x8x64xf32>, !kv, !kv, !kvcache.batch) -> tensor<?x2x?xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attention_c9_out(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects result out of type 'tensor<?x8x64xf32>', but got 'tensor<?x8x32xf32>'}}
  %o = kvcache.attention %q over %c at %b {scale = 1.0 : f32}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x32xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attention_c9_element_type(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects result out of type 'tensor<?x8x64xf32>', but got 'tensor<?x8x64xf16>'}}
  %o = kvcache.attention %q over %c at %b {scale = 1.0 : f32}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf16>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attention_c9_not_a_tensor(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects ranked tensors as results, but got 'f32'}}
  %o = kvcache.attention %q over %c at %b {scale = 1.0 : f32}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> f32
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attention_c10_sink_logits(%q: tensor<?x8x64xf32>, %c: !kv, %s: tensor<4xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects sink_logits of size 8, but got}}
  %o = kvcache.attention %q over %c at %b sink_logits %s {scale = 1.0 : f32}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch, tensor<4xf32>) -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attention_c11_captures(%q: tensor<?x8x64xf32>, %c: !kv, %x: f32, %b: !kvcache.batch) {
  // expected-error@+1 {{expects no captures without a score region, but got 1}}
  %o = kvcache.attention %q over %c at %b capture %x {scale = 1.0 : f32}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch, f32) -> tensor<?x8x64xf32>
  return
}

// -----

!ring = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored, window = 128, sinks = 4>
func.func @attention_c12_window_beyond_the_ring(%q: tensor<?x8x64xf32>, %c: !ring, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a window of at most the 128 that the ring keeps, but got 129}}
  %o = kvcache.attention %q over %c at %b {scale = 1.0 : f32, window = 129}
      : (tensor<?x8x64xf32>, !ring, !kvcache.batch) -> tensor<?x8x64xf32>
  return
}

// -----

!ring = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored, window = 128, sinks = 4>
func.func @attention_c12_sinks_beyond_the_ring(%q: tensor<?x8x64xf32>, %c: !ring, %b: !kvcache.batch) {
  // expected-error@+1 {{expects sinks of at most the 4 that the ring keeps, but got 5}}
  %o = kvcache.attention %q over %c at %b {scale = 1.0 : f32, window = 64, sinks = 5}
      : (tensor<?x8x64xf32>, !ring, !kvcache.batch) -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attention_c13_tree_rows(%q: tensor<4x8x64xf32>, %c: !kv, %t: tensor<5x?xi8>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects rows of tree_mask 4, but got 5}}
  %o = kvcache.attention %q over %c at %b tree %t {scale = 1.0 : f32}
      : (tensor<4x8x64xf32>, !kv, !kvcache.batch, tensor<5x?xi8>) -> tensor<4x8x64xf32>
  return
}

// -----

!ring = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored, window = 128, sinks = 4>
func.func @attention_c13_tree_over_a_ring(%q: tensor<?x8x64xf32>, %c: !ring, %t: tensor<?x?xi8>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects no ring with a tree mask, as its slots are not in the order of the rows, but got window 128}}
  %o = kvcache.attention %q over %c at %b tree %t {scale = 1.0 : f32}
      : (tensor<?x8x64xf32>, !ring, !kvcache.batch, tensor<?x?xi8>) -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attention_c14_scale(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a scale that is finite and not zero, but got}}
  %o = kvcache.attention %q over %c at %b {scale = 0x7FC00000 : f32}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @online_attention_c1_query_heads(%q: tensor<?x7x64xf32>, %c: !kv, %i: index, %a: tensor<?x7x64xf32>, %m: tensor<?x7xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects query heads 1 to 128 times the 2 KV heads, but got 7}}
  %o:3 = kvcache.online_attention %q over %c span %i, %i at %b state %a, %m, %m {scale = 1.0 : f32}
      : (tensor<?x7x64xf32>, !kv, index, index, !kvcache.batch, tensor<?x7x64xf32>, tensor<?x7xf32>, tensor<?x7xf32>) -> (tensor<?x7x64xf32>, tensor<?x7xf32>, tensor<?x7xf32>)
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @online_attention_c1_group_range(%q: tensor<?x8x64xf32>, %c: !kv, %i: index, %a: tensor<?x8x64xf32>, %m: tensor<?x8xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects group of 1 to 128 query heads, but got 0}}
  %o:3 = kvcache.online_attention %q over %c span %i, %i at %b state %a, %m, %m {scale = 1.0 : f32, group = 0 : i64}
      : (tensor<?x8x64xf32>, !kv, index, index, !kvcache.batch, tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>) -> (tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>)
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @online_attention_c1_more_heads_than_groups(%q: tensor<?x8x64xf32>, %c: !kv, %i: index, %a: tensor<?x8x64xf32>, %m: tensor<?x8xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects query heads of at most 4, but got 8}}
  %o:3 = kvcache.online_attention %q over %c span %i, %i at %b state %a, %m, %m {scale = 1.0 : f32, group = 2 : i64}
      : (tensor<?x8x64xf32>, !kv, index, index, !kvcache.batch, tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>) -> (tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>)
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @online_attention_c1_from_head_without_group(%q: tensor<?x8x64xf32>, %c: !kv, %i: index, %a: tensor<?x8x64xf32>, %m: tensor<?x8xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects group with from_head, but got none}}
  %o:3 = kvcache.online_attention %q over %c span %i, %i at %b state %a, %m, %m from_head %i {scale = 1.0 : f32}
      : (tensor<?x8x64xf32>, !kv, index, index, !kvcache.batch, tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>, index) -> (tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>)
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @online_attention_c2_channels(%q: tensor<?x8x32xf32>, %c: !kv, %i: index, %a: tensor<?x8x64xf32>, %m: tensor<?x8xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects channels of query 64, but got 32}}
  %o:3 = kvcache.online_attention %q over %c span %i, %i at %b state %a, %m, %m {scale = 1.0 : f32}
      : (tensor<?x8x32xf32>, !kv, index, index, !kvcache.batch, tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>) -> (tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>)
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @online_attention_c3_state_types(%q: tensor<?x8x64xf32>, %c: !kv, %i: index, %a: tensor<?x8x64xf32>, %m: tensor<?x8xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a state of the same types before and after, but got}}
  %o:3 = kvcache.online_attention %q over %c span %i, %i at %b state %a, %m, %m {scale = 1.0 : f32}
      : (tensor<?x8x64xf32>, !kv, index, index, !kvcache.batch, tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>) -> (tensor<4x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>)
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @online_attention_c4_acc_channels(%q: tensor<?x8x64xf32>, %c: !kv, %i: index, %a: tensor<?x8x32xf32>, %m: tensor<?x8xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects channels of acc 64, but got 32}}
  %o:3 = kvcache.online_attention %q over %c span %i, %i at %b state %a, %m, %m {scale = 1.0 : f32}
      : (tensor<?x8x64xf32>, !kv, index, index, !kvcache.batch, tensor<?x8x32xf32>, tensor<?x8xf32>, tensor<?x8xf32>) -> (tensor<?x8x32xf32>, tensor<?x8xf32>, tensor<?x8xf32>)
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @online_attention_c4_max_heads(%q: tensor<?x8x64xf32>, %c: !kv, %i: index, %a: tensor<?x8x64xf32>, %m: tensor<?x4xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects heads of max 8, but got 4}}
  %o:3 = kvcache.online_attention %q over %c span %i, %i at %b state %a, %m, %m {scale = 1.0 : f32}
      : (tensor<?x8x64xf32>, !kv, index, index, !kvcache.batch, tensor<?x8x64xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> (tensor<?x8x64xf32>, tensor<?x4xf32>, tensor<?x4xf32>)
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @online_attention_c5_window(%q: tensor<?x8x64xf32>, %c: !kv, %i: index, %a: tensor<?x8x64xf32>, %m: tensor<?x8xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects window of at least 1, but got -3}}
  %o:3 = kvcache.online_attention %q over %c span %i, %i at %b state %a, %m, %m {scale = 1.0 : f32, window = -3}
      : (tensor<?x8x64xf32>, !kv, index, index, !kvcache.batch, tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>) -> (tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>)
  return
}

// -----

!ring = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored, window = 128, sinks = 4>
func.func @online_attention_c6_window_beyond_the_ring(%q: tensor<?x8x64xf32>, %c: !ring, %i: index, %a: tensor<?x8x64xf32>, %m: tensor<?x8xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a window of at most the 128 that the ring keeps, but got 256}}
  %o:3 = kvcache.online_attention %q over %c span %i, %i at %b state %a, %m, %m {scale = 1.0 : f32, window = 256}
      : (tensor<?x8x64xf32>, !ring, index, index, !kvcache.batch, tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>) -> (tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>)
  return
}

// -----

!ring = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored, window = 128, sinks = 4>
func.func @online_attention_c7_tree_over_a_ring(%q: tensor<?x8x64xf32>, %c: !ring, %i: index, %a: tensor<?x8x64xf32>, %m: tensor<?x8xf32>, %t: tensor<?x?xi8>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects no ring with a tree mask}}
  %o:3 = kvcache.online_attention %q over %c span %i, %i at %b state %a, %m, %m tree %t {scale = 1.0 : f32}
      : (tensor<?x8x64xf32>, !ring, index, index, !kvcache.batch, tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x?xi8>) -> (tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>)
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @online_attention_c8_scale(%q: tensor<?x8x64xf32>, %c: !kv, %i: index, %a: tensor<?x8x64xf32>, %m: tensor<?x8xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a scale that is finite and not zero, but got 0}}
  %o:3 = kvcache.online_attention %q over %c span %i, %i at %b state %a, %m, %m {scale = 0.0 : f32}
      : (tensor<?x8x64xf32>, !kv, index, index, !kvcache.batch, tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>) -> (tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>)
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @online_attention_c9_captures(%q: tensor<?x8x64xf32>, %c: !kv, %i: index, %a: tensor<?x8x64xf32>, %m: tensor<?x8xf32>, %b: !kvcache.batch, %x: f32) {
  // expected-error@+1 {{expects no captures without a score region, but got 1}}
  %o:3 = kvcache.online_attention %q over %c span %i, %i at %b state %a, %m, %m capture %x {scale = 1.0 : f32}
      : (tensor<?x8x64xf32>, !kv, index, index, !kvcache.batch, tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>, f32) -> (tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<?x8xf32>)
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attend_c1_query_heads(%q: tensor<?x5x64xf32>, %k: tensor<?x2x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects query heads 1 to 128 times the 2 KV heads, but got 5}}
  %o, %d = kvcache.attend %q, %k, %k with %c at %b {layer = 0 : i64, phase = "decode", scale = 1.0 : f32}
      : tensor<?x5x64xf32>, tensor<?x2x64xf32>, tensor<?x2x64xf32>, !kv -> tensor<?x5x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attend_c2_key_heads(%q: tensor<?x8x64xf32>, %k: tensor<?x4x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects heads of key 2, but got 4}}
  %o, %d = kvcache.attend %q, %k, %k with %c at %b {layer = 0 : i64, phase = "decode", scale = 1.0 : f32}
      : tensor<?x8x64xf32>, tensor<?x4x64xf32>, tensor<?x4x64xf32>, !kv -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attend_c3_phase(%q: tensor<?x8x64xf32>, %k: tensor<?x2x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects phase "prefill" or "decode", but got train}}
  %o, %d = kvcache.attend %q, %k, %k with %c at %b {layer = 0 : i64, phase = "train", scale = 1.0 : f32}
      : tensor<?x8x64xf32>, tensor<?x2x64xf32>, tensor<?x2x64xf32>, !kv -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
#wide = #kvcache.rope<base = 10000.0 : f32, dims = 128, pairing = half>
func.func @attend_c4_rope_dims(%q: tensor<?x8x64xf32>, %k: tensor<?x2x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects rope dims of at most 64, but got 128}}
  %o, %d = kvcache.attend %q, %k, %k with %c at %b by #wide {layer = 0 : i64, phase = "decode", scale = 1.0 : f32}
      : tensor<?x8x64xf32>, tensor<?x2x64xf32>, tensor<?x2x64xf32>, !kv -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attend_c5_out(%q: tensor<?x8x64xf32>, %k: tensor<?x2x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects result out of type 'tensor<?x8x64xf32>', but got 'tensor<?x8x32xf32>'}}
  %o, %d = kvcache.attend %q, %k, %k with %c at %b {layer = 0 : i64, phase = "decode", scale = 1.0 : f32}
      : tensor<?x8x64xf32>, tensor<?x2x64xf32>, tensor<?x2x64xf32>, !kv -> tensor<?x8x32xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attend_c6_layer(%q: tensor<?x8x64xf32>, %k: tensor<?x2x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects layer of at least 0, but got}}
  %o, %d = kvcache.attend %q, %k, %k with %c at %b {layer = -1 : i64, phase = "decode", scale = 1.0 : f32}
      : tensor<?x8x64xf32>, tensor<?x2x64xf32>, tensor<?x2x64xf32>, !kv -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attend_c7_window(%q: tensor<?x8x64xf32>, %k: tensor<?x2x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects window of at least 1, but got 0}}
  %o, %d = kvcache.attend %q, %k, %k with %c at %b {layer = 0 : i64, phase = "decode", scale = 1.0 : f32, window = 0}
      : tensor<?x8x64xf32>, tensor<?x2x64xf32>, tensor<?x2x64xf32>, !kv -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attend_c8_scale(%q: tensor<?x8x64xf32>, %k: tensor<?x2x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a scale that is finite and not zero, but got}}
  %o, %d = kvcache.attend %q, %k, %k with %c at %b {layer = 0 : i64, phase = "decode", scale = 0x7F800000 : f32}
      : tensor<?x8x64xf32>, tensor<?x2x64xf32>, tensor<?x2x64xf32>, !kv -> tensor<?x8x64xf32>
  return
}

// -----

!mm = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, planes = [minmax]>
func.func @score_c1_query_missing(%c: !mm, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a query for bound, but got none}}
  %s = kvcache.score bound %c at %b : (!mm, !kvcache.batch) -> tensor<?x2x?xf32>
  return
}

// -----

!sc = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, planes = [score]>
func.func @score_c1_query_orphan(%q: tensor<?x8x64xf32>, %c: !sc, %b: !kvcache.batch) {
  // expected-error@+1 {{expects no query for plane, but got one}}
  %s = kvcache.score plane %q, %c at %b : (tensor<?x8x64xf32>, !sc, !kvcache.batch) -> tensor<?x2x?xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @score_c2_plane(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a cache with the plane minmax, but got}}
  %s = kvcache.score bound %q, %c at %b : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x2x?xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @score_c3_query_heads(%q: tensor<?x3x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects query heads 1 to 128 times the 2 KV heads, but got 3}}
  %s = kvcache.score dot %q, %c at %b : (tensor<?x3x64xf32>, !kv, !kvcache.batch) -> tensor<?x2x?xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @score_c4_result(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects KV heads of result 2, but got 8}}
  %s = kvcache.score dot %q, %c at %b : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x?xf32>
  return
}

// -----

!late = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, rope = #kvcache.rope<base = 1.0e4 : f32, dims = 64, pairing = half>, planes = [minmax]>
func.func @score_c5_bound_of_unrotated_keys(%q: tensor<?x8x64xf32>, %c: !late, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a cache that stores rotated keys for bound, as the summaries are of stored keys, but got one that rotates them when loaded}}
  %s = kvcache.score bound %q, %c at %b : (tensor<?x8x64xf32>, !late, !kvcache.batch) -> tensor<?x2x?xf32>
  return
}

// -----

func.func @pool_c1_mode(%s: tensor<?x2x?xf32>) {
  // expected-error@+1 {{expects mode max or mean, but got median}}
  %p = kvcache.pool median %s {kernel = 3} : tensor<?x2x?xf32>
  return
}

// -----

func.func @pool_c2_kernel(%s: tensor<?x2x?xf32>) {
  // expected-error@+1 {{expects kernel odd and positive, but got 4}}
  %p = kvcache.pool max %s {kernel = 4} : tensor<?x2x?xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @topk_c1_unit(%s: tensor<?x2x?xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a result of unit page, but got token}}
  %t = kvcache.topk page %s, %c at %b {k = 4, first = 0, last = 0} : tensor<?x2x?xf32>, !kv -> !kvcache.selection<token>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @topk_c2_k(%s: tensor<?x2x?xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects k of at least 1, but got 0}}
  %t = kvcache.topk page %s, %c at %b {k = 0, first = 0, last = 0} : tensor<?x2x?xf32>, !kv -> !kvcache.selection<page>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @topk_c3_scores(%s: tensor<?x8x?xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects KV heads of scores 2, but got 8}}
  %t = kvcache.topk page %s, %c at %b {k = 4, first = 0, last = 0} : tensor<?x8x?xf32>, !kv -> !kvcache.selection<page>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @topk_c4_first_and_last(%s: tensor<?x2x?xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects first + last of at most k = 4, but got 3 + 2}}
  %t = kvcache.topk page %s, %c at %b {k = 4, first = 3, last = 2} : tensor<?x2x?xf32>, !kv -> !kvcache.selection<page>
  return
}

// -----

func.func @merge_states_c1_pairs(%o: tensor<?x8x64xf32>, %l: tensor<?x8xf32>) {
  // expected-error@+1 {{expects pairs of operands (out, lse), at least one, but got 3 operands}}
  %p, %m = kvcache.merge_states %o, %l, %o : tensor<?x8x64xf32>, tensor<?x8xf32>
  return
}

// -----

func.func @merge_states_c2_types(%o: tensor<?x8x64xf32>, %n: tensor<4x8x64xf32>, %l: tensor<?x8xf32>) {
  // expected-error@+1 {{expects operand 2 of type 'tensor<?x8x64xf32>', but got 'tensor<4x8x64xf32>'}}
  %p, %m = "kvcache.merge_states"(%o, %l, %n, %l) : (tensor<?x8x64xf32>, tensor<?x8xf32>, tensor<4x8x64xf32>, tensor<?x8xf32>)
      -> (tensor<?x8x64xf32>, tensor<?x8xf32>)
  return
}

// -----

func.func @merge_states_c3_shapes(%o: tensor<?x8x64xf32>, %l: tensor<?x4xf32>) {
  // expected-error@+1 {{expects heads of lse 8, but got 4}}
  %p, %m = kvcache.merge_states %o, %l, %o, %l : tensor<?x8x64xf32>, tensor<?x4xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @export_c1_heads(%c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects heads of result (hnd) 2, but got 'tensor<?x?x2x64xf32>'}}
  %k = kvcache.export k %c at %b {layout = #kvcache.dense_layout<hnd>} : !kv -> tensor<?x?x2x64xf32>
  return
}

// -----

!mla = !kvcache.cache<heads = 1, dim = 576, v_dim = 512, page = 16, k = bf16, v = bf16>
func.func @export_c1_channels(%c: !mla, %b: !kvcache.batch) {
  // expected-error@+1 {{expects channels of result 512, but got}}
  %k = kvcache.export v %c at %b {layout = #kvcache.dense_layout<nhd>} : !mla -> tensor<?x?x1x576xf32>
  return
}

// -----

!ring = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored, window = 128, sinks = 4>
func.func @import_c1_ring(%c: !ring, %k: tensor<?x?x2x64xf32>, %v: tensor<?x?x2x64xf32>, %l: tensor<?xi32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a cache without a ring, but got window 128}}
  %d = kvcache.import %c, %k, %v, %l at %b {layout = #kvcache.dense_layout<nhd>}
      : !ring, tensor<?x?x2x64xf32>, tensor<?x?x2x64xf32>, tensor<?xi32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @import_c2_channels(%c: !kv, %k: tensor<?x?x2x32xf32>, %v: tensor<?x?x2x64xf32>, %l: tensor<?xi32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects channels of key 64, but got}}
  %d = kvcache.import %c, %k, %v, %l at %b {layout = #kvcache.dense_layout<nhd>}
      : !kv, tensor<?x?x2x32xf32>, tensor<?x?x2x64xf32>, tensor<?xi32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @import_c3_slots(%c: !kv, %k: tensor<?x7x2x64xf32>, %v: tensor<?x8x2x64xf32>, %l: tensor<?xi32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects slots of value 7, but got 8}}
  %d = kvcache.import %c, %k, %v, %l at %b {layout = #kvcache.dense_layout<nhd>}
      : !kv, tensor<?x7x2x64xf32>, tensor<?x8x2x64xf32>, tensor<?xi32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @import_c4_lengths(%c: !kv, %k: tensor<3x?x2x64xf32>, %v: tensor<3x?x2x64xf32>, %l: tensor<4xi32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects size of lengths 3, but got 4}}
  %d = kvcache.import %c, %k, %v, %l at %b {layout = #kvcache.dense_layout<nhd>}
      : !kv, tensor<3x?x2x64xf32>, tensor<3x?x2x64xf32>, tensor<4xi32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @score_region_c1_captures_without_region(%q: tensor<?x8x64xf32>, %c: !kv, %x: f32, %b: !kvcache.batch) {
  // expected-error@+1 {{expects no captures without a score region, but got 1}}
  %o = kvcache.attention %q over %c at %b capture %x {scale = 1.0 : f32}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch, f32) -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @score_region_c2_scalars(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch, %y: tensor<8xf32>) {
  // expected-error@+1 {{expects captures of scalar type, but got 'tensor<8xf32>'}}
  %o = kvcache.attention %q over %c at %b capture %y {scale = 1.0 : f32}
      score {
      ^bb0(%s: f32, %e: index, %h: index, %qp: index, %kp: index, %x: tensor<8xf32>):
        kvcache.yield %s
      } : (tensor<?x8x64xf32>, !kv, !kvcache.batch, tensor<8xf32>) -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @score_region_c3_arguments(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects score region arguments ('f32', 'index', 'index', 'index', 'index'), but got ('f32', 'index')}}
  %o = kvcache.attention %q over %c at %b {scale = 1.0 : f32}
      score {
      ^bb0(%s: f32, %e: index):
        kvcache.yield %s
      } : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @score_region_c3_capture_type(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch, %y: f32) {
  // expected-error@+1 {{expects score region arguments}}
  %o = kvcache.attention %q over %c at %b capture %y {scale = 1.0 : f32}
      score {
      ^bb0(%s: f32, %e: index, %h: index, %qp: index, %kp: index, %x: i32):
        kvcache.yield %s
      } : (tensor<?x8x64xf32>, !kv, !kvcache.batch, f32) -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @score_region_c4_yield(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a score region that ends in kvcache.yield, but got arith.negf}}
  %o = kvcache.attention %q over %c at %b {scale = 1.0 : f32}
      score {
      ^bb0(%s: f32, %e: index, %h: index, %qp: index, %kp: index):
        %t = arith.negf %s : f32
      } : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @score_region_c5_allowed_ops(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) {
  %o = kvcache.attention %q over %c at %b {scale = 1.0 : f32}
      score {
      ^bb0(%s: f32, %e: index, %h: index, %qp: index, %kp: index):
        // expected-error@+1 {{expects element-wise scalar arith and math or kvcache helpers in a score region, but got 'tensor.empty'}}
        %t = tensor.empty() : tensor<4xf32>
        kvcache.yield %s
      } : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @score_region_c5_no_vectors(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) {
  %o = kvcache.attention %q over %c at %b {scale = 1.0 : f32}
      score {
      ^bb0(%s: f32, %e: index, %h: index, %qp: index, %kp: index):
        %t = arith.constant dense<1.0> : vector<4xf32>
        // expected-error@+1 {{expects element-wise scalar arith and math or kvcache helpers in a score region, but got 'arith.negf'}}
        %u = arith.negf %t : vector<4xf32>
        kvcache.yield %s
      } : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @score_region_c6_values_from_outside(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch, %y: f32) {
  // expected-note@+1 {{required by region isolation constraints}}
  %o = kvcache.attention %q over %c at %b {scale = 1.0 : f32}
      score {
      ^bb0(%s: f32, %e: index, %h: index, %qp: index, %kp: index):
        // expected-error@+1 {{using value defined outside the region}}
        %t = arith.addf %s, %y : f32
        kvcache.yield %t
      } : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @soft_cap_c1_cap(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) {
  %o = kvcache.attention %q over %c at %b {scale = 1.0 : f32}
      score {
      ^bb0(%s: f32, %e: index, %h: index, %qp: index, %kp: index):
        // expected-error@+1 {{expects a cap that is finite and above 0, but got}}
        %t = kvcache.soft_cap %s, -1.0
        kvcache.yield %t
      } : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @alibi_c1_heads(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) {
  %o = kvcache.attention %q over %c at %b {scale = 1.0 : f32}
      score {
      ^bb0(%s: f32, %e: index, %h: index, %qp: index, %kp: index):
        // expected-error@+1 {{expects heads of at least 1, but got 0}}
        %t = kvcache.alibi %s, %h, %qp, %kp of 0 heads
        kvcache.yield %t
      } : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @alibi_c2_all_heads(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) {
  %o = kvcache.attention %q over %c at %b {scale = 1.0 : f32}
      score {
      ^bb0(%s: f32, %e: index, %h: index, %qp: index, %kp: index):
        // expected-error@+1 {{expects heads of all 8 query heads, but got 16}}
        %t = kvcache.alibi %s, %h, %qp, %kp of 16 heads
        kvcache.yield %t
      } : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attention_i1_query_type(%q: tensor<?x8x64xf16>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{operand #0 must be 3D tensor of f32 (rows x heads x channels)}}
  %o = kvcache.attention %q over %c at %b {scale = 1.0 : f32}
      : (tensor<?x8x64xf16>, !kv, !kvcache.batch) -> tensor<?x8x64xf16>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attention_i4_tree_mask_type(%q: tensor<?x8x64xf32>, %c: !kv, %t: tensor<?x?xi1>, %b: !kvcache.batch) {
  // expected-error@+1 {{must be 2D tensor of i8}}
  %o = kvcache.attention %q over %c at %b tree %t {scale = 1.0 : f32}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch, tensor<?x?xi1>) -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attention_window_of_wrong_type(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{attribute 'window' failed to satisfy constraint: 64-bit integer or method parameter}}
  %o = kvcache.attention %q over %c at %b {scale = 1.0 : f32, window = "wide"}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attention_scale_of_wrong_type(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{attribute 'scale' failed to satisfy constraint: 32-bit float attribute}}
  %o = kvcache.attention %q over %c at %b {scale = 1.0 : f64}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return
}

// -----

!own = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored, tables = per_head>
func.func @evict_budget_of_wrong_type(%c: !own, %s: tensor<?x2x?xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{attribute 'budget' failed to satisfy constraint: 64-bit integer or method parameter}}
  %d = kvcache.evict %c by %s at %b {budget = 8 : i32, first = 0, last = 0} : !own, tensor<?x2x?xf32>
  return
}

// -----

func.func @parameter_c1_no_method() {
  // expected-error@+1 {{expects to stand in a method (a module with kvcache.method), but got none around it}}
  %x = kvcache.parameter "alpha" : f32
  return
}

// -----

func.func @parameter_of_empty_name() {
  // expected-error@+1 {{expects the name of a parameter, but got an empty one}}
  %x = kvcache.parameter "" : f32
  return
}

// -----

!own = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored, tables = per_head>
func.func @merge_slots_c1_unit(%c: !own, %s: !kvcache.selection<page>, %w: tensor<?x2x?xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a selection of unit token, but got page}}
  %d = kvcache.merge_slots %c keep %s weighted %w at %b : !own, !kvcache.selection<page>, tensor<?x2x?xf32>
  return
}

// -----

!kivi = !kvcache.cache<heads = 2, dim = 64, page = 32, k = int4<axis = channel>, v = int4, residual = 128>
func.func @merge_slots_c2_groups(%c: !kivi, %s: !kvcache.selection<token>, %w: tensor<?x2x?xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a cache whose slots can move one by one, but got groups of 32 tokens}}
  %d = kvcache.merge_slots %c keep %s weighted %w at %b : !kivi, !kvcache.selection<token>, tensor<?x2x?xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @merge_slots_c3_implicit_positions(%c: !kv, %s: !kvcache.selection<token>, %w: tensor<?x2x?xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a cache with positions = stored, but got implicit positions}}
  %d = kvcache.merge_slots %c keep %s weighted %w at %b : !kv, !kvcache.selection<token>, tensor<?x2x?xf32>
  return
}

// -----

!own = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored, tables = per_head>
func.func @merge_slots_c4_weights(%c: !own, %s: !kvcache.selection<token>, %w: tensor<?x4x?xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects KV heads of weights 2, but got 4}}
  %d = kvcache.merge_slots %c keep %s weighted %w at %b : !own, !kvcache.selection<token>, tensor<?x4x?xf32>
  return
}

// -----

!own = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored, tables = per_head>
func.func @merge_slots_c5_similarity(%c: !own, %s: !kvcache.selection<token>, %w: tensor<?x2x?xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects min_similarity between -1 and 1, but got 1.500000e+00}}
  %d = kvcache.merge_slots %c keep %s weighted %w at %b {min_similarity = 1.5 : f32} : !own, !kvcache.selection<token>, tensor<?x2x?xf32>
  return
}

// -----

!ring = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored, window = 12, sinks = 4>
func.func @commit_c1_ring(%c: !ring, %a: tensor<?xi8>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a cache without a ring, but got window 12}}
  %d = kvcache.commit %c accept %a at %b : !ring, tensor<?xi8>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @threshold_c1_unit(%s: tensor<?x2x?xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a result of unit token, but got page}}
  %d = kvcache.threshold token %s, %c at %b {value = 0.5 : f32, first = 0, last = 0} : tensor<?x2x?xf32>, !kv -> !kvcache.selection<page>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @threshold_c2_last(%s: tensor<?x2x?xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects last of at least 0, but got -1}}
  %d = kvcache.threshold token %s, %c at %b {value = 0.5 : f32, first = 0, last = -1} : tensor<?x2x?xf32>, !kv -> !kvcache.selection<token>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @threshold_c3_heads(%s: tensor<?x3x?xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects KV heads of scores 2, but got 3}}
  %d = kvcache.threshold token %s, %c at %b {value = 0.5 : f32, first = 0, last = 0} : tensor<?x3x?xf32>, !kv -> !kvcache.selection<token>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @threshold_c4_nan(%s: tensor<?x2x?xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a value that is a number, but got 0x7FC00000}}
  %d = kvcache.threshold token %s, %c at %b {value = 0x7FC00000 : f32, first = 0, last = 0} : tensor<?x2x?xf32>, !kv -> !kvcache.selection<token>
  return
}

// -----

func.func @map_scores_c1_operands() {
  // expected-error@+1 {{expects at least one operand, but got none}}
  %z = "kvcache.map_scores"() ({
    %x = arith.constant 1.0 : f32
    kvcache.yield %x
  }) : () -> tensor<2x2x4xf32>
  return
}

// -----

func.func @map_scores_c2_types(%a: tensor<?x2x?xf32>, %b: tensor<?x2x4xf32>) {
  // expected-error@+1 {{expects operand 1 of the result's type 'tensor<?x2x?xf32>', but got 'tensor<?x2x4xf32>'}}
  %z = "kvcache.map_scores"(%a, %b) ({
  ^bb0(%x: f32, %y: f32):
    kvcache.yield %x
  }) : (tensor<?x2x?xf32>, tensor<?x2x4xf32>) -> tensor<?x2x?xf32>
  return
}

// -----

func.func @map_scores_c3_arguments(%a: tensor<?x2x?xf32>) {
  // expected-error@+1 {{expects region arguments ('f32'), one for each operand, but got ('f32', 'f32')}}
  %z = kvcache.map_scores %a {
  ^bb0(%x: f32, %y: f32):
    kvcache.yield %x
  } : tensor<?x2x?xf32>
  return
}

// -----

func.func @map_scores_c4_terminator(%a: tensor<?x2x?xf32>) {
  // expected-error@+1 {{expects a region that ends in kvcache.yield, but got arith.negf}}
  %z = kvcache.map_scores %a {
  ^bb0(%x: f32):
    %y = arith.negf %x : f32
  } : tensor<?x2x?xf32>
  return
}

// -----

func.func @map_scores_c5_op(%a: tensor<?x2x?xf32>) {
  %z = kvcache.map_scores %a {
  ^bb0(%x: f32):
    // expected-error@+1 {{expects element-wise scalar arith and math, kvcache.soft_cap or kvcache.parameter in a region over scores, but got 'tensor.empty'}}
    %t = tensor.empty() : tensor<4xf32>
    kvcache.yield %x
  } : tensor<?x2x?xf32>
  return
}

// -----

func.func @map_scores_c6_outside(%a: tensor<?x2x?xf32>, %f: f32) {
  // expected-note@+1 {{required by region isolation constraints}}
  %z = kvcache.map_scores %a {
  ^bb0(%x: f32):
    // expected-error@+1 {{using value defined outside the region}}
    %y = arith.mulf %x, %f : f32
    kvcache.yield %y
  } : tensor<?x2x?xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attention_c15_decay_missing(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects stat_decay exactly with the statistic decay, but got none}}
  %o = kvcache.attention %q over %c at %b returns (stats) {scale = 1.0 : f32, stat = #kvcache.stat<decay>}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x2x?xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attention_c15_threshold_orphan(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects stat_threshold exactly with the statistic hits, but got one}}
  %o = kvcache.attention %q over %c at %b returns (stats) {scale = 1.0 : f32, stat = #kvcache.stat<sum>, stat_threshold = 0.5 : f32}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x2x?xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attention_c16_stride(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects stat_stride of at least 1, but got 0}}
  %o = kvcache.attention %q over %c at %b returns (stats) {scale = 1.0 : f32, stat = #kvcache.stat<sum>, stat_stride = 0}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x2x?xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @attention_c16_decay(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects stat_decay between 0 and 1, but got 2.000000e+00}}
  %o = kvcache.attention %q over %c at %b returns (stats) {scale = 1.0 : f32, stat = #kvcache.stat<decay>, stat_decay = 2.0 : f32}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x2x?xf32>
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
func.func @score_c2_mean(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a cache with the plane mean, but got}}
  %s = kvcache.score mean %q, %c at %b : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x2x?xf32>
  return
}

// -----

#stat = #kvcache.stat<sum>
func.func @rope_of_another_attribute(%q: tensor<?x8x64xf32>, %b: !kvcache.batch) {
  // expected-error@+1 {{expects a #kvcache.rope, but got}}
  %r = kvcache.rope %q at %b by #stat : tensor<?x8x64xf32>
  return
}
