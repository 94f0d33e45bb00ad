//===- KVCacheDialect.cpp - Registration of the kvcache dialect ----------===//
#include "kvc/Dialect/KVCache/IR/KVCache.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kvc::kvcache;

#include "KVCache/KVCacheDialect.cpp.inc"

void KVCacheDialect::initialize() {
  registerAttributes();
  registerTypes();
  addOperations<
#define GET_OP_LIST
#include "KVCache/KVCacheOps.cpp.inc"
      >();
}
