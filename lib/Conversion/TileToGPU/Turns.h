//===- Turns.h - Turns of loops over a warp's lanes -------------*- C++ -*-===//
#ifndef KVC_LIB_CONVERSION_TILETOGPU_TURNS_H
#define KVC_LIB_CONVERSION_TILETOGPU_TURNS_H

#include "kvc/Target/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kvc {

/// Divides the turns of `scf.parallel` among the lanes of a kernel of one warp. Turns are about numbers: what they add
/// up from 0, integers, meets in the end; what they write the kernel does not read.
llvm::LogicalResult spreadTurns(mlir::func::FuncOp kernel, const TeamFacts &facts);

} // namespace kvc

#endif // KVC_LIB_CONVERSION_TILETOGPU_TURNS_H
