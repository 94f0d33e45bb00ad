//===- Target.h - Facts about targets ---------------------------*- C++ -*-===//
//
// One row per target. Layouts and lowerings ask the row; nothing above lib/Target names a machine.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_TARGET_TARGET_H
#define KVC_TARGET_TARGET_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>

namespace mlir {
class Operation;
} // namespace mlir

namespace kvc {

/// A target of the compiler.
struct Target {
  /// As in --target and in the module attribute `tile.target`.
  llvm::StringLiteral name;
  /// LLVM triple, CPU and features.
  llvm::StringLiteral triple, cpu, features;
  /// Elements of f32 that one operation works on side by side: the lanes of a team.
  int64_t lanes;
  /// bf16 elements along the summed dimension of one lane's operand (2: there is a dot instruction, 1: there is none).
  int64_t bf16Pairs;
  /// Rows and lane blocks of the accumulator tile that fits the registers.
  int64_t mmaRows, mmaBlocks;
  /// Bytes of the cache that one core has for itself.
  int64_t cacheBytes;
};

/// All targets.
llvm::ArrayRef<Target> getTargets();
/// The row of that name; null when there is none.
const Target *lookupTarget(llvm::StringRef name);
/// The target that the module around `op` is compiled for; null when it has no attribute `tile.target`.
const Target *getTargetOf(mlir::Operation *op);

} // namespace kvc

#endif // KVC_TARGET_TARGET_H
