//===- Codec.cpp - Codes of the storage formats in registers -------------===//
#include "Codec.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;

/// A scale is never below this (docs/spec/formats.md), though its type may round it to 0 in memory.
static constexpr float smallestScale = 1e-8f;

/// `type` itself, or a vector of it with the shape of `like`.
static Type sameShape(Type like, Type type) {
  auto vector = dyn_cast<VectorType>(like);
  return vector ? VectorType::get(vector.getShape(), type) : type;
}

static Value splat(ImplicitLocOpBuilder &b, Type like, TypedAttr scalar) {
  auto vector = dyn_cast<VectorType>(like);
  return arith::ConstantOp::create(
      b, vector ? cast<TypedAttr>(SplatElementsAttr::get(cast<ShapedType>(sameShape(like, scalar.getType())), scalar))
                : scalar);
}

static Value splatInt(ImplicitLocOpBuilder &b, Type like, int64_t value) {
  return splat(b, like, b.getIntegerAttr(getElementTypeOrSelf(like), value));
}

static Value splatFloat(ImplicitLocOpBuilder &b, Type like, float value) {
  return splat(b, like, b.getF32FloatAttr(value));
}

/// What symmetric codes are raised by, so that stored codes are never negative.
static int64_t codeOffset(FormatAttr format) { return format.getSymmetric() ? 1ll << (format.getBits() - 1) : 0; }

IntegerType kvc::getUnitType(MLIRContext *context, const PlaneLayout &plane) {
  return IntegerType::get(context, static_cast<unsigned>(llvm::PowerOf2Ceil(plane.unitBytes * 8)));
}

//===----------------------------------------------------------------------===//
// Floating point
//===----------------------------------------------------------------------===//

Value kvc::decodeFloat(ImplicitLocOpBuilder &b, Value value) {
  Type type = getElementTypeOrSelf(value.getType());
  if (type.isF32()) {
    return value;
  }
  return arith::ExtFOp::create(b, sameShape(value.getType(), b.getF32Type()), value);
}

Value kvc::encodeFloat(ImplicitLocOpBuilder &b, Value value, Type type) {
  if (type.isF32()) {
    return value;
  }
  if (!type.isBF16()) {
    return arith::TruncFOp::create(b, sameShape(value.getType(), type), value);
  }
  // Not every machine rounds to bf16 in one instruction, and those that do flush subnormals: integers instead.
  Type words = sameShape(value.getType(), b.getI32Type());
  Type halves = sameShape(value.getType(), b.getI16Type());
  Value bits = arith::BitcastOp::create(b, words, value);
  Value high = arith::ShRUIOp::create(b, bits, splatInt(b, words, 16));
  Value odd = arith::AndIOp::create(b, high, splatInt(b, words, 1));
  Value bias = arith::AddIOp::create(b, odd, splatInt(b, words, 0x7fff));
  Value rounded = arith::ShRUIOp::create(b, arith::AddIOp::create(b, bits, bias), splatInt(b, words, 16));
  Value isNan = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, value, value);
  Value quiet = arith::OrIOp::create(b, high, splatInt(b, words, 0x40));
  Value chosen = arith::SelectOp::create(b, isNan, quiet, rounded);
  return arith::BitcastOp::create(b, sameShape(value.getType(), type), arith::TruncIOp::create(b, halves, chosen));
}

//===----------------------------------------------------------------------===//
// Units
//===----------------------------------------------------------------------===//

/// Bytes of groups of `have`, as groups of `want`: the first of each, and zeros behind them where there are more.
static Value regroupBytes(ImplicitLocOpBuilder &b, Value bytes, int64_t have, int64_t want) {
  auto type = cast<VectorType>(bytes.getType());
  int64_t groups = type.getNumElements() / have;
  Value zeros = arith::ConstantOp::create(b, b.getZeroAttr(type));
  SmallVector<int64_t> from;
  for (int64_t i = 0; i < groups * want; ++i) {
    int64_t within = i % want;
    from.push_back(within < have ? i / want * have + within : type.getNumElements());
  }
  return vector::ShuffleOp::create(b, bytes, zeros, from);
}

Value kvc::unitsOfBytes(ImplicitLocOpBuilder &b, const PlaneLayout &plane, Value bytes) {
  IntegerType unit = getUnitType(b.getContext(), plane);
  int64_t wide = unit.getWidth() / 8, units = cast<VectorType>(bytes.getType()).getNumElements() / plane.unitBytes;
  if (wide != plane.unitBytes) {
    bytes = regroupBytes(b, bytes, plane.unitBytes, wide);
  }
  return vector::BitCastOp::create(b, VectorType::get({units}, unit), bytes);
}

Value kvc::bytesOfUnits(ImplicitLocOpBuilder &b, const PlaneLayout &plane, Value units) {
  auto type = cast<VectorType>(units.getType());
  int64_t wide = type.getElementTypeBitWidth() / 8;
  Value bytes = vector::BitCastOp::create(b, VectorType::get({type.getNumElements() * wide}, b.getI8Type()), units);
  return wide == plane.unitBytes ? bytes : regroupBytes(b, bytes, wide, plane.unitBytes);
}

Value kvc::decodeElement(ImplicitLocOpBuilder &b, const PlaneLayout &plane, Value units, Value shift) {
  FormatAttr format = plane.format;
  Type unitsType = units.getType();
  int64_t bits = format.getBits(), unitBits = getElementTypeOrSelf(unitsType).getIntOrFloatBitWidth();
  Value shifted = bits == unitBits ? units : arith::ShRUIOp::create(b, units, shift);
  if (!format.isInteger()) {
    Type narrow = sameShape(unitsType, b.getIntegerType(bits));
    Value element = bits == unitBits ? shifted : arith::TruncIOp::create(b, narrow, shifted);
    return decodeFloat(b, arith::BitcastOp::create(b, sameShape(unitsType, format.getFloatType()), element));
  }
  Value code = bits == unitBits
                   ? shifted
                   : arith::AndIOp::create(b, shifted, splatInt(b, unitsType, (1ll << bits) - 1)).getResult();
  Type words = sameShape(unitsType, b.getI32Type());
  if (words != unitsType) {
    code = arith::ExtUIOp::create(b, words, code);
  }
  if (int64_t offset = codeOffset(format)) {
    code = arith::SubIOp::create(b, code, splatInt(b, words, offset));
  }
  return arith::SIToFPOp::create(b, sameShape(unitsType, b.getF32Type()), code);
}

/// The bits of elements, in the low bits of integers as wide as a unit.
static Value elementBits(ImplicitLocOpBuilder &b, const PlaneLayout &plane, Value element) {
  FormatAttr format = plane.format;
  Type unitsType = sameShape(element.getType(), getUnitType(b.getContext(), plane));
  int64_t unitBits = getElementTypeOrSelf(unitsType).getIntOrFloatBitWidth();
  Value bits;
  if (format.isInteger()) {
    Type words = sameShape(element.getType(), b.getI32Type());
    bits = arith::FPToSIOp::create(b, words, element);
    if (int64_t offset = codeOffset(format)) {
      bits = arith::AddIOp::create(b, bits, splatInt(b, words, offset));
    }
  } else {
    Type narrow = sameShape(element.getType(), b.getIntegerType(format.getBits()));
    bits = arith::BitcastOp::create(b, narrow, encodeFloat(b, element, format.getFloatType()));
  }
  int64_t have = getElementTypeOrSelf(bits.getType()).getIntOrFloatBitWidth();
  if (have > unitBits) {
    return arith::TruncIOp::create(b, unitsType, bits);
  }
  return have < unitBits ? arith::ExtUIOp::create(b, unitsType, bits).getResult() : bits;
}

Value kvc::encodeElement(ImplicitLocOpBuilder &b, const PlaneLayout &plane, Value units, Value shift, Value element) {
  Value bits = elementBits(b, plane, element);
  Type type = units.getType();
  int64_t width = plane.format.getBits(), unitBits = getElementTypeOrSelf(type).getIntOrFloatBitWidth();
  if (width == unitBits) {
    return bits;
  }
  Value mask = arith::ShLIOp::create(b, splatInt(b, type, (1ll << width) - 1), shift);
  Value keep = arith::XOrIOp::create(b, mask, splatInt(b, type, -1));
  return arith::OrIOp::create(b, arith::AndIOp::create(b, units, keep), arith::ShLIOp::create(b, bits, shift));
}

SmallVector<Value> kvc::decodeUnits(ImplicitLocOpBuilder &b, const PlaneLayout &plane, Value units) {
  Type unitsType = units.getType();
  SmallVector<Value> elements;
  for (int64_t e = 0; e < plane.pack; ++e) {
    elements.push_back(decodeElement(b, plane, units, splatInt(b, unitsType, plane.bitOf(e))));
  }
  return elements;
}

Value kvc::encodeUnits(ImplicitLocOpBuilder &b, const PlaneLayout &plane, ValueRange elements) {
  Value units;
  for (auto [e, element] : llvm::enumerate(elements)) {
    Value bits = elementBits(b, plane, element);
    if (e) {
      bits = arith::ShLIOp::create(b, bits, splatInt(b, bits.getType(), plane.bitOf(static_cast<int64_t>(e))));
      bits = arith::OrIOp::create(b, units, bits);
    }
    units = bits;
  }
  return units;
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

QuantizedGroup kvc::quantizeGroup(ImplicitLocOpBuilder &b, FormatAttr format, Value values) {
  Type type = values.getType();
  int64_t bits = format.getBits();
  auto reduce = [&](vector::CombiningKind kind, Value v) {
    return vector::ReductionOp::create(b, kind, v).getResult();
  };
  auto divide = [&](Value x, float by) {
    return arith::DivFOp::create(b, x, splatFloat(b, b.getF32Type(), by)).getResult();
  };
  QuantizedGroup group;
  Value range, centred = values;
  float lowest, highest;
  // Reductions that keep NaN: NaN and infinities spoil their group, and nothing else.
  if (format.getSymmetric()) {
    highest = static_cast<float>((1ll << (bits - 1)) - 1);
    lowest = -highest;
    range = reduce(vector::CombiningKind::MAXIMUMF, math::AbsFOp::create(b, values));
  } else {
    lowest = 0;
    highest = static_cast<float>((1ll << bits) - 1);
    Value low = reduce(vector::CombiningKind::MINIMUMF, values);
    range = arith::SubFOp::create(b, reduce(vector::CombiningKind::MAXIMUMF, values), low);
    group.zero = encodeFloat(b, low, format.getScale());
  }
  group.scale = encodeFloat(b, divide(range, highest), format.getScale());
  auto isFinite = [&](Value x) {
    Value size = math::AbsFOp::create(b, decodeFloat(b, x));
    Value infinity = splatFloat(b, b.getF32Type(), std::numeric_limits<float>::infinity());
    return arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, size, infinity).getResult();
  };
  Value nan = arith::ConstantOp::create(b, b.getFloatAttr(format.getScale(), std::nan("")));
  Value finite = isFinite(group.scale);
  if (group.zero) {
    finite = arith::AndIOp::create(b, finite, isFinite(group.zero));
    group.zero = arith::SelectOp::create(b, finite, group.zero, nan);
    Value zero = vector::BroadcastOp::create(b, type, decodeFloat(b, group.zero));
    centred = arith::SubFOp::create(b, values, zero);
  }
  group.scale = arith::SelectOp::create(b, finite, group.scale, nan);
  Value scale = decodeScale(b, group.scale);
  Value quotient = arith::DivFOp::create(b, centred, vector::BroadcastOp::create(b, type, scale));
  Value code = math::RoundEvenOp::create(b, quotient);
  // maxnum takes the bound for NaN, so that every code is a number.
  code = arith::MaxNumFOp::create(b, code, splatFloat(b, type, lowest));
  group.codes = arith::MinNumFOp::create(b, code, splatFloat(b, type, highest));
  return group;
}

Value kvc::decodeScale(ImplicitLocOpBuilder &b, Value scale) {
  Value value = decodeFloat(b, scale);
  return arith::MaximumFOp::create(b, value, splatFloat(b, value.getType(), smallestScale));
}

Value kvc::dequantize(ImplicitLocOpBuilder &b, Value codes, Value scale, Value zero) {
  Value value = arith::MulFOp::create(b, codes, scale);
  return zero ? arith::AddFOp::create(b, value, zero).getResult() : value;
}
