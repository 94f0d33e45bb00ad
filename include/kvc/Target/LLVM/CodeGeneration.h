//===- CodeGeneration.h - Modules of the LLVM dialect to code ---*- C++ -*-===//
//
// What all back ends that end in LLVM do alike.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_TARGET_LLVM_CODEGENERATION_H
#define KVC_TARGET_LLVM_CODEGENERATION_H

#include "kvc/Target/Target.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/CodeGen.h"
#include "llvm/Target/TargetOptions.h"

#include <memory>
#include <optional>
#include <string>

namespace llvm {
class LLVMContext;
class Module;
class PipelineTuningOptions;
class TargetMachine;
} // namespace llvm

namespace kvc {

/// Makes the code generators of this LLVM known and loads the dialects that `pipeline` and the translations of
/// `registry` need. Call before kernels are compiled in parallel.
void prepareCodeGeneration(mlir::MLIRContext *context, mlir::DialectRegistry &registry,
                           llvm::function_ref<void(mlir::OpPassManager &)> pipeline);

/// The code generator of a target; null after a diagnostic at `location`.
std::unique_ptr<llvm::TargetMachine> createTargetMachine(mlir::Location location, const Target &target,
                                                         const llvm::TargetOptions &options,
                                                         std::optional<llvm::Reloc::Model> relocation);

/// Translates `module`, which is in the LLVM dialect, for `machine`. The bodies of kernels (`NAME.body`) disappear in
/// their wrappers, and their pointers do not alias, as docs/contracts/kernel-abi.md says. Null after a diagnostic.
std::unique_ptr<llvm::Module> translateKernels(mlir::ModuleOp module, llvm::TargetMachine &machine,
                                               llvm::LLVMContext &context);

/// LLVM's pipeline of -O3.
void optimise(llvm::Module &module, llvm::TargetMachine &machine, const llvm::PipelineTuningOptions &tuning);

/// Assembly or object file of a module. Failure comes with a diagnostic at `location`.
llvm::FailureOr<std::string> emitFile(mlir::Location location, llvm::Module &module, llvm::TargetMachine &machine,
                                      llvm::CodeGenFileType kind);

/// Runs ld.lld (of this LLVM, or in PATH) on object files. Failure comes with a diagnostic at `location`.
llvm::FailureOr<std::string> linkObjects(mlir::Location location, llvm::ArrayRef<std::string> objects,
                                         llvm::ArrayRef<llvm::StringRef> options);

} // namespace kvc

#endif // KVC_TARGET_LLVM_CODEGENERATION_H
