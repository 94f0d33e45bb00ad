// Decode of codes on CDNA: lanes load codes and scales of a tile from pages, the next ones behind the product that has read them; masks
// and exponents of codes in one instruction each, no staging memory and no barrier in the loop over pages, and distances behind
// products whose sums are read in another block.
// RUN: kvc-compile %s --emit=asm --target=gfx942 -o - 2>/dev/null | FileCheck %s
// RUN: kvc-compile %s --emit=vector --target=gfx942 -o - 2>/dev/null | FileCheck %s --check-prefix=LANES

!kv = !kvcache.cache<heads = 2, dim = 128, page = 32, k = int4<axis = channel>, v = int4>

// CHECK-LABEL: {{^}}attention_decode:
// CHECK-DAG: v_and_or_b32
// CHECK-DAG: v_pk_fma_f16
// CHECK-DAG: v_mfma_f32_16x16x16{{_?}}f16
// CHECK: s_nop 6
// CHECK: .amdhsa_private_segment_fixed_size 0

// LANES-LABEL: func.func private @attention_decode(
// Queries come once for all warps.
// LANES: gpu.barrier
// LANES: gpu.barrier
// LANES: scf.for
// LANES-NOT: gpu.barrier
// LANES-COUNT-16: tile.lane_mma "m16n16k16w64.f16"
// LANES-NOT: gpu.barrier
// LANES-COUNT-16: tile.lane_mma "m16n16k16w64.f16"
// LANES: scf.yield
// LANES: gpu.barrier
func.func @f(%q: tensor<?x8x128xf32>, %c: !kv, %b: !kvcache.batch) -> tensor<?x8x128xf32> {
  %o = kvcache.attention %q over %c at %b {scale = 0.1 : f32} : (tensor<?x8x128xf32>, !kv, !kvcache.batch) -> tensor<?x8x128xf32>
  return %o : tensor<?x8x128xf32>
}
