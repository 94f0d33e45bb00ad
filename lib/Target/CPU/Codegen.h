//===- Codegen.h - Kernels to machine code ----------------------*- C++ -*-===//
#ifndef KVC_LIB_TARGET_CPU_CODEGEN_H
#define KVC_LIB_TARGET_CPU_CODEGEN_H

#include "kvc/Target/Backend.h"

#include <memory>

namespace llvm {
class LLVMContext;
class Module;
class TargetMachine;
} // namespace llvm

namespace kvc::cpu {

const Backend &getBackend();

/// Loads the dialects and translations that compilation needs. Call once before kernels are compiled in parallel.
void prepareContext(mlir::MLIRContext *context);

/// The code generator of a target; null after a diagnostic at `location`.
std::unique_ptr<llvm::TargetMachine> createTargetMachine(mlir::Location location, const Target &target);

/// Kernels to optimised LLVM IR. `module` holds nothing but kernels and is lowered in place. Null after a diagnostic.
/// `scratchBytes` becomes the largest scratch memory of a kernel.
std::unique_ptr<llvm::Module> createLLVMModule(mlir::ModuleOp module, const Target &target,
                                               llvm::TargetMachine &machine, llvm::LLVMContext &context,
                                               uint64_t &scratchBytes);

/// Object file or assembly of a module. Failure comes with a diagnostic at `location`.
llvm::FailureOr<std::string> generateCode(mlir::Location location, llvm::Module &module, llvm::TargetMachine &machine,
                                          bool assembly);

/// Links objects to a shared object, or to one relocatable object. Failure comes with a diagnostic at `location`.
llvm::FailureOr<std::string> link(mlir::Location location, llvm::ArrayRef<std::string> objects, bool shared);

/// A compiled kernel.
struct CompiledKernel {
  std::string object;
  uint64_t scratchBytes = 0;
};

} // namespace kvc::cpu

#endif // KVC_LIB_TARGET_CPU_CODEGEN_H
