//===- Copies.h - Copies to LDS through registers ---------------*- C++ -*-===//
#ifndef KVC_LIB_TARGET_AMD_COPIES_H
#define KVC_LIB_TARGET_AMD_COPIES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kvc::amd {

/// Replaces tile.copy_async: where it stands the bytes are loaded to a register, and they are stored in front of the
/// next wait for copies, or at the end of the block. What lies between hides the load. tile.commit_async and
/// tile.wait_async disappear: a lane's own stores are in order.
void lowerCopies(mlir::func::FuncOp function);

} // namespace kvc::amd

#endif // KVC_LIB_TARGET_AMD_COPIES_H
