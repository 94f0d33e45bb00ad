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

/// A compiled kernel as it is kept in the cache.
struct CachedKernel {
  std::string object;
  uint64_t scratchBytes = 0;
};

/// Files named by the hash of all that the code depends on. Safe for concurrent use by threads and processes: entries
/// are written beside and renamed; what is damaged is not found.
class ObjectCache {
public:
  explicit ObjectCache(std::string folder) : folder(std::move(folder)) {}
  std::optional<CachedKernel> find(llvm::StringRef key) const;
  /// Keeping is best effort: where the folder cannot be written, later runs compile again.
  void insert(llvm::StringRef key, const CachedKernel &kernel) const;

private:
  std::string path(llvm::StringRef key) const;
  std::string folder;
};

} // namespace kvc::cpu

#endif // KVC_LIB_TARGET_CPU_CODEGEN_H
