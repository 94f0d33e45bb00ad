// Doubles a tensor: the smallest module that kvc-run runs.
func.func @f(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %y = arith.addf %x, %x : tensor<?x3xf32>
  return %y : tensor<?x3xf32>
}
