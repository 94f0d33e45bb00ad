// Stock one-shot bufferisation: updates happen in place where the old value is dead, and on a copy where it is not.
// RUN: kvc-opt %s --one-shot-bufferize="bufferize-function-boundaries" --canonicalize | FileCheck %s

!kv = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16>

// CHECK-LABEL: func @in_place
// CHECK-SAME: (%[[C:.*]]: !kvcache.memory<!kv{{[0-9]*}}>, %[[K:.*]]: memref<?x2x64xf32, strided{{.*}}>, %[[B:.*]]: !kvcache.batch) -> !kvcache.memory<
// CHECK-NOT: kvcache.copy
// CHECK: %[[D:.*]] = kvcache.append %[[C]], %[[K]], %[[K]] at %[[B]]
// CHECK: %[[E:.*]] = kvcache.append %[[D]], %[[K]], %[[K]] at %[[B]]
// CHECK: return %[[E]]
func.func @in_place(%c: !kv {bufferization.writable = true}, %k: tensor<?x2x64xf32>, %batch: !kvcache.batch) -> !kv {
  %d = kvcache.append %c, %k, %k at %batch : !kv, tensor<?x2x64xf32>, tensor<?x2x64xf32>
  %e = kvcache.append %d, %k, %k at %batch : !kv, tensor<?x2x64xf32>, tensor<?x2x64xf32>
  return %e : !kv
}

// The cache before the append is read after it.
// CHECK-LABEL: func @old_value_needed
// CHECK-SAME: (%[[Q:.*]]: memref<?x8x64xf32, strided{{.*}}>, %[[C:.*]]: !kvcache.memory<
// CHECK: %[[COPY:.*]] = kvcache.copy %[[C]]
// CHECK: %[[D:.*]] = kvcache.append %[[COPY]],
// CHECK: kvcache.attention %[[Q]] over %[[C]] at
// CHECK-SAME: -> memref<?x8x64xf32>
// CHECK: kvcache.attention %[[Q]] over %[[D]] at
func.func @old_value_needed(%q: tensor<?x8x64xf32>, %c: !kv {bufferization.writable = true}, %k: tensor<?x2x64xf32>,
                            %batch: !kvcache.batch) -> (tensor<?x8x64xf32>, tensor<?x8x64xf32>, !kv) {
  %d = kvcache.append %c, %k, %k at %batch : !kv, tensor<?x2x64xf32>, tensor<?x2x64xf32>
  %old = kvcache.attention %q over %c at %batch {scale = 0.125 : f32}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  %new = kvcache.attention %q over %d at %batch {scale = 0.125 : f32}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return %old, %new, %d : tensor<?x8x64xf32>, tensor<?x8x64xf32>, !kv
}

// Reads before the update do not need a copy.
// CHECK-LABEL: func @read_before
// CHECK-NOT: kvcache.copy
// CHECK: kvcache.attention
// CHECK: kvcache.append
func.func @read_before(%q: tensor<?x8x64xf32>, %c: !kv {bufferization.writable = true}, %k: tensor<?x2x64xf32>,
                       %batch: !kvcache.batch) -> (tensor<?x8x64xf32>, !kv) {
  %old = kvcache.attention %q over %c at %batch {scale = 0.125 : f32}
      : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  %d = kvcache.append %c, %k, %k at %batch : !kv, tensor<?x2x64xf32>, tensor<?x2x64xf32>
  return %old, %d : tensor<?x8x64xf32>, !kv
}

// A cache that belongs to the caller may not be changed.
// CHECK-LABEL: func @not_writable
// CHECK: %[[COPY:.*]] = kvcache.copy
// CHECK: kvcache.append %[[COPY]]
func.func @not_writable(%c: !kv {bufferization.writable = false}, %k: tensor<?x2x64xf32>, %batch: !kvcache.batch) -> !kv {
  %d = kvcache.append %c, %k, %k at %batch : !kv, tensor<?x2x64xf32>, tensor<?x2x64xf32>
  return %d : !kv
}

// Two branches of one cache: one of them goes on with the copy.
// CHECK-LABEL: func @branches
// CHECK-COUNT-1: kvcache.copy
// CHECK-NOT: kvcache.copy
// CHECK: return
func.func @branches(%c: !kv {bufferization.writable = true}, %i: index, %j: index) -> (!kv, !kv) {
  %a = kvcache.fork %c from %i to %j : !kv
  %b = kvcache.fork %c from %j to %i : !kv
  return %a, %b : !kv, !kv
}

// Dense results; ops with one type for operand and result agree on a layout.
// CHECK-LABEL: func @dense
// CHECK: kvcache.rope %{{.*}} : memref<?x2x64xf32, strided<[?, ?, ?], offset: ?>>
// CHECK: kvcache.export k %{{.*}} -> memref<?x?x2x64xf32>
// CHECK: kvcache.merge_states %{{.*}} : memref<?x2x64xf32, strided<[?, ?, ?], offset: ?>>, memref<?x2xf32, strided<[?, ?], offset: ?>>
func.func @dense(%q: tensor<?x2x64xf32>, %c: !kv, %batch: !kvcache.batch)
    -> (tensor<?x?x2x64xf32>, tensor<?x2x64xf32>, tensor<?x2xf32>) {
  %r = kvcache.rope %q at %batch by <base = 10000.0 : f32, dims = 64, pairing = half> : tensor<?x2x64xf32>
  %k = kvcache.export k %c at %batch {layout = #kvcache.dense_layout<nhd>} : !kv -> tensor<?x?x2x64xf32>
  %o, %l = kvcache.attention %r over %c at %batch returns (out, lse) {scale = 0.125 : f32}
      : (tensor<?x2x64xf32>, !kv, !kvcache.batch) -> (tensor<?x2x64xf32>, tensor<?x2xf32>)
  %p, %m = kvcache.merge_states %o, %l, %r, %l : tensor<?x2x64xf32>, tensor<?x2xf32>
  return %k, %p, %m : tensor<?x?x2x64xf32>, tensor<?x2x64xf32>, tensor<?x2xf32>
}

!own = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored, tables = per_head>

// Slots that are merged, committed or fetched change the cache in place; scores are computed into new memory.
// CHECK-LABEL: func @slots
// CHECK-SAME: (%[[C:.*]]: !kvcache.memory<!kv{{[0-9]*}}>
// CHECK-NOT: kvcache.copy
// CHECK: %[[Z:.*]] = kvcache.map_scores %{{.*}} {
// CHECK: } : memref<?x2x?xf32, strided<[?, ?, ?], offset: ?>>
// CHECK: %[[S:.*]] = kvcache.threshold token %[[Z]], %[[C]] at
// CHECK: %[[D:.*]] = kvcache.merge_slots %[[C]] keep %[[S]] weighted %[[Z]] at
// CHECK: %[[E:.*]] = kvcache.commit %[[D]] accept
// CHECK: %[[F:.*]] = kvcache.fetch %[[E]] of %[[S]]
// CHECK: return %[[F]]
func.func @slots(%c: !own {bufferization.writable = true}, %x: tensor<?x2x?xf32>, %rows: tensor<?xi8>,
                 %batch: !kvcache.batch) -> !own {
  %z = kvcache.map_scores %x {
  ^bb0(%a: f32):
    %n = arith.negf %a : f32
    kvcache.yield %n
  } : tensor<?x2x?xf32>
  %s = kvcache.threshold token %z, %c at %batch {value = 0.5 : f32, first = 0, last = 0}
      : tensor<?x2x?xf32>, !own -> !kvcache.selection<token>
  %d = kvcache.merge_slots %c keep %s weighted %z at %batch : !own, !kvcache.selection<token>, tensor<?x2x?xf32>
  %e = kvcache.commit %d accept %rows at %batch : !own, tensor<?xi8>
  %f = kvcache.fetch %e of %s at %batch : !own, !kvcache.selection<token>
  return %f : !own
}
