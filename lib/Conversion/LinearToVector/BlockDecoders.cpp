//===- BlockDecoders.cpp - Blocks of weights become vectors ---------------===//
#include "BlockDecoders.h"

#include "gguf/BlockFormats.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kvc;

Value kvc::loadRow(ImplicitLocOpBuilder &b, Value memref, ValueRange indices, int64_t lanes, int64_t count) {
  Type element = cast<MemRefType>(memref.getType()).getElementType();
  auto type = VectorType::get({lanes}, element);
  if (count == lanes) {
    return vector::LoadOp::create(b, type, memref, indices);
  }
  Value mask = vector::ConstantMaskOp::create(b, VectorType::get({lanes}, b.getI1Type()), ArrayRef<int64_t>{count});
  Value zero = arith::ConstantOp::create(b, b.getZeroAttr(type));
  return vector::MaskedLoadOp::create(b, type, memref, indices, mask, zero);
}

namespace {

/// Emits reads at byte offsets that are known relative to a block.
struct Reader {
  ImplicitLocOpBuilder &b;
  const BlockAddress &block;
  int64_t lanes;

  Value at(int64_t byte) { return b.createOrFold<arith::AddIOp>(block.offset, index(byte)); }
  Value index(int64_t value) { return arith::ConstantIndexOp::create(b, value); }
  VectorType vectorOf(Type type) { return VectorType::get({lanes}, type); }

  Value raw(int64_t byte, int64_t bytes) {
    auto type = VectorType::get({bytes}, b.getI8Type());
    return vector::LoadOp::create(b, type, block.weight, ValueRange{block.row, at(byte)}, /*nontemporal=*/false,
                                  alignmentAt(byte));
  }
  llvm::MaybeAlign alignmentAt(int64_t byte) const {
    if (block.alignment == 1) {
      return std::nullopt;
    }
    return llvm::MaybeAlign(llvm::MinAlign(block.alignment, byte));
  }
  /// The four bytes at `byte` and a lane's multiple of four, as i32: as few loads as their alignment allows.
  Value word(int64_t byte, Value first) {
    const int64_t piece = llvm::MinAlign(llvm::MinAlign(block.alignment, byte), 4);
    Value base = b.createOrFold<arith::AddIOp>(block.offset, first), result;
    for (int64_t i = 0; i < 4; i += piece) {
      Value from = b.createOrFold<arith::AddIOp>(base, index(byte + i));
      Value part = vector::LoadOp::create(b, VectorType::get({piece}, b.getI8Type()), block.weight,
                                          ValueRange{block.row, from}, /*nontemporal=*/false, llvm::MaybeAlign(piece));
      auto integer = b.getIntegerType(static_cast<unsigned>(8 * piece));
      part = vector::ExtractOp::create(b, vector::BitCastOp::create(b, VectorType::get({1}, integer), part), 0);
      part = piece < 4 ? arith::ExtUIOp::create(b, b.getI32Type(), part).getResult() : part;
      result = result ? either(result, left(part, static_cast<int32_t>(8 * i))) : part;
    }
    return result;
  }
  Value scalar(int64_t byte, Type type) {
    auto one = VectorType::get({1}, type);
    Value vector = vector::BitCastOp::create(b, one, raw(byte, type.getIntOrFloatBitWidth() / 8));
    return vector::ExtractOp::create(b, vector, ArrayRef<int64_t>{0});
  }
  /// An f16 number as f32.
  Value half(int64_t byte) { return arith::ExtFOp::create(b, b.getF32Type(), scalar(byte, b.getF16Type())); }
  /// Two f16 numbers that follow each other, converted together.
  std::pair<Value, Value> halves(int64_t byte) {
    Value pair = vector::BitCastOp::create(b, VectorType::get({2}, b.getF16Type()), raw(byte, 4));
    pair = arith::ExtFOp::create(b, VectorType::get({2}, b.getF32Type()), pair);
    return {vector::ExtractOp::create(b, pair, ArrayRef<int64_t>{0}),
            vector::ExtractOp::create(b, pair, ArrayRef<int64_t>{1})};
  }
  /// One byte as i32.
  Value byteAt(int64_t byte) { return arith::ExtUIOp::create(b, b.getI32Type(), scalar(byte, b.getI8Type())); }

  /// `lanes` bytes as i32.
  Value bytes(int64_t byte) { return arith::ExtUIOp::create(b, vectorOf(b.getI32Type()), raw(byte, lanes)); }
  Value signedBytes(int64_t byte) { return arith::ExtSIOp::create(b, vectorOf(b.getI32Type()), raw(byte, lanes)); }

  /// The same number in the type of `like` (i32 or a vector of them).
  Value constant(Value like, int32_t value) {
    TypedAttr attr = b.getI32IntegerAttr(value);
    if (auto type = dyn_cast<VectorType>(like.getType())) {
      attr = SplatElementsAttr::get(type, attr);
    }
    return arith::ConstantOp::create(b, attr);
  }
  Value mask(Value x, int32_t bits) { return arith::AndIOp::create(b, x, constant(x, bits)); }
  Value right(Value x, int32_t by) { return by ? arith::ShRUIOp::create(b, x, constant(x, by)).getResult() : x; }
  Value left(Value x, int32_t by) { return by ? arith::ShLIOp::create(b, x, constant(x, by)).getResult() : x; }
  Value either(Value x, Value y) { return arith::OrIOp::create(b, x, y); }
  Value minus(Value x, int32_t y) { return y ? arith::SubIOp::create(b, x, constant(x, y)).getResult() : x; }
  /// Integers to f32; codes and scales are small, so it is exact.
  Value number(Value x) {
    Type type = b.getF32Type();
    return arith::SIToFPOp::create(b, isa<VectorType>(x.getType()) ? Type(vectorOf(type)) : type, x);
  }
  Value times(Value x, Value y) { return arith::MulFOp::create(b, x, y); }

  /// Codes of 4 bits of one half (0 low, 1 high) of each byte.
  Value nibbles(int64_t byte, int64_t half) {
    Value x = bytes(byte);
    return half ? right(x, 4) : mask(x, 15);
  }
};

/// Fifth bits of values first .. first + lanes - 1 of a block of 32, from the word `high`.
Value fifthBits(Reader &r, Value high, int64_t first) {
  auto type = r.vectorOf(r.b.getI32Type());
  SmallVector<int32_t> shifts;
  for (int64_t i = 0; i < r.lanes; ++i) {
    shifts.push_back(int32_t(first + i));
  }
  Value word = vector::BroadcastOp::create(r.b, type, high);
  Value by = arith::ConstantOp::create(r.b, DenseElementsAttr::get(type, ArrayRef<int32_t>(shifts)));
  return r.left(r.mask(arith::ShRUIOp::create(r.b, word, by), 1), 4);
}

// Q4_0, Q4_1, Q5_0, Q5_1: d, perhaps m, perhaps a word of fifth bits, 16 bytes of codes. Without m codes are centred.

template <bool hasMin> DecodedSegment scalesOfBlock32(ImplicitLocOpBuilder &b, const BlockAddress &block, int64_t) {
  Reader r{b, block, 0};
  DecodedSegment out;
  if (hasMin) {
    std::tie(out.scale, out.offset) = r.halves(0);
  } else {
    out.scale = r.half(0);
  }
  return out;
}

template <bool hasMin, bool hasFifth>
DecodedSegment emitBlock32(ImplicitLocOpBuilder &b, const BlockAddress &block, int64_t segment, int64_t lanes,
                           int64_t) {
  Reader r{b, block, lanes};
  DecodedSegment out = scalesOfBlock32<hasMin>(b, block, segment);
  constexpr int64_t fifth = hasMin ? 4 : 2, next = fifth + (hasFifth ? 4 : 0);
  Value high;
  if (hasFifth) {
    high = r.scalar(fifth, b.getI32Type());
  }
  for (int64_t first = 0; first < 32; first += lanes) {
    Value code = r.nibbles(next + first % 16, first / 16);
    if (hasFifth) {
      code = r.either(code, fifthBits(r, high, first));
    }
    out.codes.push_back(r.number(r.minus(code, hasMin ? 0 : hasFifth ? 16 : 8)));
  }
  return out;
}

/// The low or high codes of four bytes.
Value packedNibbles(Reader &r, Value word, int64_t half) { return r.mask(r.right(word, half ? 4 : 0), 0x0f0f0f0f); }
/// Bit `bit` of four bytes as their bit `to`.
Value packedBit(Reader &r, Value word, int32_t bit, int32_t to) {
  return r.left(r.mask(r.right(word, bit), 0x01010101), to);
}

template <bool hasMin, bool hasFifth>
Value bytesOfBlock32(ImplicitLocOpBuilder &b, const BlockAddress &block, int64_t, const LaneValues &values) {
  Reader r{b, block, 4};
  constexpr int64_t fifth = hasMin ? 4 : 2, next = fifth + (hasFifth ? 4 : 0);
  Value codes = packedNibbles(r, r.word(next + values.further % 16, values.first), values.further / 16);
  if (!hasFifth) {
    return codes;
  }
  // Four neighbouring bits, one to each byte: copies of them seven bits apart.
  Value by = arith::IndexCastOp::create(b, b.getI32Type(), values.first);
  by = b.createOrFold<arith::AddIOp>(by, r.constant(by, static_cast<int32_t>(values.further)));
  Value bits = r.mask(arith::ShRUIOp::create(b, r.word(fifth, r.index(0)), by), 15);
  Value spread = arith::MulIOp::create(b, bits, r.constant(bits, 0x00204081));
  return r.either(codes, packedBit(r, spread, 0, 4));
}

DecodedSegment emitQ80(ImplicitLocOpBuilder &b, const BlockAddress &block, int64_t segment, int64_t lanes, int64_t) {
  Reader r{b, block, lanes};
  DecodedSegment out = scalesOfBlock32<false>(b, block, segment);
  for (int64_t first = 0; first < 32; first += lanes) {
    out.codes.push_back(r.number(r.signedBytes(2 + first)));
  }
  return out;
}

Value bytesOfQ80(ImplicitLocOpBuilder &b, const BlockAddress &block, int64_t, const LaneValues &values) {
  return Reader{b, block, 4}.word(2 + values.further, values.first);
}

// Q4_K and Q5_K: d, dmin, 12 bytes of 6-bit scales and minima, perhaps 32 bytes of fifth bits, 128 bytes of codes.

DecodedSegment scalesOfK45(ImplicitLocOpBuilder &b, const BlockAddress &block, int64_t segment) {
  Reader r{b, block, 0};
  constexpr int64_t packed = 4;
  auto sc = [&](int64_t i) { return r.byteAt(packed + i); };
  Value scale, min;
  if (segment < 4) {
    scale = r.mask(sc(segment), 63);
    min = r.mask(sc(segment + 4), 63);
  } else {
    Value both = sc(segment + 4);
    scale = r.either(r.mask(both, 15), r.left(r.right(sc(segment - 4), 6), 4));
    min = r.either(r.right(both, 4), r.left(r.right(sc(segment), 6), 4));
  }
  DecodedSegment out;
  auto [d, dmin] = r.halves(0);
  out.scale = r.times(d, r.number(scale));
  out.offset = arith::NegFOp::create(b, r.times(dmin, r.number(min)));
  return out;
}

template <bool hasFifth>
DecodedSegment emitK45(ImplicitLocOpBuilder &b, const BlockAddress &block, int64_t segment, int64_t lanes, int64_t) {
  Reader r{b, block, lanes};
  constexpr int64_t fifth = 16, codes = hasFifth ? 48 : 16;
  DecodedSegment out = scalesOfK45(b, block, segment);
  for (int64_t first = 0; first < 32; first += lanes) {
    Value code = r.nibbles(codes + 32 * (segment / 2) + first, segment % 2);
    if (hasFifth) {
      code = r.either(code, r.left(r.mask(r.right(r.bytes(fifth + first), int32_t(segment)), 1), 4));
    }
    out.codes.push_back(r.number(code));
  }
  return out;
}

template <bool hasFifth>
Value bytesOfK45(ImplicitLocOpBuilder &b, const BlockAddress &block, int64_t segment, const LaneValues &values) {
  Reader r{b, block, 4};
  constexpr int64_t fifth = 16, codes = hasFifth ? 48 : 16;
  Value code = packedNibbles(r, r.word(codes + 32 * (segment / 2) + values.further, values.first), segment % 2);
  if (!hasFifth) {
    return code;
  }
  Value high = r.word(fifth + values.further, values.first);
  return r.either(code, packedBit(r, high, static_cast<int32_t>(segment), 4));
}

// Q6_K: ql[128], qh[64], scales int8[16], d; two halves of 128 values; a scale for each 16.

DecodedSegment scalesOfQ6K(ImplicitLocOpBuilder &b, const BlockAddress &block, int64_t segment) {
  Reader r{b, block, 0};
  DecodedSegment out;
  Value scale = arith::ExtSIOp::create(b, b.getI32Type(), r.scalar(192 + segment, b.getI8Type()));
  out.scale = r.times(r.half(208), r.number(scale));
  return out;
}

Value bytesOfQ6K(ImplicitLocOpBuilder &b, const BlockAddress &block, int64_t segment, const LaneValues &values) {
  Reader r{b, block, 4};
  int64_t half = segment / 8, k = segment % 8 / 2, l = 16 * (segment % 2) + values.further;
  Value low = packedNibbles(r, r.word(64 * half + 32 * (k % 2) + l, values.first), k / 2);
  Value high = r.right(r.word(128 + 32 * half + l, values.first), static_cast<int32_t>(2 * k));
  return r.either(low, r.left(r.mask(high, 0x03030303), 4));
}

DecodedSegment emitQ6K(ImplicitLocOpBuilder &b, const BlockAddress &block, int64_t segment, int64_t lanes, int64_t) {
  Reader r{b, block, lanes};
  int64_t half = segment / 8, k = segment % 8 / 2, l = 16 * (segment % 2);
  DecodedSegment out = scalesOfQ6K(b, block, segment);
  for (int64_t first = l; first < l + 16; first += lanes) {
    Value low = r.nibbles(64 * half + 32 * (k % 2) + first, k / 2);
    Value high = r.mask(r.right(r.bytes(128 + 32 * half + first), int32_t(2 * k)), 3);
    out.codes.push_back(r.number(r.minus(r.either(low, r.left(high, 4)), 32)));
  }
  return out;
}

DecodedSegment emitF32(ImplicitLocOpBuilder &b, const BlockAddress &block, int64_t, int64_t lanes, int64_t count) {
  DecodedSegment out;
  out.codes.push_back(loadRow(b, block.weight, {block.row, block.offset}, lanes, count));
  return out;
}

/// F16 and BF16.
template <typename FloatType>
DecodedSegment emitHalf(ImplicitLocOpBuilder &b, const BlockAddress &block, int64_t, int64_t lanes, int64_t count) {
  Value raw = loadRow(b, block.weight, {block.row, block.offset}, 2 * lanes, 2 * count);
  Value halves = vector::BitCastOp::create(b, VectorType::get({lanes}, FloatType::get(b.getContext())), raw);
  DecodedSegment out;
  out.codes.push_back(arith::ExtFOp::create(b, VectorType::get({lanes}, b.getF32Type()), halves));
  return out;
}

constexpr BlockDecoder decoders[] = {
    {"f32", 0, false, emitF32, nullptr, nullptr, std::nullopt, true},
    {"f16", 0, false, emitHalf<Float16Type>, nullptr, nullptr, std::nullopt, true},
    {"bf16", 0, false, emitHalf<BFloat16Type>, nullptr, nullptr, std::nullopt, true},
    {"q4_0", 32, false, emitBlock32<false, false>, scalesOfBlock32<false>, bytesOfBlock32<false, false>, 8, false},
    {"q4_1", 32, true, emitBlock32<true, false>, scalesOfBlock32<true>, bytesOfBlock32<true, false>, 0, false},
    {"q5_0", 32, false, emitBlock32<false, true>, scalesOfBlock32<false>, bytesOfBlock32<false, true>, 16, false},
    {"q5_1", 32, true, emitBlock32<true, true>, scalesOfBlock32<true>, bytesOfBlock32<true, true>, 0, false},
    {"q8_0", 32, false, emitQ80, scalesOfBlock32<false>, bytesOfQ80, std::nullopt, true},
    {"q4_k", 32, true, emitK45<false>, scalesOfK45, bytesOfK45<false>, 0, true},
    {"q5_k", 32, true, emitK45<true>, scalesOfK45, bytesOfK45<true>, 0, true},
    {"q6_k", 16, false, emitQ6K, scalesOfQ6K, bytesOfQ6K, 32, false},
};

// Linear layers keep one set of sums over x for all weights with offsets.
constexpr bool offsetsHaveOneLength() {
  for (const BlockDecoder &decoder : decoders) {
    if (decoder.hasOffset && decoder.segmentValues != 32) {
      return false;
    }
  }
  return true;
}
static_assert(offsetsHaveOneLength());

} // namespace

const BlockDecoder &kvc::getBlockDecoder(StringRef encoding) {
  const BlockDecoder *row = llvm::find_if(decoders, [&](const BlockDecoder &d) { return d.encoding == encoding; });
  assert(row != std::end(decoders) && "an encoding that tile.linear refuses");
  return *row;
}

WeightSteps::WeightSteps(StringRef encoding, int64_t inner, int64_t lanes) : decoder(getBlockDecoder(encoding)) {
  const gguf::BlockFormat &format = *llvm::find_if(
      gguf::blockFormats(), [&](const gguf::BlockFormat &row) { return StringRef(row.encoding) == encoding; });
  bool plain = decoder.segmentValues == 0;
  values = plain ? lanes : format.valuesPerBlock;
  bytes = values / format.valuesPerBlock * format.bytesPerBlock;
  units = encoding == "f32" ? lanes : bytes;
  segments = plain ? 1 : values / decoder.segmentValues;
  count = inner / values;
  tail = inner % values;
}
