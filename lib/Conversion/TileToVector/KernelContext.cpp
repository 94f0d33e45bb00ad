//===- KernelContext.cpp - Memory of caches and batches in a kernel ------===//
#include "KernelContext.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;

static Value constant(ImplicitLocOpBuilder &b, int64_t value) { return arith::ConstantIndexOp::create(b, value); }

KernelContext::KernelContext(func::FuncOp kernel, const Target &target) : kernel(kernel), target(target) {
  Builder b(kernel.getContext());
  constexpr int64_t dynamic = ShapedType::kDynamic;
  auto bytes = MemRefType::get({dynamic}, b.getI8Type());
  auto words = MemRefType::get({dynamic}, b.getI32Type());
  auto wordRows = MemRefType::get({dynamic, dynamic}, b.getI32Type());
  Block &entry = kernel.getBody().front();
  // New arguments go before the old one, which stays until finish().
  for (unsigned i = 0; i < entry.getNumArguments();) {
    BlockArgument old = entry.getArgument(i);
    auto insert = [&](Type type) { return entry.insertArgument(i++, type, old.getLoc()); };
    if (auto cacheType = dyn_cast<CacheType>(old.getType())) {
      CacheMemory memory;
      memory.type = cacheType;
      memory.layout = computePageLayout(cacheType, target);
      memory.pages = insert(bytes);
      memory.table = insert(wordRows);
      memory.lengths = insert(words);
      memory.sealed = insert(words);
      memory.tails = insert(bytes);
      memory.tailTable = insert(words);
      caches[old] = memory;
    } else if (isa<BatchType>(old.getType())) {
      BatchMemory memory;
      memory.queryOffsets = insert(words);
      memory.sequences = insert(words);
      memory.positions = insert(words);
      batches[old] = memory;
    } else if (isa<SelectionType>(old.getType())) {
      SelectionMemory memory;
      memory.counts = insert(words);
      memory.entries = insert(wordRows);
      selections[old] = memory;
    }
    ++i;
  }
}

LogicalResult KernelContext::finish() {
  Block &entry = kernel.getBody().front();
  llvm::BitVector erase(entry.getNumArguments());
  for (BlockArgument argument : entry.getArguments()) {
    if (!isa<CacheType, BatchType, SelectionType>(argument.getType())) {
      continue;
    }
    if (!argument.use_empty()) {
      return argument.getUses().begin()->getOwner()->emitOpError()
             << "has no lowering to vectors yet: it still uses a value of type " << argument.getType();
    }
    erase.set(argument.getArgNumber());
  }
  entry.eraseArguments(erase);
  kernel.setFunctionType(FunctionType::get(kernel.getContext(), entry.getArgumentTypes(), {}));
  return success();
}

Value KernelContext::tableRow(ImplicitLocOpBuilder &b, const CacheMemory &cache, Value sequence, Value head) const {
  if (!cache.type.getPerHead()) {
    return sequence;
  }
  return arith::AddIOp::create(b, arith::MulIOp::create(b, sequence, constant(b, cache.type.getHeads())), head);
}

Value KernelContext::headBlock(ImplicitLocOpBuilder &b, const CacheMemory &cache, Value sequence, Value head,
                               Value slot) const {
  Value logical = arith::DivUIOp::create(b, slot, constant(b, cache.type.getPage()));
  Value entry = memref::LoadOp::create(b, cache.table, ValueRange{tableRow(b, cache, sequence, head), logical});
  Value page = arith::IndexCastOp::create(b, b.getIndexType(), entry);
  Value offset = arith::MulIOp::create(b, page, constant(b, cache.layout.pageBytes));
  if (cache.type.getPerHead()) {
    return offset;
  }
  return arith::AddIOp::create(b, offset, arith::MulIOp::create(b, head, constant(b, cache.layout.headBlockBytes)));
}

Value KernelContext::tailBlock(ImplicitLocOpBuilder &b, const CacheMemory &cache, Value sequence, Value head) const {
  Value entry = memref::LoadOp::create(b, cache.tailTable, ValueRange{tableRow(b, cache, sequence, head)});
  Value tail = arith::IndexCastOp::create(b, b.getIndexType(), entry);
  Value offset = arith::MulIOp::create(b, tail, constant(b, cache.layout.tailBytes));
  if (cache.type.getPerHead()) {
    return offset;
  }
  return arith::AddIOp::create(b, offset, arith::MulIOp::create(b, head, constant(b, cache.layout.tailHeadBytes)));
}

Value kvc::loadBytes(ImplicitLocOpBuilder &b, Value bytes, Value offset, Type type, int64_t count) {
  int64_t elementBytes = type.getIntOrFloatBitWidth() / 8;
  Value raw =
      vector::LoadOp::create(b, VectorType::get({count * elementBytes}, b.getI8Type()), bytes, ValueRange{offset});
  return vector::BitCastOp::create(b, VectorType::get({count}, type), raw);
}

void kvc::storeBytes(ImplicitLocOpBuilder &b, Value vector, Value bytes, Value offset) {
  auto type = cast<VectorType>(vector.getType());
  int64_t count = type.getNumElements() * type.getElementTypeBitWidth() / 8;
  Value raw = vector::BitCastOp::create(b, VectorType::get({count}, b.getI8Type()), vector);
  vector::StoreOp::create(b, raw, bytes, ValueRange{offset});
}
