// Products with page operands on 16 lanes: register blocks over units of the page's layout.
// RUN: kvc-opt %s --kvc-convert-tile-to-vector --canonicalize --cse | FileCheck %s
module attributes {tile.target = "x86-64-v4-bf16"} {

// Pairs of bf16 go into the dot instruction as they lie in the page.
// CHECK-LABEL: func.func private @pairs
// CHECK: vector.load %{{.*}} : memref<?xi8>, vector<64xi8>
// CHECK: tile.pair_dot
// CHECK: math.exp2
// CHECK: tile.pair_dot
func.func private @pairs(%q: memref<?x4x64xf32>, %c: !kvcache.cache<heads = 1, dim = 64, page = 32, k = bf16, v = bf16>, %out: memref<?x4x64xf32>, %item: index) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tile.counter length %c[%c0, %c0] : <heads = 1, dim = 64, page = 32, k = bf16, v = bf16>
  %rows = tile.load_rows %q[%item, %c0] count %c1 group 4 : memref<?x4x64xf32> -> vector<4x64xf32>
  %k = tile.operand k pages %c[%c0, %c0, %c0] count %n : <heads = 1, dim = 64, page = 32, k = bf16, v = bf16> -> <32, 64>
  %s = tile.mma channels %rows, %k : (vector<4x64xf32>, !tile.operand<32, 64>) -> vector<4x32xf32>
  %visible = arith.constant dense<true> : vector<4x32xi1>
  %m = arith.constant dense<0xFF800000> : vector<4xf32>
  %l = arith.constant dense<0.0> : vector<4xf32>
  %a = arith.constant dense<0.0> : vector<4x64xf32>
  %p, %m1, %l1, %a1 = tile.softmax_step %s, %visible state %m, %l, %a : vector<4x32xf32>, vector<4x32xi1>, vector<4xf32>, vector<4x64xf32>
  %v = tile.operand v pages %c[%c0, %c0, %c0] count %n : <heads = 1, dim = 64, page = 32, k = bf16, v = bf16> -> <32, 64>
  %o = tile.mma slots %p, %v acc %a1 : (vector<4x32xf32>, !tile.operand<32, 64>, vector<4x64xf32>) -> vector<4x64xf32>
  %out0, %lse = tile.softmax_finish %m1, %l1, %o : vector<4xf32>, vector<4x64xf32>
  tile.store_rows %out0, %out[%item, %c0] count %c1 group 4 : vector<4x64xf32>, memref<?x4x64xf32>
  return
}

// Eight 4-bit codes of neighbouring channels fill the word of a lane. They are multiplied as they are: the scale meets the
// sum over a group of channels, the zero the sum of the query over it. The next tile's units are fetched meanwhile.
// CHECK-LABEL: func.func private @codes
// CHECK: vector.reduction <add>
// CHECK: scf.for
// CHECK: %[[DOT:.*]] = scf.for {{.*}} -> (vector<16xf32>)
// CHECK: memref.prefetch
// CHECK: vector.load %{{.*}} : memref<?xi8>, vector<64xi8>
// CHECK: arith.andi
// CHECK-NOT: arith.mulf
// CHECK: math.fma
// CHECK: scf.yield
// CHECK: arith.extf %{{.*}} : vector<16xf16> to vector<16xf32>
// CHECK: math.fma %{{.*}}, %[[DOT]],
func.func private @codes(%q: memref<?x1x64xf32>, %c: !kvcache.cache<heads = 1, dim = 64, page = 16, k = int4, v = f32>, %out: memref<?x1x16xf32>, %item: index) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tile.counter length %c[%c0, %c0] : <heads = 1, dim = 64, page = 16, k = int4, v = f32>
  %rows = tile.load_rows %q[%item, %c0] count %c1 group 1 : memref<?x1x64xf32> -> vector<1x64xf32>
  %k = tile.operand k pages %c[%c0, %c0, %c0] count %n : <heads = 1, dim = 64, page = 16, k = int4, v = f32> -> <16, 64>
  %s = tile.mma channels %rows, %k : (vector<1x64xf32>, !tile.operand<16, 64>) -> vector<1x16xf32>
  tile.store_rows %s, %out[%item, %c0] count %c1 group 1 : vector<1x16xf32>, memref<?x1x16xf32>
  return
}

// A page of 5 slots holds no block of lanes: rows are unpacked one by one.
// CHECK-LABEL: func.func private @plain_rows
// CHECK: memref.alloca{{.*}} : memref<64x16xf32>
// CHECK: math.fma
func.func private @plain_rows(%q: memref<?x1x64xf32>, %c: !kvcache.cache<heads = 1, dim = 64, page = 5, k = f16, v = f16>, %out: memref<?x1x16xf32>, %item: index) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tile.counter length %c[%c0, %c0] : <heads = 1, dim = 64, page = 5, k = f16, v = f16>
  %rows = tile.load_rows %q[%item, %c0] count %c1 group 1 : memref<?x1x64xf32> -> vector<1x64xf32>
  %k = tile.operand k pages %c[%c0, %c0, %c0] count %n : <heads = 1, dim = 64, page = 5, k = f16, v = f16> -> <16, 64>
  %s = tile.mma channels %rows, %k : (vector<1x64xf32>, !tile.operand<16, 64>) -> vector<1x16xf32>
  tile.store_rows %s, %out[%item, %c0] count %c1 group 1 : vector<1x16xf32>, memref<?x1x16xf32>
  return
}
}
