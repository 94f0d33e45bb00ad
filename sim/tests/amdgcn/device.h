//===- device.h - What kernels for AMD chips need without ROCm --*- C++ -*-===//
#ifndef KVC_SIM_TESTS_AMDGCN_DEVICE_H
#define KVC_SIM_TESTS_AMDGCN_DEVICE_H

#define KERNEL extern "C" __attribute__((global))
#define LDS __attribute__((shared))
#define DEVICE __attribute__((device)) inline

typedef _Float16 half;
typedef half half4 __attribute__((ext_vector_type(4)));
typedef half half8 __attribute__((ext_vector_type(8)));
typedef half half16 __attribute__((ext_vector_type(16)));
typedef half half2 __attribute__((ext_vector_type(2)));
typedef __bf16 bhalf4 __attribute__((ext_vector_type(4)));
typedef short short4 __attribute__((ext_vector_type(4)));
typedef short short8 __attribute__((ext_vector_type(8)));
typedef short short16 __attribute__((ext_vector_type(16)));
typedef float float2 __attribute__((ext_vector_type(2)));
typedef float float4 __attribute__((ext_vector_type(4)));
typedef float float8 __attribute__((ext_vector_type(8)));
typedef float float16 __attribute__((ext_vector_type(16)));
typedef int int2 __attribute__((ext_vector_type(2)));
typedef int int4 __attribute__((ext_vector_type(4)));
typedef int int8 __attribute__((ext_vector_type(8)));
typedef int int16v __attribute__((ext_vector_type(16)));
typedef unsigned uint;
typedef unsigned long ulong;

DEVICE int thread() { return (int)__builtin_amdgcn_workitem_id_x(); }
DEVICE int group() { return (int)__builtin_amdgcn_workgroup_id_x(); }
DEVICE int index() { return group() * (int)__builtin_amdgcn_workgroup_size_x() + thread(); }
DEVICE void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

#endif // KVC_SIM_TESTS_AMDGCN_DEVICE_H
