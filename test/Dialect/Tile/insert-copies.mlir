// kvc-insert-copies: value semantics over updates in place.
// RUN: kvc-opt %s -kvc-insert-copies | FileCheck %s

!kv = !kvcache.cache<heads = 2, dim = 16, page = 4, k = f16, v = f16>

// CHECK-LABEL: func.func @old_cache_is_returned
// CHECK: %[[COPY:.*]] = tile.clone %arg0
// CHECK: %[[NEW:.*]] = tile.reserve append %[[COPY]] at %arg1
// CHECK: return %arg0, %[[NEW]]
func.func @old_cache_is_returned(%c: !kv, %b: !kvcache.batch) -> (!kv, !kv) {
  %n = tile.reserve append %c at %b : !kv
  return %c, %n : !kv, !kv
}

// CHECK-LABEL: func.func @update_is_returned
// CHECK-NOT: tile.clone
// CHECK: return
func.func @update_is_returned(%c: !kv, %b: !kvcache.batch) -> !kv {
  %n = tile.reserve append %c at %b : !kv
  %m = tile.release %n at %b : !kv
  return %m : !kv
}

// The caller's cache stays as it was.
// CHECK-LABEL: func.func @update_is_dropped
// CHECK: tile.clone %arg0
func.func @update_is_dropped(%c: !kv, %b: !kvcache.batch) -> index {
  %n = tile.reserve append %c at %b : !kv
  %l = tile.max_length %n at %b : !kv
  return %l : index
}

// CHECK-LABEL: func.func @shared_empty
// CHECK: tensor.empty
// CHECK: tensor.empty
// CHECK-NOT: @copy
// CHECK: return
func.func @shared_empty(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %c1 = arith.constant 1 : index
  %e = tensor.empty() : tensor<4xf32>
  %0 = tile.dispatch @k[%c1] ins(%x) outs(%e) : (tensor<4xf32>), (tensor<4xf32>)
  %1 = tile.dispatch @k[%c1] ins(%0) outs(%e) : (tensor<4xf32>), (tensor<4xf32>)
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @argument_is_written
// CHECK: %[[COPY:.*]] = tile.dispatch @copy[%{{.*}}] ins(%arg1)
// CHECK: tile.dispatch @k[%{{.*}}] ins(%arg0) outs(%[[COPY]])
func.func @argument_is_written(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %c1 = arith.constant 1 : index
  %0 = tile.dispatch @k[%c1] ins(%x) outs(%y) : (tensor<4xf32>), (tensor<4xf32>)
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @old_tensor_is_used_later
// CHECK: %[[FIRST:.*]] = tile.dispatch @k
// CHECK: %[[COPY:.*]] = tile.dispatch @copy{{.*}} ins(%[[FIRST]])
// CHECK: %[[SECOND:.*]] = tile.dispatch @k{{.*}} outs(%[[COPY]])
// CHECK: return %[[FIRST]], %[[SECOND]]
func.func @old_tensor_is_used_later(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %c1 = arith.constant 1 : index
  %e = tensor.empty() : tensor<4xf32>
  %0 = tile.dispatch @k[%c1] ins(%x) outs(%e) : (tensor<4xf32>), (tensor<4xf32>)
  %1 = tile.dispatch @k[%c1] ins(%x) outs(%0) : (tensor<4xf32>), (tensor<4xf32>)
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

func.func private @k(%x: memref<4xf32>, %y: memref<4xf32>, %item: index) attributes {tile.kernel} {
  return
}
