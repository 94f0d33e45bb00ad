//===- Codes.cpp - Codes of pages, loaded a tile ahead --------------------===//
//
// The codes and scales of a tile are in registers of the lanes before the loop reaches it. In front of the product they
// become numbers in staging memory (RunDecoder.h).
//
//===----------------------------------------------------------------------===//
#include "Branches.h"
#include "CodeTile.h"
#include "RunDecoder.h"

#include <memory>

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;

static constexpr int64_t chunkChannels = 8, chunkBytes = 16;
/// Scales that a lane keeps of its channels.
static constexpr int64_t mostScaleChannels = 16;

bool CodeTile::divideLanes() {
  const int64_t lanes = emitter->facts.lanes, bits = plane->format.getBits();
  const bool isOneRun = runSlots == slotsOfWarp, isKeys = form == Form::Keys;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t wide : {4, 2, 1}) {
    const int64_t count = wide * chunkChannels, ofRow = staged.chunks / wide;
    const bool isLoad = count * bits <= 128 && count * bits % 32 == 0 && count % plane->pack == 0;
    const int64_t most = isKeys ? 2 * mostScaleChannels : std::max(mostScaleChannels, std::lcm(32, bits) / bits);
    const bool sharesScales = perChannel ? count <= most : plane->format.getGroup() % count == 0;
    if (!isLoad || !sharesScales || staged.chunks % wide) {
      continue;
    }
    for (int64_t side = std::min(ofRow, lanes); side >= 1; --side) {
      int64_t below = std::min(lanes / side, slotsOfWarp);
      if (staged.swizzled || !isOneRun) {
        below = static_cast<int64_t>(llvm::bit_floor(static_cast<uint64_t>(below)));
      }
      // The columns of an instruction are slots; lanes of a column divide its channels.
      if (isKeys && (side != lanes / staged.atom->n || slotsOfWarp % (2 * below))) {
        continue;
      }
      // A swizzle flips the low bits of chunks' numbers, and those of a step's rows alone.
      const bool keepsSwizzle =
          isKeys || !staged.swizzled || (slotsOfWarp % below == 0 && (side == ofRow || side * wide % 8 == 0));
      const bool keepsRuns =
          isOneRun || runSlots % below == 0 || (!perChannel && below % runSlots == 0 && slotsOfWarp % below == 0);
      // Lanes keep the scales of one run of channels.
      if (ofRow % side || (perChannel && side != ofRow) || !keepsSwizzle || !keepsRuns) {
        continue;
      }
      const int64_t work = llvm::divideCeil(slotsOfWarp, below) * (ofRow / side) * count;
      if (work < least) {
        least = work;
        channels = count;
        rows = below;
        across = side;
      }
    }
  }
  return channels != 0;
}

std::optional<CodeTile> CodeTile::create(TeamEmitter &emitter, Operation *operation, scf::ForOp loop, Form form,
                                         int64_t offset, std::string &why) {
  auto op = dyn_cast<tile::OperandOp>(operation);
  if (!op || op.getPart() != tile::Part::Pages) {
    why = op ? "the tail's slots are no codes" : "selected slots do not lie side by side";
    return std::nullopt;
  }
  const CacheMemory &cache = emitter.context.cache(op.getCache());
  const PlaneLayout &plane = cache.layout.plane(op.getPlane());
  const FormatAttr format = plane.format;
  const int64_t slots = op.getType().getSlots(), page = cache.type.getPage();
  CodeTile tile(emitter, op, cache, plane, emitter.describeUnpacked(op, offset));
  const StagedOperand &staged = tile.staged;
  if (!format.isInteger()) {
    why = "numbers of " + format.getName().str() + " are no codes";
  } else if (op.getPlane() == Plane::K && cache.type.getRope()) {
    why = "keys are rotated when they are loaded";
  } else if (format.getBits() < 8 && !plane.pairs && format.getBits() != 3) {
    why = "rows or groups do not fill words of codes";
  } else if (staged.chunks * chunkChannels != plane.channels) {
    why = std::to_string(plane.channels) + " channels do not fill the instructions";
  } else if (staged.slots != slots || slots % (8 * emitter.warps)) {
    why =
        "tiles of " + std::to_string(slots) + " slots do not divide among " + std::to_string(emitter.warps) + " warps";
  }
  if (!why.empty()) {
    return std::nullopt;
  }
  tile.form = form;
  tile.slotsOfWarp = slots / emitter.warps;
  tile.perChannel = format.getAxis() == kvcache::Axis::Channel;
  tile.runSlots = std::gcd(tile.slotsOfWarp, tile.perChannel ? std::gcd(page, format.getGroup()) : page);
  // Runs begin in a page, and in one group of slots where those share scales, only where tiles do.
  Value slot = op.getSlot();
  const bool isAligned = slot == loop.getInductionVar() ? isMultipleOf(loop.getLowerBound(), tile.runSlots) &&
                                                              isMultipleOf(loop.getStep(), tile.runSlots)
                                                        : isMultipleOf(slot, tile.runSlots);
  if (!isAligned || !tile.divideLanes()) {
    why = "channels, groups and pages of " + std::to_string(page) + " slots do not divide among the lanes";
    return std::nullopt;
  }
  // Places of a warp's rows, of a step's and of a lane's are added up.
  if (!llvm::isPowerOf2_64(tile.slotsOfWarp) || !llvm::isPowerOf2_64(tile.rows)) {
    tile.staged.rowDistance = 1;
  }
  return tile;
}

SmallVector<Type> CodeTile::types() const {
  Type word = IntegerType::get(op.getContext(), 32), pair = VectorType::get({2}, plane->format.getScale());
  SmallVector<Type> types;
  for (int64_t i = 0; i < rowSteps() * partSteps(); ++i) {
    types.append(words(), word);
    types.append(perChannel ? 0 : 1, pair);
  }
  if (perChannel) {
    types.append(channels / 2 * (plane->zeros >= 0 ? 2 : 1) * (slotsOfWarp / runSlots), pair);
  }
  return types;
}

CodeTile::Place CodeTile::placeOf(ImplicitLocOpBuilder &b) const {
  Ix lane(b, toIndex(b, emitter->lane));
  if (form == Form::Keys) {
    return {(lane / across).get(), (lane % across).get()};
  }
  Ix row = lane % rows, number = lane / rows;
  if (across == 1) {
    return {row.get(), indexOf(b, 0)};
  }
  // Lanes that are left over do what others do.
  auto isPart = [&](Ix part) {
    const bool isLeft = rows * across < emitter->facts.lanes;
    return isLeft ? arith::MinSIOp::create(b, part.get(), indexOf(b, across - 1)).getResult() : part.get();
  };
  if (!staged.swizzled) {
    return {row.get(), isPart(number)};
  }
  // Eight lanes that store at once must meet all eight chunks of a swizzle: their rows flip the low bits of a chunk's
  // number, so their parts differ in the bits above.
  const int64_t rowBits = llvm::Log2_64(rows), wideBits = llvm::Log2_64(chunks());
  const int64_t free = std::max<int64_t>(0, 3 - rowBits), low = std::max<int64_t>(0, rowBits - wideBits);
  Ix above = number / (1 << free);
  Ix part = above % (1 << low) + number % (1 << free) * (1 << low) + above / (1 << low) * (1 << (low + free));
  return {row.get(), isPart(part)};
}

bool CodeTile::sharesBlocks(const CodeTile &other) const {
  return !hasOwnRuns() && !other.hasOwnRuns() && runSlots == other.runSlots && op.getCache() == other.op.getCache() &&
         op.getSlot() == other.op.getSlot() && op.getCount() == other.op.getCount() &&
         op.getSequence() == other.op.getSequence() && op.getHead() == other.op.getHead();
}

Ix CodeTile::slotOfBlock(ImplicitLocOpBuilder &b, int64_t number) const {
  Ix warpRow(b, toIndex(b, mulWords(b, emitter->warp, slotsOfWarp)));
  return hasOwnRuns() ? warpRow + Ix(b, placeOf(b).row) + rowOffset(number) : warpRow + number * runSlots;
}

SmallVector<Value> CodeTile::findBlocks(ImplicitLocOpBuilder &b, scf::ForOp loop, Value iv) const {
  const int64_t count = hasOwnRuns() ? rowSteps() : slotsOfWarp / runSlots;
  const SmallVector<Type> types(count, b.getIndexType());
  Value inside = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, iv, loop.getUpperBound());
  return ifElse(
      b, types, inside,
      [&](ImplicitLocOpBuilder &b) {
        IRMapping mapping;
        auto at = [&](Value value) { return valueAt(b, loop, value, iv, mapping); };
        Value slot = at(op.getSlot()), used = at(op.getCount()), sequence = at(op.getSequence()),
              head = at(op.getHead());
        SmallVector<Value> blocks;
        for (int64_t i = 0; i < count; ++i) {
          // Behind the last slot in use there may be no page.
          Ix number = slotOfBlock(b, i);
          Value isUsed = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, number.get(), used);
          Value safe = arith::SelectOp::create(b, isUsed, (Ix(b, slot) + number).get(), slot);
          blocks.push_back(emitter->context.headBlock(b, *cache, sequence, head, safe));
        }
        return blocks;
      },
      [&](ImplicitLocOpBuilder &b) { return anyValues(b, types); });
}

SmallVector<Value> CodeTile::loadTile(ImplicitLocOpBuilder &b, const TilePlace &tile, ValueRange blocks,
                                      bool isWhole) const {
  const Value slot = tile.slot, count = tile.count;
  const FormatAttr format = plane->format;
  const int64_t page = cache->type.getPage(), group = format.getGroup(), scaleBytes = plane->scaleBytes;
  const int64_t rowBytes = plane->channels * format.getBits() / 8, runBytes = words() * 4;
  const int64_t loadBytes = llvm::isPowerOf2_64(runBytes) ? runBytes : 4, rowScales = plane->channels / group;
  Place place = placeOf(b);
  Ix row(b, place.row), part(b, place.part);
  Ix warpRow(b, toIndex(b, mulWords(b, emitter->warp, slotsOfWarp)));
  auto isBelowCount = [&](Ix number) -> Value {
    return isWhole ? Value() : arith::CmpIOp::create(b, arith::CmpIPredicate::slt, number.get(), count).getResult();
  };
  const Type scaleType = format.getScale();
  auto pair = VectorType::get({2}, scaleType);
  SmallVector<Value> codes, scales;
  // Of a run's first slot, or of the lane's own.
  Value used;
  Ix block(b, slot), inPage(b, slot);
  auto enter = [&](int64_t number) {
    Ix own = slotOfBlock(b, number);
    used = isBelowCount(own);
    if (blocks.empty()) {
      Value begin = (Ix(b, slot) + own).get();
      // Behind the last slot in use there may be no page.
      Value safe = used ? arith::SelectOp::create(b, used, begin, slot).getResult() : begin;
      block = Ix(b, emitter->context.headBlock(b, *cache, tile.sequence, tile.head, safe));
    } else {
      block = Ix(b, blocks[number]);
    }
    inPage = !hasOwnRuns() && runSlots == page ? Ix(b, indexOf(b, 0)) : (Ix(b, slot) + own) % page;
  };
  for (int64_t step = 0, last = -1; step < rowSteps(); ++step) {
    const int64_t offset = rowOffset(step), first = hasOwnRuns() ? offset : offset / runSlots * runSlots,
                  within = offset - first;
    const bool isNew = first != last;
    last = first;
    if (isNew) {
      enter(hasOwnRuns() ? step : offset / runSlots);
    }
    Value valid = hasOwnRuns() ? used : isBelowCount(warpRow + row + offset);
    Ix rowAt = hasOwnRuns() ? Ix(b, indexOf(b, 0)) : row;
    Ix codesAt = block + inPage * rowBytes + (rowAt * rowBytes + part * runBytes);
    for (int64_t side = 0; side < partSteps(); ++side) {
      for (int64_t at = 0; at < runBytes; at += loadBytes) {
        const int64_t displacement = plane->codes + within * rowBytes + side * across * runBytes + at;
        Value raw = loadIf(b, valid, cache->pages, (codesAt + displacement).get(), loadBytes);
        Value all = vector::BitCastOp::create(b, VectorType::get({loadBytes / 4}, b.getI32Type()), raw);
        for (int64_t w = 0; w < loadBytes / 4; ++w) {
          codes.push_back(vector::ExtractOp::create(b, all, w));
        }
      }
      if (perChannel) {
        continue;
      }
      Ix groupOfRow = (part + side * across) * channels / group;
      Ix scalesAt = block + inPage * (rowScales * scaleBytes) + (rowAt * rowScales + groupOfRow) * scaleBytes;
      auto numberAt = [&](int64_t offset) {
        Value at = (scalesAt + (offset + within * rowScales * scaleBytes)).get();
        Value raw = loadIf(b, valid, cache->pages, at, scaleBytes);
        return vector::ExtractOp::create(b, vector::BitCastOp::create(b, VectorType::get({1}, scaleType), raw), 0)
            .getResult();
      };
      Value scale = numberAt(plane->scales);
      Value zero = plane->zeros >= 0 ? numberAt(plane->zeros) : scale;
      codes.push_back(vector::FromElementsOp::create(b, pair, ValueRange{scale, zero}));
    }
    if (!perChannel || !isNew) {
      continue;
    }
    Ix channelsAt = block + inPage / group * (plane->channels * scaleBytes) + part * (channels * scaleBytes);
    const int64_t perChunk = chunkBytes / scaleBytes;
    for (int64_t offset : {plane->scales, plane->zeros}) {
      for (int64_t c = 0; offset >= 0 && c < channels; c += perChunk) {
        Value raw = loadIf(b, used, cache->pages, (channelsAt + (offset + c * scaleBytes)).get(), chunkBytes);
        Value all = vector::BitCastOp::create(b, VectorType::get({perChunk}, scaleType), raw);
        for (int64_t p = 0; p < perChunk; p += 2) {
          scales.push_back(vector::ExtractStridedSliceOp::create(b, all, p, 2, 1));
        }
      }
    }
  }
  llvm::append_range(codes, scales);
  return codes;
}

SmallVector<Value> CodeTile::load(ImplicitLocOpBuilder &b, scf::ForOp loop, Value iv, ValueRange blocks) const {
  const SmallVector<Type> types = this->types();
  Value inside = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, iv, loop.getUpperBound());
  return ifElse(
      b, types, inside,
      [&](ImplicitLocOpBuilder &b) {
        IRMapping mapping;
        auto at = [&](Value value) { return valueAt(b, loop, value, iv, mapping); };
        const TilePlace place{at(op.getSlot()), at(op.getCount()), at(op.getSequence()), at(op.getHead())};
        Value isWhole = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, place.count, indexOf(b, staged.slots));
        return ifElse(
            b, types, isWhole, [&](ImplicitLocOpBuilder &b) { return loadTile(b, place, blocks, true); },
            [&](ImplicitLocOpBuilder &b) { return loadTile(b, place, blocks, false); });
      },
      [&](ImplicitLocOpBuilder &b) { return anyValues(b, types); });
}

//===----------------------------------------------------------------------===//
// Codes as numbers
//===----------------------------------------------------------------------===//

CodeTile::Run CodeTile::runOf(ImplicitLocOpBuilder &b, ValueRange registers, int64_t step) const {
  const int64_t kinds = plane->zeros >= 0 ? 2 : 1, pairs = channels / 2;
  ValueRange own = registers.slice(step * wordsOfStep(), wordsOfStep());
  Run run{own.take_front(words()), {}, {}};
  if (perChannel) {
    ValueRange all = registers.drop_front(rowSteps() * partSteps() * wordsOfStep());
    ValueRange shared = all.slice(rowOffset(step / partSteps()) / runSlots * kinds * pairs, kinds * pairs);
    llvm::append_range(run.scales, shared.take_front(pairs));
    llvm::append_range(run.zeros, shared.drop_front(pairs));
    return run;
  }
  Value held = own.back();
  run.scales = {vector::ShuffleOp::create(b, held, held, ArrayRef<int64_t>{0, 0})};
  if (kinds == 2) {
    run.zeros = {vector::ShuffleOp::create(b, held, held, ArrayRef<int64_t>{1, 1})};
  }
  return run;
}

void CodeTile::decode(ImplicitLocOpBuilder &b, ValueRange registers) const {
  constexpr int64_t wordsOfChunk = chunkChannels / 2;
  Place place = placeOf(b);
  Ix row(b, place.row);
  Value firstChunk = (Ix(b, place.part) * chunks()).get();
  Ix warpRow(b, toIndex(b, mulWords(b, emitter->warp, slotsOfWarp)));
  Ix base = Ix(b, staged.placeOfIndex(b, (warpRow + row).get())) * staged.stageRow;
  // What is known of a place is added last, so that the instruction has it.
  base = staged.swizzled ? base + staged.offset : base + Ix(b, firstChunk) * chunkBytes;
  Value lowRow = ((warpRow + row) % 8).get();
  auto stored = VectorType::get({chunkBytes}, b.getI8Type());
  for (int64_t i = 0; i < rowSteps() * partSteps(); ++i) {
    const int64_t offset = rowOffset(i / partSteps()), side = i % partSteps();
    const Run run = runOf(b, registers, i);
    RunDecoder decoder(b, run.codes, run.scales, run.zeros, *plane, staged.product);
    // Of a step's rows the low bits are a lane's, those above are known here.
    Value flips = arith::XOrIOp::create(b, lowRow, indexOf(b, offset % 8));
    SmallVector<SmallVector<Value>> sets(setsOf(staged.product));
    for (int64_t pair = 0; pair < channels / 2; ++pair) {
      for (auto [set, word] : llvm::zip_equal(sets, decoder.wordsOf(pair))) {
        set.push_back(word);
      }
    }
    const int64_t further = staged.placeOfRow(offset) * staged.stageRow + side * across * chunks() * chunkBytes;
    for (int64_t c = 0; c < chunks(); ++c) {
      Ix at = base;
      if (staged.swizzled) {
        Value flipped = arith::XOrIOp::create(b, arith::XOrIOp::create(b, firstChunk, flips), indexOf(b, c));
        at = at + Ix(b, flipped) * chunkBytes + further;
      } else {
        at = at + (staged.offset + further + c * chunkBytes);
      }
      for (auto [number, words] : llvm::enumerate(sets)) {
        Value all = vector::FromElementsOp::create(b, VectorType::get({wordsOfChunk}, b.getI32Type()),
                                                   ArrayRef(words).slice(c * wordsOfChunk, wordsOfChunk));
        vector::StoreOp::create(b, vector::BitCastOp::create(b, stored, all), emitter->staging,
                                (at + static_cast<int64_t>(number) * staged.setBytes).get(), /*nontemporal=*/false,
                                llvm::MaybeAlign(chunkBytes));
      }
    }
  }
}

class CodeTile::KeyReader : public StageReader {
public:
  KeyReader(ImplicitLocOpBuilder &b, const CodeTile &tile, ValueRange registers)
      : StageReader(/*steps=*/1, /*tiles=*/2), b(b), tile(tile), registers(registers) {}

  SmallVector<Value> load(int64_t slot, int64_t channel, int64_t, Type word) override {
    const MmaAtom &atom = *tile.staged.atom;
    // Steps of the instruction that a run lasts; a lane has two words for each.
    const int64_t ofRun = tile.channels * tile.across / atom.k, step = channel / atom.k;
    SmallVector<Value> words;
    for (int64_t column = 0; column < tiles; ++column) {
      const int64_t number = (slot / atom.n + column) * tile.partSteps() + step / ofRun;
      auto found = decoders.find(number);
      if (found == decoders.end()) {
        const Run run = tile.runOf(b, registers, number);
        found =
            decoders.try_emplace(number, b, run.codes, run.scales, run.zeros, *tile.plane, tile.staged.product).first;
      }
      for (int64_t pair : {0, 1}) {
        Value one = found->second.wordsOf(step % ofRun * 2 + pair).front();
        Value single = vector::FromElementsOp::create(b, VectorType::get({1}, b.getI32Type()), one);
        words.push_back(vector::BitCastOp::create(b, word, single));
      }
    }
    return words;
  }

private:
  ImplicitLocOpBuilder &b;
  CodeTile tile;
  ValueRange registers;
  std::map<int64_t, RunDecoder> decoders;
};

std::unique_ptr<StageReader> CodeTile::keyReader(ImplicitLocOpBuilder &b, ValueRange registers) const {
  return std::make_unique<KeyReader>(b, *this, registers);
}

//===----------------------------------------------------------------------===//
// Tiles of a loop
//===----------------------------------------------------------------------===//

int64_t CodeTiles::add(const CodeTile &tile, ImplicitLocOpBuilder &b) {
  CodeTile &added = tiles.emplace_back(tile);
  added.staged.stage = wordOf(b, added.staged.offset);
  emitter.staged[added.op.getResult()] = added.staged;
  return added.staged.offset + (tile.form == CodeTile::Form::Staged ? added.staged.stageBytes : 0);
}

SmallVector<Value> CodeTiles::load(ImplicitLocOpBuilder &b, size_t number, scf::ForOp loop, Value iv) {
  const CodeTile &tile = tiles[number];
  // Values lie in the pages of their keys. Where many registers are held between the two they are looked up again.
  const CodeTile &first = tiles.front();
  const bool isShared = first.form == CodeTile::Form::Keys && tiles.size() == 2 && tiles[1].sharesBlocks(first);
  if (!isShared) {
    return tile.load(b, loop, iv, ValueRange());
  }
  if (number == 0) {
    blocks = tile.findBlocks(b, loop, iv);
  }
  return tile.load(b, loop, iv, blocks);
}

void CodeTiles::loadFirst(ImplicitLocOpBuilder &b, scf::ForOp loop, SmallVectorImpl<Value> &init) {
  for (size_t number = 0; number < tiles.size(); ++number) {
    llvm::append_range(init, load(b, number, loop, loop.getLowerBound()));
  }
}

void CodeTiles::attach(scf::ForOp loop, ValueRange registers) {
  next.resize(tiles.size());
  for (auto [number, tile] : llvm::enumerate(tiles)) {
    ValueRange own = registers.take_front(tile.types().size());
    registers = registers.drop_front(own.size());
    auto loadNext = [this, loop, number = number](ImplicitLocOpBuilder &b) mutable {
      next[number] = load(b, number, loop, arith::AddIOp::create(b, loop.getInductionVar(), loop.getStep()));
    };
    Operation *product = *tile.op.getResult().getUsers().begin();
    if (tile.form == CodeTile::Form::Keys) {
      emitter.heldReaders[product] = [this, number = number, own](ImplicitLocOpBuilder &b) {
        return tiles[number].keyReader(b, own);
      };
      emitter.afterProduct[product] = loadNext;
      continue;
    }
    emitter.beforeProduct[product] = [this, loadNext, number = number, own](ImplicitLocOpBuilder &b) mutable {
      tiles[number].decode(b, own);
      loadNext(b);
      emitter.barrier(b);
    };
  }
}

void CodeTiles::finish(SmallVectorImpl<Value> &results) {
  for (const auto &[tile, values] : llvm::zip_equal(tiles, next)) {
    llvm::append_range(results, values);
    Operation *product = *tile.op.getResult().getUsers().begin();
    emitter.beforeProduct.erase(product);
    emitter.afterProduct.erase(product);
    emitter.heldReaders.erase(product);
  }
}
