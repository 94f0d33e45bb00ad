//===- Dense.cpp - Between caches and dense tensors -----------------------===//
//
// export, and merge_states, which is on dense tensors alone.
//
//===----------------------------------------------------------------------===//
#include "Lowerings.h"
#include "SlotWriter.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <limits>

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;
using namespace kvc::tile;

/// Slots of one work item.
static constexpr int64_t exportBlock = 64;

FailureOr<Replacements> kvc::lowerExport(ExportOp op, ImplicitLocOpBuilder &host) {
  auto cacheType = cast<CacheType>(op.getCache().getType());
  auto type = cast<RankedTensorType>(op.getResult().getType());
  const bool nhd = op.getLayout() == DenseLayout::NHD;
  const int64_t slotAxis = nhd ? 1 : 2;
  Value batch = op.getBatch();
  Value entries = EntriesOp::create(host, batch);
  Value extent = type.isDynamicDim(slotAxis) ? Value(MaxLengthOp::create(host, op.getCache(), batch))
                                             : createIndex(host, type.getDimSize(slotAxis));
  SmallVector<Value> sizes;
  for (int64_t axis = 0; axis < type.getRank(); ++axis) {
    if (type.isDynamicDim(axis)) {
      sizes.push_back(axis == 0 ? entries : extent);
    }
  }
  KernelBuilder kernel(host, "export", {op.getCache(), batch, extent}, {createEmpty(host, type, sizes)});
  ImplicitLocOpBuilder &b = kernel.body;
  Value size = createIndex(b, exportBlock), blocks = arith::CeilDivUIOp::create(b, kernel.input(2), size);
  Value list = arith::DivUIOp::create(b, kernel.item, blocks), block = arith::RemUIOp::create(b, kernel.item, blocks);
  Table table = createTable(b, kernel.input(1), kernel.input(0), list);
  Value length = CounterOp::create(b, Counter::Length, table.cache, table.sequence, table.head);
  Value sealed = createSealed(b, table), zero = createIndex(b, 0);
  auto row = VectorType::get({cacheType.getDim(op.getPlane())}, b.getF32Type());
  Value from = createMul(b, block, size), to = arith::MinUIOp::create(b, createAdd(b, from, size), kernel.input(2));
  createFor(b, from, to, [&](Value slot) {
    Value exists = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, slot, length);
    Value x = createIf(
        b, row, exists, [&] { return createStoredRow(b, table, op.getPlane(), slot, sealed); },
        [&] { return arith::ConstantOp::create(b, b.getZeroAttr(row)); });
    SmallVector<Value> place{table.entry, nhd ? slot : table.head, nhd ? table.head : slot, zero};
    vector::StoreOp::create(b, x, kernel.output(0), place);
  });
  Value lists = createMul(host, entries, createIndex(host, cacheType.getHeads()));
  return Replacements(kernel.dispatch(
      createMul(host, lists, arith::CeilDivUIOp::create(host, extent, createIndex(host, exportBlock)))));
}

FailureOr<Replacements> kvc::lowerMergeStates(MergeStatesOp op, ImplicitLocOpBuilder &host) {
  auto outType = cast<RankedTensorType>(op.getOut().getType());
  auto lseType = cast<RankedTensorType>(op.getLse().getType());
  Value rows = tensor::DimOp::create(host, op.getStates()[0], 0);
  auto empty = [&](RankedTensorType type) {
    return createEmpty(host, type, type.isDynamicDim(0) ? ValueRange{rows} : ValueRange{});
  };
  KernelBuilder kernel(host, "merge_states", op.getStates(), {empty(outType), empty(lseType)});
  ImplicitLocOpBuilder &b = kernel.body;
  const size_t states = op.getStates().size() / 2;
  auto row = VectorType::get({outType.getDimSize(2)}, b.getF32Type());
  Value zero = createIndex(b, 0);
  auto number = [&](float x) -> Value { return arith::ConstantOp::create(b, b.getF32FloatAttr(x)); };
  createFor(b, zero, createIndex(b, outType.getDimSize(1)), [&](Value head) {
    SmallVector<Value> place{kernel.item, head}, outPlace{kernel.item, head, zero};
    SmallVector<Value> lses;
    Value none = number(-std::numeric_limits<float>::infinity()), top = none;
    for (size_t s = 0; s < states; ++s) {
      lses.push_back(memref::LoadOp::create(b, kernel.input(2 * s + 1), place));
      top = arith::MaximumFOp::create(b, top, lses.back());
    }
    // A row that saw no key anywhere: out = 0, lse = -inf.
    Value seen = arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, top, none);
    Value shift = arith::SelectOp::create(b, seen, top, number(0));
    Value total = number(0), sum = arith::ConstantOp::create(b, b.getZeroAttr(row));
    for (size_t s = 0; s < states; ++s) {
      Value weight = math::ExpOp::create(b, arith::SubFOp::create(b, lses[s], shift));
      total = arith::AddFOp::create(b, total, weight);
      // A state of no keys has weight 0, whatever its out holds.
      Value counts = arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, weight, number(0));
      Value x = vector::LoadOp::create(b, row, kernel.input(2 * s), outPlace);
      x = arith::MulFOp::create(b, x, vector::BroadcastOp::create(b, row, weight));
      sum = arith::SelectOp::create(b, counts, arith::AddFOp::create(b, sum, x), sum);
    }
    Value divisor = arith::SelectOp::create(b, seen, total, number(1));
    Value out = arith::DivFOp::create(b, sum, vector::BroadcastOp::create(b, row, divisor));
    Value lse = arith::AddFOp::create(b, shift, math::LogOp::create(b, divisor));
    vector::StoreOp::create(b, out, kernel.output(0), outPlace);
    memref::StoreOp::create(b, arith::SelectOp::create(b, seen, lse, none), kernel.output(1), place);
  });
  return Replacements(kernel.dispatch(rows));
}
