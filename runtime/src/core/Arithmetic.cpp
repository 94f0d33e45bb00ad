//===- Arithmetic.cpp - Operations of size expressions --------------------===//
#include "core/Arithmetic.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvc::rt {
namespace {

/// Floor and ceiling division; the divisor is not 0 and does not overflow.
int64_t floorDiv(int64_t a, int64_t b) {
  int64_t quotient = a / b;
  return a % b != 0 && ((a < 0) != (b < 0)) ? quotient - 1 : quotient;
}
int64_t ceilDiv(int64_t a, int64_t b) {
  int64_t quotient = a / b;
  return a % b != 0 && ((a < 0) == (b < 0)) ? quotient + 1 : quotient;
}

} // namespace

Result<int64_t> evaluateArithmetic(fb::ExprOp op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  switch (op) {
  case fb::ExprOp::add:
    overflow = __builtin_add_overflow(a, b, &result);
    break;
  case fb::ExprOp::sub:
    overflow = __builtin_sub_overflow(a, b, &result);
    break;
  case fb::ExprOp::mul:
    overflow = __builtin_mul_overflow(a, b, &result);
    break;
  case fb::ExprOp::ceildiv:
  case fb::ExprOp::floordiv:
    overflow = b == 0 || (a == INT64_MIN && b == -1);
    if (!overflow) {
      result = op == fb::ExprOp::ceildiv ? ceilDiv(a, b) : floorDiv(a, b);
    }
    break;
  case fb::ExprOp::min:
    result = std::min(a, b);
    break;
  default:
    result = std::max(a, b);
    break;
  }
  if (overflow) {
    return Status(StatusCode::outOfRange,
                  fmt::format("the size expression {}({}, {}) overflows", fb::EnumNameExprOp(op), a, b));
  }
  return result;
}

} // namespace kvc::rt
