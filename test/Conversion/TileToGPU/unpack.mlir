// Operands that are no rows of 16-bit numbers are decoded into staging memory in front of their products.
// RUN: kvc-compile %s --emit=vector --target=sm_80 2>/dev/null | FileCheck %s

!kivi = !kvcache.cache<heads = 2, dim = 64, page = 32, residual = 32, k = int4<axis = channel>, v = int4>
!wide = !kvcache.cache<heads = 2, dim = 40, page = 16, k = f32, v = f16>
!kv = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16>
!exact = !kvcache.cache<heads = 2, dim = 64, page = 32, residual = 32, k = int4<axis = channel>, v = int4, tail = f32>

// The codes of the first tile are loaded in front of the loop, sixteen of a slot for a lane, with the scales and zeros
// of their channels.
// CHECK-LABEL: func.func private @attention_decode(
// CHECK: vector.load {{.*}} {alignment = 8 : i64} : memref<?xi8>, vector<8xi8>
// CHECK-COUNT-4: vector.load {{.*}} {alignment = 16 : i64} : memref<?xi8>, vector<16xi8>
// CHECK: scf.for
// A mask of the word is the codes of two neighbours; behind the exponent of 1024 they are numbers, which are made exact,
// then scaled, in f16.
// CHECK: arith.andi
// CHECK: arith.ori %{{.*}}, %c1677747200_i32 : i32
// CHECK: arith.subf {{.*}} : vector<2xf16>
// CHECK: math.fma {{.*}} : vector<2xf16>
// CHECK-COUNT-4: vector.store {{.*}} : memref<?xi8, #gpu.address_space<workgroup>>, vector<16xi8>
// The next tile is on its way while this one is used.
// CHECK: vector.load {{.*}} : memref<?xi8>, vector<8xi8>
// CHECK: gpu.barrier
// CHECK: tile.load_matrices
// CHECK: tile.lane_mma "m16n8k16.f16"
// Values: one scale and one zero for the 32 channels of a slot that a lane has.
// CHECK: vector.shuffle {{.*}} [0, 0] : vector<2xf16>, vector<2xf16>
// CHECK: vector.load {{.*}} {alignment = 16 : i64} : memref<?xi8>, vector<16xi8>
// CHECK: vector.load {{.*}} {alignment = 2 : i64} : memref<?xi8>, vector<2xi8>
// CHECK: gpu.barrier
// CHECK: tile.load_matrices {{.*}} transposed
// CHECK: scf.yield
// The tail's loop takes up the parts of the state and decodes f16 in front of each product.
// CHECK: scf.for
// CHECK: scf.for
// CHECK: vector.load {{.*}} : memref<?xi8>, vector<16xi8>
// CHECK: vector.store {{.*}} : memref<?xi8, #gpu.address_space<workgroup>>, vector<16xi8>
func.func @kivi(%q: tensor<?x8x64xf32>, %c: !kivi, %b: !kvcache.batch) -> tensor<?x8x64xf32> {
  %o = kvcache.attention %q over %c at %b {scale = 0.125 : f32, causal} : (tensor<?x8x64xf32>, !kivi, !kvcache.batch) -> tensor<?x8x64xf32>
  return %o : tensor<?x8x64xf32>
}

// f32 as sums of two bf16, in three products; 40 channels fill three instructions.
// CHECK-LABEL: func.func private @attention_decode_0(
// CHECK-COUNT-9: tile.lane_mma "m16n8k16.bf16"
func.func @split(%q: tensor<?x8x40xf32>, %c: !wide, %b: !kvcache.batch) -> tensor<?x8x40xf32> {
  %o = kvcache.attention %q over %c at %b {scale = 0.125 : f32} : (tensor<?x8x40xf32>, !wide, !kvcache.batch) -> tensor<?x8x40xf32>
  return %o : tensor<?x8x40xf32>
}

// Selected slots come from the list.
// CHECK-LABEL: func.func private @attention_decode_1(
// CHECK: scf.for
// CHECK: scf.for
// CHECK: memref.load {{.*}} : memref<?x?xi32>
// CHECK: vector.store {{.*}} : memref<?xi8, #gpu.address_space<workgroup>>, vector<16xi8>
func.func @selected(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch, %s: !kvcache.selection<token>) -> tensor<?x8x64xf32> {
  %o = kvcache.attention %q over %c at %b select %s {scale = 0.125 : f32} : (tensor<?x8x64xf32>, !kv, !kvcache.batch, !kvcache.selection<token>) -> tensor<?x8x64xf32>
  return %o : tensor<?x8x64xf32>
}

// Statistics: sums over rows stay with the lanes that hold them, then lanes and warps in order.
// CHECK-LABEL: func.func private @attention_stats
// CHECK: scf.for
// CHECK: scf.yield
// CHECK: gpu.shuffle xor
// CHECK: vector.store {{.*}} : memref<?xi8, #gpu.address_space<workgroup>>, vector<4xi8>
// CHECK: gpu.barrier
// CHECK: scf.for
// CHECK: memref.store
func.func @sums(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch) -> (tensor<?x8x64xf32>, tensor<?x2x?xf32>) {
  %o, %s = kvcache.attention %q over %c at %b returns(out, stats) {scale = 0.125 : f32, causal, stat = #kvcache.stat<sum>} : (tensor<?x8x64xf32>, !kv, !kvcache.batch) -> (tensor<?x8x64xf32>, tensor<?x2x?xf32>)
  return %o, %s : tensor<?x8x64xf32>, tensor<?x2x?xf32>
}

// Sealed slots have products of f16, those of a tail of f32 sums of two bf16: each loop has queries of its own type.
// CHECK-LABEL: func.func private @attention_decode_3(
// CHECK: tile.lane_mma "m16n8k16.f16"
// CHECK-NOT: m16n8k16.bf16
// CHECK: vector.load {{.*}} : memref<?x8x64xf32>, vector<2xf32>
// CHECK-NOT: m16n8k16.f16
// CHECK-COUNT-3: tile.lane_mma "m16n8k16.bf16"
// CHECK: vector.load {{.*}} : memref<?x8x64xf32>, vector<2xf32>
// CHECK: tile.lane_mma "m16n8k16.f16"
func.func @exact(%q: tensor<?x8x64xf32>, %c: !exact, %b: !kvcache.batch) -> tensor<?x8x64xf32> {
  %o = kvcache.attention %q over %c at %b {scale = 0.125 : f32} : (tensor<?x8x64xf32>, !exact, !kvcache.batch) -> tensor<?x8x64xf32>
  return %o : tensor<?x8x64xf32>
}
