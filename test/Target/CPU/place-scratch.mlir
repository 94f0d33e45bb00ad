// kvc-cpu-place-scratch: large buffers leave the stack.
// RUN: kvc-opt %s -split-input-file -verify-diagnostics -pass-pipeline="builtin.module(func.func(kvc-cpu-place-scratch{threshold=1024}))" | FileCheck %s

// CHECK-LABEL: func.func private @tiles
// CHECK-SAME: (%{{.*}}: memref<4xf32>, %[[SCRATCH:.*]]: memref<5184xi8>, %{{.*}}: index)
// CHECK-SAME: tile.scratch = 5184 : i64
// CHECK: memref.view %[[SCRATCH]]{{.*}} to memref<1025xi8>
// CHECK: memref.view %[[SCRATCH]]{{.*}} to memref<1016xf32>
// CHECK: memref.alloca() : memref<8xf32>
func.func private @tiles(%x: memref<4xf32>, %item: index) attributes {tile.kernel} {
  %a = memref.alloca() : memref<1025xi8>
  %b = memref.alloca() : memref<1016xf32>
  %c = memref.alloca() : memref<8xf32>
  return
}

// -----

func.func private @in_a_loop(%n: index, %item: index) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    // expected-error @below {{expects a static size and a place in the entry block of the kernel}}
    %a = memref.alloca() : memref<4xf32>
  }
  return
}
