//===- RowImage.cpp - Rows in staging memory as they lie in pages ---------===//
#include "StageReader.h"

using namespace mlir;
using namespace kvc;

static constexpr int64_t chunkChannels = 8, chunkBytes = 16;

Value RowImage::flips(ImplicitLocOpBuilder &b, Value row) const {
  const int64_t rowsOfBanks = 16 / group(), together = ofValues ? 4 : 1;
  Value number = b.createOrFold<arith::DivUIOp>(row, wordOf(b, rowsOfBanks));
  number = b.createOrFold<arith::RemUIOp>(number, wordOf(b, group() / together));
  return mulWords(b, number, together);
}

namespace {
class ImageReader : public StageReader {
public:
  ImageReader(TeamEmitter &emitter, ImplicitLocOpBuilder &b, const StagedOperand &operand, int64_t steps)
      : StageReader(steps, 1), emitter(emitter), b(b), operand(operand), image(*operand.image) {}

protected:
  /// Sets the place that the lane reads behind: row, chunk in a group and bytes in it.
  void begin(Value row, Value chunk, Value bytes) {
    place = arith::XOrIOp::create(b, chunk, image.flips(b, row));
    base = addWords(b, addWords(b, operand.stage, mulWords(b, row, operand.stageRow)), bytes);
  }

  /// Offset of chunk `chunk` behind the lane's own (whole instructions'), and what is added to it `row` rows on.
  std::pair<Value, int64_t> at(int64_t row, int64_t chunk) {
    const int64_t low = chunk % image.group();
    Value own = low ? arith::XOrIOp::create(b, place, wordOf(b, low)).getResult() : place;
    return {addWords(b, base, mulWords(b, own, chunkBytes)), row * operand.stageRow + (chunk - low) * chunkBytes};
  }

  TeamEmitter &emitter;
  ImplicitLocOpBuilder &b;
  const StagedOperand &operand;
  const RowImage image;

private:
  Value place, base;
};

/// A chunk of the lane's slot, which is two steps' channels.
class KeyImageReader : public ImageReader {
public:
  KeyImageReader(TeamEmitter &emitter, ImplicitLocOpBuilder &b, const StagedOperand &operand)
      : ImageReader(emitter, b, operand, chunkChannels / operand.atom->b().inSize(Axis::Register)) {
    const Layout layout = operand.atom->b();
    // Lanes that divide a step's channels have neighbouring chunks.
    const int64_t held = layout.inSize(Axis::Register);
    Value chunk = b.createOrFold<arith::DivUIOp>(emitter.coordinate(b, layout, Axis::Row, 0), wordOf(b, held));
    begin(emitter.coordinate(b, layout, Axis::Column, 0), chunk, wordOf(b, 0));
  }

  SmallVector<Value> load(int64_t slot, int64_t channel, int64_t, Type word) override {
    auto [offset, further] = at(slot, channel / chunkChannels);
    Value from = arith::AddIOp::create(b, toIndex(b, offset), indexOf(b, further));
    auto raw = vector::LoadOp::create(b, VectorType::get({chunkBytes}, b.getI8Type()), emitter.staging, from,
                                      /*nontemporal=*/false, llvm::MaybeAlign(chunkBytes));
    raw->setAttr(tile::TileDialect::regionAttr, b.getI64IntegerAttr(image.region()));
    Value all =
        vector::BitCastOp::create(b, VectorType::get({chunkChannels}, cast<VectorType>(word).getElementType()), raw);
    SmallVector<Value> words;
    for (int64_t i = 0; i < chunkChannels; i += 2) {
      words.push_back(vector::ExtractStridedSliceOp::create(b, all, i, 2, 1));
    }
    return words;
  }
};

/// Four slots of the lane's channel, by a transposed read: of sixteen lanes each four name a slot's sixteen channels.
class ValueImageReader : public ImageReader {
public:
  ValueImageReader(TeamEmitter &emitter, ImplicitLocOpBuilder &b, const StagedOperand &operand)
      : ImageReader(emitter, b, operand, /*steps=*/1) {
    constexpr int64_t lanesOfRead = 16, piece = 4;
    const Layout layout = operand.atom->b();
    auto digit = [&](int64_t stride, int64_t size) {
      return b.createOrFold<arith::RemUIOp>(b.createOrFold<arith::DivUIOp>(emitter.lane, wordOf(b, stride)),
                                            wordOf(b, size));
    };
    Value row = addWords(b, emitter.coordinate(b, layout, Axis::Row, 0), digit(piece, lanesOfRead / piece));
    // Channels of the lanes that read together, and the lane's piece of them.
    Value chunk = addWords(
        b, mulWords(b, digit(lanesOfRead, operand.atom->n / lanesOfRead), lanesOfRead / chunkChannels), digit(2, 2));
    begin(row, chunk, mulWords(b, digit(1, 2), chunkBytes / 2));
  }

  SmallVector<Value> load(int64_t slot, int64_t channel, int64_t, Type word) override {
    auto [offset, further] = at(slot, channel / chunkChannels);
    auto read = tile::LoadTransposedOp::create(b, word, word, emitter.staging, offset, further, image.region());
    return {read.getLow(), read.getHigh()};
  }
};
} // namespace

std::unique_ptr<StageReader> kvc::createImageReader(TeamEmitter &emitter, ImplicitLocOpBuilder &b,
                                                    const StagedOperand &operand) {
  if (operand.image->ofValues) {
    return std::make_unique<ValueImageReader>(emitter, b, operand);
  }
  return std::make_unique<KeyImageReader>(emitter, b, operand);
}
