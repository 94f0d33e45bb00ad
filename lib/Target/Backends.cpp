//===- Backends.cpp - Which back end a target has -------------------------===//
#include "AMD/Codegen.h"
#include "CPU/Codegen.h"
#include "NVIDIA/Codegen.h"

#include "kvc/Target/Backend.h"

using namespace kvc;

const Backend &kvc::getBackend(const Target &target) {
  return target.triple.starts_with("nvptx64")  ? nvidia::getBackend()
         : target.triple.starts_with("amdgcn") ? amd::getBackend()
                                               : cpu::getBackend();
}
