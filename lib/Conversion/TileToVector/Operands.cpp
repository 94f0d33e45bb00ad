//===- Operands.cpp - Pages as operands of products -----------------------===//
//
// An operand in the layout of the lanes is read in place; scales of values are widened to f32 once for a tile. An
// operand that is laid out in plain rows, or whose channels do not fill blocks of lanes, or that many rows read again
// and again, is unpacked to memory of the kernel's frame first.
//
//===----------------------------------------------------------------------===//
#include "../Utils/Rotation.h"
#include "Codec.h"
#include "PageOperand.h"

#include <numeric>

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;

/// Rows from which unpacking a tile of codes once pays for writing it to memory.
static constexpr int64_t unpackRows = 16;

/// The slot within its head block, the byte offset of that block, and bytes from there to the block of the slot one
/// tile on (null: nothing is fetched ahead).
struct BlockAddress {
  Value base, slot, ahead;
};

static BlockAddress blockOf(ImplicitLocOpBuilder &b, KernelContext &context, const PageOperand &operand, Value slot) {
  Value base = operand.part == tile::Part::Pages
                   ? context.headBlock(b, *operand.cache, operand.sequence, operand.head, slot)
                   : context.tailBlock(b, *operand.cache, operand.sequence, operand.head);
  Value ahead;
  if (operand.fetchesAhead()) {
    // There may be no next tile: then a line is fetched for nothing. The table has an entry, whatever it says.
    Value pages = memref::DimOp::create(b, operand.cache->table, 1);
    Value last = arith::SubIOp::create(b, mul(b, pages, operand.cache->type.getPage()), indexOf(b, 1));
    Value next = arith::MinSIOp::create(b, add(b, slot, indexOf(b, operand.slots)), last);
    Value nextBase = context.headBlock(b, *operand.cache, operand.sequence, operand.head, next);
    ahead = arith::SubIOp::create(b, nextBase, base);
  }
  return {base, arith::RemUIOp::create(b, slot, indexOf(b, operand.layout->slots)), ahead};
}

Value kvc::loadScales(ImplicitLocOpBuilder &b, const PageOperand &operand, Value offset, int64_t count) {
  return decodeFloat(b, loadBytes(b, operand.memory, offset, operand.layout->format.getScale(), count));
}

void kvc::fetchAhead(ImplicitLocOpBuilder &b, const PageOperand &operand, Value offset, Value ahead) {
  if (ahead) {
    // Into the second-level cache: a tile of keys and values may fill the first.
    constexpr int locality = 2;
    memref::PrefetchOp::create(b, operand.memory, ValueRange{add(b, offset, ahead)}, /*isWrite=*/false, locality,
                               /*isDataCache=*/true);
  }
}

//===----------------------------------------------------------------------===//
// Units of keys: channels across units, slots across the lanes
//===----------------------------------------------------------------------===//

void kvc::prepareKeys(ImplicitLocOpBuilder &b, TileEmitter &emitter, PageOperand &operand) {
  const PlaneLayout &layout = *operand.layout;
  int64_t lanes = emitter.lanes, group = layout.format.getGroup();
  // Blocks behind the last slot in use read its block again: their page may not exist.
  Value last = arith::MaxSIOp::create(b, arith::SubIOp::create(b, operand.count, indexOf(b, 1)), indexOf(b, 0));
  Value lastBlock = mul(b, arith::DivUIOp::create(b, last, indexOf(b, lanes)), lanes);
  bool tokenScales = operand.isGrouped(Axis::Token), channelScales = operand.isGrouped(Axis::Channel);
  bool widens = channelScales && operand.access == Access::Units;
  int64_t blocks = operand.slots / lanes;
  if (widens) {
    operand.wideScales = emitter.allocate({blocks, emitter.padded(layout.channels)}, b.getF32Type());
    if (layout.zeros >= 0) {
      operand.wideZeros = emitter.allocate({blocks, emitter.padded(layout.channels)}, b.getF32Type());
    }
  }
  for (int64_t block = 0; block < blocks; ++block) {
    Value offset = arith::MinSIOp::create(b, indexOf(b, block * lanes), lastBlock);
    BlockAddress at = blockOf(b, emitter.context, operand, add(b, operand.slot, offset));
    if (at.ahead) {
      operand.ahead.push_back(at.ahead);
    }
    Value laneBlock = arith::DivUIOp::create(b, at.slot, indexOf(b, lanes));
    int64_t blockBytes = layout.channels / layout.pack * lanes * layout.unitBytes;
    operand.unitBase.push_back(add(b, at.base, add(b, mul(b, laneBlock, blockBytes), indexOf(b, layout.codes))));
    if (tokenScales) {
      int64_t scaleBytes = layout.channels / group * lanes * layout.scaleBytes;
      operand.scaleBase.push_back(add(b, at.base, add(b, mul(b, laneBlock, scaleBytes), indexOf(b, layout.scales))));
    }
    if (channelScales) {
      Value row = mul(b, arith::DivUIOp::create(b, at.slot, indexOf(b, group)), layout.channels * layout.scaleBytes);
      operand.scaleBase.push_back(add(b, at.base, add(b, row, indexOf(b, layout.scales))));
    }
    auto widen = [&](int64_t offset, Value into) {
      Value wide = loadScales(b, operand, add(b, operand.scaleBase[block], indexOf(b, offset)), layout.channels);
      vector::StoreOp::create(b, wide, into, ValueRange{indexOf(b, block), indexOf(b, 0)});
    };
    if (widens) {
      widen(0, operand.wideScales);
      if (operand.wideZeros) {
        widen(layout.zeros - layout.scales, operand.wideZeros);
      }
    }
  }
}

Value kvc::broadcastFrom(ImplicitLocOpBuilder &b, Value memory, ValueRange at, VectorType type) {
  return vector::BroadcastOp::create(b, type, memref::LoadOp::create(b, memory, at));
}

Value kvc::loadKeyBytes(ImplicitLocOpBuilder &b, TileEmitter &emitter, const PageOperand &operand, int64_t block,
                        Value unit) {
  int64_t bytes = emitter.lanes * operand.layout->unitBytes;
  Value offset = add(b, operand.unitBase[block], mul(b, unit, bytes));
  if (!operand.ahead.empty()) {
    fetchAhead(b, operand, offset, operand.ahead[block]);
  }
  return loadBytes(b, operand.memory, offset, b.getI8Type(), bytes);
}

SmallVector<Value> kvc::loadKeyUnit(ImplicitLocOpBuilder &b, TileEmitter &emitter, const PageOperand &operand,
                                    int64_t block, Value unit) {
  const PlaneLayout &layout = *operand.layout;
  int64_t lanes = emitter.lanes;
  VectorType lane = emitter.laneType(b.getF32Type());
  if (operand.staged) {
    return {vector::LoadOp::create(b, lane, operand.staged, ValueRange{unit, indexOf(b, block * lanes)})};
  }
  Value raw = loadKeyBytes(b, emitter, operand, block, unit);
  if (operand.isPairs()) {
    return {vector::BitCastOp::create(b, VectorType::get({2 * lanes}, b.getBF16Type()), raw)};
  }
  SmallVector<Value> elements = decodeUnits(b, layout, unitsOfBytes(b, layout, raw));
  if (!layout.format.isInteger()) {
    return elements;
  }
  Value scale, zero;
  if (layout.format.getAxis() == Axis::Token) {
    Value group = arith::DivUIOp::create(b, mul(b, unit, layout.pack), indexOf(b, layout.format.getGroup()));
    Value at = add(b, operand.scaleBase[block], mul(b, group, lanes * layout.scaleBytes));
    scale = loadScales(b, operand, at, lanes);
    if (layout.zeros >= 0) {
      zero = loadScales(b, operand, add(b, at, indexOf(b, layout.zeros - layout.scales)), lanes);
    }
  }
  for (auto [e, element] : llvm::enumerate(elements)) {
    if (layout.format.getAxis() == Axis::Channel) {
      Value channel = add(b, mul(b, unit, layout.pack), indexOf(b, static_cast<int64_t>(e)));
      SmallVector<Value> at{indexOf(b, block), channel};
      scale = broadcastFrom(b, operand.wideScales, at, lane);
      zero = operand.wideZeros ? broadcastFrom(b, operand.wideZeros, at, lane) : Value();
    }
    element = dequantize(b, element, scale, zero);
  }
  return elements;
}

//===----------------------------------------------------------------------===//
// Units of values: slots across units, channels across the lanes
//===----------------------------------------------------------------------===//

void kvc::prepareValues(ImplicitLocOpBuilder &b, TileEmitter &emitter, PageOperand &operand) {
  const PlaneLayout &layout = *operand.layout;
  if (!operand.isGrouped(Axis::Token)) {
    return;
  }
  // Scales of a slot are shared by groups of channels: widen those of the tile, a run of slots at a time.
  int64_t groups = operand.channelGroups();
  SmallVector<int64_t> shape{groups, emitter.padded(operand.slots)};
  operand.wideScales = emitter.allocate(shape, b.getF32Type());
  if (layout.zeros >= 0) {
    operand.wideZeros = emitter.allocate(shape, b.getF32Type());
  }
  emitter.forRange(b, indexOf(b, 0), operand.count, operand.chunk, [&](ImplicitLocOpBuilder &b, Value first) {
    BlockAddress at = blockOf(b, emitter.context, operand, add(b, operand.slot, first));
    auto widen = [&](int64_t plane, int64_t group, Value into) {
      Value slot = add(b, at.slot, indexOf(b, group * layout.slots));
      Value from = add(b, at.base, add(b, mul(b, slot, layout.scaleBytes), indexOf(b, plane)));
      fetchAhead(b, operand, from, at.ahead);
      Value wide = loadScales(b, operand, from, operand.chunk);
      vector::StoreOp::create(b, wide, into, ValueRange{indexOf(b, group), first});
    };
    for (int64_t group = 0; group < groups; ++group) {
      widen(layout.scales, group, operand.wideScales);
      if (operand.wideZeros) {
        widen(layout.zeros, group, operand.wideZeros);
      }
    }
  });
}

ValueChunk kvc::valueChunk(ImplicitLocOpBuilder &b, TileEmitter &emitter, const PageOperand &operand, Value first) {
  if (operand.staged) {
    return {first, Value(), Value(), Value()};
  }
  BlockAddress at = blockOf(b, emitter.context, operand, add(b, operand.slot, first));
  return {first, at.base, at.slot, at.ahead};
}

Value kvc::loadValueBytes(ImplicitLocOpBuilder &b, TileEmitter &emitter, const PageOperand &operand,
                          const ValueChunk &chunk, Value unit, Value block) {
  const PlaneLayout &layout = *operand.layout;
  int64_t bytes = emitter.lanes * layout.unitBytes;
  // Chunks begin at whole units.
  Value row = add(b, arith::DivUIOp::create(b, chunk.slot, indexOf(b, layout.pack)), unit);
  Value offset = add(
      b, chunk.base,
      add(b, mul(b, row, layout.channels * layout.unitBytes), add(b, mul(b, block, bytes), indexOf(b, layout.codes))));
  fetchAhead(b, operand, offset, chunk.ahead);
  return loadBytes(b, operand.memory, offset, b.getI8Type(), bytes);
}

SmallVector<Value> kvc::loadValueUnit(ImplicitLocOpBuilder &b, TileEmitter &emitter, const PageOperand &operand,
                                      const ValueChunk &chunk, Value unit, Value block) {
  const PlaneLayout &layout = *operand.layout;
  int64_t lanes = emitter.lanes;
  VectorType lane = emitter.laneType(b.getF32Type());
  if (operand.staged) {
    return {
        vector::LoadOp::create(b, lane, operand.staged, ValueRange{add(b, chunk.first, unit), mul(b, block, lanes)})};
  }
  Value raw = loadValueBytes(b, emitter, operand, chunk, unit, block);
  if (operand.isPairs()) {
    return {vector::BitCastOp::create(b, VectorType::get({2 * lanes}, b.getBF16Type()), raw)};
  }
  SmallVector<Value> elements = decodeUnits(b, layout, unitsOfBytes(b, layout, raw));
  if (!layout.format.isInteger()) {
    return elements;
  }
  int64_t group = layout.format.getGroup();
  for (auto [e, element] : llvm::enumerate(elements)) {
    Value scale, zero;
    Value slot = add(b, mul(b, unit, layout.pack), indexOf(b, static_cast<int64_t>(e)));
    if (layout.format.getAxis() == Axis::Token) {
      Value channels = arith::DivUIOp::create(b, mul(b, block, lanes), indexOf(b, group));
      SmallVector<Value> at{channels, add(b, chunk.first, slot)};
      scale = broadcastFrom(b, operand.wideScales, at, lane);
      zero = operand.wideZeros ? broadcastFrom(b, operand.wideZeros, at, lane) : Value();
    } else {
      Value inGroup = arith::DivUIOp::create(b, add(b, chunk.slot, slot), indexOf(b, group));
      Value at = add(b, chunk.base,
                     add(b, mul(b, inGroup, layout.channels * layout.scaleBytes),
                         add(b, mul(b, block, lanes * layout.scaleBytes), indexOf(b, layout.scales))));
      scale = loadScales(b, operand, at, lanes);
      if (layout.zeros >= 0) {
        zero = loadScales(b, operand, add(b, at, indexOf(b, layout.zeros - layout.scales)), lanes);
      }
    }
    element = dequantize(b, element, scale, zero);
  }
  return elements;
}

//===----------------------------------------------------------------------===//
// Unpacking
//===----------------------------------------------------------------------===//

/// A slot from its page when it is sealed, else from the tail.
static Value loadFromEither(ImplicitLocOpBuilder &b, const PageOperand &operand, Value cache, Value slot,
                            llvm::function_ref<Value(ImplicitLocOpBuilder &, tile::Part)> load) {
  Value sealed = tile::CounterOp::create(b, tile::Counter::Sealed, cache, operand.sequence, operand.head);
  Value isSealed = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, slot, sealed);
  auto type = VectorType::get({operand.channels}, b.getF32Type());
  auto choice = scf::IfOp::create(b, TypeRange{type}, isSealed, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(choice.thenBlock());
  scf::YieldOp::create(b, load(b, tile::Part::Pages));
  b.setInsertionPointToStart(choice.elseBlock());
  scf::YieldOp::create(b, load(b, tile::Part::Tail));
  return choice.getResult(0);
}

/// Slot by slot, through the codec of single slots: for plain rows, selected slots, and keys that are rotated when
/// loaded. `slotOf` gives the slot of each number below the count.
static void stageRows(ImplicitLocOpBuilder &b, TileEmitter &emitter, PageOperand &operand, Value cache, bool isGather,
                      llvm::function_ref<Value(ImplicitLocOpBuilder &, Value)> slotOf) {
  int64_t channels = operand.channels;
  RopeAttr rope = operand.isKey() ? operand.cache->type.getRope() : RopeAttr();
  operand.staged = operand.isKey() ? emitter.allocate({channels, emitter.padded(operand.slots)}, b.getF32Type())
                                   : emitter.allocate({operand.slots, emitter.padded(channels)}, b.getF32Type());
  Value rowBuffer = emitter.allocate({channels}, b.getF32Type());
  emitter.forRange(b, indexOf(b, 0), operand.count, 1, [&](ImplicitLocOpBuilder &b, Value number) {
    Value slot = slotOf(b, number);
    auto load = [&](ImplicitLocOpBuilder &b, tile::Part part) -> Value {
      return tile::LoadSlotOp::create(b, VectorType::get({channels}, b.getF32Type()), operand.layout->plane, part,
                                      cache, operand.sequence, operand.head, slot, indexOf(b, 0));
    };
    Value row = isGather && operand.cache->type.hasTail() ? loadFromEither(b, operand, cache, slot, load)
                                                          : load(b, operand.part);
    if (rope) {
      Value position = slot;
      if (operand.cache->type.getStoredPositions()) {
        Value word = tile::LoadNumberOp::create(b, b.getI32Type(), tile::SlotPlane::Position, cache, operand.sequence,
                                                operand.head, slot);
        position = arith::IndexCastOp::create(b, b.getIndexType(), word);
      }
      row = createRotation(b, rope, row, createRopeAngles(b, rope, position));
    }
    if (!operand.isKey()) {
      vector::StoreOp::create(b, row, operand.staged, ValueRange{number, indexOf(b, 0)});
      return;
    }
    vector::StoreOp::create(b, row, rowBuffer, ValueRange{indexOf(b, 0)});
    emitter.forRows(b, channels, [&](ImplicitLocOpBuilder &b, Value c) {
      Value x = memref::LoadOp::create(b, rowBuffer, ValueRange{c});
      memref::StoreOp::create(b, x, operand.staged, ValueRange{c, number});
    });
  });
}

/// Unit by unit, a block of lanes at a time.
static void stageUnits(ImplicitLocOpBuilder &b, TileEmitter &emitter, PageOperand &operand, Value into) {
  int64_t lanes = emitter.lanes, pack = operand.layout->pack;
  if (operand.isKey()) {
    emitter.forRange(b, indexOf(b, 0), indexOf(b, operand.channels / pack), 1,
                     [&](ImplicitLocOpBuilder &b, Value unit) {
                       for (int64_t block = 0; block < operand.slots / lanes; ++block) {
                         for (auto [e, x] : llvm::enumerate(loadKeyUnit(b, emitter, operand, block, unit))) {
                           Value channel = add(b, mul(b, unit, pack), indexOf(b, static_cast<int64_t>(e)));
                           vector::StoreOp::create(b, x, into, ValueRange{channel, indexOf(b, block * lanes)});
                         }
                       }
                     });
    return;
  }
  emitter.forRange(b, indexOf(b, 0), operand.count, operand.chunk, [&](ImplicitLocOpBuilder &b, Value first) {
    ValueChunk chunk = valueChunk(b, emitter, operand, first);
    Value left = arith::SubIOp::create(b, operand.count, first);
    Value count = arith::MinSIOp::create(b, left, indexOf(b, operand.chunk));
    Value units = arith::CeilDivUIOp::create(b, count, indexOf(b, pack));
    emitter.forRange(b, indexOf(b, 0), units, 1, [&](ImplicitLocOpBuilder &b, Value unit) {
      emitter.forLaneBlocks(b, operand.channels, [&](ImplicitLocOpBuilder &b, Value column) {
        Value block = arith::DivUIOp::create(b, column, indexOf(b, lanes));
        for (auto [e, x] : llvm::enumerate(loadValueUnit(b, emitter, operand, chunk, unit, block))) {
          Value slot = add(b, first, add(b, mul(b, unit, pack), indexOf(b, static_cast<int64_t>(e))));
          vector::StoreOp::create(b, x, into, ValueRange{slot, column});
        }
      });
    });
  });
}

PageOperand TileEmitter::describeOperand(tile::OperandOp op) const {
  PageOperand operand;
  operand.cache = &context.cache(op.getCache());
  operand.part = op.getPart();
  bool pages = operand.part == tile::Part::Pages;
  const PageLayout &layout = operand.cache->layout;
  operand.layout = pages ? &layout.plane(op.getPlane()) : &layout.tailPlane(op.getPlane());
  operand.memory = pages ? operand.cache->pages : operand.cache->tails;
  operand.slots = op.getResult().getType().getSlots();
  operand.channels = op.getResult().getType().getChannels();
  operand.sequence = op.getSequence();
  operand.head = op.getHead();
  operand.slot = op.getSlot();
  operand.count = op.getCount();
  operand.chunk = std::gcd(operand.slots, operand.layout->slots);
  if (!pages) {
    operand.chunk = std::gcd(operand.chunk, operand.cache->type.getSealGroup());
  }
  bool isKey = operand.isKey();
  const PlaneLayout &plane = *operand.layout;
  // A block of lanes of keys must lie in one group of tokens, of values in one group of channels.
  bool wholeGroups = !operand.isGrouped(isKey ? Axis::Channel : Axis::Token) || plane.format.getGroup() % lanes == 0;
  bool rotated = isKey && operand.cache->type.getRope();
  bool inPlace =
      plane.packed && wholeGroups && !rotated &&
      (isKey ? operand.slots % lanes == 0 : operand.channels % lanes == 0 && operand.chunk % plane.pack == 0);
  bool manyRows = llvm::any_of(op->getUsers(), [](Operation *user) {
    auto mma = dyn_cast<tile::MmaOp>(user);
    return mma && mma.getA().getType().getDimSize(0) >= unpackRows;
  });
  if (!inPlace) {
    operand.access = Access::Rows;
  } else if (!plane.format.isInteger()) {
    operand.access = plane.pack == 2 ? Access::Pairs : Access::Numbers;
  } else if (manyRows) {
    operand.access = Access::Units;
  } else {
    // Scales of values that change from group to group of slots would have to go into partial results.
    operand.access = isKey || operand.isGrouped(Axis::Token) ? Access::Codes : Access::Numbers;
  }
  return operand;
}

void TileEmitter::forPartners(Value tile, llvm::function_ref<void(const PageOperand &)> visit) const {
  for (Operation *user : tile.getUsers()) {
    auto mma = dyn_cast<tile::MmaOp>(user);
    if (!mma || mma.getA() != tile) {
      continue;
    }
    if (auto operand = mma.getB().getDefiningOp<tile::OperandOp>()) {
      visit(describeOperand(operand));
    }
  }
}

void TileEmitter::emitOperand(tile::OperandOp op) {
  Builder b(op.getLoc(), op);
  PageOperand operand = describeOperand(op);
  if (operand.access == Access::Rows) {
    stageRows(b, *this, operand, op.getCache(), /*isGather=*/false,
              [&](Builder &b, Value number) { return add(b, op.getSlot(), number); });
  } else {
    bool isKey = operand.isKey();
    isKey ? prepareKeys(b, *this, operand) : prepareValues(b, *this, operand);
    if (operand.access == Access::Units) {
      // Values of the last unit may reach past the tile's slots.
      Value into = isKey ? allocate({operand.channels, operand.slots}, b.getF32Type())
                         : allocate({operand.slots + operand.layout->pack, operand.channels}, b.getF32Type());
      stageUnits(b, *this, operand, into);
      operand.staged = into;
    }
  }
  operands[op.getResult()] = operand;
}

void TileEmitter::emitGatherOperand(tile::GatherOperandOp op) {
  Builder b(op.getLoc(), op);
  PageOperand operand;
  operand.cache = &context.cache(op.getCache());
  operand.part = tile::Part::Pages;
  operand.access = Access::Rows;
  operand.layout = &operand.cache->layout.plane(op.getPlane());
  operand.memory = operand.cache->pages;
  operand.slots = operand.chunk = op.getResult().getType().getSlots();
  operand.channels = op.getResult().getType().getChannels();
  operand.sequence = op.getSequence();
  operand.head = op.getHead();
  operand.count = op.getCount();
  stageRows(b, *this, operand, op.getCache(), /*isGather=*/true, [&](Builder &b, Value number) {
    return tile::SelectionEntryOp::create(b, op.getSelection(), op.getEntry(), op.getHead(),
                                          add(b, op.getFirst(), number), operand.cache->type.getHeads())
        .getResult();
  });
  operands[op.getResult()] = operand;
}
