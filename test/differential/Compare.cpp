//===- Compare.cpp - When a result equals the oracle's --------------------===//
#include "Compare.h"

#include "kvc/Dialect/KVCache/IR/KVCache.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace kvc;
using namespace kvc::differential;

// The accumulator of every row is f32. What the numbers are made of:
//
// Unit roundoffs, u.
static constexpr double f32 = 0x1p-24, f16 = 0x1p-11, bf16 = 0x1p-8;
// A sum of n numbers in f32 is off by sqrt(n) u; 2048 is more than any channels or slots here. The largest of many
// errors is four times their root mean square against the numbers' own.
static constexpr Errors sums = {4 * 45 * f32, 45 * f32};
// Products of 16-bit numbers: queries, keys, probabilities and values are rounded to them, each off by less than u / 2
// as a root mean square.
static constexpr Errors products(double u) { return {4 * u, u}; }
// RoPE: angles are reduced in f64; sine, cosine, two products and their sum round in f32, each by one u at most.
static constexpr Errors rotation = {16 * f32, 8 * f32};
// A rotated key that is rounded once more may come out one step further on, where a step is part of the largest
// number. That happens to as many as the error of the rotation is part of the step.
static constexpr double sqrtOf(double x) {
  double root = 1;
  for (int i = 0; i < 64; ++i) {
    root = (root + x / root) / 2;
  }
  return root;
}
static constexpr Errors rounded(double step) {
  return {step + rotation.peak, sqrtOf(step * rotation.rms) + rotation.rms};
}
// Codes of b bits: a group's range is at most twice the largest number, and that at most 8 times the root mean square.
// Now and then a scale is rounded to the next f16, which moves all of its group by up to u.
static constexpr Errors codes(int bits) {
  const double step = 2.0 / ((1 << bits) - 1);
  return {step + rotation.peak, sqrtOf(8 * step * rotation.rms) + rotation.rms + f16 / 2};
}
static constexpr Errors operator+(const Errors &a, const Errors &b) { return {a.peak + b.peak, a.rms + b.rms}; }

static constexpr Tolerance tolerances[] = {
    // What is stored and not rotated on the way is the same bit for bit.
    {"stored", "exact", {0, 0}},
    {"stored", "f32", rotation},
    {"stored", "f16", rounded(2 * f16)},
    {"stored", "bf16", rounded(2 * bf16)},
    {"stored", "int8", codes(8)},
    {"stored", "int4", codes(4)},
    {"stored", "int3", codes(3)},
    {"stored", "int2", codes(2)},
    {"rows", "f32", rotation},
    // Bounds of attention are for scores that are 0; they grow with the scores (Session::growthOf).
    {"attention", "f32", sums},
    {"attention", "f16", sums},
    {"attention", "bf16", sums + products(bf16)},
    {"attention", "int8", sums},
    {"attention", "int4", sums},
    {"attention", "int3", sums},
    {"attention", "int2", sums},
    {"attention", "f16 products", sums + products(f16)},
    // f32 as high and low bf16 numbers: what their products leave out is below 2^-16.
    {"attention", "split products", sums + products(bf16 * bf16)},
    {"rotated", "f32", sums + rotation},
    {"rotated", "split products", sums + products(bf16 * bf16) + rotation},
    {"rotated", "f16", sums + rounded(2 * f16)},
    {"rotated", "bf16", sums + products(bf16) + rounded(2 * bf16)},
    {"rotated", "int8", sums + codes(8)},
    // Steps of few codes are as large as what products of bf16 do: one row for both.
    {"rotated", "int4", sums + products(bf16) + codes(4)},
    {"rotated", "int3", sums + products(bf16) + codes(3)},
    {"rotated", "int2", sums + products(bf16) + codes(2)},
    {"rotated", "f16 products", sums + products(f16) + rounded(2 * f16)},
    {"rotated", "int8, f16 products", sums + products(f16) + codes(8)},
    // Scores of pages and slots, norms, planes.
    {"scores", "f32", sums},
    {"rotated scores", "f32", sums + rotation},
    {"rotated scores", "f16", sums + rounded(2 * f16)},
    {"rotated scores", "bf16", sums + rounded(2 * bf16)},
    {"rotated scores", "int8", sums + codes(8)},
    {"rotated scores", "int4", sums + codes(4)},
    {"rotated scores", "int3", sums + codes(3)},
    {"rotated scores", "int2", sums + codes(2)},
    // One vote more or less where a probability is all but an equal share: of up to 16 votes one, of more of them more.
    {"count", "f32", {1, 2e-1}, /*isCount=*/true},
    // Scores of bf16 products move by 1 part of 100: a key of 14 in 14 rows lies as near to an equal share.
    {"count", "bf16", {1, 3e-1}, /*isCount=*/true},
};

llvm::ArrayRef<Tolerance> differential::getTolerances() { return tolerances; }

static llvm::StringRef storageOf(llvm::StringRef format) { return format.split('/').first; }

/// The coarser of two storages: the table of formats begins with the finest.
static llvm::StringRef coarser(llvm::StringRef a, llvm::StringRef b) {
  return std::max(kvcache::lookupFormat(a), kvcache::lookupFormat(b))->name;
}

const Tolerance &differential::toleranceOf(const Config &config, ResultKind kind, const Target *target) {
  const bool rotated = config[AxisRope] != "none" || config[AxisOp] == "rebase";
  // Some slots lie in pages and some in a tail.
  const Meaning meaning(config);
  const llvm::StringRef v = storageOf(config[AxisV]);
  llvm::StringRef k = storageOf(config[AxisK]);
  bool pairs = k == "bf16" || v == "bf16" || (meaning.tail && meaning.tailType == "bf16");
  bool halves = false, splits = false;
  if (target && target->team) {
    // Matrix units have products of 16-bit numbers; codes are decoded to the type of their scales.
    pairs |= config[AxisK].ends_with("/bf16") || config[AxisV].ends_with("/bf16");
    // Pages and tail have products of their own; the coarser ones decide.
    splits = !pairs && k == "f32" && v == "f32" && (!meaning.tail || meaning.tailType == "f32");
    halves = !pairs && !splits;
  }
  k = meaning.tail ? coarser(k, meaning.tailType) : k;
  llvm::StringRef result, storage = "f32";
  switch (kind) {
  case ResultKind::StoredK:
    result = "stored";
    storage = rotated && config[AxisRope] != "load" ? k : "exact";
    if (storage != "exact" && config[AxisOp] == "requantize") {
      storage = coarser(k, "int8");
    }
    break;
  case ResultKind::StoredV:
    result = "stored";
    storage = "exact";
    break;
  case ResultKind::Rows:
    result = "rows";
    break;
  case ResultKind::Scores:
  case ResultKind::Norms:
  case ResultKind::Plane:
    result = rotated ? "rotated scores" : "scores";
    storage = rotated ? k : "f32";
    break;
  case ResultKind::Count:
    result = "count";
    storage = pairs ? "bf16" : "f32";
    break;
  default:
    result = rotated ? "rotated" : "attention";
    // Elsewhere bf16 is the only format whose products may be of rounded queries and probabilities.
    storage = rotated && kvcache::lookupFormat(k)->bits < 8 ? k
              : pairs                                       ? "bf16"
              : splits                                      ? "split products"
              : !halves                                     ? k
              : rotated && k == "int8"                      ? "int8, f16 products"
                                                            : "f16 products";
  }
  return *llvm::find_if(tolerances,
                        [&](const Tolerance &row) { return row.result == result && row.storage == storage; });
}

Comparison differential::compare(const reference::Tensor &want, const kvc_tensor_t &got, const Tolerance &tolerance,
                                 double growth, llvm::ArrayRef<Freedom> freedoms) {
  Comparison result;
  llvm::ArrayRef<int64_t> dims(got.dims, got.rank);
  auto list = [](llvm::ArrayRef<int64_t> shape) {
    return "[" + llvm::join(llvm::map_range(shape, [](int64_t n) { return std::to_string(n); }), ", ") + "]";
  };
  if (dims != llvm::ArrayRef(want.shape) || got.dtype != KVC_F32) {
    result.failure =
        "expects f32 of shape " + list(want.shape) + ", but got " + kvc_dtype_name(got.dtype) + " of " + list(dims);
    return result;
  }
  const std::span<const float> values(static_cast<const float *>(got.data), want.floats.size());
  auto where = [&](int64_t i) {
    llvm::SmallVector<int64_t> index(want.shape.size());
    for (int64_t d = want.shape.size() - 1; d >= 0; i /= want.shape[d--]) {
      index[d] = i % want.shape[d];
    }
    return list(index);
  };
  const Measurement measured = measure(want.floats, values, tolerance.bound, tolerance.isCount, growth,
                                       std::span(freedoms.data(), freedoms.size()));
  if (measured.unlike >= 0) {
    result.failure = llvm::formatv("expects {0:e8} at {1}, but got {2:e8}", want.floats[measured.unlike],
                                   where(measured.unlike), values[measured.unlike]);
    return result;
  }
  result.errors = measured.errors;
  if (!measured.isWithin(tolerance.bound)) {
    result.failure = llvm::formatv(
        "expects errors of at most {0:e2} peak, {1:e2} rms ({2}, {3}, times {4:f2}), but got {5:e2}, {6:e2}: at {7} "
        "expects {8:e8}, but got {9:e8}",
        tolerance.bound.peak, measured.rmsBound, tolerance.result, tolerance.storage, growth, measured.errors.peak,
        measured.errors.rms, where(measured.worst), want.floats[measured.worst], values[measured.worst]);
  }
  return result;
}
