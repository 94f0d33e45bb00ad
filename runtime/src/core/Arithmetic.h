//===- Arithmetic.h - Operations of size expressions ------------*- C++ -*-===//
#ifndef KVC_CORE_ARITHMETIC_H
#define KVC_CORE_ARITHMETIC_H

#include "artifact/Artifact.h"

namespace kvc::rt {

/// a op b for the operations of two numbers. outOfRange: it overflows, or divides by 0.
Result<int64_t> evaluateArithmetic(fb::ExprOp op, int64_t a, int64_t b);

} // namespace kvc::rt

#endif // KVC_CORE_ARITHMETIC_H
