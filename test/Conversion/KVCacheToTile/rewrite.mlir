// Changes of slots: what is reserved and released around them, and what moves.
// RUN: kvc-opt %s --kvc-convert-kvcache-to-tile --split-input-file | FileCheck %s

!kv = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16>

// CHECK-LABEL: func.func @truncate_changes_counters_only
func.func @truncate_changes_counters_only(%c: !kv, %l: tensor<?xi32>, %b: !kvcache.batch) -> !kv {
  // CHECK-NOT: tile.reserve
  // CHECK: tile.dispatch @cut
  // CHECK: tile.release
  %c1 = kvcache.truncate %c to %l at %b : !kv, tensor<?xi32>
  return %c1 : !kv
}

// -----

!kivi = !kvcache.cache<heads = 2, dim = 64, page = 32, k = int4<axis = channel>, v = int2, residual = 64>

// CHECK-LABEL: func.func @truncate_unseals
func.func @truncate_unseals(%c: !kivi, %l: tensor<?xi32>, %b: !kvcache.batch) -> !kivi {
  // CHECK: tile.reserve {{ ?}}rewrite
  // CHECK: tile.dispatch @truncate
  // CHECK: tile.dispatch @cut
  // CHECK: tile.release
  %c1 = kvcache.truncate %c to %l at %b : !kivi, tensor<?xi32>
  return %c1 : !kivi
}
// CHECK-LABEL: func.func private @truncate
// CHECK: tile.load_slot k pages
// CHECK: tile.store_slot k tail
// CHECK-LABEL: func.func private @cut

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 16, k = int8, v = int4, positions = stored, tables = per_head, planes = [score]>

// CHECK-LABEL: func.func @evict_is_topk_and_compact
func.func @evict_is_topk_and_compact(%c: !kv, %s: tensor<?x2x?xf32>, %b: !kvcache.batch) -> !kv {
  // CHECK: %[[ARRAYS:.*]]:2 = tile.dispatch @topk
  // CHECK: %[[KEEP:.*]] = tile.make_selection %[[ARRAYS]]#0, %[[ARRAYS]]#1
  // CHECK: tile.reserve {{ ?}}rewrite
  // CHECK: tile.dispatch @compact[{{.*}}] ins(%[[KEEP]]
  // CHECK: tile.release
  %c1 = kvcache.evict %c by %s at %b {budget = 32 : i64, first = 4 : i64, last = 8 : i64} : !kv, tensor<?x2x?xf32>
  return %c1 : !kv
}
// CHECK-LABEL: func.func private @compact
// CHECK: tile.load_number position
// CHECK: tile.store_number position
// CHECK: tile.move_slot

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored, planes = [score]>
#rope = #kvcache.rope<base = 10000.0 : f32, dims = 64, pairing = adjacent>

// CHECK-LABEL: func.func @rebase_and_accumulate
func.func @rebase_and_accumulate(%c: !kv, %s: tensor<?x2x?xf32>, %b: !kvcache.batch) -> !kv {
  // CHECK: tile.dispatch @rebase
  // CHECK: tile.dispatch @accumulate
  %c1 = kvcache.rebase %c at %b by #rope : !kv
  %c2 = kvcache.accumulate decay %c1, %s at %b {decay = 0.5 : f32} : !kv, tensor<?x2x?xf32>
  return %c2 : !kv
}
// CHECK-LABEL: func.func private @rebase
// CHECK: vector.deinterleave
// CHECK: tile.store_slot k pages
// CHECK-LABEL: func.func private @accumulate
// CHECK: tile.store_number score
