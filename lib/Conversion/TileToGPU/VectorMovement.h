//===- VectorMovement.h - Operations that move elements ---------*- C++ -*-===//
#ifndef KVC_LIB_CONVERSION_TILETOGPU_VECTORMOVEMENT_H
#define KVC_LIB_CONVERSION_TILETOGPU_VECTORMOVEMENT_H

#include "mlir/IR/Operation.h"

#include <functional>
#include <optional>

namespace kvc {

/// Which element of which operand a result's element is.
struct Source {
  unsigned operand;
  int64_t element;
};
using ElementMap = std::function<Source(int64_t)>;

/// The map of result number `result` of an operation on vectors of rank 1 that only moves elements; nothing for others.
std::optional<ElementMap> movementOf(mlir::Operation *op, unsigned result);

} // namespace kvc

#endif // KVC_LIB_CONVERSION_TILETOGPU_VECTORMOVEMENT_H
