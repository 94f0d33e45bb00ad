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

/// Facts about a machine whose work items are run by teams: warps of lanes with memory of their own.
struct TeamFacts {
  /// Lanes of a warp.
  int64_t lanes;
  /// Lanes of the largest team.
  int64_t maxLanes;
  /// Bytes of staging memory: the most that a team can have, and of one processor for all teams on it.
  int64_t stagingBytes, processorStagingBytes;
  /// 32-bit registers of a processor and the most that a lane can have.
  int64_t processorRegisters, laneRegisters;
  /// Processors of the chip that is meant where nothing else is known.
  int64_t processors;
  /// 8-bit floating point products.
  bool mmaF8;
  /// Of machines whose groups of warps multiply out of staging memory: the atom (Atoms.h) without its type, warps that
  /// do nothing but copy beside them, and registers of a lane of those that copy and of those that compute. Else empty
  /// and zeros.
  llvm::StringLiteral groupAtom;
  int64_t producerWarps, producerRegisters, consumerRegisters;
  /// The matrix instruction of a warp on 16-bit numbers (Atoms.h) without its type.
  llvm::StringLiteral mmaAtom = "m16n8k16";
  /// Whether `tile.load_matrices` brings operands from staging memory to lanes; else each lane loads its elements.
  bool loadsMatrices = true;
  /// The same with more rows and columns, for query tiles of that many rows for each warp whose keys and values lie in
  /// pages as products take them: those go to staging memory through registers, by loads that give zeros behind an end.
  /// Empty where there is none.
  llvm::StringLiteral tallMmaAtom = "";
  /// Whether one instruction adds or multiplies two pairs of f32 numbers.
  bool pairsF32 = false;
  /// Whether the atoms' instructions have a form that does two steps at once (`pairedAtom`).
  bool pairsSteps = false;
  /// Whether warps copy rows to staging memory without registers (`tile.copy_warp`), and lanes read columns of rows
  /// there (`tile.load_transposed`): query tiles of the tall atom do.
  bool stagesRows = false;
  /// Dies, each with a cache of its own, that blocks are dealt to in turn: a power of two.
  int64_t dies = 1;

  /// Whether lanes read operands of staging memory by themselves in the order of the code, a piece ahead of its
  /// product: where they have no registers beside the vector ones, no more than that fits them.
  constexpr bool readsInOrder() const { return !loadsMatrices && laneRegisters <= 256; }
};

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
  /// Bytes of integer codes that one lane reads at once: the largest unit of packed pages.
  int64_t wordBytes;
  /// Rows and lane blocks of the accumulator tile that fits the registers.
  int64_t mmaRows, mmaBlocks;
  /// Bytes of the cache that one core has for itself.
  int64_t cacheBytes;
  /// Of targets whose lanes are threads; null where they are the elements of a vector.
  const TeamFacts *team = nullptr;
};

/// All targets.
llvm::ArrayRef<Target> getTargets();
/// The row of that name; null when there is none.
const Target *lookupTarget(llvm::StringRef name);
/// The target that the module around `op` is compiled for; null when it has no attribute `tile.target`.
const Target *getTargetOf(mlir::Operation *op);

} // namespace kvc

#endif // KVC_TARGET_TARGET_H
