//===- Compile.h - Modules to artifacts -------------------------*- C++ -*-===//
//
// What kvc-compile, kvc-run and the Python package share: all stages, for several targets, into one artifact.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_DRIVER_COMPILE_H
#define KVC_DRIVER_COMPILE_H

#include "kvc/Dialect/KVCache/Transforms/Method.h"
#include "kvc/Pipelines/Pipelines.h"
#include "kvc/Target/Backend.h"

namespace kvc {

namespace gguf {
class File;
} // namespace gguf
struct LanguageModelOptions;

struct CompileOptions {
  /// Rows of the table of targets; empty: the best that this machine runs.
  std::vector<std::string> targets;
  BackendOptions backend;
  /// What people read in the artifact: the source and the options.
  std::string provenance;
  /// A folder for a reproducer of a pass that fails; empty: none is written.
  std::string reproducerFolder;
  bool verifyStages = true;
};

/// The rows of `names`, or the best target of this machine where there are none. Fails after a diagnostic at
/// `location`.
llvm::FailureOr<std::vector<const Target *>> selectTargets(mlir::Location location, llvm::ArrayRef<std::string> names);

/// The graph of a model file with its method, over caches of the storage that the options name (path, device, threads
/// and target are not read). Null after a diagnostic.
mlir::OwningOpRef<mlir::ModuleOp> importModel(const gguf::File &file, mlir::MLIRContext *context,
                                              const LanguageModelOptions &options);

/// Splices a method into a module with attention sites, as imported models are; a module without sites stays as it is
/// when the method is dense.
llvm::LogicalResult applyMethod(mlir::ModuleOp module, const MethodOptions &options);

/// How exact linear layers on GPUs are: "fast", or "exact", which leaves what the module says itself.
void setLinearAccuracy(mlir::ModuleOp module, llvm::StringRef accuracy);

/// A copy of `module` brought to a stage for a target; null after a diagnostic.
mlir::OwningOpRef<mlir::ModuleOp> lowerToStage(mlir::ModuleOp module, const Target &target, Stage stage,
                                               const CompileOptions &options);

/// The bytes of a .kvca with all targets, out of the backend's cache folder where the same compiler made it before.
/// `source` stays as it is. Failure comes with diagnostics.
llvm::FailureOr<std::vector<uint8_t>> compileModule(mlir::ModuleOp source, const CompileOptions &options);

} // namespace kvc

#endif // KVC_DRIVER_COMPILE_H
