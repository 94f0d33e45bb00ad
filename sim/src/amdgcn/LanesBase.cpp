//===- LanesBase.cpp - Lane-wise operations for every host ----------------===//
#define KVCSIM_ISA isaBase
#include "amdgcn/LanesAll.inc"
