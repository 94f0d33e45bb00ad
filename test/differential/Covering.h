//===- Covering.h - Which kernels meet all pairs of values ------*- C++ -*-===//
//
// Any two values of different axes shall meet in some kernel, unless the verifier refuses them together.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_TEST_DIFFERENTIAL_COVERING_H
#define KVC_TEST_DIFFERENTIAL_COVERING_H

#include "Axes.h"

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace kvc::differential {

/// A value of an axis.
struct AxisValue {
  uint8_t axis, value;
  auto operator<=>(const AxisValue &) const = default;
  std::string str() const;
};
/// Two values of different axes, the lower axis first.
using Pair = std::pair<AxisValue, AxisValue>;

struct Covering {
  std::vector<Config> configs;
  /// Pairs that no kernel has, with what the verifier says, or which lowering is missing.
  std::map<Pair, std::string> refused;
};

/// Empty when the configuration is legal and compiles, else the reason.
using Verifier = std::function<std::string(const Config &)>;

/// A legal configuration with these values (axis -> value number), else the reason in `message`.
std::optional<Config> complete(llvm::ArrayRef<AxisValue> values, const Verifier &verifier, std::string &message);

/// Kernels that together have all legal pairs of kernel axes without the `excluded` values: at least `kernels` of them,
/// or, with `atMost`, the first `kernels`, which have most of the pairs.
Covering cover(const Verifier &verifier, const std::set<AxisValue> &excluded, size_t kernels, bool atMost,
               uint64_t seed);

} // namespace kvc::differential

#endif // KVC_TEST_DIFFERENTIAL_COVERING_H
