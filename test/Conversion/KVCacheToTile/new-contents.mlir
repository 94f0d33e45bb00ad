// Contents from elsewhere: memory for given lengths, or a cache of another type.
// RUN: kvc-opt %s --kvc-convert-kvcache-to-tile --split-input-file | FileCheck %s

!kivi = !kvcache.cache<heads = 2, dim = 64, page = 32, k = int4<axis = channel>, v = int2, residual = 64>

// CHECK-LABEL: func.func @import_asks_for_lengths
func.func @import_asks_for_lengths(%c: !kivi, %k: tensor<?x?x2x64xf32>, %v: tensor<?x?x2x64xf32>, %l: tensor<?xi32>, %b: !kvcache.batch) -> !kivi {
  // CHECK: %[[LIMIT:.*]] = arith.minui
  // CHECK: tile.reserve_lengths {{.*}} up_to %[[LIMIT]]
  // CHECK: tile.dispatch @import
  // CHECK: tile.dispatch @imported
  // CHECK: tile.release
  %c1 = kvcache.import %c, %k, %v, %l at %b {layout = #kvcache.dense_layout<nhd>} : !kivi, tensor<?x?x2x64xf32>, tensor<?x?x2x64xf32>, tensor<?xi32>
  return %c1 : !kivi
}
// CHECK-LABEL: func.func private @import
// CHECK: tile.store_slot k tail
// CHECK: tile.store_group k

// -----

!from = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16, positions = stored, planes = [score]>
!to = !kvcache.cache<heads = 2, dim = 64, page = 16, k = int8, v = int4, positions = stored, planes = [score, minmax]>

// CHECK-LABEL: func.func @requantize_makes_a_cache
func.func @requantize_makes_a_cache(%c: !from, %b: !kvcache.batch) -> !to {
  // CHECK: %[[NEW:.*]] = tile.create like
  // CHECK: %[[DONE:.*]] = tile.dispatch @requantize[{{.*}}] ins({{.*}}) outs(%[[NEW]])
  // CHECK: tile.dispatch @requantized[{{.*}}] ins({{.*}}) outs(%[[DONE]])
  %c1 = kvcache.requantize %c at %b : !from to !to
  return %c1 : !to
}
// CHECK-LABEL: func.func private @requantize
// CHECK: tile.load_slot k pages
// CHECK: tile.store_slot k pages
// CHECK: tile.load_number score
// CHECK: tile.store_number score
// The bounds of what is read back.
// CHECK: tile.load_slot k pages
// CHECK: tile.store_bound min
