// What linear layers of teams refuse.
// RUN: kvc-opt %s -split-input-file -verify-diagnostics --kvc-convert-linear-to-vector --kvc-convert-tile-to-gpu

// expected-error@+1 {{expects tile.linear_accuracy to be "exact" or "fast", but got "half"}}
module attributes {tile.target = "sm_80", tile.linear_accuracy = "half"} {
  func.func @accuracy(%x: memref<?x32xf32>, %w: memref<16x34xi8>, %y: memref<?x16xf32>, %rows: index, %item: index) attributes {tile.kernel} {
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    tile.linear %x, %w rows %c0 to %rows columns %c0 to %c16 encodings ["q8_0"] : memref<?x32xf32>, memref<16x34xi8> {
    ^bb0(%row: index, %column: index, %a: f32):
      memref.store %a, %y[%row, %column] : memref<?x16xf32>
    }
    return
  }
}
