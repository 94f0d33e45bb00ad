//===- Turns.cpp - Turns of loops over a warp's lanes ---------------------===//
#include "Turns.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;
using namespace kvc;

/// The sum of numbers of 32 bits over all lanes, in each of them.
static Value sumOverLanes(ImplicitLocOpBuilder &b, Value sum, int64_t lanes) {
  auto word = [&](int64_t value) { return arith::ConstantIntOp::create(b, value, 32); };
  for (int64_t distance = lanes / 2; distance >= 1; distance /= 2) {
    auto moved = gpu::ShuffleOp::create(b, sum, word(distance), word(lanes), gpu::ShuffleMode::XOR);
    sum = arith::AddIOp::create(b, sum, moved.getShuffleResult());
  }
  return sum;
}

static LogicalResult spread(scf::ParallelOp loop, int64_t lanes) {
  auto reduce = cast<scf::ReduceOp>(loop.getBody()->getTerminator());
  auto isSum = [](Region &region) {
    Operation &first = region.front().front();
    return isa<arith::AddIOp>(first) && first.getResult(0).getType().isInteger(32) &&
           region.front().getTerminator() == first.getNextNode();
  };
  if (loop.getNumLoops() != 1 || !llvm::all_of(reduce.getReductions(), isSum) ||
      !llvm::all_of(loop.getInitVals(), [](Value value) { return isConstantIntValue(value, 0); })) {
    return loop.emitOpError()
           << "has no lowering to lanes of a warp yet: expects one loop that adds numbers of 32 bits up from 0";
  }
  ImplicitLocOpBuilder b(loop.getLoc(), loop);
  Value step = loop.getStep()[0], lane = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
  Value first = arith::AddIOp::create(b, loop.getLowerBound()[0], arith::MulIOp::create(b, lane, step));
  Value stride = arith::MulIOp::create(b, step, arith::ConstantIndexOp::create(b, lanes));
  auto made = scf::ForOp::create(b, first, loop.getUpperBound()[0], stride, loop.getInitVals());
  loop.getInductionVars()[0].replaceAllUsesWith(made.getInductionVar());
  Block &body = *made.getBody(), &old = *loop.getBody();
  if (body.mightHaveTerminator()) {
    body.getTerminator()->erase();
  }
  body.getOperations().splice(body.end(), old.getOperations(), old.begin(), Block::iterator(reduce));
  SmallVector<Value> sums;
  b.setInsertionPointToEnd(&body);
  for (auto [sum, more] : llvm::zip_equal(made.getRegionIterArgs(), reduce.getOperands())) {
    sums.push_back(arith::AddIOp::create(b, sum, more));
  }
  scf::YieldOp::create(b, sums);
  b.setInsertionPoint(loop);
  for (auto [sum, result] : llvm::zip_equal(made.getResults(), loop.getResults())) {
    result.replaceAllUsesWith(sumOverLanes(b, sum, lanes));
  }
  loop.erase();
  return success();
}

LogicalResult kvc::spreadTurns(func::FuncOp kernel, const TeamFacts &facts) {
  SmallVector<scf::ParallelOp> loops;
  kernel.walk([&](scf::ParallelOp loop) { loops.push_back(loop); });
  for (scf::ParallelOp loop : loops) {
    if (failed(spread(loop, facts.lanes))) {
      return failure();
    }
  }
  return success();
}
