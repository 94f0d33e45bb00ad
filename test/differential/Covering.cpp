//===- Covering.cpp - Which kernels meet all pairs of values --------------===//
#include "Covering.h"

#include "Kernel.h"
#include "kvc/Dialect/KVCache/IR/KVCache.h"
#include "llvm/ADT/STLExtras.h"

using namespace kvc::differential;

std::string AxisValue::str() const { return (getAxes()[axis].name + "=" + getAxes()[axis].values[value]).str(); }

/// Saves attempts: what the verifier is known to refuse. It has the last word on what passes here.
static bool isPlausible(const Config &config) {
  const Meaning m(config);
  auto has = [&](AxisId axis, llvm::StringRef part) { return config[axis].contains(part); };
  const llvm::StringRef op = config[AxisOp];
  bool grouped = false;
  for (auto [axis, channels] : {std::pair{AxisK, m.dim}, {AxisV, m.vDim}}) {
    if (!has(axis, "int")) {
      continue;
    }
    const bool channel = has(axis, "channel");
    const int64_t unit = kvc::kvcache::lookupFormat(config[axis].split('/').first)->codesPerUnit;
    const int64_t whole = channel ? m.page : channels;
    int64_t group = whole;
    if (config[AxisGroup] != "row") {
      config[AxisGroup].getAsInteger(10, group);
    }
    if (group % unit || whole % group) {
      return false;
    }
    grouped |= channel && group > 1;
  }
  const bool ring = m.window != 0, residual = config[AxisResidual] != "0";
  const bool moves = op == "evict" || op == "compact";
  if ((ring && (residual || grouped || has(AxisMask, "tree") || moves || op == "rebase" || op == "truncate" ||
                op == "import" || op == "requantize")) ||
      (moves && (!m.stored || (m.kvHeads > 1 && !m.perHead))) || ((moves || op == "rebase") && grouped) ||
      (op == "rebase" && (!m.stored || has(AxisRope, "load"))) || (op == "seal" && !residual && !grouped)) {
    return false;
  }
  const llvm::StringRef returns = config[AxisReturns];
  return config[AxisSegments] == "1" || returns == "out" || returns == "out/lse";
}

std::optional<Config> kvc::differential::complete(llvm::ArrayRef<AxisValue> values, const Verifier &verifier,
                                                  std::string &message) {
  Config config;
  auto pin = [&] {
    for (const AxisValue &v : values) {
      config.values[v.axis] = v.value;
    }
  };
  pin();
  message = verifier(config);
  if (message.empty()) {
    return config;
  }
  if (isMissingLowering(message)) {
    return std::nullopt;
  }
  // What other choices commonly depend on.
  for (uint8_t slots = 0; slots < 2; ++slots) {
    for (uint8_t tables = 0; tables < 2; ++tables) {
      for (uint8_t residual = 0; residual < 3; residual += 2) {
        for (uint8_t group = 0; group < getAxes()[AxisGroup].values.size(); ++group) {
          for (uint8_t page = 0; page < getAxes()[AxisPage].values.size(); ++page) {
            config = Config();
            config.values[AxisSlots] = slots;
            config.values[AxisTables] = tables;
            config.values[AxisResidual] = residual;
            config.values[AxisGroup] = group;
            config.values[AxisPage] = page;
            pin();
            if (isPlausible(config) && verifier(config).empty()) {
              return config;
            }
          }
        }
      }
    }
  }
  return std::nullopt;
}

/// Calls `body` for all pairs of a configuration.
template <typename Body> static void forEachPair(const Config &config, Body &&body) {
  for (uint8_t a = 0; a < kernelAxes; ++a) {
    for (uint8_t b = a + 1; b < kernelAxes; ++b) {
      body(Pair{{a, config.values[a]}, {b, config.values[b]}});
    }
  }
}

namespace {
/// Pairs that are still to be met, and how many a value would meet: a table, as it is asked millions of times.
class PairSet {
public:
  PairSet() {
    for (uint8_t axis = 0; axis < kernelAxes; ++axis) {
      offsets[axis] = size;
      size += getAxes()[axis].values.size();
    }
    has.resize(size * size);
  }
  void insert(const Pair &pair) { at(pair.first, pair.second) = true; }
  void erase(const Pair &pair) { at(pair.first, pair.second) = false; }
  bool contains(AxisValue a, AxisValue b) const {
    return a.axis < b.axis ? has[number(a) * size + number(b)] : has[number(b) * size + number(a)];
  }
  /// The pairs, in order.
  std::vector<Pair> list() const {
    std::vector<Pair> pairs;
    for (uint8_t a = 0; a < kernelAxes; ++a) {
      for (uint8_t x = 0; x < getAxes()[a].values.size(); ++x) {
        for (uint8_t b = a + 1; b < kernelAxes; ++b) {
          for (uint8_t y = 0; y < getAxes()[b].values.size(); ++y) {
            if (contains({a, x}, {b, y})) {
              pairs.push_back({{a, x}, {b, y}});
            }
          }
        }
      }
    }
    return pairs;
  }

private:
  size_t number(AxisValue v) const { return offsets[v.axis] + v.value; }
  std::vector<bool>::reference at(AxisValue a, AxisValue b) { return has[number(a) * size + number(b)]; }

  std::array<size_t, kernelAxes> offsets;
  size_t size = 0;
  std::vector<bool> has;
};

class Builder {
public:
  Builder(const Verifier &verifier, const std::set<AxisValue> &excluded, uint64_t seed)
      : verifier(verifier), excluded(excluded), random(seed) {
    for (uint8_t a = 0; a < kernelAxes; ++a) {
      for (uint8_t b = a + 1; b < kernelAxes; ++b) {
        for (uint8_t x = 0; x < getAxes()[a].values.size(); ++x) {
          for (uint8_t y = 0; y < getAxes()[b].values.size(); ++y) {
            if (!excluded.contains({a, x}) && !excluded.contains({b, y})) {
              left.insert({{a, x}, {b, y}});
            }
          }
        }
      }
    }
  }

  Covering build(size_t kernels, bool atMost) {
    if (isAllowed(Config())) {
      add(Config());
    }
    for (std::vector<Pair> pairs = left.list(); !pairs.empty(); pairs = left.list()) {
      if (atMost && covering.configs.size() >= kernels) {
        return std::move(covering);
      }
      if (std::optional<Config> config = best(pairs)) {
        add(*config);
        continue;
      }
      // None of the pairs that were tried is easy: the first of them is settled here.
      const Pair pair = pairs.front();
      std::string message;
      if (std::optional<Config> config = complete({pair.first, pair.second}, verifier, message)) {
        add(*config);
      } else {
        covering.refused[pair] = message;
        left.erase(pair);
      }
    }
    for (int attempts = 0; !atMost && covering.configs.size() < kernels && attempts < 10000; ++attempts) {
      Config config;
      for (unsigned axis = 0; axis < kernelAxes; ++axis) {
        config.values[axis] = randomValue(axis);
      }
      if (isPlausible(config) && verifier(config).empty()) {
        add(config);
      }
    }
    return std::move(covering);
  }

private:
  uint8_t randomValue(uint8_t axis) {
    uint8_t value;
    do {
      value = random.below(getAxes()[axis].values.size());
    } while (excluded.contains({axis, value}));
    return value;
  }

  bool isAllowed(const Config &config) const {
    return llvm::none_of(llvm::seq<uint8_t>(0, kernelAxes),
                         [&](uint8_t axis) { return excluded.contains({axis, config.values[axis]}); });
  }

  void add(const Config &config) {
    if (llvm::is_contained(covering.configs, config)) {
      return;
    }
    covering.configs.push_back(config);
    forEachPair(config, [&](const Pair &pair) { left.erase(pair); });
  }

  int64_t gainOf(const Config &config) const {
    int64_t gain = 0;
    forEachPair(config, [&](const Pair &pair) { gain += left.contains(pair.first, pair.second); });
    return gain;
  }

  /// Of many legal configurations, each grown from the first pair that is left or from another one, that with the most
  /// pairs not met yet.
  std::optional<Config> best(llvm::ArrayRef<Pair> pairs) {
    constexpr int attempts = 48;
    // Those that meet most come first, then by their values.
    std::set<std::pair<int64_t, Config>> candidates;
    for (int attempt = 0; attempt < attempts; ++attempt) {
      if (std::optional<Config> config = extend(attempt % 2 ? random.pick(pairs) : pairs.front())) {
        candidates.emplace(-gainOf(*config), *config);
      }
    }
    for (const auto &[negativeGain, config] : candidates) {
      if (negativeGain < 0 && verifier(config).empty()) {
        return config;
      }
    }
    return std::nullopt;
  }

  /// The pair with values on the other axes that bring many pairs not met yet.
  std::optional<Config> extend(const Pair &pair) {
    Config config;
    config.values[pair.first.axis] = pair.first.value;
    config.values[pair.second.axis] = pair.second.value;
    if (!isPlausible(config)) {
      std::string message;
      std::optional<Config> start = complete({pair.first, pair.second}, isPlausibleVerifier, message);
      if (!start) {
        return std::nullopt;
      }
      config = *start;
    }
    std::vector<uint8_t> order;
    for (uint8_t axis = 0; axis < kernelAxes; ++axis) {
      if (axis != pair.first.axis && axis != pair.second.axis) {
        order.insert(order.begin() + random.between(0, order.size()), axis);
      }
    }
    for (uint8_t axis : order) {
      uint8_t choice = config.values[axis];
      int64_t most = -1;
      const auto count = static_cast<uint8_t>(getAxes()[axis].values.size());
      const uint8_t first = random.below(count);
      for (uint8_t i = 0; i < count; ++i) {
        const uint8_t value = (first + i) % count;
        config.values[axis] = value;
        if (excluded.contains({axis, value}) || !isPlausible(config)) {
          continue;
        }
        int64_t gain = 0;
        for (uint8_t other = 0; other < kernelAxes; ++other) {
          gain += other != axis && left.contains({axis, value}, {other, config.values[other]});
        }
        if (gain > most) {
          most = gain;
          choice = value;
        }
      }
      config.values[axis] = choice;
    }
    return config;
  }

  const Verifier isPlausibleVerifier = [](const Config &config) { return isPlausible(config) ? "" : "implausible"; };
  const Verifier &verifier;
  const std::set<AxisValue> &excluded;
  Random random;
  PairSet left;
  Covering covering;
};
} // namespace

Covering kvc::differential::cover(const Verifier &verifier, const std::set<AxisValue> &excluded, size_t kernels,
                                  bool atMost, uint64_t seed) {
  return Builder(verifier, excluded, seed).build(kernels, atMost);
}
