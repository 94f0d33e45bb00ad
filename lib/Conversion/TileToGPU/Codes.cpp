//===- Codes.cpp - Codes of pages, loaded a tile ahead --------------------===//
//
// The codes and scales of a tile are in registers of the lanes before the loop reaches it: every lane has eight
// channels of every so many slots. In front of the product they become f16 in staging memory, two numbers at a time:
// a code's bits behind the exponent of 1024 are the number 1024 + code.
//
//===----------------------------------------------------------------------===//
#include "CodeTile.h"

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;

static constexpr int64_t chunkChannels = 8, chunkBytes = 16, pairsOfChunk = chunkChannels / 2;

std::optional<CodeTile> CodeTile::create(TeamEmitter &emitter, Operation *operation, scf::ForOp loop, int64_t offset) {
  auto op = dyn_cast<tile::OperandOp>(operation);
  if (!op || op.getPart() != tile::Part::Pages) {
    return std::nullopt;
  }
  const CacheMemory &cache = emitter.context.cache(op.getCache());
  const PlaneLayout &plane = cache.layout.plane(op.getPlane());
  const FormatAttr format = plane.format;
  const int64_t team = emitter.warps * emitter.facts.lanes;
  // A chunk has as many bytes as a code has bits: one load where that is a power of two.
  if (!format.isInteger() || !llvm::isPowerOf2_64(format.getBits()) || !format.getScale().isF16() ||
      plane.channels % chunkChannels || (op.getPlane() == Plane::K && cache.type.getRope())) {
    return std::nullopt;
  }
  CodeTile tile(emitter, op, cache, plane, emitter.describeUnpacked(op, offset));
  const StagedOperand &staged = tile.staged;
  const int64_t slots = op.getType().getSlots(), page = cache.type.getPage();
  if (staged.product != ProductType::F16 || staged.slots != slots || staged.chunks * chunkChannels != plane.channels ||
      team % staged.chunks) {
    return std::nullopt;
  }
  // The rows of a step lie in one page, and in one group of slots where those share scales.
  tile.rows = team / staged.chunks;
  tile.perChannel = format.getAxis() == kvcache::Axis::Channel;
  const int64_t run = tile.perChannel ? std::gcd(page, format.getGroup()) : page;
  if (slots % tile.rows || run % tile.rows || (!tile.perChannel && format.getGroup() % chunkChannels)) {
    return std::nullopt;
  }
  // Pages of a tile are known by number where tiles begin with one; else every step looks its page up.
  tile.run = std::min<int64_t>(std::gcd(run, slots), tile.perChannel ? format.getGroup() : page);
  auto isStep = [&](int64_t size) {
    Value slot = op.getSlot();
    return slot == loop.getInductionVar()
               ? isMultipleOf(loop.getLowerBound(), size) && isMultipleOf(loop.getStep(), size)
               : isMultipleOf(slot, size);
  };
  if (!isStep(tile.run)) {
    if (tile.perChannel || !isStep(tile.rows)) {
      return std::nullopt;
    }
    tile.run = tile.rows;
  }
  return tile;
}

SmallVector<Type> CodeTile::types() const {
  Builder b(op.getContext());
  Type word = b.getI32Type(), pair = VectorType::get({2}, b.getF16Type());
  const int64_t scales = perChannel ? pairsOfChunk * (plane->zeros >= 0 ? 2 : 1) : 0;
  SmallVector<Type> types;
  for (int64_t i = 0; i < steps(); ++i) {
    types.append(wordsOfChunk(), word);
    types.append(perChannel ? 0 : 1, pair);
  }
  types.append(scales * (staged.slots / run), pair);
  return types;
}

/// Loads of `bytes` bytes, or zeros where `valid` (null: always) does not hold.
static Value loadIf(ImplicitLocOpBuilder &b, Value valid, Value memory, Value at, int64_t bytes) {
  auto type = VectorType::get({bytes}, b.getI8Type());
  auto load = [&](ImplicitLocOpBuilder &b) {
    return vector::LoadOp::create(b, type, memory, at, /*nontemporal=*/false, llvm::MaybeAlign(bytes)).getResult();
  };
  if (!valid) {
    return load(b);
  }
  auto branch = scf::IfOp::create(b, TypeRange{type}, valid, /*withElseRegion=*/true);
  auto yes = ImplicitLocOpBuilder::atBlockBegin(b.getLoc(), branch.thenBlock());
  scf::YieldOp::create(yes, load(yes));
  auto no = ImplicitLocOpBuilder::atBlockBegin(b.getLoc(), branch.elseBlock());
  scf::YieldOp::create(no, arith::ConstantOp::create(no, no.getZeroAttr(type)).getResult());
  return branch.getResult(0);
}

SmallVector<Value> CodeTile::loadTile(ImplicitLocOpBuilder &b, Value slot, Value count, Value sequence, Value head,
                                      bool isWhole) const {
  const int64_t bits = plane->format.getBits(), page = cache->type.getPage(), rowBytes = plane->channels * bits / 8;
  const int64_t zeroBytes = plane->zeros - plane->scales;
  Ix chunk(b, chunkOfLane(b)), row(b, rowOfLane(b));
  Ix inLane = row * rowBytes + chunk * bits;
  // Whether a row of the tile is used.
  auto isUsed = [&](int64_t first, bool ofLane) -> Value {
    if (isWhole) {
      return Value();
    }
    Value number = ofLane ? (row + first).get() : indexOf(b, first);
    return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, number, count);
  };
  SmallVector<Value> codes, scales;
  auto pair = VectorType::get({2}, b.getF16Type());
  for (int64_t first = 0; first < staged.slots; first += run) {
    // Slots of a run share a page; behind the last slot in use there may be none.
    Value used = isUsed(first, /*ofLane=*/false);
    Value begin = (Ix(b, slot) + first).get();
    Value safe = used ? arith::SelectOp::create(b, used, begin, slot).getResult() : begin;
    Ix block(b, emitter->context.headBlock(b, *cache, sequence, head, safe));
    Ix inPage = Ix(b, safe) % page;
    for (int64_t i = 0; i < run; i += rows) {
      Value valid = isUsed(first + i, /*ofLane=*/true);
      Ix at = block + plane->codes + (inPage + i) * rowBytes + inLane;
      Value raw = loadIf(b, valid, cache->pages, at.get(), bits);
      if (bits == 2) {
        Value half =
            vector::ExtractOp::create(b, vector::BitCastOp::create(b, VectorType::get({1}, b.getI16Type()), raw), 0);
        codes.push_back(arith::ExtUIOp::create(b, b.getI32Type(), half));
      } else {
        Value words = vector::BitCastOp::create(b, VectorType::get({wordsOfChunk()}, b.getI32Type()), raw);
        for (int64_t w = 0; w < wordsOfChunk(); ++w) {
          codes.push_back(vector::ExtractOp::create(b, words, w));
        }
      }
      if (perChannel) {
        continue;
      }
      const int64_t groups = plane->channels / plane->format.getGroup();
      Ix index = (inPage + i + row) * groups + (chunk * chunkChannels) / plane->format.getGroup();
      auto numberAt = [&](int64_t offset) {
        Value raw = loadIf(b, valid, cache->pages, (block + index * 2 + offset).get(), 2);
        return vector::ExtractOp::create(b, vector::BitCastOp::create(b, VectorType::get({1}, b.getF16Type()), raw), 0)
            .getResult();
      };
      Value scale = numberAt(plane->scales);
      Value zero = plane->zeros >= 0 ? numberAt(plane->zeros) : scale;
      codes.push_back(vector::FromElementsOp::create(b, pair, ValueRange{scale, zero}));
    }
    if (!perChannel) {
      continue;
    }
    Ix index = inPage / plane->format.getGroup() * plane->channels + chunk * chunkChannels;
    for (int64_t offset : {int64_t(0), zeroBytes}) {
      if (offset && plane->zeros < 0) {
        continue;
      }
      Value raw = loadIf(b, used, cache->pages, (block + index * 2 + (plane->scales + offset)).get(), chunkBytes);
      Value all = vector::BitCastOp::create(b, VectorType::get({chunkChannels}, b.getF16Type()), raw);
      for (int64_t p = 0; p < pairsOfChunk; ++p) {
        scales.push_back(vector::ExtractStridedSliceOp::create(b, all, 2 * p, 2, 1));
      }
    }
  }
  llvm::append_range(codes, scales);
  return codes;
}

SmallVector<Value> CodeTile::load(ImplicitLocOpBuilder &b, scf::ForOp loop, Value iv) const {
  auto ifElse = [&](ImplicitLocOpBuilder &b, Value condition, auto yes, auto no) {
    auto branch = scf::IfOp::create(b, types(), condition, /*withElseRegion=*/true);
    auto first = ImplicitLocOpBuilder::atBlockBegin(b.getLoc(), branch.thenBlock());
    scf::YieldOp::create(first, yes(first));
    auto second = ImplicitLocOpBuilder::atBlockBegin(b.getLoc(), branch.elseBlock());
    scf::YieldOp::create(second, no(second));
    return llvm::to_vector(llvm::map_range(branch.getResults(), [](Value value) { return value; }));
  };
  Value inside = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, iv, loop.getUpperBound());
  return ifElse(
      b, inside,
      [&](ImplicitLocOpBuilder &b) {
        IRMapping mapping;
        auto at = [&](Value value) { return valueAt(b, loop, value, iv, mapping); };
        Value slot = at(op.getSlot()), count = at(op.getCount());
        Value sequence = at(op.getSequence()), head = at(op.getHead());
        Value isWhole = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, count, indexOf(b, staged.slots));
        return ifElse(
            b, isWhole, [&](ImplicitLocOpBuilder &b) { return loadTile(b, slot, count, sequence, head, true); },
            [&](ImplicitLocOpBuilder &b) { return loadTile(b, slot, count, sequence, head, false); });
      },
      [&](ImplicitLocOpBuilder &b) {
        SmallVector<Value> none;
        for (Type type : types()) {
          none.push_back(arith::ConstantOp::create(b, b.getZeroAttr(type)));
        }
        return none;
      });
}

/// Eight codes as pairs of f16 with the numbers 1024 + code.
static SmallVector<Value> raisedPairs(ImplicitLocOpBuilder &b, ArrayRef<Value> words, int64_t bits) {
  auto bytes = VectorType::get({4}, b.getI8Type()), word = VectorType::get({1}, b.getI32Type());
  auto toBytes = [&](Value value) {
    return vector::BitCastOp::create(b, bytes, vector::FromElementsOp::create(b, word, value)).getResult();
  };
  constexpr int8_t exponent = 0x64;
  Value exponents = arith::ConstantOp::create(b, DenseElementsAttr::get(bytes, exponent));
  auto shuffle = [&](Value x, Value y, ArrayRef<int64_t> order) {
    return vector::ShuffleOp::create(b, x, y, order).getResult();
  };
  // Bytes of codes in order, four to a word.
  SmallVector<Value> ordered;
  auto field = [&](int64_t shift, int64_t mask) {
    Value shifted = shift ? arith::ShRUIOp::create(b, words[0], wordOf(b, shift)).getResult() : words[0];
    return toBytes(arith::AndIOp::create(b, shifted, wordOf(b, mask)));
  };
  if (bits == 8) {
    ordered = {toBytes(words[0]), toBytes(words[1])};
  } else if (bits == 4) {
    Value even = field(0, 0x0f0f0f0f), odd = field(4, 0x0f0f0f0f);
    ordered = {shuffle(even, odd, {0, 4, 1, 5}), shuffle(even, odd, {2, 6, 3, 7})};
  } else {
    Value first = field(0, 0x0303), second = field(2, 0x0303), third = field(4, 0x0303), fourth = field(6, 0x0303);
    Value low = shuffle(first, second, {0, 4, 1, 5}), high = shuffle(third, fourth, {0, 4, 1, 5});
    ordered = {shuffle(low, high, {0, 1, 4, 5}), shuffle(low, high, {2, 3, 6, 7})};
  }
  SmallVector<Value> pairs;
  for (Value four : ordered) {
    for (int64_t i : {0, 2}) {
      Value raised = shuffle(four, exponents, {i, 4, i + 1, 4});
      pairs.push_back(vector::BitCastOp::create(b, VectorType::get({2}, b.getF16Type()), raised));
    }
  }
  return pairs;
}

void CodeTile::decode(ImplicitLocOpBuilder &b, ValueRange registers) const {
  const FormatAttr format = plane->format;
  const int64_t bits = format.getBits(), words = wordsOfChunk(), perStep = words + (perChannel ? 0 : 1);
  const int64_t sets = plane->zeros >= 0 ? 2 : 1;
  ValueRange scales = registers.drop_front(steps() * perStep);
  auto pair = VectorType::get({2}, b.getF16Type());
  const float raised = 1024.0f + (format.getSymmetric() ? static_cast<float>(1 << (bits - 1)) : 0.0f);
  Value offset = arith::ConstantOp::create(b, SplatElementsAttr::get(pair, b.getF16FloatAttr(raised)));
  Ix chunk(b, chunkOfLane(b)), row(b, rowOfLane(b));
  auto stored = VectorType::get({chunkBytes}, b.getI8Type());
  for (int64_t i = 0; i < steps(); ++i) {
    SmallVector<Value> codes(registers.slice(i * perStep, words)), numbers;
    for (auto [p, code] : llvm::enumerate(raisedPairs(b, codes, bits))) {
      Value scale, zero;
      if (perChannel) {
        const int64_t group = i * rows / run;
        scale = scales[(group * sets) * pairsOfChunk + p];
        zero = scales[(group * sets + sets - 1) * pairsOfChunk + p];
      } else {
        Value both = registers[i * perStep + words];
        scale = vector::ShuffleOp::create(b, both, both, ArrayRef<int64_t>{0, 0});
        zero = vector::ShuffleOp::create(b, both, both, ArrayRef<int64_t>{1, 1});
      }
      // The code is exact; the number is rounded once.
      Value exact = arith::SubFOp::create(b, code, offset);
      numbers.push_back(sets == 2 ? math::FmaOp::create(b, exact, scale, zero).getResult()
                                  : arith::MulFOp::create(b, exact, scale).getResult());
    }
    SmallVector<Value> wordsOut;
    for (Value number : numbers) {
      Value word = vector::BitCastOp::create(b, VectorType::get({1}, b.getI32Type()), number);
      wordsOut.push_back(vector::ExtractOp::create(b, word, 0));
    }
    Value all = vector::FromElementsOp::create(b, VectorType::get({pairsOfChunk}, b.getI32Type()), wordsOut);
    Value stagedChunk = chunk.get();
    if (staged.swizzled) {
      stagedChunk = arith::XOrIOp::create(b, stagedChunk, ((row + i * rows) % 8).get());
    }
    Ix place = row * staged.stageRow + Ix(b, stagedChunk) * chunkBytes + (staged.offset + i * rows * staged.stageRow);
    vector::StoreOp::create(b, vector::BitCastOp::create(b, stored, all), emitter->staging, place.get(),
                            /*nontemporal=*/false, llvm::MaybeAlign(chunkBytes));
  }
}
