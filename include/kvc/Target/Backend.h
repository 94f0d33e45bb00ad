//===- Backend.h - What turns kernels into code -----------------*- C++ -*-===//
//
// A back end compiles the kernels of a module for one target row. The choice is made here once; no other place asks
// which back end a target has.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_TARGET_BACKEND_H
#define KVC_TARGET_BACKEND_H

#include "kvc/Target/Target.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvc {

/// How code lies in an artifact (kvc.fb.CodeKind).
enum class CodeKind { SharedObject, Cubin, Hsaco };

/// A compiled kernel.
struct KernelCode {
  /// Function in the module.
  std::string name;
  /// Symbol in the code. Kernels of the same code have the same symbol.
  std::string symbol;
  /// Bytes of scratch memory that a worker needs.
  uint64_t scratchBytes = 0;
  /// Of kernels that are run by teams of lanes, one team for each item: lanes of a team, bytes of staging memory that a
  /// launch must give it, registers of a lane and bytes that it spills or keeps in local memory, as the assembler
  /// reports them.
  uint32_t teamLanes = 0;
  uint32_t stagingBytes = 0, registers = 0, spillBytes = 0;
};

/// The compiled kernels of one module for one target.
struct TargetCode {
  CodeKind kind = CodeKind::SharedObject;
  std::vector<uint8_t> code;
  /// The assembly that `code` was made from, for drivers that `code` does not fit; empty where there is no such thing.
  std::string assembly;
  std::vector<KernelCode> kernels;
};

struct BackendOptions {
  /// Folder of compiled kernels and artifacts, by the hash of all that they depend on; empty: none is kept. Several
  /// processes may share it.
  std::string cacheFolder;
};

/// What a back end can print instead of code.
enum class CodeForm { LLVM, Assembly, Object };

class Backend {
public:
  virtual ~Backend() = default;
  /// Compiles the kernels of `module` (functions with `tile.kernel`, after kvc-convert-tile-to-vector), which stays as
  /// it is. Failure comes with a diagnostic.
  virtual llvm::FailureOr<TargetCode> compile(mlir::ModuleOp module, const Target &target,
                                              const BackendOptions &options) const = 0;
  /// The passes from such a module, which holds nothing but kernels, to the LLVM dialect.
  virtual void buildPipeline(mlir::OpPassManager &pm) const = 0;
  /// The text or relocatable object of all kernels of `module`.
  virtual llvm::FailureOr<std::string> emit(mlir::ModuleOp module, const Target &target, CodeForm form) const = 0;
};

/// The back end of a target.
const Backend &getBackend(const Target &target);

/// The best target that this machine runs; null when there is none.
const Target *getHostTarget();

/// ${XDG_CACHE_HOME:-~/.cache}/kvc; empty when neither variable is set.
std::string getDefaultCacheFolder();

} // namespace kvc

#endif // KVC_TARGET_BACKEND_H
