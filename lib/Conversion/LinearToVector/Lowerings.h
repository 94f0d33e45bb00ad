//===- Lowerings.h - Lowerings of kernels to vectors ------------*- C++ -*-===//
#ifndef KVC_LIB_CONVERSION_LINEARTOVECTOR_LOWERINGS_H
#define KVC_LIB_CONVERSION_LINEARTOVECTOR_LOWERINGS_H

#include "kvc/Dialect/Tile/IR/Tile.h"
#include "kvc/Target/Target.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace kvc {

/// Each replaces its op by loops; they fail with a diagnostic.
llvm::LogicalResult lowerLinear(tile::LinearOp op, const Target &target);
llvm::LogicalResult lowerDecodeRow(tile::DecodeRowOp op, const Target &target);
llvm::LogicalResult lowerGeneric(mlir::linalg::GenericOp op, const Target &target);

} // namespace kvc

#endif // KVC_LIB_CONVERSION_LINEARTOVECTOR_LOWERINGS_H
