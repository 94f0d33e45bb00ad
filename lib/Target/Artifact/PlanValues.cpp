//===- PlanValues.cpp - Values and numbers of a plan ----------------------===//
#include "PlanValues.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;
using kvc::plan::Values;

uint32_t Values::add(plan::Value value) {
  out.values.push_back(std::move(value));
  return out.values.size() - 1;
}

std::vector<plan::Dim> Values::dimsOf(ShapedType type, ArrayRef<int32_t> sizes) {
  std::vector<Dim> dims;
  for (int64_t size : type.getShape()) {
    if (ShapedType::isDynamic(size)) {
      dims.push_back({-1, sizes.front()});
      sizes = sizes.drop_front();
    } else {
      dims.push_back({size, -1});
    }
  }
  return dims;
}

LogicalResult Values::addArgument(BlockArgument argument) {
  Type type = argument.getType();
  plan::Value value;
  if (auto tensor = dyn_cast<RankedTensorType>(type)) {
    FailureOr<fb::DType> dtype = plan::dtypeOf(function, tensor.getElementType());
    if (failed(dtype)) {
      return failure();
    }
    value.dtype = *dtype;
    value.dims = dimsOf(tensor, SmallVector<int32_t>(tensor.getRank(), -1));
    value.source = fb::TensorSource::argument;
  } else if (auto cache = dyn_cast<CacheType>(type)) {
    value.kind = fb::ValueType::Cache;
    value.spec = tables.specOf(cache);
  } else if (isa<BatchType>(type)) {
    value.kind = fb::ValueType::Batch;
  } else if (type.isIndex() || type.isInteger(64) || type.isInteger(32) || type.isF32()) {
    value.kind = fb::ValueType::Scalar;
    value.dtype = type.isF32() ? fb::DType::f32 : type.isInteger(32) ? fb::DType::i32 : fb::DType::i64;
  } else {
    return function.emitOpError() << "expects tensors, caches, batches, index, i32, i64 and f32 as arguments of a "
                                     "host function, but got "
                                  << type << " for argument " << argument.getArgNumber();
  }
  uint32_t index = add(value);
  values[argument] = index;
  auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "kvcache.name");
  out.arguments.push_back({name ? name.str() : "", index, text(type)});
  return success();
}

std::string Values::text(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

FailureOr<uint32_t> Values::valueOf(Operation *user, mlir::Value v) {
  if (auto found = values.find(v); found != values.end()) {
    return found->second;
  }
  if (v.getType().isIndex() || v.getType().isInteger(64) || v.getType().isInteger(32)) {
    FailureOr<int32_t> node = exprOf(user, v);
    if (failed(node)) {
      return failure();
    }
    plan::Value scalar;
    scalar.kind = fb::ValueType::Scalar;
    scalar.dtype = v.getType().isInteger(32) ? fb::DType::i32 : fb::DType::i64;
    scalar.expr = *node;
    return values[v] = add(scalar);
  }
  return user->emitOpError() << "uses a value of type " << v.getType() << " that a plan cannot hold";
}

FailureOr<uint32_t> Values::addView(Operation *op, mlir::Value source, int32_t offset) {
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  FailureOr<uint32_t> base = valueOf(op, source);
  FailureOr<fb::DType> dtype = plan::dtypeOf(op, type.getElementType());
  if (failed(base) || failed(dtype)) {
    return failure();
  }
  SmallVector<int32_t> sizes;
  for (int64_t axis = 0; axis < type.getRank(); ++axis) {
    if (type.isDynamicDim(axis)) {
      FailureOr<int32_t> size = sizeOfView(op, axis);
      if (failed(size)) {
        return failure();
      }
      sizes.push_back(*size);
    }
  }
  plan::Value view;
  view.dtype = *dtype;
  view.dims = dimsOf(type, sizes);
  view.source = fb::TensorSource::view;
  view.base = *base;
  view.offset = offset;
  return values[op->getResult(0)] = add(view);
}

FailureOr<int32_t> Values::sizeOfView(Operation *op, int64_t axis) {
  return TypeSwitch<Operation *, FailureOr<int32_t>>(op)
      .Case([&](tensor::CastOp cast) { return dim(cast.getSource(), axis); })
      .Case([&](tensor::ExpandShapeOp expand) { return exprOf(op, expand.getMixedOutputShape()[axis]); })
      .Case([&](tensor::CollapseShapeOp collapse) -> FailureOr<int32_t> {
        int32_t product = constant(1);
        for (int64_t source : collapse.getReassociationIndices()[axis]) {
          product = node(fb::ExprOp::mul, product, *dim(collapse.getSrc(), source));
        }
        return product;
      })
      .Case([&](tensor::ExtractSliceOp slice) { return exprOf(op, slice.getMixedSizes()[axis]); })
      .Default([](Operation *op) { return op->emitOpError() << "is not a view that a plan can hold"; });
}

int32_t Values::node(fb::ExprOp op, int32_t a, int32_t b, int64_t value) {
  plan::Expr expr{op, a, b, value};
  auto found = llvm::find(out.exprs, expr);
  // max_length changes between steps: each stands for its own moment.
  if (found != out.exprs.end() && op != fb::ExprOp::max_length) {
    return found - out.exprs.begin();
  }
  out.exprs.push_back(expr);
  return out.exprs.size() - 1;
}

FailureOr<int32_t> Values::dim(mlir::Value tensor, int64_t axis) {
  auto type = cast<RankedTensorType>(tensor.getType());
  if (!type.isDynamicDim(axis)) {
    return constant(type.getDimSize(axis));
  }
  return node(fb::ExprOp::dim, values.find(tensor)->second, axis);
}

FailureOr<int32_t> Values::exprOf(Operation *user, OpFoldResult value) {
  if (auto attr = dyn_cast<Attribute>(value)) {
    return constant(cast<IntegerAttr>(attr).getInt());
  }
  return exprOf(user, cast<mlir::Value>(value));
}

FailureOr<int32_t> Values::exprOf(Operation *user, mlir::Value value) {
  if (auto found = exprs.find(value); found != exprs.end()) {
    return found->second;
  }
  if (auto found = values.find(value); found != values.end() && !value.getType().isF32()) {
    return exprs[value] = node(fb::ExprOp::scalar, found->second, -1);
  }
  return user->emitOpError() << "uses a number that a plan cannot compute";
}

void Values::collectMoments(int32_t root, SmallVectorImpl<int32_t> &moments) {
  const plan::Expr &expr = out.exprs[root];
  switch (expr.op) {
  case fb::ExprOp::add:
  case fb::ExprOp::sub:
  case fb::ExprOp::mul:
  case fb::ExprOp::ceildiv:
  case fb::ExprOp::floordiv:
  case fb::ExprOp::min:
  case fb::ExprOp::max:
    collectMoments(expr.a, moments);
    collectMoments(expr.b, moments);
    break;
  case fb::ExprOp::element:
    collectMoments(expr.b, moments);
    break;
  case fb::ExprOp::scalar:
    if (out.values[expr.a].expr >= 0) {
      collectMoments(out.values[expr.a].expr, moments);
    }
    break;
  case fb::ExprOp::dim:
    if (!bound.contains(expr.a) && out.values[expr.a].dims[expr.b].expr >= 0) {
      collectMoments(out.values[expr.a].dims[expr.b].expr, moments);
    }
    break;
  case fb::ExprOp::max_length:
    moments.push_back(root);
    break;
  default:
    break;
  }
}

LogicalResult Values::checkMoments(Operation *op, int32_t root, bool isUse) {
  SmallVector<int32_t> moments;
  collectMoments(root, moments);
  for (int32_t moment : moments) {
    if (isUse) {
      lastUse[out.exprs[moment].a] = out.steps.size();
    }
    if (momentOf.lookup(moment) < lastUpdate.lookup(out.exprs[moment].a)) {
      return op->emitOpError() << "uses a tile.max_length of a cache that a step in between has changed: expects the "
                                  "first use of the size before the change";
    }
  }
  return success();
}

bool Values::isVisible(uint32_t value) const {
  return out.values[value].source == fb::TensorSource::argument ||
         out.values[value].source == fb::TensorSource::constant;
}

uint32_t Values::rootOf(uint32_t value) const {
  while (out.values[value].kind == fb::ValueType::Tensor && out.values[value].source == fb::TensorSource::view) {
    value = out.values[value].base;
  }
  return value;
}
