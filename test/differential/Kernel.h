//===- Kernel.h - A compiled module beside the oracle's ---------*- C++ -*-===//
#ifndef KVC_TEST_DIFFERENTIAL_KERNEL_H
#define KVC_TEST_DIFFERENTIAL_KERNEL_H

#include "Module.h"

#include "kvc/Driver/Compile.h"
#include "kvc/Reference/Reference.h"
#include "kvc/Target/Backend.h"
#include "kvc_runtime.hpp"
#include "mlir/IR/MLIRContext.h"

namespace kvc::differential {

/// Changes a module after all lowerings and before code generation: a compiler broken on purpose.
using Mutation = std::function<void(mlir::ModuleOp)>;

/// MLIR with diagnostics as text.
class Compiler {
public:
  Compiler();

  mlir::MLIRContext context;
  /// Diagnostics since the last `take`.
  std::string take() { return std::exchange(errors, ""); }

  /// Null when the verifier refuses the text.
  mlir::OwningOpRef<mlir::ModuleOp> parse(llvm::StringRef text);
  /// Null when a lowering fails.
  mlir::OwningOpRef<mlir::ModuleOp> lower(mlir::ModuleOp module, const Target &target, Stage stage = Stage::Vector);
  /// The code of a lowered module, and its artifact.
  llvm::FailureOr<TargetCode> generate(mlir::ModuleOp lowered, const Target &target, const std::string &cacheFolder);
  llvm::FailureOr<std::vector<uint8_t>> pack(mlir::ModuleOp lowered, const Target &target, const TargetCode &generated);

private:
  std::string errors;
};

/// How far a kernel came.
enum class Outcome {
  Ready,
  RefusedByVerifier,
  NotLowered, // the compiler says that there is no lowering
  Failed,     // anything else
};

/// One configuration, ready to run.
struct Kernel {
  explicit Kernel(const Config &config) : module(config) {}

  Module module;
  const Target *target = nullptr;
  mlir::OwningOpRef<mlir::ModuleOp> ir; // for the oracle
  mlir::OwningOpRef<mlir::ModuleOp> lowered;
  TargetCode generated;
  std::vector<uint8_t> artifact;
  /// On the device with one thread, with two; loaded when first needed.
  runtime::ModuleHandle code[2];

  Outcome outcome = Outcome::Failed;
  std::string message;
};

struct KernelOptions {
  std::string cacheFolder;
  Mutation mutation;
  const Target *target = nullptr;
};

/// Compiles a configuration for the machine.
std::unique_ptr<Kernel> compile(Compiler &compiler, const Config &config, const KernelOptions &options);

/// Why a module cannot be compiled for a target (null: only the verifier is asked): the verifier refuses it, or part of
/// it has no lowering yet. Empty when it can.
std::string refusalOf(Compiler &compiler, const Module &module, const Target *target);

/// Whether a message says that something is left to do, not that it went wrong.
bool isMissingLowering(llvm::StringRef message);
/// Whether a message says that a kernel needs more staging memory than a block of the target can have.
bool isTooLarge(llvm::StringRef message);

} // namespace kvc::differential

#endif // KVC_TEST_DIFFERENTIAL_KERNEL_H
