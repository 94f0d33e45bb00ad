// The order of items on chips of several dies: query tiles of a sequence and KV head come as a group (placeOnDies), for which the kernel is
// told the number of units. Of causal tiles the last comes first.
// RUN: kvc-opt %s --kvc-convert-kvcache-to-tile --canonicalize --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @dies
// CHECK: arith.ceildivsi %{{.*}}, %c32
// CHECK: tile.dispatch @attention[{{.*}}] ins({{.*}}, %{{.*}}, %[[UNITS:.*]], %{{.*}})
// CHECK-LABEL: func.func private @attention(
// CHECK-SAME: %[[UNITS:[a-z0-9]*]]: index, {{.*}}, %[[ITEM:[a-z0-9]*]]: index)
// CHECK: %[[I:.*]] = arith.index_castui %[[ITEM]] : index to i32
// CHECK: %[[MEMBERS:.*]] = arith.index_castui %[[UNITS]] : index to i32
// CHECK: arith.divui %[[I]], %[[MEMBERS]] : i32
// CHECK: %[[PLACE:.*]]:2 = scf.if
// CHECK: %[[ENTRY:.*]] = arith.divui %[[PLACE]]#0, %c2
// CHECK: %[[HEAD:.*]] = arith.remui %[[PLACE]]#0, %c2
// CHECK: tile.sequence %{{.*}}[%[[ENTRY]]]
// CHECK: %[[FIRST:.*]] = arith.muli %[[PLACE]]#1, %c32
// CHECK: scf.if
// CHECK: %[[LAST:.*]] = arith.muli %{{.*}}, %c32
// CHECK: arith.subi %[[LAST]], %[[FIRST]]
!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
module attributes {tile.target = "gfx942"} {
func.func @dies(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) -> tensor<?x8x64xf32> {
  %o = kvcache.attention %q over %c at %b {scale = 0.125 : f32, causal} : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return %o : tensor<?x8x64xf32>
}
}

// -----

// CHECK-LABEL: func.func @one_die
// CHECK-LABEL: func.func private @attention(
// CHECK-NOT: arith.index_castui
// CHECK-LABEL: func.func private @attention_merge(
!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>
module attributes {tile.target = "gfx90a"} {
func.func @one_die(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) -> tensor<?x8x64xf32> {
  %o = kvcache.attention %q over %c at %b {scale = 0.125 : f32, causal} : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return %o : tensor<?x8x64xf32>
}
}
