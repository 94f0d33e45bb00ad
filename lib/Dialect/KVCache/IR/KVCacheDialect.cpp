//===- KVCacheDialect.cpp - Registration of the kvcache dialect ----------===//
#include "kvc/Dialect/KVCache/IR/KVCache.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpAsmSupport.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kvc::kvcache;

#include "KVCache/KVCacheDialect.cpp.inc"

namespace {
/// Names for what a module repeats: every layer of a model has the same cache type and rotation.
struct AliasInterface : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;

  AliasResult getAlias(Type type, llvm::raw_ostream &os) const override {
    return TypeSwitch<Type, AliasResult>(type)
        .Case([&](CacheType) {
          os << "kv";
          return AliasResult::FinalAlias;
        })
        .Default(AliasResult::NoAlias);
  }
  AliasResult getAlias(Attribute attr, llvm::raw_ostream &os) const override {
    auto rope = dyn_cast<RopeAttr>(attr);
    if (!rope || rope.isSite()) {
      return AliasResult::NoAlias;
    }
    os << "rope";
    return AliasResult::FinalAlias;
  }
};
} // namespace

void KVCacheDialect::initialize() {
  addInterfaces<AliasInterface>();
  registerAttributes();
  registerTypes();
  addOperations<
#define GET_OP_LIST
#include "KVCache/KVCacheOps.cpp.inc"
      >();
}
