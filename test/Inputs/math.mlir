// Elementary functions over arrays: one row of the result for each.
func.func @math(%x: tensor<?xf32>) -> tensor<8x?xf32> {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %items = arith.ceildivui %n, %c16 : index
  %e = tensor.empty(%n) : tensor<8x?xf32>
  %r = tile.dispatch @math_rows[%items] ins(%x) outs(%e) : (tensor<?xf32>), (tensor<8x?xf32>)
  return %r : tensor<8x?xf32>
}

func.func private @math_rows(%x: memref<?xf32>, %out: memref<8x?xf32>, %item: index) attributes {tile.kernel} {
  %c16 = arith.constant 16 : index
  %zero = arith.constant 1.0 : f32
  %at = arith.muli %item, %c16 : index
  %v = vector.transfer_read %x[%at], %zero : memref<?xf32>, vector<16xf32>
  %r0 = arith.constant 0 : index
  %exp = math.exp %v : vector<16xf32>
  vector.transfer_write %exp, %out[%r0, %at] : vector<16xf32>, memref<8x?xf32>
  %r1 = arith.constant 1 : index
  %exp2 = math.exp2 %v : vector<16xf32>
  vector.transfer_write %exp2, %out[%r1, %at] : vector<16xf32>, memref<8x?xf32>
  %r2 = arith.constant 2 : index
  %log = math.log %v : vector<16xf32>
  vector.transfer_write %log, %out[%r2, %at] : vector<16xf32>, memref<8x?xf32>
  %r3 = arith.constant 3 : index
  %log2 = math.log2 %v : vector<16xf32>
  vector.transfer_write %log2, %out[%r3, %at] : vector<16xf32>, memref<8x?xf32>
  %r4 = arith.constant 4 : index
  %tanh = math.tanh %v : vector<16xf32>
  vector.transfer_write %tanh, %out[%r4, %at] : vector<16xf32>, memref<8x?xf32>
  %r5 = arith.constant 5 : index
  %sin = math.sin %v : vector<16xf32>
  vector.transfer_write %sin, %out[%r5, %at] : vector<16xf32>, memref<8x?xf32>
  %r6 = arith.constant 6 : index
  %cos = math.cos %v : vector<16xf32>
  vector.transfer_write %cos, %out[%r6, %at] : vector<16xf32>, memref<8x?xf32>
  %r7 = arith.constant 7 : index
  %rsqrt = math.rsqrt %v : vector<16xf32>
  vector.transfer_write %rsqrt, %out[%r7, %at] : vector<16xf32>, memref<8x?xf32>
  return
}
