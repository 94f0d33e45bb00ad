//===- Products.cpp - Matrix products of a team ---------------------------===//
#include "TeamEmitter.h"

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
  llvm::DenseMap<Value, std::pair<Value, ProductType>> latest;
  context.kernel.walk([&](tile::MmaOp op) {
    auto loop = op->getParentOfType<scf::ForOp>();
    if (op.getContract() != tile::Contract::Channels || !loop || !loop.isDefinedOutsideOfLoop(op.getA())) {
      return;
    }
    const ProductType type = productOf(op.getB());
    auto [found, isNew] = latest.try_emplace(op.getA(), op.getA(), type);
    if (!isNew && found->second.second != type) {
      OpBuilder b(loop);
      found->second = {cloneTile(b, op.getA()), type};
    }
    op.getAMutable().assign(found->second.first);
  });
}

void TeamEmitter::packOperand(Builder &b, Value tile, ProductType type, const Layout &layout) {
  SmallVector<Value> numbers;
  for (int64_t i = 0; i < layout.inSize(Axis::Register); ++i) {
    numbers.push_back(pull(b, tile, layout, i));
  }
  words[{tile.getAsOpaquePointer(), type}] = createWords(b, numbers, type);
}

StagedOperand TeamEmitter::describeQueries(int64_t rows, int64_t channels, ProductType type) const {
  StagedOperand operand;
  operand.product = type;
  operand.atom = &kvc::atomOf(type);
  layOutStage(operand, paddedKeys(channels));
  const TeamShape shape = shapeOf(rows);
  operand.slots = 16 * shape.rowTiles * shape.rowWarps;
  operand.setBytes = operand.slots * operand.stageRow;
  operand.stageBytes = operand.setBytes * setsOf(type);
  return operand;
}

void TeamEmitter::stageQueries(Builder &b, Value tile, ProductType type) {
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
    if (operand.swizzled) {
      chunk = arith::XOrIOp::create(b, chunk, arith::RemUIOp::create(b, row, wordOf(b, 8)));
    }
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
/// What matrices are loaded for: keys and values as the second operand (two instructions' worth at a time, values
/// transposed), queries as the first.
enum class Use { Keys, Values, Queries };

/// Reads an operand of products out of the stage that holds it.
class StageReader {
public:
  /// `rows`: first row of the stage that this warp reads (i32).
  StageReader(TeamEmitter &emitter, ImplicitLocOpBuilder &b, const StagedOperand &operand, Value rows, Use use)
      : emitter(emitter), b(b), operand(operand), transposed(use == Use::Values) {
    Value matrix = arith::DivUIOp::create(b, emitter.lane, wordOf(b, 8));
    Value row = arith::RemUIOp::create(b, emitter.lane, wordOf(b, 8));
    Value low = arith::RemUIOp::create(b, matrix, wordOf(b, 2)), high = arith::DivUIOp::create(b, matrix, wordOf(b, 2));
    // Keys: matrices follow each other along channels, then along rows; others the other way around.
    Value slotBlock = use == Use::Keys ? high : low;
    chunk = use == Use::Keys ? low : high;
    Value slot = addWords(b, addWords(b, mulWords(b, slotBlock, 8), row), rows);
    slotBytes = mulWords(b, slot, operand.stageRow);
    swizzle = row;
  }

  /// Slots `slot ..` (a multiple of 8), chunks `first` (even) and the next, of a set of words.
  SmallVector<Value> load(int64_t slot, int64_t first, int64_t set, Type word) {
    Value place = chunk;
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
} // namespace

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
  StageReader reader(*this, b, own, firstSlot, isScores ? Use::Keys : Use::Values);
  const bool isHalf = operand.product == ProductType::F16;
  auto word = VectorType::get({2}, isHalf ? Type(b.getF16Type()) : Type(b.getBF16Type()));
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
  std::optional<StageReader> queries;
  auto inStaging = stagedQueries.find({op.getA().getAsOpaquePointer(), operand.product});
  if (inStaging != stagedQueries.end()) {
    Value rowWarp = arith::RemUIOp::create(b, warp, wordOf(b, shape.rowWarps));
    queries.emplace(*this, b, inStaging->second, mulWords(b, rowWarp, 16 * shape.rowTiles), Use::Queries);
  } else if (sets.empty() || sets[0].size() != static_cast<size_t>(shape.rowTiles * steps * 4) || hasFailed()) {
    return hasFailed() ? failure() : fail(op) << "expects its first operand as words of " << atom.name;
  }
  for (auto [firstSet, secondSet] : productTerms(operand.product)) {
    for (int64_t step = 0; step < steps; ++step) {
      SmallVector<SmallVector<Value>> first;
      for (int64_t row = 0; row < shape.rowTiles; ++row) {
        first.push_back(queries ? queries->load(row * 16, step * 2, firstSet, word)
                                : SmallVector<Value>(ArrayRef(sets[firstSet]).slice((row * steps + step) * 4, 4)));
      }
      for (int64_t column = 0; column < columnTiles; column += 2) {
        SmallVector<Value> second = isScores ? reader.load(column * 8, step * 2, secondSet, word)
                                             : reader.load(step * 16, column, secondSet, word);
        for (int64_t tile : {column, column + 1}) {
          ValueRange secondWords = ValueRange(second).slice((tile - column) * 2, 2);
          for (int64_t row = 0; row < shape.rowTiles; ++row) {
            MutableArrayRef<Value> sums = MutableArrayRef<Value>(acc).slice((row * columnTiles + tile) * 4, 4);
            SmallVector<Type> types(4, b.getF32Type());
            auto mma = tile::LaneMmaOp::create(b, types, atom.name, first[row], secondWords,
                                               ValueRange(ArrayRef<Value>(sums)));
            llvm::copy(mma.getResults(), sums.begin());
          }
        }
      }
    }
  }
  fragments[op.getResult()] = {layout, acc};
  return success();
}
