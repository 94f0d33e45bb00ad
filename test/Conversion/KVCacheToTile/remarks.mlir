// What was picked for an attention kernel, and why, is said on demand, with the place of the operation.
// RUN: kvc-opt %s --kvc-stop-after=tile --kvc-target=x86-64-v4 --remark-format=emitRemark --remarks-filter=attention -o /dev/null 2>&1 | FileCheck %s
// RUN: kvc-compile %s --remarks --target=x86-64-v4 --emit=tile -o /dev/null 2>&1 | FileCheck %s
// RUN: kvc-compile %s --target=x86-64-v4 --emit=tile -o /dev/null 2>&1 | count 0

// A page of 5 slots holds no block of lanes, and no two codes of one channel in a byte: both are kept in plain rows.
!odd = !kvcache.cache<heads = 2, dim = 64, page = 5, k = f16, v = int4>
!even = !kvcache.cache<heads = 2, dim = 64, page = 16, k = int4, v = int4>

// CHECK: remarks.mlir:[[#@LINE+4]]:8: remark: [Passed] schedule | Category:attention | Remark="query tiles of 16 tokens x 4 heads, tiles of 64 slots, decode spans of at least 1024 slots: a query tile of about 64 rows pays for unpacking a tile of slots"
// CHECK: remarks.mlir:[[#@LINE+3]]:8: remark: [Missed] layout | Category:attention | Remark="k in plain rows, unpacked slot by slot: 5 slots of a page do not fill blocks of lanes of 16"
// CHECK: remarks.mlir:[[#@LINE+2]]:8: remark: [Missed] layout | Category:attention | Remark="v in plain rows, unpacked slot by slot: 5 slots of a page do not fill units of 2"
func.func @odd(%c: !odd, %b: !kvcache.batch, %q: tensor<?x8x64xf32>) -> tensor<?x8x64xf32> {
  %o = kvcache.attention %q over %c at %b {scale = 0.125 : f32, causal} : (tensor<?x8x64xf32>, !odd, !kvcache.batch) -> tensor<?x8x64xf32>
  return %o : tensor<?x8x64xf32>
}

// CHECK: remarks.mlir:[[#@LINE+3]]:8: remark: [Passed] schedule | Category:attention | Remark="query tiles of 8 tokens x 4 heads, tiles of 32 slots, decode spans of at least 512 slots: given by the operation"
// CHECK-NOT: remark
func.func @even(%c: !even, %b: !kvcache.batch, %q: tensor<?x8x64xf32>) -> tensor<?x8x64xf32> {
  %o = kvcache.attention %q over %c at %b {scale = 0.125 : f32, causal, tile.schedule = #tile.schedule<prefill_tokens = 8, slots = 32, split = 512>} : (tensor<?x8x64xf32>, !even, !kvcache.batch) -> tensor<?x8x64xf32>
  return %o : tensor<?x8x64xf32>
}
