//===- TileOps.cpp - Verifiers of the tile dialect ------------------------===//
#include "kvc/Dialect/Tile/IR/Kernels.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kvc::tile;

static ParseResult parseSameTypes(OpAsmParser &parser, SmallVectorImpl<Type> &outputs, SmallVectorImpl<Type> &results) {
  if (parser.parseLParen()) {
    return failure();
  }
  if (failed(parser.parseOptionalRParen()) && (parser.parseTypeList(outputs) || parser.parseRParen())) {
    return failure();
  }
  results.assign(outputs.begin(), outputs.end());
  return success();
}

static void printSameTypes(OpAsmPrinter &printer, Operation *, TypeRange outputs, TypeRange) {
  printer << '(' << outputs << ')';
}

LogicalResult DispatchOp::verify() {
  // C1
  if (getOutputs().getTypes() != getResults().getTypes()) {
    return emitOpError() << "expects results of the types of its outputs, but got " << getResults().getTypes();
  }
  return success();
}

/// Arguments of a lowered kernel for one operand (docs/contracts/kernel-abi.md).
static size_t kernelArrays(Type type) {
  return llvm::TypeSwitch<Type, size_t>(type)
      .Case<kvc::kvcache::CacheType>([](auto) { return 6; })
      .Case<kvc::kvcache::BatchType>([](auto) { return 3; })
      .Case<kvc::kvcache::SelectionType>([](auto) { return 2; })
      .Default([](Type) { return 1; });
}

LogicalResult DispatchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel = symbols.lookupNearestSymbolFrom<func::FuncOp>(*this, getKernelAttr());
  // C2
  if (!kernel || !isKernel(kernel)) {
    return emitOpError() << "expects the name of a function with the attribute " << TileDialect::kernelAttr
                         << ", but got " << getKernelAttr();
  }
  // C3: operands as they are, or as the arrays that a lowered kernel takes for them.
  size_t operands = 1, arrays = 1;
  for (Value operand : llvm::concat<const Value>(getInputs(), getOutputs())) {
    operands += 1;
    arrays += kernelArrays(operand.getType());
  }
  if (kernel.getNumArguments() != operands && kernel.getNumArguments() != arrays) {
    return emitOpError() << "expects a kernel of " << operands << " arguments (inputs, outputs, item), or " << arrays
                         << " once lowered, but got " << kernel.getNumArguments();
  }
  return success();
}

LogicalResult MmaOp::verify() {
  VectorType a = getA().getType(), result = getResult().getType();
  OperandType b = getB().getType();
  bool channels = getContract() == Contract::Channels;
  int64_t inner = channels ? b.getChannels() : b.getSlots(), outer = channels ? b.getSlots() : b.getChannels();
  // C1
  if (a.getDimSize(1) != inner || result.getDimSize(0) != a.getDimSize(0) || result.getDimSize(1) != outer) {
    return emitOpError() << "expects " << a.getDimSize(0) << " x " << inner << " times an operand to give "
                         << a.getDimSize(0) << " x " << outer << ", but got " << a << " and " << result;
  }
  // C2
  if (getAcc() && getAcc().getType() != result) {
    return emitOpError() << "expects an accumulator of type " << result << ", but got " << getAcc().getType();
  }
  return success();
}

LogicalResult SoftmaxStepOp::verify() {
  // C1
  if (getVisible().getType().getShape() != getScores().getType().getShape() ||
      getMax().getType().getDimSize(0) != getScores().getType().getDimSize(0) ||
      getAcc().getType().getDimSize(0) != getScores().getType().getDimSize(0)) {
    return emitOpError() << "expects scores, visibility and state of the same rows and slots, but got ("
                         << getOperandTypes() << ")";
  }
  return success();
}

LogicalResult SoftmaxFinishOp::verify() {
  // C1
  if (getMax().getType().getDimSize(0) != getAcc().getType().getDimSize(0)) {
    return emitOpError() << "expects a state of the same rows, but got (" << getOperandTypes() << ")";
  }
  return success();
}

#define GET_OP_CLASSES
#include "Tile/TileOps.cpp.inc"
