//===- AttentionStats.cpp - Statistics of attention probabilities --------===//
#include "Lowerings.h"

using namespace mlir;
using namespace kvc;

FailureOr<Value> kvc::lowerAttentionStats(kvcache::AttentionOp op, ImplicitLocOpBuilder &host,
                                          tile::ScheduleAttr schedule, Value lse) {
  return op.emitOpError() << "has no lowering of score statistics yet";
}
