// What keeps LLVM from holding more than the 256 registers of RDNA's lanes: what is read behind a product stays there, queries of
// prefill are loaded in batches, and what follows from a lane's number is computed anew in masks and behind the loop.
// RUN: kvc-compile %s --emit=llvm --target=gfx1100 -o - 2>/dev/null | FileCheck %s
// RUN: kvc-compile %s --emit=asm --target=gfx1100 -o - 2>/dev/null | FileCheck %s --check-prefix=MEMORY

!kv = !kvcache.cache<heads = 2, dim = 128, page = 16, k = f16, v = f16>

// CHECK-LABEL: define {{.*}}@attention(
// CHECK: load <2 x float>
// CHECK: call void @llvm.amdgcn.sched.barrier(i32 0)
// CHECK: load <2 x float>
// CHECK: call <8 x float> @llvm.amdgcn.wmma
// CHECK: call void @llvm.amdgcn.sched.barrier(i32 0)
// CHECK: call <8 x float> @llvm.amdgcn.wmma
// CHECK: asm sideeffect "", "=v,0"
// CHECK: llvm.amdgcn.exp2
// CHECK: call <8 x float> @llvm.amdgcn.wmma
// CHECK: asm sideeffect "", "=v,0"
// CHECK-NOT: llvm.amdgcn.wmma
// CHECK: store <4 x float>

// MEMORY-COUNT-4: .amdhsa_private_segment_fixed_size 0
// MEMORY-NOT: scratch_
func.func @attend(%q: tensor<?x8x128xf32>, %c: !kv, %b: !kvcache.batch) -> tensor<?x8x128xf32> {
  %o = kvcache.attention %q over %c at %b {scale = 0.125 : f32, causal} : (tensor<?x8x128xf32>, !kv, !kvcache.batch) -> tensor<?x8x128xf32>
  return %o : tensor<?x8x128xf32>
}
