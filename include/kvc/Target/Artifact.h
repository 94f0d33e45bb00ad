//===- Artifact.h - Modules to .kvca ----------------------------*- C++ -*-===//
//
// Host functions become plans (docs/contracts/kernel-abi.md, section 4) and go into one container with the code and the
// layouts of every target.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_TARGET_ARTIFACT_H
#define KVC_TARGET_ARTIFACT_H

#include "kvc/Target/Backend.h"

#include <memory>

namespace kvc {

/// A function with this attribute, (cache, batch, i32 lengths) -> cache, is named in the cache spec of its type: the
/// runtime calls it to truncate into sealed slots.
inline constexpr llvm::StringLiteral truncateAttrName = "kvc.truncates";

/// Collects the targets of one artifact. All modules must be of one context.
class ArtifactBuilder {
public:
  ArtifactBuilder();
  ~ArtifactBuilder();

  /// Adds a module after kvc-convert-tile-to-vector and kvc-insert-copies with the code of its kernels. Fails with a
  /// diagnostic at the first operation that a plan cannot hold.
  llvm::LogicalResult addTarget(mlir::ModuleOp module, const Target &target, const TargetCode &code);

  /// The bytes of the .kvca file, verified as the runtime verifies them. `provenance` is for people.
  llvm::FailureOr<std::vector<uint8_t>> finish(mlir::Location location, llvm::StringRef provenance);

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace kvc

#endif // KVC_TARGET_ARTIFACT_H
