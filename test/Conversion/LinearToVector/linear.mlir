// Linear layers become loops over vectors of the target's length.
// RUN: kvc-opt %s -split-input-file -verify-diagnostics --kvc-convert-linear-to-vector --canonicalize --cse | FileCheck %s

module attributes {tile.target = "x86-64-v4"} {
  // One row keeps the sums of four columns; their lanes are added up together. Many rows read the panel.
  // CHECK-LABEL: func.func @few_and_many
  // CHECK: memref.alloca() {{.*}} : memref<4x4x4x16xf32>
  // CHECK: scf.if
  // CHECK: iter_args({{.*}}) -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>)
  // CHECK: memref.prefetch
  // CHECK: arith.extsi %{{.*}} : vector<16xi8> to vector<16xi32>
  // CHECK: vector.fma
  // CHECK: vector.shuffle
  // CHECK: vector.store %{{.*}} : memref<128x16xf32>, vector<4xf32>
  // CHECK: vector.store %{{.*}} : memref<4x4x4x16xf32>, vector<16xf32>
  // 77 columns: the last strip is masked.
  // CHECK: vector.create_mask
  // CHECK: vector.maskedstore
  func.func @few_and_many(%x: memref<?x64xf32>, %w: memref<77x68xi8>, %y: memref<?x77xf32>, %item: index) attributes {tile.kernel} {
    %c0 = arith.constant 0 : index
    %c77 = arith.constant 77 : index
    tile.linear %x, %w rows %c0 to %item columns %c0 to %c77 encodings ["q8_0"] : memref<?x64xf32>, memref<77x68xi8> {
    ^bb0(%row: index, %column: index, %a: f32):
      memref.store %a, %y[%row, %column] : memref<?x77xf32>
    }
    return
  }
}

// -----

module attributes {tile.target = "aarch64"} {
  // CHECK-LABEL: func.func @short_vectors
  // CHECK-NOT: vector.fma {{.*}} : vector<16xf32>
  // CHECK: vector.fma {{.*}} : vector<4xf32>
  func.func @short_vectors(%x: memref<?x64xf32>, %w: memref<16x64xf32>, %y: memref<?x16xf32>, %item: index) attributes {tile.kernel} {
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    tile.linear %x, %w rows %c0 to %item columns %c0 to %c16 encodings ["f32"] : memref<?x64xf32>, memref<16x64xf32> {
    ^bb0(%row: index, %column: index, %a: f32):
      memref.store %a, %y[%row, %column] : memref<?x16xf32>
    }
    return
  }
}

// -----

module attributes {tile.target = "x86-64-v3"} {
  func.func @store_across(%x: memref<?x64xf32>, %w: memref<16x64xf32>, %y: memref<16x?xf32>, %item: index) attributes {tile.kernel} {
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    tile.linear %x, %w rows %c0 to %item columns %c0 to %c16 encodings ["f32"] : memref<?x64xf32>, memref<16x64xf32> {
    ^bb0(%row: index, %column: index, %a: f32):
      // expected-error@+1 {{expects indices of the row, then of the column inside tile.linear}}
      memref.store %a, %y[%column, %row] : memref<16x?xf32>
    }
    return
  }
}

// -----

// expected-error@+1 {{expects the attribute tile.target of a known target}}
module {
}
