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

LogicalResult GroupMmaOp::verify() {
  if (getA().empty() == !getAOffset()) {
    return emitOpError() << "expects its first operand in registers or in staging memory, but got "
                         << (getA().empty() ? "neither" : "both");
  }
  if (!getAcc().empty() && getAcc().size() != getResults().size()) {
    return emitOpError() << "expects as many results as accumulators, but got " << getResults().size() << " and "
                         << getAcc().size();
  }
  if (getSwizzle() != 32 && getSwizzle() != 64 && getSwizzle() != 128) {
    return emitOpError() << "expects panels of 32, 64 or 128 bytes, but got " << getSwizzle();
  }
  return success();
}

LogicalResult GroupMmaWaitOp::verify() {
  if (getValues().getTypes() != getResultTypes()) {
    return emitOpError() << "expects a result for each value, but got " << getResults().size() << " for "
                         << getValues().size();
  }
  return success();
}
