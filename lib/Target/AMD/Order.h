//===- Order.h - What stays in front of and behind products ----*- C++ -*-===//
#ifndef KVC_LIB_TARGET_AMD_ORDER_H
#define KVC_LIB_TARGET_AMD_ORDER_H

#include "kvc/Target/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kvc::amd {

/// Keeps what is read of staging memory behind a product where it is: LLVM's scheduler would read all operands of a
/// block first, and more than a lane has registers for.
void keepReadsBehindProducts(mlir::func::FuncOp function);

/// Loads rows of f32 numbers in front of what uses them, a few at a time: LLVM's scheduler would load all of a block
/// first.
void loadInBatches(mlir::func::FuncOp function);

/// Lets matrix products end before a branch where a later block may touch their registers: LLVM 22 counts wait states
/// along one path only.
void keepSumsFromBranches(mlir::func::FuncOp function, const Target &target);

} // namespace kvc::amd

#endif // KVC_LIB_TARGET_AMD_ORDER_H
