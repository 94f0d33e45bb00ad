//===- LanesAvx2.cpp - Lane-wise operations for AVX2 ----------------------===//
#define KVCSIM_ISA isaAvx2
#define KVCSIM_TARGET "avx2,fma,f16c,bmi,bmi2,lzcnt,popcnt"
#include "amdgcn/LanesAll.inc"
