//===- Codegen.h - Kernels to PTX and cubin ---------------------*- C++ -*-===//
#ifndef KVC_LIB_TARGET_NVIDIA_CODEGEN_H
#define KVC_LIB_TARGET_NVIDIA_CODEGEN_H

#include "kvc/Target/LLVM/TeamBackend.h"

namespace kvc::nvidia {

const Backend &getBackend();

/// Loads the dialects and translations that compilation needs. Call once before kernels are compiled in parallel.
void prepareContext(mlir::MLIRContext *context);

/// Text of the kernels of `module`, which holds nothing else and is lowered in place: PTX, or optimised LLVM IR.
/// Failure comes with a diagnostic.
llvm::FailureOr<std::string> generateText(mlir::ModuleOp module, const Target &target, CodeForm form);

struct Cubin {
  std::vector<uint8_t> bytes;
  /// What ptxas said.
  std::string log;
};
/// What `log` says of the kernels.
llvm::StringMap<TeamResources> readResources(llvm::StringRef log);

/// The version that ptxas gives; empty where there is none.
llvm::StringRef assemblerVersion();

/// Runs ptxas (in $CUDA_HOME/bin, PATH or /usr/local/cuda/bin). Failure comes with a diagnostic at `location`.
llvm::FailureOr<Cubin> assemble(mlir::Location location, llvm::StringRef ptx, const Target &target);

} // namespace kvc::nvidia

#endif // KVC_LIB_TARGET_NVIDIA_CODEGEN_H
