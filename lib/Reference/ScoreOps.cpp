//===- ScoreOps.cpp - Operations on scores, in the oracle -----------------===//
//
// map_scores and threshold. Docs: their pages in docs/spec.
//
//===----------------------------------------------------------------------===//
#include "Internal.h"

#include "llvm/ADT/TypeSwitch.h"
#include <limits>

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;
using namespace kvc::reference;

static constexpr double infinity = std::numeric_limits<double>::infinity();

static LogicalResult evalMapScores(Evaluator &evaluator, MapScoresOp op, Operands operands, Results &results) {
  const SmallVector<int64_t> &shape = operands[0].asTensor().shape;
  for (auto [i, operand] : llvm::enumerate(operands)) {
    if (operand.asTensor().shape != shape) {
      return op.emitOpError() << "expects operands of one shape, but got [" << ArrayRef(shape) << "] and, as operand "
                              << i << ", [" << ArrayRef(operand.asTensor().shape) << "]";
    }
  }
  Tensor out = Tensor::filled(shape, -infinity);
  for (int64_t i = 0; i < out.size(); ++i) {
    SmallVector<Datum> scores;
    bool exists = true;
    for (const Datum &operand : operands) {
      const double score = operand.asTensor().floats[i];
      exists = exists && score != -infinity;
      scores.push_back(score);
    }
    if (!exists) {
      continue;
    }
    FailureOr<SmallVector<Datum>> yielded = evaluator.runBlock(op.getBody().front(), scores);
    if (failed(yielded)) {
      return failure();
    }
    out.floats[i] = yielded->front().asFloat();
  }
  results.push_back(std::move(out));
  return success();
}

static LogicalResult evalThreshold(ThresholdOp op, Operands operands, Results &results) {
  const Tensor &scores = operands[0].asTensor();
  const Cache &cache = operands[1].asCache();
  const Batch &batch = operands[2].asBatch();
  if (failed(checkBatch(op, batch, nullptr, &cache)) || failed(checkScores(op, scores, batch, cache, op.getUnit()))) {
    return failure();
  }
  const double value = getFloatOr(op.getValue(), 0);
  const int64_t first = getInt(op.getFirst()), last = getInt(op.getLast());
  Selection selection;
  selection.unit = op.getUnit();
  selection.heads = cache.type.getHeads();
  for (int64_t entry = 0; entry < batch.entries(); ++entry) {
    for (int64_t head = 0; head < selection.heads; ++head) {
      const int64_t count = unitsOf(cache, op.getUnit(), batch.sequences[entry], head);
      std::vector<int64_t> &list = selection.lists.emplace_back();
      for (int64_t i = 0; i < count; ++i) {
        if (i < first || i >= count - last || scores.at({entry, head, i}) >= value) {
          list.push_back(i);
        }
      }
    }
  }
  results.push_back(std::move(selection));
  return success();
}

LogicalResult reference::evalScores(Evaluator &evaluator, Operation *op, Operands operands, Results &results) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](MapScoresOp mapOp) { return evalMapScores(evaluator, mapOp, operands, results); })
      .Case([&](ThresholdOp thresholdOp) { return evalThreshold(thresholdOp, operands, results); })
      .Default([](Operation *other) { return unknownOperation(other); });
}
