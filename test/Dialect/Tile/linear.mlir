// The operations on weights, printed and read again.
// RUN: kvc-opt %s | kvc-opt | FileCheck %s
// RUN: kvc-opt %s -emit-bytecode | kvc-opt | FileCheck %s

// CHECK-LABEL: func.func @gated
// CHECK: tile.linear %{{.*}}, %{{.*}}, %{{.*}} rows %{{.*}} to %{{.*}} columns %{{.*}} to %{{.*}} encodings ["q4_1", "f32"] : memref<?x64xf32>, memref<48x40xi8>, memref<48x64xf32> {
// CHECK-NEXT: ^bb0(%[[R:.*]]: index, %[[C:.*]]: index, %[[G:.*]]: f32, %[[U:.*]]: f32):
// CHECK-NEXT: %[[Y:.*]] = arith.mulf %[[G]], %[[U]]
// CHECK-NEXT: memref.store %[[Y]], %{{.*}}[%[[R]], %[[C]]]
func.func @gated(%x: memref<?x64xf32>, %g: memref<48x40xi8>, %u: memref<48x64xf32>, %y: memref<?x48xf32>, %item: index) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  tile.linear %x, %g, %u rows %c0 to %item columns %c0 to %c32 encodings ["q4_1", "f32"] : memref<?x64xf32>, memref<48x40xi8>, memref<48x64xf32> {
  ^bb0(%row: index, %column: index, %a: f32, %b: f32):
    %p = arith.mulf %a, %b : f32
    memref.store %p, %y[%row, %column] : memref<?x48xf32>
  }
  return
}

// CHECK-LABEL: func.func @row
// CHECK: tile.decode_row %{{.*}}[%{{.*}}] to %{{.*}} encoding "q6_k" : memref<7x420xi8>, memref<512xf32>
func.func @row(%w: memref<7x420xi8>, %x: memref<512xf32>, %item: index) attributes {tile.kernel} {
  tile.decode_row %w[%item] to %x encoding "q6_k" : memref<7x420xi8>, memref<512xf32>
  return
}
