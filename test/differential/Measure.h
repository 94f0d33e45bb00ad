//===- Measure.h - How far numbers are from what is expected ----*- C++ -*-===//
//
// The measure of the differential test, without LLVM: programs that only compare stored results use it too.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_TEST_DIFFERENTIAL_MEASURE_H
#define KVC_TEST_DIFFERENTIAL_MEASURE_H

#include <cstdint>
#include <span>

namespace kvc::differential {

/// `peak` is the largest error in units of the largest number that is expected, `rms` the root mean square of the
/// errors in units of that of the numbers.
struct Errors {
  double peak = 0, rms = 0;
  int64_t elements = 0;

  void merge(const Errors &other);
};

/// What the specification leaves open of an element.
enum class Freedom : uint8_t { None, Nan /* as expected or NaN */, Any /* any bits */ };

struct Measurement {
  /// The first element that is not finite where it should be, not the same infinity, or no NaN; -1: there is none, and
  /// the other members are set.
  int64_t unlike = -1;
  /// In units of the growth.
  Errors errors;
  /// What `errors.rms` may be: one element alone may be as wrong as any may be.
  double rmsBound = 0;
  /// The element that is farthest off.
  int64_t worst = 0;

  bool isWithin(const Errors &bound) const { return unlike < 0 && errors.peak <= bound.peak && errors.rms <= rmsBound; }
};

/// Measures `got` against `want`, which are equally long, in units of `growth`. `isCount`: numbers are counts; errors
/// are in votes, and grow with the square root of how many there are. `freedoms` has one for each element, or none.
Measurement measure(std::span<const double> want, std::span<const float> got, const Errors &bound, bool isCount,
                    double growth, std::span<const Freedom> freedoms);

} // namespace kvc::differential

#endif // KVC_TEST_DIFFERENTIAL_MEASURE_H
