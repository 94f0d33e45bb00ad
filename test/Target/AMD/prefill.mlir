// Prefill over 16-bit pages on CDNA: products of 32 rows, rows of pages by buffer loads that end where a page's rows do, pairs of
// numbers in the softmax, and nothing in private memory. Head dimensions that fill no round of lanes keep the products of 16 rows.
// RUN: kvc-compile %s --emit=asm --target=gfx942 -o - 2>/dev/null | FileCheck %s
// RUN: kvc-compile %s --emit=asm --target=gfx90a -o - 2>/dev/null | FileCheck %s
// RUN: kvc-compile %s --emit=vector --target=gfx942 -o - 2>/dev/null | FileCheck %s --check-prefix=LANES
// RUN: kvc-compile %s --emit=asm --target=gfx950 -o - 2>/dev/null | FileCheck %s --check-prefix=PAIRS

!kv = !kvcache.cache<heads = 2, dim = 128, page = 16, k = f16, v = f16>

// CHECK-LABEL: {{^}}attention:
// CHECK-DAG: buffer_load_dwordx4 {{.*}} offen
// CHECK-DAG: v_mfma_f32_32x32x8{{_?}}f16
// CHECK-DAG: v_pk_add_f32
// CHECK-DAG: v_perm_b32
// CHECK-NOT: v_cmp_eq_u64
// CHECK: .amdhsa_private_segment_fixed_size 0

// Where one instruction does two steps of k, all products of decode and prefill are made by it.
// PAIRS-LABEL: {{^}}attention_decode:
// PAIRS-NOT: v_mfma_f32_16x16x16
// PAIRS: v_mfma_f32_16x16x32{{_?}}f16
// PAIRS-NOT: v_mfma_f32_16x16x16
// PAIRS-LABEL: {{^}}attention:
// PAIRS-NOT: v_mfma_f32_32x32x8
// PAIRS: v_mfma_f32_32x32x16{{_?}}f16
// PAIRS-NOT: v_mfma_f32_32x32x8
// PAIRS: .amdhsa_private_segment_fixed_size 0

// Of the keys a lane has pieces of 16 bytes of single slots, of the values 16 bytes of four slots each.
// LANES-LABEL: func.func private @attention(
// LANES-SAME: tile.schedule = #tile.schedule<prefill_tokens = 32, slots = 64, split = 1024, warps = 4>
// LANES: scf.for
// LANES: gpu.barrier
// LANES-COUNT-4: vector.transfer_read {{.*}} : memref<?xi8, strided<[1], offset: ?>>, vector<16xi8>
// LANES-COUNT-32: tile.lane_mma "m32n32k8w64.f16"
// LANES: gpu.barrier
// LANES-COUNT-4: vector.transfer_read
// LANES-COUNT-32: tile.lane_mma "m32n32k8w64.f16"
// LANES-NOT: tile.copy_async {{.*}}valid
func.func @f(%q: tensor<?x8x128xf32>, %c: !kv, %b: !kvcache.batch) -> tensor<?x8x128xf32> {
  %o = kvcache.attention %q over %c at %b {scale = 0.1 : f32} : (tensor<?x8x128xf32>, !kv, !kvcache.batch) -> tensor<?x8x128xf32>
  return %o : tensor<?x8x128xf32>
}
