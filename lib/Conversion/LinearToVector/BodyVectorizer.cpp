//===- BodyVectorizer.cpp - Element-wise code on vectors ------------------===//
#include "BodyVectorizer.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kvc;

Value kvc::loadLanes(ImplicitLocOpBuilder &b, Value memref, ValueRange indices, int64_t lanes, Value mask) {
  auto type = VectorType::get({lanes}, cast<MemRefType>(memref.getType()).getElementType());
  if (!mask) {
    return vector::LoadOp::create(b, type, memref, indices);
  }
  Value zero = arith::ConstantOp::create(b, b.getZeroAttr(type));
  return vector::MaskedLoadOp::create(b, type, memref, indices, mask, zero);
}

void kvc::storeLanes(ImplicitLocOpBuilder &b, Value vector, Value memref, ValueRange indices, Value mask) {
  if (mask) {
    vector::MaskedStoreOp::create(b, memref, indices, mask, vector);
  } else {
    vector::StoreOp::create(b, vector, memref, indices);
  }
}

Value kvc::firstLanes(ImplicitLocOpBuilder &b, int64_t lanes, Value count) {
  return vector::CreateMaskOp::create(b, VectorType::get({lanes}, b.getI1Type()), count);
}

bool kvc::hasUnitStride(Value memref) {
  auto type = cast<MemRefType>(memref.getType());
  SmallVector<int64_t> strides;
  int64_t offset;
  return succeeded(type.getStridesAndOffset(strides, offset)) && (strides.empty() || strides.back() == 1);
}

LogicalResult BodyVectorizer::analyze(Block &block, ArrayRef<Operation *> skip) {
  auto differs = [&](Value value) { return varying.contains(value); };
  for (Operation &op : block) {
    if (llvm::is_contained(skip, &op) || op.hasTrait<OpTrait::IsTerminator>()) {
      continue;
    }
    bool vary = llvm::any_of(op.getOperands(), differs);
    bool store = isa<memref::StoreOp>(op);
    if (auto load = dyn_cast<memref::LoadOp>(op); load && vary) {
      ValueRange indices = load.getIndices();
      if (indices.empty() || indices.back() != induction || llvm::any_of(indices.drop_back(), differs) ||
          !hasUnitStride(load.getMemRef())) {
        offender = &op;
        return failure();
      }
    } else if (store) {
      auto write = cast<memref::StoreOp>(op);
      ValueRange indices = write.getIndices();
      if (indices.empty() || indices.back() != induction || llvm::any_of(indices.drop_back(), differs) ||
          !hasUnitStride(write.getMemRef())) {
        offender = &op;
        return failure();
      }
    } else if (vary ? !OpTrait::hasElementwiseMappableTraits(&op) : op.getNumRegions() || !isMemoryEffectFree(&op)) {
      if (!isa<memref::LoadOp>(op)) {
        offender = &op;
        return failure();
      }
    }
    if (vary || store) {
      varying.insert_range(op.getResults());
      varyingOps.push_back(&op);
    } else {
      uniformOps.push_back(&op);
    }
  }
  return success();
}

void BodyVectorizer::emitUniform(OpBuilder &b, IRMapping &uniform) const {
  for (Operation *op : uniformOps) {
    b.clone(*op, uniform);
  }
}

Value BodyVectorizer::vectorOf(ImplicitLocOpBuilder &b, const IRMapping &uniform, IRMapping &vectors, Value value,
                               Value base) const {
  if (Value known = vectors.lookupOrNull(value)) {
    return known;
  }
  auto type = VectorType::get({lanes}, value.getType());
  if (value == induction) {
    Value start = vector::BroadcastOp::create(b, type, base);
    Value numbers = arith::AddIOp::create(b, start, vector::StepOp::create(b, type));
    vectors.map(value, numbers);
    return numbers;
  }
  Value all = vector::BroadcastOp::create(b, type, uniform.lookupOrDefault(value));
  vectors.map(value, all);
  return all;
}

void BodyVectorizer::emitVarying(ImplicitLocOpBuilder &b, const IRMapping &uniform, IRMapping &vectors, Value base,
                                 Value mask) const {
  auto at = [&](ValueRange indices) {
    SmallVector<Value> out;
    for (Value index : indices.drop_back()) {
      out.push_back(uniform.lookupOrDefault(index));
    }
    out.push_back(base);
    return out;
  };
  for (Operation *op : varyingOps) {
    if (auto load = dyn_cast<memref::LoadOp>(op)) {
      Value memref = uniform.lookupOrDefault(load.getMemRef());
      vectors.map(load.getResult(), loadLanes(b, memref, at(load.getIndices()), lanes, mask));
      continue;
    }
    if (auto store = dyn_cast<memref::StoreOp>(op)) {
      Value value = vectorOf(b, uniform, vectors, store.getValueToStore(), base);
      storeLanes(b, value, uniform.lookupOrDefault(store.getMemRef()), at(store.getIndices()), mask);
      continue;
    }
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      operands.push_back(vectorOf(b, uniform, vectors, operand, base));
    }
    SmallVector<Type> types;
    for (Type type : op->getResultTypes()) {
      types.push_back(VectorType::get({lanes}, type));
    }
    OperationState state(b.getLoc(), op->getName(), operands, types, op->getDiscardableAttrDictionary().getValue());
    state.propertiesAttr = op->getPropertiesAsAttribute();
    vectors.map(op->getResults(), b.create(state)->getResults());
  }
}
