// Constant tensors are operands of the kernel; constant numbers are made in it.
// RUN: kvc-opt %s --kvc-form-dispatches | FileCheck %s
// RUN: kvc-opt %s --kvc-stop-after=llvm -o /dev/null

// CHECK-LABEL: func.func @half
// CHECK-SAME: %[[Q:.*]]: tensor<4x8xf32>
// CHECK: %[[HALF:.*]] = arith.constant dense<5.000000e-01> : tensor<4x8xf32>
// CHECK: tile.dispatch @{{.*}} ins({{.*}}%[[HALF]]{{.*}})
func.func @half(%q: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %h = arith.constant dense<0.5> : tensor<4x8xf32>
  %p = arith.mulf %h, %q : tensor<4x8xf32>
  return %p : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @row_of_a_table
// CHECK: arith.constant dense<{{.*}}> : tensor<2x8xf32>
// CHECK: tile.dispatch
func.func @row_of_a_table(%q: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %table = arith.constant dense<[[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], [7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0]]> : tensor<2x8xf32>
  %c0 = arith.constant 0 : index
  %n = tensor.dim %q, %c0 : tensor<?x8xf32>
  %init = tensor.empty(%n) : tensor<?x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<?x8xf32>) outs(%init : tensor<?x8xf32>) {
  ^bb0(%x: f32, %o: f32):
    %one = arith.constant 1 : index
    %column = linalg.index 1 : index
    %t = tensor.extract %table[%one, %column] : tensor<2x8xf32>
    %s = arith.addf %x, %t : f32
    linalg.yield %s : f32
  } -> tensor<?x8xf32>
  return %r : tensor<?x8xf32>
}

// Nothing is computed of no channels.
// CHECK-LABEL: func.func @no_channels
// CHECK-NOT: tile.dispatch
// CHECK: return
func.func @no_channels(%q: tensor<?x0xf32>) -> tensor<?x0xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %q, %c0 : tensor<?x0xf32>
  %init = tensor.empty(%n) : tensor<?x0xf32>
  %r = linalg.exp ins(%q : tensor<?x0xf32>) outs(%init : tensor<?x0xf32>) -> tensor<?x0xf32>
  return %r : tensor<?x0xf32>
}

// CHECK-LABEL: func.func @sum_of_no_channels
func.func @sum_of_no_channels(%q: tensor<?x0xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %q, %c0 : tensor<?x0xf32>
  %init = tensor.empty(%n) : tensor<?xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%init : tensor<?xf32>) -> tensor<?xf32>
  %r = linalg.reduce {arith.addf} ins(%q : tensor<?x0xf32>) outs(%fill : tensor<?xf32>) dimensions = [1]
  return %r : tensor<?xf32>
}
