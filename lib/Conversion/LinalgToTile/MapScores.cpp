//===- MapScores.cpp - Arithmetic on scores as linalg ---------------------===//
#include "MapScores.h"

#include "kvc/Dialect/KVCache/IR/KVCache.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include <limits>

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;

/// The body of the generic op: the region over scalars, and -inf where an operand is.
static void buildBody(MapScoresOp op, OpBuilder &b, Location loc, ValueRange arguments) {
  IRMapping map;
  Block &body = op.getBody().front();
  map.map(body.getArguments(), arguments.drop_back());
  Value score;
  for (Operation &inner : body) {
    if (auto yield = dyn_cast<YieldOp>(inner)) {
      score = map.lookup(yield.getScore());
      continue;
    }
    if (auto softCap = dyn_cast<SoftCapOp>(inner)) {
      Value cap = arith::ConstantOp::create(b, loc, softCap.getCapAttr());
      Value ratio = arith::DivFOp::create(b, loc, map.lookup(softCap.getScore()), cap);
      map.map(softCap.getResult(), arith::MulFOp::create(b, loc, cap, math::TanhOp::create(b, loc, ratio)).getResult());
      continue;
    }
    b.clone(inner, map);
  }
  Value minusInfinity = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(-std::numeric_limits<float>::infinity()));
  for (Value argument : arguments.drop_back()) {
    Value exists = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, argument, minusInfinity);
    score = arith::SelectOp::create(b, loc, exists, score, minusInfinity);
  }
  linalg::YieldOp::create(b, loc, score);
}

void kvc::generalizeMapScores(func::FuncOp function) {
  function.walk([](MapScoresOp op) {
    OpBuilder b(op);
    auto type = dyn_cast<RankedTensorType>(op.getResult().getType());
    if (!type) {
      return; // memory: refused as other operations without a lowering are
    }
    SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, op.getLoc(), op.getInputs()[0]);
    Value init = tensor::EmptyOp::create(b, op.getLoc(), sizes, type.getElementType());
    SmallVector<AffineMap> maps(op.getInputs().size() + 1, b.getMultiDimIdentityMap(type.getRank()));
    SmallVector<utils::IteratorType> iterators(type.getRank(), utils::IteratorType::parallel);
    auto generic = linalg::GenericOp::create(
        b, op.getLoc(), TypeRange{type}, op.getInputs(), ValueRange{init}, maps, iterators,
        [&](OpBuilder &inner, Location loc, ValueRange arguments) { buildBody(op, inner, loc, arguments); });
    op.replaceAllUsesWith(generic.getResult(0));
    op.erase();
  });
}
