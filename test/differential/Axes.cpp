//===- Axes.cpp - The table of axes ---------------------------------------===//
#include "Axes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

using namespace kvc::differential;

// Formats: name, then /channel (the axis of groups), /symmetric, and the type of the scales.
static constexpr llvm::StringLiteral formats[] = {"f16",
                                                  "f32",
                                                  "bf16",
                                                  "int8",
                                                  "int8/symmetric/bf16",
                                                  "int8/channel",
                                                  "int4",
                                                  "int2",
                                                  "int4/symmetric",
                                                  "int4/channel",
                                                  "int2/channel",
                                                  "int4/channel/symmetric/f32",
                                                  "int2/symmetric",
                                                  "int3",
                                                  "int3/channel",
                                                  "int3/symmetric/f32"};
// Elements that share a scale; row: all channels of a token, or all tokens of a page.
static constexpr llvm::StringLiteral groups[] = {"32", "8", "16", "64", "row"};
static constexpr llvm::StringLiteral pages[] = {"32", "1", "5", "16", "24", "48", "64", "256"};
// Channels of K and V, or of K x V.
static constexpr llvm::StringLiteral dims[] = {"64",  "40",  "45",     "80",      "96",      "112",
                                               "128", "256", "64x128", "192x128", "576x512", "72x40"};
static constexpr llvm::StringLiteral heads[] = {"2", "1", "3", "8"};
static constexpr llvm::StringLiteral gqas[] = {"2", "1", "3", "4", "5", "6", "7", "8", "16", "128"};
static constexpr llvm::StringLiteral tables[] = {"per_sequence", "per_head"};
// Positions, and rings of window tokens after the sinks.
static constexpr llvm::StringLiteral slots[] = {"implicit", "stored", "ring/40/4", "ring/17/0"};
// Tokens kept exact, and their type where it is not f16.
static constexpr llvm::StringLiteral residuals[] = {"0", "1", "32", "40/bf16", "100/f32"};
static constexpr llvm::StringLiteral masks[] = {"causal",     "none", "window", "causal/window", "causal/window/sinks",
                                                "causal/tree"};
static constexpr llvm::StringLiteral scores[] = {"none", "soft_cap", "alibi", "capture", "cut"};
static constexpr llvm::StringLiteral noYes[] = {"no", "yes"};
static constexpr llvm::StringLiteral returns[] = {"out/lse", "out", "sum", "max", "count"};
// append: all channels, halves; append/adjacent: some channels, neighbours; load: rotated when read.
static constexpr llvm::StringLiteral ropes[] = {"none", "append", "append/adjacent", "load"};
static constexpr llvm::StringLiteral selections[] = {"none", "page", "token"};
static constexpr llvm::StringLiteral segments[] = {"1", "2"};
// What else happens to the cache between appends, or is computed from it.
static constexpr llvm::StringLiteral ops[] = {"none",   "rope",       "merge_states", "scores", "truncate",
                                              "seal",   "fork",       "import",       "evict",  "compact",
                                              "rebase", "accumulate", "requantize"};
static constexpr llvm::StringLiteral shapes[] = {"ragged", "decode", "empty", "prefill", "chunks", "long"};
// What lies in pages and tails before they are written: the bytes of NaN, infinities of f32 and of f16, anything.
static constexpr llvm::StringLiteral garbages[] = {"nan", "inf32", "inf16", "random"};
// What some elements of queries, keys, values and scores are.
static constexpr llvm::StringLiteral inputs[] = {"finite", "nan", "inf"};

static constexpr Axis axes[] = {
    {"k", formats},         {"v", formats},
    {"group", groups},      {"page", pages},
    {"dim", dims},          {"heads", heads},
    {"gqa", gqas},          {"tables", tables},
    {"slots", slots},       {"residual", residuals},
    {"mask", masks},        {"score", scores},
    {"sink_logits", noYes}, {"returns", returns},
    {"rope", ropes},        {"selection", selections},
    {"segments", segments}, {"op", ops},
    {"shape", shapes},      {"garbage", garbages},
    {"inputs", inputs},
};
static_assert(std::size(axes) == allAxes);

llvm::ArrayRef<Axis> kvc::differential::getAxes() { return axes; }

std::string kvc::differential::nameOf(const Config &config) {
  std::string text;
  for (unsigned axis = 0; axis < kernelAxes; ++axis) {
    if (config.values[axis]) {
      text += (text.empty() ? "" : ",") + axes[axis].name.str() + "=" + config[AxisId(axis)].str();
    }
  }
  return text.empty() ? "default" : text;
}

std::string CaseId::str() const {
  std::string text = nameOf(config);
  for (unsigned axis = kernelAxes; axis < allAxes; ++axis) {
    text += "," + axes[axis].name.str() + "=" + (*this)[AxisId(axis)].str();
  }
  return text + ",seed=" + std::to_string(seed);
}

llvm::Expected<CaseId> kvc::differential::parseCase(llvm::StringRef text) {
  CaseId id;
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, ',', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef part : parts) {
    auto [name, value] = part.split('=');
    if (part == "default") {
      continue;
    }
    if (name == "seed") {
      if (value.getAsInteger(10, id.seed)) {
        return llvm::createStringError("expects a number as seed, but got '" + value + "'");
      }
      continue;
    }
    const Axis *axis = llvm::find_if(axes, [&](const Axis &a) { return a.name == name; });
    if (axis == std::end(axes)) {
      return llvm::createStringError("expects seed or an axis (" +
                                     llvm::join(llvm::map_range(axes, [](const Axis &a) { return a.name; }), ", ") +
                                     "), but got '" + name + "'");
    }
    auto found = llvm::find(axis->values, value);
    if (found == axis->values.end()) {
      return llvm::createStringError("expects " + name + " to be one of " + llvm::join(axis->values, ", ") +
                                     ", but got '" + value + "'");
    }
    id.number(axis - axes) = static_cast<uint8_t>(found - axis->values.begin());
  }
  return id;
}

uint64_t Random::next() {
  uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

double Random::normal() {
  double sum = -6;
  for (int i = 0; i < 12; ++i) {
    sum += uniform();
  }
  return sum;
}
