//===- Compare.cpp - When a result equals the oracle's --------------------===//
#include "Compare.h"

#include "kvc/Dialect/KVCache/IR/KVCache.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace kvc;
using namespace kvc::differential;

void Errors::merge(const Errors &other) {
  relative = std::max(relative, other.relative);
  absolute = std::max(absolute, other.absolute);
  rms = std::max(rms, other.rms);
  elements += other.elements;
}

// The accumulator of every row is f32.
static constexpr Tolerance tolerances[] = {
    // What is stored and not rotated on the way is the same bit for bit.
    {"stored", "exact", {0, 0, 0}},
    // RoPE in f32: a plain number may differ in its last place, and seldom a code by one step of its group.
    {"stored", "f32", {1e-5, 1e-4, 1e-6}},
    {"stored", "f16", {2e-2, 2e-2, 1e-4}},
    {"stored", "bf16", {1e-1, 1e-1, 1e-3}},
    {"stored", "int8", {1e-1, 2e-1, 2e-3}},
    {"stored", "int4", {1e+0, 2e+0, 2e-2}},
    {"stored", "int2", {4e+0, 8e+0, 5e-2}},
    {"rows", "f32", {1e-5, 1e-4, 1e-6}},
    {"attention", "f32", {1e-3, 1e-3, 3e-5}},
    {"attention", "f16", {1e-3, 1e-3, 3e-5}},
    {"attention", "bf16", {1e-1, 1e-1, 1e-2}},
    {"attention", "int8", {1e-3, 1e-3, 3e-5}},
    {"attention", "int4", {1e-3, 1e-3, 3e-5}},
    {"attention", "int2", {1e-3, 1e-3, 3e-5}},
    // Products of 16-bit numbers round queries, probabilities and decoded codes to 11 bits: unit roundoff 2^-11, an
    // eighth of bf16's, so an eighth of what bf16 products may do.
    {"attention", "f16 products", {1.25e-2, 1.25e-2, 1.25e-3}},
    // Over keys that RoPE in f32 rotated, as for what is stored.
    {"rotated", "f32", {2e-3, 2e-3, 5e-5}},
    {"rotated", "f16", {2e-2, 2e-2, 3e-4}},
    {"rotated", "bf16", {1e-1, 1e-1, 1e-2}},
    {"rotated", "int8", {5e-2, 1e-1, 1e-3}},
    {"rotated", "int4", {5e-1, 1e+0, 1e-2}},
    {"rotated", "int2", {1e+0, 2e+0, 2e-2}},
    // The sums of both: what the rotation and what the products may do.
    {"rotated", "f16 products", {3.25e-2, 3.25e-2, 1.55e-3}},
    {"rotated", "int8, f16 products", {6.25e-2, 1.125e-1, 2.25e-3}},
    // Scores of pages and slots, norms, planes.
    {"scores", "f32", {1e-4, 1e-3, 1e-5}},
    {"rotated scores", "f32", {1e-3, 5e-3, 1e-4}},
    {"rotated scores", "f16", {1e-2, 5e-2, 5e-4}},
    {"rotated scores", "bf16", {5e-2, 1e-1, 1e-2}},
    {"rotated scores", "int8", {5e-2, 1e-1, 2e-3}},
    {"rotated scores", "int4", {5e-1, 1e+0, 2e-2}},
    {"rotated scores", "int2", {2e+0, 4e+0, 5e-2}},
    {"count", "f32", {4, 1, 2e-1}},
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
  bool halves = false;
  if (target && target->team) {
    // Matrix units have products of 16-bit numbers; codes are decoded to the type of their scales.
    pairs |= config[AxisK].ends_with("/bf16") || config[AxisV].ends_with("/bf16");
    halves = !pairs && !(k == "f32" && v == "f32");
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
    break;
  default:
    result = rotated ? "rotated" : "attention";
    // Elsewhere bf16 is the only format whose products may be of rounded queries and probabilities.
    storage = rotated && kvcache::lookupFormat(k)->bits < 8 ? k
              : pairs                                       ? "bf16"
              : !halves                                     ? k
              : rotated && k == "int8"                      ? "int8, f16 products"
                                                            : "f16 products";
  }
  return *llvm::find_if(tolerances,
                        [&](const Tolerance &row) { return row.result == result && row.storage == storage; });
}

Comparison differential::compare(const reference::Tensor &want, const kvc_tensor_t &got, const Tolerance &tolerance,
                                 const std::function<bool(int64_t)> &mayBeNan) {
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
  const float *values = static_cast<const float *>(got.data);
  double square = 0;
  int64_t finite = 0;
  for (double w : want.floats) {
    if (std::isfinite(w)) {
      square += w * w;
      ++finite;
    }
  }
  const double size = std::sqrt(square / std::max<int64_t>(finite, 1));
  auto where = [&](int64_t i) {
    llvm::SmallVector<int64_t> index(want.shape.size());
    for (int64_t d = want.shape.size() - 1; d >= 0; i /= want.shape[d--]) {
      index[d] = i % want.shape[d];
    }
    return list(index);
  };
  double errorSquare = 0, worst = -1;
  int64_t worstAt = 0;
  for (auto [i, w] : llvm::enumerate(want.floats)) {
    const double g = values[i];
    if (std::isnan(g) && mayBeNan && mayBeNan(i)) {
      continue;
    }
    const bool same = std::isnan(w) ? std::isnan(g) : std::isinf(w) ? g == w : std::isfinite(g);
    if (!same) {
      result.failure = llvm::formatv("expects {0:e8} at {1}, but got {2:e8}", w, where(i), g);
      return result;
    }
    if (!std::isfinite(w)) {
      continue;
    }
    const double error = std::abs(g - w), scale = std::max(std::abs(w), size);
    errorSquare += error * error;
    result.errors.absolute = std::max(result.errors.absolute, error);
    result.errors.relative = std::max(result.errors.relative, scale > 0 ? error / scale : error);
    if (error > worst) {
      worst = error;
      worstAt = i;
    }
  }
  const double rms = std::sqrt(errorSquare / std::max<int64_t>(finite, 1));
  result.errors.rms = size > 0 ? rms / size : rms;
  result.errors.elements = finite;
  const Errors &e = result.errors, &bound = tolerance.bound;
  if (e.relative > bound.relative || e.absolute > bound.absolute || e.rms > bound.rms) {
    result.failure = llvm::formatv(
        "expects errors of at most {0:e2} relative, {1:e2} absolute, {2:e2} rms ({3}, {4}), but got {5:e2}, "
        "{6:e2}, {7:e2}: at {8} expects {9:e8}, but got {10:e8}",
        bound.relative, bound.absolute, bound.rms, tolerance.result, tolerance.storage, e.relative, e.absolute, e.rms,
        where(worstAt), want.floats[worstAt], values[worstAt]);
  }
  return result;
}
