// Scores, selections, dense tensors.
// RUN: kvc-opt %s --kvc-convert-kvcache-to-tile --split-input-file --verify-diagnostics | FileCheck %s

!kv = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, planes = [minmax]>

// CHECK-LABEL: func.func @pages_by_bound
func.func @pages_by_bound(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) -> !kvcache.selection<page> {
  // CHECK: %[[SLOTS:.*]] = tile.max_length
  // CHECK: arith.ceildivui %[[SLOTS]]
  // CHECK: tile.dispatch @score
  // CHECK: tile.dispatch @topk
  // CHECK: tile.make_selection
  %s = kvcache.score bound %q, %c at %b : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x2x?xf32>
  %sel = kvcache.topk page %s, %c at %b {k = 4 : i64, first = 1 : i64, last = 1 : i64} : tensor<?x2x?xf32>, !kv -> !kvcache.selection<page>
  return %sel : !kvcache.selection<page>
}
// CHECK-LABEL: func.func private @score
// CHECK: tile.load_bound min
// CHECK: tile.load_bound max

// -----

!kivi = !kvcache.cache<heads = 2, dim = 64, page = 32, k = int4<axis = channel>, v = int2, residual = 64, rope = #kvcache.rope<base = 10000.0 : f32, dims = 64, pairing = half>>

// CHECK-LABEL: func.func @dot_reads_pages_and_tail
func.func @dot_reads_pages_and_tail(%q: tensor<?x2x64xf32>, %c: !kivi, %b: !kvcache.batch) -> (tensor<?x2x?xf32>, tensor<?x?x2x64xf32>) {
  %s = kvcache.score dot %q, %c at %b : (tensor<?x2x64xf32>, !kivi, !kvcache.batch) -> tensor<?x2x?xf32>
  %e = kvcache.export v %c at %b {layout = #kvcache.dense_layout<nhd>} : !kivi -> tensor<?x?x2x64xf32>
  return %s, %e : tensor<?x2x?xf32>, tensor<?x?x2x64xf32>
}
// CHECK-LABEL: func.func private @score
// CHECK: tile.load_slot k pages
// CHECK: tile.load_slot k tail
// CHECK: math.roundeven
// CHECK-LABEL: func.func private @export
// CHECK: tile.load_slot v pages
// CHECK: tile.load_slot v tail

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16>

func.func @topk_keeps_too_many(%s: tensor<?x2x?xf32>, %c: !kv, %b: !kvcache.batch) -> !kvcache.selection<token> {
  // expected-error @below {{expects first + last of at most k = 4, but got 2 + 3}}
  %sel = kvcache.topk token %s, %c at %b {k = 4 : i64, first = 2 : i64, last = 3 : i64} : tensor<?x2x?xf32>, !kv -> !kvcache.selection<token>
  return %sel : !kvcache.selection<token>
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16>

// A list has room for every score; its length is counted.
// CHECK-LABEL: func.func @tokens_above
// CHECK: %[[EXTENT:.*]] = tensor.dim %arg0
// CHECK: tensor.empty(%{{.*}}, %[[EXTENT]]) : tensor<?x?xi32>
// CHECK: tile.dispatch @threshold
// CHECK: tile.make_selection
func.func @tokens_above(%s: tensor<?x2x?xf32>, %c: !kv, %b: !kvcache.batch) -> !kvcache.selection<token> {
  %sel = kvcache.threshold token %s, %c at %b {value = 0.5 : f32, first = 2, last = 3} : tensor<?x2x?xf32>, !kv -> !kvcache.selection<token>
  return %sel : !kvcache.selection<token>
}
// CHECK-LABEL: func.func private @threshold
// CHECK: arith.cmpf oge

// -----

!own = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored, tables = per_head>

func.func @merge_slots(%c: !own, %s: !kvcache.selection<token>, %w: tensor<?x2x?xf32>, %b: !kvcache.batch) -> !own {
  // expected-error @below {{has no lowering yet}}
  %d = kvcache.merge_slots %c keep %s weighted %w at %b : !own, !kvcache.selection<token>, tensor<?x2x?xf32>
  return %d : !own
}

// -----

!own = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored, tables = per_head>

func.func @commit(%c: !own, %a: tensor<?xi8>, %b: !kvcache.batch) -> !own {
  // expected-error @below {{has no lowering yet}}
  %d = kvcache.commit %c accept %a at %b : !own, tensor<?xi8>
  return %d : !own
}

// -----

!own = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored, tables = per_head>

func.func @fetch(%c: !own, %s: !kvcache.selection<token>, %b: !kvcache.batch) -> !own {
  // expected-error @below {{has no lowering yet}}
  %d = kvcache.fetch %c of %s at %b : !own, !kvcache.selection<token>
  return %d : !own
}

// -----

// expected-error @below {{has no lowering yet for a cache with v = alias}}
func.func @alias(%c: !kvcache.cache<heads = 1, dim = 64, v_dim = 32, page = 16, k = f16, v = alias<from = 0>>) {
  return
}

// -----

// expected-error @below {{has no lowering yet for a cache with hadamard}}
func.func @hadamard(%c: !kvcache.cache<heads = 1, dim = 64, page = 16, k = int4<hadamard>, v = f16>) {
  return
}

// -----

// expected-error @below {{has no lowering yet for a cache with planes = [mean]}}
func.func @mean(%c: !kvcache.cache<heads = 1, dim = 64, page = 16, k = f16, v = f16, planes = [mean]>) {
  return
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16>

func.func @hits(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) -> tensor<?x2x?xf32> {
  // expected-error @below {{has no lowering of the statistic hits yet}}
  %s = kvcache.attention %q over %c at %b returns (stats)
      {scale = 1.0 : f32, stat = #kvcache.stat<hits>, stat_threshold = 0.5 : f32}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x2x?xf32>
  return %s : tensor<?x2x?xf32>
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16>

func.func @stride(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) -> tensor<?x2x?xf32> {
  // expected-error @below {{has no lowering of statistics with a stride yet}}
  %s = kvcache.attention %q over %c at %b returns (stats)
      {scale = 1.0 : f32, stat = #kvcache.stat<sum>, stat_stride = 2}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x2x?xf32>
  return %s : tensor<?x2x?xf32>
}
