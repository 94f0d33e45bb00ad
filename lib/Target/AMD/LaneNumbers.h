//===- LaneNumbers.h - What lanes compute of their numbers -----*- C++ -*-===//
#ifndef KVC_LIB_TARGET_AMD_LANENUMBERS_H
#define KVC_LIB_TARGET_AMD_LANENUMBERS_H

#include "kvc/Target/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kvc::amd {

/// Computes what follows from a lane's number anew behind loops with products and in their branches, so that it takes
/// no registers in them.
void rebuildLaneNumbers(mlir::func::FuncOp function, const TeamFacts &facts);

} // namespace kvc::amd

#endif // KVC_LIB_TARGET_AMD_LANENUMBERS_H
