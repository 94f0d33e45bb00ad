// Arithmetic on scores: one kernel for a chain of it, -inf kept.
// RUN: kvc-opt %s --kvc-form-dispatches | FileCheck %s

// CHECK-LABEL: func.func @chain
// CHECK-COUNT-1: tile.dispatch
// CHECK-NOT: tile.dispatch
// CHECK-NOT: kvcache.map_scores
// CHECK: return
func.func @chain(%x: tensor<?x2x?xf32>, %y: tensor<?x2x?xf32>) -> tensor<?x2x?xf32> {
  %n = kvcache.map_scores %x {
  ^bb0(%a: f32):
    %c = kvcache.soft_cap %a, 4.0
    %m = arith.negf %c : f32
    kvcache.yield %m
  } : tensor<?x2x?xf32>
  %z = kvcache.map_scores %n, %y {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    kvcache.yield %s
  } : tensor<?x2x?xf32>
  return %z : tensor<?x2x?xf32>
}
// CHECK-LABEL: func.func private @
// CHECK: math.tanh
// CHECK: arith.negf
// CHECK: arith.cmpf une
// CHECK: arith.select
// CHECK: arith.addf
