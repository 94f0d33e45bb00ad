//===- Axes.h - What the differential test varies ---------------*- C++ -*-===//
//
// A kernel is a choice of one value on every axis. The axes and their values are the table in Axes.cpp; what a value
// means is known to Module.cpp (kernel axes) and Program.cpp (run axes).
//
//===----------------------------------------------------------------------===//
#ifndef KVC_TEST_DIFFERENTIAL_AXES_H
#define KVC_TEST_DIFFERENTIAL_AXES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <array>
#include <cstdint>
#include <string>

namespace kvc::differential {

enum AxisId : unsigned {
  // Kernel axes: another value is another kernel.
  AxisK,
  AxisV,
  AxisGroup,
  AxisPage,
  AxisDim,
  AxisHeads,
  AxisGqa,
  AxisTables,
  AxisSlots,
  AxisResidual,
  AxisMask,
  AxisScore,
  AxisSinkLogits,
  AxisReturns,
  AxisRope,
  AxisSelection,
  AxisSegments,
  AxisOp,
  kernelAxes,
  // Run axes: the same kernel, other data.
  AxisShape = kernelAxes,
  AxisGarbage,
  AxisInputs,
  allAxes
};

struct Axis {
  llvm::StringLiteral name;
  /// The first is the default.
  llvm::ArrayRef<llvm::StringLiteral> values;
};

/// The table, indexed by AxisId.
llvm::ArrayRef<Axis> getAxes();

/// A choice of kernel: value numbers by AxisId.
struct Config {
  std::array<uint8_t, kernelAxes> values{};

  llvm::StringRef operator[](AxisId axis) const { return getAxes()[axis].values[values[axis]]; }
  bool operator==(const Config &other) const = default;
  bool operator<(const Config &other) const { return values < other.values; }
};

/// One run: a kernel, the data of a seed, and the run axes.
struct CaseId {
  Config config;
  /// Value numbers by run axis, the first of which is `kernelAxes`.
  std::array<uint8_t, allAxes - kernelAxes> run{};
  uint64_t seed = 0;

  /// Value number on any axis.
  uint8_t &number(unsigned axis) { return axis < kernelAxes ? config.values[axis] : run[axis - kernelAxes]; }
  uint8_t number(unsigned axis) const { return axis < kernelAxes ? config.values[axis] : run[axis - kernelAxes]; }
  llvm::StringRef operator[](AxisId axis) const { return getAxes()[axis].values[number(axis)]; }
  /// `k=int4,page=48,shape=ragged,seed=7`: what differs from the defaults, and the seed.
  std::string str() const;
};

/// Only the kernel axes that differ from the defaults; `default` when none does.
std::string nameOf(const Config &config);

/// The case of a name; an error says which axes and values there are.
llvm::Expected<CaseId> parseCase(llvm::StringRef text);

/// Deterministic on every machine (splitmix64).
class Random {
public:
  explicit Random(uint64_t seed) : state(seed * 0x9e3779b97f4a7c15 + 0x1234567) {}
  uint64_t next();
  /// 0 .. bound-1.
  int64_t below(int64_t bound) { return static_cast<int64_t>(next() % static_cast<uint64_t>(bound)); }
  /// first .. last.
  int64_t between(int64_t first, int64_t last) { return first + below(last - first + 1); }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  bool chance(double p) { return uniform() < p; }
  /// Mean 0, variance 1, bounded by 6.
  double normal();
  template <typename T> const T &pick(llvm::ArrayRef<T> values) { return values[below(values.size())]; }

private:
  uint64_t state;
};

} // namespace kvc::differential

#endif // KVC_TEST_DIFFERENTIAL_AXES_H
