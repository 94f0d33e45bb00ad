//===- Codegen.h - Kernels to code objects ----------------------*- C++ -*-===//
#ifndef KVC_LIB_TARGET_AMD_CODEGEN_H
#define KVC_LIB_TARGET_AMD_CODEGEN_H

#include "kvc/Target/LLVM/TeamBackend.h"

namespace kvc::amd {

const Backend &getBackend();

/// Loads the dialects and translations that compilation needs. Call once before kernels are compiled in parallel.
void prepareContext(mlir::MLIRContext *context);

/// The kernels of `module`, which holds nothing else and is lowered in place, as optimised LLVM IR, assembly or a
/// relocatable object. Failure comes with a diagnostic.
llvm::FailureOr<std::string> generate(mlir::ModuleOp module, const Target &target, CodeForm form);

/// Links an object to a code object that a driver loads. Failure comes with a diagnostic at `location`.
llvm::FailureOr<std::string> linkCodeObject(mlir::Location location, const std::string &object);

/// What the metadata of a code object say of its kernels, a line for each: name, registers, bytes of private memory.
/// Failure comes with a diagnostic.
llvm::FailureOr<std::string> describeKernels(mlir::Location location, llvm::StringRef codeObject);
/// Reads such lines.
llvm::StringMap<TeamResources> readResources(llvm::StringRef lines);

} // namespace kvc::amd

#endif // KVC_LIB_TARGET_AMD_CODEGEN_H
