// Tensor computations of host functions become kernels: what one kernel holds, and what a dispatch gets.
// RUN: kvc-opt %s --kvc-form-dispatches | FileCheck %s
// RUN: kvc-opt %s --kvc-form-dispatches --kvc-convert-linear-to-vector --verify-each | FileCheck %s --check-prefix=VECTOR

// Gathering rows and norming them is one kernel; two linear layers of one x are one, with the residual inside; gate, up and
// what joins them are one.
// CHECK-LABEL: func.func @main
// CHECK: %[[X:.*]]:2 = tile.dispatch @embed_norm[
// CHECK: %[[QK:.*]]:2 = tile.dispatch @linear_add_linear2[{{.*}}] ins(%[[X]]#1, %{{.*}}, %[[X]]#0, %{{.*}}) outs
// CHECK: %[[H:.*]] = tile.dispatch @norm[{{.*}}] ins(%[[QK]]#0, %{{.*}})
// CHECK: %[[S:.*]] = tile.dispatch @linear3_silu[{{.*}}] ins(%[[H]],
// CHECK: %[[OUT:.*]] = tile.dispatch @linear4_add[{{.*}}] ins(%[[S]], %{{.*}}, %[[QK]]#0)
// CHECK-NEXT: return %[[OUT]], %[[QK]]#1

// CHECK-LABEL: func.func private @embed_norm
// CHECK-SAME: memref<1000x204xi8>
// CHECK: scf.for %[[ROW:.*]] =
// CHECK: tile.decode_row %{{.*}} to %[[DECODED:.*]] encoding "q8_0"
// CHECK: memref.load %[[DECODED]]
// CHECK: iterator_types = ["reduction"]
// CHECK: math.rsqrt

// CHECK-LABEL: func.func private @linear_add_linear2
// CHECK: scf.if
// CHECK: tile.linear %{{.*}} encodings ["q4_1"] : memref<?x192xf32>, memref<192x120xi8>
// CHECK: %[[RESIDUAL:.*]] = memref.load
// CHECK: arith.addf %[[RESIDUAL]]
// CHECK: else
// CHECK: tile.linear %{{.*}} : memref<?x192xf32>, memref<64x120xi8>

// CHECK-LABEL: func.func private @linear3_silu
// CHECK: tile.linear %{{.*}} encodings ["q4_1", "q4_1"]
// CHECK: ^bb0(%{{.*}}: index, %{{.*}}: index, %[[G:.*]]: f32, %[[U:.*]]: f32):
// CHECK: arith.negf %[[G]]
// CHECK: arith.mulf %{{.*}}, %[[U]]

// VECTOR-LABEL: func.func private @embed_norm
// VECTOR-NOT: linalg.
// VECTOR-NOT: memref.subview
// VECTOR: vector.reduction <add>
// VECTOR-LABEL: func.func private @linear_add_linear2
// VECTOR-NOT: encodings
// VECTOR: vector.fma

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
#both = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>
module attributes {tile.target = "x86-64-v4"} {
  func.func @main(%tokens: tensor<?xi32>) -> (tensor<?x192xf32>, tensor<?x64xf32>) {
    %table = kvcache.weight "embd" : tensor<1000x192xf32, #kvcache.encoded<"q8_0">>
    %nw = kvcache.weight "norm" : tensor<192xf32>
    %wq = kvcache.weight "q" : tensor<192x192xf32, #kvcache.encoded<"q4_1">>
    %wk = kvcache.weight "k" : tensor<64x192xf32, #kvcache.encoded<"q4_1">>
    %wg = kvcache.weight "g" : tensor<100x192xf32, #kvcache.encoded<"q4_1">>
    %wu = kvcache.weight "u" : tensor<100x192xf32, #kvcache.encoded<"q4_1">>
    %wd = kvcache.weight "d" : tensor<192x100xf32, #kvcache.encoded<"f16">>
    %x = func.call @embed(%tokens, %table) : (tensor<?xi32>, tensor<1000x192xf32, #kvcache.encoded<"q8_0">>) -> tensor<?x192xf32>
    %h = func.call @norm(%x, %nw) : (tensor<?x192xf32>, tensor<192xf32>) -> tensor<?x192xf32>
    %q = func.call @linear(%h, %wq) : (tensor<?x192xf32>, tensor<192x192xf32, #kvcache.encoded<"q4_1">>) -> tensor<?x192xf32>
    %k = func.call @linear2(%h, %wk) : (tensor<?x192xf32>, tensor<64x192xf32, #kvcache.encoded<"q4_1">>) -> tensor<?x64xf32>
    %x1 = func.call @add(%x, %q) : (tensor<?x192xf32>, tensor<?x192xf32>) -> tensor<?x192xf32>
    %h1 = func.call @norm(%x1, %nw) : (tensor<?x192xf32>, tensor<192xf32>) -> tensor<?x192xf32>
    %g = func.call @linear3(%h1, %wg) : (tensor<?x192xf32>, tensor<100x192xf32, #kvcache.encoded<"q4_1">>) -> tensor<?x100xf32>
    %u = func.call @linear3(%h1, %wu) : (tensor<?x192xf32>, tensor<100x192xf32, #kvcache.encoded<"q4_1">>) -> tensor<?x100xf32>
    %s = func.call @silu(%g, %u) : (tensor<?x100xf32>, tensor<?x100xf32>) -> tensor<?x100xf32>
    %d = func.call @linear4(%s, %wd) : (tensor<?x100xf32>, tensor<192x100xf32, #kvcache.encoded<"f16">>) -> tensor<?x192xf32>
    %x2 = func.call @add(%x1, %d) : (tensor<?x192xf32>, tensor<?x192xf32>) -> tensor<?x192xf32>
    return %x2, %k : tensor<?x192xf32>, tensor<?x64xf32>
  }
  func.func private @embed(%tokens: tensor<?xi32>, %table: tensor<1000x192xf32, #kvcache.encoded<"q8_0">>) -> tensor<?x192xf32> {
    %c0 = arith.constant 0 : index
    %c999 = arith.constant 999 : index
    %n = tensor.dim %tokens, %c0 : tensor<?xi32>
    %e = tensor.empty(%n) : tensor<?x192xf32>
    %r = linalg.generic {indexing_maps = [#row, #both], iterator_types = ["parallel", "parallel"]} ins(%tokens : tensor<?xi32>) outs(%e : tensor<?x192xf32>) {
    ^bb0(%t: i32, %o: f32):
      %i = arith.index_cast %t : i32 to index
      %a = arith.maxsi %i, %c0 : index
      %b = arith.minsi %a, %c999 : index
      %c = linalg.index 1 : index
      %v = tensor.extract %table[%b, %c] : tensor<1000x192xf32, #kvcache.encoded<"q8_0">>
      linalg.yield %v : f32
    } -> tensor<?x192xf32>
    return %r : tensor<?x192xf32>
  }
  func.func private @norm(%x: tensor<?x192xf32>, %w: tensor<192xf32>) -> tensor<?x192xf32> {
    %c0 = arith.constant 0 : index
    %z = arith.constant 0.0 : f32
    %n192 = arith.constant 192.0 : f32
    %eps = arith.constant 1.0e-5 : f32
    %n = tensor.dim %x, %c0 : tensor<?x192xf32>
    %e = tensor.empty(%n) : tensor<?xf32>
    %f = linalg.fill ins(%z : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
    %s = linalg.generic {indexing_maps = [#both, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<?x192xf32>) outs(%f : tensor<?xf32>) {
    ^bb0(%a: f32, %o: f32):
      %m = arith.mulf %a, %a : f32
      %p = arith.addf %o, %m : f32
      linalg.yield %p : f32
    } -> tensor<?xf32>
    %e2 = tensor.empty(%n) : tensor<?x192xf32>
    %r = linalg.generic {indexing_maps = [#both, #row, #col, #both], iterator_types = ["parallel", "parallel"]} ins(%x, %s, %w : tensor<?x192xf32>, tensor<?xf32>, tensor<192xf32>) outs(%e2 : tensor<?x192xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32, %o: f32):
      %mean = arith.divf %b, %n192 : f32
      %me = arith.addf %mean, %eps : f32
      %root = math.rsqrt %me : f32
      %m = arith.mulf %a, %root : f32
      %p = arith.mulf %m, %c : f32
      linalg.yield %p : f32
    } -> tensor<?x192xf32>
    return %r : tensor<?x192xf32>
  }
  func.func private @linear(%x: tensor<?x192xf32>, %w: tensor<192x192xf32, #kvcache.encoded<"q4_1">>) -> tensor<?x192xf32> {
    %c0 = arith.constant 0 : index
    %z = arith.constant 0.0 : f32
    %n = tensor.dim %x, %c0 : tensor<?x192xf32>
    %e = tensor.empty(%n) : tensor<?x192xf32>
    %f = linalg.fill ins(%z : f32) outs(%e : tensor<?x192xf32>) -> tensor<?x192xf32>
    %r = linalg.matmul indexing_maps = [#mk, #nk, #mn] ins(%x, %w : tensor<?x192xf32>, tensor<192x192xf32, #kvcache.encoded<"q4_1">>) outs(%f : tensor<?x192xf32>) -> tensor<?x192xf32>
    return %r : tensor<?x192xf32>
  }
  func.func private @linear2(%x: tensor<?x192xf32>, %w: tensor<64x192xf32, #kvcache.encoded<"q4_1">>) -> tensor<?x64xf32> {
    %c0 = arith.constant 0 : index
    %z = arith.constant 0.0 : f32
    %n = tensor.dim %x, %c0 : tensor<?x192xf32>
    %e = tensor.empty(%n) : tensor<?x64xf32>
    %f = linalg.fill ins(%z : f32) outs(%e : tensor<?x64xf32>) -> tensor<?x64xf32>
    %r = linalg.matmul indexing_maps = [#mk, #nk, #mn] ins(%x, %w : tensor<?x192xf32>, tensor<64x192xf32, #kvcache.encoded<"q4_1">>) outs(%f : tensor<?x64xf32>) -> tensor<?x64xf32>
    return %r : tensor<?x64xf32>
  }
  func.func private @linear3(%x: tensor<?x192xf32>, %w: tensor<100x192xf32, #kvcache.encoded<"q4_1">>) -> tensor<?x100xf32> {
    %c0 = arith.constant 0 : index
    %z = arith.constant 0.0 : f32
    %n = tensor.dim %x, %c0 : tensor<?x192xf32>
    %e = tensor.empty(%n) : tensor<?x100xf32>
    %f = linalg.fill ins(%z : f32) outs(%e : tensor<?x100xf32>) -> tensor<?x100xf32>
    %r = linalg.matmul indexing_maps = [#mk, #nk, #mn] ins(%x, %w : tensor<?x192xf32>, tensor<100x192xf32, #kvcache.encoded<"q4_1">>) outs(%f : tensor<?x100xf32>) -> tensor<?x100xf32>
    return %r : tensor<?x100xf32>
  }
  func.func private @linear4(%x: tensor<?x100xf32>, %w: tensor<192x100xf32, #kvcache.encoded<"f16">>) -> tensor<?x192xf32> {
    %c0 = arith.constant 0 : index
    %z = arith.constant 0.0 : f32
    %n = tensor.dim %x, %c0 : tensor<?x100xf32>
    %e = tensor.empty(%n) : tensor<?x192xf32>
    %f = linalg.fill ins(%z : f32) outs(%e : tensor<?x192xf32>) -> tensor<?x192xf32>
    %r = linalg.matmul indexing_maps = [#mk, #nk, #mn] ins(%x, %w : tensor<?x100xf32>, tensor<192x100xf32, #kvcache.encoded<"f16">>) outs(%f : tensor<?x192xf32>) -> tensor<?x192xf32>
    return %r : tensor<?x192xf32>
  }
  func.func private @add(%x: tensor<?x192xf32>, %y: tensor<?x192xf32>) -> tensor<?x192xf32> {
    %c0 = arith.constant 0 : index
    %n = tensor.dim %x, %c0 : tensor<?x192xf32>
    %e = tensor.empty(%n) : tensor<?x192xf32>
    %r = linalg.generic {indexing_maps = [#both, #both, #both], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<?x192xf32>, tensor<?x192xf32>) outs(%e : tensor<?x192xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %m = arith.addf %a, %b : f32
      linalg.yield %m : f32
    } -> tensor<?x192xf32>
    return %r : tensor<?x192xf32>
  }
  func.func private @silu(%x: tensor<?x100xf32>, %y: tensor<?x100xf32>) -> tensor<?x100xf32> {
    %c0 = arith.constant 0 : index
    %one = arith.constant 1.0 : f32
    %n = tensor.dim %x, %c0 : tensor<?x100xf32>
    %e = tensor.empty(%n) : tensor<?x100xf32>
    %r = linalg.generic {indexing_maps = [#both, #both, #both], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<?x100xf32>, tensor<?x100xf32>) outs(%e : tensor<?x100xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %neg = arith.negf %a : f32
      %exp = math.exp %neg : f32
      %p = arith.addf %exp, %one : f32
      %s = arith.divf %a, %p : f32
      %m = arith.mulf %s, %b : f32
      linalg.yield %m : f32
    } -> tensor<?x100xf32>
    return %r : tensor<?x100xf32>
  }
}
