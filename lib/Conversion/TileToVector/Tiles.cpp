//===- Tiles.cpp - Tiles in memory and lazy expressions of tiles ---------===//
#include "TileEmitter.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace kvc;

static bool isTile(Type type) { return isa<VectorType>(type); }

LogicalResult kvc::lowerTiles(KernelContext &context) { return TileEmitter(context).run(); }

LogicalResult TileEmitter::run() {
  // Kernels on single slots have vectors of their own, which are no tiles.
  WalkResult hasTiles = context.kernel.walk([](Operation *op) {
    return isa<tile::MmaOp, tile::LoadRowsOp, tile::SoftmaxStepOp>(op) ? WalkResult::interrupt()
                                                                       : WalkResult::advance();
  });
  if (!hasTiles.wasInterrupted()) {
    return success();
  }
  if (failed(emitBlock(context.kernel.getBody().front()))) {
    return failure();
  }
  // Lazy expressions have been pulled; what is left of them has no users but each other.
  for (Operation *op : llvm::reverse(done)) {
    op->erase();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Value TileEmitter::allocate(ArrayRef<int64_t> shape, Type element) {
  return memref::AllocaOp::create(entry, MemRefType::get(shape, element), entry.getI64IntegerAttr(64));
}

Value TileEmitter::materialize(Builder &b, Value tile) {
  if (Value buffer = bufferOf(tile)) {
    return buffer;
  }
  Value buffer = allocateTile(cast<VectorType>(tile.getType()));
  copyInto(b, tile, buffer);
  setBuffer(tile, buffer);
  return buffer;
}

Value TileEmitter::allocateTile(VectorType type) {
  SmallVector<int64_t> shape(type.getShape());
  shape.back() = padded(shape.back());
  return allocate(shape, type.getElementType());
}

void TileEmitter::copyInto(Builder &b, Value tile, Value buffer) {
  auto type = cast<VectorType>(tile.getType());
  if (type.getRank() == 1) {
    forRows(b, type.getDimSize(0),
            [&](Builder &b, Value row) { memref::StoreOp::create(b, pullRow(b, tile, row), buffer, ValueRange{row}); });
    return;
  }
  Value pairBuffer = pairsOf(tile);
  forRows(b, type.getDimSize(0), [&](Builder &b, Value row) {
    for (int64_t block = 0; block < blocksOf(type.getDimSize(1)); ++block) {
      Value values = pull(b, tile, row, block);
      vector::StoreOp::create(b, values, buffer, ValueRange{row, indexOf(b, block * lanes)});
      if (pairBuffer) {
        storePairs(b, pairBuffer, row, block, values);
      }
    }
  });
}

bool TileEmitter::wantsPairs(Value tile) {
  bool wants = false;
  forPartners(tile, [&](const PageOperand &operand) { wants |= operand.isPairs(); });
  return wants;
}

void TileEmitter::prepareFirstOperand(Builder &b, Value tile) {
  forPartners(tile, [&](const PageOperand &operand) {
    // Zeros of keys meet the sum of the query's channels in their group.
    if (operand.access != Access::Codes || !operand.isKey() || !operand.isGrouped(kvcache::Axis::Token) ||
        operand.layout->zeros < 0) {
      return;
    }
    int64_t group = operand.layout->format.getGroup(), rows = cast<VectorType>(tile.getType()).getDimSize(0);
    Value &sums = groupSums[{tile, group}];
    if (sums) {
      return;
    }
    sums = allocate({rows, operand.channelGroups()}, b.getF32Type());
    VectorType columns = VectorType::get({group}, b.getF32Type());
    forRows(b, rows, [&](Builder &b, Value row) {
      for (int64_t g = 0; g < operand.channelGroups(); ++g) {
        Value values = vector::LoadOp::create(b, columns, bufferOf(tile), ValueRange{row, indexOf(b, g * group)});
        Value sum = vector::ReductionOp::create(b, vector::CombiningKind::ADD, values);
        memref::StoreOp::create(b, sum, sums, ValueRange{row, indexOf(b, g)});
      }
    });
  });
}

Value TileEmitter::allocatePairs(Value tile) {
  auto type = cast<VectorType>(tile.getType());
  Value buffer = allocate({type.getDimSize(0), padded(type.getDimSize(1)) / 2}, entry.getI32Type());
  pairs[tile] = buffer;
  return buffer;
}

void TileEmitter::storePairs(Builder &b, Value buffer, Value row, int64_t block, Value values) {
  Value narrow = arith::TruncFOp::create(b, laneType(b.getBF16Type()), values);
  Value words = vector::BitCastOp::create(b, VectorType::get({lanes / 2}, b.getI32Type()), narrow);
  vector::StoreOp::create(b, words, buffer, ValueRange{row, indexOf(b, block * lanes / 2)});
}

//===----------------------------------------------------------------------===//
// Lazy expressions
//===----------------------------------------------------------------------===//

Value TileEmitter::cloneElementwise(Builder &b, Operation *op, ValueRange operands,
                                    llvm::function_ref<Type(Type)> retype) {
  OperationState state(op->getLoc(), op->getName());
  state.addOperands(operands);
  state.addTypes(retype(op->getResult(0).getType()));
  state.addAttributes(op->getAttrs());
  return b.create(state)->getResult(0);
}

static Value constantOf(ImplicitLocOpBuilder &b, Attribute value, Type type) {
  if (auto vector = dyn_cast<VectorType>(type)) {
    return arith::ConstantOp::create(b, DenseElementsAttr::get(vector, value));
  }
  return arith::ConstantOp::create(b, cast<TypedAttr>(value));
}

Value TileEmitter::pull(Builder &b, Value tile, Value row, int64_t block) {
  auto type = cast<VectorType>(tile.getType());
  Type element = type.getElementType();
  if (Value buffer = bufferOf(tile)) {
    return vector::LoadOp::create(b, laneType(element), buffer, ValueRange{row, indexOf(b, block * lanes)});
  }
  Operation *op = tile.getDefiningOp();
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    return constantOf(b, cast<DenseElementsAttr>(constant.getValue()).getSplatValue<Attribute>(), laneType(element));
  }
  if (auto broadcast = dyn_cast<vector::BroadcastOp>(op)) {
    Value source = broadcast.getSource();
    auto sourceType = dyn_cast<VectorType>(source.getType());
    // Of a tile with one row, stock folders write the one element of that row as vector<1>, without a shape cast.
    const bool isOneRow = sourceType && sourceType.getNumElements() == 1 && type.getDimSize(1) != 1;
    if (isOneRow && sourceType.getRank() == 1) {
      source = pullRow(b, source, row);
    } else if (sourceType && sourceType.getRank() == 1) {
      return pullColumns(b, source, block);
    } else if (sourceType) {
      // vector<M x 1>: one element for each row.
      source = pullRow(b, source, row);
    }
    return vector::BroadcastOp::create(b, laneType(element), source);
  }
  SmallVector<Value> parts;
  for (Value operand : op->getOperands()) {
    parts.push_back(isTile(operand.getType()) ? pull(b, operand, row, block) : operand);
  }
  return cloneElementwise(b, op, parts, [&](Type t) { return laneType(cast<VectorType>(t).getElementType()); });
}

Value TileEmitter::pullRow(Builder &b, Value tile, Value row) {
  if (Value buffer = bufferOf(tile)) {
    return memref::LoadOp::create(b, buffer, ValueRange{row});
  }
  Operation *op = tile.getDefiningOp();
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto dense = cast<DenseElementsAttr>(constant.getValue());
    Type element = dense.getElementType();
    if (dense.isSplat()) {
      return constantOf(b, dense.getSplatValue<Attribute>(), element);
    }
    Value buffer = allocate({dense.getNumElements()}, element);
    for (auto [i, value] : llvm::enumerate(dense.getValues<Attribute>())) {
      memref::StoreOp::create(entry, constantOf(entry, value, element), buffer,
                              ValueRange{indexOf(entry, static_cast<int64_t>(i))});
    }
    setBuffer(tile, buffer);
    return memref::LoadOp::create(b, buffer, ValueRange{row});
  }
  if (auto broadcast = dyn_cast<vector::BroadcastOp>(op)) {
    return broadcast.getSource();
  }
  if (auto column = dyn_cast<vector::ShapeCastOp>(op)) {
    return pullRow(b, column.getSource(), row);
  }
  SmallVector<Value> parts;
  for (Value operand : op->getOperands()) {
    parts.push_back(isTile(operand.getType()) ? pullRow(b, operand, row) : operand);
  }
  return cloneElementwise(b, op, parts, [](Type t) { return cast<VectorType>(t).getElementType(); });
}

Value TileEmitter::pullColumns(Builder &b, Value tile, int64_t block) {
  Type element = cast<VectorType>(tile.getType()).getElementType();
  if (Value buffer = bufferOf(tile)) {
    return vector::LoadOp::create(b, laneType(element), buffer, ValueRange{indexOf(b, block * lanes)});
  }
  Operation *op = tile.getDefiningOp();
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto dense = cast<DenseElementsAttr>(constant.getValue());
    if (dense.isSplat()) {
      return constantOf(b, dense.getSplatValue<Attribute>(), laneType(element));
    }
    SmallVector<Attribute> values;
    for (int64_t i = 0; i < lanes; ++i) {
      // Columns past the end repeat the last one.
      int64_t column = std::min<int64_t>(block * lanes + i, dense.getNumElements() - 1);
      values.push_back(dense.getValues<Attribute>()[column]);
    }
    return arith::ConstantOp::create(b, DenseElementsAttr::get(laneType(element), values));
  }
  if (auto broadcast = dyn_cast<vector::BroadcastOp>(op)) {
    return vector::BroadcastOp::create(b, laneType(element), broadcast.getSource());
  }
  SmallVector<Value> parts;
  for (Value operand : op->getOperands()) {
    parts.push_back(isTile(operand.getType()) ? pullColumns(b, operand, block) : operand);
  }
  return cloneElementwise(b, op, parts, [&](Type t) { return laneType(cast<VectorType>(t).getElementType()); });
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

void TileEmitter::forRange(Builder &b, Value begin, Value end, int64_t step,
                           llvm::function_ref<void(Builder &, Value)> body) {
  auto loop = scf::ForOp::create(b, begin, end, indexOf(b, step));
  Builder inner = Builder::atBlockBegin(b.getLoc(), loop.getBody());
  body(inner, loop.getInductionVar());
}

void TileEmitter::forRows(Builder &b, int64_t rows, llvm::function_ref<void(Builder &, Value)> body) {
  if (rows == 1) {
    return body(b, Value(indexOf(b, 0)));
  }
  forRange(b, indexOf(b, 0), indexOf(b, rows), 1, body);
}

void TileEmitter::forLaneBlocks(Builder &b, int64_t columns, llvm::function_ref<void(Builder &, Value)> body) {
  constexpr int64_t unrolled = 8;
  if (blocksOf(columns) > unrolled) {
    return forRange(b, indexOf(b, 0), indexOf(b, padded(columns)), lanes, body);
  }
  for (int64_t column = 0; column < columns; column += lanes) {
    body(b, indexOf(b, column));
  }
}

LogicalResult TileEmitter::emitBlock(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (failed(emitOp(&op))) {
      return failure();
    }
  }
  return success();
}

/// Tiles that a loop carries live in one place for the whole loop.
LogicalResult TileEmitter::emitLoop(scf::ForOp loop) {
  if (!llvm::all_of(loop.getResultTypes(), isTile)) {
    return loop.emitOpError() << "expects a loop of a kernel to carry tiles alone, but got " << loop.getResultTypes();
  }
  Builder b(loop.getLoc(), loop);
  SmallVector<Value> carried;
  for (auto [init, argument, result] : llvm::zip(loop.getInitArgs(), loop.getRegionIterArgs(), loop.getResults())) {
    // A tile that nobody else reads again may be changed in place.
    Value buffer;
    if (bufferOf(init) && init.hasOneUse()) {
      buffer = bufferOf(init);
    } else {
      buffer = allocateTile(cast<VectorType>(init.getType()));
      copyInto(b, init, buffer);
    }
    setBuffer(argument, buffer);
    setBuffer(result, buffer);
    carried.push_back(buffer);
  }
  auto plain = scf::ForOp::create(b, loop.getLowerBound(), loop.getUpperBound(), loop.getStep());
  Block &body = *plain.getBody();
  loop.getInductionVar().replaceAllUsesWith(plain.getInductionVar());
  Operation *yield = loop.getBody()->getTerminator();
  body.getOperations().splice(Block::iterator(body.getTerminator()), loop.getBody()->getOperations(),
                              loop.getBody()->begin(), Block::iterator(yield));
  done.push_back(loop);
  if (failed(emitBlock(body))) {
    return failure();
  }
  Builder end(loop.getLoc(), body.getTerminator());
  for (auto [value, buffer] : llvm::zip(yield->getOperands(), carried)) {
    if (bufferOf(value) != buffer) {
      copyInto(end, value, buffer);
    }
  }
  // The old loop goes after what it still speaks of.
  yield->setOperands(loop.getInitArgs());
  return success();
}

LogicalResult TileEmitter::emitOp(Operation *op) {
  Builder b(op->getLoc(), op);
  auto finished = [&] {
    done.push_back(op);
    return success();
  };
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    return loop.getNumResults() ? emitLoop(loop) : emitBlock(*loop.getBody());
  }
  if (auto branch = dyn_cast<scf::IfOp>(op)) {
    for (Region &region : branch->getRegions()) {
      if (!region.empty() && failed(emitBlock(region.front()))) {
        return failure();
      }
    }
    return success();
  }
  if (auto load = dyn_cast<tile::LoadRowsOp>(op)) {
    return emitLoadRows(load), finished();
  }
  if (auto store = dyn_cast<tile::StoreRowsOp>(op)) {
    return emitStoreRows(store), finished();
  }
  if (auto positions = dyn_cast<tile::RowPositionsOp>(op)) {
    return emitRowPositions(positions), finished();
  }
  if (auto positions = dyn_cast<tile::SlotPositionsOp>(op)) {
    return emitSlotPositions(positions), finished();
  }
  if (auto heads = dyn_cast<tile::LoadHeadsOp>(op)) {
    return emitLoadHeads(heads), finished();
  }
  if (auto mask = dyn_cast<tile::LoadMaskOp>(op)) {
    return emitLoadMask(mask), finished();
  }
  if (auto store = dyn_cast<tile::StoreSlotNumbersOp>(op)) {
    return emitStoreSlotNumbers(store), finished();
  }
  if (auto reduction = dyn_cast<vector::MultiDimReductionOp>(op)) {
    return emitColumnReduction(reduction), finished();
  }
  if (auto operand = dyn_cast<tile::OperandOp>(op)) {
    return emitOperand(operand), finished();
  }
  if (auto operand = dyn_cast<tile::GatherOperandOp>(op)) {
    return emitGatherOperand(operand), finished();
  }
  if (auto positions = dyn_cast<tile::GatherPositionsOp>(op)) {
    return emitGatherPositions(positions), finished();
  }
  if (auto mma = dyn_cast<tile::MmaOp>(op)) {
    return failed(emitMma(mma)) ? failure() : finished();
  }
  if (auto step = dyn_cast<tile::SoftmaxStepOp>(op)) {
    return emitSoftmaxStep(step), finished();
  }
  if (auto finish = dyn_cast<tile::SoftmaxFinishOp>(op)) {
    return emitSoftmaxFinish(finish), finished();
  }
  bool lazy =
      op->hasTrait<OpTrait::Elementwise>() || isa<vector::BroadcastOp, vector::ShapeCastOp, arith::ConstantOp>(op);
  if (op->getNumResults() != 1 || !isTile(op->getResult(0).getType()) || !lazy) {
    return success();
  }
  // The first operand of a product must lie in memory before the loops that use it.
  Value result = op->getResult(0);
  if (llvm::any_of(result.getUsers(), [&](Operation *user) {
        auto mma = dyn_cast<tile::MmaOp>(user);
        return mma && mma.getA() == result;
      })) {
    if (wantsPairs(result)) {
      allocatePairs(result);
    }
    Builder after(op->getLoc(), op->getContext());
    after.setInsertionPointAfter(op);
    materialize(after, result);
    prepareFirstOperand(after, result);
  }
  return finished();
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// Loads `count` <= lanes elements at `indices`, zeros behind them.
static Value loadPadded(ImplicitLocOpBuilder &b, Value memory, ValueRange indices, VectorType type, int64_t count) {
  if (count == type.getDimSize(0)) {
    return vector::LoadOp::create(b, type, memory, indices);
  }
  Value part = vector::LoadOp::create(b, VectorType::get({count}, type.getElementType()), memory, indices);
  Value zero = arith::ConstantOp::create(b, b.getZeroAttr(type));
  return vector::InsertStridedSliceOp::create(b, part, zero, ArrayRef<int64_t>{0}, ArrayRef<int64_t>{1});
}

static void storeTrimmed(ImplicitLocOpBuilder &b, Value values, Value memory, ValueRange indices, int64_t count) {
  if (count != cast<VectorType>(values.getType()).getDimSize(0)) {
    values = vector::ExtractStridedSliceOp::create(b, values, ArrayRef<int64_t>{0}, ArrayRef<int64_t>{count},
                                                   ArrayRef<int64_t>{1});
  }
  vector::StoreOp::create(b, values, memory, indices);
}

void TileEmitter::emitLoadRows(tile::LoadRowsOp op) {
  Builder b(op.getLoc(), op);
  VectorType type = op.getResult().getType();
  int64_t rows = type.getDimSize(0), group = op.getGroup();
  if (type.getRank() == 1) {
    Value buffer = allocateTile(type);
    setBuffer(op.getResult(), buffer);
    forRange(b, indexOf(b, 0), op.getCount(), 1, [&](Builder &b, Value token) {
      forRows(b, group, [&](Builder &b, Value g) {
        Value x =
            memref::LoadOp::create(b, op.getSource(), ValueRange{add(b, op.getRow(), token), add(b, op.getHead(), g)});
        memref::StoreOp::create(b, x, buffer, ValueRange{add(b, mul(b, token, group), g)});
      });
    });
    forRange(b, mul(b, op.getCount(), group), indexOf(b, rows), 1,
             [&](Builder &b, Value row) { memref::StoreOp::create(b, floatOf(b, 0.0f), buffer, ValueRange{row}); });
    return;
  }
  int64_t columns = type.getDimSize(1);
  Value buffer = allocate({rows, padded(columns)}, b.getF32Type());
  setBuffer(op.getResult(), buffer);
  Value pairBuffer = wantsPairs(op.getResult()) ? allocatePairs(op.getResult()) : Value();
  VectorType lane = laneType(b.getF32Type());
  forRows(b, rows / group, [&](Builder &b, Value token) {
    Value exists = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, token, op.getCount());
    auto branch = scf::IfOp::create(b, exists, /*withElseRegion=*/true);
    Builder then = Builder::atBlockBegin(b.getLoc(), branch.thenBlock());
    Builder otherwise = Builder::atBlockBegin(b.getLoc(), branch.elseBlock());
    for (auto *inner : {&then, &otherwise}) {
      bool present = inner == &then;
      forRows(*inner, group, [&](Builder &b, Value g) {
        Value row = add(b, mul(b, token, group), g);
        for (int64_t block = 0; block < blocksOf(columns); ++block) {
          int64_t count = std::min(lanes, columns - block * lanes);
          Value values =
              present ? loadPadded(b, op.getSource(),
                                   {add(b, op.getRow(), token), add(b, op.getHead(), g), indexOf(b, block * lanes)},
                                   lane, count)
                      : arith::ConstantOp::create(b, b.getZeroAttr(lane)).getResult();
          vector::StoreOp::create(b, values, buffer, ValueRange{row, indexOf(b, block * lanes)});
          if (pairBuffer) {
            storePairs(b, pairBuffer, row, block, values);
          }
        }
      });
    }
  });
  prepareFirstOperand(b, op.getResult());
}

void TileEmitter::emitStoreRows(tile::StoreRowsOp op) {
  Builder b(op.getLoc(), op);
  Value buffer = materialize(b, op.getValue());
  auto type = cast<VectorType>(op.getValue().getType());
  int64_t group = op.getGroup();
  forRange(b, indexOf(b, 0), op.getCount(), 1, [&](Builder &b, Value token) {
    forRows(b, group, [&](Builder &b, Value g) {
      Value row = add(b, mul(b, token, group), g);
      Value targetRow = add(b, op.getRow(), token), targetHead = add(b, op.getHead(), g);
      if (type.getRank() == 1) {
        Value number = memref::LoadOp::create(b, buffer, ValueRange{row});
        memref::StoreOp::create(b, number, op.getTarget(), ValueRange{targetRow, targetHead});
        return;
      }
      int64_t columns = type.getDimSize(1);
      for (int64_t block = 0; block < blocksOf(columns); ++block) {
        Value values =
            vector::LoadOp::create(b, laneType(b.getF32Type()), buffer, ValueRange{row, indexOf(b, block * lanes)});
        storeTrimmed(b, values, op.getTarget(), {targetRow, targetHead, indexOf(b, block * lanes)},
                     std::min(lanes, columns - block * lanes));
      }
    });
  });
}

void TileEmitter::emitRowPositions(tile::RowPositionsOp op) {
  Builder b(op.getLoc(), op);
  int64_t rows = op.getResult().getType().getDimSize(0), group = op.getGroup();
  Value buffer = allocate({rows}, b.getI32Type());
  setBuffer(op.getResult(), buffer);
  Value positions = context.batch(op.getBatch()).positions;
  Value zero = indexOf(b, 0);
  // Rows past the count repeat the last token: their results are never stored.
  Value last = arith::MaxSIOp::create(b, arith::SubIOp::create(b, op.getCount(), indexOf(b, 1)), zero);
  forRows(b, rows / group, [&](Builder &b, Value token) {
    Value at = add(b, op.getRow(), arith::MinSIOp::create(b, token, last));
    Value position = memref::LoadOp::create(b, positions, ValueRange{at});
    forRows(b, group, [&](Builder &b, Value g) {
      memref::StoreOp::create(b, position, buffer, ValueRange{add(b, mul(b, token, group), g)});
    });
  });
}

void TileEmitter::emitLoadHeads(tile::LoadHeadsOp op) {
  Builder b(op.getLoc(), op);
  int64_t rows = op.getResult().getType().getDimSize(0), group = op.getGroup();
  Value buffer = allocate({rows}, b.getF32Type());
  setBuffer(op.getResult(), buffer);
  forRows(b, rows / group, [&](Builder &b, Value token) {
    forRows(b, group, [&](Builder &b, Value g) {
      Value number = memref::LoadOp::create(b, op.getSource(), ValueRange{add(b, op.getHead(), g)});
      memref::StoreOp::create(b, number, buffer, ValueRange{add(b, mul(b, token, group), g)});
    });
  });
}

void TileEmitter::emitLoadMask(tile::LoadMaskOp op) {
  Builder b(op.getLoc(), op);
  VectorType type = op.getResult().getType();
  int64_t rows = type.getDimSize(0), slots = type.getDimSize(1), group = op.getGroup();
  Value buffer = allocateTile(type);
  setBuffer(op.getResult(), buffer);
  Value one = arith::ConstantOp::create(b, b.getI32IntegerAttr(1)), none = indexOf(b, 0);
  Value ones = vector::BroadcastOp::create(b, laneType(b.getI32Type()), one);
  forRows(b, rows, [&](Builder &b, Value row) {
    for (int64_t block = 0; block < blocksOf(slots); ++block) {
      vector::StoreOp::create(b, ones, buffer, ValueRange{row, indexOf(b, block * lanes)});
    }
  });
  // Slots of the tile that have a column.
  auto clamp = [&](Value x) {
    return arith::MinSIOp::create(b, arith::MaxSIOp::create(b, x, none), indexOf(b, slots)).getResult();
  };
  Value begin = clamp(arith::SubIOp::create(b, none, op.getColumn()));
  Value end = clamp(arith::SubIOp::create(b, op.getWidth(), op.getColumn()));
  forRange(b, none, op.getCount(), 1, [&](Builder &b, Value token) {
    forRange(b, begin, end, 1, [&](Builder &b, Value slot) {
      Value bit = memref::LoadOp::create(b, op.getSource(),
                                         ValueRange{add(b, op.getRow(), token), add(b, op.getColumn(), slot)});
      Value word = arith::ExtUIOp::create(b, b.getI32Type(), bit);
      forRows(b, group, [&](Builder &b, Value g) {
        memref::StoreOp::create(b, word, buffer, ValueRange{add(b, mul(b, token, group), g), slot});
      });
    });
  });
}

void TileEmitter::emitSlotPositions(tile::SlotPositionsOp op) {
  Builder b(op.getLoc(), op);
  const CacheMemory &cache = context.cache(op.getCache());
  int64_t slots = op.getResult().getType().getDimSize(0);
  Value buffer = allocate({padded(slots)}, b.getI32Type());
  setBuffer(op.getResult(), buffer);
  if (!cache.type.getStoredPositions()) {
    for (int64_t block = 0; block < blocksOf(slots); ++block) {
      SmallVector<int32_t> numbers(lanes);
      std::iota(numbers.begin(), numbers.end(), static_cast<int32_t>(block * lanes));
      VectorType type = laneType(b.getI32Type());
      Value number = arith::ConstantOp::create(b, DenseElementsAttr::get(type, ArrayRef<int32_t>(numbers)));
      Value first = arith::IndexCastOp::create(b, b.getI32Type(), op.getSlot());
      Value all = arith::AddIOp::create(b, number, vector::BroadcastOp::create(b, type, first));
      vector::StoreOp::create(b, all, buffer, ValueRange{indexOf(b, block * lanes)});
    }
    return;
  }
  Value length = tile::CounterOp::create(b, tile::Counter::Length, op.getCache(), op.getSequence(), op.getHead());
  Value left = arith::SubIOp::create(b, length, op.getSlot());
  Value count = arith::MaxSIOp::create(b, arith::MinSIOp::create(b, left, indexOf(b, slots)), indexOf(b, 0));
  forRange(b, indexOf(b, 0), count, 1, [&](Builder &b, Value i) {
    Value position = tile::LoadNumberOp::create(b, b.getI32Type(), tile::SlotPlane::Position, op.getCache(),
                                                op.getSequence(), op.getHead(), add(b, op.getSlot(), i));
    memref::StoreOp::create(b, position, buffer, ValueRange{i});
  });
}

void TileEmitter::emitGatherPositions(tile::GatherPositionsOp op) {
  Builder b(op.getLoc(), op);
  const CacheMemory &cache = context.cache(op.getCache());
  Value buffer = allocateTile(op.getResult().getType());
  setBuffer(op.getResult(), buffer);
  forRange(b, indexOf(b, 0), op.getCount(), 1, [&](Builder &b, Value i) {
    Value slot = tile::SelectionEntryOp::create(b, op.getSelection(), op.getEntry(), op.getHead(),
                                                add(b, op.getFirst(), i), cache.type.getHeads());
    Value position = arith::IndexCastOp::create(b, b.getI32Type(), slot);
    if (cache.type.getStoredPositions()) {
      position = tile::LoadNumberOp::create(b, b.getI32Type(), tile::SlotPlane::Position, op.getCache(),
                                            op.getSequence(), op.getHead(), slot);
    }
    memref::StoreOp::create(b, position, buffer, ValueRange{i});
  });
}

void TileEmitter::emitStoreSlotNumbers(tile::StoreSlotNumbersOp op) {
  Builder b(op.getLoc(), op);
  Value buffer = materialize(b, op.getValue());
  forRange(b, indexOf(b, 0), op.getCount(), 1, [&](Builder &b, Value i) {
    Value x = memref::LoadOp::create(b, buffer, ValueRange{i});
    memref::StoreOp::create(b, x, op.getTarget(), ValueRange{op.getEntry(), op.getHead(), add(b, op.getSlot(), i)});
  });
}

/// Combines the rows of a tile into the accumulator, in the order of the rows.
void TileEmitter::emitColumnReduction(vector::MultiDimReductionOp op) {
  Builder b(op.getLoc(), op);
  VectorType type = op.getSourceVectorType();
  Value buffer = bufferOf(op.getAcc()) && op.getAcc().hasOneUse() ? bufferOf(op.getAcc()) : Value();
  if (!buffer) {
    buffer = allocateTile(cast<VectorType>(op.getAcc().getType()));
    copyInto(b, op.getAcc(), buffer);
  }
  setBuffer(op.getResult(), buffer);
  forRows(b, type.getDimSize(0), [&](Builder &b, Value row) {
    for (int64_t block = 0; block < blocksOf(type.getDimSize(1)); ++block) {
      SmallVector<Value> at{indexOf(b, block * lanes)};
      Value sum = vector::LoadOp::create(b, laneType(type.getElementType()), buffer, at);
      sum = vector::makeArithReduction(b, op.getLoc(), op.getKind(), pull(b, op.getSource(), row, block), sum);
      vector::StoreOp::create(b, sum, buffer, at);
    }
  });
}
