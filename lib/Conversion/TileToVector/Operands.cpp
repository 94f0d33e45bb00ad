//===- Operands.cpp - Pages as operands of products -----------------------===//
//
// An operand in the layout of the lanes is read in place; its scales are widened to f32 once for a tile where each is
// shared by a whole block of lanes. An operand that is laid out in plain rows, or whose channels do not fill blocks of
// lanes, or that many rows read again and again, is unpacked to memory of the kernel's frame first.
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

/// The slot within its head block, and the byte offset of that block.
struct BlockAddress {
  Value base, slot;
};

static BlockAddress blockOf(ImplicitLocOpBuilder &b, KernelContext &context, const PageOperand &operand, Value slot) {
  Value base = operand.part == tile::Part::Pages
                   ? context.headBlock(b, *operand.cache, operand.sequence, operand.head, slot)
                   : context.tailBlock(b, *operand.cache, operand.sequence, operand.head);
  return {base, arith::RemUIOp::create(b, slot, indexOf(b, operand.layout->slots))};
}

static bool isGrouped(const PlaneLayout &layout, Axis axis) {
  return layout.format.isInteger() && layout.format.getAxis() == axis;
}

/// `count` scales or zeros at a byte offset, as f32.
static Value loadScales(ImplicitLocOpBuilder &b, const PageOperand &operand, Value offset, int64_t count) {
  return decodeFloat(b, loadBytes(b, operand.memory, offset, operand.layout->format.getScale(), count));
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
  bool tokenScales = isGrouped(layout, Axis::Token), channelScales = isGrouped(layout, Axis::Channel);
  int64_t blocks = operand.slots / lanes;
  if (channelScales) {
    operand.wideScales = emitter.allocate({blocks, emitter.padded(layout.channels)}, b.getF32Type());
    if (layout.zeros >= 0) {
      operand.wideZeros = emitter.allocate({blocks, emitter.padded(layout.channels)}, b.getF32Type());
    }
  }
  for (int64_t block = 0; block < blocks; ++block) {
    Value offset = arith::MinSIOp::create(b, indexOf(b, block * lanes), lastBlock);
    BlockAddress at = blockOf(b, emitter.context, operand, add(b, operand.slot, offset));
    Value laneBlock = arith::DivUIOp::create(b, at.slot, indexOf(b, lanes));
    int64_t blockBytes = layout.channels / layout.pack * lanes * layout.unitBytes;
    operand.unitBase.push_back(add(b, at.base, add(b, mul(b, laneBlock, blockBytes), indexOf(b, layout.codes))));
    if (tokenScales) {
      int64_t scaleBytes = layout.channels / group * lanes * layout.scaleBytes;
      operand.scaleBase.push_back(add(b, at.base, add(b, mul(b, laneBlock, scaleBytes), indexOf(b, layout.scales))));
    }
    if (channelScales) {
      Value row = mul(b, arith::DivUIOp::create(b, at.slot, indexOf(b, group)), layout.channels * layout.scaleBytes);
      auto widen = [&](int64_t plane, Value into) {
        Value from = add(b, at.base, add(b, row, indexOf(b, plane)));
        Value wide = loadScales(b, operand, from, layout.channels);
        vector::StoreOp::create(b, wide, into, ValueRange{indexOf(b, block), indexOf(b, 0)});
      };
      widen(layout.scales, operand.wideScales);
      if (operand.wideZeros) {
        widen(layout.zeros, operand.wideZeros);
      }
    }
  }
}

static Value broadcastFrom(ImplicitLocOpBuilder &b, Value memory, ValueRange at, VectorType type) {
  return vector::BroadcastOp::create(b, type, memref::LoadOp::create(b, memory, at));
}

SmallVector<Value> kvc::loadKeyUnit(ImplicitLocOpBuilder &b, TileEmitter &emitter, const PageOperand &operand,
                                    int64_t block, Value unit) {
  const PlaneLayout &layout = *operand.layout;
  int64_t lanes = emitter.lanes;
  VectorType lane = emitter.laneType(b.getF32Type());
  if (operand.staged) {
    return {vector::LoadOp::create(b, lane, operand.staged, ValueRange{unit, indexOf(b, block * lanes)})};
  }
  Value offset = add(b, operand.unitBase[block], mul(b, unit, lanes * layout.unitBytes));
  if (operand.isPairs()) {
    return {loadBytes(b, operand.memory, offset, b.getBF16Type(), 2 * lanes)};
  }
  Value raw = loadBytes(b, operand.memory, offset, b.getI8Type(), lanes * layout.unitBytes);
  SmallVector<Value> elements = decodeUnits(b, layout, raw, lanes);
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
  if (!isGrouped(layout, Axis::Token)) {
    return;
  }
  // Scales of a slot are shared by groups of channels: widen those of the tile, slot by slot.
  int64_t groups = layout.channels / layout.format.getGroup();
  operand.wideScales = emitter.allocate({operand.slots * groups}, b.getF32Type());
  if (layout.zeros >= 0) {
    operand.wideZeros = emitter.allocate({operand.slots * groups}, b.getF32Type());
  }
  emitter.forRange(b, indexOf(b, 0), operand.count, operand.chunk, [&](ImplicitLocOpBuilder &b, Value first) {
    BlockAddress at = blockOf(b, emitter.context, operand, add(b, operand.slot, first));
    auto widen = [&](int64_t plane, Value into) {
      Value from = add(b, at.base, add(b, mul(b, at.slot, groups * layout.scaleBytes), indexOf(b, plane)));
      Value wide = loadScales(b, operand, from, operand.chunk * groups);
      vector::StoreOp::create(b, wide, into, ValueRange{mul(b, first, groups)});
    };
    widen(layout.scales, operand.wideScales);
    if (operand.wideZeros) {
      widen(layout.zeros, operand.wideZeros);
    }
  });
}

ValueChunk kvc::valueChunk(ImplicitLocOpBuilder &b, TileEmitter &emitter, const PageOperand &operand, Value first) {
  if (operand.staged) {
    return {first, Value(), Value()};
  }
  BlockAddress at = blockOf(b, emitter.context, operand, add(b, operand.slot, first));
  return {first, at.base, at.slot};
}

SmallVector<Value> kvc::loadValueUnit(ImplicitLocOpBuilder &b, TileEmitter &emitter, const PageOperand &operand,
                                      const ValueChunk &chunk, Value unit, int64_t block) {
  const PlaneLayout &layout = *operand.layout;
  int64_t lanes = emitter.lanes;
  VectorType lane = emitter.laneType(b.getF32Type());
  if (operand.staged) {
    return {vector::LoadOp::create(b, lane, operand.staged,
                                   ValueRange{add(b, chunk.first, unit), indexOf(b, block * lanes)})};
  }
  // Chunks begin at whole units.
  Value row = add(b, arith::DivUIOp::create(b, chunk.slot, indexOf(b, layout.pack)), unit);
  Value offset = add(b, chunk.base,
                     add(b, mul(b, row, layout.channels * layout.unitBytes),
                         indexOf(b, layout.codes + block * lanes * layout.unitBytes)));
  if (operand.isPairs()) {
    return {loadBytes(b, operand.memory, offset, b.getBF16Type(), 2 * lanes)};
  }
  Value raw = loadBytes(b, operand.memory, offset, b.getI8Type(), lanes * layout.unitBytes);
  SmallVector<Value> elements = decodeUnits(b, layout, raw, lanes);
  if (!layout.format.isInteger()) {
    return elements;
  }
  int64_t group = layout.format.getGroup();
  for (auto [e, element] : llvm::enumerate(elements)) {
    Value scale, zero;
    Value slot = add(b, mul(b, unit, layout.pack), indexOf(b, static_cast<int64_t>(e)));
    if (layout.format.getAxis() == Axis::Token) {
      Value row = mul(b, add(b, chunk.first, slot), layout.channels / group);
      SmallVector<Value> at{add(b, row, indexOf(b, block * lanes / group))};
      scale = broadcastFrom(b, operand.wideScales, at, lane);
      zero = operand.wideZeros ? broadcastFrom(b, operand.wideZeros, at, lane) : Value();
    } else {
      Value inGroup = arith::DivUIOp::create(b, add(b, chunk.slot, slot), indexOf(b, group));
      Value at = add(b, chunk.base,
                     add(b, mul(b, inGroup, layout.channels * layout.scaleBytes),
                         indexOf(b, layout.scales + block * lanes * layout.scaleBytes)));
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
      for (int64_t block = 0; block < emitter.blocksOf(operand.channels); ++block) {
        for (auto [e, x] : llvm::enumerate(loadValueUnit(b, emitter, operand, chunk, unit, block))) {
          Value slot = add(b, first, add(b, mul(b, unit, pack), indexOf(b, static_cast<int64_t>(e))));
          vector::StoreOp::create(b, x, into, ValueRange{slot, indexOf(b, block * lanes)});
        }
      }
    });
  });
}

void TileEmitter::emitOperand(tile::OperandOp op) {
  Builder b(op.getLoc(), op);
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
  // Scales of values are broadcast to a block of lanes: groups must hold whole blocks.
  bool wholeGroups = isKey || !plane.format.isInteger() || plane.format.getAxis() == Axis::Channel ||
                     plane.format.getGroup() % lanes == 0;
  // Of keys, a block of lanes must lie in one group of tokens.
  if (isKey && isGrouped(plane, Axis::Channel)) {
    wholeGroups = plane.format.getGroup() % lanes == 0;
  }
  bool rotated = isKey && operand.cache->type.getRope();
  bool inPlace =
      plane.packed && wholeGroups && !rotated &&
      (isKey ? operand.slots % lanes == 0 : operand.channels % lanes == 0 && operand.chunk % plane.pack == 0);
  if (!inPlace) {
    stageRows(b, *this, operand, op.getCache(), /*isGather=*/false,
              [&](Builder &b, Value number) { return add(b, op.getSlot(), number); });
  } else {
    isKey ? prepareKeys(b, *this, operand) : prepareValues(b, *this, operand);
    bool manyRows = llvm::any_of(op->getUsers(), [](Operation *user) {
      auto mma = dyn_cast<tile::MmaOp>(user);
      return mma && mma.getA().getType().getDimSize(0) >= unpackRows;
    });
    if (plane.format.isInteger() && manyRows) {
      // Values of the last unit may reach past the tile's slots.
      Value into = isKey ? allocate({operand.channels, operand.slots}, b.getF32Type())
                         : allocate({operand.slots + plane.pack, operand.channels}, b.getF32Type());
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
