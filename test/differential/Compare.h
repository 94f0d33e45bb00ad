//===- Compare.h - When a result equals the oracle's ------------*- C++ -*-===//
//
// Rules. Shapes are equal. Where the oracle has NaN, the result has NaN (any payload); where it has an infinity, the
// same infinity; elsewhere a finite number. Finite numbers are measured three ways against one row of the table.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_TEST_DIFFERENTIAL_COMPARE_H
#define KVC_TEST_DIFFERENTIAL_COMPARE_H

#include "Module.h"

#include "kvc/Reference/Datum.h"
#include "kvc/Target/Target.h"
#include "kvc_runtime.h"

namespace kvc::differential {

/// Largest errors. `relative` is that of an element against the larger of it and the tensor's root mean square;
/// `rms` is the root mean square of the errors against that of the tensor.
struct Errors {
  double relative = 0, absolute = 0, rms = 0;
  int64_t elements = 0;

  void merge(const Errors &other);
};

/// A row of the table of tolerances: what a stored format may do to a kind of result when sums are kept in f32.
struct Tolerance {
  llvm::StringLiteral result, storage;
  Errors bound;
};
llvm::ArrayRef<Tolerance> getTolerances();

/// The row for a result of a configuration on a target (null: a machine without matrix units).
const Tolerance &toleranceOf(const Config &config, ResultKind kind, const Target *target);

/// What is wrong with a result; empty when nothing is.
struct Comparison {
  std::string failure;
  Errors errors;
};
/// With `mayBeNan`, elements for which it holds (numbers in row-major order) may be NaN whatever is expected.
Comparison compare(const reference::Tensor &want, const kvc_tensor_t &got, const Tolerance &tolerance,
                   const std::function<bool(int64_t)> &mayBeNan = {});

} // namespace kvc::differential

#endif // KVC_TEST_DIFFERENTIAL_COMPARE_H
