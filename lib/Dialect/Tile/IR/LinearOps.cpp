//===- LinearOps.cpp - Verifiers of the operations on weights -------------===//
#include "kvc/Dialect/Tile/IR/Tile.h"

#include "gguf/BlockFormats.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace kvc::tile;

/// C1: the memory of a weight has the type that its encoding and the number of values of a row define.
static LogicalResult verifyWeight(Operation *op, MemRefType type, StringRef encoding, int64_t values) {
  const kvc::gguf::BlockFormat *format = nullptr;
  for (const kvc::gguf::BlockFormat &row : kvc::gguf::blockFormats()) {
    if (row.decodeBlock && StringRef(row.encoding) == encoding) {
      format = &row;
    }
  }
  if (!format) {
    return op->emitOpError() << "expects an encoding that can be decoded, but got '" << encoding << "'";
  }
  if (ShapedType::isDynamic(values) || values % format->valuesPerBlock) {
    return op->emitOpError() << "expects a static number of values in a row, a multiple of " << format->valuesPerBlock
                             << " for '" << encoding << "', but got " << values;
  }
  bool plain = encoding == "f32";
  int64_t want = plain ? values : values / format->valuesPerBlock * format->bytesPerBlock;
  if (!type.hasStaticShape() || type.getDimSize(1) != want || type.getElementType().isF32() != plain) {
    return op->emitOpError() << "expects a weight of type memref<Nx" << want << (plain ? "xf32" : "xi8")
                             << "> for rows of " << values << " values in '" << encoding << "', but got " << type;
  }
  return success();
}

LogicalResult LinearOp::verify() {
  // C2
  if (getWeights().empty() || getWeights().size() != getEncodings().size()) {
    return emitOpError() << "expects one encoding for each of one or more weights, but got " << getWeights().size()
                         << " weights and " << getEncodings().size() << " encodings";
  }
  for (auto [weight, encoding] : llvm::zip_equal(getWeights(), getEncodings())) {
    auto type = cast<MemRefType>(weight.getType());
    if (failed(verifyWeight(*this, type, cast<StringAttr>(encoding).getValue(), getInner()))) {
      return failure();
    }
    // C3
    if (type.getDimSize(0) != getColumns()) {
      return emitOpError() << "expects weights of the same number of rows, but got " << getWeights().getTypes();
    }
  }
  return success();
}

LogicalResult LinearOp::verifyRegions() {
  Block &block = getBody().front();
  SmallVector<Type> want(2, IndexType::get(getContext()));
  want.append(getWeights().size(), Float32Type::get(getContext()));
  // C4
  if (TypeRange(block.getArgumentTypes()) != TypeRange(want)) {
    return emitOpError() << "expects a region with arguments (" << want << "), but got (" << block.getArgumentTypes()
                         << ")";
  }
  for (Operation &op : block) {
    // C5
    if (!isa<memref::LoadOp, memref::StoreOp>(op) && !op.hasTrait<OpTrait::ConstantLike>() &&
        !OpTrait::hasElementwiseMappableTraits(&op)) {
      return op.emitOpError() << "expects to be element-wise, a load or a store inside tile.linear";
    }
  }
  return success();
}

LogicalResult DecodeRowOp::verify() {
  return verifyWeight(*this, cast<MemRefType>(getWeight().getType()), getEncoding(),
                      getTarget().getType().getDimSize(0));
}
