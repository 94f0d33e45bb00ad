//===- Softmax.cpp - The softmax state of a team --------------------------===//
//
// A lane holds some columns of some rows. The running maximum is that of all lanes of a warp that share a row; the sum
// stays with the lanes until the end. Warps that divide the columns keep states of their own, which are merged behind
// the loop. The maximum follows only when it grows by more than 2^8: until then probabilities are at most that large.
//
//===----------------------------------------------------------------------===//
#include "TeamEmitter.h"

using namespace mlir;
using namespace kvc;

/// Growth of a maximum, in units of log 2, that is left in the probabilities.
static constexpr float lazyGrowth = 8.0f;

static Value exp2(ImplicitLocOpBuilder &b, Value x) { return math::Exp2Op::create(b, x, arith::FastMathFlags::afn); }

LogicalResult TeamEmitter::emitSoftmaxStep(tile::SoftmaxStepOp op) {
  Builder b(op.getLoc(), op);
  const int64_t rows = op.getScores().getType().getDimSize(0);
  // Probabilities that enter no product are only counted.
  std::optional<ProductType> product;
  for (Operation *user : op.getProbs().getUsers()) {
    if (auto mma = dyn_cast<tile::MmaOp>(user); mma && mma.getA() == op.getProbs()) {
      product = productOf(mma.getB());
    }
  }
  const MmaAtom &atom = atomFor(product.value_or(ProductType::F16), rows);
  const int64_t slots = paddedSlots(rows, op.getScores().getType().getDimSize(1));
  Layout layout = productLayout(atom, rows, slots);
  SmallVector<Value> scores = maskedScores(b, op, layout);
  SmallVector<Value> oldMax = pullAll(b, op.getMax(), layout), sum = pullAll(b, op.getSum(), layout);
  const Layout accLayout = accumulatorLayout(atom, rows, paddedValues(op.getAcc().getType().getDimSize(1)));
  SmallVector<Value> acc = pullAll(b, op.getAcc(), accLayout);
  RaisedMax max = raiseMax(b, scores, oldMax, layout);
  rescaleState(b, max, oldMax, sum, acc, layout, accLayout);
  SmallVector<Value> added(sum.size());
  SmallVector<Value> probs = probabilities(b, scores, max, layout, added);
  for (auto [total, more] : llvm::zip_equal(sum, added)) {
    total = arith::AddFOp::create(b, total, more);
  }
  fragments[op.getProbs()] = {layout, probs};
  fragments[op.getNewMax()] = {rowLayout(atom, rows), max.value};
  fragments[op.getNewSum()] = {rowLayout(atom, rows), sum};
  fragments[op.getNewAcc()] = {accLayout, acc};
  if (product) {
    packOperand(b, op.getProbs(), *product, probabilityLayout(atom, rows, slots));
  }
  return success();
}

SmallVector<Value> TeamEmitter::maskedScores(Builder &b, tile::SoftmaxStepOp op, const Layout &layout) {
  SmallVector<Value> scores = pullAll(b, op.getScores(), layout);
  Value minusInf = floatOf(b, -std::numeric_limits<float>::infinity());
  auto mask = [&](Builder &b) {
    SmallVector<Value> masked;
    for (auto [i, score] : llvm::enumerate(scores)) {
      masked.push_back(arith::SelectOp::create(b, pull(b, op.getVisible(), layout, i), score, minusInf));
    }
    return masked;
  };
  // Tiles that all rows see whole carry no masking code, unless columns fill up an instruction.
  const bool isWhole = layout.outSize(Axis::Column) == op.getVisible().getType().getDimSize(1);
  Value all = isWhole ? impliesAll(b, op.getVisible()) : Value();
  if (!all) {
    return mask(b);
  }
  SmallVector<Type> types(scores.size(), b.getF32Type());
  auto branch = scf::IfOp::create(b, types, all, /*withElseRegion=*/true);
  Builder plain = Builder::atBlockBegin(op.getLoc(), branch.thenBlock());
  scf::YieldOp::create(plain, scores);
  Builder partial = Builder::atBlockBegin(op.getLoc(), branch.elseBlock());
  scf::YieldOp::create(partial, mask(partial));
  return {branch.getResults().begin(), branch.getResults().end()};
}

TeamEmitter::RaisedMax TeamEmitter::raiseMax(Builder &b, ArrayRef<Value> scores, ArrayRef<Value> oldMax,
                                             const Layout &layout) {
  SmallVector<Value> tileMax(oldMax.size());
  for (auto [i, score] : llvm::enumerate(scores)) {
    Value &max = tileMax[compactRegister(layout, Axis::Row, i)];
    max = max ? arith::MaxNumFOp::create(b, max, score).getResult() : score;
  }
  RaisedMax raised;
  for (auto [max, old] : llvm::zip_equal(tileMax, oldMax)) {
    for (int64_t step : laneSteps(layout, Axis::Column)) {
      max = arith::MaxNumFOp::create(b, max, shuffleXor(b, max, step));
    }
    Value limit = arith::AddFOp::create(b, old, floatOf(b, lazyGrowth));
    Value grown = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, max, limit);
    raised.value.push_back(arith::SelectOp::create(b, grown, max, old));
    raised.grows.push_back(grown);
    raised.any = raised.any ? arith::OrIOp::create(b, raised.any, grown).getResult() : grown;
  }
  return raised;
}

void TeamEmitter::rescaleState(Builder &b, const RaisedMax &max, ArrayRef<Value> oldMax, SmallVectorImpl<Value> &sum,
                               SmallVectorImpl<Value> &acc, const Layout &layout, const Layout &accLayout) {
  SmallVector<Value> state(sum.begin(), sum.end());
  llvm::append_range(state, acc);
  SmallVector<Type> types(state.size(), b.getF32Type());
  Value any = max.any;
  if (layout.project(Axis::Row).withoutReplicatedRegisters() !=
      accLayout.project(Axis::Row).withoutReplicatedRegisters()) {
    // Factors go from lane to lane: all of them take part.
    any = gpu::SubgroupReduceOp::create(b, any, gpu::AllReduceOperation::OR, /*uniform=*/true);
  }
  auto rescale = scf::IfOp::create(b, types, any, /*withElseRegion=*/true);
  Builder inner = Builder::atBlockBegin(b.getLoc(), rescale.thenBlock());
  SmallVector<Value> factors, scaled;
  for (auto [old, now, grown] : llvm::zip_equal(oldMax, max.value, max.grows)) {
    Value factor = exp2(inner, arith::SubFOp::create(inner, old, now));
    factors.push_back(arith::SelectOp::create(inner, grown, factor, floatOf(inner, 1.0f)));
  }
  for (auto [value, factor] : llvm::zip_equal(sum, factors)) {
    scaled.push_back(arith::MulFOp::create(inner, value, factor));
  }
  SmallVector<Value> accFactors = moveRows(inner, factors, layout, accLayout);
  for (auto [i, value] : llvm::enumerate(acc)) {
    scaled.push_back(arith::MulFOp::create(inner, value, accFactors[compactRegister(accLayout, Axis::Row, i)]));
  }
  scf::YieldOp::create(inner, scaled);
  Builder same = Builder::atBlockBegin(b.getLoc(), rescale.elseBlock());
  scf::YieldOp::create(same, state);
  auto results = rescale.getResults();
  sum.assign(results.begin(), results.begin() + sum.size());
  acc.assign(results.begin() + sum.size(), results.end());
}

SmallVector<Value> TeamEmitter::probabilities(Builder &b, ArrayRef<Value> scores, const RaisedMax &max,
                                              const Layout &layout, MutableArrayRef<Value> added) {
  // A row that saw nothing has no maximum to subtract.
  Value minusInf = floatOf(b, -std::numeric_limits<float>::infinity());
  SmallVector<Value> shift, probs;
  for (Value value : max.value) {
    Value none = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, value, minusInf);
    shift.push_back(arith::SelectOp::create(b, none, floatOf(b, 0.0f), value));
  }
  // Neighbours of a row as pairs: two differences, two sums with each instruction.
  const auto count = static_cast<int64_t>(scores.size());
  auto rowOf = [&](int64_t i) { return compactRegister(layout, Axis::Row, i); };
  bool inPairs = facts.pairsF32 && count % 2 == 0;
  for (int64_t i = 0; inPairs && i < count; i += 2) {
    inPairs = rowOf(i) == rowOf(i + 1);
  }
  if (inPairs) {
    auto pair = VectorType::get({2}, b.getF32Type());
    auto pairOf = [&](Value x, Value y) {
      return vector::FromElementsOp::create(b, pair, ValueRange{x, y}).getResult();
    };
    SmallVector<Value> shifts, sums(added.size());
    for (Value value : shift) {
      shifts.push_back(vector::BroadcastOp::create(b, pair, arith::NegFOp::create(b, value)));
    }
    for (int64_t i = 0; i < count; i += 2) {
      const int64_t row = rowOf(i);
      Value difference = arith::AddFOp::create(b, pairOf(scores[i], scores[i + 1]), shifts[row]);
      for (int64_t e : {0, 1}) {
        probs.push_back(exp2(b, vector::ExtractOp::create(b, difference, e)));
      }
      Value two = pairOf(probs[i], probs[i + 1]);
      sums[row] = sums[row] ? arith::AddFOp::create(b, sums[row], two).getResult() : two;
    }
    for (auto [total, sum] : llvm::zip_equal(added, sums)) {
      total = arith::AddFOp::create(b, vector::ExtractOp::create(b, sum, 0), vector::ExtractOp::create(b, sum, 1));
    }
    return probs;
  }
  for (auto [i, score] : llvm::enumerate(scores)) {
    const int64_t row = rowOf(i);
    Value p = exp2(b, arith::SubFOp::create(b, score, shift[row]));
    probs.push_back(p);
    added[row] = added[row] ? arith::AddFOp::create(b, added[row], p).getResult() : p;
  }
  return probs;
}

void TeamEmitter::completeState(Builder &b, Value max, Value sum, Value acc) {
  Fragment &maxima = fragments[max], &sums = fragments[sum], &totals = fragments[acc];
  const Layout partial = totals.layout, rowsOfWarp = maxima.layout;
  for (Value &value : sums.registers) {
    // What of a warp's lanes is no row are columns.
    for (int64_t step : laneSteps(rowsOfWarp, Axis::None)) {
      value = arith::AddFOp::create(b, value, shuffleXor(b, value, step));
    }
  }
  const int64_t rows = cast<VectorType>(acc.getType()).getDimSize(0),
                columns = paddedValues(cast<VectorType>(acc.getType()).getDimSize(1));
  TeamShape shape = shapeOf(rows);
  if (shape.columnWarps == 1 || dividesValues) {
    return;
  }
  // Every warp writes its state; each then sums the columns that it shall hold, in the order of the warps. Registers
  // come in runs of neighbours, along a row or along a column: that axis is the inner one in staging memory.
  const bool isTransposed = shape.usesHalf();
  const int64_t ownRows = shape.usedRows * shape.rowTiles * shape.rowWarps;
  const int64_t rowStride = isTransposed ? 1 : columns + 8, columnStride = isTransposed ? ownRows : 1;
  const int64_t maxAt = isTransposed ? ownRows * columns * 4 : ownRows * rowStride * 4, sumAt = maxAt + ownRows * 4,
                warpBytes = sumAt + ownRows * 4;
  useStaging(warpBytes * shape.columnWarps);
  auto elementAt = [&](Value warpBase, Value row, Value column) {
    Value place = addWords(b, mulWords(b, row, rowStride * 4), mulWords(b, column, columnStride * 4));
    return toIndex(b, addWords(b, warpBase, place));
  };
  auto numberAt = [&](Value warpBase, Value row, int64_t displacement) {
    return toIndex(b, addWords(b, warpBase, addWords(b, mulWords(b, row, 4), displacement)));
  };
  const Axis inner = isTransposed ? Axis::Row : Axis::Column;
  auto one = VectorType::get({1}, b.getF32Type());
  auto runType = [&](ArrayRef<int64_t> run) {
    return VectorType::get({static_cast<int64_t>(run.size())}, b.getF32Type());
  };
  auto store = [&](Value values, Value place) {
    auto bytes = VectorType::get({cast<VectorType>(values.getType()).getDimSize(0) * 4}, b.getI8Type());
    vector::StoreOp::create(b, vector::BitCastOp::create(b, bytes, values), staging, place, false,
                            llvm::MaybeAlign(bytes.getDimSize(0)));
  };
  auto load = [&](VectorType type, Value place) {
    auto bytes = VectorType::get({type.getDimSize(0) * 4}, b.getI8Type());
    Value raw = vector::LoadOp::create(b, bytes, staging, place, false, llvm::MaybeAlign(bytes.getDimSize(0)));
    return vector::BitCastOp::create(b, type, raw).getResult();
  };
  Value own = mulWords(b, columnWarp(b, shape), warpBytes);
  for (ArrayRef<int64_t> run : partial.runsAlong(inner, 4)) {
    Value row = coordinate(b, partial, Axis::Row, run.front()),
          column = coordinate(b, partial, Axis::Column, run.front());
    auto values = llvm::map_to_vector(run, [&](int64_t reg) { return totals.registers[reg]; });
    store(vector::FromElementsOp::create(b, runType(run), values), elementAt(own, row, column));
  }
  for (auto [i, number] : llvm::enumerate(maxima.registers)) {
    // All lanes of a row write the same number.
    Value row = coordinate(b, rowsOfWarp, Axis::Row, i);
    store(vector::FromElementsOp::create(b, one, number), numberAt(own, row, maxAt));
    store(vector::FromElementsOp::create(b, one, sums.registers[i]), numberAt(own, row, sumAt));
  }
  barrier(b);

  const MmaAtom &atom = atomFor(ProductType::F16, rows);
  const bool divides = columns / atom.n % shape.columnWarps == 0;
  Layout whole = divides ? accumulatorLayout(atom, rows, columns, /*isMerged=*/true) : partial;
  SmallVector<Value> merged(whole.inSize(Axis::Register));
  const int64_t wholeRows = compactCount(whole, Axis::Row);
  SmallVector<SmallVector<Value>> factors(wholeRows);
  Value minusInf = floatOf(b, -std::numeric_limits<float>::infinity()), zero = floatOf(b, 0.0f);
  SmallVector<Value> newMax(wholeRows), newSum(wholeRows);
  for (int64_t i = 0; i < whole.inSize(Axis::Register); ++i) {
    const int64_t number = compactRegister(whole, Axis::Row, i);
    if (!factors[number].empty()) {
      continue;
    }
    Value row = coordinate(b, whole, Axis::Row, i);
    SmallVector<Value> all;
    for (int64_t w = 0; w < shape.columnWarps; ++w) {
      Value m = vector::ExtractOp::create(b, load(one, numberAt(wordOf(b, w * warpBytes), row, maxAt)), 0);
      all.push_back(m);
      newMax[number] = w ? arith::MaxNumFOp::create(b, newMax[number], m).getResult() : m;
    }
    for (int64_t w = 0; w < shape.columnWarps; ++w) {
      Value saw = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, all[w], minusInf);
      Value factor = exp2(b, arith::SubFOp::create(b, all[w], newMax[number]));
      factor = arith::SelectOp::create(b, saw, factor, zero);
      factors[number].push_back(factor);
      Value l = vector::ExtractOp::create(b, load(one, numberAt(wordOf(b, w * warpBytes), row, sumAt)), 0);
      Value part = arith::MulFOp::create(b, l, factor);
      newSum[number] = w ? arith::AddFOp::create(b, newSum[number], part).getResult() : part;
    }
  }
  for (ArrayRef<int64_t> run : whole.runsAlong(inner, 4)) {
    Value row = coordinate(b, whole, Axis::Row, run.front()), column = coordinate(b, whole, Axis::Column, run.front());
    for (int64_t w = 0; w < shape.columnWarps; ++w) {
      Value loaded = load(runType(run), elementAt(wordOf(b, w * warpBytes), row, column));
      for (auto [e, reg] : llvm::enumerate(run)) {
        Value factor = factors[compactRegister(whole, Axis::Row, reg)][w];
        Value part = arith::MulFOp::create(b, vector::ExtractOp::create(b, loaded, static_cast<int64_t>(e)), factor);
        Value &total = merged[reg];
        total = total ? arith::AddFOp::create(b, total, part).getResult() : part;
      }
    }
  }
  const Layout wholeRowLayout = whole.project(Axis::Row).withoutReplicatedRegisters();
  maxima = {wholeRowLayout, newMax};
  sums = {wholeRowLayout, newSum};
  totals = {whole, merged};
}

void TeamEmitter::emitSoftmaxFinish(tile::SoftmaxFinishOp op) {
  Builder b(op.getLoc(), op);
  auto found = fragments.find(op.getAcc());
  // A state with sinks is an expression of the one that the loop left.
  Layout layout;
  if (found != fragments.end()) {
    layout = found->second.layout;
  } else {
    WalkResult walked = WalkResult::advance();
    SmallVector<Value> pending{op.getAcc()};
    while (!pending.empty() && !walked.wasInterrupted()) {
      Value value = pending.pop_back_val();
      if (auto held = fragments.find(value); held != fragments.end()) {
        if (held->second.layout.outSize(Axis::Column) > 1) {
          layout = held->second.layout;
          walked = WalkResult::interrupt();
        }
      } else if (Operation *definition = value.getDefiningOp()) {
        llvm::append_range(pending, definition->getOperands());
      }
    }
    if (!walked.wasInterrupted()) {
      fail(op) << "of a state that no loop made has no lowering to teams yet";
      return;
    }
  }
  SmallVector<Value> max = pullAll(b, op.getMax(), layout), sum = pullAll(b, op.getSum(), layout);
  SmallVector<Value> acc = pullAll(b, op.getAcc(), layout), inverse, lse;
  Value zero = floatOf(b, 0.0f), minusInf = floatOf(b, -std::numeric_limits<float>::infinity());
  Value ln2 = floatOf(b, 0.693147180559945309f);
  for (auto [m, l] : llvm::zip_equal(max, sum)) {
    // A row that saw nothing is 0; one whose sum is not a number stays so.
    Value empty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, l, zero);
    Value inverted = arith::DivFOp::create(b, floatOf(b, 1.0f), l);
    inverse.push_back(arith::SelectOp::create(b, empty, zero, inverted));
    Value log = math::Log2Op::create(b, l);
    Value value = arith::MulFOp::create(b, arith::AddFOp::create(b, m, log), ln2);
    lse.push_back(arith::SelectOp::create(b, empty, minusInf, value));
  }
  for (auto [i, value] : llvm::enumerate(acc)) {
    value = arith::MulFOp::create(b, value, inverse[compactRegister(layout, Axis::Row, i)]);
  }
  fragments[op.getOut()] = {layout, acc};
  fragments[op.getLse()] = {layout.project(Axis::Row).withoutReplicatedRegisters(), lse};
}
