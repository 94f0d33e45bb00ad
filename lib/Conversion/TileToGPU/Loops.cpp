//===- Loops.cpp - Loops over tiles that decode their operands ------------===//
//
// A loop that carries tiles carries a lane's registers of them. A softmax state stays in parts until the last loop that
// takes it up; sums over the rows of a tile stay with the lanes that hold the rows until they are stored.
//
//===----------------------------------------------------------------------===//
#include "CodeTile.h"

#include "mlir/IR/Remarks.h"

using namespace mlir;
using namespace kvc;

bool kvc::isMultipleOf(Value value, int64_t factor, unsigned depth) {
  if (factor == 1) {
    return true;
  }
  if (auto constant = getConstantIntValue(value)) {
    return *constant % factor == 0;
  }
  Operation *op = value.getDefiningOp();
  if (!op || depth > 8) {
    return false;
  }
  auto operandIs = [&](unsigned i) { return isMultipleOf(op->getOperand(i), factor, depth + 1); };
  if (isa<arith::MulIOp>(op)) {
    return operandIs(0) || operandIs(1);
  }
  if (isa<arith::AddIOp, arith::SubIOp, arith::MaxSIOp, arith::MinSIOp>(op)) {
    return operandIs(0) && operandIs(1);
  }
  return isa<arith::SelectOp>(op) && operandIs(1) && operandIs(2);
}

Value kvc::valueAt(ImplicitLocOpBuilder &b, scf::ForOp loop, Value value, Value iv, IRMapping &mapping) {
  if (!mapping.contains(loop.getInductionVar())) {
    mapping.map(loop.getInductionVar(), iv);
  }
  if (Value known = mapping.lookupOrNull(value)) {
    return known;
  }
  Operation *op = value.getDefiningOp();
  if (!op || !loop->isProperAncestor(op)) {
    return value;
  }
  for (Value operand : op->getOperands()) {
    valueAt(b, loop, operand, iv, mapping);
  }
  b.clone(*op, mapping);
  return mapping.lookup(value);
}

Value kvc::wordAt(ImplicitLocOpBuilder &b, scf::ForOp loop, Value value, Value iv) {
  if (value == loop.getInductionVar()) {
    return iv;
  }
  if (auto constant = getConstantIntValue(value)) {
    return wordOf(b, *constant);
  }
  if (loop.isDefinedOutsideOfLoop(value)) {
    return toWord(b, value);
  }
  Operation *op = value.getDefiningOp();
  auto operandAt = [&](unsigned i) { return wordAt(b, loop, op->getOperand(i), iv); };
  if (isa_and_nonnull<arith::IndexCastOp>(op)) {
    return operandAt(0);
  }
  if (isa_and_nonnull<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::MinSIOp, arith::MaxSIOp, arith::DivUIOp,
                      arith::RemUIOp>(op)) {
    OperationState state(b.getLoc(), op->getName());
    state.addOperands({operandAt(0), operandAt(1)});
    state.addTypes(b.getI32Type());
    return b.create(state)->getResult(0);
  }
  IRMapping mapping;
  const bool isIndex = loop.getInductionVar().getType().isIndex();
  return toWord(b, valueAt(b, loop, value, isIndex ? toIndex(b, iv) : iv, mapping));
}

bool kvc::countsToEnd(tile::OperandOp op, scf::ForOp loop) {
  auto least = op.getCount().getDefiningOp<arith::MinSIOp>();
  if (!least || op.getSlot() != loop.getInductionVar()) {
    return false;
  }
  auto isRest = [&](Value value) {
    auto rest = value.getDefiningOp<arith::SubIOp>();
    return rest && rest.getLhs() == loop.getUpperBound() && rest.getRhs() == loop.getInductionVar();
  };
  return (isRest(least.getLhs()) && getConstantIntValue(least.getRhs())) ||
         (isRest(least.getRhs()) && getConstantIntValue(least.getLhs()));
}

LogicalResult TeamEmitter::decodeOperands(scf::ForOp loop, ArrayRef<LateOperand> operands, int64_t offset, bool alone) {
  // What a loop does not change is decoded in front of it.
  auto isFixed = [&](Operation *op) {
    return llvm::all_of(op->getOperands(), [&](Value value) { return loop.isDefinedOutsideOfLoop(value); });
  };
  int64_t all = offset;
  for (const auto &[op, why] : operands) {
    all += describeUnpacked(op, offset).stageBytes;
  }
  // Keys are no longer needed when values are decoded: where there is no room for both, they take turns. Where queries
  // lie there as well, a team of one warp, which waits for nobody, leaves the room to another team.
  const bool shallTakeTurns = all > facts.stagingBytes || (facts.readsInOrder() && teamWarps == 1);
  const bool takeTurns = shallTakeTurns && operands.size() == 2 &&
                         llvm::none_of(operands, [&](const LateOperand &late) { return isFixed(late.op); });
  const bool isOnly = alone && operands.size() == 1;
  for (const auto &[op, why] : operands) {
    StagedOperand operand = describeUnpacked(op, offset);
    useStaging(offset + operand.stageBytes);
    if (!takeTurns) {
      offset += operand.stageBytes;
    }
    Value result = op->getResult(0);
    if (!result.hasOneUse() || !isa<tile::MmaOp>(*result.getUsers().begin())) {
      return fail(op) << "that is no operand of exactly one product has no lowering to teams yet";
    }
    Builder b(op->getLoc(), loop);
    operand.stage = wordOf(b, operand.offset);
    staged[result] = operand;
    if (isFixed(op)) {
      unpack(b, op, operand);
      barrier(b);
      continue;
    }
    remark::missed(op->getLoc(), remark::RemarkOpts::name("decode").category("attention"))
        << "a tile is loaded and decoded in front of its product, none ahead: " << why;
    beforeProduct[*result.getUsers().begin()] = [this, op = op, operand, waits = isOnly || takeTurns](Builder &b) {
      if (waits) {
        // Every warp is past what lies there; with two operands side by side the other's barrier says so.
        barrier(b);
      }
      unpack(b, op, operand);
      barrier(b);
    };
  }
  return success();
}

std::optional<CodeTile> TeamEmitter::createCodeTile(Operation *op, scf::ForOp loop, int64_t offset, std::string &why) {
  auto product = dyn_cast<tile::MmaOp>(*op->getResult(0).getUsers().begin());
  const auto form = facts.loadsMatrices && product && keyRun(product) ? CodeTile::Form::Keys : CodeTile::Form::Staged;
  return CodeTile::create(*this, op, loop, form, offset, why);
}

LogicalResult TeamEmitter::leaveState(Builder &b, scf::ForOp loop, Value max, Value sum, Value acc) {
  // A state that another loop takes up stays as it is in all warps.
  size_t takers = 0, uses = 0;
  for (Value result : {max, sum, acc}) {
    for (Operation *user : result.getUsers()) {
      ++uses;
      takers += isa<scf::ForOp>(user);
    }
  }
  if (takers == uses) {
    return success();
  }
  if (takers) {
    return fail(loop) << "whose state is used by a loop and by something else has no lowering to teams yet";
  }
  completeState(b, max, sum, acc);
  return success();
}

LogicalResult TeamEmitter::emitPlainLoop(scf::ForOp loop) {
  SmallVector<Operation *> operands;
  tile::SoftmaxStepOp step;
  vector::MultiDimReductionOp reduction;
  for (Operation &op : *loop.getBody()) {
    if (isa<tile::OperandOp, tile::GatherOperandOp>(op)) {
      operands.push_back(&op);
    } else if (auto softmax = dyn_cast<tile::SoftmaxStepOp>(op)) {
      step = softmax;
    } else if (auto columns = dyn_cast<vector::MultiDimReductionOp>(op)) {
      reduction = columns;
    }
  }
  const MmaAtom &atom = kvc::atomOf(facts, ProductType::F16);
  SmallVector<Layout> layouts;
  for (auto [number, argument] : llvm::enumerate(loop.getRegionIterArgs())) {
    if (step && (argument == step.getMax() || argument == step.getSum() || argument == step.getAcc())) {
      auto type = cast<VectorType>(step.getAcc().getType());
      layouts.push_back(argument == step.getAcc()
                            ? accumulatorLayout(atom, type.getDimSize(0), paddedValues(type.getDimSize(1)))
                            : rowLayout(atom, type.getDimSize(0)));
    } else if (reduction && argument == reduction.getAcc()) {
      VectorType type = reduction.getSourceVectorType();
      layouts.push_back(productLayout(atom, type.getDimSize(0), paddedSlots(type.getDimSize(0), type.getDimSize(1))));
      columnKinds[loop.getResult(number)] = reduction.getKind();
    } else if (isa<VectorType>(argument.getType())) {
      return fail(loop) << "over tiles that carries something else than a softmax state or sums over rows has no "
                           "lowering to teams yet";
    } else {
      layouts.emplace_back();
    }
  }

  Builder b(loop.getLoc(), loop);
  SmallVector<Value> init;
  SmallVector<size_t> counts;
  for (auto [value, layout] : llvm::zip_equal(loop.getInitArgs(), layouts)) {
    SmallVector<Value> values{value};
    if (auto type = dyn_cast<VectorType>(value.getType())) {
      if (type.getRank() == 1 && layout.outSize(Axis::Column) > 1) {
        values.clear();
        for (int64_t i = 0; i < compactCount(layout, Axis::Column); ++i) {
          values.push_back(pullAlong(b, value, Axis::Column, layout, i));
        }
      } else {
        values = pullAll(b, value, layout);
      }
    }
    counts.push_back(values.size());
    llvm::append_range(init, values);
  }
  if (hasFailed()) {
    return failure();
  }
  // Whatever used staging memory before is done with it.
  barrier(b);
  // Codes go through registers, a tile ahead; two of them alternate in staging memory.
  CodeTiles codes(*this);
  SmallVector<LateOperand> others;
  int64_t offset = queryBytes;
  for (Operation *op : operands) {
    std::string why = "it is the only operand of the loop";
    std::optional<CodeTile> tile;
    if (operands.size() == 2) {
      why.clear();
      tile = createCodeTile(op, loop, offset, why);
    }
    if (!tile) {
      others.push_back({op, why});
      continue;
    }
    offset = codes.add(*tile, b);
    useStaging(offset);
  }
  if (failed(decodeOperands(loop, others, offset, /*alone=*/operands.size() == 1 || codes.haveKeys()))) {
    return failure();
  }
  const size_t carried = init.size();
  codes.loadFirst(b, loop, init);
  auto lowered = scf::ForOp::create(b, loop.getLowerBound(), loop.getUpperBound(), loop.getStep(), init);
  Block &body = *lowered.getBody();
  loop.getInductionVar().replaceAllUsesWith(lowered.getInductionVar());
  auto setValues = [&](ValueRange registers, ValueRange tiles) {
    for (auto [tile, layout, count] : llvm::zip_equal(tiles, layouts, counts)) {
      if (isa<VectorType>(tile.getType())) {
        fragments[tile] = {layout, SmallVector<Value>(registers.begin(), registers.begin() + count)};
      } else {
        tile.replaceAllUsesWith(registers.front());
      }
      registers = registers.drop_front(count);
    }
  };
  setValues(lowered.getRegionIterArgs().take_front(carried), loop.getRegionIterArgs());
  codes.attach(lowered, lowered.getRegionIterArgs().drop_front(carried));
  Operation *yield = loop.getBody()->getTerminator();
  body.getOperations().splice(body.end(), loop.getBody()->getOperations(), loop.getBody()->begin(),
                              Block::iterator(yield));
  finished(loop);
  if (failed(emitBlock(body))) {
    return failure();
  }
  Builder end = Builder::atBlockEnd(loop.getLoc(), &body);
  SmallVector<Value> results;
  for (auto [value, layout] : llvm::zip_equal(yield->getOperands(), layouts)) {
    auto type = dyn_cast<VectorType>(value.getType());
    if (!type) {
      results.push_back(value);
    } else if (type.getRank() == 1 && layout.outSize(Axis::Column) > 1) {
      llvm::append_range(results, fragments[value].registers);
    } else {
      llvm::append_range(results, pullAll(end, value, layout));
    }
  }
  codes.finish(results);
  scf::YieldOp::create(end, results);
  setValues(lowered.getResults().take_front(carried), loop.getResults());
  for (const LateOperand &other : others) {
    beforeProduct.erase(*other.op->getResult(0).getUsers().begin());
  }
  // The old loop goes after what it still speaks of.
  yield->setOperands(loop.getInitArgs());
  barrier(b);
  if (!step) {
    return success(!hasFailed());
  }
  auto resultOf = [&](Value argument) {
    return loop.getResult(cast<BlockArgument>(argument).getArgNumber() - loop.getNumInductionVars());
  };
  return leaveState(b, loop, resultOf(step.getMax()), resultOf(step.getSum()), resultOf(step.getAcc()));
}

//===----------------------------------------------------------------------===//
// Sums over the rows of tiles
//===----------------------------------------------------------------------===//

static Value combine(ImplicitLocOpBuilder &b, vector::CombiningKind kind, Value x, Value y) {
  return vector::makeArithReduction(b, b.getLoc(), kind, x, y);
}

void TeamEmitter::emitColumnReduction(vector::MultiDimReductionOp op) {
  auto found = fragments.find(op.getAcc());
  if (found == fragments.end() || op.getReductionMask() != ArrayRef<bool>{true, false}) {
    fail(op) << "other than of a loop's columns has no lowering to teams yet";
    return;
  }
  Builder b(op.getLoc(), op);
  Fragment columns = found->second;
  for (int64_t i = 0; i < columns.layout.inSize(Axis::Register); ++i) {
    Value &sum = columns.registers[compactRegister(columns.layout, Axis::Column, i)];
    sum = combine(b, op.getKind(), sum, pull(b, op.getSource(), columns.layout, i));
  }
  fragments[op.getDest()] = columns;
}

void TeamEmitter::emitStoreSlotNumbers(tile::StoreSlotNumbersOp op) {
  auto found = fragments.find(op.getValue());
  auto kind = columnKinds.find(op.getValue());
  if (found == fragments.end() || kind == columnKinds.end()) {
    fail(op) << "of other numbers than a loop's sums over rows has no lowering to teams yet";
    return;
  }
  Builder b(op.getLoc(), op);
  const Layout &layout = found->second.layout;
  const int64_t slots = layout.outSize(Axis::Column), team = warps * facts.lanes;
  int64_t rowWarps = 1, warpStride = 1;
  Value isFirst;
  for (const Mode &mode : layout.getModes()) {
    if (mode.in == Axis::Warp && mode.out == Axis::Row) {
      rowWarps = mode.size;
      warpStride = mode.inStride;
    } else if (mode.in == Axis::Lane && mode.out == Axis::Row) {
      // The first of the lanes that hold a column writes.
      Value digit =
          arith::RemUIOp::create(b, arith::DivUIOp::create(b, lane, wordOf(b, mode.inStride)), wordOf(b, mode.size));
      Value zero = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, digit, wordOf(b, 0));
      isFirst = isFirst ? arith::AndIOp::create(b, isFirst, zero).getResult() : zero;
    }
  }
  useStaging(rowWarps * slots * 4);
  Value rowWarp =
      arith::RemUIOp::create(b, arith::DivUIOp::create(b, warp, wordOf(b, warpStride)), wordOf(b, rowWarps));
  auto one = VectorType::get({1}, b.getF32Type()), bytes = VectorType::get({4}, b.getI8Type());
  // Lanes with the same columns, then warps, in their order.
  SmallVector<std::pair<Value, Value>> sums;
  SmallVector<bool> done(found->second.registers.size());
  for (int64_t i = 0; i < layout.inSize(Axis::Register); ++i) {
    const int64_t number = compactRegister(layout, Axis::Column, i);
    if (done[number]) {
      continue;
    }
    done[number] = true;
    Value sum = found->second.registers[number];
    for (int64_t step : laneSteps(layout, Axis::Row)) {
      sum = combine(b, kind->second, sum, shuffleXor(b, sum, step));
    }
    sums.emplace_back(sum, coordinate(b, layout, Axis::Column, i));
  }
  auto writes = scf::IfOp::create(b, isFirst, /*withElseRegion=*/false);
  Builder inner = Builder::atBlockBegin(op.getLoc(), writes.thenBlock());
  for (auto [sum, column] : sums) {
    Value place = mulWords(inner, addWords(inner, mulWords(inner, rowWarp, slots), column), 4);
    Value raw = vector::BitCastOp::create(inner, bytes, vector::FromElementsOp::create(inner, one, sum));
    vector::StoreOp::create(inner, raw, staging, toIndex(inner, place), /*nontemporal=*/false, llvm::MaybeAlign(4));
  }
  barrier(b);
  Value thread = toIndex(b, addWords(b, mulWords(b, warp, facts.lanes), lane));
  auto each = scf::ForOp::create(b, thread, op.getCount(), indexOf(b, team));
  Builder body = Builder::atBlockBegin(op.getLoc(), each.getBody());
  Value total;
  for (int64_t w = 0; w < rowWarps; ++w) {
    Value at = arith::MulIOp::create(
        body, arith::AddIOp::create(body, each.getInductionVar(), indexOf(body, w * slots)), indexOf(body, 4));
    Value raw = vector::LoadOp::create(body, bytes, staging, at, /*nontemporal=*/false, llvm::MaybeAlign(4));
    Value part = vector::ExtractOp::create(body, vector::BitCastOp::create(body, one, raw), 0);
    total = total ? combine(body, kind->second, total, part) : part;
  }
  Value slot = arith::AddIOp::create(body, op.getSlot(), each.getInductionVar());
  memref::StoreOp::create(body, total, op.getTarget(), ValueRange{op.getEntry(), op.getHead(), slot});
}
