//===- SlotOps.cpp - Batches, counters and single slots -------------------===//
#include "KernelContext.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kvc;
using namespace kvc::tile;

static Value loadIndex(ImplicitLocOpBuilder &b, Value words, ValueRange at) {
  return arith::IndexCastOp::create(b, b.getIndexType(), memref::LoadOp::create(b, words, at));
}

FailureOr<bool> kvc::lowerSlotOp(Operation *op, KernelContext &context) {
  ImplicitLocOpBuilder b(op->getLoc(), op);
  auto replace = [&](ValueRange values) {
    op->replaceAllUsesWith(values);
    op->erase();
    return true;
  };
  return llvm::TypeSwitch<Operation *, FailureOr<bool>>(op)
      .Case([&](EntriesOp op) {
        Value n = memref::DimOp::create(b, context.batch(op.getBatch()).sequences, 0);
        return replace(n);
      })
      .Case([&](QueryRangeOp op) {
        Value offsets = context.batch(op.getBatch()).queryOffsets;
        Value next = arith::AddIOp::create(b, op.getEntry(), arith::ConstantIndexOp::create(b, 1));
        return replace({loadIndex(b, offsets, op.getEntry()), loadIndex(b, offsets, next)});
      })
      .Case([&](SequenceOp op) { return replace(loadIndex(b, context.batch(op.getBatch()).sequences, op.getEntry())); })
      .Case([&](PositionOp op) { return replace(loadIndex(b, context.batch(op.getBatch()).positions, op.getRow())); })
      .Case([&](CounterOp op) {
        const CacheMemory &cache = context.cache(op.getCache());
        Value row = context.tableRow(b, cache, op.getSequence(), op.getHead());
        return replace(loadIndex(b, op.getCounter() == Counter::Length ? cache.lengths : cache.sealed, row));
      })
      .Case([&](SetCounterOp op) {
        const CacheMemory &cache = context.cache(op.getCache());
        Value row = context.tableRow(b, cache, op.getSequence(), op.getHead());
        Value word = arith::IndexCastOp::create(b, b.getI32Type(), op.getValue());
        memref::StoreOp::create(b, word, op.getCounter() == Counter::Length ? cache.lengths : cache.sealed,
                                ValueRange{row});
        return replace({});
      })
      .Case([&](SelectedCountOp op) {
        return replace(loadIndex(b, context.selection(op.getSelection()).counts, op.getList()));
      })
      .Case([&](SelectedOp op) {
        return replace(loadIndex(b, context.selection(op.getSelection()).entries, {op.getList(), op.getIndex()}));
      })
      .Default([](Operation *) { return false; });
}
