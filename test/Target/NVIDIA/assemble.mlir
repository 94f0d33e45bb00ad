// PTX of every NVIDIA target: readable, assembles, nothing is spilled.
// REQUIRES: ptxas
// RUN: kvc-compile %s --emit=ptx --target=sm_80 -o %t.80.ptx 2>/dev/null && FileCheck %s < %t.80.ptx
// RUN: ptxas -v -arch=sm_80 %t.80.ptx -o %t.cubin 2>&1 | FileCheck %s --check-prefix=RESOURCES
// RUN: kvc-compile %s --emit=ptx --target=sm_86 -o %t.86.ptx 2>/dev/null && ptxas -v -arch=sm_86 %t.86.ptx -o %t.cubin 2>&1 | FileCheck %s --check-prefix=RESOURCES
// RUN: kvc-compile %s --emit=ptx --target=sm_89 -o %t.89.ptx 2>/dev/null && ptxas -v -arch=sm_89 %t.89.ptx -o %t.cubin 2>&1 | FileCheck %s --check-prefix=RESOURCES
// RUN: kvc-compile %s --emit=ptx --target=sm_90a -o %t.90.ptx 2>/dev/null && ptxas -v -arch=sm_90a %t.90.ptx -o %t.cubin 2>&1 | FileCheck %s --check-prefix=RESOURCES
// RUN: kvc-compile %s --emit=ptx --target=sm_100a -o %t.100.ptx 2>/dev/null && ptxas -v -arch=sm_100a %t.100.ptx -o %t.cubin 2>&1 | FileCheck %s --check-prefix=RESOURCES
// RUN: kvc-compile %s --emit=ptx --target=sm_103a -o %t.103.ptx 2>/dev/null && ptxas -v -arch=sm_103a %t.103.ptx -o %t.cubin 2>&1 | FileCheck %s --check-prefix=RESOURCES
// RUN: kvc-compile %s --emit=ptx --target=sm_120 -o %t.120.ptx 2>/dev/null && ptxas -v -arch=sm_120 %t.120.ptx -o %t.cubin 2>&1 | FileCheck %s --check-prefix=RESOURCES
// The text of PTX is in the artifact once, and not in the cubin too.
// RUN: kvc-compile %s --emit=artifact --target=sm_80 -o %t.kvca 2>/dev/null
// RUN: not grep -q nv_debug_ptx_txt %t.kvca
// RUN: not kvc-compile %s --emit=ptx --target=x86-64-v3 2>&1 | FileCheck %s --check-prefix=CPU
// CPU: error: expects a target whose assembly is PTX for --emit=ptx, but got x86-64-v3

// CHECK: .target sm_80
// CHECK-NOT: debug
// CHECK: .extern .shared .align 1024 .b8 staging[];
// CHECK: .visible .entry attention_decode(
// CHECK: .reqntid 128, 1, 1
// CHECK: .loc
// CHECK: cp.async.cg.shared.global
// CHECK: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// CHECK: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
// CHECK: ex2.approx.ftz.f32
// CHECK: cvt.rn.f16x2.f32
// CHECK: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16

// RESOURCES-NOT: error
// RESOURCES-NOT: {{[1-9][0-9]*}} bytes spill
// RESOURCES: Used {{[0-9]+}} registers
// RESOURCES-NOT: {{[1-9][0-9]*}} bytes spill

!kv = !kvcache.cache<heads = 2, dim = 128, page = 16, k = f16, v = f16>
func.func @causal(%q: tensor<?x8x128xf32>, %c: !kv, %b: !kvcache.batch) -> tensor<?x8x128xf32> {
  %o = kvcache.attention %q over %c at %b {scale = 0.125 : f32, causal} : (tensor<?x8x128xf32>, !kv, !kvcache.batch) -> tensor<?x8x128xf32>
  return %o : tensor<?x8x128xf32>
}
