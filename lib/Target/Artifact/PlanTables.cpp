//===- PlanTables.cpp - What functions of a plan share --------------------===//
#include "Plan.h"

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;

uint32_t plan::Tables::specOf(CacheType type) {
  auto found = llvm::find(caches, type);
  uint32_t index = found - caches.begin();
  if (found == caches.end()) {
    caches.push_back(type);
  }
  return index;
}

uint32_t plan::Tables::constantOf(std::string bytes) {
  auto found = llvm::find(constants, bytes);
  uint32_t index = found - constants.begin();
  if (found == constants.end()) {
    constants.push_back(std::move(bytes));
  }
  return index;
}

FailureOr<fb::DType> plan::dtypeOf(Operation *op, Type type) {
  using D = fb::DType;
  if (auto integer = dyn_cast<IntegerType>(type)) {
    switch (integer.getWidth()) {
    case 1:
      return D::i1;
    case 8:
      return integer.isUnsigned() ? D::u8 : D::i8;
    case 16:
      return D::i16;
    case 32:
      return D::i32;
    case 64:
      return D::i64;
    default:
      break;
    }
  }
  if (type.isF16()) {
    return D::f16;
  }
  if (type.isBF16()) {
    return D::bf16;
  }
  if (type.isF32()) {
    return D::f32;
  }
  if (type.isF64()) {
    return D::f64;
  }
  return op->emitOpError() << "expects elements that an artifact can hold, but got " << type;
}

std::string plan::bytesOf(DenseElementsAttr elements) {
  std::string bytes;
  if (elements.getElementType().isInteger(1)) {
    for (bool element : elements.getValues<bool>()) {
      bytes.push_back(element);
    }
    return bytes;
  }
  ArrayRef<char> raw = elements.getRawData();
  int64_t copies = elements.isSplat() ? elements.getNumElements() : 1;
  for (int64_t i = 0; i < copies; ++i) {
    bytes.append(raw.begin(), raw.end());
  }
  return bytes;
}
