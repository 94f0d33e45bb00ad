// kvc-cpu-wrap-kernels: words of the slot array become arguments.
// RUN: kvc-opt %s -split-input-file -verify-diagnostics -kvc-cpu-wrap-kernels | FileCheck %s

// CHECK-LABEL: llvm.func @words(%arg0: !llvm.ptr, %arg1: i64, %arg2: !llvm.ptr)
// The matrix: address and one dynamic dimension; then three numbers.
// CHECK: llvm.getelementptr %arg0[0]
// CHECK: llvm.getelementptr %arg0[1]
// CHECK: llvm.getelementptr %arg0[2]
// CHECK: llvm.load {{.*}} -> f32
// CHECK: llvm.getelementptr %arg0[3]
// CHECK: llvm.load {{.*}} -> i32
// CHECK: llvm.getelementptr %arg0[4]
// CHECK-NOT: llvm.getelementptr
// CHECK: call @words.body
// CHECK: func.func private @words.body
func.func private @words(%m: memref<?x4xf32>, %f: f32, %i: i32, %n: index, %item: index) attributes {tile.kernel} {
  return
}

// -----

// expected-error @below {{expects contiguous memrefs, index, i32, i64 and f32 as arguments, but got 'f64' for argument 0}}
func.func private @no_f64(%x: f64, %item: index) attributes {tile.kernel} {
  return
}

// -----

// expected-error @below {{expects a kernel with a body, no results and the item (index) as its last argument}}
func.func private @no_item(%x: memref<4xf32>) attributes {tile.kernel} {
  return
}
