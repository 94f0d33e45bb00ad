// kvc-print-page-layouts: the parts of a head block, one behind the other, for each cache type of a module.
// RUN: kvc-opt %s -kvc-set-target=target=x86-64-v4 -kvc-print-page-layouts -o /dev/null 2>/dev/null | FileCheck %s
// RUN: kvc-opt %s -kvc-set-target=target=x86-64-v4 -kvc-print-page-layouts -o /dev/null 2>&1 >/dev/null | FileCheck %s --check-prefix=WARN
// RUN: kvc-opt %s -kvc-set-target=target=sm_80 -kvc-print-page-layouts=json=true -o /dev/null 2>/dev/null | FileCheck %s --check-prefix=JSON
// RUN: not kvc-opt %s -kvc-print-page-layouts 2>&1 | FileCheck %s --check-prefix=TARGET

// WARN: warning: a cache with v = alias has no layout yet
// CHECK-LABEL: k = int4<axis = channel
// CHECK-SAME: on x86-64-v4
// CHECK-NEXT: 0 2048 K codes: packed, units of 8
// CHECK-NEXT: 2048 256 K scales: 128 of 2 bytes
// CHECK-NEXT: 2304 256 K zeros: 128 of 2 bytes
// CHECK-NEXT: 2560 2048 V codes: packed, units of 8
// CHECK-NEXT: 4608 256 V scales: 128 of 2 bytes
// CHECK-NEXT: 4864 256 V zeros: 128 of 2 bytes
// CHECK-NEXT: a head block has 5120 bytes, a page 2 of them: 10240 bytes
// CHECK-NEXT: the tail of a table has 192 slots: 196608 bytes

// CHECK-LABEL: k = f16
// CHECK-NEXT: 0 2048 K codes: packed, units of 1
// CHECK-NEXT: 2048 2048 V codes
// CHECK-NEXT: 4096 64 positions: i32 of each slot
// CHECK-NEXT: 4160 256 min: f32 of each channel
// CHECK-NEXT: 4416 256 max
// CHECK-NEXT: a head block has 4672 bytes, a page 1 of them: 4672 bytes

// JSON: {"head_block_bytes":5120,"heads_per_page":2,"page":32,"page_bytes":10240,"parts":[{"begin":0,"bytes":2048,"name":"K codes","note":"plain rows, units of 8, neighbours 16 bits apart"},
// TARGET: error: expects a target, the attribute tile.target, but got none: run kvc-set-target before
func.func private @f(!kvcache.cache<heads = 2, dim = 128, page = 32, k = int4<axis = channel>, v = int4, residual = 128>)
func.func private @g(%c: !kvcache.cache<heads = 1, dim = 64, page = 16, k = f16, v = f16, positions = stored, tables = per_head, planes = [minmax]>)
func.func private @h(!kvcache.cache<heads = 1, dim = 576, v_dim = 512, page = 64, k = bf16, v = alias<from = 0>>)
