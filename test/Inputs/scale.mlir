// A kernel written by hand and its dispatch: out[i] = exp2(x[i]) * w.
func.func @scale(%x: tensor<?x64xf32>, %w: tensor<64xf32>) -> tensor<?x64xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x64xf32>
  %e = tensor.empty(%n) : tensor<?x64xf32>
  %r = tile.dispatch @scale_rows[%n] ins(%x, %w) outs(%e) : (tensor<?x64xf32>, tensor<64xf32>), (tensor<?x64xf32>)
  return %r : tensor<?x64xf32>
}

func.func private @scale_rows(%x: memref<?x64xf32>, %w: memref<64xf32>, %out: memref<?x64xf32>, %item: index)
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c64 = arith.constant 64 : index
  scf.for %i = %c0 to %c64 step %c8 {
    %a = vector.load %x[%item, %i] : memref<?x64xf32>, vector<8xf32>
    %b = vector.load %w[%i] : memref<64xf32>, vector<8xf32>
    %m = math.exp2 %a : vector<8xf32>
    %p = arith.mulf %m, %b : vector<8xf32>
    vector.store %p, %out[%item, %i] : memref<?x64xf32>, vector<8xf32>
  }
  return
}
