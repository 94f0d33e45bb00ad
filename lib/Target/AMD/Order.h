//===- Order.h - Reads of operands stay between products --------*- C++ -*-===//
#ifndef KVC_LIB_TARGET_AMD_ORDER_H
#define KVC_LIB_TARGET_AMD_ORDER_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kvc::amd {

/// Keeps what is read of staging memory behind a product where it is: LLVM's scheduler would read all operands of a
/// block first, and more than a lane has registers for.
void keepReadsBehindProducts(mlir::func::FuncOp function);

} // namespace kvc::amd

#endif // KVC_LIB_TARGET_AMD_ORDER_H
