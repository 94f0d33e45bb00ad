//===- Arith.cpp - arith and math in the oracle ---------------------------===//
//
// Scalars are doubles and 64-bit integers. i1 is held as 0 or 1, wider integers are sign extended.
//
//===----------------------------------------------------------------------===//
#include "Internal.h"
#include "kvc/Reference/Formats.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/MathExtras.h"
#include <bit>
#include <cmath>
#include <limits>

using namespace mlir;
using namespace kvc;
using namespace kvc::reference;

double reference::narrowFloat(Type type, double value) {
  return type.isF32() || type.isF64() ? value : roundTo(type, value);
}

static unsigned widthOf(Type type) { return isa<IndexType>(type) ? 64 : type.getIntOrFloatBitWidth(); }

int64_t reference::narrowInt(Type type, int64_t value) {
  unsigned width = widthOf(type);
  if (width == 1) {
    return value & 1;
  }
  return width >= 64 ? value : llvm::SignExtend64(value, width);
}

/// The value read as unsigned.
static uint64_t unsignedOf(Type type, int64_t value) {
  unsigned width = widthOf(type);
  return width >= 64 ? value : static_cast<uint64_t>(value) & llvm::maskTrailingOnes<uint64_t>(width);
}

namespace {
using Float1 = double (*)(double);
using Float2 = double (*)(double, double);
/// Integer operations see operands as held, and as unsigned.
struct Int {
  int64_t value;
  uint64_t bits;
};
using Int2 = int64_t (*)(Int, Int);

/// How a divisor of 0 or an overflow is refused.
bool divides(Int a, Int b) {
  return b.value != 0 && !(a.value == std::numeric_limits<int64_t>::min() && b.value == -1);
}
} // namespace

template <typename Op> static TypeID id() { return TypeID::get<Op>(); }

static double maximum(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? std::numeric_limits<double>::quiet_NaN() : std::fmax(a, b);
}
static double minimum(double a, double b) { return -maximum(-a, -b); }

static Float1 float1(TypeID op) {
  static const llvm::DenseMap<TypeID, Float1> table = {
      {id<arith::NegFOp>(), [](double a) { return -a; }},
      {id<math::AbsFOp>(), [](double a) { return std::abs(a); }},
      {id<math::AcosOp>(), [](double a) { return std::acos(a); }},
      {id<math::AsinOp>(), [](double a) { return std::asin(a); }},
      {id<math::AtanOp>(), [](double a) { return std::atan(a); }},
      {id<math::CbrtOp>(), [](double a) { return std::cbrt(a); }},
      {id<math::CeilOp>(), [](double a) { return std::ceil(a); }},
      {id<math::CosOp>(), [](double a) { return std::cos(a); }},
      {id<math::CoshOp>(), [](double a) { return std::cosh(a); }},
      {id<math::ErfOp>(), [](double a) { return std::erf(a); }},
      {id<math::ErfcOp>(), [](double a) { return std::erfc(a); }},
      {id<math::ExpOp>(), [](double a) { return std::exp(a); }},
      {id<math::Exp2Op>(), [](double a) { return std::exp2(a); }},
      {id<math::ExpM1Op>(), [](double a) { return std::expm1(a); }},
      {id<math::FloorOp>(), [](double a) { return std::floor(a); }},
      {id<math::LogOp>(), [](double a) { return std::log(a); }},
      {id<math::Log10Op>(), [](double a) { return std::log10(a); }},
      {id<math::Log1pOp>(), [](double a) { return std::log1p(a); }},
      {id<math::Log2Op>(), [](double a) { return std::log2(a); }},
      {id<math::RoundOp>(), [](double a) { return std::round(a); }},
      {id<math::RoundEvenOp>(), [](double a) { return std::nearbyint(a); }},
      {id<math::RsqrtOp>(), [](double a) { return 1.0 / std::sqrt(a); }},
      {id<math::SinOp>(), [](double a) { return std::sin(a); }},
      {id<math::SinhOp>(), [](double a) { return std::sinh(a); }},
      {id<math::SqrtOp>(), [](double a) { return std::sqrt(a); }},
      {id<math::TanOp>(), [](double a) { return std::tan(a); }},
      {id<math::TanhOp>(), [](double a) { return std::tanh(a); }},
      {id<math::TruncOp>(), [](double a) { return std::trunc(a); }},
  };
  return table.lookup(op);
}

static Float2 float2(TypeID op) {
  static const llvm::DenseMap<TypeID, Float2> table = {
      {id<arith::AddFOp>(), [](double a, double b) { return a + b; }},
      {id<arith::SubFOp>(), [](double a, double b) { return a - b; }},
      {id<arith::MulFOp>(), [](double a, double b) { return a * b; }},
      {id<arith::DivFOp>(), [](double a, double b) { return a / b; }},
      {id<arith::RemFOp>(), [](double a, double b) { return std::fmod(a, b); }},
      {id<arith::MaximumFOp>(), maximum},
      {id<arith::MinimumFOp>(), minimum},
      {id<arith::MaxNumFOp>(), [](double a, double b) { return std::fmax(a, b); }},
      {id<arith::MinNumFOp>(), [](double a, double b) { return std::fmin(a, b); }},
      {id<math::Atan2Op>(), [](double a, double b) { return std::atan2(a, b); }},
      {id<math::CopySignOp>(), [](double a, double b) { return std::copysign(a, b); }},
      {id<math::PowFOp>(), [](double a, double b) { return std::pow(a, b); }},
  };
  return table.lookup(op);
}

static Int2 int2(TypeID op) {
  // Sums and products wrap, so they are made of the unsigned words.
  static const llvm::DenseMap<TypeID, Int2> table = {
      {id<arith::AddIOp>(), [](Int a, Int b) -> int64_t { return a.bits + b.bits; }},
      {id<arith::SubIOp>(), [](Int a, Int b) -> int64_t { return a.bits - b.bits; }},
      {id<arith::MulIOp>(), [](Int a, Int b) -> int64_t { return a.bits * b.bits; }},
      {id<arith::AndIOp>(), [](Int a, Int b) -> int64_t { return a.value & b.value; }},
      {id<arith::OrIOp>(), [](Int a, Int b) -> int64_t { return a.value | b.value; }},
      {id<arith::XOrIOp>(), [](Int a, Int b) -> int64_t { return a.value ^ b.value; }},
      {id<arith::MaxSIOp>(), [](Int a, Int b) -> int64_t { return std::max(a.value, b.value); }},
      {id<arith::MinSIOp>(), [](Int a, Int b) -> int64_t { return std::min(a.value, b.value); }},
      {id<arith::MaxUIOp>(), [](Int a, Int b) -> int64_t { return std::max(a.bits, b.bits); }},
      {id<arith::MinUIOp>(), [](Int a, Int b) -> int64_t { return std::min(a.bits, b.bits); }},
      {id<arith::ShLIOp>(), [](Int a, Int b) -> int64_t { return a.bits << b.bits; }},
      {id<arith::ShRUIOp>(), [](Int a, Int b) -> int64_t { return a.bits >> b.bits; }},
      {id<arith::ShRSIOp>(), [](Int a, Int b) -> int64_t { return a.value >> b.bits; }},
  };
  return table.lookup(op);
}

/// Divisions: defined only where `divides` holds.
static Int2 division(TypeID op) {
  static const llvm::DenseMap<TypeID, Int2> table = {
      {id<arith::DivSIOp>(), [](Int a, Int b) -> int64_t { return a.value / b.value; }},
      {id<arith::DivUIOp>(), [](Int a, Int b) -> int64_t { return a.bits / b.bits; }},
      {id<arith::RemSIOp>(), [](Int a, Int b) -> int64_t { return a.value % b.value; }},
      {id<arith::RemUIOp>(), [](Int a, Int b) -> int64_t { return a.bits % b.bits; }},
      {id<arith::CeilDivSIOp>(), [](Int a, Int b) { return llvm::divideCeilSigned(a.value, b.value); }},
      {id<arith::CeilDivUIOp>(), [](Int a, Int b) -> int64_t { return a.bits / b.bits + (a.bits % b.bits != 0); }},
      {id<arith::FloorDivSIOp>(), [](Int a, Int b) { return llvm::divideFloorSigned(a.value, b.value); }},
  };
  return table.lookup(op);
}

static bool compareInts(arith::CmpIPredicate predicate, Int a, Int b) {
  switch (predicate) {
  case arith::CmpIPredicate::eq:
    return a.value == b.value;
  case arith::CmpIPredicate::ne:
    return a.value != b.value;
  case arith::CmpIPredicate::slt:
    return a.value < b.value;
  case arith::CmpIPredicate::sle:
    return a.value <= b.value;
  case arith::CmpIPredicate::sgt:
    return a.value > b.value;
  case arith::CmpIPredicate::sge:
    return a.value >= b.value;
  case arith::CmpIPredicate::ult:
    return a.bits < b.bits;
  case arith::CmpIPredicate::ule:
    return a.bits <= b.bits;
  case arith::CmpIPredicate::ugt:
    return a.bits > b.bits;
  case arith::CmpIPredicate::uge:
    return a.bits >= b.bits;
  }
  llvm_unreachable("all predicates are handled");
}

static bool compareFloats(arith::CmpFPredicate predicate, double a, double b) {
  const bool unordered = std::isnan(a) || std::isnan(b);
  switch (predicate) {
  case arith::CmpFPredicate::AlwaysFalse:
    return false;
  case arith::CmpFPredicate::AlwaysTrue:
    return true;
  case arith::CmpFPredicate::ORD:
    return !unordered;
  case arith::CmpFPredicate::UNO:
    return unordered;
  case arith::CmpFPredicate::OEQ:
    return a == b;
  case arith::CmpFPredicate::UEQ:
    return unordered || a == b;
  case arith::CmpFPredicate::ONE:
    return !unordered && a != b;
  case arith::CmpFPredicate::UNE:
    return unordered || a != b;
  case arith::CmpFPredicate::OGT:
    return a > b;
  case arith::CmpFPredicate::UGT:
    return unordered || a > b;
  case arith::CmpFPredicate::OGE:
    return a >= b;
  case arith::CmpFPredicate::UGE:
    return unordered || a >= b;
  case arith::CmpFPredicate::OLT:
    return a < b;
  case arith::CmpFPredicate::ULT:
    return unordered || a < b;
  case arith::CmpFPredicate::OLE:
    return a <= b;
  case arith::CmpFPredicate::ULE:
    return unordered || a <= b;
  }
  llvm_unreachable("all predicates are handled");
}

/// A float as an integer of that type: toward zero; out of range is refused.
static LogicalResult floatToInt(Operation *op, double value, bool isSigned, Type to, Datum &result) {
  const unsigned width = widthOf(to);
  const double low = isSigned ? -std::ldexp(1.0, width - 1) : 0.0;
  const double high = std::ldexp(1.0, isSigned ? width - 1 : width);
  const double whole = std::trunc(value);
  if (!(whole >= low && whole < high)) {
    return op->emitOpError() << "expects a value inside the range of " << to << ", but got " << value;
  }
  int64_t bits = isSigned ? static_cast<int64_t>(whole) : static_cast<int64_t>(static_cast<uint64_t>(whole));
  result = narrowInt(to, bits);
  return success();
}

/// Evaluates one scalar; `from` and `to` are the element types of the first operand and of the result.
static LogicalResult evalScalar(Operation *op, Type from, Type to, Operands x, Datum &result) {
  const TypeID name = op->getName().getTypeID();
  auto isOp = [&](auto... names) { return ((name == names) || ...); };
  auto asInt = [&](unsigned i) { return Int{x[i].asInt(), unsignedOf(from, x[i].asInt())}; };

  if (Float2 f = float2(name)) {
    result = narrowFloat(to, f(x[0].asFloat(), x[1].asFloat()));
    return success();
  }
  if (Float1 f = float1(name)) {
    result = narrowFloat(to, f(x[0].asFloat()));
    return success();
  }
  if (Int2 f = int2(name)) {
    if (isOp(id<arith::ShLIOp>(), id<arith::ShRSIOp>(), id<arith::ShRUIOp>()) && asInt(1).bits >= widthOf(from)) {
      return op->emitOpError() << "expects a shift below the width of " << from << ", but got " << x[1].asInt();
    }
    result = narrowInt(to, f(asInt(0), asInt(1)));
    return success();
  }
  if (Int2 f = division(name)) {
    if (!divides(asInt(0), asInt(1))) {
      return op->emitOpError() << "expects a division whose result exists, but got " << x[0].asInt() << " by "
                               << x[1].asInt();
    }
    result = narrowInt(to, f(asInt(0), asInt(1)));
    return success();
  }
  if (auto compare = dyn_cast<arith::CmpIOp>(op)) {
    result = int64_t(compareInts(compare.getPredicate(), asInt(0), asInt(1)));
    return success();
  }
  if (auto compare = dyn_cast<arith::CmpFOp>(op)) {
    result = int64_t(compareFloats(compare.getPredicate(), x[0].asFloat(), x[1].asFloat()));
    return success();
  }
  if (isOp(id<arith::SelectOp>())) {
    result = x[0].asInt() ? x[1] : x[2];
    return success();
  }
  if (isOp(id<arith::ExtFOp>(), id<arith::TruncFOp>())) {
    result = narrowFloat(to, x[0].asFloat());
    return success();
  }
  if (isOp(id<arith::ExtSIOp>(), id<arith::IndexCastOp>(), id<arith::SIToFPOp>())) {
    // i1 is held as 0 or 1; its signed value is 0 or -1.
    int64_t value = from.isInteger(1) ? -x[0].asInt() : x[0].asInt();
    result = isa<FloatType>(to) ? Datum(narrowFloat(to, static_cast<double>(value))) : Datum(narrowInt(to, value));
    return success();
  }
  if (isOp(id<arith::ExtUIOp>(), id<arith::IndexCastUIOp>(), id<arith::UIToFPOp>(), id<arith::TruncIOp>())) {
    uint64_t value = unsignedOf(from, x[0].asInt());
    result = isa<FloatType>(to) ? Datum(narrowFloat(to, static_cast<double>(value))) : Datum(narrowInt(to, value));
    return success();
  }
  if (isOp(id<arith::FPToSIOp>(), id<arith::FPToUIOp>())) {
    return floatToInt(op, x[0].asFloat(), isOp(id<arith::FPToSIOp>()), to, result);
  }
  if (isOp(id<math::FmaOp>())) {
    result = narrowFloat(to, std::fma(x[0].asFloat(), x[1].asFloat(), x[2].asFloat()));
    return success();
  }
  if (isOp(id<math::FPowIOp>())) {
    result = narrowFloat(to, std::pow(x[0].asFloat(), static_cast<double>(x[1].asInt())));
    return success();
  }
  if (isOp(id<math::AbsIOp>())) {
    result = narrowInt(to, x[0].asInt() < 0 ? int64_t(-static_cast<uint64_t>(x[0].asInt())) : x[0].asInt());
    return success();
  }
  if (isOp(id<math::IsNaNOp>(), id<math::IsInfOp>(), id<math::IsFiniteOp>())) {
    double value = x[0].asFloat();
    result = int64_t(isOp(id<math::IsNaNOp>())   ? std::isnan(value)
                     : isOp(id<math::IsInfOp>()) ? std::isinf(value)
                                                 : std::isfinite(value));
    return success();
  }
  if (isOp(id<arith::BitcastOp>()) && from.isF32() && to.isInteger(32)) {
    result = int64_t(std::bit_cast<int32_t>(static_cast<float>(x[0].asFloat())));
    return success();
  }
  if (isOp(id<arith::BitcastOp>()) && from.isInteger(32) && to.isF32()) {
    result = double(std::bit_cast<float>(static_cast<int32_t>(x[0].asInt())));
    return success();
  }
  return unknownOperation(op);
}

static LogicalResult evalConstant(arith::ConstantOp op, Results &results) {
  Attribute value = op.getValue();
  if (auto real = dyn_cast<FloatAttr>(value)) {
    results.push_back(real.getValueAsDouble());
    return success();
  }
  if (auto integer = dyn_cast<IntegerAttr>(value)) {
    results.push_back(narrowInt(integer.getType(), integer.getValue().sextOrTrunc(64).getSExtValue()));
    return success();
  }
  auto dense = dyn_cast<DenseElementsAttr>(value);
  if (!dense) {
    return op.emitOpError() << "expects a scalar or dense constant, but got " << value;
  }
  Type element = dense.getElementType();
  if (isa<FloatType>(element)) {
    std::vector<double> values;
    for (const APFloat &x : dense.getValues<APFloat>()) {
      values.push_back(FloatAttr::get(element, x).getValueAsDouble());
    }
    results.push_back(Tensor::ofFloats(dense.getType().getShape(), std::move(values)));
    return success();
  }
  if (!element.isIntOrIndex()) {
    return op.emitOpError() << "expects a constant of floats or integers, but got " << element;
  }
  std::vector<int64_t> values;
  for (const APInt &x : dense.getValues<APInt>()) {
    values.push_back(narrowInt(element, x.sextOrTrunc(64).getSExtValue()));
  }
  results.push_back(Tensor::ofInts(dense.getType().getShape(), std::move(values)));
  return success();
}

LogicalResult reference::evalArith(Operation *op, Operands operands, Results &results) {
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    return evalConstant(constant, results);
  }
  if (op->getNumResults() != 1 || op->getNumOperands() == 0) {
    return unknownOperation(op);
  }
  // The type of the values an operation compares or converts; of a select, that of its condition does not matter.
  Type from = getElementTypeOrSelf(op->getOperand(0).getType());
  Type to = getElementTypeOrSelf(op->getResult(0).getType());
  if (!isa<RankedTensorType>(op->getResult(0).getType())) {
    if (!from.isIntOrIndexOrFloat() || !to.isIntOrIndexOrFloat()) {
      return unknownOperation(op);
    }
    return evalScalar(op, from, to, operands, results.emplace_back());
  }

  // Element-wise over tensors; a scalar operand (the condition of a select) goes with every element.
  const Tensor *shaped = nullptr;
  for (const Datum &operand : operands) {
    if (operand.isTensor()) {
      if (shaped && operand.asTensor().shape != shaped->shape) {
        return op->emitOpError() << "expects operands of equal shapes, but got [" << ArrayRef(shaped->shape)
                                 << "] and [" << ArrayRef(operand.asTensor().shape) << "]";
      }
      shaped = &operand.asTensor();
    }
  }
  if (!shaped) {
    return unknownOperation(op);
  }
  Tensor out = uninitialised(shaped->shape, to);
  SmallVector<Datum> elements(operands.size());
  for (int64_t i = 0; i < out.size(); ++i) {
    for (auto [element, operand] : llvm::zip(elements, operands)) {
      element = operand.isTensor() ? elementOf(operand.asTensor(), i) : operand;
    }
    Datum element;
    if (failed(evalScalar(op, from, to, elements, element))) {
      return failure();
    }
    setElement(out, i, element);
  }
  results.push_back(std::move(out));
  return success();
}
