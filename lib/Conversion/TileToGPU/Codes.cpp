//===- Codes.cpp - Codes of pages, loaded a tile ahead --------------------===//
//
// The codes and scales of a tile are in registers of the lanes before the loop reaches it. In front of the product they
// become f16 in staging memory, two numbers at a time: a code's bits behind an exponent are a number of f16, from which
// one multiply-add makes the code itself, exactly. In pages of teams neighbours lie 16 bits apart, so a mask of the
// word gives a pair.
//
//===----------------------------------------------------------------------===//
#include "CodeTile.h"

#include "mlir/Dialect/UB/IR/UBOps.h"

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;

static constexpr int64_t chunkChannels = 8, chunkBytes = 16;
/// Pairs of f16 that a lane keeps of the scales of its channels.
static constexpr int64_t mostScaleChannels = 16;

bool CodeTile::divideLanes() {
  const int64_t lanes = emitter->facts.lanes, bits = plane->format.getBits();
  for (int64_t wide = 4; wide >= 1; wide /= 2) {
    channels = wide * chunkChannels;
    const bool isLoad = channels * bits / 8 <= 16 && (channels * bits) % 32 == 0 && channels % plane->pack == 0;
    const bool sharesScales = perChannel ? channels <= mostScaleChannels : plane->format.getGroup() % channels == 0;
    if (!isLoad || !sharesScales || staged.chunks % wide || lanes * wide % staged.chunks) {
      continue;
    }
    rows = lanes * wide / staged.chunks;
    if (llvm::isPowerOf2_64(rows) && run % rows == 0) {
      return true;
    }
  }
  return false;
}

std::optional<CodeTile> CodeTile::create(TeamEmitter &emitter, Operation *operation, scf::ForOp loop, int64_t offset) {
  auto op = dyn_cast<tile::OperandOp>(operation);
  if (!op || op.getPart() != tile::Part::Pages) {
    return std::nullopt;
  }
  const CacheMemory &cache = emitter.context.cache(op.getCache());
  const PlaneLayout &plane = cache.layout.plane(op.getPlane());
  const FormatAttr format = plane.format;
  if (!format.isInteger() || !(format.getBits() == 8 || plane.pairs) || !format.getScale().isF16() ||
      (op.getPlane() == Plane::K && cache.type.getRope())) {
    return std::nullopt;
  }
  CodeTile tile(emitter, op, cache, plane, emitter.describeUnpacked(op, offset));
  const StagedOperand &staged = tile.staged;
  const int64_t slots = op.getType().getSlots(), page = cache.type.getPage();
  if (staged.product != ProductType::F16 || staged.slots != slots || staged.chunks * chunkChannels != plane.channels ||
      !staged.swizzled || slots % (8 * emitter.warps)) {
    return std::nullopt;
  }
  tile.slotsOfWarp = slots / emitter.warps;
  tile.perChannel = format.getAxis() == kvcache::Axis::Channel;
  tile.run = std::gcd(tile.slotsOfWarp, tile.perChannel ? std::gcd(page, format.getGroup()) : page);
  // Runs begin in a page, and in one group of slots where those share scales, only where tiles do.
  Value slot = op.getSlot();
  const bool isAligned = slot == loop.getInductionVar()
                             ? isMultipleOf(loop.getLowerBound(), tile.run) && isMultipleOf(loop.getStep(), tile.run)
                             : isMultipleOf(slot, tile.run);
  if (!isAligned || !tile.divideLanes()) {
    return std::nullopt;
  }
  return tile;
}

SmallVector<Type> CodeTile::types() const {
  Builder b(op.getContext());
  Type word = b.getI32Type(), pair = VectorType::get({2}, b.getF16Type());
  SmallVector<Type> types;
  for (int64_t i = 0; i < steps(); ++i) {
    types.append(words(), word);
    types.append(perChannel ? 0 : 1, pair);
  }
  if (perChannel) {
    types.append(channels / 2 * (plane->zeros >= 0 ? 2 : 1) * (slotsOfWarp / run), pair);
  }
  return types;
}

CodeTile::Place CodeTile::placeOf(ImplicitLocOpBuilder &b) const {
  // Eight lanes that store at once must meet all eight chunks of a swizzle: their rows flip the low bits of a chunk's
  // number, so their parts differ in the bits above.
  const int64_t rowBits = llvm::Log2_64(rows), wideBits = llvm::Log2_64(chunks());
  const int64_t free = std::max<int64_t>(0, 3 - rowBits), low = std::max<int64_t>(0, rowBits - wideBits);
  Ix lane(b, toIndex(b, emitter->lane));
  Ix row = lane % rows, number = lane / rows;
  Ix above = number / (1 << free);
  Ix part = above % (1 << low) + number % (1 << free) * (1 << low) + above / (1 << low) * (1 << (low + free));
  return {row.get(), part.get()};
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
  const FormatAttr format = plane->format;
  const int64_t bits = format.getBits(), page = cache->type.getPage(), rowBytes = plane->channels * bits / 8;
  const int64_t loadBytes = channels * bits / 8, groups = plane->channels / format.getGroup();
  Place place = placeOf(b);
  Ix row(b, place.row), part(b, place.part);
  Ix warpRow(b, toIndex(b, mulWords(b, emitter->warp, slotsOfWarp)));
  auto isBelowCount = [&](Ix number) -> Value {
    return isWhole ? Value() : arith::CmpIOp::create(b, arith::CmpIPredicate::slt, number.get(), count).getResult();
  };
  SmallVector<Value> codes, scales;
  auto pair = VectorType::get({2}, b.getF16Type());
  for (int64_t first = 0; first < slotsOfWarp; first += run) {
    // Slots of a run share a page; behind the last slot in use there may be none.
    Value used = isBelowCount(warpRow + first);
    Value begin = (Ix(b, slot) + warpRow + first).get();
    Value safe = used ? arith::SelectOp::create(b, used, begin, slot).getResult() : begin;
    Ix block(b, emitter->context.headBlock(b, *cache, sequence, head, safe));
    Ix inPage = Ix(b, safe) % page;
    Ix codesAt = block + inPage * rowBytes + (row * rowBytes + part * loadBytes);
    Ix scalesAt = block + inPage * (groups * 2) + (row * groups + part * channels / format.getGroup()) * 2;
    for (int64_t i = 0; i < run; i += rows) {
      Value valid = isBelowCount(warpRow + row + (first + i));
      Value raw = loadIf(b, valid, cache->pages, (codesAt + (plane->codes + i * rowBytes)).get(), loadBytes);
      Value all = vector::BitCastOp::create(b, VectorType::get({words()}, b.getI32Type()), raw);
      for (int64_t w = 0; w < words(); ++w) {
        codes.push_back(vector::ExtractOp::create(b, all, w));
      }
      if (perChannel) {
        continue;
      }
      auto numberAt = [&](int64_t offset) {
        Value raw = loadIf(b, valid, cache->pages, (scalesAt + (offset + i * groups * 2)).get(), 2);
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
    Ix channelsAt = block + inPage / format.getGroup() * (plane->channels * 2) + part * (channels * 2);
    for (int64_t offset : {plane->scales, plane->zeros}) {
      for (int64_t c = 0; offset >= 0 && c < channels; c += chunkChannels) {
        Value raw = loadIf(b, used, cache->pages, (channelsAt + (offset + c * 2)).get(), chunkBytes);
        Value all = vector::BitCastOp::create(b, VectorType::get({chunkChannels}, b.getF16Type()), raw);
        for (int64_t p = 0; p < chunkChannels; p += 2) {
          scales.push_back(vector::ExtractStridedSliceOp::create(b, all, p, 2, 1));
        }
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
          none.push_back(ub::PoisonOp::create(b, type));
        }
        return none;
      });
}

namespace {
/// A pair of f16 that stands for two codes: (number - offset) / step of each.
struct RaisedPair {
  Value numbers;
  float offset, step;
};
} // namespace

/// A lane's codes as pairs of neighbours.
static SmallVector<RaisedPair> raisedPairs(ImplicitLocOpBuilder &b, ArrayRef<Value> words, int64_t bits) {
  constexpr int64_t exponent = 0x64, mantissaBits = 10;
  constexpr float raised = 1024.0f;
  auto word = VectorType::get({1}, b.getI32Type()), halves = VectorType::get({2}, b.getF16Type());
  SmallVector<RaisedPair> pairs;
  for (Value codes : words) {
    if (bits == 8) {
      auto bytes = VectorType::get({4}, b.getI8Type());
      Value four = vector::BitCastOp::create(b, bytes, vector::FromElementsOp::create(b, word, codes));
      Value exponents = arith::ConstantOp::create(b, DenseElementsAttr::get(bytes, static_cast<int8_t>(exponent)));
      for (int64_t i : {0, 2}) {
        Value pair = vector::ShuffleOp::create(b, four, exponents, ArrayRef<int64_t>{i, 4, i + 1, 4});
        pairs.push_back({vector::BitCastOp::create(b, halves, pair), raised, 1.0f});
      }
      continue;
    }
    // The codes of a pair count in steps of the mantissa's bit that they begin with.
    const int64_t mask = (int64_t(1) << bits) - 1;
    Value shifted = codes;
    int64_t gone = 0;
    for (int64_t bit = 0; bit < 16; bit += bits) {
      if (bit - gone + bits > mantissaBits) {
        gone = bit;
        shifted = arith::ShRUIOp::create(b, codes, wordOf(b, gone));
      }
      const int64_t at = bit - gone;
      Value pair = arith::AndIOp::create(b, shifted, wordOf(b, mask << at | mask << (at + 16)));
      pair = arith::OrIOp::create(b, pair, wordOf(b, exponent << 8 | exponent << 24));
      pairs.push_back({vector::BitCastOp::create(b, halves, vector::FromElementsOp::create(b, word, pair)), raised,
                       static_cast<float>(1 << at)});
    }
  }
  return pairs;
}

void CodeTile::decode(ImplicitLocOpBuilder &b, ValueRange registers) const {
  const FormatAttr format = plane->format;
  const int64_t bits = format.getBits(), perStep = words() + (perChannel ? 0 : 1), pairsOfLane = channels / 2;
  const int64_t sets = plane->zeros >= 0 ? 2 : 1;
  ValueRange scales = registers.drop_front(steps() * perStep);
  auto pair = VectorType::get({2}, b.getF16Type()), word = VectorType::get({1}, b.getI32Type());
  auto both = [&](float value) {
    return arith::ConstantOp::create(b, SplatElementsAttr::get(pair, b.getF16FloatAttr(value))).getResult();
  };
  const float zeroCode = format.getSymmetric() ? static_cast<float>(1 << (bits - 1)) : 0.0f;
  Place place = placeOf(b);
  Ix row(b, place.row);
  Value firstChunk = (Ix(b, place.part) * chunks()).get();
  Ix warpRow(b, toIndex(b, mulWords(b, emitter->warp, slotsOfWarp)));
  Ix base = (warpRow + row) * staged.stageRow + staged.offset;
  Value lowRow = ((warpRow + row) % 8).get();
  auto stored = VectorType::get({chunkBytes}, b.getI8Type());
  for (int64_t i = 0; i < steps(); ++i) {
    SmallVector<Value> codes(registers.slice(i * perStep, words())), numbers;
    Value scale, zero;
    if (!perChannel) {
      Value held = registers[i * perStep + words()];
      scale = vector::ShuffleOp::create(b, held, held, ArrayRef<int64_t>{0, 0});
      zero = vector::ShuffleOp::create(b, held, held, ArrayRef<int64_t>{1, 1});
    }
    for (auto [p, code] : llvm::enumerate(raisedPairs(b, codes, bits))) {
      if (perChannel) {
        const int64_t group = i * rows / run;
        scale = scales[group * sets * pairsOfLane + p];
        zero = scales[(group * sets + sets - 1) * pairsOfLane + p];
      }
      // The code is exact; the number is rounded once.
      Value exact = code.step == 1.0f ? arith::SubFOp::create(b, code.numbers, both(code.offset + zeroCode)).getResult()
                                      : math::FmaOp::create(b, code.numbers, both(1 / code.step),
                                                            both(-code.offset / code.step - zeroCode));
      Value number =
          sets == 2 ? math::FmaOp::create(b, exact, scale, zero).getResult() : arith::MulFOp::create(b, exact, scale);
      numbers.push_back(vector::ExtractOp::create(b, vector::BitCastOp::create(b, word, number), 0));
    }
    // Of a step's rows the low bits are a lane's, those above are known here.
    Value flips = arith::XOrIOp::create(b, lowRow, indexOf(b, i * rows % 8));
    for (int64_t c = 0; c < chunks(); ++c) {
      Value all = vector::FromElementsOp::create(b, VectorType::get({chunkChannels / 2}, b.getI32Type()),
                                                 ArrayRef(numbers).slice(c * chunkChannels / 2, chunkChannels / 2));
      Value chunk = arith::XOrIOp::create(b, arith::XOrIOp::create(b, firstChunk, flips), indexOf(b, c));
      Ix at = base + Ix(b, chunk) * chunkBytes + i * rows * staged.stageRow;
      vector::StoreOp::create(b, vector::BitCastOp::create(b, stored, all), emitter->staging, at.get(),
                              /*nontemporal=*/false, llvm::MaybeAlign(chunkBytes));
    }
  }
}
