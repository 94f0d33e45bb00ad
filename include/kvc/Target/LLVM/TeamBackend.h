//===- TeamBackend.h - Back ends whose kernels teams run --------*- C++ -*-===//
//
// The kernels of a module become one binary, which the cache keeps with the assembly that it may have been made from
// and what the tools said of it. How a binary is made is the target's.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_TARGET_LLVM_TEAMBACKEND_H
#define KVC_TARGET_LLVM_TEAMBACKEND_H

#include "kvc/Target/Backend.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringMap.h"

namespace llvm {
class Module;
} // namespace llvm

namespace kvc {

struct TeamBinary {
  /// Empty where `bytes` were not made from a text that a driver could use instead.
  std::string assembly;
  std::vector<uint8_t> bytes;
  /// What the tools said.
  std::string log;
};

/// What a lane of one kernel uses.
struct TeamResources {
  uint32_t registers = 0;
  /// Bytes that it spills or keeps in memory of its own.
  uint32_t spillBytes = 0;
};

class TeamBackend : public Backend {
public:
  llvm::FailureOr<TargetCode> compile(mlir::ModuleOp module, const Target &target,
                                      const BackendOptions &options) const final;
  llvm::FailureOr<std::string> emit(mlir::ModuleOp module, const Target &target, CodeForm form) const final;

protected:
  virtual CodeKind kind() const = 0;
  virtual llvm::StringRef cacheSuffix() const = 0;
  /// Versions of all that makes code of kernels.
  virtual std::string toolchain() const = 0;
  /// Called once for a context, before kernels are compiled in parallel.
  virtual void prepare(mlir::MLIRContext *context) const = 0;
  /// `kernels` holds nothing else and is lowered in place. Failure comes with a diagnostic.
  virtual llvm::FailureOr<TeamBinary> build(mlir::ModuleOp kernels, const Target &target) const = 0;
  /// Optimised LLVM IR or assembly of `kernels`.
  virtual llvm::FailureOr<std::string> text(mlir::ModuleOp kernels, const Target &target, CodeForm form) const = 0;
  virtual llvm::StringMap<TeamResources> resourcesOf(const TeamBinary &binary) const = 0;

private:
  llvm::FailureOr<TeamBinary> buildCached(mlir::ModuleOp module, const Target &target,
                                          const BackendOptions &options) const;
};

/// LLVM IR, assembly or object of the kernels of `module`, which is lowered in place by `pipeline`. `complete` gets the
/// LLVM module before it is optimised. Failure comes with a diagnostic.
llvm::FailureOr<std::string> generateTeamCode(mlir::ModuleOp module, const Target &target, CodeForm form,
                                              llvm::function_ref<void(mlir::OpPassManager &)> pipeline,
                                              llvm::function_ref<void(llvm::Module &)> complete);

} // namespace kvc

#endif // KVC_TARGET_LLVM_TEAMBACKEND_H
