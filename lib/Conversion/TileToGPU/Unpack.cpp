//===- Unpack.cpp - Operands that are decoded before a product ------------===//
//
// Rows of 16-bit numbers in pages go through the ring as they lie. All else (codes, f32, tails, selected slots, keys
// that are rotated when they are loaded, rows whose channels fill no whole instructions) becomes such rows first: all
// warps decode a tile, eight channels of a slot at a time, into staging memory. Channels and slots that only fill an
// instruction are zeros.
//
//===----------------------------------------------------------------------===//
#include "TeamEmitter.h"

#include "../TileToVector/Codec.h"
#include "../TileToVector/Ix.h"
#include "../Utils/Rotation.h"

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;

static constexpr int64_t chunkChannels = 8, chunkBytes = 16;

//===----------------------------------------------------------------------===//
// Types of products
//===----------------------------------------------------------------------===//

ArrayRef<std::pair<int64_t, int64_t>> kvc::productTerms(ProductType type) {
  // x y = high x high y + finite(high x) low y + low x finite(high y): what is left out is below 2^-16 of it.
  static constexpr std::pair<int64_t, int64_t> one[] = {{0, 0}}, split[] = {{0, 0}, {2, 1}, {1, 2}};
  return type == ProductType::Split ? ArrayRef(split) : ArrayRef(one);
}

const MmaAtom &kvc::atomOf(const TeamFacts &facts, ProductType type) {
  return *lookupMmaAtom((facts.mmaAtom + (type == ProductType::F16 ? ".f16" : ".bf16")).str());
}

SmallVector<SmallVector<Value>> kvc::createWords(ImplicitLocOpBuilder &b, ArrayRef<Value> numbers, ProductType type) {
  auto pair = VectorType::get({2}, b.getF32Type());
  auto narrow = VectorType::get({2}, type == ProductType::F16 ? Type(b.getF16Type()) : Type(b.getBF16Type()));
  SmallVector<SmallVector<Value>> sets(setsOf(type));
  for (size_t i = 0; i < numbers.size(); i += 2) {
    Value wide = vector::FromElementsOp::create(b, pair, ValueRange{numbers[i], numbers[i + 1]});
    Value high = arith::TruncFOp::create(b, narrow, wide);
    sets[0].push_back(high);
    if (type != ProductType::Split) {
      continue;
    }
    // An infinity meets only what was rounded, and no zero that stands for a rest.
    auto vectorOf = [&](float value) {
      return arith::ConstantOp::create(b, DenseElementsAttr::get(pair, value)).getResult();
    };
    Value back = arith::ExtFOp::create(b, pair, high);
    Value isFinite = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, math::AbsFOp::create(b, back),
                                           vectorOf(std::numeric_limits<float>::infinity()));
    Value rest = arith::SelectOp::create(b, isFinite, arith::SubFOp::create(b, wide, back), vectorOf(0));
    Value finite = arith::SelectOp::create(b, isFinite, back, vectorOf(0));
    sets[1].push_back(arith::TruncFOp::create(b, narrow, rest));
    sets[2].push_back(arith::TruncFOp::create(b, narrow, finite));
  }
  return sets;
}

//===----------------------------------------------------------------------===//
// Numbers of one slot
//===----------------------------------------------------------------------===//

namespace {
/// What an operand of either kind says.
struct Source {
  Value cacheValue, sequence, head, slot, count;
  Plane plane;
  tile::Part part = tile::Part::Pages;
  tile::GatherOperandOp gather;
};

Source sourceOf(Operation *op) {
  if (auto operand = dyn_cast<tile::OperandOp>(op)) {
    return {operand.getCache(), operand.getSequence(), operand.getHead(), operand.getSlot(),
            operand.getCount(), operand.getPlane(),    operand.getPart(), {}};
  }
  auto gather = cast<tile::GatherOperandOp>(op);
  return {gather.getCache(), gather.getSequence(), gather.getHead(),  Value(),
          gather.getCount(), gather.getPlane(),    tile::Part::Pages, gather};
}

/// Decodes channels of a slot, which may be another one in every lane.
class SlotDecoder {
public:
  SlotDecoder(TeamEmitter &emitter, ImplicitLocOpBuilder &b, const Source &source, tile::Part part, Value slot)
      : emitter(emitter), b(b), source(source), cache(emitter.context.cache(source.cacheValue)), part(part), slot(slot),
        layout(part == tile::Part::Pages ? cache.layout.plane(source.plane) : cache.layout.tailPlane(source.plane)) {}

  /// Channels `first .. first + 7` (an index); zeros behind the last channel.
  SmallVector<Value> load(Value first) {
    RopeAttr rope = source.plane == Plane::K ? cache.type.getRope() : RopeAttr();
    return rope ? loadRotated(rope, first) : loadStored(first);
  }

private:
  bool isWhole() const {
    const FormatAttr format = layout.format;
    return layout.channels % chunkChannels == 0 && (!format.isInteger() || format.getAxis() == kvcache::Axis::Channel ||
                                                    format.getGroup() % chunkChannels == 0);
  }

  /// One channel, which must exist.
  Value loadOne(Value channel) {
    auto type = VectorType::get({1}, b.getF32Type());
    Value one = tile::LoadSlotOp::create(b, type, source.plane, part, source.cacheValue, source.sequence, source.head,
                                         slot, channel);
    return vector::ExtractOp::create(b, one, 0);
  }
  Value clamp(Value channel) { return arith::MinSIOp::create(b, channel, indexOf(b, layout.channels - 1)); }
  Value orZero(Value channel, Value number) {
    Value exists = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, channel, indexOf(b, layout.channels));
    return arith::SelectOp::create(b, exists, number, floatOf(b, 0));
  }

  SmallVector<Value> loadStored(Value first) {
    if (isWhole()) {
      return loadWhole(first);
    }
    SmallVector<Value> numbers;
    for (int64_t e = 0; e < chunkChannels; ++e) {
      Value channel = b.createOrFold<arith::AddIOp>(first, indexOf(b, e));
      numbers.push_back(orZero(channel, loadOne(clamp(channel))));
    }
    return numbers;
  }

  Value loadBytesAt(Ix at, int64_t bytes, int64_t alignment) {
    auto type = VectorType::get({bytes}, b.getI8Type());
    return vector::LoadOp::create(b, type, part == tile::Part::Pages ? cache.pages : cache.tails, at.get(),
                                  /*nontemporal=*/false, llvm::MaybeAlign(alignment));
  }
  SmallVector<Value> elementsOf(Value vector) {
    SmallVector<Value> elements;
    for (int64_t i = 0; i < cast<VectorType>(vector.getType()).getNumElements(); ++i) {
      elements.push_back(vector::ExtractOp::create(b, vector, i));
    }
    return elements;
  }

  SmallVector<Value> loadWhole(Value first) {
    const FormatAttr format = layout.format;
    const int64_t bits = format.getBits();
    Ix block(b, part == tile::Part::Pages ? emitter.context.headBlock(b, cache, source.sequence, source.head, slot)
                                          : emitter.context.tailBlock(b, cache, source.sequence, source.head));
    Ix inBlock = Ix(b, slot) % layout.slots, channel(b, first);
    const int64_t rowBytes = layout.rowUnits() * layout.unitBytes;
    // Eight elements are as many bytes as an element has bits; neighbours that lie apart come with their whole word.
    const int64_t perLoad = layout.pairs ? std::max(layout.pack, chunkChannels) : chunkChannels;
    const int64_t loadBytes = perLoad * bits / 8;
    Value raw = loadBytesAt(block + layout.codes + inBlock * rowBytes + channel / perLoad * loadBytes, loadBytes,
                            llvm::MinAlign(loadBytes, 16));
    if (!format.isInteger()) {
      auto type = VectorType::get({chunkChannels}, format.getFloatType());
      return elementsOf(decodeFloat(b, vector::BitCastOp::create(b, type, raw)));
    }
    auto scalesAt = [&](int64_t plane) {
      Ix index = layout.scaleOf(inBlock, channel);
      const bool perChannel = format.getAxis() == kvcache::Axis::Channel;
      const int64_t count = perChannel ? chunkChannels : 1, bytes = count * layout.scaleBytes;
      Value raw = loadBytesAt(block + plane + index * layout.scaleBytes, bytes, std::min<int64_t>(bytes, 16));
      return vector::BitCastOp::create(b, VectorType::get({count}, format.getScale()), raw).getResult();
    };
    SmallVector<Value> scales = elementsOf(decodeScale(b, scalesAt(layout.scales))), zeros;
    if (layout.zeros >= 0) {
      zeros = elementsOf(decodeFloat(b, scalesAt(layout.zeros)));
    }
    // Codes that may lie across the words of the chunk are taken from its bytes, two of which hold any.
    const bool across = !llvm::isPowerOf2_64(bits);
    const int64_t wordBits = across ? 8 : std::min<int64_t>(32, perLoad * bits);
    auto wordType = VectorType::get({perLoad * bits / wordBits}, b.getIntegerType(wordBits));
    SmallVector<Value> words = elementsOf(vector::BitCastOp::create(b, wordType, raw)), numbers;
    if (perLoad > chunkChannels) {
      // The chunk's first element may be any of the word.
      Value shift = toWord(b, layout.bitOf(channel % perLoad).get());
      words = {arith::ShRUIOp::create(b, words[0], shift)};
    }
    const int64_t raised = format.getSymmetric() ? int64_t(1) << (bits - 1) : 0;
    for (int64_t e = 0; e < chunkChannels; ++e) {
      Value word = words[layout.pairs ? 0 : e * bits / wordBits];
      if (wordBits < 32) {
        word = arith::ExtUIOp::create(b, b.getI32Type(), word);
      }
      if (across && e * bits % wordBits + bits > wordBits) {
        Value next = arith::ExtUIOp::create(b, b.getI32Type(), words[e * bits / wordBits + 1]);
        word = arith::OrIOp::create(b, word, arith::ShLIOp::create(b, next, wordOf(b, wordBits)));
      }
      Value shifted =
          b.createOrFold<arith::ShRUIOp>(word, wordOf(b, layout.pairs ? layout.bitOf(e) : e * bits % wordBits));
      Value code = arith::AndIOp::create(b, shifted, wordOf(b, (int64_t(1) << bits) - 1));
      if (raised) {
        code = arith::SubIOp::create(b, code, wordOf(b, raised));
      }
      Value number = arith::SIToFPOp::create(b, b.getF32Type(), code);
      Value scale = scales[scales.size() == 1 ? 0 : e];
      numbers.push_back(zeros.empty() ? arith::MulFOp::create(b, number, scale).getResult()
                                      : math::FmaOp::create(b, number, scale, zeros[zeros.size() == 1 ? 0 : e]));
    }
    return numbers;
  }

  /// Element `e` of the result is x cos - y sin or x sin + y cos of a pair of stored channels.
  SmallVector<Value> loadRotated(RopeAttr rope, Value first) {
    const int64_t dims = rope.getDims(), pairs = dims / 2;
    const bool readsNeighbours = rope.getPairing() != Pairing::Half;
    const bool writesNeighbours = rope.getPairing() == Pairing::Adjacent;
    Value position = slot;
    if (cache.type.getStoredPositions()) {
      Value word = tile::LoadNumberOp::create(b, b.getI32Type(), tile::SlotPlane::Position, source.cacheValue,
                                              source.sequence, source.head, slot);
      position = toIndex(b, word);
    }
    // Whole chunks of either half are loaded at once where a chunk lies in one of them.
    const bool byChunks =
        !readsNeighbours && !writesNeighbours && pairs % chunkChannels == 0 && isWhole() && layout.channels >= dims;
    SmallVector<Value> numbers(chunkChannels), xs(chunkChannels), ys(chunkChannels), pairOf(chunkChannels),
        isSecond(chunkChannels), isTurned(chunkChannels);
    Value half = indexOf(b, pairs), two = indexOf(b, 2);
    for (int64_t e = 0; e < chunkChannels; ++e) {
      Value channel = b.createOrFold<arith::AddIOp>(first, indexOf(b, e));
      isTurned[e] = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, channel, indexOf(b, dims));
      // Channels that are not turned take the angles of the last pair, for nothing.
      Value turned = arith::MinSIOp::create(b, channel, indexOf(b, dims - 1));
      Value pair;
      if (writesNeighbours) {
        pair = arith::DivUIOp::create(b, turned, two);
        isSecond[e] =
            arith::CmpIOp::create(b, arith::CmpIPredicate::ne, arith::RemUIOp::create(b, turned, two), indexOf(b, 0));
      } else {
        pair = arith::RemUIOp::create(b, turned, half);
        isSecond[e] = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, turned, half);
      }
      pairOf[e] = pair;
    }
    SmallVector<Value> stored = loadStored(first);
    if (byChunks) {
      // The first pair of the chunk says where both halves are.
      Value x = pairOf[0], y = arith::AddIOp::create(b, x, half);
      xs = loadStored(x);
      ys = loadStored(y);
    } else {
      for (int64_t e = 0; e < chunkChannels; ++e) {
        Value x = pairOf[e], y;
        if (readsNeighbours) {
          x = arith::MulIOp::create(b, x, two);
          y = arith::AddIOp::create(b, x, indexOf(b, 1));
        } else {
          y = arith::AddIOp::create(b, x, half);
        }
        xs[e] = loadOne(x);
        ys[e] = loadOne(y);
      }
    }
    RopeAngles angles = createRopeAngles(b, frequenciesOf(rope, pairOf), position);
    for (int64_t e = 0; e < chunkChannels; ++e) {
      Value c = vector::ExtractOp::create(b, angles.cosines, e), s = vector::ExtractOp::create(b, angles.sines, e);
      auto mul = [&](Value x, Value y) { return arith::MulFOp::create(b, x, y).getResult(); };
      Value u = arith::SubFOp::create(b, mul(xs[e], c), mul(ys[e], s));
      Value v = arith::AddFOp::create(b, mul(xs[e], s), mul(ys[e], c));
      Value turned = arith::SelectOp::create(b, isSecond[e], v, u);
      numbers[e] = arith::SelectOp::create(b, isTurned[e], turned, stored[e]);
    }
    return numbers;
  }

  /// base^(-2 pair / dims) as the product over the bits of the pair's number: tables of lanes would be memory.
  Value frequenciesOf(RopeAttr rope, ArrayRef<Value> pairs) {
    const double base = rope.getBase().getValueAsDouble(), dims = rope.getDims();
    auto number = [&](double value) { return arith::ConstantOp::create(b, b.getF64FloatAttr(value)).getResult(); };
    SmallVector<Value> frequencies;
    for (Value pair : pairs) {
      Value word = toWord(b, pair), product = number(1);
      for (int64_t bit = 1; bit < dims / 2; bit *= 2) {
        Value masked = arith::AndIOp::create(b, word, wordOf(b, bit));
        Value isSet = arith::CmpIOp::create(b, arith::CmpIPredicate::ne, masked, wordOf(b, 0));
        Value factor = arith::SelectOp::create(b, isSet, number(std::pow(base, -2.0 * bit / dims)), number(1));
        product = b.createOrFold<arith::MulFOp>(product, factor);
      }
      frequencies.push_back(product);
    }
    return vector::FromElementsOp::create(b, VectorType::get({chunkChannels}, b.getF64Type()), frequencies);
  }

  TeamEmitter &emitter;
  ImplicitLocOpBuilder &b;
  const Source &source;
  const CacheMemory &cache;
  tile::Part part;
  Value slot;
  const PlaneLayout &layout;
};

/// The numbers of either part of a cache.
SmallVector<Value> loadFromEither(TeamEmitter &emitter, ImplicitLocOpBuilder &b, const Source &source, Value slot,
                                  Value first) {
  Value sealed = tile::CounterOp::create(b, tile::Counter::Sealed, source.cacheValue, source.sequence, source.head);
  Value isSealed = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, slot, sealed);
  SmallVector<Type> types(chunkChannels, b.getF32Type());
  auto choice = scf::IfOp::create(b, types, isSealed, /*withElseRegion=*/true);
  auto emit = [&](Block *block, tile::Part part) {
    auto inner = ImplicitLocOpBuilder::atBlockBegin(b.getLoc(), block);
    scf::YieldOp::create(inner, SlotDecoder(emitter, inner, source, part, slot).load(first));
  };
  emit(choice.thenBlock(), tile::Part::Pages);
  emit(choice.elseBlock(), tile::Part::Tail);
  return llvm::to_vector(llvm::map_range(choice.getResults(), [](Value value) { return value; }));
}
} // namespace

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

void kvc::layOutStage(StagedOperand &operand, int64_t channels) {
  operand.chunks = channels / chunkChannels;
  operand.swizzled = operand.chunks % 8 == 0;
  operand.stageRow = operand.swizzled ? operand.chunks * chunkBytes : paddedRowBytes(channels);
}

void kvc::layOutPadded(StagedOperand &operand, int64_t channels) {
  operand.chunks = channels / chunkChannels;
  operand.swizzled = false;
  operand.stageRow = paddedRowBytes(channels);
}

int64_t kvc::distanceOfReaders(const MmaAtom &atom) { return atom.b()(0, 1, 0)[Axis::Column]; }

/// Rows that have a place together.
static constexpr int64_t placedRows = 16;

int64_t StagedOperand::placeOfRow(int64_t row) const {
  const int64_t own = row % placedRows;
  return row - own + own % rowDistance * (placedRows / rowDistance) + own / rowDistance;
}

Value StagedOperand::placeOfRow(ImplicitLocOpBuilder &b, Value row) const {
  if (rowDistance == 1) {
    return row;
  }
  Value own = arith::RemUIOp::create(b, row, wordOf(b, placedRows));
  Value group = mulWords(b, arith::DivUIOp::create(b, row, wordOf(b, placedRows)), placedRows);
  Value low = mulWords(b, arith::RemUIOp::create(b, own, wordOf(b, rowDistance)), placedRows / rowDistance);
  return addWords(b, group, addWords(b, low, arith::DivUIOp::create(b, own, wordOf(b, rowDistance))));
}

Value StagedOperand::placeOfIndex(ImplicitLocOpBuilder &b, Value row) const {
  return rowDistance == 1 ? row : toIndex(b, placeOfRow(b, toWord(b, row)));
}

StagedOperand TeamEmitter::describeUnpacked(Operation *op, int64_t offset) {
  StagedOperand operand{};
  Source source = sourceOf(op);
  auto type = cast<tile::OperandType>(op->getResult(0).getType());
  operand.cache = &context.cache(source.cacheValue);
  operand.product = productOf(op->getResult(0));
  operand.atom = &kvc::atomOf(facts, operand.product);
  const int64_t channels = paddedChannels(source.plane, type.getChannels());
  facts.readsInOrder() ? layOutPadded(operand, channels) : layOutStage(operand, channels);
  int64_t rows = 0;
  for (Operation *user : op->getUsers()) {
    if (auto mma = dyn_cast<tile::MmaOp>(user)) {
      rows = mma.getA().getType().getDimSize(0);
      if (facts.readsInOrder() && mma.getContract() == tile::Contract::Channels) {
        operand.rowDistance = distanceOfReaders(*operand.atom);
      }
    }
  }
  operand.slots = paddedSlots(rows, type.getSlots());
  operand.offset = offset;
  operand.setBytes = operand.slots * operand.stageRow;
  operand.stageBytes = operand.setBytes * setsOf(operand.product);
  return operand;
}

void TeamEmitter::unpack(Builder &b, Operation *op, const StagedOperand &operand) {
  const Source source = sourceOf(op);
  const int64_t channels = cast<tile::OperandType>(op->getResult(0).getType()).getChannels();
  const int64_t team = warps * facts.lanes;
  Value thread = toIndex(b, addWords(b, mulWords(b, warp, facts.lanes), lane));
  auto loop = scf::ForOp::create(b, thread, indexOf(b, operand.slots * operand.chunks), indexOf(b, team));
  Builder body = Builder::atBlockBegin(b.getLoc(), loop.getBody());
  Value piece = loop.getInductionVar();
  Value row = arith::DivUIOp::create(body, piece, indexOf(body, operand.chunks));
  Value chunk = arith::RemUIOp::create(body, piece, indexOf(body, operand.chunks));
  Value exists = arith::CmpIOp::create(body, arith::CmpIPredicate::slt, row, source.count);
  if (operand.chunks * chunkChannels - channels >= chunkChannels) {
    exists = arith::AndIOp::create(body, exists,
                                   arith::CmpIOp::create(body, arith::CmpIPredicate::slt, chunk,
                                                         indexOf(body, llvm::divideCeil(channels, chunkChannels))));
  }
  const int64_t sets = setsOf(operand.product), words = chunkChannels / 2;
  Type word = VectorType::get({2}, operand.product == ProductType::F16 ? Type(b.getF16Type()) : Type(b.getBF16Type()));
  SmallVector<Type> types(sets * words, word);
  auto branch = scf::IfOp::create(body, types, exists, /*withElseRegion=*/true);
  {
    Builder inner = Builder::atBlockBegin(b.getLoc(), branch.thenBlock());
    Value first = arith::MulIOp::create(inner, chunk, indexOf(inner, chunkChannels));
    SmallVector<Value> numbers;
    if (tile::GatherOperandOp gather = source.gather) {
      Value number = arith::AddIOp::create(inner, gather.getFirst(), row);
      Value slot = tile::SelectionEntryOp::create(inner, gather.getSelection(), gather.getEntry(), gather.getHead(),
                                                  number, operand.cache->type.getHeads());
      numbers = operand.cache->type.hasTail() ? loadFromEither(*this, inner, source, slot, first)
                                              : SlotDecoder(*this, inner, source, tile::Part::Pages, slot).load(first);
    } else {
      Value slot = arith::AddIOp::create(inner, source.slot, row);
      numbers = SlotDecoder(*this, inner, source, source.part, slot).load(first);
    }
    SmallVector<Value> all;
    for (auto &set : createWords(inner, numbers, operand.product)) {
      llvm::append_range(all, set);
    }
    scf::YieldOp::create(inner, all);
    Builder none = Builder::atBlockBegin(b.getLoc(), branch.elseBlock());
    Value zero = arith::ConstantOp::create(none, none.getZeroAttr(word));
    scf::YieldOp::create(none, SmallVector<Value>(sets * words, zero));
  }
  Value stagedChunk = chunk;
  if (operand.swizzled) {
    stagedChunk = arith::XOrIOp::create(body, chunk, arith::RemUIOp::create(body, row, indexOf(body, 8)));
  }
  Ix place = Ix(body, operand.placeOfIndex(body, row)) * operand.stageRow + Ix(body, stagedChunk) * chunkBytes +
             operand.offset;
  auto bytes = VectorType::get({chunkBytes}, b.getI8Type());
  for (int64_t set = 0; set < sets; ++set) {
    SmallVector<Value> elements;
    for (Value pair : branch.getResults().slice(set * words, words)) {
      for (int64_t i : {0, 1}) {
        elements.push_back(vector::ExtractOp::create(body, pair, i));
      }
    }
    Value row = vector::FromElementsOp::create(
        body, VectorType::get({chunkChannels}, cast<VectorType>(word).getElementType()), elements);
    vector::StoreOp::create(body, vector::BitCastOp::create(body, bytes, row), staging,
                            (place + set * operand.setBytes).get(), /*nontemporal=*/false,
                            llvm::MaybeAlign(chunkBytes));
  }
}
