// Operations over rows: what is read, and where sizes come from.
// RUN: kvc-opt %s --kvc-form-dispatches | FileCheck %s

// An element-wise operation starts from an operand: it reads that operand, and writes memory of its own.
// CHECK-LABEL: func.func @of_two
// CHECK: %[[E:.*]] = tensor.empty
// CHECK: tile.dispatch @rows[{{.*}}] ins(%arg0, %arg1) outs(%[[E]])
func.func @of_two(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %0 = arith.addf %a, %b : tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}

// Sizes of a chain are those of its arguments, not of what its kernel keeps.
// CHECK-LABEL: func.func @chain
// CHECK-DAG: %[[N:.*]] = tensor.dim %arg0
// CHECK-DAG: tensor.empty(%[[N]])
// CHECK: tile.dispatch @rows_0[{{.*}}] ins(%arg0, %arg1)
func.func @chain(%a: tensor<?x4xf32>, %b: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = arith.mulf %a, %b : tensor<?x4xf32>
  %1 = arith.addf %0, %a : tensor<?x4xf32>
  return %1 : tensor<?x4xf32>
}

#row = affine_map<(d0, d1) -> (d0)>
#both = affine_map<(d0, d1) -> (d0, d1)>
// The body asks for the size of a tensor outside it.
// CHECK-LABEL: func.func private @clamped_0
// CHECK: linalg.generic
// CHECK: memref.dim %arg1
// CHECK: memref.load %arg1
func.func @clamped(%x: tensor<?x8xf32>, %rows: tensor<?xi32>) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %rows, %c0 : tensor<?xi32>
  %e = tensor.empty(%n) : tensor<?x8xf32>
  %0 = linalg.generic {indexing_maps = [#row, #both], iterator_types = ["parallel", "parallel"]}
      ins(%rows : tensor<?xi32>) outs(%e : tensor<?x8xf32>) {
  ^bb0(%r: i32, %o: f32):
    %m = tensor.dim %x, %c0 : tensor<?x8xf32>
    %last = arith.subi %m, %c1 : index
    %i = arith.index_cast %r : i32 to index
    %low = arith.maxsi %i, %c0 : index
    %at = arith.minsi %low, %last : index
    %j = linalg.index 1 : index
    %v = tensor.extract %x[%at, %j] : tensor<?x8xf32>
    linalg.yield %v : f32
  } -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
