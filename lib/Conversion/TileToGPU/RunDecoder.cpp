//===- RunDecoder.cpp - Codes as numbers ----------------------------------===//
#include "RunDecoder.h"

#include "../TileToVector/Codec.h"

using namespace mlir;
using namespace kvc;

Raiser::Raised Raiser::pairOf(int64_t pair) {
  constexpr int64_t exponent = 0x64, mantissaBits = 10;
  constexpr float raised = 1024.0f;
  auto halves = VectorType::get({2}, b.getF16Type());
  const int64_t mask = (int64_t(1) << bits) - 1, code = 2 * pair;
  if (bits == 8) {
    auto bytes = VectorType::get({4}, b.getI8Type());
    Value four = vector::BitCastOp::create(b, bytes, vector::FromElementsOp::create(b, single(), words[code / 4]));
    Value exponents = arith::ConstantOp::create(b, DenseElementsAttr::get(bytes, static_cast<int8_t>(exponent)));
    const int64_t i = code % 4;
    Value two = vector::ShuffleOp::create(b, four, exponents, ArrayRef<int64_t>{i, 4, i + 1, 4});
    return {vector::BitCastOp::create(b, halves, two), raised, 1.0f};
  }
  // Neighbours lie 16 bits apart, or are brought there.
  const int64_t begin = plane.pairs ? code / plane.pack * 32 + code % plane.pack / 2 * bits : code * bits;
  const int64_t reach = plane.pairs ? bits : 2 * bits;
  const int64_t at = windowAt(begin, reach, mantissaBits - bits);
  Value high = window;
  if (!plane.pairs) {
    if (!moved) {
      moved = arith::ShLIOp::create(b, window, wordOf(b, 16 - bits));
    }
    high = moved;
  }
  auto mixed = [&](Value value, int64_t mask, auto rest) {
    Value taken = arith::AndIOp::create(b, value, wordOf(b, mask));
    return arith::OrIOp::create(b, taken, rest).getResult();
  };
  Value exponents = wordOf(b, exponent << 8 | exponent << 24);
  Value two = plane.pairs ? mixed(window, mask << at | mask << (at + 16), exponents)
                          : mixed(window, mask << at, mixed(high, mask << (at + 16), exponents));
  return {vector::BitCastOp::create(b, halves, vector::FromElementsOp::create(b, single(), two)), raised,
          static_cast<float>(1 << at)};
}

Raiser::Raised Raiser::codeOf(int64_t code) {
  constexpr int64_t exponent = 0x4b000000, mantissaBits = 23;
  constexpr float raised = 8388608.0f;
  const int64_t begin = bits == 3 ? code * bits : code / (32 / bits) * 32 + plane.bitOf(code % (32 / bits));
  const int64_t at = windowAt(begin, bits, mantissaBits - bits), mask = (int64_t(1) << bits) - 1;
  Value taken = arith::AndIOp::create(b, window, wordOf(b, mask << at));
  Value word = arith::OrIOp::create(b, taken, wordOf(b, exponent));
  return {arith::BitcastOp::create(b, b.getF32Type(), word), raised, static_cast<float>(1 << at)};
}

int64_t Raiser::windowAt(int64_t begin, int64_t reach, int64_t most) {
  const int64_t at = begin - windowBegin;
  if (window && at >= 0 && at <= most && at + reach <= windowBits) {
    return at;
  }
  moved = Value();
  const int64_t word = begin / 32, shift = begin % 32;
  if (shift <= most && shift + reach <= 32) {
    window = words[word];
    windowBegin = word * 32;
    windowBits = 32;
    return shift;
  }
  window = arith::ShRUIOp::create(b, words[word], wordOf(b, shift));
  windowBegin = begin;
  windowBits = 32 - shift;
  if (shift + reach > 32) {
    Value next = arith::ShLIOp::create(b, words[word + 1], wordOf(b, 32 - shift));
    window = arith::OrIOp::create(b, window, next);
    windowBits = 32;
  }
  return 0;
}

static Value wordOfPair(ImplicitLocOpBuilder &b, Value pair) {
  auto word = VectorType::get({1}, b.getI32Type());
  return vector::ExtractOp::create(b, vector::BitCastOp::create(b, word, pair), 0);
}

SmallVector<Value> RunDecoder::wordsOf(int64_t pair) {
  const size_t i = scales.size() == 1 ? 0 : pair;
  Value scale = scales[i], zero = zeros.empty() ? Value() : zeros[i];
  if (product == ProductType::F16) {
    auto type = VectorType::get({2}, b.getF16Type());
    auto both = [&](float value) {
      return arith::ConstantOp::create(b, SplatElementsAttr::get(type, b.getF16FloatAttr(value))).getResult();
    };
    return {wordOfPair(b, numberOf(raiser.pairOf(pair), both, scale, zero))};
  }
  // Numbers that are rounded or split afterwards are made in f32.
  Value wideScale = decodeScale(b, scale), wideZero = zero ? decodeFloat(b, zero) : Value();
  SmallVector<Value> numbers, words;
  for (int64_t half : {0, 1}) {
    auto constant = [&](float value) { return floatOf(b, value); };
    numbers.push_back(numberOf(raiser.codeOf(2 * pair + half), constant, vector::ExtractOp::create(b, wideScale, half),
                               zero ? vector::ExtractOp::create(b, wideZero, half).getResult() : Value()));
  }
  for (const SmallVector<Value> &set : createWords(b, numbers, product)) {
    words.push_back(wordOfPair(b, set.front()));
  }
  return words;
}

/// The code is exact; the number is rounded once.
Value RunDecoder::numberOf(const Raiser::Raised &code, llvm::function_ref<Value(float)> constant, Value scale,
                           Value zero) {
  Value exact = code.step == 1.0f ? arith::SubFOp::create(b, code.number, constant(code.offset + zeroCode)).getResult()
                                  : math::FmaOp::create(b, code.number, constant(1 / code.step),
                                                        constant(-code.offset / code.step - zeroCode));
  return zero ? math::FmaOp::create(b, exact, scale, zero).getResult()
              : arith::MulFOp::create(b, exact, scale).getResult();
}
