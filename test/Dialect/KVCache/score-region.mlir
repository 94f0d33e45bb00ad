// A score region is isolated: stock passes neither move its constants out nor share them with others.
// RUN: kvc-opt %s --canonicalize --cse | FileCheck %s
// RUN: kvc-opt %s --canonicalize --cse | kvc-opt | FileCheck %s

!kv = !kvcache.cache<heads = 1, dim = 8, page = 16, k = f16, v = f16>

// CHECK-LABEL: @shared_constant
func.func @shared_constant(%q: tensor<?x2x8xf32>, %c: !kv, %b: !kvcache.batch) -> (tensor<?x2x8xf32>, f32) {
  // CHECK: arith.constant -8
  // CHECK: kvcache.attention
  // CHECK: arith.constant -8
  %outside = arith.constant -8.0 : f32
  %o = kvcache.attention %q over %c at %b {scale = 1.0 : f32} score {
  ^bb0(%s: f32, %e: index, %h: index, %qp: index, %kp: index):
    %low = arith.constant -8.0 : f32
    %t = arith.maximumf %s, %low : f32
    kvcache.yield %t
  } : (tensor<?x2x8xf32>, !kv, !kvcache.batch) -> tensor<?x2x8xf32>
  return %o, %outside : tensor<?x2x8xf32>, f32
}
