//===- Codegen.h - Kernels to PTX and cubin ---------------------*- C++ -*-===//
#ifndef KVC_LIB_TARGET_NVIDIA_CODEGEN_H
#define KVC_LIB_TARGET_NVIDIA_CODEGEN_H

#include "kvc/Target/Backend.h"
#include "llvm/ADT/StringMap.h"

namespace kvc::nvidia {

const Backend &getBackend();

/// Loads the dialects and translations that compilation needs. Call once before kernels are compiled in parallel.
void prepareContext(mlir::MLIRContext *context);

/// Text of the kernels of `module`, which holds nothing else and is lowered in place: PTX, or optimised LLVM IR.
/// Failure comes with a diagnostic.
llvm::FailureOr<std::string> generateText(mlir::ModuleOp module, const Target &target, CodeForm form);

/// What the assembler says of one kernel.
struct Resources {
  uint32_t registers = 0, spillBytes = 0, stackBytes = 0;
};
struct Cubin {
  std::vector<uint8_t> bytes;
  /// What ptxas said.
  std::string log;
};
llvm::StringMap<Resources> readResources(llvm::StringRef log);

/// The version that ptxas gives; empty where there is none.
llvm::StringRef assemblerVersion();

/// Runs ptxas (in $CUDA_HOME/bin, PATH or /usr/local/cuda/bin). Failure comes with a diagnostic at `location`.
llvm::FailureOr<Cubin> assemble(mlir::Location location, llvm::StringRef ptx, const Target &target);

} // namespace kvc::nvidia

#endif // KVC_LIB_TARGET_NVIDIA_CODEGEN_H
