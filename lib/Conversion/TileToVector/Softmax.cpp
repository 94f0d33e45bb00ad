//===- Softmax.cpp - The online softmax on tiles in memory ----------------===//
#include "TileEmitter.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace kvc;

/// The maximum that probabilities are relative to may lag behind the true one by this many powers of two: the
/// accumulator is rescaled only when it grows by more.
static constexpr float lazyRescale = 8.0f;

/// Combines lane blocks pairwise.
static Value tree(ImplicitLocOpBuilder &b, SmallVector<Value> parts, llvm::function_ref<Value(Value, Value)> combine) {
  while (parts.size() > 1) {
    SmallVector<Value> next;
    for (size_t i = 0; i + 1 < parts.size(); i += 2) {
      next.push_back(combine(parts[i], parts[i + 1]));
    }
    if (parts.size() % 2) {
      next.push_back(parts.back());
    }
    parts = next;
  }
  return parts[0];
}

void TileEmitter::emitSoftmaxStep(tile::SoftmaxStepOp op) {
  Builder b(op.getLoc(), op);
  VectorType scores = op.getScores().getType();
  int64_t rows = scores.getDimSize(0), slots = scores.getDimSize(1);
  int64_t channels = op.getAcc().getType().getDimSize(1);
  Value max = materialize(b, op.getMax()), sum = materialize(b, op.getSum()), acc = materialize(b, op.getAcc());
  Value probs = allocate({rows, padded(slots)}, b.getF32Type());
  setBuffer(op.getProbs(), probs);
  Value pairBuffer = wantsPairs(op.getProbs()) ? allocatePairs(op.getProbs()) : Value();
  setBuffer(op.getNewMax(), max);
  setBuffer(op.getNewSum(), sum);
  setBuffer(op.getNewAcc(), acc);

  VectorType lane = laneType(b.getF32Type());
  forRows(b, rows, [&](Builder &b, Value row) {
    Value minusInf = floatOf(b, -std::numeric_limits<float>::infinity()), zero = floatOf(b, 0.0f);
    Value laneInf = vector::BroadcastOp::create(b, lane, minusInf),
          laneZero = vector::BroadcastOp::create(b, lane, zero);
    SmallVector<Value> score, visible, masked;
    for (int64_t block = 0; block < blocksOf(slots); ++block) {
      score.push_back(pull(b, op.getScores(), row, block));
      visible.push_back(pull(b, op.getVisible(), row, block));
      masked.push_back(arith::SelectOp::create(b, visible.back(), score.back(), laneInf));
    }
    Value widest = tree(b, masked, [&](Value x, Value y) { return arith::MaxNumFOp::create(b, x, y).getResult(); });
    Value tileMax = vector::ReductionOp::create(b, vector::CombiningKind::MAXNUMF, widest);
    Value oldMax = memref::LoadOp::create(b, max, ValueRange{row});
    Value limit = arith::AddFOp::create(b, oldMax, floatOf(b, lazyRescale));
    Value grew = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, tileMax, limit);
    Value newMax = arith::SelectOp::create(b, grew, tileMax, oldMax);
    // With nothing visible so far the maximum is -inf and every probability is masked.
    Value started = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, newMax, minusInf);
    Value shift = vector::BroadcastOp::create(b, lane, arith::SelectOp::create(b, started, newMax, zero));
    SmallVector<Value> parts;
    for (int64_t block = 0; block < blocksOf(slots); ++block) {
      Value p = math::Exp2Op::create(b, arith::SubFOp::create(b, score[block], shift));
      p = arith::SelectOp::create(b, visible[block], p, laneZero);
      vector::StoreOp::create(b, p, probs, ValueRange{row, indexOf(b, block * lanes)});
      if (pairBuffer) {
        storePairs(b, pairBuffer, row, block, p);
      }
      parts.push_back(p);
    }
    Value total = tree(b, parts, [&](Value x, Value y) { return arith::AddFOp::create(b, x, y).getResult(); });
    Value tileSum = vector::ReductionOp::create(b, vector::CombiningKind::ADD, total);
    auto rescale = scf::IfOp::create(b, grew, /*withElseRegion=*/false);
    {
      Builder inner = Builder::atBlockBegin(b.getLoc(), rescale.thenBlock());
      Value alpha = math::Exp2Op::create(inner, arith::SubFOp::create(inner, oldMax, newMax));
      Value oldSum = memref::LoadOp::create(inner, sum, ValueRange{row});
      memref::StoreOp::create(inner, arith::MulFOp::create(inner, oldSum, alpha), sum, ValueRange{row});
      memref::StoreOp::create(inner, newMax, max, ValueRange{row});
      Value factor = vector::BroadcastOp::create(inner, lane, alpha);
      forLaneBlocks(inner, channels, [&](Builder &b, Value column) {
        SmallVector<Value> indices{row, column};
        Value value = vector::LoadOp::create(b, lane, acc, indices);
        vector::StoreOp::create(b, arith::MulFOp::create(b, value, factor), acc, indices);
      });
    }
    Value oldSum = memref::LoadOp::create(b, sum, ValueRange{row});
    memref::StoreOp::create(b, arith::AddFOp::create(b, oldSum, tileSum), sum, ValueRange{row});
  });
}

void TileEmitter::emitSoftmaxFinish(tile::SoftmaxFinishOp op) {
  Builder b(op.getLoc(), op);
  VectorType type = op.getAcc().getType();
  Value max = materialize(b, op.getMax()), sum = materialize(b, op.getSum()), acc = materialize(b, op.getAcc());
  Value out =
      op.getAcc().hasOneUse() ? acc : allocate({type.getDimSize(0), padded(type.getDimSize(1))}, b.getF32Type());
  Value lse = allocate({type.getDimSize(0)}, b.getF32Type());
  setBuffer(op.getOut(), out);
  setBuffer(op.getLse(), lse);
  VectorType lane = laneType(b.getF32Type());
  forRows(b, type.getDimSize(0), [&](Builder &b, Value row) {
    constexpr float ln2 = 0.6931471805599453f;
    Value s = memref::LoadOp::create(b, sum, ValueRange{row}), m = memref::LoadOp::create(b, max, ValueRange{row});
    Value empty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, s, floatOf(b, 0.0f));
    Value inverse = arith::DivFOp::create(b, floatOf(b, 1.0f), s);
    inverse = arith::SelectOp::create(b, empty, floatOf(b, 0.0f), inverse);
    Value value = arith::AddFOp::create(b, m, math::Log2Op::create(b, s));
    value = arith::MulFOp::create(b, value, floatOf(b, ln2));
    value = arith::SelectOp::create(b, empty, floatOf(b, -std::numeric_limits<float>::infinity()), value);
    memref::StoreOp::create(b, value, lse, ValueRange{row});
    Value factor = vector::BroadcastOp::create(b, lane, inverse);
    forLaneBlocks(b, type.getDimSize(1), [&](Builder &b, Value column) {
      SmallVector<Value> indices{row, column};
      Value x = vector::LoadOp::create(b, lane, acc, indices);
      vector::StoreOp::create(b, arith::MulFOp::create(b, x, factor), out, indices);
    });
  });
}
