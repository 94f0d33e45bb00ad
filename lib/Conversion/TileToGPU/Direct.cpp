//===- Direct.cpp - Loops whose operands lanes load from pages ------------===//
//
// Where no matrix load wants operands in staging memory and warps have slots of their own (decode), staging memory
// would be a detour: each lane loads from pages what the product's layout gives it, and no warp waits for another one.
//
//   load the table's entries of the first two tiles, keys and values of the first
//   for each tile
//     scores; load the next tile's keys, to the same registers
//     softmax, output; load the next tile's values, the entries of the tile after it
//
//===----------------------------------------------------------------------===//
#include "Branches.h"
#include "DirectTile.h"

#include "../TileToVector/Ix.h"

#include <numeric>

using namespace mlir;
using namespace kvc;

static constexpr int64_t chunkChannels = 8;

//===----------------------------------------------------------------------===//
// Runs of a lane
//===----------------------------------------------------------------------===//

RunReader::RunReader(ImplicitLocOpBuilder &b, const MmaAtom &atom, Use use, int64_t steps, int64_t tiles)
    : StageReader(steps, tiles), b(b), layout(use == Use::Queries ? atom.a() : atom.b()), isValues(use == Use::Values),
      slotAxis(use == Use::Keys ? Axis::Column : Axis::Row), channelAxis(use == Use::Keys ? Axis::Row : Axis::Column) {}

SmallVector<Value> RunReader::load(int64_t slot, int64_t channel, int64_t set, Type word) {
  const int64_t held = layout.inSize(Axis::Register);
  SmallVector<Value> words;
  if (!isValues) {
    for (int64_t i = 0; i < held * steps; i += chunkChannels) {
      const int64_t run = std::min(chunkChannels, held * steps - i);
      Value all = loadRun(slot, channel + i, run, set, word);
      for (int64_t e = 0; e < run; e += 2) {
        words.push_back(vector::ExtractStridedSliceOp::create(b, all, e, 2, 1));
      }
    }
    return words;
  }
  SmallVector<Value> slots;
  for (int64_t i = 0; i < held; ++i) {
    slots.push_back(loadRun(slot + layout(i, 0, 0)[slotAxis], channel, tiles, set, word));
  }
  for (int64_t tile = 0; tile < tiles; ++tile) {
    for (int64_t i = 0; i < held; i += 2) {
      SmallVector<Value> elements{vector::ExtractOp::create(b, slots[i], tile),
                                  vector::ExtractOp::create(b, slots[i + 1], tile)};
      words.push_back(vector::FromElementsOp::create(b, word, elements));
    }
  }
  return words;
}

SmallVector<LaneRun> kvc::laneRuns(const MmaAtom &atom, Use use, int64_t steps, int64_t tiles, int64_t slots,
                                   int64_t channels, int64_t chunk) {
  const Layout layout = atom.b();
  const int64_t held = layout.inSize(Axis::Register);
  SmallVector<LaneRun> runs;
  if (use == Use::Keys) {
    for (int64_t slot = 0; slot < slots; slot += atom.n) {
      for (int64_t channel = 0; channel < channels; channel += steps * atom.k) {
        for (int64_t i = 0; i < held * steps; i += chunk) {
          runs.push_back({slot, channel + i, std::min(chunk, held * steps - i)});
        }
      }
    }
    return runs;
  }
  for (int64_t slot = 0; slot < slots; slot += atom.k) {
    for (int64_t channel = 0; channel < channels; channel += tiles * atom.n) {
      for (int64_t i = 0; i < held; ++i) {
        runs.push_back({slot + layout(i, 0, 0)[Axis::Row], channel, tiles});
      }
    }
  }
  return runs;
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

Value DirectShape::ownSlot(ImplicitLocOpBuilder &b) const {
  return emitter->coordinate(b, atom->b(), use == Use::Keys ? Axis::Column : Axis::Row, 0);
}

Value DirectShape::ownChannel(ImplicitLocOpBuilder &b) const {
  return mulWords(b, emitter->coordinate(b, atom->b(), use == Use::Keys ? Axis::Row : Axis::Column, 0), steps * tiles);
}

Value DirectShape::isUsed(ImplicitLocOpBuilder &b, int64_t slot, Value count, bool isShared) const {
  Value first = mulWords(b, emitter->warp, slotsOfWarp);
  Value own = addWords(b, isShared ? first : addWords(b, first, ownSlot(b)), slot);
  return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, own, count);
}

namespace {
/// Finds runs among values that are there.
class HeldReader : public RunReader {
public:
  HeldReader(ImplicitLocOpBuilder &b, const DirectShape &shape, ArrayRef<Value> numbers)
      : RunReader(b, *shape.atom, shape.use, shape.steps, shape.tiles) {
    for (auto [run, value] : llvm::zip_equal(shape.runs(), numbers)) {
      held[{run.slot, run.channel}] = value;
    }
  }

protected:
  Value loadRun(int64_t slot, int64_t channel, int64_t, int64_t, Type) override { return held.at({slot, channel}); }

private:
  std::map<std::pair<int64_t, int64_t>, Value> held;
};

/// Rows of 16-bit numbers, as products take them.
class PlainTile : public DirectTile {
public:
  explicit PlainTile(const DirectShape &shape) : DirectTile(shape) {}

  SmallVector<Type> types() const override {
    return llvm::map_to_vector(form.runs(), [&](const LaneRun &run) -> Type { return typeOf(run); });
  }

  SmallVector<Value> load(ImplicitLocOpBuilder &b, ArrayRef<Place> places) const override {
    const int64_t rowBytes = form.plane->channels * 2;
    // What all lanes share is added first: it stays in scalar registers.
    Value own = addWords(b, mulWords(b, form.ownSlot(b), rowBytes), mulWords(b, form.ownChannel(b), 2));
    SmallVector<Value> loaded;
    for (const LaneRun &run : form.runs()) {
      const Place &place = places[run.slot / form.runSlots];
      const int64_t further = run.slot % form.runSlots * rowBytes + run.channel * 2 + form.plane->codes;
      Ix at = Ix(b, place.block) + Ix(b, place.inPage) * rowBytes + Ix(b, toUnsignedIndex(b, own)) + further;
      Value raw = loadIf(b, Value(), form.cache->pages, at.get(), run.count * 2);
      loaded.push_back(vector::BitCastOp::create(b, typeOf(run), raw));
    }
    return loaded;
  }

  SmallVector<Value> clear(ImplicitLocOpBuilder &b, ValueRange registers, Value count) const override {
    SmallVector<Value> cleared;
    for (auto [run, value] : llvm::zip_equal(form.runs(), registers)) {
      cleared.push_back(orZeros(b, form.isUsed(b, run.slot, count), value));
    }
    return cleared;
  }

  std::unique_ptr<StageReader> reader(ImplicitLocOpBuilder &b, ValueRange registers) const override {
    return createHeldReader(b, form, llvm::to_vector(registers));
  }

private:
  VectorType typeOf(const LaneRun &run) const {
    Builder b(form.op.getContext());
    return VectorType::get({run.count}, form.product == ProductType::F16 ? Type(b.getF16Type()) : b.getBF16Type());
  }
};
} // namespace

std::unique_ptr<StageReader> kvc::createHeldReader(ImplicitLocOpBuilder &b, const DirectShape &shape,
                                                   ArrayRef<Value> numbers) {
  return std::make_unique<HeldReader>(b, shape, numbers);
}

std::unique_ptr<DirectTile> DirectTile::create(TeamEmitter &emitter, Operation *operation, scf::ForOp loop) {
  auto op = dyn_cast<tile::OperandOp>(operation);
  if (emitter.facts.loadsMatrices || emitter.dividesValues || !op || !op.getResult().hasOneUse() ||
      op.getPart() != tile::Part::Pages) {
    return nullptr;
  }
  auto mma = dyn_cast<tile::MmaOp>(*op->getUsers().begin());
  if (!mma || mma->getBlock() != loop.getBody()) {
    return nullptr;
  }
  DirectShape shape;
  shape.emitter = &emitter;
  shape.op = op;
  shape.cache = &emitter.context.cache(op.getCache());
  shape.plane = &shape.cache->layout.plane(op.getPlane());
  shape.product = emitter.productOf(op.getResult());
  shape.atom = &kvc::atomOf(emitter.facts, shape.product);
  const bool isKey = op.getPlane() == kvcache::Plane::K;
  shape.use = isKey ? Use::Keys : Use::Values;
  const int64_t channels = shape.plane->channels, slots = op.getType().getSlots();
  shape.steps = isKey ? emitter.keySteps(*shape.atom, channels) : 1;
  shape.tiles = isKey ? 1 : emitter.valueTiles(*shape.atom, channels);
  shape.slotsOfWarp = slots / emitter.warps;
  shape.runSlots = std::gcd(shape.slotsOfWarp, shape.cache->type.getPage());
  if (emitter.shapeOf(mma.getA().getType().getDimSize(0)).rowWarps != 1 || shape.product == ProductType::Split ||
      slots % emitter.warps || channels != emitter.paddedChannels(op.getPlane(), channels) ||
      (isKey ? shape.cache->type.getRope() != nullptr : shape.tiles < 2)) {
    return nullptr;
  }
  std::unique_ptr<DirectTile> tile;
  if (shape.plane->format.isInteger()) {
    tile = createDirectCodes(shape);
  } else if (shape.plane->format.getName() == (shape.product == ProductType::F16 ? "f16" : "bf16")) {
    tile = std::make_unique<PlainTile>(shape);
  }
  if (!tile) {
    return nullptr;
  }
  // Slots of a run share a page only where tiles begin at multiples of it.
  const int64_t run = tile->shape().runSlots;
  Value slot = op.getSlot();
  const bool isAligned = slot == loop.getInductionVar()
                             ? isMultipleOf(loop.getLowerBound(), run) && isMultipleOf(loop.getStep(), run)
                             : isMultipleOf(slot, run);
  return isAligned && run % std::max(shape.atom->n, shape.atom->k) == 0 ? std::move(tile) : nullptr;
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

namespace {
/// The loads of one loop.
class DirectLoads {
public:
  DirectLoads(TeamEmitter &emitter, scf::ForOp loop, ArrayRef<std::unique_ptr<DirectTile>> tiles)
      : emitter(emitter), loop(loop), tiles(tiles), first(tiles.front()->shape()), runSlots(first.runSlots),
        toEnd(countsToEnd(first.op, loop)) {
    for (const std::unique_ptr<DirectTile> &tile : tiles) {
      runSlots = std::gcd(runSlots, tile->shape().runSlots);
    }
  }

  int64_t runCount() const { return first.slotsOfWarp / runSlots; }

  /// The table's entries for a warp's runs of the tile at `iv` (i32 both); zeros past the loop's end.
  SmallVector<Value> loadEntries(ImplicitLocOpBuilder &b, Value iv) const {
    SmallVector<Type> types(runCount(), b.getI32Type());
    return ifInside(
        b, iv, types,
        [&](ImplicitLocOpBuilder &b) {
          Value slot = wordAt(b, loop, first.op.getSlot(), iv), count = wordAt(b, loop, first.op.getCount(), iv);
          tile::OperandOp op = first.op;
          Value table = emitter.context.tableRow(b, *first.cache, at(b, op.getSequence(), iv), at(b, op.getHead(), iv));
          // Runs past the end have no page: the last slot's stands for theirs, or any where a tile counts no slot.
          Value last = addWords(b, count, -1), isEmpty;
          if (!toEnd) {
            isEmpty = arith::CmpIOp::create(b, arith::CmpIPredicate::sle, count, wordOf(b, 0));
            last = arith::MaxSIOp::create(b, last, wordOf(b, 0));
          }
          SmallVector<Value> entries;
          for (int64_t run = 0; run < runCount(); ++run) {
            Value row = arith::MinSIOp::create(b, firstSlot(b, run * runSlots), last);
            Value logical =
                b.createOrFold<arith::DivUIOp>(addWords(b, slot, row), wordOf(b, first.cache->type.getPage()));
            Value entry = memref::LoadOp::create(b, first.cache->table, ValueRange{table, toIndex(b, logical)});
            entries.push_back(isEmpty ? arith::SelectOp::create(b, isEmpty, wordOf(b, 0), entry).getResult() : entry);
          }
          return entries;
        },
        [&](ImplicitLocOpBuilder &b) { return SmallVector<Value>(runCount(), wordOf(b, 0)); });
  }

  /// The registers of tile number `number` at `iv` (i32); any past the loop's end.
  SmallVector<Value> load(ImplicitLocOpBuilder &b, size_t number, Value iv, ValueRange entries) const {
    const DirectTile &tile = *tiles[number];
    const DirectShape &shape = tile.shape();
    const SmallVector<Type> types = tile.types();
    return ifInside(
        b, iv, types,
        [&](ImplicitLocOpBuilder &b) {
          tile::OperandOp op = shape.op;
          Value slot = wordAt(b, loop, op.getSlot(), iv);
          SmallVector<DirectTile::Place> places;
          const PageLayout &layout = shape.cache->layout;
          const int64_t page = shape.cache->type.getPage();
          for (int64_t own = 0; own < shape.slotsOfWarp; own += shape.runSlots) {
            Ix block = Ix(b, toUnsignedIndex(b, entries[own / runSlots])) * layout.pageBytes;
            if (!shape.cache->type.getPerHead()) {
              block = block + Ix(b, at(b, op.getHead(), iv)) * layout.headBlockBytes;
            }
            Value begin = addWords(b, slot, firstSlot(b, own));
            Value inPage =
                page == shape.runSlots ? wordOf(b, 0) : b.createOrFold<arith::RemUIOp>(begin, wordOf(b, page));
            places.push_back({block.get(), toUnsignedIndex(b, inPage)});
          }
          return tile.load(b, places);
        },
        [&](ImplicitLocOpBuilder &b) { return anyValues(b, types); });
  }

  /// The loop's body has moved.
  void moveTo(scf::ForOp other) { loop = other; }

private:
  /// Of this warp's slots number `own`, in the tile (i32).
  Value firstSlot(ImplicitLocOpBuilder &b, int64_t own) const {
    return addWords(b, mulWords(b, emitter.warp, first.slotsOfWarp), own);
  }
  /// Whether the loop counts words.
  bool isLowered() const { return loop.getUpperBound().getType().isInteger(32); }
  /// An index as it is at iteration `iv` (i32).
  Value at(ImplicitLocOpBuilder &b, Value value, Value iv) const {
    IRMapping mapping;
    return valueAt(b, loop, value, isLowered() ? iv : toIndex(b, iv), mapping);
  }
  SmallVector<Value> ifInside(ImplicitLocOpBuilder &b, Value iv, ArrayRef<Type> types, MakeValues yes,
                              MakeValues no) const {
    Value end = loop.getUpperBound();
    Value inside = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, iv, isLowered() ? end : toWord(b, end));
    return ifElse(b, types, inside, yes, no);
  }

  TeamEmitter &emitter;
  mutable scf::ForOp loop;
  ArrayRef<std::unique_ptr<DirectTile>> tiles;
  const DirectShape &first;
  /// Slots that share an entry.
  int64_t runSlots;
  bool toEnd;
};
} // namespace

/// Whether a lane has registers for the tiles of a loop, with the next ones on their way; queries may stay in staging
/// memory.
static bool fitRegisters(const TeamEmitter &emitter, ArrayRef<std::unique_ptr<DirectTile>> tiles) {
  if (!emitter.facts.readsInOrder() || tiles.empty()) {
    return true;
  }
  WarpTile all{1, tiles.front()->shape().slotsOfWarp, 0, 0, /*querySets=*/0, 0, /*isDirect=*/true};
  for (const std::unique_ptr<DirectTile> &tile : tiles) {
    const DirectShape &shape = tile->shape();
    (shape.use == Use::Keys ? all.keys : all.values) = shape.plane->channels;
    all.onTheirWay += registersOf(*tile);
  }
  return fitsRegisters(emitter.facts, all);
}

int64_t kvc::registersOf(const DirectTile &tile) {
  int64_t bits = 0;
  for (Type type : tile.types()) {
    auto vector = cast<VectorType>(type);
    bits += llvm::alignTo(vector.getNumElements() * vector.getElementTypeBitWidth(), 32);
  }
  return bits / 32;
}

SmallVector<std::unique_ptr<DirectTile>> TeamEmitter::directTiles(scf::ForOp loop) {
  SmallVector<std::unique_ptr<DirectTile>> tiles;
  for (Operation &op : *loop.getBody()) {
    if (!isa<tile::OperandOp, tile::GatherOperandOp>(op)) {
      continue;
    }
    std::unique_ptr<DirectTile> tile = DirectTile::create(*this, &op, loop);
    if (!tile) {
      return {};
    }
    tile::OperandOp own = tile->shape().op, first = tiles.empty() ? own : tiles.front()->shape().op;
    if (own.getCache() != first.getCache() || own.getSlot() != first.getSlot() || own.getCount() != first.getCount() ||
        own.getSequence() != first.getSequence() || own.getHead() != first.getHead()) {
      return {};
    }
    tiles.push_back(std::move(tile));
  }
  return fitRegisters(*this, tiles) ? std::move(tiles) : SmallVector<std::unique_ptr<DirectTile>>();
}

LogicalResult TeamEmitter::emitDirectLoop(const TileLoop &of, ArrayRef<std::unique_ptr<DirectTile>> tiles) {
  scf::ForOp loop = of.loop;
  Builder b(loop.getLoc(), loop);
  const auto accType = cast<VectorType>(tile::SoftmaxStepOp(of.step).getAcc().getType());
  const MmaAtom &atom = *tiles.front()->shape().atom;
  const Layout accLayout = accumulatorLayout(atom, accType.getDimSize(0), paddedValues(accType.getDimSize(1)));
  const Layout rowLayout = this->rowLayout(atom, accType.getDimSize(0));
  SmallVector<Value> init;
  SmallVector<std::pair<unsigned, size_t>> parts; // result, registers
  for (unsigned i : {of.max, of.sum, of.acc}) {
    SmallVector<Value> values = pullAll(b, loop.getInitArgs()[i], i == of.acc ? accLayout : rowLayout);
    parts.push_back({i, values.size()});
    llvm::append_range(init, values);
  }
  if (hasFailed()) {
    return failure();
  }
  const size_t stateSize = init.size();
  DirectLoads loads(*this, loop, tiles);
  Value lower = toWord(b, loop.getLowerBound()), upper = toWord(b, loop.getUpperBound()),
        step = toWord(b, loop.getStep());
  SmallVector<Value> entries = loads.loadEntries(b, lower);
  for (size_t i = 0; i < tiles.size(); ++i) {
    llvm::append_range(init, loads.load(b, i, lower, entries));
  }
  llvm::append_range(init, loads.loadEntries(b, arith::AddIOp::create(b, lower, step)));

  auto lowered = scf::ForOp::create(b, lower, upper, step, init);
  Block &body = *lowered.getBody();
  Builder inner = Builder::atBlockBegin(loop.getLoc(), &body);
  Value present = lowered.getInductionVar();
  loop.getInductionVar().replaceAllUsesWith(toIndex(inner, present));
  auto setState = [&](ValueRange registers, auto valueOf) {
    for (auto [i, count] : parts) {
      fragments[valueOf(i)] = {i == of.acc ? accLayout : rowLayout,
                               SmallVector<Value>(registers.begin(), registers.begin() + count)};
      registers = registers.drop_front(count);
    }
  };
  ValueRange carried = lowered.getRegionIterArgs();
  setState(carried.take_front(stateSize), [&](unsigned i) -> Value { return loop.getRegionIterArgs()[i]; });
  carried = carried.drop_front(stateSize);
  const ValueRange nextEntries = carried.take_back(loads.runCount());
  SmallVector<SmallVector<Value>> next(tiles.size());
  SmallVector<Operation *> products;
  for (auto [number, tile] : llvm::enumerate(tiles)) {
    const ValueRange own = carried.take_front(tile->types().size());
    carried = carried.drop_front(own.size());
    tile::OperandOp op = tile->shape().op;
    Operation *product = products.emplace_back(*op.getResult().getUsers().begin());
    StagedOperand &operand = staged[op.getResult()];
    operand.atom = tile->shape().atom;
    operand.product = tile->shape().product;
    heldReaders[product] = [&tile = *tile, own, op, lowered, present](Builder &b) mutable {
      if (tile.shape().use == Use::Keys) {
        return tile.reader(b, own);
      }
      Value count = wordAt(b, lowered, op.getCount(), present);
      Value isWhole = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, count, wordOf(b, op.getType().getSlots()));
      SmallVector<Value> held = ifElse(
          b, tile.types(), isWhole, [&](ImplicitLocOpBuilder &) { return SmallVector<Value>(own); },
          [&](ImplicitLocOpBuilder &b) { return tile.clear(b, own, count); });
      return tile.reader(b, held);
    };
    // Behind the product nobody needs the registers any more.
    afterProduct[product] = [&, number = number](Builder &b) {
      Value iv = arith::AddIOp::create(b, present, step);
      next[number] = loads.load(b, number, iv, nextEntries);
    };
  }
  Operation *yield = loop.getBody()->getTerminator();
  body.getOperations().splice(body.end(), loop.getBody()->getOperations(), loop.getBody()->begin(),
                              Block::iterator(yield));
  loads.moveTo(lowered);
  for (Operation &op : llvm::make_early_inc_range(body)) {
    // Numbers of slots that are used as words, of masks, are computed as such.
    if (auto word = dyn_cast<arith::IndexCastOp>(op); word && word.getType().isInteger(32)) {
      Builder at(op.getLoc(), &op);
      word.replaceAllUsesWith(wordAt(at, lowered, word.getIn(), present));
    }
  }
  finished(loop);
  if (failed(emitBlock(body))) {
    return failure();
  }
  Builder end = Builder::atBlockEnd(loop.getLoc(), &body);
  SmallVector<Value> results;
  for (auto [i, count] : parts) {
    llvm::append_range(results, pullAll(end, yield->getOperand(i), i == of.acc ? accLayout : rowLayout));
  }
  for (const SmallVector<Value> &registers : next) {
    llvm::append_range(results, registers);
  }
  Value afterNext = arith::AddIOp::create(end, arith::AddIOp::create(end, present, step), step);
  llvm::append_range(results, loads.loadEntries(end, afterNext));
  scf::YieldOp::create(end, results);
  setState(lowered.getResults().take_front(stateSize), [&](unsigned i) -> Value { return loop.getResult(i); });
  for (Operation *product : products) {
    heldReaders.erase(product);
    afterProduct.erase(product);
  }
  // States are merged in the staging memory where other warps still read queries.
  barrier(b);
  // The old loop goes after what it still speaks of.
  yield->setOperands(loop.getInitArgs());
  return leaveState(b, loop, loop.getResult(of.max), loop.getResult(of.sum), loop.getResult(of.acc));
}
