//===- LanesAvx512.cpp - Lane-wise operations for AVX-512 -----------------===//
#define KVCSIM_ISA isaAvx512
#define KVCSIM_TARGET "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi,bmi2,lzcnt,popcnt"
#include "amdgcn/LanesAll.inc"
