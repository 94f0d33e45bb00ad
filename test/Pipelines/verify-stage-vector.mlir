// kvc-verify-stage: what stage vector refuses.
// RUN: kvc-opt %s -split-input-file -verify-diagnostics -pass-pipeline="builtin.module(kvc-verify-stage{stage=vector})"

module attributes {tile.target = "x86-64-v3"} {
  // expected-error @below {{has a value of type '!kvcache.batch', which stage vector does not have}}
  func.func private @batch_is_lowered(%b: !kvcache.batch, %item: index) attributes {tile.kernel} {
    return
  }
}

// -----

module attributes {tile.target = "x86-64-v3"} {
  func.func @batch_stays_in_the_plan(%b: !kvcache.batch) -> index {
    %n = tile.rows %b
    return %n : index
  }
}
