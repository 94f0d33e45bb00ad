//===- Layout.cpp - Which lane holds which element ------------------------===//
#include "kvc/Target/Layout.h"

#include "llvm/ADT/STLExtras.h"

#include <numeric>

using namespace kvc;

Layout::Layout(llvm::ArrayRef<Mode> given) {
  for (Mode mode : given) {
    if (mode.size == 1) {
      continue;
    }
    if (mode.out == Axis::None) {
      mode.outStride = 0;
    }
    modes.push_back(mode);
  }
  llvm::sort(modes,
             [](const Mode &x, const Mode &y) { return std::pair(x.in, x.inStride) < std::pair(y.in, y.inStride); });
  llvm::SmallVector<Mode> joined;
  for (const Mode &mode : modes) {
    if (!joined.empty()) {
      Mode &last = joined.back();
      if (last.in == mode.in && last.out == mode.out && last.inStride * last.size == mode.inStride &&
          last.outStride * last.size == mode.outStride) {
        last.size *= mode.size;
        continue;
      }
    }
    joined.push_back(mode);
  }
  modes = std::move(joined);
}

int64_t Layout::inSize(Axis axis) const {
  int64_t size = 1;
  for (const Mode &mode : modes) {
    size *= mode.in == axis ? mode.size : 1;
  }
  return size;
}

int64_t Layout::outSize(Axis axis) const {
  int64_t size = 1;
  for (const Mode &mode : modes) {
    size *= mode.out == axis ? mode.size : 1;
  }
  return size;
}

Coordinates Layout::operator()(const Coordinates &in) const {
  Coordinates out;
  for (const Mode &mode : modes) {
    if (mode.out != Axis::None) {
      out[mode.out] += in[mode.in] / mode.inStride % mode.size * mode.outStride;
    }
  }
  return out;
}

Coordinates Layout::operator()(int64_t reg, int64_t lane, int64_t warp) const {
  Coordinates in;
  in[Axis::Register] = reg;
  in[Axis::Lane] = lane;
  in[Axis::Warp] = warp;
  return (*this)(in);
}

/// Whether the digits of each axis, in the order of their strides, are a mixed radix system.
static bool isCovered(llvm::ArrayRef<std::pair<std::pair<Axis, int64_t>, int64_t>> digits) {
  auto sorted = llvm::to_vector(digits);
  llvm::sort(sorted);
  Axis axis = Axis::None;
  int64_t next = 1;
  for (const auto &[place, size] : sorted) {
    if (place.first != axis) {
      axis = place.first;
      next = 1;
    }
    if (place.second != next || size < 1) {
      return false;
    }
    next *= size;
  }
  return true;
}

bool Layout::isValid() const {
  llvm::SmallVector<std::pair<std::pair<Axis, int64_t>, int64_t>> ins, outs;
  for (const Mode &mode : modes) {
    ins.push_back({{mode.in, mode.inStride}, mode.size});
    if (mode.out != Axis::None) {
      outs.push_back({{mode.out, mode.outStride}, mode.size});
    }
  }
  return isCovered(ins) && isCovered(outs);
}

bool Layout::hasReplicas() const {
  return llvm::any_of(modes, [](const Mode &mode) { return mode.out == Axis::None; });
}

Layout Layout::inverse() const {
  llvm::SmallVector<Mode> result;
  for (const Mode &mode : modes) {
    if (mode.out != Axis::None) {
      result.push_back({mode.size, mode.out, mode.outStride, mode.in, mode.inStride});
    }
  }
  return Layout(result);
}

std::optional<Layout> Layout::compose(const Layout &after) const {
  // Strides at which a digit of the axis in the middle begins, in either layout.
  auto cutsOf = [&](Axis axis) {
    llvm::SmallVector<int64_t> cuts;
    for (const Mode &mode : modes) {
      if (mode.out == axis) {
        cuts.append({mode.outStride, mode.outStride * mode.size});
      }
    }
    for (const Mode &mode : after.modes) {
      if (mode.in == axis) {
        cuts.append({mode.inStride, mode.inStride * mode.size});
      }
    }
    llvm::sort(cuts);
    cuts.erase(llvm::unique(cuts), cuts.end());
    return cuts;
  };
  llvm::SmallVector<Mode> result;
  for (const Mode &mode : modes) {
    if (mode.out == Axis::None) {
      result.push_back(mode);
      continue;
    }
    int64_t at = mode.outStride, end = mode.outStride * mode.size;
    for (int64_t cut : cutsOf(mode.out)) {
      if (cut <= at || cut > end) {
        continue;
      }
      if (cut % at) {
        return std::nullopt;
      }
      Mode piece{cut / at, mode.in, mode.inStride * (at / mode.outStride), Axis::None, 0};
      bool found = false;
      for (const Mode &next : after.modes) {
        if (next.in == mode.out && next.inStride <= at && cut <= next.inStride * next.size) {
          if (at % next.inStride) {
            return std::nullopt;
          }
          piece.out = next.out;
          piece.outStride = next.outStride * (at / next.inStride);
          found = true;
        }
      }
      if (!found) {
        return std::nullopt;
      }
      result.push_back(piece);
      at = cut;
    }
  }
  return Layout(result);
}

Layout Layout::product(const Layout &outer) const {
  llvm::SmallVector<Mode> result(modes);
  for (Mode mode : outer.modes) {
    mode.inStride *= inSize(mode.in);
    mode.outStride *= mode.out == Axis::None ? 0 : outSize(mode.out);
    result.push_back(mode);
  }
  return Layout(result);
}

std::optional<Layout> Layout::divide(const Layout &tile) const {
  // Digits of the tile come off the low end; what is above them is the rest.
  llvm::SmallVector<Mode> rest;
  llvm::SmallVector<Mode> tileModes(tile.modes);
  for (const Mode &mode : modes) {
    Mode left = mode;
    for (bool again = true; again;) {
      again = false;
      for (const Mode &part : tileModes) {
        if (part.in == left.in && part.inStride == left.inStride && part.out == left.out &&
            part.outStride == left.outStride && left.size % part.size == 0 && left.size > 1) {
          left = {left.size / part.size, left.in, left.inStride * part.size, left.out, left.outStride * part.size};
          again = true;
          break;
        }
      }
    }
    if (left.size == 1) {
      continue;
    }
    if (left.inStride % tile.inSize(left.in) || (left.out != Axis::None && left.outStride % tile.outSize(left.out))) {
      return std::nullopt;
    }
    left.inStride /= tile.inSize(left.in);
    if (left.out != Axis::None) {
      left.outStride /= tile.outSize(left.out);
    }
    rest.push_back(left);
  }
  Layout result(rest);
  if (tile.product(result) == *this) {
    return result;
  }
  return std::nullopt;
}

Layout Layout::project(Axis axis) const {
  llvm::SmallVector<Mode> result;
  for (Mode mode : modes) {
    if (mode.out != axis) {
      mode.out = Axis::None;
      mode.outStride = 0;
    }
    result.push_back(mode);
  }
  return Layout(result);
}

Layout Layout::withoutReplicatedRegisters() const {
  llvm::SmallVector<Mode> result;
  int64_t stride = 1;
  // Modes are sorted by input stride.
  for (Mode mode : modes) {
    if (mode.in == Axis::Register) {
      if (mode.out == Axis::None) {
        continue;
      }
      mode.inStride = stride;
      stride *= mode.size;
    }
    result.push_back(mode);
  }
  return Layout(result);
}

llvm::SmallVector<llvm::SmallVector<int64_t>> Layout::runsAlong(Axis axis, int64_t most) const {
  // Registers of a run, from its first: digits of registers that follow each other along the axis.
  llvm::SmallVector<int64_t> steps{0}, strides;
  for (bool again = true; again;) {
    again = false;
    for (const Mode &mode : modes) {
      const auto size = static_cast<int64_t>(steps.size());
      if (mode.in != Axis::Register || mode.out != axis || size % mode.outStride ||
          size >= mode.outStride * mode.size || size * 2 > most || mode.outStride * mode.size % (size * 2)) {
        continue;
      }
      const int64_t stride = mode.inStride * (size / mode.outStride);
      for (int64_t i = 0; i < size; ++i) {
        steps.push_back(steps[i] + stride);
      }
      strides.push_back(stride);
      again = true;
    }
  }
  llvm::SmallVector<llvm::SmallVector<int64_t>> runs;
  for (int64_t reg = 0; reg < inSize(Axis::Register); ++reg) {
    if (llvm::all_of(strides, [&](int64_t stride) { return reg / stride % 2 == 0; })) {
      llvm::SmallVector<int64_t> &run = runs.emplace_back();
      for (int64_t step : steps) {
        run.push_back(reg + step);
      }
    }
  }
  return runs;
}

Layout Layout::transposed() const {
  llvm::SmallVector<Mode> result(modes);
  for (Mode &mode : result) {
    mode.out = mode.out == Axis::Row ? Axis::Column : mode.out == Axis::Column ? Axis::Row : mode.out;
  }
  return Layout(result);
}

void Layout::print(llvm::raw_ostream &os) const {
  static constexpr llvm::StringLiteral names[] = {"register", "lane", "warp", "row", "column", "address", "replica"};
  auto nameOf = [](Axis axis) { return names[static_cast<unsigned>(axis)]; };
  os << "{";
  llvm::interleaveComma(modes, os, [&](const Mode &mode) {
    os << mode.size << ": " << nameOf(mode.in) << " " << mode.inStride << " -> " << nameOf(mode.out);
    if (mode.out != Axis::None) {
      os << " " << mode.outStride;
    }
  });
  os << "}";
}

Conversion kvc::convert(const Layout &from, const Layout &to) {
  Conversion staging{ConversionCost::Staging, {}};
  for (Axis axis : {Axis::Row, Axis::Column}) {
    if (from.outSize(axis) != to.outSize(axis)) {
      return staging;
    }
  }
  // Where `from` holds what `to` shall hold.
  std::optional<Layout> source = to.compose(from.inverse());
  if (!source) {
    return staging;
  }
  bool crossesLanes = false;
  for (const Mode &mode : source->getModes()) {
    if ((mode.in == Axis::Warp || mode.out == Axis::Warp) && (mode.in != mode.out || mode.inStride != mode.outStride)) {
      // A replica among the warps holds what warp 0 of `from` holds, unless `from` replicates it too.
      bool replicated =
          mode.in == Axis::Warp && mode.out == Axis::None && llvm::any_of(from.getModes(), [&](const Mode &other) {
            return other.in == Axis::Warp && other.out == Axis::None && other.inStride == mode.inStride &&
                   other.size == mode.size;
          });
      if (!replicated) {
        return staging;
      }
    }
    if ((mode.in == Axis::Lane || mode.out == Axis::Lane) && (mode.in != mode.out || mode.inStride != mode.outStride)) {
      bool replicated =
          mode.in == Axis::Lane && mode.out == Axis::None && llvm::any_of(from.getModes(), [&](const Mode &other) {
            return other.in == Axis::Lane && other.out == Axis::None && other.inStride == mode.inStride &&
                   other.size == mode.size;
          });
      crossesLanes |= !replicated;
    }
  }
  if (crossesLanes) {
    return {ConversionCost::Lanes, {}};
  }
  Conversion result{ConversionCost::Free, {}};
  for (int64_t i = 0; i < to.inSize(Axis::Register); ++i) {
    Coordinates at;
    at[Axis::Register] = i;
    result.source.push_back((*source)(at)[Axis::Register]);
    if (result.source.back() != i) {
      result.cost = ConversionCost::Registers;
    }
  }
  return result;
}
