//===- LaneOps.cpp - Operations on what one lane holds -------------------===//
#include "kvc/Dialect/Tile/IR/Lanes.h"

using namespace mlir;
using namespace kvc::tile;

#define GET_OP_CLASSES
#include "Tile/TileLaneOps.cpp.inc"

LogicalResult LaneMmaOp::verify() {
  auto sameTypes = [](TypeRange types) { return llvm::all_equal(types); };
  if (getA().empty() || getB().empty() || getAcc().empty()) {
    return emitOpError() << "expects registers of all three operands, but got " << getA().size() << ", "
                         << getB().size() << " and " << getAcc().size();
  }
  if (!sameTypes(getA().getTypes()) || !sameTypes(getB().getTypes()) || !sameTypes(getAcc().getTypes())) {
    return emitOpError() << "expects the registers of an operand to have one type, but got " << getOperandTypes();
  }
  if (getResultTypes() != getAcc().getTypes()) {
    return emitOpError() << "expects results of the types " << getAcc().getTypes() << ", but got " << getResultTypes();
  }
  return success();
}

LogicalResult LoadMatricesOp::verify() {
  size_t count = getResults().size();
  if (count != 1 && count != 2 && count != 4) {
    return emitOpError() << "expects 1, 2 or 4 matrices, but got " << count;
  }
  if (!llvm::all_equal(getResultTypes())) {
    return emitOpError() << "expects matrices of one type, but got " << getResultTypes();
  }
  return success();
}
