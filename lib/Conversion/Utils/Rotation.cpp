//===- Rotation.cpp - RoPE in a kernel ----------------------------------===//
#include "Rotation.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <cmath>
#include <numbers>

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;

static Value splat(ImplicitLocOpBuilder &b, VectorType type, double value) {
  return arith::ConstantOp::create(
      b, SplatElementsAttr::get(type, static_cast<Attribute>(b.getFloatAttr(type.getElementType(), value))));
}

static Value splat(ImplicitLocOpBuilder &b, VectorType type, int64_t value) {
  return arith::ConstantOp::create(
      b, SplatElementsAttr::get(type, static_cast<Attribute>(b.getIntegerAttr(type.getElementType(), value))));
}

/// c[0] + z * (c[1] + z * (...)).
static Value polynomial(ImplicitLocOpBuilder &b, Value z, ArrayRef<double> coefficients) {
  auto type = cast<VectorType>(z.getType());
  Value sum = splat(b, type, coefficients.back());
  for (double c : llvm::reverse(coefficients.drop_back())) {
    sum = arith::AddFOp::create(b, arith::MulFOp::create(b, sum, z), splat(b, type, c));
  }
  return sum;
}

RopeAngles kvc::createRopeAngles(ImplicitLocOpBuilder &b, RopeAttr rope, Value position) {
  const int64_t pairs = rope.getDims() / 2;
  SmallVector<double> frequencies;
  for (int64_t i = 0; i < pairs; ++i) {
    frequencies.push_back(std::pow(rope.getBase().getValueAsDouble(), -2.0 * i / rope.getDims()));
  }
  auto table = DenseElementsAttr::get(VectorType::get({pairs}, b.getF64Type()), ArrayRef(frequencies));
  return createRopeAngles(b, arith::ConstantOp::create(b, table), position);
}

RopeAngles kvc::createRopeAngles(ImplicitLocOpBuilder &b, Value frequencies, Value position) {
  auto doubles = cast<VectorType>(frequencies.getType());
  const int64_t pairs = doubles.getNumElements();
  auto floats = VectorType::get({pairs}, b.getF32Type());
  auto words = VectorType::get({pairs}, b.getI32Type());

  // The angle and what is left of it beyond whole quarter turns in f64: at a position of thousands, f32 would be off by
  // 1e-4.
  Value number = arith::SIToFPOp::create(b, b.getF64Type(), arith::IndexCastOp::create(b, b.getI64Type(), position));
  Value angle = arith::MulFOp::create(b, vector::BroadcastOp::create(b, doubles, number), frequencies);
  Value turns = math::RoundEvenOp::create(b, arith::MulFOp::create(b, angle, splat(b, doubles, 2 / std::numbers::pi)));
  Value rest =
      arith::SubFOp::create(b, angle, arith::MulFOp::create(b, turns, splat(b, doubles, std::numbers::pi / 2)));
  Value x = arith::TruncFOp::create(b, floats, rest);
  Value quarter = arith::FPToSIOp::create(b, words, turns);

  // Taylor series on [-pi/4, pi/4]: the terms left out are below 2e-9 of the value.
  Value z = arith::MulFOp::create(b, x, x);
  Value sine = arith::MulFOp::create(b, x, polynomial(b, z, {1, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880}));
  Value cosine = polynomial(b, z, {1, -1.0 / 2, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800});

  auto bitOf = [&](Value word, int64_t bit) -> Value {
    Value masked = arith::AndIOp::create(b, word, splat(b, words, bit));
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, masked, splat(b, words, int64_t(0)));
  };
  auto choose = [&](Value condition, Value yes, Value no) -> Value {
    return arith::SelectOp::create(b, condition, yes, no);
  };
  Value odd = bitOf(quarter, 1), next = arith::AddIOp::create(b, quarter, splat(b, words, int64_t(1)));
  Value c = choose(odd, sine, cosine), s = choose(odd, cosine, sine);
  return {choose(bitOf(next, 2), arith::NegFOp::create(b, c), c),
          choose(bitOf(quarter, 2), arith::NegFOp::create(b, s), s)};
}

Value kvc::createRotation(ImplicitLocOpBuilder &b, RopeAttr rope, Value head, const RopeAngles &angles) {
  const int64_t pairs = rope.getDims() / 2;
  const bool readsNeighbours = rope.getPairing() != Pairing::Half;
  const bool writesNeighbours = rope.getPairing() == Pairing::Adjacent;
  auto slice = [&](int64_t offset, int64_t count) -> Value {
    return vector::ExtractStridedSliceOp::create(b, head, offset, count, 1);
  };
  Value x, y;
  if (readsNeighbours) {
    auto halves = vector::DeinterleaveOp::create(b, slice(0, 2 * pairs));
    x = halves.getRes1();
    y = halves.getRes2();
  } else {
    x = slice(0, pairs);
    y = slice(pairs, pairs);
  }
  auto mul = [&](Value p, Value q) -> Value { return arith::MulFOp::create(b, p, q); };
  Value u = arith::SubFOp::create(b, mul(x, angles.cosines), mul(y, angles.sines));
  Value v = arith::AddFOp::create(b, mul(x, angles.sines), mul(y, angles.cosines));
  if (writesNeighbours) {
    return vector::InsertStridedSliceOp::create(b, vector::InterleaveOp::create(b, u, v), head, 0, 1);
  }
  head = vector::InsertStridedSliceOp::create(b, u, head, 0, 1);
  return vector::InsertStridedSliceOp::create(b, v, head, pairs, 1);
}
