// kvc-verify-stage: what stage tile refuses.
// RUN: kvc-opt %s -split-input-file -verify-diagnostics -pass-pipeline="builtin.module(kvc-verify-stage{stage=tile})"

module attributes {tile.target = "x86-64-v3"} {
  func.func @linalg_is_no_plan(%x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @below {{is not allowed in a host function of stage tile}}
    %y = linalg.exp ins(%x : tensor<4xf32>) outs(%x : tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}

// -----

module attributes {tile.target = "x86-64-v3"} {
  func.func private @tensors_are_not_in_kernels(%item: index) attributes {tile.kernel} {
    // expected-error @below {{is not allowed in a kernel of stage tile}}
    %x = tensor.empty() : tensor<4xf32>
    return
  }
}

// -----

// expected-error @below {{stage tile expects the attribute tile.target of a known target}}
module {
}

// -----

module attributes {tile.target = "x86-64-v3"} {
  // expected-error @below {{has a value of type '!kvcache.site<q>', which stage tile does not have}}
  func.func @site(%x: !kvcache.site<q>) {
    return
  }
}
