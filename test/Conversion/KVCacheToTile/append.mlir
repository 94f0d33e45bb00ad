// append: independent blocks of pages, a tail with sealing, a ring; counters in a dispatch of their own.
// RUN: kvc-opt %s --kvc-convert-kvcache-to-tile --split-input-file | FileCheck %s

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = bf16>
#rope = #kvcache.rope<base = 10000.0 : f32, dims = 64, pairing = half>

// CHECK-LABEL: func.func @blocks_of_pages
func.func @blocks_of_pages(%c: !kv, %k: tensor<?x2x64xf32>, %v: tensor<?x2x64xf32>, %b: !kvcache.batch) -> !kv {
  // CHECK: %[[CACHE:.*]] = tile.reserve {{ ?}}append
  // CHECK: tile.max_rows
  // CHECK: %[[WRITTEN:.*]] = tile.dispatch @append[{{.*}}] ins({{.*}}) outs(%[[CACHE]])
  // CHECK: %[[DONE:.*]] = tile.dispatch @advance[{{.*}}] ins({{.*}}) outs(%[[WRITTEN]])
  // CHECK: return %[[DONE]]
  %c1 = kvcache.append %c, %k, %v at %b by #rope : !kv, tensor<?x2x64xf32>, tensor<?x2x64xf32>
  return %c1 : !kv
}
// CHECK-LABEL: func.func private @append
// CHECK-NOT: tile.set_counter
// CHECK: scf.for
// CHECK: math.roundeven
// CHECK: tile.store_slot k pages
// CHECK: tile.store_slot v pages
// CHECK-LABEL: func.func private @advance
// CHECK: tile.set_counter length
// CHECK: tile.set_counter sealed

// -----

!kivi = !kvcache.cache<heads = 2, dim = 64, page = 32, k = int4<axis = channel>, v = int2, residual = 64>

// CHECK-LABEL: func.func @sealing
func.func @sealing(%c: !kivi, %k: tensor<?x2x64xf32>, %v: tensor<?x2x64xf32>, %b: !kvcache.batch) -> !kivi {
  %c1 = kvcache.append %c, %k, %v at %b : !kivi, tensor<?x2x64xf32>, tensor<?x2x64xf32>
  return %c1 : !kivi
}
// CHECK-LABEL: func.func private @append
// The new row first, then the groups that have become old.
// CHECK: tile.store_slot k tail
// CHECK: tile.store_slot v tail
// CHECK: %[[X:.*]] = tile.load_group k tail {{.*}} -> vector<32xf32>
// CHECK: tile.store_group k %[[X]]
// CHECK: tile.load_slot v tail
// CHECK: tile.store_slot v pages

// -----

!ring = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored, window = 32, sinks = 4, planes = [minmax, score, norm]>

// CHECK-LABEL: func.func @ring
func.func @ring(%c: !ring, %k: tensor<?x2x64xf32>, %v: tensor<?x2x64xf32>, %b: !kvcache.batch) -> !ring {
  // Any slot may be written, and new ones come.
  // CHECK: tile.reserve {{ ?}}rewrite
  // CHECK: tile.reserve {{ ?}}append
  %c1 = kvcache.append %c, %k, %v at %b : !ring, tensor<?x2x64xf32>, tensor<?x2x64xf32>
  return %c1 : !ring
}
// CHECK-LABEL: func.func private @append
// CHECK: arith.remui
// CHECK: tile.store_number position
// CHECK: tile.store_number score
// CHECK: tile.store_number norm
// CHECK: tile.store_bound min
// CHECK: tile.store_bound max
