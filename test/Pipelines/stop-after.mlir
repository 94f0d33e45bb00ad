// --kvc-stop-after ends at the contract of a stage.
// RUN: kvc-opt %s --kvc-stop-after=tile --kvc-target=x86-64-v3 | FileCheck %s --check-prefix=TILE
// RUN: kvc-opt %s --kvc-stop-after=llvm --kvc-target=x86-64-v3 | FileCheck %s --check-prefix=LLVM
// RUN: not kvc-opt %s --kvc-stop-after=ptx 2>&1 | FileCheck %s --check-prefix=STAGE
// RUN: not kvc-opt %s --kvc-stop-after=tile --kvc-target=pdp-11 2>&1 | FileCheck %s --check-prefix=TARGET

// TILE: module attributes {tile.target = "x86-64-v3"}
// TILE: tile.dispatch @k
// TILE: func.func private @k
// LLVM-NOT: func.func
// LLVM: llvm.func @k(%{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: !llvm.ptr)
// STAGE: error: expects one of the stages kvcache, tile, vector, llvm, but got 'ptx'
// TARGET: error: expects one of the targets x86-64-v3, {{.*}}, but got 'pdp-11'
func.func @host(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c1 = arith.constant 1 : index
  %e = tensor.empty() : tensor<4xf32>
  %0 = tile.dispatch @k[%c1] ins(%x) outs(%e) : (tensor<4xf32>), (tensor<4xf32>)
  return %0 : tensor<4xf32>
}

func.func private @k(%x: memref<4xf32>, %y: memref<4xf32>, %item: index) attributes {tile.kernel} {
  %v = vector.load %x[%item] : memref<4xf32>, vector<4xf32>
  vector.store %v, %y[%item] : memref<4xf32>, vector<4xf32>
  return
}
