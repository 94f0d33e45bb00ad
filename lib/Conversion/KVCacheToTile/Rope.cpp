//===- Rope.cpp - kvcache.rope --------------------------------------------===//
#include "../Utils/Rotation.h"
#include "Lowerings.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;

FailureOr<Replacements> kvc::lowerRope(RopeOp op, ImplicitLocOpBuilder &host) {
  auto type = cast<RankedTensorType>(op.getInput().getType());
  const int64_t heads = type.getDimSize(1), channels = type.getDimSize(2);
  Value rows = tile::RowsOp::create(host, op.getBatch());
  Value out = createEmpty(host, type, type.isDynamicDim(0) ? ValueRange{rows} : ValueRange{});
  KernelBuilder kernel(host, "rope", {op.getInput(), op.getBatch()}, {out});
  ImplicitLocOpBuilder &b = kernel.body;
  RopeAngles angles = createRopeAngles(b, op.getRope(), tile::PositionOp::create(b, kernel.input(1), kernel.item));
  Value zero = createIndex(b, 0);
  createFor(b, zero, createIndex(b, heads), [&](Value head) {
    SmallVector<Value> place{kernel.item, head, zero};
    Value x = vector::LoadOp::create(b, VectorType::get({channels}, b.getF32Type()), kernel.input(0), place);
    vector::StoreOp::create(b, createRotation(b, op.getRope(), x, angles), kernel.output(0), place);
  });
  return Replacements(kernel.dispatch(rows));
}
