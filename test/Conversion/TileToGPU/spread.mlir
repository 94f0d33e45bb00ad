// Kernels without tiles: elements of vectors are held by the lanes of a warp.
// RUN: kvc-compile %s --emit=vector --target=sm_80 | FileCheck %s

!kv = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16>
#rope = #kvcache.rope<base = 10000.0 : f32, dims = 64, pairing = half>

// CHECK-LABEL: func.func private @append(
// CHECK-SAME: tile.team = 32 : i64
// CHECK: gpu.thread_id x
// A slot of a key is 64 elements: two for each lane, neighbours in neighbouring lanes.
// CHECK-COUNT-2: memref.load %{{.*}} : memref<?x2x64xf32>
// CHECK-NOT: vector<64xf32>
// Counters are written by the first lane.
// CHECK-LABEL: func.func private @advance(
// CHECK: scf.if
// CHECK-NEXT: memref.store
func.func @f(%k: tensor<?x2x64xf32>, %v: tensor<?x2x64xf32>, %c: !kv, %b: !kvcache.batch) -> !kv {
  %c1 = kvcache.append %c, %k, %v at %b by #rope : !kv, tensor<?x2x64xf32>, tensor<?x2x64xf32>
  return %c1 : !kv
}

// Turns that may run side by side are divided among the lanes; sums of theirs meet by shuffles.
// CHECK-LABEL: func.func private @attention_plan(
// CHECK-SAME: tile.team = 32 : i64
// CHECK-NOT: scf.parallel
// CHECK: gpu.thread_id x
// CHECK: scf.for {{.*}} = %thread_id_x{{.*}} to %{{.*}} step %c32 iter_args(
// CHECK-NOT: gpu.shuffle
// CHECK: scf.yield
// CHECK-COUNT-10: gpu.shuffle
func.func @g(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) -> tensor<?x8x64xf32> {
  %o = kvcache.attention %q over %c at %b {scale = 0.125 : f32} : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> tensor<?x8x64xf32>
  return %o : tensor<?x8x64xf32>
}
