//===- Host.cpp - The target of this machine ------------------------------===//
#include "kvc/Target/Backend.h"

#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"

using namespace kvc;

/// What a machine must have for a target beyond its architecture.
static llvm::ArrayRef<llvm::StringRef> neededFeatures(llvm::StringRef target) {
  static constexpr llvm::StringRef v3[] = {"avx2", "fma", "f16c", "bmi2"};
  static constexpr llvm::StringRef v4[] = {"avx2",     "fma",      "f16c",     "bmi2",    "avx512f",
                                           "avx512bw", "avx512cd", "avx512dq", "avx512vl"};
  static constexpr llvm::StringRef v4bf16[] = {"avx2",     "fma",        "f16c",      "bmi2",
                                               "avx512f",  "avx512bw",   "avx512cd",  "avx512dq",
                                               "avx512vl", "avx512bf16", "avx512vnni"};
  return target == "x86-64-v3"        ? llvm::ArrayRef<llvm::StringRef>(v3)
         : target == "x86-64-v4"      ? llvm::ArrayRef<llvm::StringRef>(v4)
         : target == "x86-64-v4-bf16" ? llvm::ArrayRef<llvm::StringRef>(v4bf16)
                                      : llvm::ArrayRef<llvm::StringRef>();
}

const Target *kvc::getHostTarget() {
  llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  llvm::Triple host(llvm::sys::getDefaultTargetTriple());
  const Target *best = nullptr;
  // Later rows of an architecture are better.
  for (const Target &target : getTargets()) {
    if (llvm::Triple(target.triple).getArch() == host.getArch() &&
        llvm::all_of(neededFeatures(target.name), [&](llvm::StringRef name) { return features.lookup(name); })) {
      best = &target;
    }
  }
  return best;
}
