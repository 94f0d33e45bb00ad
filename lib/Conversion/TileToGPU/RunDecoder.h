//===- RunDecoder.h - Codes as numbers --------------------------*- C++ -*-===//
//
// With scales of f16 two at a time: a code's bits behind an exponent are a number of f16, from which one multiply-add
// makes the code itself, exactly. In pages of teams neighbours lie 16 bits apart, so a mask of the word gives a pair.
// With other scales the same is done in f32, one number at a time.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_LIB_CONVERSION_TILETOGPU_RUNDECODER_H
#define KVC_LIB_CONVERSION_TILETOGPU_RUNDECODER_H

#include "TeamEmitter.h"

namespace kvc {

/// A lane's codes as bits behind an exponent.
class Raiser {
public:
  /// A number, or a pair of them, that stands for codes: (number - offset) / step. A code that begins at a higher bit
  /// of the mantissa counts in steps.
  struct Raised {
    mlir::Value number;
    float offset, step;
  };

  Raiser(mlir::ImplicitLocOpBuilder &b, mlir::ValueRange words, const PlaneLayout &plane)
      : b(b), words(words), plane(plane), bits(plane.format.getBits()) {}

  /// Codes 2 pair and 2 pair + 1 as f16.
  Raised pairOf(int64_t pair);
  /// One code as f32.
  Raised codeOf(int64_t code);

private:
  mlir::VectorType single() { return mlir::VectorType::get({1}, b.getI32Type()); }
  /// Makes `window` hold bits `begin .. begin + reach - 1` of the words from its bit 0 .. `most` on; returns that bit.
  int64_t windowAt(int64_t begin, int64_t reach, int64_t most);

  mlir::ImplicitLocOpBuilder &b;
  llvm::SmallVector<mlir::Value> words;
  const PlaneLayout &plane;
  int64_t bits;
  /// Bits of the words from `windowBegin` on, so many of which are there, and the same, moved up to a pair's other
  /// half.
  mlir::Value window, moved;
  int64_t windowBegin = 0, windowBits = 0;
};

/// The numbers of a run of codes as words, a pair at a time, in sets.
class RunDecoder {
public:
  /// One scale (and zero) of all pairs, or one of each; pairs themselves.
  RunDecoder(mlir::ImplicitLocOpBuilder &b, mlir::ValueRange codes, mlir::ValueRange scales, mlir::ValueRange zeros,
             const PlaneLayout &plane, ProductType product)
      : b(b), raiser(b, codes, plane), scales(scales), zeros(zeros), product(product),
        zeroCode(plane.format.getSymmetric() ? static_cast<float>(1 << (plane.format.getBits() - 1)) : 0.0f) {}

  llvm::SmallVector<mlir::Value> wordsOf(int64_t pair);

private:
  mlir::Value numberOf(const Raiser::Raised &code, llvm::function_ref<mlir::Value(float)> constant, mlir::Value scale,
                       mlir::Value zero);

  mlir::ImplicitLocOpBuilder &b;
  Raiser raiser;
  llvm::SmallVector<mlir::Value> scales, zeros;
  ProductType product;
  float zeroCode;
};

} // namespace kvc

#endif // KVC_LIB_CONVERSION_TILETOGPU_RUNDECODER_H
