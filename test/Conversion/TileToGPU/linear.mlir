// Linear layers of teams: products of exact codes with activations cut in three, scaled in registers.
// RUN: kvc-opt %s -split-input-file --kvc-convert-linear-to-vector --kvc-convert-tile-to-gpu --canonicalize --cse | FileCheck %s
// RUN: kvc-opt %s -split-input-file --kvc-convert-linear-to-vector --remarks-filter=linear --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

module attributes {tile.target = "sm_80"} {
  // CHECK-LABEL: func.func @codes
  // CHECK-SAME: tile.team = 256 : i64
  // Up to eight rows: every warp has steps of its own of K, and activations come from memory.
  // CHECK: arith.cmpi ule, %{{.*}}, %c8
  // CHECK: scf.if
  // CHECK: scf.for %{{.*}} = %{{.*}} to %{{.*}} step %c8 iter_args({{.*}}) -> (f32, f32, f32, f32)
  // Four values cut three times.
  // CHECK: vector.load %{{.*}} {alignment = 16 : i64} : memref<?x64xf32>, vector<4xf32>
  // CHECK: vector.shuffle %{{.*}} [2, 3, 6, 7] : vector<4xi8>, vector<4xi8>
  // CHECK: arith.andi %{{.*}} : i32
  // CHECK: arith.subf %{{.*}} : f32
  // A block begins at an even byte: a word of codes is two loads.
  // CHECK: vector.load %{{.*}} {alignment = 2 : i64} : memref<77x68xi8>, vector<2xi8>
  // CHECK: math.fma %{{.*}} : vector<2xbf16>
  // Three terms, two steps of the instruction.
  // CHECK-COUNT-6: tile.lane_mma "m16n8k16.bf16"
  // CHECK: math.fma %{{.*}} : f32
  // CHECK: memref.store %{{.*}} : memref<64x20xf32, #gpu.address_space<workgroup>>
  // CHECK: gpu.barrier
  // Many rows: activations are cut once for all warps.
  // CHECK: vector.store %{{.*}} {alignment = 16 : i64} : memref<12288xi32, #gpu.address_space<workgroup>>, vector<4xi32>
  // CHECK: gpu.barrier
  // CHECK: vector.load %{{.*}} {alignment = 16 : i64} : memref<12288xi32, #gpu.address_space<workgroup>>, vector<4xi32>
  // CHECK: tile.lane_mma
  func.func @codes(%x: memref<?x64xf32>, %w: memref<77x68xi8>, %y: memref<?x77xf32>, %rows: index, %item: index) attributes {tile.kernel} {
    %c0 = arith.constant 0 : index
    %c77 = arith.constant 77 : index
    tile.linear %x, %w rows %c0 to %rows columns %c0 to %c77 encodings ["q8_0"] : memref<?x64xf32>, memref<77x68xi8> {
    ^bb0(%row: index, %column: index, %a: f32):
      memref.store %a, %y[%row, %column] : memref<?x77xf32>
    }
    return
  }
}

// -----

module attributes {tile.target = "sm_90a"} {
  // f16 is two numbers of bf16: of nine products five are above the rounding of f32, in each of two steps.
  // CHECK-LABEL: func.func @halves
  // CHECK: scf.for
  // CHECK-COUNT-10: tile.lane_mma "m16n8k16.bf16"
  // CHECK-NOT: tile.lane_mma
  // CHECK: gpu.barrier
  func.func @halves(%x: memref<?x32xf32>, %w: memref<16x64xi8>, %y: memref<?x16xf32>, %rows: index, %item: index) attributes {tile.kernel} {
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    tile.linear %x, %w rows %c0 to %rows columns %c0 to %c16 encodings ["f16"] : memref<?x32xf32>, memref<16x64xi8> {
    ^bb0(%row: index, %column: index, %a: f32):
      memref.store %a, %y[%row, %column] : memref<?x16xf32>
    }
    return
  }
}

// -----

module attributes {tile.target = "sm_80"} {
  // A kernel with other loops over vectors stays one warp's, and a remark says so.
  // CHECK-LABEL: func.func @mixed
  // CHECK-SAME: tile.team = 32 : i64
  // CHECK-NOT: tile.lane_mma
  // REMARK: linear layers as loops of one warp, without matrix units: the kernel has tile.decode_row as well
  func.func @mixed(%x: memref<?x32xf32>, %w: memref<16x34xi8>, %e: memref<32xf32>, %y: memref<?x16xf32>, %rows: index, %item: index) attributes {tile.kernel} {
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    tile.decode_row %w[%c0] to %e encoding "q8_0" : memref<16x34xi8>, memref<32xf32>
    tile.linear %x, %w rows %c0 to %rows columns %c0 to %c16 encodings ["q8_0"] : memref<?x32xf32>, memref<16x34xi8> {
    ^bb0(%row: index, %column: index, %a: f32):
      memref.store %a, %y[%row, %column] : memref<?x16xf32>
    }
    return
  }
}

// -----

module attributes {tile.target = "sm_80", tile.linear_accuracy = "fast"} {
  // Activations are rounded: one product for each step of the instruction.
  // CHECK-LABEL: func.func @fast
  // CHECK: scf.for
  // CHECK: arith.truncf %{{.*}} : vector<2xf32> to vector<2xbf16>
  // CHECK-COUNT-2: tile.lane_mma "m16n8k16.bf16"
  // CHECK-NOT: tile.lane_mma
  // CHECK: gpu.barrier
  func.func @fast(%x: memref<?x32xf32>, %w: memref<16x34xi8>, %y: memref<?x16xf32>, %rows: index, %item: index) attributes {tile.kernel} {
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    tile.linear %x, %w rows %c0 to %rows columns %c0 to %c16 encodings ["q8_0"] : memref<?x32xf32>, memref<16x34xi8> {
    ^bb0(%row: index, %column: index, %a: f32):
      memref.store %a, %y[%row, %column] : memref<?x16xf32>
    }
    return
  }
}
