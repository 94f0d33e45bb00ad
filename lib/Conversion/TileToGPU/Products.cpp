//===- Products.cpp - Matrix products of a team ---------------------------===//
#include "TeamEmitter.h"

using namespace mlir;
using namespace kvc;

static Type elementType(ImplicitLocOpBuilder &b, const MmaAtom &atom) {
  return atom.operand == AtomElement::F16 ? Type(b.getF16Type()) : Type(b.getBF16Type());
}

const MmaAtom *TeamEmitter::atomOf(tile::OperandOp op) {
  auto type = cast<kvcache::CacheType>(op.getCache().getType());
  StringRef format = (op.getPlane() == kvcache::Plane::K ? type.getK() : type.getV()).getName();
  const MmaAtom *atom = lookupMmaAtom(("m16n8k16." + format).str());
  if (!atom) {
    fail(op) << "of format " << format << " has no lowering to teams yet: expects f16 or bf16";
  }
  return atom;
}

void TeamEmitter::packOperand(Builder &b, Value tile, const MmaAtom &atom, const Layout &layout) {
  SmallVector<Value> &packed = words[tile];
  auto pair = VectorType::get({2}, b.getF32Type());
  auto narrow = VectorType::get({2}, elementType(b, atom));
  for (int64_t i = 0; i < layout.inSize(Axis::Register); i += 2) {
    Value low = pull(b, tile, layout, i), high = pull(b, tile, layout, i + 1);
    packed.push_back(
        arith::TruncFOp::create(b, narrow, vector::FromElementsOp::create(b, pair, ValueRange{low, high})));
  }
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

  /// Slots `slot ..` (a multiple of 8), chunks `first` (even) and the next.
  SmallVector<Value> load(int64_t slot, int64_t first, Type word) {
    Value place = chunk;
    int64_t displacement = slot * operand.stageRow;
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
  const int64_t rows = op.getA().getType().getDimSize(0), slots = op.getB().getType().getSlots();
  const int64_t channels = op.getB().getType().getChannels();
  TeamShape shape = shapeOf(rows);
  if (slots % (16 * shape.columnWarps)) {
    return fail(op) << "of " << slots << " slots among " << shape.columnWarps
                    << " warps has no lowering to teams yet: expects whole instructions of 16 slots for each warp";
  }
  const int64_t ownSlots = slots / shape.columnWarps;
  Value firstSlot = mulWords(b,
                             arith::RemUIOp::create(b, arith::DivUIOp::create(b, warp, wordOf(b, shape.rowWarps)),
                                                    wordOf(b, shape.columnWarps)),
                             ownSlots);
  StageReader reader(*this, b, operand, firstSlot, /*transposed=*/!isScores);
  auto word = VectorType::get({2}, elementType(b, atom));
  const SmallVector<Value> &a = words[op.getA()];

  Layout layout = isScores ? productLayout(atom, rows, slots) : accumulatorLayout(atom, rows, channels);
  SmallVector<Value> acc;
  if (op.getAcc()) {
    acc = pullAll(b, op.getAcc(), layout);
  } else {
    acc.assign(layout.inSize(Axis::Register), floatOf(b, 0.0f));
  }
  const int64_t steps = (isScores ? channels : ownSlots) / atom.k;
  const int64_t columnTiles = (isScores ? ownSlots : channels) / atom.n;
  if (a.size() != static_cast<size_t>(shape.rowTiles * steps * 4) || hasFailed()) {
    return hasFailed() ? failure() : fail(op) << "expects its first operand as words of " << atom.name;
  }
  for (int64_t step = 0; step < steps; ++step) {
    for (int64_t column = 0; column < columnTiles; column += 2) {
      SmallVector<Value> second =
          isScores ? reader.load(column * 8, step * 2, word) : reader.load(step * 16, column, word);
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
  fragments[op.getResult()] = {layout, acc};
  return success();
}
