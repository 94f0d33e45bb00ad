// Code objects of every AMD target without ROCm: readable assembly, version 6 of the format, one kernel descriptor each, no library
// function, nothing in private memory.
// RUN: kvc-compile %s --emit=asm --target=gfx942 -o - 2>/dev/null | FileCheck %s --check-prefixes=CHECK,WAVE64
// RUN: kvc-compile %s --emit=asm --target=gfx90a -o - 2>/dev/null | FileCheck %s --check-prefixes=CHECK,WAVE64
// RUN: kvc-compile %s --emit=asm --target=gfx950 -o - 2>/dev/null | FileCheck %s --check-prefixes=CHECK,WAVE64
// RUN: kvc-compile %s --emit=asm --target=gfx1100 -o - 2>/dev/null | FileCheck %s --check-prefixes=CHECK,WAVE32
// RUN: kvc-compile %s --emit=asm --target=gfx1201 -o - 2>/dev/null | FileCheck %s --check-prefixes=CHECK,WAVE32
// RUN: kvc-compile %s --emit=object --target=gfx942 -o %t.942.hsaco 2>/dev/null
// RUN: llvm-readelf --file-header --dyn-symbols --notes %t.942.hsaco | FileCheck %s --check-prefixes=OBJECT,OBJECT942
// RUN: llvm-objdump -d %t.942.hsaco | FileCheck %s --check-prefix=CODE
// RUN: kvc-compile %s --emit=object --target=gfx1100 -o %t.1100.hsaco 2>/dev/null
// RUN: llvm-readelf --file-header --dyn-symbols --notes %t.1100.hsaco | FileCheck %s --check-prefixes=OBJECT,OBJECT1100
// RUN: kvc-compile %s --emit=artifact --target=x86-64-v3,gfx942,gfx1100 -o %t.kvca 2>/dev/null
// RUN: not kvc-compile %s --emit=ptx --target=gfx942 2>&1 | FileCheck %s --check-prefix=PTX
// PTX: error: expects a target whose assembly is PTX for --emit=ptx, but got gfx942: use --emit=asm

// CHECK: .amdgcn_target "amdgcn-amd-amdhsa--gfx
// CHECK: .amdhsa_code_object_version 6
// CHECK-NOT: __oc
// CHECK: .amdhsa_private_segment_fixed_size 0
// WAVE64: .wavefront_size: 64
// WAVE32: .wavefront_size: 32

// OBJECT: OS/ABI: AMDGPU - HSA
// OBJECT: ABI Version: 4
// OBJECT: Type: DYN
// OBJECT942: Flags: {{.*}}gfx942
// OBJECT1100: Flags: {{.*}}gfx1100
// OBJECT-NOT: UND {{[a-z]}}
// OBJECT: FUNC GLOBAL PROTECTED {{.*}} append
// OBJECT: OBJECT GLOBAL {{.*}} append.kd
// OBJECT: .group_segment_fixed_size: 0
// OBJECT: .max_flat_workgroup_size: [[LANES:64|32]]
// OBJECT: .private_segment_fixed_size: 0
// OBJECT: .wavefront_size: [[LANES]]

// CODE: <append>:
// CODE: s_endpgm

!kv = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = int8<axis = token, group = 32>>
func.func @f(%k: tensor<?x2x64xf32>, %v: tensor<?x2x64xf32>, %c: !kv, %b: !kvcache.batch) -> !kv {
  %d = kvcache.append %c, %k, %v at %b : !kv, tensor<?x2x64xf32>, tensor<?x2x64xf32>
  return %d : !kv
}
