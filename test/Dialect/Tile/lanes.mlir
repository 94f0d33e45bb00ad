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
  // CHECK: tile.lane_mma "m16n8k16.f16"
  %d:4 = tile.lane_mma "m16n8k16.f16" (%a, %a, %a, %a) (%b#0, %b#1) acc (%c, %c, %c, %c)
      : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> (f32, f32, f32, f32)
  return %d#0 : f32
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
