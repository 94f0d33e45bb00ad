// Channels that begin inside a unit of the format cannot be loaded as a vector.
// RUN: not kvc-opt %s --kvc-convert-tile-to-vector 2>&1 | FileCheck %s

!rows = !kvcache.cache<heads = 2, dim = 8, page = 12, k = int2<group = 4, axis = channel>, v = bf16>

module attributes {tile.target = "x86-64-v4"} {
  func.func @inside_a_unit(%c: !rows, %x: memref<4xf32>, %s: index) attributes {tile.kernel} {
    %one = arith.constant 1 : index
    // CHECK: error: 'tile.load_slot' op expects channels that are whole units of the format or one channel, but got 4
    %a = tile.load_slot k pages %c[%one, %one, %s, %one] : !rows -> vector<4xf32>
    vector.store %a, %x[%s] : memref<4xf32>, vector<4xf32>
    return
  }
}
