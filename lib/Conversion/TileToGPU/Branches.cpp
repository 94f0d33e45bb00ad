//===- Branches.cpp - Values that depend on a condition -------------------===//
#include "Branches.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;
using namespace kvc;

SmallVector<Value> kvc::ifElse(ImplicitLocOpBuilder &b, TypeRange types, Value condition, MakeValues yes,
                               MakeValues no) {
  auto branch = scf::IfOp::create(b, types, condition, /*withElseRegion=*/true);
  auto first = ImplicitLocOpBuilder::atBlockBegin(b.getLoc(), branch.thenBlock());
  scf::YieldOp::create(first, yes(first));
  auto second = ImplicitLocOpBuilder::atBlockBegin(b.getLoc(), branch.elseBlock());
  scf::YieldOp::create(second, no(second));
  return SmallVector<Value>(ValueRange(branch.getResults()));
}

SmallVector<Value> kvc::anyValues(ImplicitLocOpBuilder &b, TypeRange types) {
  return llvm::map_to_vector(types, [&](Type type) -> Value { return ub::PoisonOp::create(b, type); });
}

Value kvc::loadIf(ImplicitLocOpBuilder &b, Value valid, Value memory, Value at, int64_t bytes) {
  auto type = VectorType::get({bytes}, b.getI8Type());
  auto load = [&](ImplicitLocOpBuilder &b) {
    return vector::LoadOp::create(b, type, memory, at, /*nontemporal=*/false, llvm::MaybeAlign(bytes)).getResult();
  };
  if (!valid) {
    return load(b);
  }
  auto zeros = [&](ImplicitLocOpBuilder &b) {
    return SmallVector<Value>{arith::ConstantOp::create(b, b.getZeroAttr(type))};
  };
  return ifElse(b, type, valid, [&](ImplicitLocOpBuilder &b) { return SmallVector<Value>{load(b)}; }, zeros).front();
}

Value kvc::orZeros(ImplicitLocOpBuilder &b, Value condition, Value value) {
  Value zeros = arith::ConstantOp::create(b, b.getZeroAttr(value.getType()));
  return arith::SelectOp::create(b, condition, value, zeros);
}
