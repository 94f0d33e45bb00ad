//===- Products.cpp - Matrix products of a team ---------------------------===//
#include "TeamEmitter.h"

using namespace mlir;
using namespace kvc;

ProductType TeamEmitter::productOf(Value operand) {
  Operation *op = operand.getDefiningOp();
  if (auto gather = dyn_cast<tile::GatherOperandOp>(op)) {
    return kvc::productOf(cast<kvcache::CacheType>(gather.getCache().getType()), gather.getPlane());
  }
  auto rows = cast<tile::OperandOp>(op);
  return kvc::productOf(cast<kvcache::CacheType>(rows.getCache().getType()), rows.getPlane());
}

void TeamEmitter::packOperand(Builder &b, Value tile, ProductType type, const Layout &layout) {
  SmallVector<Value> numbers;
  for (int64_t i = 0; i < layout.inSize(Axis::Register); ++i) {
    numbers.push_back(pull(b, tile, layout, i));
  }
  words[{tile.getAsOpaquePointer(), type}] = createWords(b, numbers, type);
}

namespace {
/// Reads the second operand of products out of the stage that holds it: two instructions' worth at a time.
class StageReader {
public:
  /// `rows`: first slot of the stage that this warp reads (i32).
  StageReader(TeamEmitter &emitter, ImplicitLocOpBuilder &b, const StagedOperand &operand, Value rows, bool transposed)
      : emitter(emitter), b(b), operand(operand), transposed(transposed) {
    Value matrix = arith::DivUIOp::create(b, emitter.lane, wordOf(b, 8));
    Value row = arith::RemUIOp::create(b, emitter.lane, wordOf(b, 8));
    Value low = arith::RemUIOp::create(b, matrix, wordOf(b, 2)), high = arith::DivUIOp::create(b, matrix, wordOf(b, 2));
    // Keys: matrices follow each other along channels, then along slots; values the other way around.
    Value slotBlock = transposed ? low : high;
    chunk = transposed ? high : low;
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
  const int64_t channels = paddedChannels(op.getB().getType().getChannels());
  TeamShape shape = shapeOf(rows);
  const int64_t ownSlots = slots / shape.columnWarps;
  Value firstSlot = mulWords(b,
                             arith::RemUIOp::create(b, arith::DivUIOp::create(b, warp, wordOf(b, shape.rowWarps)),
                                                    wordOf(b, shape.columnWarps)),
                             ownSlots);
  StageReader reader(*this, b, operand, firstSlot, /*transposed=*/!isScores);
  const bool isHalf = operand.product == ProductType::F16;
  auto word = VectorType::get({2}, isHalf ? Type(b.getF16Type()) : Type(b.getBF16Type()));
  const auto &sets = words[{op.getA().getAsOpaquePointer(), operand.product}];

  Layout layout = isScores ? productLayout(atom, rows, slots) : accumulatorLayout(atom, rows, channels);
  SmallVector<Value> acc;
  if (op.getAcc()) {
    acc = pullAll(b, op.getAcc(), layout);
  } else {
    acc.assign(layout.inSize(Axis::Register), floatOf(b, 0.0f));
  }
  const int64_t steps = (isScores ? channels : ownSlots) / atom.k;
  const int64_t columnTiles = (isScores ? ownSlots : channels) / atom.n;
  if (sets.empty() || sets[0].size() != static_cast<size_t>(shape.rowTiles * steps * 4) || hasFailed()) {
    return hasFailed() ? failure() : fail(op) << "expects its first operand as words of " << atom.name;
  }
  for (auto [firstSet, secondSet] : productTerms(operand.product)) {
    const SmallVector<Value> &a = sets[firstSet];
    for (int64_t step = 0; step < steps; ++step) {
      for (int64_t column = 0; column < columnTiles; column += 2) {
        SmallVector<Value> second = isScores ? reader.load(column * 8, step * 2, secondSet, word)
                                             : reader.load(step * 16, column, secondSet, word);
        for (int64_t tile : {column, column + 1}) {
          ValueRange secondWords = ValueRange(second).slice((tile - column) * 2, 2);
          for (int64_t row = 0; row < shape.rowTiles; ++row) {
            ValueRange first = ValueRange(a).slice((row * steps + step) * 4, 4);
            MutableArrayRef<Value> sums = MutableArrayRef<Value>(acc).slice((row * columnTiles + tile) * 4, 4);
            SmallVector<Type> types(4, b.getF32Type());
            auto mma =
                tile::LaneMmaOp::create(b, types, atom.name, first, secondWords, ValueRange(ArrayRef<Value>(sums)));
            llvm::copy(mma.getResults(), sums.begin());
          }
        }
      }
    }
  }
  fragments[op.getResult()] = {layout, acc};
  return success();
}
