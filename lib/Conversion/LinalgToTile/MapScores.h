//===- MapScores.h - Arithmetic on scores as linalg -------------*- C++ -*-===//
#ifndef KVC_LIB_CONVERSION_LINALGTOTILE_MAPSCORES_H
#define KVC_LIB_CONVERSION_LINALGTOTILE_MAPSCORES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kvc {

/// Every kvcache.map_scores on tensors becomes a linalg.generic, so that it is fused as other tensor computations are.
void generalizeMapScores(mlir::func::FuncOp function);

} // namespace kvc

#endif // KVC_LIB_CONVERSION_LINALGTOTILE_MAPSCORES_H
