//===- WarpGroups.cpp - Loops over tiles by groups of warps ---------------===//
//
// Products are started and waited for. The scores of a tile are computed while the values of the tile before are still
// being added up, and while a tile's softmax runs:
//
//   scores of the first tile, softmax
//   for each further tile
//     wait for its keys; start its scores; start the output of the tile before
//     wait for the scores; maxima, probabilities
//     wait for its values
//     wait for the output; it follows the maximum where that has grown
//   output of the last tile
//
// Values are waited for a tile before they are needed: the loop of that wait keeps the assembler from moving the wait
// for the output in front of the softmax, which it does within a basic block.
//
//===----------------------------------------------------------------------===//
#include "TeamEmitter.h"

using namespace mlir;
using namespace kvc;

LogicalResult TeamEmitter::placeFirstOperand(Value tile, ProductType product) {
  if (roles->queryTile == tile) {
    return success();
  }
  if (roles->queryTile) {
    return fail(tile.getDefiningOp()) << "is a second tile of queries, which has no lowering to groups of warps yet";
  }
  roles->queryTile = tile;
  Builder b(tile.getLoc(), tile.getContext());
  b.setInsertionPointAfterValue(tile);
  auto type = cast<VectorType>(tile.getType());
  const Layout layout =
      operandLayout(atomOf(facts, product), type.getDimSize(0), type.getDimSize(1), /*innerOverWarps=*/false);
  packOperand(b, tile, product, layout);
  const SmallVector<Value> packed = words[{tile.getAsOpaquePointer(), product}].front();
  const Panels &panels = roles->query;
  if (!panels.rows) {
    roles->queryWords = packed;
    return success(!hasFailed());
  }
  constexpr int64_t chunkElements = 8;
  // Lanes of a row hold neighbours within a chunk of 16 bytes.
  Value inChunk = mulWords(b, coordinate(b, layout, Axis::Column, 0), 2);
  auto bytes = VectorType::get({4}, b.getI8Type());
  for (auto [i, word] : llvm::enumerate(packed)) {
    const auto reg = static_cast<int64_t>(2 * i);
    const int64_t number = layout(reg, 0, 0)[Axis::Column] / chunkElements;
    Value row = coordinate(b, layout, Axis::Row, reg);
    Value rowAt = panels.placeOfRow(b, row), flip = panels.flipOfRow(b, row);
    Value place = mulWords(b, arith::XOrIOp::create(b, flip, wordOf(b, number % panels.chunks())), 16);
    place = addWords(b, addWords(b, place, rowAt), inChunk);
    place = addWords(b, place, number / panels.chunks() * panels.panelBytes());
    vector::StoreOp::create(b, vector::BitCastOp::create(b, bytes, word), staging, toIndex(b, place), false,
                            llvm::MaybeAlign(4));
  }
  tile::PublishOp::create(b);
  barrier(b);
  return success(!hasFailed());
}

namespace {
/// The code of the computing warps for one loop.
class Consumer {
public:
  Consumer(TeamEmitter &emitter, const TileLoop &tiles) : emitter(emitter), roles(*emitter.roles), loop(tiles.loop) {}

  LogicalResult prepare(const TileLoop &tiles);
  /// Maxima, sums, accumulators and position behind the loop, from those before it.
  struct State {
    SmallVector<Value> max, sum, acc;
    RingPosition position;
  };
  State emit(ImplicitLocOpBuilder &b, const State &init);

  Layout layout, accLayout;

private:
  using Builder = ImplicitLocOpBuilder;

  SmallVector<Value> startScores(Builder &b, RingPosition at);
  SmallVector<Value> startOutput(Builder &b, ValueRange probs, ValueRange acc, RingPosition at);
  SmallVector<Value> wait(Builder &b, int64_t pending, ValueRange values) {
    return llvm::to_vector_of<Value>(tile::GroupMmaWaitOp::create(b, values.getTypes(), pending, values).getResults());
  }
  void waitFull(Builder &b, RingPosition at, bool isKey) {
    tile::PhaseWaitOp::create(b, emitter.staging, emitter.barrierOffset(b, at.stage, roles), roles.fullAt(isKey),
                              at.parity);
  }
  void release(Builder &b, RingPosition at, bool isKey) {
    emitter.arriveOnce(b, emitter.barrierOffset(b, at.stage, roles), roles.emptyAt(isKey));
  }
  /// Copies in pieces arrive as stores do: they are made visible to products after the wait. Beside boxes the copying
  /// warp has done so.
  void publish(Builder &b) {
    if (!roles.copiesBoxes) {
      tile::PublishOp::create(b);
    }
  }
  /// `parity` as it is when the sums of probabilities are known: none is that large, which the assembler does not know.
  Value after(Builder &b, ArrayRef<Value> sums, Value parity) {
    Value total = sums.front();
    for (Value sum : sums.drop_front()) {
      total = arith::AddFOp::create(b, total, sum);
    }
    Value isHuge = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, total, floatOf(b, 1e38f));
    return arith::OrIOp::create(b, parity, arith::ExtUIOp::create(b, b.getI32Type(), isHuge));
  }
  /// The loop's body for the tile at `iv`: its softmax step, whose scores are `sums`.
  tile::SoftmaxStepOp bodyAt(Builder &b, Value iv, ArrayRef<Value> sums);
  SmallVector<Value> packProbabilities(Builder &b, tile::SoftmaxStepOp step, ArrayRef<Value> probs);

  TeamEmitter &emitter;
  RoleState &roles;
  scf::ForOp loop;
  tile::MmaOp scores;
  tile::SoftmaxStepOp step;
  ProductType product = ProductType::F16;
  const MmaAtom *atom = nullptr;
  int64_t rows = 0;
};
} // namespace

LogicalResult Consumer::prepare(const TileLoop &tiles) {
  step = tiles.step;
  tile::MmaOp output;
  for (tile::OperandOp op : tiles.operands) {
    if (!op.getResult().hasOneUse() || !isa<tile::MmaOp>(*op.getResult().getUsers().begin())) {
      return emitter.fail(op) << "that is not of one product has no lowering to groups of warps yet";
    }
    auto mma = cast<tile::MmaOp>(*op.getResult().getUsers().begin());
    (mma.getContract() == tile::Contract::Channels ? scores : output) = mma;
  }
  Operation *yield = loop.getBody()->getTerminator();
  if (tiles.operands.size() != 2 || !scores || !output || scores.getA() != roles.queryTile || scores.getAcc() ||
      output.getA() != step.getProbs() || output.getAcc() != step.getNewAcc() ||
      yield->getOperand(tiles.acc) != output.getResult() || yield->getOperand(tiles.max) != step.getNewMax() ||
      yield->getOperand(tiles.sum) != step.getNewSum()) {
    return emitter.fail(loop) << "with other products than scores and output has no lowering to groups of warps yet";
  }
  product = emitter.productOf(output.getB());
  atom = &kvc::atomOf(emitter.facts, product);
  rows = cast<VectorType>(step.getAcc().getType()).getDimSize(0);
  layout = emitter.productLayout(*atom, rows, roles.k.rows);
  accLayout = emitter.accumulatorLayout(*atom, rows, roles.v.columns);
  return success();
}

SmallVector<Value> Consumer::startScores(Builder &b, RingPosition at) {
  const GroupMmaAtom &group = *roles.atom;
  Value a;
  if (roles.query.rows) {
    Value number = arith::DivUIOp::create(b, emitter.warp, wordOf(b, group.warps));
    a = mulWords(b, number, roles.query.placeOfRow(group.m));
  }
  SmallVector<Type> types(layout.inSize(Axis::Register), b.getF32Type());
  auto mma = tile::GroupMmaOp::create(b, types, group.name, roles.queryWords, a, emitter.staging,
                                      emitter.stageOffset(b, at.stage, /*isKey=*/true), ValueRange(),
                                      roles.k.columns / group.k, roles.k.swizzle, roles.query.count(), roles.k.count(),
                                      /*transposed=*/false);
  return llvm::to_vector_of<Value>(mma.getResults());
}

SmallVector<Value> Consumer::startOutput(Builder &b, ValueRange probs, ValueRange acc, RingPosition at) {
  const GroupMmaAtom &group = *roles.atom;
  auto mma = tile::GroupMmaOp::create(b, acc.getTypes(), group.name, probs, Value(), emitter.staging,
                                      emitter.stageOffset(b, at.stage, /*isKey=*/false), acc, roles.v.rows / group.k,
                                      roles.v.swizzle, /*a_panels=*/0, roles.v.count(), /*transposed=*/true);
  return llvm::to_vector_of<Value>(mma.getResults());
}

tile::SoftmaxStepOp Consumer::bodyAt(Builder &b, Value iv, ArrayRef<Value> sums) {
  IRMapping mapping;
  mapping.map(loop.getInductionVar(), iv);
  mapping.map(loop.getRegionIterArgs(), loop.getInitArgs());
  for (Operation &op : loop.getBody()->without_terminator()) {
    Operation *clone = b.clone(op, mapping);
    if (llvm::any_of(clone->getResultTypes(), [](Type type) { return isa<VectorType, tile::OperandType>(type); })) {
      emitter.finished(clone);
    }
  }
  emitter.fragments[mapping.lookup(scores.getResult())] = {layout, SmallVector<Value>(sums)};
  return cast<tile::SoftmaxStepOp>(mapping.lookup(step.getProbs()).getDefiningOp());
}

SmallVector<Value> Consumer::packProbabilities(Builder &b, tile::SoftmaxStepOp step, ArrayRef<Value> probs) {
  emitter.fragments[step.getProbs()] = {layout, SmallVector<Value>(probs)};
  emitter.packOperand(b, step.getProbs(), product,
                      emitter.operandLayout(*atom, rows, roles.k.rows, /*innerOverWarps=*/true));
  return emitter.words[{step.getProbs().getAsOpaquePointer(), product}].front();
}

Consumer::State Consumer::emit(Builder &b, const State &init) {
  auto addUp = [](Builder &b, SmallVector<Value> &sum, ArrayRef<Value> added) {
    for (auto [total, more] : llvm::zip_equal(sum, added)) {
      total = arith::AddFOp::create(b, total, more);
    }
  };
  State state = init;
  waitFull(b, state.position, /*isKey=*/true);
  publish(b);
  SmallVector<Value> sums = wait(b, 0, startScores(b, state.position));
  release(b, state.position, /*isKey=*/true);
  tile::SoftmaxStepOp step = bodyAt(b, loop.getLowerBound(), sums);
  SmallVector<Value> scores = emitter.maskedScores(b, step, layout), added(state.sum.size());
  TeamEmitter::RaisedMax raised = emitter.raiseMax(b, scores, state.max, layout);
  emitter.rescaleState(b, raised, state.max, state.sum, state.acc, layout, accLayout);
  SmallVector<Value> probs = emitter.probabilities(b, scores, raised, layout, added);
  addUp(b, state.sum, added);
  state.max = raised.value;
  SmallVector<Value> packed = packProbabilities(b, step, probs);
  waitFull(b, state.position, /*isKey=*/false);

  SmallVector<Value> carried;
  for (ArrayRef<Value> part :
       {ArrayRef<Value>(state.max), ArrayRef<Value>(state.sum), ArrayRef<Value>(state.acc), ArrayRef<Value>(packed)}) {
    llvm::append_range(carried, part);
  }
  carried.append({state.position.stage, state.position.parity});
  auto split = [&](ValueRange values) {
    auto take = [&](SmallVector<Value> &part) {
      part.assign(values.begin(), values.begin() + part.size());
      values = values.drop_front(part.size());
    };
    take(state.max);
    take(state.sum);
    take(state.acc);
    take(packed);
    state.position = {values[0], values[1]};
  };
  Value second = arith::AddIOp::create(b, loop.getLowerBound(), loop.getStep());
  auto rest = scf::ForOp::create(b, second, loop.getUpperBound(), loop.getStep(), carried);
  {
    Builder inner = Builder::atBlockBegin(b.getLoc(), rest.getBody());
    split(rest.getRegionIterArgs());
    const RingPosition before = state.position, here = emitter.advance(inner, before);
    waitFull(inner, here, /*isKey=*/true);
    publish(inner);
    SmallVector<Value> scored = startScores(inner, here);
    state.acc = startOutput(inner, packed, state.acc, before);
    scored = wait(inner, 1, scored);
    release(inner, here, /*isKey=*/true);
    step = bodyAt(inner, rest.getInductionVar(), scored);
    scores = emitter.maskedScores(inner, step, layout);
    raised = emitter.raiseMax(inner, scores, state.max, layout);
    added.assign(state.sum.size(), Value());
    probs = emitter.probabilities(inner, scores, raised, layout, added);
    // The softmax runs while the output does: the wait takes what it gives. It also takes what the output reads, whose
    // registers are in use until then. What the next output reads is made behind it.
    waitFull(inner, {here.stage, after(inner, added, here.parity)}, /*isKey=*/false);
    SmallVector<Value> waited(state.acc);
    llvm::append_range(waited, probs);
    llvm::append_range(waited, packed);
    waited = wait(inner, 0, waited);
    const size_t totals = state.acc.size();
    state.acc.assign(waited.begin(), waited.begin() + totals);
    probs.assign(waited.begin() + totals, waited.begin() + totals + probs.size());
    packed = packProbabilities(inner, step, probs);
    release(inner, before, /*isKey=*/false);
    emitter.rescaleState(inner, raised, state.max, state.sum, state.acc, layout, accLayout);
    addUp(inner, state.sum, added);
    SmallVector<Value> results;
    for (ArrayRef<Value> part : {ArrayRef<Value>(raised.value), ArrayRef<Value>(state.sum), ArrayRef<Value>(state.acc),
                                 ArrayRef<Value>(packed)}) {
      llvm::append_range(results, part);
    }
    results.append({here.stage, here.parity});
    scf::YieldOp::create(inner, results);
  }
  split(rest.getResults());
  publish(b);
  state.acc = wait(b, 0, startOutput(b, packed, state.acc, state.position));
  release(b, state.position, /*isKey=*/false);
  state.position = emitter.advance(b, state.position);
  return state;
}

LogicalResult TeamEmitter::emitGroupLoop(const TileLoop &tiles) {
  scf::ForOp loop = tiles.loop;
  Consumer consumer(*this, tiles);
  if (failed(consumer.prepare(tiles)) || failed(emitProducerLoop(tiles))) {
    return failure();
  }
  Builder b(loop.getLoc(), loop);
  Consumer::State init;
  init.max = pullAll(b, loop.getInitArgs()[tiles.max], consumer.accLayout);
  init.sum = pullAll(b, loop.getInitArgs()[tiles.sum], consumer.accLayout);
  init.acc = pullAll(b, loop.getInitArgs()[tiles.acc], consumer.accLayout);
  init.position = roles->consumed;
  if (hasFailed()) {
    return failure();
  }
  auto flatten = [](const Consumer::State &state) {
    SmallVector<Value> values(state.max);
    llvm::append_range(values, state.sum);
    llvm::append_range(values, state.acc);
    values.append({state.position.stage, state.position.parity});
    return values;
  };
  finished(loop);
  SmallVector<Value> before = flatten(init);
  Value any = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, loop.getLowerBound(), loop.getUpperBound());
  auto branch = scf::IfOp::create(b, ValueRange(before).getTypes(), any, /*withElseRegion=*/true);
  Builder some = Builder::atBlockBegin(loop.getLoc(), branch.thenBlock());
  scf::YieldOp::create(some, flatten(consumer.emit(some, init)));
  Builder none = Builder::atBlockBegin(loop.getLoc(), branch.elseBlock());
  scf::YieldOp::create(none, before);
  if (hasFailed()) {
    return failure();
  }
  ValueRange after = branch.getResults();
  const Layout rowLayout = consumer.accLayout.project(Axis::Row).withoutReplicatedRegisters();
  auto hold = [&](unsigned result, const Layout &layout, size_t count) {
    fragments[loop.getResult(result)] = {layout, SmallVector<Value>(after.begin(), after.begin() + count)};
    after = after.drop_front(count);
  };
  hold(tiles.max, rowLayout, init.max.size());
  hold(tiles.sum, rowLayout, init.sum.size());
  hold(tiles.acc, consumer.accLayout, init.acc.size());
  roles->consumed = {after[0], after[1]};
  return leaveState(b, loop, loop.getResult(tiles.max), loop.getResult(tiles.sum), loop.getResult(tiles.acc));
}
