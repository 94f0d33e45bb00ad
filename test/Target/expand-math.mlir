// kvc-expand-math: no call of a C library is left.
// RUN: kvc-opt %s -split-input-file -verify-diagnostics -pass-pipeline="builtin.module(func.func(kvc-expand-math))" | FileCheck %s

// CHECK-LABEL: func.func @exp2
// CHECK-NOT: math.exp2
// CHECK-COUNT-6: math.fma {{.*}} : vector<16xf32>
func.func @exp2(%x: vector<16xf32>) -> vector<16xf32> {
  %y = math.exp2 %x : vector<16xf32>
  return %y : vector<16xf32>
}

// CHECK-LABEL: func.func @sin
// CHECK: arith.extf {{.*}} : vector<8xf32> to vector<8xf64>
// CHECK: arith.truncf {{.*}} : vector<8xf64> to vector<8xf32>
func.func @sin(%x: vector<8xf32>) -> vector<8xf32> {
  %y = math.sin %x : vector<8xf32>
  return %y : vector<8xf32>
}

// CHECK-LABEL: func.func @half
// CHECK: arith.extf {{.*}} : f16 to f32
// CHECK: arith.truncf {{.*}} : f32 to f16
func.func @half(%x: f16) -> f16 {
  %y = math.exp %x : f16
  return %y : f16
}

// -----

func.func @none(%x: f32) -> f32 {
  // expected-error @below {{has no expansion for CPUs}}
  %y = math.sinh %x : f32
  return %y : f32
}
