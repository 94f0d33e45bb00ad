//===- DirectCodes.cpp - Codes that lanes load from pages -----------------===//
//
// A tile of Direct.cpp whose pages have integer codes with scales of f16. Of keys a lane has a run of channels of a
// slot, as many as it loads at once, and decodes pairs of channels: the queries are held alike (TeamEmitter::keyRun).
// Of values the operand has neighbouring slots of a channel in a word: words with the codes of two slots are made
// first, by byte permutations, and are decoded as pairs with the scales of both.
//
//===----------------------------------------------------------------------===//
#include "Branches.h"
#include "DirectTile.h"
#include "RunDecoder.h"

#include "../TileToVector/Ix.h"

#include <numeric>

using namespace mlir;
using namespace kvc;

static constexpr int64_t mostBytes = 16, scaleBytes = 2;

static int64_t scaleChannels(const DirectShape &shape) { return shape.use == Use::Keys ? shape.chunk : shape.tiles; }

namespace {
class DirectCodes : public DirectTile {
public:
  explicit DirectCodes(const DirectShape &shape) : DirectTile(shape), plane(*form.plane) {
    SmallVector<std::pair<int64_t, int64_t>> seen;
    for (const LaneRun &run : form.runs()) {
      const auto key = scaleKey(run);
      if (!llvm::is_contained(seen, key)) {
        seen.push_back(key);
        scaleRuns.push_back({key.first, key.second, run.count});
      }
    }
  }

  SmallVector<Type> types() const override {
    Builder b(form.op.getContext());
    SmallVector<Type> types(form.runs().size(), VectorType::get({words()}, b.getI32Type()));
    types.append(scaleRuns.size() * kinds() * pieces(), pieceType());
    return types;
  }
  SmallVector<Value> load(ImplicitLocOpBuilder &b, ArrayRef<Place> places) const override;
  SmallVector<Value> clear(ImplicitLocOpBuilder &b, ValueRange registers, Value count) const override;
  std::unique_ptr<StageReader> reader(ImplicitLocOpBuilder &b, ValueRange registers) const override;

  int64_t bits() const { return plane.format.getBits(); }
  int64_t codesOfWord() const { return 32 / bits(); }
  bool perChannel() const { return plane.format.getAxis() == kvcache::Axis::Channel; }
  /// Of a lane's run: its channels, words that have their codes (maybe with others'), scales.
  int64_t channels() const { return scaleChannels(form); }
  int64_t words() const { return llvm::divideCeil(channels(), codesOfWord()); }
  int64_t scales() const { return perChannel() ? channels() : llvm::divideCeil(channels(), plane.format.getGroup()); }

  /// The words of a run from its first code on, and its scales or zeros, one by one.
  SmallVector<Value> wordsOf(ImplicitLocOpBuilder &b, ValueRange registers, const LaneRun &run) const;
  SmallVector<Value> scalesOf(ImplicitLocOpBuilder &b, ValueRange registers, const LaneRun &run, int64_t kind) const;
  int64_t kinds() const { return plane.zeros >= 0 ? 2 : 1; }

private:
  /// The first slot and channel of those that have a run's scales.
  std::pair<int64_t, int64_t> scaleKey(const LaneRun &run) const {
    return {perChannel() ? run.slot / form.runSlots * form.runSlots : run.slot, run.channel};
  }
  /// A run's scales come by loads of so many.
  int64_t scalesOfPiece() const { return std::min(scales(), mostBytes / scaleBytes); }
  int64_t pieces() const { return scales() / scalesOfPiece(); }
  VectorType pieceType() const { return VectorType::get({scalesOfPiece()}, plane.format.getScale()); }

  const PlaneLayout &plane;
  SmallVector<LaneRun> scaleRuns;
};

/// Decodes runs when they are asked for.
class CodeReader : public StageReader {
public:
  CodeReader(ImplicitLocOpBuilder &b, const DirectCodes &tile, ValueRange registers)
      : StageReader(tile.shape().steps, tile.shape().tiles), b(b), tile(tile), registers(registers) {}

  SmallVector<Value> load(int64_t slot, int64_t channel, int64_t, Type word) override {
    SmallVector<Value> words = tile.shape().use == Use::Keys ? keyWords(slot, channel) : valueWords(slot, channel);
    auto single = VectorType::get({1}, b.getI32Type());
    for (Value &one : words) {
      one = vector::BitCastOp::create(b, word, vector::FromElementsOp::create(b, single, one));
    }
    return words;
  }

private:
  SmallVector<Value> keyWords(int64_t slot, int64_t channel) {
    const DirectShape &shape = tile.shape();
    const LaneRun run{slot, channel, tile.channels()};
    SmallVector<SmallVector<Value>> numbers;
    for (int64_t kind = 0; kind < tile.kinds(); ++kind) {
      SmallVector<Value> own = tile.scalesOf(b, registers, run, kind), &pairs = numbers.emplace_back();
      const int64_t ofScale = tile.channels() / static_cast<int64_t>(own.size());
      for (int64_t c = 0; c < (own.size() == 1 ? 2 : tile.channels()); c += 2) {
        pairs.push_back(pairOf(own[c / ofScale], own[(c + 1) / ofScale]));
      }
    }
    RunDecoder decoder(b, tile.wordsOf(b, registers, run), numbers[0], zerosOf(numbers), *shape.plane, shape.product);
    SmallVector<Value> words;
    for (int64_t pair = 0; pair < tile.channels() / 2; ++pair) {
      words.push_back(decoder.wordsOf(pair).front());
    }
    return words;
  }

  /// For each channel: a word for each two slots.
  SmallVector<Value> valueWords(int64_t slot, int64_t channel) {
    const DirectShape &shape = tile.shape();
    const Layout layout = shape.atom->b();
    const int64_t held = layout.inSize(Axis::Register);
    SmallVector<Value> words(tile.channels() * held / 2);
    for (int64_t i = 0; i < held; i += 2) {
      SmallVector<SmallVector<Value>> codes, scales[2];
      for (int64_t slotOfPair : {0, 1}) {
        const LaneRun run{slot + layout(i + slotOfPair, 0, 0)[Axis::Row], channel, tile.channels()};
        codes.push_back(tile.wordsOf(b, registers, run));
        for (int64_t kind = 0; kind < tile.kinds(); ++kind) {
          scales[slotOfPair].push_back(tile.scalesOf(b, registers, run, kind));
        }
      }
      // Channels `first`, `first + step`, .. whose codes a joined word has.
      auto decode = [&](Value joined, int64_t first, int64_t step, int64_t count) {
        SmallVector<SmallVector<Value>> numbers;
        for (int64_t kind = 0; kind < tile.kinds(); ++kind) {
          SmallVector<Value> &pairs = numbers.emplace_back();
          ArrayRef<Value> low = scales[0][kind], high = scales[1][kind];
          for (int64_t c = 0; c < (low.size() == 1 ? 1 : count); ++c) {
            pairs.push_back(
                pairOf(low[low.size() == 1 ? 0 : first + c * step], high[high.size() == 1 ? 0 : first + c * step]));
          }
        }
        RunDecoder decoder(b, joined, numbers[0], zerosOf(numbers), *shape.plane, shape.product);
        for (int64_t c = 0; c < count; ++c) {
          words[((first + c * step) * held + i) / 2] = decoder.wordsOf(c).front();
        }
      };
      if (tile.bits() == 8) {
        auto bytes = VectorType::get({4}, b.getI8Type());
        for (int64_t c = 0; c < tile.channels(); c += 2) {
          const int64_t i = c % 4;
          decode(join(codes[0][c / 4], codes[1][c / 4], bytes, {i, 4 + i, i + 1, 5 + i}), c, 1, 2);
        }
        continue;
      }
      auto halves = VectorType::get({2}, b.getI16Type());
      Value even = join(codes[0][0], codes[1][0], halves, {0, 2}), odd = join(codes[0][0], codes[1][0], halves, {1, 3});
      decode(even, 0, 2, tile.channels() / 2);
      decode(odd, 1, 2, tile.channels() / 2);
    }
    return words;
  }

  /// A word of parts of two words.
  Value join(Value low, Value high, VectorType parts, ArrayRef<int64_t> places) {
    auto single = VectorType::get({1}, b.getI32Type());
    auto partsOf = [&](Value word) {
      return vector::BitCastOp::create(b, parts, vector::FromElementsOp::create(b, single, word)).getResult();
    };
    Value joined = vector::ShuffleOp::create(b, partsOf(low), partsOf(high), places);
    return vector::ExtractOp::create(b, vector::BitCastOp::create(b, single, joined), 0);
  }
  Value pairOf(Value low, Value high) {
    return vector::FromElementsOp::create(b, VectorType::get({2}, low.getType()), ValueRange{low, high});
  }
  static ValueRange zerosOf(ArrayRef<SmallVector<Value>> numbers) {
    return numbers.size() > 1 ? ValueRange(numbers[1]) : ValueRange();
  }

  ImplicitLocOpBuilder &b;
  const DirectCodes &tile;
  SmallVector<Value> registers;
};
} // namespace

SmallVector<Value> DirectCodes::load(ImplicitLocOpBuilder &b, ArrayRef<Place> places) const {
  const int64_t group = plane.format.getGroup(), rowBytes = plane.channels * bits() / 8,
                rowScales = plane.channels / group;
  Value ownSlot = form.ownSlot(b), ownChannel = form.ownChannel(b);
  auto loadAt = [&](Ix at, VectorType type) {
    const int64_t bytes = type.getNumElements() * type.getElementTypeBitWidth() / 8;
    return vector::BitCastOp::create(b, type, loadIf(b, Value(), form.cache->pages, at.get(), bytes)).getResult();
  };
  auto index = [&](Value word) { return Ix(b, toUnsignedIndex(b, word)); };
  SmallVector<Value> loaded;
  auto codesType = VectorType::get({words()}, b.getI32Type());
  // What all lanes share is added first: it stays in scalar registers.
  Value ownWord = mulWords(b, b.createOrFold<arith::DivUIOp>(ownChannel, wordOf(b, codesOfWord())), 4);
  Value own = addWords(b, mulWords(b, ownSlot, rowBytes), ownWord);
  for (const LaneRun &run : form.runs()) {
    const Place &place = places[run.slot / form.runSlots];
    const int64_t further = run.slot % form.runSlots * rowBytes + run.channel / codesOfWord() * 4 + plane.codes;
    Ix at = Ix(b, place.block) + Ix(b, place.inPage) * rowBytes + index(own) + further;
    loaded.push_back(loadAt(at, codesType));
  }
  for (const int64_t kind : {plane.scales, plane.zeros}) {
    for (const LaneRun &run : kind >= 0 ? ArrayRef(scaleRuns) : ArrayRef<LaneRun>()) {
      const Place &place = places[run.slot / form.runSlots];
      Value channel = addWords(b, ownChannel, run.channel);
      Ix at = Ix(b, place.block), inPage(b, place.inPage);
      if (perChannel()) {
        at = at + inPage / group * (plane.channels * scaleBytes) + index(mulWords(b, channel, scaleBytes)) + kind;
      } else {
        Value column = b.createOrFold<arith::DivUIOp>(channel, wordOf(b, group));
        Value number = addWords(b, mulWords(b, ownSlot, rowScales), column);
        at = at + inPage * (rowScales * scaleBytes) + index(mulWords(b, number, scaleBytes)) +
             (run.slot % form.runSlots * rowScales * scaleBytes + kind);
      }
      for (int64_t piece = 0; piece < pieces(); ++piece) {
        loaded.push_back(loadAt(at + piece * mostBytes, pieceType()));
      }
    }
  }
  return loaded;
}

SmallVector<Value> DirectCodes::clear(ImplicitLocOpBuilder &b, ValueRange registers, Value count) const {
  // Codes are finite numbers whatever they are. Slots that share scales have them if the first one is there.
  SmallVector<Value> cleared(registers.take_front(form.runs().size()));
  registers = registers.drop_front(cleared.size());
  for (int64_t kind = 0; kind < kinds(); ++kind) {
    for (const LaneRun &run : scaleRuns) {
      Value used = form.isUsed(b, run.slot, count, /*isShared=*/perChannel());
      for (int64_t piece = 0; piece < pieces(); ++piece) {
        cleared.push_back(orZeros(b, used, registers.front()));
        registers = registers.drop_front();
      }
    }
  }
  return cleared;
}

SmallVector<Value> DirectCodes::wordsOf(ImplicitLocOpBuilder &b, ValueRange registers, const LaneRun &run) const {
  const SmallVector<LaneRun> runs = form.runs();
  const auto *found =
      llvm::find_if(runs, [&](const LaneRun &other) { return other.slot == run.slot && other.channel == run.channel; });
  Value own = registers[found - runs.begin()];
  SmallVector<Value> words;
  for (int64_t i = 0; i < this->words(); ++i) {
    words.push_back(vector::ExtractOp::create(b, own, i));
  }
  if (channels() < codesOfWord()) {
    // A lane's run begins within its word.
    Value first = b.createOrFold<arith::RemUIOp>(form.ownChannel(b), wordOf(b, codesOfWord()));
    Value shift = plane.pairs ? mulWords(b, b.createOrFold<arith::DivUIOp>(first, wordOf(b, 2)), bits())
                              : mulWords(b, first, bits());
    words.front() = arith::ShRUIOp::create(b, words.front(), shift);
  }
  return words;
}

SmallVector<Value> DirectCodes::scalesOf(ImplicitLocOpBuilder &b, ValueRange registers, const LaneRun &run,
                                         int64_t kind) const {
  const auto key = scaleKey(run);
  const auto *found = llvm::find_if(
      scaleRuns, [&](const LaneRun &other) { return other.slot == key.first && other.channel == key.second; });
  const int64_t number = kind * static_cast<int64_t>(scaleRuns.size()) + (found - scaleRuns.begin());
  ValueRange own = registers.drop_front(form.runs().size()).slice(number * pieces(), pieces());
  SmallVector<Value> numbers;
  for (Value piece : own) {
    for (int64_t i = 0; i < scalesOfPiece(); ++i) {
      numbers.push_back(vector::ExtractOp::create(b, piece, i));
    }
  }
  return numbers;
}

std::unique_ptr<StageReader> DirectCodes::reader(ImplicitLocOpBuilder &b, ValueRange registers) const {
  return std::make_unique<CodeReader>(b, *this, registers);
}

std::unique_ptr<DirectTile> kvc::createDirectCodes(DirectShape shape) {
  constexpr int64_t mostRegisters = 80;
  const PlaneLayout &plane = *shape.plane;
  const int64_t bits = plane.format.getBits(), group = plane.format.getGroup(), codesOfWord = 32 / bits;
  const bool perChannel = plane.format.getAxis() == kvcache::Axis::Channel;
  if (shape.product != ProductType::F16 || !(bits == 8 || plane.pairs)) {
    return nullptr;
  }
  if (perChannel) {
    shape.runSlots = std::gcd(shape.runSlots, group);
  }
  if (shape.use == Use::Keys) {
    // Whole loads: the lanes of a slot divide its channels. A lane's registers of a step are neighbours.
    const Layout layout = shape.atom->b();
    const int64_t held = layout.inSize(Axis::Register), across = shape.atom->k / held;
    if (layout(held - 1, 0, 0)[Axis::Row] != held - 1) {
      return nullptr;
    }
    shape.chunk = mostBytes * 8 / bits;
    while (shape.chunk >= codesOfWord && (shape.chunk % held || plane.channels % (shape.chunk * across))) {
      shape.chunk /= 2;
    }
    if (shape.chunk < std::max(codesOfWord, held)) {
      return nullptr;
    }
    shape.steps = shape.chunk / held;
  }
  const int64_t channels = scaleChannels(shape);
  if (!perChannel && group % channels && channels % group) {
    return nullptr;
  }
  auto tile = std::make_unique<DirectCodes>(shape);
  return registersOf(*tile) <= mostRegisters && (shape.use == Use::Keys || tile->scales() == 1 || perChannel)
             ? std::move(tile)
             : nullptr;
}
