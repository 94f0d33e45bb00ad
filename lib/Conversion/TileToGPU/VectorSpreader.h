//===- VectorSpreader.h - Vectors of a kernel over a warp's lanes *- C++ -*-===//
//
// Kernels without tiles are loops over vectors of rank 1, as for a machine whose lanes are the elements of a vector.
// Here one warp runs them: element e of a wide vector is held by lane e % lanes, in register e / lanes. Scalars and
// vectors of a few elements are the same in all lanes, and so is control flow, so every lane reaches every shuffle and
// barrier. Buffers of the kernel's frame become staging memory.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_LIB_CONVERSION_TILETOGPU_VECTORSPREADER_H
#define KVC_LIB_CONVERSION_TILETOGPU_VECTORSPREADER_H

#include "kvc/Target/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kvc {

/// Rewrites the kernel, whose vectors have rank 1, to the code of one lane. Sets the attributes of its team.
llvm::LogicalResult spreadVectors(mlir::func::FuncOp kernel, const TeamFacts &facts);

} // namespace kvc

#endif // KVC_LIB_CONVERSION_TILETOGPU_VECTORSPREADER_H
