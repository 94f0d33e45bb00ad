//===- Products.cpp - Matrix products of a team ---------------------------===//
#include "StageReader.h"

using namespace mlir;
using namespace kvc;

ProductType TeamEmitter::productOf(Value operand) {
  Operation *op = operand.getDefiningOp();
  if (auto gather = dyn_cast<tile::GatherOperandOp>(op)) {
    return productOfEither(cast<kvcache::CacheType>(gather.getCache().getType()), gather.getPlane());
  }
  auto rows = cast<tile::OperandOp>(op);
  return kvc::productOf(cast<kvcache::CacheType>(rows.getCache().getType()), rows.getPlane(), rows.getPart());
}

/// A tile of lazy operations, computed once more where `b` is.
static Value cloneTile(OpBuilder &b, Value tile) {
  Operation *op = tile.getDefiningOp();
  if (!op || !isa<VectorType>(tile.getType()) || isa<arith::ConstantOp>(op)) {
    return tile;
  }
  IRMapping mapping;
  for (Value operand : op->getOperands()) {
    mapping.map(operand, cloneTile(b, operand));
  }
  return b.clone(*op, mapping)->getResult(0);
}

void TeamEmitter::separateFirstOperands() {
  struct Words {
    Value tile;
    ProductType type;
    int64_t keyRun;
  };
  llvm::DenseMap<Value, Words> latest;
  context.kernel.walk([&](tile::MmaOp op) {
    auto loop = op->getParentOfType<scf::ForOp>();
    if (op.getContract() != tile::Contract::Channels || !loop || !loop.isDefinedOutsideOfLoop(op.getA())) {
      return;
    }
    const ProductType type = productOf(op.getB());
    const int64_t run = keyRun(op);
    auto [found, isNew] = latest.try_emplace(op.getA(), Words{op.getA(), type, run});
    if (!isNew && (found->second.type != type || found->second.keyRun != run)) {
      OpBuilder b(loop);
      found->second = {cloneTile(b, op.getA()), type, run};
    }
    op.getAMutable().assign(found->second.tile);
  });
}

void TeamEmitter::packOperand(Builder &b, Value tile, ProductType type, const Layout &layout) {
  if (auto held = fragments.find(tile);
      held != fragments.end() && convert(held->second.layout, layout).cost == ConversionCost::Lanes) {
    auto sets = packFromLanes(b, held->second, type, layout);
    if (!sets.empty()) {
      words[{tile.getAsOpaquePointer(), type}] = sets;
      return;
    }
  }
  SmallVector<SmallVector<Value>> sets(setsOf(type));
  // Word by word, so that numbers need not be there all at once.
  for (int64_t i = 0; i < layout.inSize(Axis::Register); i += 2) {
    const Value numbers[] = {pull(b, tile, layout, i), pull(b, tile, layout, i + 1)};
    for (auto [all, own] : llvm::zip_equal(sets, createWords(b, numbers, type))) {
      llvm::append_range(all, own);
    }
  }
  words[{tile.getAsOpaquePointer(), type}] = std::move(sets);
}

SmallVector<SmallVector<Value>> TeamEmitter::packFromLanes(Builder &b, const Fragment &held, ProductType type,
                                                           const Layout &layout) {
  // Where `layout` holds what: register, lane and warp of the held words.
  const std::optional<Layout> source = layout.compose(held.layout.inverse());
  const int64_t count = layout.inSize(Axis::Register), lanes = facts.lanes;
  // A lane takes words of its own and of the lane that differs in one bit of its number.
  int64_t bit = 0;
  for (int64_t i = 0; i < count; i += 2) {
    assert((*source)(i, 0, 0)[Axis::Register] % 2 == 0 &&
           (*source)(i + 1, 0, 0)[Axis::Register] == (*source)(i, 0, 0)[Axis::Register] + 1 &&
           "expects neighbours to stay together");
    for (int64_t lane = 0; lane < lanes; ++lane) {
      bit |= (*source)(i, lane, 0)[Axis::Lane] ^ lane;
    }
  }
  if (!llvm::isPowerOf2_64(bit)) {
    return {};
  }
  Value isUpper =
      arith::CmpIOp::create(b, arith::CmpIPredicate::ne, arith::AndIOp::create(b, lane, wordOf(b, bit)), wordOf(b, 0));
  auto single = VectorType::get({1}, b.getI32Type());
  auto sets = createWords(b, held.registers, type), result = sets;
  for (auto [from, to] : llvm::zip_equal(sets, result)) {
    SmallVector<Value> others;
    for (Value word : from) {
      Value raw = vector::ExtractOp::create(b, vector::BitCastOp::create(b, single, word), 0);
      Value other = vector::FromElementsOp::create(b, single, shuffleXor(b, raw, bit));
      others.push_back(vector::BitCastOp::create(b, word.getType(), other));
    }
    to.clear();
    for (int64_t i = 0; i < count; i += 2) {
      const Coordinates at = (*source)(i, 0, 0);
      Value own = from[at[Axis::Register] / 2], other = others[at[Axis::Register] / 2];
      to.push_back(at[Axis::Lane] ? arith::SelectOp::create(b, isUpper, own, other)
                                  : arith::SelectOp::create(b, isUpper, other, own));
    }
  }
  return result;
}

StagedOperand TeamEmitter::describeQueries(int64_t rows, int64_t channels, ProductType type) const {
  StagedOperand operand;
  operand.product = type;
  operand.atom = &atomFor(type, rows);
  if (facts.readsInOrder()) {
    layOutPadded(operand, paddedKeys(channels));
  } else {
    layOutStage(operand, paddedKeys(channels));
  }
  const TeamShape shape = shapeOf(rows);
  operand.slots = operand.atom->m * shape.rowTiles * shape.rowWarps;
  operand.setBytes = operand.slots * operand.stageRow;
  operand.stageBytes = operand.setBytes * setsOf(type);
  return operand;
}

/// Where a chunk of a row of queries lies. Lanes whose runs are four chunks apart meet other banks than those eight
/// apart.
static Value placeOfChunk(ImplicitLocOpBuilder &b, const StagedOperand &operand, Value row, Value chunk,
                          int64_t keyRun) {
  if (!operand.swizzled) {
    return chunk;
  }
  Value place = arith::XOrIOp::create(b, chunk, arith::RemUIOp::create(b, row, wordOf(b, 8)));
  if (keyRun < 32) {
    return place;
  }
  Value round = arith::RemUIOp::create(b, arith::DivUIOp::create(b, chunk, wordOf(b, 8)), wordOf(b, 4));
  return arith::XOrIOp::create(b, place, mulWords(b, round, 2));
}

void TeamEmitter::stageQueries(Builder &b, Value tile, ProductType type, int64_t keyRun) {
  auto tileType = cast<VectorType>(tile.getType());
  StagedOperand operand = describeQueries(tileType.getDimSize(0), tileType.getDimSize(1), type);
  operand.stage = wordOf(b, 0);
  const int64_t channels = paddedKeys(tileType.getDimSize(1));
  const bool divides = channels / 16 % shapeOf(tileType.getDimSize(0)).columnWarps == 0;
  Layout layout = operandLayout(*operand.atom, tileType.getDimSize(0), channels, divides);
  SmallVector<Value> numbers;
  for (int64_t i = 0; i < layout.inSize(Axis::Register); ++i) {
    numbers.push_back(pull(b, tile, layout, i));
  }
  // Numbers may have been loaded behind the tile, where its other elements are.
  b.setInsertionPointAfterValue(numbers.back());
  auto sets = createWords(b, numbers, type);
  auto bytes = VectorType::get({4}, b.getI8Type());
  barrier(b);
  for (auto [i, word] : llvm::enumerate(sets[0])) {
    Value row = coordinate(b, layout, Axis::Row, 2 * i), column = coordinate(b, layout, Axis::Column, 2 * i);
    Value chunk = arith::DivUIOp::create(b, column, wordOf(b, 8)),
          inChunk = arith::RemUIOp::create(b, column, wordOf(b, 8));
    chunk = placeOfChunk(b, operand, row, chunk, keyRun);
    Value place =
        addWords(b, addWords(b, mulWords(b, row, operand.stageRow), mulWords(b, chunk, 16)), mulWords(b, inChunk, 2));
    for (auto [set, words] : llvm::enumerate(sets)) {
      Value at = toIndex(b, addWords(b, place, static_cast<int64_t>(set) * operand.setBytes));
      vector::StoreOp::create(b, vector::BitCastOp::create(b, bytes, words[i]), staging, at, /*nontemporal=*/false,
                              llvm::MaybeAlign(4));
    }
  }
  barrier(b);
  stagedQueries[{tile.getAsOpaquePointer(), type}] = operand;
}

namespace {
/// By matrix loads: slots are multiples of 8, channels of 16.
class MatrixReader : public StageReader {
public:
  /// `rows`: first row of the stage that this warp reads (i32).
  MatrixReader(TeamEmitter &emitter, ImplicitLocOpBuilder &b, const StagedOperand &operand, Value rows, Use use)
      : StageReader(1, 2), emitter(emitter), b(b), operand(operand),
        transposed(use == Use::Values || use == Use::ValuesFirst) {
    Value matrix = arith::DivUIOp::create(b, emitter.lane, wordOf(b, 8));
    Value row = arith::RemUIOp::create(b, emitter.lane, wordOf(b, 8));
    Value low = arith::RemUIOp::create(b, matrix, wordOf(b, 2)), high = arith::DivUIOp::create(b, matrix, wordOf(b, 2));
    // Matrices follow each other along channels, then along rows, or the other way around.
    const bool channelsFirst = use == Use::Keys || use == Use::ValuesFirst;
    Value slotBlock = channelsFirst ? high : low;
    chunk = channelsFirst ? low : high;
    Value slot = addWords(b, addWords(b, mulWords(b, slotBlock, 8), row), rows);
    slotBytes = mulWords(b, slot, operand.stageRow);
    swizzle = row;
  }

  SmallVector<Value> load(int64_t slot, int64_t channel, int64_t set, Type word) override {
    Value place = chunk;
    const int64_t first = channel / 8;
    int64_t displacement = slot * operand.stageRow + set * operand.setBytes;
    if (operand.swizzled) {
      // Of a chunk's number the low three bits flip with the slot; those above stay, and are known here.
      place = arith::XOrIOp::create(b, arith::XOrIOp::create(b, chunk, swizzle), wordOf(b, first % 8));
      displacement += first / 8 * 8 * 16;
    } else {
      displacement += first * 16;
    }
    Value offset = addWords(b, operand.stage, addWords(b, slotBytes, mulWords(b, place, 16)));
    SmallVector<Type> types(4, word);
    return llvm::to_vector(llvm::map_range(
        tile::LoadMatricesOp::create(b, types, emitter.staging, offset, displacement, transposed).getResults(),
        [](Value value) { return value; }));
  }

private:
  TeamEmitter &emitter;
  ImplicitLocOpBuilder &b;
  const StagedOperand &operand;
  bool transposed;
  Value chunk, slotBytes, swizzle;
};

/// Every lane loads its runs.
class ElementReader : public RunReader {
public:
  ElementReader(TeamEmitter &emitter, ImplicitLocOpBuilder &b, const StagedOperand &operand, Value rows, Use use,
                int64_t steps, int64_t tiles)
      : RunReader(b, *operand.atom, use, steps, tiles), emitter(emitter), operand(operand) {
    ownSlot = emitter.coordinate(b, layout, slotAxis, 0);
    Value ownChannel = mulWords(b, emitter.coordinate(b, layout, channelAxis, 0), steps * tiles);
    ownChunk = b.createOrFold<arith::DivUIOp>(ownChannel, wordOf(b, 8));
    ownBytes = addWords(b, mulWords(b, addWords(b, rows, operand.placeOfRow(b, ownSlot)), operand.stageRow),
                        mulWords(b, b.createOrFold<arith::RemUIOp>(ownChannel, wordOf(b, 8)), 2));
  }

private:
  /// `count` neighbours, which lie in one chunk. What is added to the lane's own slot and channel is known;
  /// `channel` is whole chunks.
  Value loadRun(int64_t slot, int64_t channel, int64_t count, int64_t set, Type word) override {
    const int64_t bytes = count * 2, chunk = channel / 8;
    int64_t displacement = slot * operand.stageRow + set * operand.setBytes;
    Value place = ownChunk;
    if (operand.swizzled) {
      // Warps begin at multiples of eight slots. The lane's own chunks are of the low bits that `chunk` leaves.
      Value row = arith::RemUIOp::create(b, addWords(b, ownSlot, slot % 8), wordOf(b, 8));
      place = arith::XOrIOp::create(b, arith::XOrIOp::create(b, place, row), wordOf(b, chunk % 8));
      displacement += chunk / 8 * 8 * 16;
    } else {
      displacement += chunk * 16;
    }
    Value offset = addWords(b, addWords(b, operand.stage, ownBytes), mulWords(b, place, 16));
    Value at = toIndex(b, offset);
    if (displacement) {
      at = arith::AddIOp::create(b, at, indexOf(b, displacement));
    }
    Value raw = vector::LoadOp::create(b, VectorType::get({bytes}, b.getI8Type()), emitter.staging, at,
                                       /*nontemporal=*/false, llvm::MaybeAlign(std::min<int64_t>(16, bytes)));
    return vector::BitCastOp::create(b, VectorType::get({count}, cast<VectorType>(word).getElementType()), raw);
  }

  TeamEmitter &emitter;
  const StagedOperand &operand;
  Value ownSlot, ownChunk, ownBytes;
};

/// Woven values: two column tiles of a step with each load.
class WovenReader : public StageReader {
public:
  WovenReader(TeamEmitter &emitter, ImplicitLocOpBuilder &b, const StagedOperand &operand)
      : StageReader(1, Woven::tiles), emitter(emitter), b(b), operand(operand) {
    const Layout layout = operand.atom->b();
    Value row = b.createOrFold<arith::DivUIOp>(emitter.coordinate(b, layout, Axis::Row, 0), wordOf(b, Woven::slots));
    own = addWords(b, addWords(b, operand.stage, mulWords(b, row, operand.stageRow)),
                   mulWords(b, emitter.coordinate(b, layout, Axis::Column, 0), bytes));
  }

  SmallVector<Value> load(int64_t slot, int64_t channel, int64_t, Type word) override {
    const int64_t displacement = slot / Woven::slots * operand.stageRow + channel * Woven::slots * 2;
    Value at = arith::AddIOp::create(b, toIndex(b, own), indexOf(b, displacement));
    Value raw = vector::LoadOp::create(b, VectorType::get({bytes}, b.getI8Type()), emitter.staging, at,
                                       /*nontemporal=*/false, llvm::MaybeAlign(bytes));
    Value all =
        vector::BitCastOp::create(b, VectorType::get({bytes / 2}, cast<VectorType>(word).getElementType()), raw);
    SmallVector<Value> words;
    for (int64_t i = 0; i < bytes / 2; i += 2) {
      words.push_back(vector::ExtractStridedSliceOp::create(b, all, i, 2, 1));
    }
    return words;
  }

private:
  static constexpr int64_t bytes = Woven::tiles * Woven::slots * 2;
  TeamEmitter &emitter;
  ImplicitLocOpBuilder &b;
  const StagedOperand &operand;
  Value own;
};

/// `channels`: of keys and queries all that are summed over, of values those of a warp. `steps`: as of StageReader, of
/// queries whose keys are held otherwise than those in staging memory.
std::unique_ptr<StageReader> createReader(TeamEmitter &emitter, ImplicitLocOpBuilder &b, const StagedOperand &operand,
                                          Value rows, Use use, int64_t channels, int64_t steps = 0) {
  if (emitter.facts.loadsMatrices) {
    return std::make_unique<MatrixReader>(emitter, b, operand, rows, use);
  }
  if (operand.woven) {
    return std::make_unique<WovenReader>(emitter, b, operand);
  }
  if (operand.image) {
    return createImageReader(emitter, b, operand);
  }
  if (!steps) {
    steps = use == Use::Values ? 1 : emitter.keySteps(*operand.atom, channels);
  }
  const int64_t tiles = use == Use::Values ? emitter.valueTiles(*operand.atom, channels) : 1;
  return std::make_unique<ElementReader>(emitter, b, operand, rows, use, steps, tiles);
}
} // namespace

static Type wordTypeOf(ImplicitLocOpBuilder &b, ProductType type) {
  return VectorType::get({2}, type == ProductType::F16 ? Type(b.getF16Type()) : Type(b.getBF16Type()));
}

void TeamEmitter::spreadQueries(Builder &b, Value tile, ProductType type, int64_t keyRun) {
  stageQueries(b, tile, type, facts.loadsMatrices ? keyRun : 0);
  auto found = stagedQueries.find({tile.getAsOpaquePointer(), type});
  const StagedOperand &operand = found->second;
  useStaging(operand.stageBytes);
  auto &sets = words[found->first];
  const Type word = wordTypeOf(b, type);
  const int64_t channels = paddedKeys(cast<VectorType>(tile.getType()).getDimSize(1));
  if (keyRun && facts.loadsMatrices) {
    // Eight channels of a row are words of two steps. The rows below, zeros, are loaded too: the assembler would make
    // zeros that it knows anew for every product.
    constexpr int64_t chunk = 8;
    const Layout layout = queryLayout(*operand.atom, /*rows=*/1, channels, keyRun);
    const Value row = coordinate(b, layout, Axis::Row, 0), column = coordinate(b, layout, Axis::Column, 0);
    SmallVector<Value> &loaded = sets.emplace_back();
    for (int64_t i = 0; i < layout.inSize(Axis::Register); i += 2 * chunk) {
      Value place = arith::DivUIOp::create(b, addWords(b, column, layout(i, 0, 0)[Axis::Column]), wordOf(b, chunk));
      place = placeOfChunk(b, operand, row, place, keyRun);
      Value at = addWords(b, addWords(b, mulWords(b, row, operand.stageRow), mulWords(b, place, 16)), operand.offset);
      SmallVector<Value, 2> rows;
      for (int64_t half : {0, 1}) {
        Value own = toIndex(b, addWords(b, at, half * 8 * operand.stageRow));
        Value raw = vector::LoadOp::create(b, VectorType::get({16}, b.getI8Type()), staging, own,
                                           /*nontemporal=*/false, llvm::MaybeAlign(16));
        rows.push_back(
            vector::BitCastOp::create(b, VectorType::get({chunk}, cast<VectorType>(word).getElementType()), raw));
      }
      for (int64_t e = 0; e < chunk; e += 2) {
        for (Value all : rows) {
          loaded.push_back(vector::ExtractStridedSliceOp::create(b, all, e, 2, 1));
        }
      }
    }
    stagedQueries.erase(found);
    return;
  }
  const int64_t rows = cast<VectorType>(tile.getType()).getDimSize(0);
  const TeamShape shape = shapeOf(rows);
  Value rowWarp = arith::RemUIOp::create(b, warp, wordOf(b, shape.rowWarps));
  auto reader = createReader(*this, b, operand, mulWords(b, rowWarp, operand.atom->m * shape.rowTiles), Use::Queries,
                             channels, keyRun / operand.atom->a().inSize(Axis::Register));
  const int64_t steps = channels / operand.atom->k;
  for (int64_t set = 0; set < setsOf(type); ++set) {
    SmallVector<Value> &loaded = sets.emplace_back();
    for (int64_t row = 0; row < shape.rowTiles; ++row) {
      for (int64_t step = 0; step < steps; step += reader->steps) {
        llvm::append_range(loaded, reader->load(row * operand.atom->m, step * operand.atom->k, set, word));
      }
    }
  }
  stagedQueries.erase(found);
}

LogicalResult TeamEmitter::emitMma(tile::MmaOp op) {
  auto found = staged.find(op.getB());
  if (found == staged.end()) {
    return fail(op) << "with an operand that is not staged has no lowering to teams yet";
  }
  const StagedOperand &operand = found->second;
  const MmaAtom &atom = *operand.atom;
  Builder b(op.getLoc(), op);
  if (auto before = beforeProduct.find(op); before != beforeProduct.end()) {
    before->second(b);
  }
  const bool isScores = op.getContract() == tile::Contract::Channels;
  const int64_t rows = op.getA().getType().getDimSize(0);
  const int64_t slots = paddedSlots(rows, op.getB().getType().getSlots());
  TeamShape shape = shapeOf(rows);
  const bool dividesSlots = !dividesValues;
  const int64_t allChannels =
      isScores ? paddedKeys(op.getB().getType().getChannels()) : paddedValues(op.getB().getType().getChannels());
  const int64_t channels = isScores || dividesSlots ? allChannels : allChannels / shape.columnWarps;
  const int64_t ownSlots = dividesSlots ? slots / shape.columnWarps : slots;
  Value firstSlot = dividesSlots ? mulWords(b, columnWarp(b, shape), ownSlots) : wordOf(b, 0);
  StagedOperand own = operand;
  if (!isScores && !dividesSlots) {
    // Whole rounds of the swizzle, so that chunks lie as at the row's begin.
    own.stage = addWords(b, own.stage, mulWords(b, columnWarp(b, shape), channels * 2));
  }
  const bool isTransposed = shape.usesHalf() && !isScores;
  const Use use = isScores ? Use::Keys : isTransposed ? Use::ValuesFirst : Use::Values;
  auto held = heldReaders.find(op);
  auto reader = held != heldReaders.end() ? held->second(b) : createReader(*this, b, own, firstSlot, use, channels);
  const Type word = wordTypeOf(b, operand.product);
  const auto &sets = words[{op.getA().getAsOpaquePointer(), operand.product}];

  Layout layout = isScores ? productLayout(atom, rows, slots) : accumulatorLayout(atom, rows, allChannels);
  SmallVector<Value> acc;
  if (op.getAcc()) {
    acc = pullAll(b, op.getAcc(), layout);
  } else {
    acc.assign(layout.inSize(Axis::Register), floatOf(b, 0.0f));
  }
  const int64_t steps = (isScores ? channels : ownSlots) / atom.k;
  const int64_t columnTiles = (isScores ? ownSlots : channels) / atom.n;
  const int64_t secondSize = atom.b().inSize(Axis::Register) / 2,
                firstSize = isTransposed ? secondSize : atom.a().inSize(Axis::Register) / 2,
                sumSize = atom.d().inSize(Axis::Register);
  std::unique_ptr<StageReader> queries;
  auto inStaging = stagedQueries.find({op.getA().getAsOpaquePointer(), operand.product});
  if (inStaging != stagedQueries.end()) {
    Value rowWarp = arith::RemUIOp::create(b, warp, wordOf(b, shape.rowWarps));
    queries = createReader(*this, b, inStaging->second, mulWords(b, rowWarp, atom.m * shape.rowTiles), Use::Queries,
                           channels, reader->steps);
  } else if (sets.empty() || sets[0].size() != static_cast<size_t>(shape.rowTiles * steps * firstSize) || hasFailed()) {
    return hasFailed() ? failure() : fail(op) << "expects its first operand as words of " << atom.name;
  }
  const MmaAtom *pair = facts.pairsSteps ? pairedAtom(atom) : nullptr;
  auto multiply = [&](ValueRange x, ValueRange y, MutableArrayRef<Value> sums) {
    SmallVector<Type> types(sumSize, b.getF32Type());
    const MmaAtom &used = y.size() > static_cast<size_t>(secondSize) ? *pair : atom;
    auto mma = tile::LaneMmaOp::create(b, types, used.name, x, y, ValueRange(ArrayRef<Value>(sums)));
    llvm::copy(mma.getResults(), sums.begin());
  };
  // The other half of the rows is nobody's.
  SmallVector<Value> unused(shape.usesHalf() && isScores ? acc.size() : 0, floatOf(b, 0.0f));
  auto multiplyRows = [&](ValueRange x, ValueRange y, int64_t tile) {
    if (unused.empty()) {
      multiply(x, y, MutableArrayRef<Value>(acc).slice(tile * sumSize, sumSize));
      return;
    }
    SmallVector<Value, 4> sums{acc[2 * tile], acc[2 * tile + 1], unused[2 * tile], unused[2 * tile + 1]};
    multiply(x, y, sums);
    std::tie(acc[2 * tile], acc[2 * tile + 1]) = std::tie(sums[0], sums[1]);
    std::tie(unused[2 * tile], unused[2 * tile + 1]) = std::tie(sums[2], sums[3]);
  };
  // A piece of the second operand and what of the first meets it: so many steps, and of those as many as one
  // instruction does.
  struct Piece {
    int64_t column, loaded, joined;
    SmallVector<Value> second;
    SmallVector<SmallVector<Value>> first;
  };
  auto multiplyPiece = [&](Piece &piece) {
    if (isTransposed) {
      multiply(piece.second, piece.first.front(),
               MutableArrayRef<Value>(acc).slice(piece.column * sumSize / 2, sumSize));
      return;
    }
    for (int64_t own = 0; own < piece.loaded; own += piece.joined) {
      for (int64_t tile = 0; tile < reader->tiles; ++tile) {
        SmallVector<Value> secondWords;
        for (int64_t at = own; at < own + piece.joined; ++at) {
          llvm::append_range(secondWords,
                             ArrayRef<Value>(piece.second).slice((at * reader->tiles + tile) * secondSize, secondSize));
        }
        for (int64_t row = 0; row < shape.rowTiles; ++row) {
          ArrayRef<Value> firstWords =
              ArrayRef<Value>(piece.first[row]).slice(own * firstSize, piece.joined * firstSize);
          multiplyRows(firstWords, secondWords, row * columnTiles + piece.column + tile);
        }
      }
    }
  };
  std::optional<Piece> ahead;
  for (auto [firstSet, secondSet] : productTerms(operand.product)) {
    for (int64_t step = 0, loaded = 0; step < steps; step += loaded) {
      // Steps whose operands are loaded together, and of those as one instruction does.
      loaded = pair && steps - step > 1 ? std::max<int64_t>(2, reader->steps) : reader->steps;
      const int64_t joined = pair && loaded % 2 == 0 ? 2 : 1;
      SmallVector<SmallVector<Value>> first(shape.rowTiles);
      for (int64_t row = 0; row < shape.rowTiles; ++row) {
        if (!queries) {
          llvm::append_range(first[row],
                             ArrayRef(sets[firstSet]).slice((row * steps + step) * firstSize, loaded * firstSize));
        }
        for (int64_t further = 0; queries && further < loaded; further += queries->steps) {
          llvm::append_range(first[row], queries->load(row * atom.m, (step + further) * atom.k, firstSet, word));
        }
      }
      for (int64_t column = 0; column < columnTiles; column += reader->tiles) {
        Piece piece{column, loaded, joined, {}, first};
        for (int64_t at = step; at < step + loaded; at += reader->steps) {
          llvm::append_range(piece.second, isScores ? reader->load(column * atom.n, at * atom.k, secondSet, word)
                                                    : reader->load(at * atom.k, column * atom.n, secondSet, word));
        }
        if (!facts.readsInOrder()) {
          multiplyPiece(piece);
          continue;
        }
        if (ahead) {
          multiplyPiece(*ahead);
        }
        ahead = std::move(piece);
      }
    }
  }
  if (ahead) {
    multiplyPiece(*ahead);
  }
  fragments[op.getResult()] = {layout, acc};
  if (auto after = afterProduct.find(op); after != afterProduct.end()) {
    after->second(b);
  }
  return success();
}
