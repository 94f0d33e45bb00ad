// The plan of a decode step: spans from the lengths in memory and the processors of the device.
// RUN: kvc-opt %s --kvc-convert-kvcache-to-tile --canonicalize --split-input-file | FileCheck %s

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>

// The host knows the longest length, the lists, which of them have spans, and the teams: bounds of spans and items.
// CHECK-LABEL: func.func @sequences
func.func @sequences(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) -> tensor<?x8x64xf32> {
  // CHECK: tile.max_length
  // CHECK: %[[LONGEST:.*]] = arith.maxsi
  // CHECK: %[[SINGLES:.*]] = tile.single_rows
  // CHECK: %[[LISTS:.*]] = tile.entries
  // CHECK: %[[PROCESSORS:.*]] = tile.processors
  // CHECK: %[[TEAMS:.*]] = arith.maxsi
  // CHECK: %[[MOST_OF_LIST:.*]] = arith.ceildivsi %[[LONGEST]],
  // CHECK: %[[PRODUCT:.*]] = arith.muli %[[SINGLES]], %[[MOST_OF_LIST]]
  // CHECK: %[[SUM:.*]] = arith.addi %[[SINGLES]], %[[TEAMS]]
  // CHECK: %[[MOST:.*]] = arith.minsi %[[PRODUCT]], %[[SUM]]
  // CHECK: %[[ANY:.*]] = arith.minsi %[[SINGLES]], %c1
  // CHECK: tensor.empty(%[[MOST]]) : tensor<?x6xi32>
  // CHECK: tensor.empty(%[[LISTS]]) : tensor<?x2xi32>
  // CHECK: %[[PLANNED:.*]] = arith.muli %[[LISTS]], %[[ANY]]
  // CHECK: %[[PLAN:.*]]:2 = tile.dispatch @attention_plan[%[[PLANNED]]] ins(%{{.*}}, %[[TEAMS]], %{{.*}}) outs(
  // CHECK: tensor.empty(%[[MOST]]) : tensor<?x8x64xf32>
  // CHECK: %[[DECODED:.*]] = arith.muli %[[MOST]], %c2
  // CHECK: tile.dispatch @attention_decode[%[[DECODED]]] ins(%{{.*}}, %{{.*}}, %[[PLAN]]#0, %{{.*}})
  // No tiles of tokens in a decode step.
  // CHECK: %[[MOST_ROWS:.*]] = tile.max_rows
  // CHECK: %[[TILES:.*]] = arith.ceildivsi %[[MOST_ROWS]],
  // CHECK: %[[MORE:.*]] = arith.subi %[[MOST_ROWS]], %c1
  // CHECK: %[[SEVERAL:.*]] = arith.minsi %[[MORE]], %c1
  // CHECK: arith.muli %[[TILES]], %[[SEVERAL]]
  // CHECK: tile.dispatch @attention[
  // No merge without spans.
  // CHECK: %[[SPLIT:.*]] = arith.minsi %{{.*}}, %[[ANY]]
  // CHECK: %[[ROWS:.*]] = arith.muli %{{.*}}, %c8
  // CHECK: %[[MERGED:.*]] = arith.muli %[[SPLIT]], %[[ROWS]]
  // CHECK: tile.dispatch @attention_merge[%[[MERGED]]] ins({{.*}}, %[[PLAN]]#1)
  %o = kvcache.attention %q over %c at %b {scale = 0.125 : f32, causal} : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return %o : tensor<?x8x64xf32>
}
// Tiles of all lists, then spans of all and of those before; the records of one list, and what is left of the bound.
// CHECK-LABEL: func.func private @attention_plan(
// CHECK: scf.parallel
// CHECK: tile.counter length
// CHECK: arith.ceildivui %{{.*}}, %c64
// CHECK: scf.reduce(%{{.*}} : i32)
// CHECK: scf.parallel
// CHECK: scf.reduce({{.*}} : i32, i32, i32, i32)
// CHECK: scf.parallel
// CHECK-COUNT-6: memref.store {{.*}} : memref<?x6xi32>
// CHECK: scf.parallel
// CHECK: memref.store %{{.*}} : memref<?x6xi32>
// Attention reads the record of its span, tiles of 64 slots.
// CHECK-LABEL: func.func private @attention_decode(
// CHECK-COUNT-5: memref.load {{.*}} : memref<?x6xi32>
// CHECK: scf.if
// CHECK-NOT: memref.load {{.*}} : memref<?x6xi32>
// CHECK-LABEL: func.func private @attention_merge(
// CHECK-COUNT-2: memref.load {{.*}} : memref<?x2xi32>

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16, tables = per_head>

// Tables of heads have spans of their own.
// CHECK-LABEL: func.func @heads
func.func @heads(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) -> tensor<?x8x64xf32> {
  // CHECK: %[[ENTRIES:.*]] = tile.entries
  // CHECK: %[[LISTS:.*]] = arith.muli %[[ENTRIES]], %c2
  // CHECK: %[[PLANNED:.*]] = arith.muli %[[LISTS]], %{{.*}}
  // CHECK: tile.dispatch @attention_plan[%[[PLANNED]]]
  %o = kvcache.attention %q over %c at %b {scale = 0.125 : f32} : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return %o : tensor<?x8x64xf32>
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 32, k = f16, v = f16>

// Spans begin at the window: the plan knows it, and the kernel does not look at it again.
// CHECK-LABEL: func.func @window
// CHECK-LABEL: func.func private @attention_plan(
// CHECK: tile.position
// CHECK: arith.divui %{{.*}}, %c64
// CHECK-LABEL: func.func private @attention_decode(
// CHECK: tile.load_rows
// CHECK-NOT: arith.divui
// CHECK: tile.softmax_step
func.func @window(%q: tensor<?x2x64xf32>, %c: !kv, %b: !kvcache.batch) -> tensor<?x2x64xf32> {
  %o = kvcache.attention %q over %c at %b {scale = 0.125 : f32, causal, window = 100 : i64} : (tensor<?x2x64xf32>, !kv, !kvcache.batch) -> tensor<?x2x64xf32>
  return %o : tensor<?x2x64xf32>
}
