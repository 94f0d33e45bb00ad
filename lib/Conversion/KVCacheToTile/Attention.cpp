//===- Attention.cpp - attention becomes plan, tiles and merge ------------===//
#include "Lowerings.h"

using namespace mlir;
using namespace kvc;

FailureOr<Replacements> kvc::lowerAttention(kvcache::AttentionOp op, ImplicitLocOpBuilder &host) {
  return op.emitOpError() << "has no lowering yet";
}
