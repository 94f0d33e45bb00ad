//===- Formats.cpp - What storage formats keep of a value -----------------===//
//
// Follows docs/spec/formats.md line by line.
//
//===----------------------------------------------------------------------===//
#include "kvc/Reference/Formats.h"

#include "llvm/ADT/APFloat.h"
#include <algorithm>
#include <cmath>
#include <limits>

// Products and sums round separately, on every machine.
#pragma STDC FP_CONTRACT OFF

using namespace kvc;
using namespace kvc::kvcache;
using namespace kvc::reference;

static constexpr float smallestScale = 1e-8f;

double reference::roundTo(mlir::Type type, double value) {
  if (type.isF64()) {
    return value;
  }
  if (type.isF32()) {
    return static_cast<float>(value);
  }
  const llvm::fltSemantics &semantics = llvm::cast<mlir::FloatType>(type).getFloatSemantics();
  // Through f32: what is rounded is an f32 value of the graph.
  llvm::APFloat rounded(static_cast<float>(value));
  bool losesInfo = false;
  rounded.convert(semantics, llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return rounded.convertToDouble();
}

EncodedGroup reference::encodeGroup(FormatAttr format, llvm::ArrayRef<double> values) {
  EncodedGroup group;
  const float levels = static_cast<float>((int64_t(1) << format.getBits()) - 1);
  const float half = static_cast<float>((int64_t(1) << (format.getBits() - 1)) - 1);
  const float nan = std::numeric_limits<float>::quiet_NaN();

  float low = std::numeric_limits<float>::infinity(), high = -low, amax = 0;
  bool finite = true;
  for (double value : values) {
    float x = static_cast<float>(value);
    finite &= std::isfinite(x);
    low = std::min(low, x);
    high = std::max(high, x);
    amax = std::max(amax, std::abs(x));
  }
  group.codes.assign(values.size(), 0);
  if (!finite) {
    // NaN and Inf spoil their group, and nothing else.
    group.scale = group.zero = nan;
    return group;
  }

  float scale = format.getSymmetric() ? amax / half : (high - low) / levels;
  group.scale = std::max(static_cast<float>(roundTo(format.getScale(), scale)), smallestScale);
  group.zero = format.getSymmetric() ? 0.0f : static_cast<float>(roundTo(format.getScale(), low));
  if (!std::isfinite(group.scale) || !std::isfinite(group.zero)) {
    group.scale = group.zero = nan;
    return group;
  }
  for (auto [code, value] : llvm::zip(group.codes, values)) {
    float x = static_cast<float>(value);
    // nearbyint: to nearest, ties to even, the default rounding of the environment.
    float q = std::nearbyint((x - group.zero) / group.scale);
    q = format.getSymmetric() ? std::clamp(q, -half, half) : std::clamp(q, 0.0f, levels);
    code = static_cast<int64_t>(q);
  }
  return group;
}

double reference::decode(FormatAttr, const EncodedGroup &group, int64_t code) {
  float product = static_cast<float>(code) * group.scale;
  return product + group.zero;
}

/// Replaces the elements that the pointers name by what their common group keeps of them.
static void storeGroup(FormatAttr format, llvm::ArrayRef<double *> elements) {
  std::vector<double> values;
  for (double *element : elements) {
    values.push_back(*element);
  }
  EncodedGroup group = encodeGroup(format, values);
  for (auto [element, code] : llvm::zip(elements, group.codes)) {
    *element = decode(format, group, code);
  }
}

static void storePlane(CacheType type, Plane plane, Table &table, int64_t begin, int64_t end) {
  FormatAttr format = type.getFormat(plane);
  auto vectorOf = [&](int64_t slot) -> std::vector<double> & {
    return plane == Plane::K ? table.slots[slot].key : table.slots[slot].value;
  };
  if (begin == end) {
    return;
  }
  const int64_t elements = vectorOf(begin).size(); // heads of the table * dim

  if (!format.isInteger()) {
    for (int64_t slot = begin; slot < end; ++slot) {
      for (double &x : vectorOf(slot)) {
        x = roundTo(format.getFloatType(), x);
      }
    }
    return;
  }
  const int64_t size = format.getGroup();
  if (format.getAxis() == Axis::Token) {
    // A group: `size` consecutive channels of one head of one slot.
    for (int64_t slot = begin; slot < end; ++slot) {
      for (int64_t first = 0; first < elements; first += size) {
        std::vector<double *> group;
        for (int64_t i = first; i < first + size; ++i) {
          group.push_back(&vectorOf(slot)[i]);
        }
        storeGroup(format, group);
      }
    }
    return;
  }
  // A group: one channel of `size` consecutive slots.
  for (int64_t first = begin; first < end; first += size) {
    for (int64_t channel = 0; channel < elements; ++channel) {
      std::vector<double *> group;
      for (int64_t slot = first; slot < first + size; ++slot) {
        group.push_back(&vectorOf(slot)[channel]);
      }
      storeGroup(format, group);
    }
  }
}

void reference::storeKeys(CacheType type, Table &table, int64_t begin, int64_t end) {
  storePlane(type, Plane::K, table, begin, end);
}

void reference::storeSlots(CacheType type, Table &table, int64_t begin, int64_t end) {
  storePlane(type, Plane::K, table, begin, end);
  storePlane(type, Plane::V, table, begin, end);
}
