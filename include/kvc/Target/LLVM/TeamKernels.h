//===- TeamKernels.h - The interface of kernels of teams --------*- C++ -*-===//
//
// On machines whose lanes are threads a kernel's parameters are the words of docs/contracts/kernel-abi.md, eight bytes
// each; the item is the block's index, and staging memory is the block's dynamic shared memory.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_TARGET_LLVM_TEAMKERNELS_H
#define KVC_TARGET_LLVM_TEAMKERNELS_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace kvc {

/// Address spaces of memory that all teams see and of staging memory; every GPU of LLVM's numbers them so.
inline constexpr unsigned globalSpace = 1, sharedSpace = 3;

/// What the machines do not have in common.
struct TeamInterface {
  /// Address space of the pointers among the parameters.
  unsigned pointerSpace;
  /// Makes `entry` a kernel for teams of `lanes` lanes that runs `body`.
  llvm::function_ref<void(mlir::LLVM::LLVMFuncOp entry, mlir::Operation *body, int64_t lanes)> mark;
  /// The block's index (i32).
  llvm::function_ref<mlir::Value(mlir::ImplicitLocOpBuilder &)> blockIndex;
  /// Makes parameter `number` of a kernel that of a map of boxes; null where machines have none.
  llvm::function_ref<void(mlir::LLVM::LLVMFuncOp entry, unsigned number)> markMap = nullptr;
};

/// Gives all kernels of a module, which have the attributes of their teams, the interface.
llvm::LogicalResult wrapTeamKernels(mlir::ModuleOp module, const TeamInterface &interface);

/// Address of byte `offset + displacement` of a memref of bytes, as a pointer of `space`.
mlir::Value addressOf(mlir::ImplicitLocOpBuilder &b, mlir::Value memory, mlir::Value offset, int64_t displacement,
                      unsigned space);

/// Intrinsics on f32 that machines have instead of exact functions.
struct LaneMathIntrinsics {
  llvm::StringLiteral exp2, log2, reciprocal;
};

/// Replaces exp, exp2, log, log2 and tanh of f32 (tanh within 3e-7). Leaves every other operation alone; failure, with
/// a diagnostic, for the first four on other types.
llvm::LogicalResult lowerLaneMath(mlir::Operation *op, const LaneMathIntrinsics &intrinsics);

} // namespace kvc

#endif // KVC_TARGET_LLVM_TEAMKERNELS_H
