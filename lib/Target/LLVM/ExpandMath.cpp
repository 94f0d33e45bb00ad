//===- ExpandMath.cpp - Elementary functions as arithmetic ----------------===//
//
// One table of operations; each expansion works on scalars and vectors alike.
// f32 exp and exp2 are polynomials in f32, everything else is computed in f64.
//
//===----------------------------------------------------------------------===//
#include "kvc/Target/LLVM/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/TypeUtilities.h"

#include <cmath>
#include <limits>

namespace kvc {
#define GEN_PASS_DEF_EXPANDMATHPASS
#include "kvc/Target/LLVM/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double log2e = 0x1.71547652b82fep+0, log2eLow = 0x1.777d0ffda0d24p-56;
constexpr double ln2High = 0x1.62e42fefa39efp-1, ln2Low = 0x1.abc9e3b39803fp-56;

/// Arithmetic on values of one shape. Constants take the type of their first operand.
class Emitter {
public:
  explicit Emitter(ImplicitLocOpBuilder &b) : b(b) {}

  static Type withElement(Type type, Type element) {
    auto vector = dyn_cast<VectorType>(type);
    return vector ? Type(vector.clone(element)) : element;
  }
  static bool isF32(Value x) { return getElementTypeOrSelf(x).isF32(); }
  Value constant(Type type, double value) {
    return splat(type, FloatAttr::get(cast<FloatType>(getElementTypeOrSelf(type)), value));
  }
  Value integer(Type type, int64_t value) { return splat(type, IntegerAttr::get(getElementTypeOrSelf(type), value)); }
  Value c(Value like, double value) { return constant(like.getType(), value); }
  Value ci(Value like, int64_t value) { return integer(like.getType(), value); }

  Value add(Value x, Value y) { return arith::AddFOp::create(b, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, x, y); }
  Value div(Value x, Value y) { return arith::DivFOp::create(b, x, y); }
  Value neg(Value x) { return arith::NegFOp::create(b, x); }
  Value abs(Value x) { return math::AbsFOp::create(b, x); }
  Value fma(Value x, Value y, Value z) { return math::FmaOp::create(b, x, y, z); }
  Value iadd(Value x, Value y) { return arith::AddIOp::create(b, x, y); }
  Value isub(Value x, Value y) { return arith::SubIOp::create(b, x, y); }
  Value iand(Value x, int64_t y) { return arith::AndIOp::create(b, x, ci(x, y)); }
  Value ior(Value x, Value y) { return arith::OrIOp::create(b, x, y); }
  Value shl(Value x, int64_t n) { return arith::ShLIOp::create(b, x, ci(x, n)); }
  Value shr(Value x, int64_t n) { return arith::ShRSIOp::create(b, x, ci(x, n)); }
  Value select(Value p, Value x, Value y) { return arith::SelectOp::create(b, p, x, y); }
  Value less(Value x, Value y) { return arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, x, y); }
  Value equal(Value x, Value y) { return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, x, y); }
  Value isEqual(Value x, int64_t y) { return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, x, ci(x, y)); }
  Value both(Value p, Value q) { return arith::AndIOp::create(b, p, q); }

  Value bits(Value x) {
    Type integer = b.getIntegerType(getElementTypeOrSelf(x).getIntOrFloatBitWidth());
    return arith::BitcastOp::create(b, withElement(x.getType(), integer), x);
  }
  Value asFloat(Value x) {
    Type element = getElementTypeOrSelf(x).isInteger(32) ? Type(b.getF32Type()) : Type(b.getF64Type());
    return arith::BitcastOp::create(b, withElement(x.getType(), element), x);
  }
  Value extend(Value x, FloatType element) {
    return getElementTypeOrSelf(x) == element ? x
                                              : Value(arith::ExtFOp::create(b, withElement(x.getType(), element), x));
  }
  Value truncate(Value x, Type type) { return x.getType() == type ? x : Value(arith::TruncFOp::create(b, type, x)); }

  /// coefficients[0] + x * (coefficients[1] + x * ...)
  Value polynomial(Value x, ArrayRef<double> coefficients) {
    Value sum = c(x, coefficients.back());
    for (double coefficient : llvm::reverse(coefficients.drop_back())) {
      sum = fma(sum, x, c(x, coefficient));
    }
    return sum;
  }

  /// The integer nearest to x, as a float and as an integer. |x| < 2^22 (f32), 2^51 (f64); no NaN becomes poison.
  std::pair<Value, Value> round(Value x) {
    // Adding 1.5 * 2^mantissa leaves the integer in the low bits.
    Value magic = c(x, isF32(x) ? 0x1.8p23 : 0x1.8p52);
    Value shifted = add(x, magic);
    return {sub(shifted, magic), isub(bits(shifted), bits(magic))};
  }

  /// x * 2^n, also where 2^n or the result is not a normal number.
  Value scale(Value x, Value n) {
    bool single = isF32(x);
    Value half = shr(n, 1);
    auto power = [&](Value n) { return asFloat(shl(iadd(n, ci(n, single ? 127 : 1023)), single ? 23 : 52)); };
    return mul(mul(x, power(half)), power(isub(n, half)));
  }

private:
  Value splat(Type type, TypedAttr element) {
    auto vector = dyn_cast<VectorType>(type);
    return arith::ConstantOp::create(b,
                                     vector ? TypedAttr(DenseElementsAttr::get(vector, Attribute(element))) : element);
  }
  ImplicitLocOpBuilder &b;
};

// exp(x) for |x| <= ln(2)/2 and 2^x for |x| <= 1/2: interpolation at Chebyshev nodes, relative error 2e-9.
constexpr double exp32[] = {1.0,
                            1.0000000377334783,
                            0.5000000047139321,
                            0.16666415437987242,
                            0.04166635280102047,
                            0.008375132781144013,
                            0.0013941116406063054};
constexpr double exp232[] = {1.0,
                             0.6931472067342503,
                             0.2402265092256076,
                             0.05550327159647605,
                             0.00961805662050108,
                             0.0013400454984126323,
                             0.0001546146790528599};

/// Series of exp to degree 13, of atanh(s)/s in s^2, of sin(x)/x and cos(x) in x^2.
SmallVector<double> expSeries() {
  SmallVector<double> series{1.0};
  for (int k = 1; k <= 13; ++k) {
    series.push_back(series.back() / k);
  }
  return series;
}
SmallVector<double> atanhSeries() {
  SmallVector<double> series;
  for (int k = 0; k <= 11; ++k) {
    series.push_back(1.0 / (2 * k + 1));
  }
  return series;
}
SmallVector<double> sinSeries() {
  SmallVector<double> series{1.0};
  for (int k = 1; k <= 8; ++k) {
    series.push_back(-series.back() / ((2 * k) * (2 * k + 1)));
  }
  return series;
}
SmallVector<double> cosSeries() {
  SmallVector<double> series{1.0};
  for (int k = 1; k <= 8; ++k) {
    series.push_back(-series.back() / ((2 * k - 1) * (2 * k)));
  }
  return series;
}

// Bounds beyond which the result is 0 or infinite; a NaN compares false and stays.
Value clamp(Emitter &e, Value x, double low, double high) {
  x = e.select(e.less(x, e.c(x, low)), e.c(x, low), x);
  return e.select(e.less(e.c(x, high), x), e.c(x, high), x);
}

Value expandExp2(Emitter &e, Value x) {
  bool single = Emitter::isF32(x);
  x = clamp(e, x, single ? -152 : -1080, single ? 129 : 1025);
  auto [n, integer] = e.round(x);
  Value f = e.sub(x, n);
  Value p = single ? e.polynomial(f, exp232) : e.polynomial(e.mul(f, e.c(f, ln2High)), expSeries());
  return e.scale(p, integer);
}

Value expandExp(Emitter &e, Value x) {
  bool single = Emitter::isF32(x);
  x = clamp(e, x, single ? -105 : -748, single ? 89.5 : 710.5);
  auto [n, integer] = e.round(e.mul(x, e.c(x, log2e)));
  // The high part has few bits, so that its product with n is exact.
  Value r = e.fma(n, e.c(n, single ? -0x1.62e4p-1 : -ln2High), x);
  r = e.fma(n, e.c(n, single ? -0x1.7f7d1cp-20 : -ln2Low), r);
  Value p = single ? e.polynomial(r, exp32) : e.polynomial(r, expSeries());
  return e.scale(p, integer);
}

/// log2(x) = exponent + correction of an f64 as two numbers whose sum it is; special values are in the second.
Value expandLog64(Emitter &e, Value x, bool base2) {
  Value tiny = e.less(x, e.c(x, 0x1p-1022));
  Value scaled = e.select(tiny, e.mul(x, e.c(x, 0x1p54)), x);
  Value raw = e.bits(scaled);
  // Take sqrt(1/2) as the lower end of the mantissa's range.
  Value shifted = e.isub(raw, e.ci(raw, 0x3fe6a09e667f3bcdll));
  Value exponent = e.shr(shifted, 52);
  Value m = e.asFloat(e.isub(raw, e.shl(exponent, 52)));
  // The exponent fits the low bits of 1.5 * 2^52.
  Value magic = e.c(x, 0x1.8p52);
  Value number = e.sub(e.asFloat(e.iadd(e.bits(magic), exponent)), magic);
  number = e.select(tiny, e.sub(number, e.c(x, 54)), number);
  // log(m) = 2 atanh(s), s = (m - 1) / (m + 1)
  Value s = e.div(e.sub(m, e.c(m, 1)), e.add(m, e.c(m, 1)));
  Value log = e.mul(e.add(s, s), e.polynomial(e.mul(s, s), atanhSeries()));
  Value result = base2 ? e.fma(log, e.c(x, log2e), e.fma(log, e.c(x, log2eLow), number))
                       : e.fma(number, e.c(x, ln2High), e.fma(number, e.c(x, ln2Low), log));
  Value zero = e.c(x, 0);
  result = e.select(e.equal(x, zero), e.c(x, -inf), result);
  result = e.select(e.less(x, zero), e.c(x, std::numeric_limits<double>::quiet_NaN()), result);
  result = e.select(e.equal(x, e.c(x, inf)), x, result);
  return e.select(e.equal(x, x), result, x);
}
Value expandLog(Emitter &e, Value x) { return expandLog64(e, x, false); }
Value expandLog2(Emitter &e, Value x) { return expandLog64(e, x, true); }

Value expandTanh64(Emitter &e, Value x) {
  Value magnitude = e.abs(x);
  // 1 - 2 / (exp(2|x|) + 1), and near zero, where that cancels, the series.
  Value power = expandExp(e, e.mul(magnitude, e.c(x, 2)));
  Value large = e.sub(e.c(x, 1), e.div(e.c(x, 2), e.add(power, e.c(x, 1))));
  Value small = e.mul(magnitude,
                      e.polynomial(e.mul(x, x), {1.0, -1.0 / 3, 2.0 / 15, -17.0 / 315, 62.0 / 2835, -1382.0 / 155925}));
  Value result = e.select(e.less(magnitude, e.c(x, 0.04)), small, large);
  return e.select(e.less(x, e.c(x, 0)), e.neg(result), e.select(e.equal(x, e.c(x, 0)), x, result));
}

Value expandSinCos64(Emitter &e, Value x, int64_t quarter) {
  auto [n, integer] = e.round(e.mul(x, e.c(x, 0x1.45f306dc9c883p-1)));
  // pi/2 in three parts.
  Value r = e.fma(n, e.c(n, -0x1.921fb54442d18p+0), x);
  r = e.fma(n, e.c(n, -0x1.1a62633145c07p-54), r);
  r = e.fma(n, e.c(n, 0x1.f1976b7ed8fbcp-110), r);
  Value square = e.mul(r, r);
  Value sine = e.mul(r, e.polynomial(square, sinSeries()));
  Value cosine = e.polynomial(square, cosSeries());
  Value quadrant = e.iadd(integer, e.ci(integer, quarter));
  Value result = e.select(e.isEqual(e.iand(quadrant, 1), 0), sine, cosine);
  result = e.select(e.isEqual(e.iand(quadrant, 2), 0), result, e.neg(result));
  // sin(-0) = -0
  return quarter == 0 ? e.select(e.equal(x, e.c(x, 0)), x, result) : result;
}
Value expandSin(Emitter &e, Value x) { return expandSinCos64(e, x, 0); }
Value expandCos(Emitter &e, Value x) { return expandSinCos64(e, x, 1); }

Value expandPow64(Emitter &e, Value x, Value y, ImplicitLocOpBuilder &b) {
  Value zero = e.c(x, 0), one = e.c(x, 1);
  Value power = expandExp2(e, e.mul(y, expandLog64(e, e.abs(x), true)));
  Value whole = e.equal(math::TruncOp::create(b, y), y);
  Value half = e.mul(y, e.c(y, 0.5));
  Value odd = arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, math::TruncOp::create(b, half), half);
  Value negative =
      e.select(whole, e.select(odd, e.neg(power), power), e.c(x, std::numeric_limits<double>::quiet_NaN()));
  Value result = e.select(e.less(x, zero), negative, power);
  result = e.select(e.equal(y, zero), one, result);
  return e.select(e.equal(x, one), one, result);
}

Value expandRsqrt(Emitter &e, Value x, ImplicitLocOpBuilder &b) { return e.div(e.c(x, 1), math::SqrtOp::create(b, x)); }

/// Runs `expand` on operands of at least f32, or of f64, and rounds the result.
Value widened(Operation *op, ImplicitLocOpBuilder &b, bool inDouble,
              llvm::function_ref<Value(ArrayRef<Value>)> expand) {
  Emitter e(b);
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    FloatType wide = inDouble || getElementTypeOrSelf(operand).isF64() ? FloatType(b.getF64Type()) : b.getF32Type();
    operands.push_back(e.extend(operand, wide));
  }
  return e.truncate(expand(operands), op->getResult(0).getType());
}

template <typename Op, Value (*expand)(Emitter &, Value), bool inDouble> bool tryUnary(Operation *op) {
  if (!isa<Op>(op)) {
    return false;
  }
  ImplicitLocOpBuilder b(op->getLoc(), op);
  Emitter e(b);
  op->getResult(0).replaceAllUsesWith(widened(op, b, inDouble, [&](ArrayRef<Value> x) { return expand(e, x[0]); }));
  op->erase();
  return true;
}

bool tryPow(Operation *op) {
  if (!isa<math::PowFOp>(op)) {
    return false;
  }
  ImplicitLocOpBuilder b(op->getLoc(), op);
  Emitter e(b);
  op->getResult(0).replaceAllUsesWith(
      widened(op, b, /*inDouble=*/true, [&](ArrayRef<Value> x) { return expandPow64(e, x[0], x[1], b); }));
  op->erase();
  return true;
}

bool tryRsqrt(Operation *op) {
  if (!isa<math::RsqrtOp>(op)) {
    return false;
  }
  ImplicitLocOpBuilder b(op->getLoc(), op);
  Emitter e(b);
  op->getResult(0).replaceAllUsesWith(
      widened(op, b, /*inDouble=*/false, [&](ArrayRef<Value> x) { return expandRsqrt(e, x[0], b); }));
  op->erase();
  return true;
}

constexpr bool (*expansions[])(Operation *) = {
    tryUnary<math::ExpOp, expandExp, false>,
    tryUnary<math::Exp2Op, expandExp2, false>,
    tryUnary<math::LogOp, expandLog, true>,
    tryUnary<math::Log2Op, expandLog2, true>,
    tryUnary<math::TanhOp, expandTanh64, true>,
    tryUnary<math::SinOp, expandSin, true>,
    tryUnary<math::CosOp, expandCos, true>,
    tryPow,
    tryRsqrt,
};

/// What the machine does itself.
bool isNative(Operation *op) {
  return isa<math::AbsFOp, math::AbsIOp, math::CeilOp, math::CopySignOp, math::CountLeadingZerosOp,
             math::CountTrailingZerosOp, math::CtPopOp, math::FloorOp, math::FmaOp, math::RoundEvenOp, math::SqrtOp,
             math::TruncOp, math::IsNaNOp, math::IsInfOp, math::IsFiniteOp>(op);
}

struct ExpandMathPass : kvc::impl::ExpandMathPassBase<ExpandMathPass> {
  void runOnOperation() override {
    SmallVector<Operation *> ops;
    getOperation().walk([&](Operation *op) {
      if (isa_and_nonnull<math::MathDialect>(op->getDialect())) {
        ops.push_back(op);
      }
    });
    for (Operation *op : ops) {
      if (llvm::any_of(expansions, [&](auto expand) { return expand(op); }) || isNative(op)) {
        continue;
      }
      op->emitOpError() << "has no expansion for CPUs";
      return signalPassFailure();
    }
  }
};
} // namespace
