//===- Measure.cpp - How far numbers are from what is expected ------------===//
#include "Measure.h"

#include <algorithm>
#include <cmath>

using namespace kvc::differential;

void Errors::merge(const Errors &other) {
  peak = std::max(peak, other.peak);
  rms = std::max(rms, other.rms);
  elements += other.elements;
}

Measurement kvc::differential::measure(std::span<const double> want, std::span<const float> got, const Errors &bound,
                                       bool isCount, double growth, std::span<const Freedom> freedoms) {
  Measurement result;
  double square = 0, largest = 0;
  int64_t finite = 0;
  for (double w : want) {
    if (std::isfinite(w)) {
      square += w * w;
      largest = std::max(largest, std::abs(w));
      ++finite;
    }
  }
  const double count = static_cast<double>(std::max<int64_t>(finite, 1)), root = std::sqrt(square / count);
  double errorSquare = 0, worst = -1;
  for (size_t i = 0; i < want.size(); ++i) {
    const double w = want[i], g = got[i];
    const Freedom freedom = freedoms.empty() ? Freedom::None : freedoms[i];
    if (freedom == Freedom::Any || (freedom == Freedom::Nan && std::isnan(g))) {
      continue;
    }
    const bool same = std::isnan(w) ? std::isnan(g) : std::isinf(w) ? g == w : std::isfinite(g);
    if (!same) {
      result.unlike = static_cast<int64_t>(i);
      return result;
    }
    if (!std::isfinite(w)) {
      continue;
    }
    const double error = std::abs(g - w);
    errorSquare += error * error;
    if (error > worst) {
      worst = error;
      result.worst = static_cast<int64_t>(i);
    }
  }
  // Of numbers that are all 0 every error is one of the whole.
  const double votes = std::max(1.0, std::sqrt(largest) / 4);
  auto unitOf = [&](double own) { return isCount ? votes : own; };
  auto per = [&](double error, double own) {
    const double unit = unitOf(own);
    return unit > 0 ? error / unit / growth : error;
  };
  result.errors.elements = finite;
  result.errors.peak = per(std::max(worst, 0.0), largest);
  result.errors.rms = per(std::sqrt(errorSquare / count), root);
  const double single = per(bound.peak * growth * unitOf(largest), root);
  result.rmsBound = std::sqrt(bound.rms * bound.rms + single * single / count);
  return result;
}
