//===- ScoreRegion.cpp - A score region on a tile of scores ---------------===//
#include "ScoreRegion.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;

namespace {
/// Makes tiles of what the region speaks of.
struct TileMaker {
  ImplicitLocOpBuilder &b;
  const ScoreTile &tile;

  VectorType type(Type element) const { return VectorType::get({tile.rows, tile.slots}, element); }

  Value splat(double value) const {
    return arith::ConstantOp::create(b, DenseElementsAttr::get(type(b.getF32Type()), b.getF32FloatAttr(value)));
  }

  /// i32 positions of rows or slots as a tile of index values.
  Value positions(Value words, bool ofRows) const {
    auto vector = cast<VectorType>(words.getType());
    Value index = arith::IndexCastOp::create(b, VectorType::get(vector.getShape(), b.getIndexType()), words);
    return ofRows ? alongColumns(index) : vector::BroadcastOp::create(b, type(b.getIndexType()), index).getResult();
  }

  Value alongColumns(Value rows) const {
    Type element = cast<VectorType>(rows.getType()).getElementType();
    Value column = vector::ShapeCastOp::create(b, VectorType::get({tile.rows, 1}, element), rows);
    return vector::BroadcastOp::create(b, type(element), column);
  }

  /// Query heads: row m has head firstHead + m % group.
  Value heads() const {
    auto rowType = VectorType::get({tile.rows}, b.getIndexType());
    SmallVector<int64_t> numbers;
    for (int64_t m = 0; m < tile.rows; ++m) {
      numbers.push_back(m % tile.group);
    }
    Value inGroup = arith::ConstantOp::create(b, DenseIntElementsAttr::get(rowType, numbers));
    Value first = vector::BroadcastOp::create(b, rowType, tile.firstHead);
    return alongColumns(arith::AddIOp::create(b, inGroup, first));
  }
};
} // namespace

/// cap * tanh(score / cap).
static Value inlineSoftCap(SoftCapOp op, const TileMaker &make, Value score) {
  double cap = op.getCap().convertToFloat();
  ImplicitLocOpBuilder &b = make.b;
  Value inner = arith::MulFOp::create(b, score, make.splat(1.0 / cap));
  return arith::MulFOp::create(b, math::TanhOp::create(b, inner), make.splat(cap));
}

/// score - 2^(-8 (head + 1) / heads) * (query position - key position).
static Value inlineAlibi(AlibiOp op, const TileMaker &make, const IRMapping &map) {
  ImplicitLocOpBuilder &b = make.b;
  auto toF32 = [&](Value index) {
    Value word = arith::IndexCastOp::create(b, make.type(b.getI32Type()), index);
    return arith::SIToFPOp::create(b, make.type(b.getF32Type()), word).getResult();
  };
  double step = -8.0 / static_cast<double>(op.getHeads());
  Value exponent = arith::MulFOp::create(b, toF32(map.lookup(op.getHead())), make.splat(step));
  exponent = arith::AddFOp::create(b, exponent, make.splat(step));
  Value slope = math::Exp2Op::create(b, exponent);
  Value distance = toF32(arith::SubIOp::create(b, map.lookup(op.getQueryPosition()), map.lookup(op.getKeyPosition())));
  return arith::SubFOp::create(b, map.lookup(op.getScore()), arith::MulFOp::create(b, slope, distance));
}

Value kvc::inlineScoreRegion(ImplicitLocOpBuilder &b, Region &region, const ScoreTile &tile) {
  TileMaker make{b, tile};
  Block &block = region.front();
  IRMapping map;
  map.map(block.getArgument(0), tile.scores);
  auto argument = [&](unsigned i, llvm::function_ref<Value()> value) {
    if (!block.getArgument(i).use_empty()) {
      map.map(block.getArgument(i), value());
    }
  };
  argument(1, [&] { return vector::BroadcastOp::create(b, make.type(b.getIndexType()), tile.entry).getResult(); });
  argument(2, [&] { return make.heads(); });
  argument(3, [&] { return make.positions(tile.rowPositions, /*ofRows=*/true); });
  argument(4, [&] { return make.positions(tile.slotPositions, /*ofRows=*/false); });
  for (auto [i, capture] : llvm::enumerate(tile.captures)) {
    argument(5 + i, [&] { return vector::BroadcastOp::create(b, make.type(capture.getType()), capture).getResult(); });
  }
  for (Operation &op : block) {
    if (auto yield = dyn_cast<YieldOp>(op)) {
      return map.lookup(yield.getScore());
    }
    if (auto cap = dyn_cast<SoftCapOp>(op)) {
      map.map(cap.getResult(), inlineSoftCap(cap, make, map.lookup(cap.getScore())));
      continue;
    }
    if (auto alibi = dyn_cast<AlibiOp>(op)) {
      map.map(alibi.getResult(), inlineAlibi(alibi, make, map));
      continue;
    }
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      auto type = make.type(constant.getType());
      map.map(constant.getResult(), arith::ConstantOp::create(b, DenseElementsAttr::get(type, constant.getValue())));
      continue;
    }
    // Element-wise ops take tiles as they take scalars.
    OperationState state(op.getLoc(), op.getName());
    for (Value operand : op.getOperands()) {
      state.addOperands(map.lookup(operand));
    }
    for (Type type : op.getResultTypes()) {
      state.addTypes(make.type(type));
    }
    state.addAttributes(op.getAttrs());
    map.map(op.getResults(), b.create(state)->getResults());
  }
  llvm_unreachable("the verifier wants a yield");
}
