// Where two stages of keys and values do not fit staging memory, a tile has an instruction's rows and slots, and warps divide
// the channels of the output: one stage, or, where numbers are decoded there, keys and values in turns.
// RUN: kvc-compile %s --emit=vector --target=gfx1100 2>/dev/null | FileCheck %s

!mla = !kvcache.cache<heads = 1, dim = 576, v_dim = 512, page = 16, k = f16, v = f16>
!wide = !kvcache.cache<heads = 1, dim = 256, page = 16, k = f32, v = f32>

// CHECK-LABEL: func.func private @attention(
// CHECK-SAME: tile.schedule = #tile.schedule<prefill_tokens = 1, slots = 16, split = 1024, warps = 4>
// CHECK-SAME: tile.staging = 53760
func.func @mla(%q: tensor<?x128x576xf32>, %c: !mla, %b: !kvcache.batch) -> tensor<?x128x512xf32> {
  %o = kvcache.attention %q over %c at %b {scale = 0.1 : f32, causal} : (tensor<?x128x576xf32>, !mla, !kvcache.batch) -> tensor<?x128x512xf32>
  return %o : tensor<?x128x512xf32>
}

// Queries and three sets of words of keys, then of values, in rows of an odd number of chunks: 25 KiB each.
// CHECK-LABEL: func.func private @attention_0(
// CHECK-SAME: tile.schedule = #tile.schedule<prefill_tokens = 2, slots = 16, split = 1024, warps = 4>
// CHECK-SAME: tile.staging = 50688
func.func @wide(%q: tensor<?x8x256xf32>, %c: !wide, %b: !kvcache.batch) -> tensor<?x8x256xf32> {
  %o = kvcache.attention %q over %c at %b {scale = 0.1 : f32} : (tensor<?x8x256xf32>, !wide, !kvcache.batch) -> tensor<?x8x256xf32>
  return %o : tensor<?x8x256xf32>
}
