//===- SoftmaxState.cpp - Building the state of online attention ---------===//
#include "SoftmaxState.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include <limits>

using namespace mlir;
using namespace kvc::kvcache;
using namespace kvc::kvcache::op_detail;

static constexpr float infinity = std::numeric_limits<float>::infinity();

static Value constant(OpBuilder &b, Location loc, float value) {
  return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(value));
}

Value op_detail::filled(OpBuilder &b, Location loc, ArrayRef<OpFoldResult> sizes, float value) {
  Value empty = tensor::EmptyOp::create(b, loc, sizes, b.getF32Type());
  return linalg::FillOp::create(b, loc, ValueRange{constant(b, loc, value)}, ValueRange{empty}).getResult(0);
}

SoftmaxState op_detail::emptyState(OpBuilder &b, Location loc, ArrayRef<OpFoldResult> sizes) {
  ArrayRef<OpFoldResult> perHead = sizes.drop_back();
  return {filled(b, loc, sizes, 0.0f), filled(b, loc, perHead, -infinity), filled(b, loc, perHead, 0.0f)};
}

/// `select(value == match, other, computed)`.
static Value unless(OpBuilder &b, Location loc, Value value, float match, float other, Value computed) {
  Value is = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, value, constant(b, loc, match));
  return arith::SelectOp::create(b, loc, is, constant(b, loc, other), computed);
}

/// exp(from - to): what a state with maximum `from` weighs once the maximum is `to`; 0 for a state without keys.
static Value weight(OpBuilder &b, Location loc, Value from, Value to) {
  Value difference = arith::SubFOp::create(b, loc, from, to);
  return unless(b, loc, from, -infinity, 0.0f, math::ExpOp::create(b, loc, difference));
}

using Body = llvm::function_ref<Value(OpBuilder &, Location, ValueRange)>;

/// One linalg.generic with one result of the type of `init`. A map names the loop of each dimension of an operand.
static Value generic(OpBuilder &b, Location loc, ArrayRef<utils::IteratorType> iterators, ValueRange inputs, Value init,
                     ArrayRef<SmallVector<unsigned>> loops, Body body, SmallVectorImpl<Operation *> *ops = nullptr) {
  SmallVector<AffineMap> maps;
  for (const SmallVector<unsigned> &dims : loops) {
    maps.push_back(AffineMap::getMultiDimMapWithTargets(iterators.size(), dims, b.getContext()));
  }
  auto op = linalg::GenericOp::create(b, loc, TypeRange{init.getType()}, inputs, ValueRange{init}, maps, iterators,
                                      [&](OpBuilder &inner, Location at, ValueRange args) {
                                        linalg::YieldOp::create(inner, at, body(inner, at, args));
                                      });
  if (ops) {
    ops->push_back(op);
  }
  return op.getResult(0);
}

static constexpr auto parallel = utils::IteratorType::parallel;
static constexpr auto reduction = utils::IteratorType::reduction;

SoftmaxState op_detail::mergeStates(OpBuilder &b, Location loc, const SoftmaxState &state, const SoftmaxState &partial,
                                    SmallVectorImpl<Operation *> &ops) {
  SoftmaxState merged;
  // Loops: the split, rows, heads, channels.
  merged.max = generic(
      b, loc, {reduction, parallel, parallel}, {partial.max}, state.max, {{0, 1, 2}, {1, 2}},
      [](OpBuilder &b, Location loc, ValueRange args) -> Value {
        return arith::MaximumFOp::create(b, loc, args[0], args[1]);
      },
      &ops);
  auto rescale = [](OpBuilder &b, Location loc, ValueRange args) -> Value { // args: from, to, value
    return arith::MulFOp::create(b, loc, weight(b, loc, args[0], args[1]), args[2]);
  };
  auto add = [&](OpBuilder &b, Location loc, ValueRange args) -> Value { // args: value, from, to, total
    Value scaled = arith::MulFOp::create(b, loc, weight(b, loc, args[1], args[2]), args[0]);
    return arith::AddFOp::create(b, loc, args[3], scaled);
  };
  Value sum = generic(b, loc, {parallel, parallel}, {state.max, merged.max}, state.sum, {{0, 1}, {0, 1}, {0, 1}},
                      rescale, &ops);
  Value acc = generic(b, loc, {parallel, parallel, parallel}, {state.max, merged.max}, state.acc,
                      {{0, 1}, {0, 1}, {0, 1, 2}}, rescale, &ops);
  merged.sum = generic(b, loc, {reduction, parallel, parallel}, {partial.sum, partial.max, merged.max}, sum,
                       {{0, 1, 2}, {0, 1, 2}, {1, 2}, {1, 2}}, add, &ops);
  merged.acc = generic(b, loc, {reduction, parallel, parallel, parallel}, {partial.acc, partial.max, merged.max}, acc,
                       {{0, 1, 2, 3}, {0, 1, 2}, {1, 2}, {1, 2, 3}}, add, &ops);
  return merged;
}

SoftmaxState op_detail::joinSinks(OpBuilder &b, Location loc, const SoftmaxState &state, Value logits) {
  SoftmaxState joined;
  joined.max = generic(b, loc, {parallel, parallel}, {logits}, state.max, {{1}, {0, 1}},
                       [](OpBuilder &b, Location loc, ValueRange args) -> Value {
                         Value larger = arith::MaximumFOp::create(b, loc, args[0], args[1]);
                         return unless(b, loc, args[1], -infinity, -infinity, larger);
                       });
  joined.sum = generic(b, loc, {parallel, parallel}, {logits, state.max, joined.max}, state.sum,
                       {{1}, {0, 1}, {0, 1}, {0, 1}}, [](OpBuilder &b, Location loc, ValueRange args) -> Value {
                         Value seen = arith::MulFOp::create(b, loc, weight(b, loc, args[1], args[2]), args[3]);
                         Value total = arith::AddFOp::create(b, loc, seen, weight(b, loc, args[0], args[2]));
                         return unless(b, loc, args[1], -infinity, 0.0f, total);
                       });
  joined.acc = generic(b, loc, {parallel, parallel, parallel}, {state.max, joined.max}, state.acc,
                       {{0, 1}, {0, 1}, {0, 1, 2}}, [](OpBuilder &b, Location loc, ValueRange args) -> Value {
                         return arith::MulFOp::create(b, loc, weight(b, loc, args[0], args[1]), args[2]);
                       });
  return joined;
}

static Value emptyLike(OpBuilder &b, Location loc, Value value) {
  return tensor::EmptyOp::create(b, loc, tensor::getMixedSizes(b, loc, value), b.getF32Type());
}

Value op_detail::finishOut(OpBuilder &b, Location loc, const SoftmaxState &state) {
  return generic(b, loc, {parallel, parallel, parallel}, {state.acc, state.sum}, emptyLike(b, loc, state.acc),
                 {{0, 1, 2}, {0, 1}, {0, 1, 2}}, [](OpBuilder &b, Location loc, ValueRange args) -> Value {
                   Value quotient = arith::DivFOp::create(b, loc, args[0], args[1]);
                   return unless(b, loc, args[1], 0.0f, 0.0f, quotient);
                 });
}

Value op_detail::finishLse(OpBuilder &b, Location loc, const SoftmaxState &state) {
  return generic(b, loc, {parallel, parallel}, {state.max, state.sum}, emptyLike(b, loc, state.max),
                 {{0, 1}, {0, 1}, {0, 1}}, [](OpBuilder &b, Location loc, ValueRange args) -> Value {
                   Value log = math::LogOp::create(b, loc, args[1]);
                   return unless(b, loc, args[1], 0.0f, -infinity, arith::AddFOp::create(b, loc, args[0], log));
                 });
}
