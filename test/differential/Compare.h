//===- Compare.h - When a result equals the oracle's ------------*- C++ -*-===//
//
// Rules. Shapes are equal. Where the oracle has NaN, the result has NaN (any payload); where it has an infinity, the
// same infinity; elsewhere a finite number. Finite numbers are measured two ways against one row of the table.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_TEST_DIFFERENTIAL_COMPARE_H
#define KVC_TEST_DIFFERENTIAL_COMPARE_H

#include "Measure.h"
#include "Module.h"

#include "kvc/Reference/Datum.h"
#include "kvc/Target/Target.h"
#include "kvc_runtime.h"

namespace kvc::differential {

/// A row of the table of tolerances: what a stored format may do to a kind of result when sums are kept in f32.
struct Tolerance {
  llvm::StringLiteral result, storage;
  Errors bound;
  /// Numbers are counts: errors are in votes, and grow with the square root of how many there are.
  bool isCount = false;
};
llvm::ArrayRef<Tolerance> getTolerances();

/// The row for a result of a configuration on a target (null: a machine without matrix units).
const Tolerance &toleranceOf(const Config &config, ResultKind kind, const Target *target);

/// What is wrong with a result; empty when nothing is.
struct Comparison {
  std::string failure;
  /// In units of the growth.
  Errors errors;
};
/// The bounds are `growth` times those of the row. `freedoms` has one for each element in row-major order, or none.
Comparison compare(const reference::Tensor &want, const kvc_tensor_t &got, const Tolerance &tolerance,
                   double growth = 1, llvm::ArrayRef<Freedom> freedoms = {});

} // namespace kvc::differential

#endif // KVC_TEST_DIFFERENTIAL_COMPARE_H
