//===- Ix.h - Index arithmetic of kernels, written as expressions *- C++ -*-===//
#ifndef KVC_LIB_CONVERSION_TILETOVECTOR_IX_H
#define KVC_LIB_CONVERSION_TILETOVECTOR_IX_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace kvc {

/// An index value that is never negative, so that the formulas of PageLayout.h emit code instead of computing. Folds
/// constants. Division rounds down.
class Ix {
public:
  Ix(mlir::ImplicitLocOpBuilder &b, mlir::Value value) : b(&b), value(value) {}
  Ix(mlir::ImplicitLocOpBuilder &b, int64_t value) : Ix(b, mlir::arith::ConstantIndexOp::create(b, value)) {}

  friend Ix operator+(Ix x, Ix y) { return make<mlir::arith::AddIOp>(x, y); }
  friend Ix operator*(Ix x, Ix y) { return make<mlir::arith::MulIOp>(x, y); }
  friend Ix operator+(Ix x, int64_t y) { return x + Ix(*x.b, y); }
  friend Ix operator*(Ix x, int64_t y) { return x * Ix(*x.b, y); }
  friend Ix operator/(Ix x, int64_t y) { return make<mlir::arith::DivUIOp>(x, Ix(*x.b, y)); }
  friend Ix operator%(Ix x, int64_t y) { return make<mlir::arith::RemUIOp>(x, Ix(*x.b, y)); }

  mlir::Value get() const { return value; }
  /// As an integer of `type`.
  mlir::Value as(mlir::Type type) const { return b->createOrFold<mlir::arith::IndexCastOp>(type, value); }

private:
  template <typename Op> static Ix make(Ix x, Ix y) { return {*x.b, x.b->createOrFold<Op>(x.value, y.value)}; }

  mlir::ImplicitLocOpBuilder *b;
  mlir::Value value;
};

} // namespace kvc

#endif // KVC_LIB_CONVERSION_TILETOVECTOR_IX_H
