//===- SlotOps.cpp - Batches, counters and numbers of slots ---------------===//
#include "Ix.h"
#include "KernelContext.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kvc;
using namespace kvc::tile;

/// Bytes of a position, score, norm or channel of a bound.
static constexpr int64_t numberBytes = 4;

static Value loadIndex(ImplicitLocOpBuilder &b, Value words, ValueRange at) {
  return arith::IndexCastOp::create(b, b.getIndexType(), memref::LoadOp::create(b, words, at));
}

static int64_t offsetOf(const PageLayout &layout, SlotPlane plane) {
  switch (plane) {
  case SlotPlane::Position:
    return layout.positions;
  case SlotPlane::Score:
    return layout.scores;
  case SlotPlane::Norm:
    return layout.norms;
  }
  llvm_unreachable("every plane has an offset");
}

/// Byte offset of a slot's number.
template <typename Op> static Value placeOfNumber(ImplicitLocOpBuilder &b, const KernelContext &context, Op op) {
  const CacheMemory &cache = context.cache(op.getCache());
  Ix block(b, context.headBlock(b, cache, op.getSequence(), op.getHead(), op.getSlot()));
  return (block + Ix(b, op.getSlot()) % cache.type.getPage() * numberBytes + offsetOf(cache.layout, op.getPlane()))
      .get();
}

/// Byte offset of a channel of a page's bound.
template <typename Op> static Value placeOfBound(ImplicitLocOpBuilder &b, const KernelContext &context, Op op) {
  const CacheMemory &cache = context.cache(op.getCache());
  Value slot = (Ix(b, op.getPage()) * cache.type.getPage()).get();
  Ix block(b, context.headBlock(b, cache, op.getSequence(), op.getHead(), slot));
  int64_t offset = op.getBound() == Bound::Min ? cache.layout.min : cache.layout.max;
  return (block + Ix(b, op.getChannel()) * numberBytes + offset).get();
}

/// The list of an entry and KV head in a selection.
template <typename Op> static Ix listOf(ImplicitLocOpBuilder &b, Op op) {
  return Ix(b, op.getEntry()) * static_cast<int64_t>(op.getHeads()) + Ix(b, op.getHead());
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
      .Case([&](LoadNumberOp op) {
        const CacheMemory &cache = context.cache(op.getCache());
        if (op.getPlane() == SlotPlane::Position && !cache.type.getStoredPositions()) {
          return replace(arith::IndexCastOp::create(b, op.getType(), op.getSlot()).getResult());
        }
        Value number = loadBytes(b, cache.pages, placeOfNumber(b, context, op), op.getType(), 1);
        return replace(vector::ExtractOp::create(b, number, ArrayRef<int64_t>{0}).getResult());
      })
      .Case([&](StoreNumberOp op) {
        Value number = vector::BroadcastOp::create(b, VectorType::get({1}, op.getValue().getType()), op.getValue());
        storeBytes(b, number, context.cache(op.getCache()).pages, placeOfNumber(b, context, op));
        return replace({});
      })
      .Case([&](LoadBoundOp op) {
        return replace(loadBytes(b, context.cache(op.getCache()).pages, placeOfBound(b, context, op), b.getF32Type(),
                                 op.getType().getNumElements()));
      })
      .Case([&](StoreBoundOp op) {
        storeBytes(b, op.getValue(), context.cache(op.getCache()).pages, placeOfBound(b, context, op));
        return replace({});
      })
      .Case([&](SelectionCountOp op) {
        Value list = listOf(b, op).get();
        return replace(loadIndex(b, context.selection(op.getSelection()).counts, list));
      })
      .Case([&](SelectionEntryOp op) {
        Value list = listOf(b, op).get();
        return replace(loadIndex(b, context.selection(op.getSelection()).entries, {list, op.getIndex()}));
      })
      .Default([&](Operation *op) { return lowerSlotValue(op, context); });
}
