// A mask and bits that are set behind it are one instruction where both are known.
// RUN: kvc-opt %s -kvc-nvidia-lower-lanes | FileCheck %s

// CHECK-LABEL: func.func @known
// CHECK: llvm.inline_asm "lop3.b32 $0, $1, $2, $3, 0xea;", "=r,r,n,r" %arg0, %{{.*}}, %{{.*}} : (i32, i32, i32) -> i32
// CHECK-NOT: arith.andi
func.func @known(%x: i32) -> i32 {
  %mask = arith.constant 983055 : i32
  %bits = arith.constant 1677747200 : i32
  %0 = arith.andi %x, %mask : i32
  %1 = arith.ori %0, %bits : i32
  return %1 : i32
}

// CHECK-LABEL: func.func @unknown
// CHECK: arith.andi
// CHECK: arith.ori
func.func @unknown(%x: i32, %mask: i32) -> i32 {
  %bits = arith.constant 1677747200 : i32
  %0 = arith.andi %x, %mask : i32
  %1 = arith.ori %0, %bits : i32
  return %1 : i32
}
