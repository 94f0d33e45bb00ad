//===- Lengths.cpp - Lengths of caches for sequences that grow ------------===//
#include "core/Lengths.h"

#include "core/SizeClass.h"

#include <algorithm>
#include <vector>

namespace kvc::rt {
namespace {

/// Which expressions of a function follow the length of a cache.
class LengthUsers {
public:
  explicit LengthUsers(const fb::Function &function)
      : function(function), known(function.exprs() ? function.exprs()->size() : 0, Known::no) {}

  bool expr(int32_t node) {
    if (node < 0) {
      return false;
    }
    Known &state = known[size_t(node)];
    if (state == Known::no) {
      // A verified plan has no cycles; one would end here.
      state = Known::exact;
      state = follows(*function.exprs()->Get(uint32_t(node))) ? Known::length : Known::exact;
    }
    return state == Known::length;
  }

  bool shapeOf(size_t index) {
    const fb::Tensor *tensor = function.values()->Get(uint32_t(index))->type_as_Tensor();
    for (uint32_t axis = 0; tensor && tensor->dims() && axis < tensor->dims()->size(); ++axis) {
      if (tensor->dims()->Get(axis)->size() < 0 && expr(tensor->dims()->Get(axis)->expr())) {
        return true;
      }
    }
    return false;
  }

private:
  bool follows(const fb::Expr &node) {
    switch (node.op()) {
    case fb::ExprOp::max_length:
      return true;
    case fb::ExprOp::add:
    case fb::ExprOp::sub:
    case fb::ExprOp::mul:
    case fb::ExprOp::ceildiv:
    case fb::ExprOp::floordiv:
    case fb::ExprOp::min:
    case fb::ExprOp::max:
      return expr(node.a()) || expr(node.b());
    case fb::ExprOp::dim: {
      const fb::Tensor *tensor = function.values()->Get(uint32_t(node.a()))->type_as_Tensor();
      const fb::Dim &dim = *tensor->dims()->Get(uint32_t(node.b()));
      return dim.size() < 0 && expr(dim.expr());
    }
    case fb::ExprOp::scalar: {
      const fb::Scalar *scalar = function.values()->Get(uint32_t(node.a()))->type_as_Scalar();
      return scalar && expr(scalar->expr());
    }
    case fb::ExprOp::element:
      return expr(node.b());
    default:
      return false;
    }
  }

  enum class Known : uint8_t { no, exact, length };
  const fb::Function &function;
  std::vector<Known> known;
};

} // namespace

int64_t roundUpLength(int64_t length, int64_t most) {
  const auto rounded = int64_t(sizeClass(uint64_t(std::max<int64_t>(length, 0)), 1024));
  return std::max(length, std::min(rounded, most));
}

bool mayRoundLengths(const fb::Function &function) {
  LengthUsers users(function);
  for (uint32_t i = 0; function.results() && i < function.results()->size(); ++i) {
    const size_t index = function.results()->Get(i)->value();
    const fb::Scalar *scalar = function.values()->Get(uint32_t(index))->type_as_Scalar();
    if (users.shapeOf(index) || (scalar && users.expr(scalar->expr()))) {
      return false;
    }
  }
  for (uint32_t i = 0; function.checks() && i < function.checks()->size(); ++i) {
    const fb::Check &check = *function.checks()->Get(i);
    if (users.expr(int32_t(check.left())) || users.expr(int32_t(check.right()))) {
      return false;
    }
  }
  // Shapes of arguments are checked against their expressions.
  for (uint32_t i = 0; function.arguments() && i < function.arguments()->size(); ++i) {
    if (users.shapeOf(function.arguments()->Get(i)->value())) {
      return false;
    }
  }
  for (uint32_t i = 0; function.steps() && i < function.steps()->size(); ++i) {
    const fb::Reserve *reserve = function.steps()->Get(i)->action_as_Reserve();
    if (reserve && reserve->mode() == fb::ReserveMode::lengths && users.expr(reserve->limit())) {
      return false;
    }
  }
  return true;
}

} // namespace kvc::rt
