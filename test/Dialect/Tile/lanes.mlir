// Operations on what one lane holds print and parse again; bad ones are refused.
// RUN: kvc-opt %s --split-input-file --verify-diagnostics | kvc-opt --split-input-file | FileCheck %s

#staging = #gpu.address_space<workgroup>

// CHECK-LABEL: func.func @lane_operations
func.func @lane_operations(%pages: memref<?xi8>, %staging: memref<65536xi8, #staging>, %from: index, %to: i32, %valid: i1,
                           %a: vector<2xf16>, %c: f32) -> f32 {
  // CHECK: tile.copy_async %{{.*}}[%{{.*}}] to %{{.*}}[%{{.*}}] if %{{.*}} : memref<?xi8>, memref<65536xi8, #gpu.address_space<workgroup>>
  tile.copy_async %pages[%from] to %staging[%to] if %valid : memref<?xi8>, memref<65536xi8, #staging>
  // CHECK: tile.copy_async
  tile.copy_async %pages[%from] to %staging[%to] : memref<?xi8>, memref<65536xi8, #staging>
  // CHECK: tile.commit_async
  tile.commit_async
  // CHECK: tile.wait_async 0
  tile.wait_async 0
  // CHECK: tile.load_matrices %{{.*}}[%{{.*}}] transposed
  %b:2 = tile.load_matrices %staging[%to] transposed : memref<65536xi8, #staging> -> vector<2xf16>, vector<2xf16>
  %view = memref.reinterpret_cast %pages to offset: [0], sizes: [512], strides: [1] : memref<?xi8> to memref<512xi8, strided<[1]>>
  // CHECK: tile.copy_warp %{{.*}}[%{{.*}} + 512] to %{{.*}}[%{{.*}} + 1024] region 0 : memref<512xi8, strided<[1]>>, memref<65536xi8, #gpu.address_space<workgroup>>
  tile.copy_warp %view[%to + 512] to %staging[%to + 1024] region 0 : memref<512xi8, strided<[1]>>, memref<65536xi8, #staging>
  // CHECK: tile.wait_warp
  tile.wait_warp
  // CHECK: tile.load_transposed %{{.*}}[%{{.*}} + 512] region 1 : memref<65536xi8, #gpu.address_space<workgroup>> -> vector<2xf16>, vector<2xf16>
  %v:2 = tile.load_transposed %staging[%to + 512] region 1 : memref<65536xi8, #staging> -> vector<2xf16>, vector<2xf16>
  // CHECK: tile.lane_mma "m16n8k16.f16"
  %d:4 = tile.lane_mma "m16n8k16.f16" (%a, %a, %a, %a) (%b#0, %b#1) acc (%c, %c, %c, %c)
      : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> (f32, f32, f32, f32)
  return %d#0 : f32
}

// CHECK-LABEL: func.func @group_operations
func.func @group_operations(%staging: memref<?xi8, #staging>, %q: i32, %k: i32, %parity: i32, %p: vector<2xf16>) -> f32 {
  // CHECK: tile.phase_init %{{.*}}[%{{.*}} + 8] arrivals 4
  tile.phase_init %staging[%q + 8] arrivals 4 : memref<?xi8, #staging>
  // CHECK: tile.set_registers 240 more
  tile.set_registers 240 more
  // CHECK: tile.set_registers 24
  tile.set_registers 24
  // CHECK: tile.phase_arrive %{{.*}}[%{{.*}} + 8] after_copies
  tile.phase_arrive %staging[%q + 8] after_copies : memref<?xi8, #staging>
  // CHECK: tile.phase_wait %{{.*}}[%{{.*}}] parity
  tile.phase_wait %staging[%q] parity %parity : memref<?xi8, #staging>
  // CHECK: tile.publish
  tile.publish
  // CHECK: tile.group_mma "m64k16.f16"() [%{{.*}}] times %{{.*}}[%{{.*}}] acc() {a_panels = 1 : i64, b_panels = 1 : i64, steps = 4 : i64, swizzle = 128 : i64}
  %s:4 = tile.group_mma "m64k16.f16" () [%q] times %staging[%k] acc () {a_panels = 1, b_panels = 1, steps = 4, swizzle = 128}
      : (i32, memref<?xi8, #staging>, i32) -> (f32, f32, f32, f32)
  // CHECK: tile.group_mma_wait 0
  %r:4 = tile.group_mma_wait 0 (%s#0, %s#1, %s#2, %s#3) : (f32, f32, f32, f32) -> (f32, f32, f32, f32)
  %o:4 = tile.group_mma "m64k16.f16" (%p, %p, %p, %p) times %staging[%k] acc (%r#0, %r#1, %r#2, %r#3) {b_panels = 1, steps = 1, swizzle = 128, transposed}
      : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, memref<?xi8, #staging>, i32, f32, f32, f32, f32) -> (f32, f32, f32, f32)
  // CHECK: %[[MAP:.*]] = tile.box_map 1 : index
  %map = tile.box_map 1 : index
  // CHECK: tile.copy_boxes 8 of %[[MAP]][%{{.*}}] to %{{.*}}[%{{.*}}] bytes 4096 arrive[%{{.*}} + 8]
  tile.copy_boxes 8 of %map[%q] to %staging[%k] bytes 4096 arrive [%q + 8] : memref<?xi8, #staging>
  // CHECK: tile.copy_boxes 1 of %[[MAP]][%{{.*}} group %{{.*}}] to %{{.*}}[%{{.*}}] bytes 32768 arrive[%{{.*}}]
  tile.copy_boxes 1 of %map[%q group %k] to %staging[%k] bytes 32768 arrive [%q] : memref<?xi8, #staging>
  // CHECK: tile.warp_barrier
  tile.warp_barrier
  // CHECK: tile.part_barrier 1 lanes 128
  tile.part_barrier 1 lanes 128
  return %o#0 : f32
}

// -----

func.func @no_first_operand(%staging: memref<?xi8, #gpu.address_space<workgroup>>, %k: i32) {
  // expected-error @+1 {{expects its first operand in registers or in staging memory, but got neither}}
  %s:4 = tile.group_mma "m64k16.f16" () times %staging[%k] acc () {b_panels = 1, steps = 4, swizzle = 128}
      : (memref<?xi8, #gpu.address_space<workgroup>>, i32) -> (f32, f32, f32, f32)
  return
}

// -----

func.func @other_panels(%staging: memref<?xi8, #gpu.address_space<workgroup>>, %k: i32) {
  // expected-error @+1 {{expects panels of 32, 64 or 128 bytes, but got 16}}
  %s:4 = tile.group_mma "m64k16.f16" () [%k] times %staging[%k] acc () {b_panels = 1, steps = 4, swizzle = 16}
      : (i32, memref<?xi8, #gpu.address_space<workgroup>>, i32) -> (f32, f32, f32, f32)
  return
}

// -----

func.func @three_matrices(%staging: memref<64xi8>, %to: i32) {
  // expected-error @+1 {{expects 1, 2 or 4 matrices, but got 3}}
  %b:3 = tile.load_matrices %staging[%to] : memref<64xi8> -> vector<2xf16>, vector<2xf16>, vector<2xf16>
  return
}

// -----

func.func @mixed_registers(%a: vector<2xf16>, %b: vector<2xbf16>, %c: f32) {
  // expected-error @+1 {{expects the registers of an operand to have one type}}
  %d = tile.lane_mma "m16n8k16.f16" (%a, %b) (%a) acc (%c) : (vector<2xf16>, vector<2xbf16>, vector<2xf16>, f32) -> f32
  return
}

// -----

// CHECK-LABEL: func.func private @boxes()
// CHECK-SAME: #tile.boxes<argument = 4, offset = 2048, strides = [128, 128, 1024, 4096], extents = [64, 8, 1, 2], box = [64, 8, 1, 2, 1], swizzle = 128>
func.func private @boxes() attributes {tile.boxes = [#tile.boxes<argument = 4, offset = 2048, strides = [128, 128, 1024, 4096],
                                                                 extents = [64, 8, 1, 2], box = [64, 8, 1, 2, 1], swizzle = 128>]}

// -----

// expected-error @+2 {{expects four strides and an offset that are multiples of 16, four extents, and a box of 1 to 256 elements}}
func.func private @odd_stride() attributes {tile.boxes = [
    #tile.boxes<argument = 0, offset = 0, strides = [120, 128, 1024, 4096], extents = [64, 8, 1, 2], box = [64, 8, 1, 2, 1], swizzle = 128>]}

// -----

// expected-error @+2 {{expects rows of a box of 32, 64 or 128 bytes, those of the swizzle, but got 64 and 128}}
func.func private @narrow_box() attributes {tile.boxes = [
    #tile.boxes<argument = 0, offset = 0, strides = [128, 128, 1024, 4096], extents = [64, 8, 1, 2], box = [32, 8, 1, 2, 1], swizzle = 128>]}
