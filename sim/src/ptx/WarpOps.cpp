//===- WarpOps.cpp - Shuffles, votes, matches and reductions --------------===//
#include "ptx/Access.h"
#include "ptx/Decoder.h"
#include "ptx/DecoderImpl.h"

using namespace kvc::sim;
using namespace kvc::sim::ptx;

namespace {

enum ShuffleMode : uint64_t { Up, Down, Butterfly, Index };

/// Lanes with the same mask act together, and all lanes of a mask must be here: f(lanes) for each of these groups.
template <typename F> void eachGroup(Warp &warp, Place maskPlace, uint32_t active, F f) {
  uint32_t masks[laneCount];
  std::memcpy(masks, warp.lanes<uint32_t>(maskPlace), sizeof masks);
  for (uint32_t rest = active; rest != 0;) {
    const auto first = unsigned(std::countr_zero(rest));
    uint32_t group = 0;
    eachLane(rest, [&](unsigned lane) { group |= uint32_t(masks[lane] == masks[first]) << lane; });
    if (group & ~masks[first]) {
      fail(FaultKind::Race, "expects every lane in its own mask {:#010x}, but got lanes {:#010x}", masks[first], group);
    }
    if (masks[first] & warp.alive & ~group) {
      fail(FaultKind::Race, "expects the lanes of the mask {:#010x}, but got lanes {:#010x}", masks[first], group);
    }
    f(group);
    rest &= ~group;
  }
}

/// op: d, p, a, b, c, mask.
void execShuffle(Warp &warp, const Inst &inst, uint32_t all) {
  eachGroup(warp, inst.op[5], all, [&](uint32_t active) {
    uint32_t *d = warp.lanes<uint32_t>(inst.op[0]);
    const uint32_t *a = warp.lanes<uint32_t>(inst.op[2]), *b = warp.lanes<uint32_t>(inst.op[3]),
                   *c = warp.lanes<uint32_t>(inst.op[4]);
    uint32_t from[laneCount];
    std::memcpy(from, a, sizeof from);
    uint32_t inRange = 0;
    eachLane(active, [&](unsigned lane) {
      const uint32_t segment = c[lane] >> 8 & 31, clamp = c[lane] & 31, shift = b[lane] & 31;
      const uint32_t last = (lane & segment) | (clamp & ~segment);
      int j = 0;
      bool ok = false;
      switch (ShuffleMode(inst.aux)) {
      case Up:
        j = int(lane) - int(shift);
        ok = j >= int(last);
        break;
      case Down:
        j = int(lane + shift);
        ok = j <= int(last);
        break;
      case Butterfly:
        j = int(lane ^ shift);
        ok = j <= int(last);
        break;
      case Index:
        j = int((lane & segment) | (shift & ~segment));
        ok = j <= int(last);
        break;
      }
      if (!ok) {
        j = int(lane);
      }
      if (!(active >> j & 1)) {
        fail(FaultKind::Race,
             "expects a lane that takes part as the source of lane {}, but got lane {} (lanes {:#010x})", lane, j,
             active);
      }
      d[lane] = from[j];
      inRange |= uint32_t(ok) << lane;
    });
    if (inst.op[1] != noPlace) {
      uint32_t &p = warp.predicate(inst.op[1]);
      p = (p & ~active) | inRange;
    }
  });
}

enum VoteMode : uint64_t { All, Any, Uniform, Ballot, Negated = 8 };

/// op: d, p, mask.
void execVote(Warp &warp, const Inst &inst, uint32_t all) {
  eachGroup(warp, inst.op[2], all, [&](uint32_t active) {
    const uint32_t p = (warp.predicate(inst.op[1]) ^ (inst.aux & Negated ? allLanes : 0)) & active;
    const auto mode = VoteMode(inst.aux & 7);
    if (mode == Ballot) {
      uint32_t *d = warp.lanes<uint32_t>(inst.op[0]);
      eachLane(active, [&](unsigned lane) { d[lane] = p; });
      return;
    }
    const bool yes = mode == All ? p == active : mode == Any ? p != 0 : p == 0 || p == active;
    uint32_t &d = warp.predicate(inst.op[0]);
    d = (d & ~active) | (yes ? active : 0);
  });
}

/// op: d, p, a, mask; aux: all.
template <typename T> void execMatch(Warp &warp, const Inst &inst, uint32_t all) {
  eachGroup(warp, inst.op[3], all, [&](uint32_t active) {
    uint32_t *d = warp.lanes<uint32_t>(inst.op[0]);
    const T *a = warp.lanes<T>(inst.op[2]);
    uint32_t result[laneCount] = {};
    bool equal = true;
    eachLane(active, [&](unsigned lane) {
      eachLane(active, [&](unsigned other) { result[lane] |= uint32_t(a[lane] == a[other]) << other; });
      equal &= result[lane] == active;
    });
    eachLane(active, [&](unsigned lane) { d[lane] = inst.aux ? (equal ? active : 0) : result[lane]; });
    if (inst.op[1] != noPlace) {
      uint32_t &p = warp.predicate(inst.op[1]);
      p = (p & ~active) | (equal ? active : 0);
    }
  });
}

enum class Reduce : uint64_t { Add, Min, Max, And, Or, Xor };

/// op: d, a, mask.
template <typename T> void execReduce(Warp &warp, const Inst &inst, uint32_t all) {
  eachGroup(warp, inst.op[2], all, [&](uint32_t active) {
    const T *a = warp.lanes<T>(inst.op[1]);
    T value = a[std::countr_zero(active)];
    eachLane(active & (active - 1), [&](unsigned lane) {
      switch (Reduce(inst.aux)) {
      case Reduce::Add:
        value = T(uint32_t(value) + uint32_t(a[lane]));
        break;
      case Reduce::Min:
        value = std::min(value, a[lane]);
        break;
      case Reduce::Max:
        value = std::max(value, a[lane]);
        break;
      case Reduce::And:
        value = T(uint32_t(value) & uint32_t(a[lane]));
        break;
      case Reduce::Or:
        value = T(uint32_t(value) | uint32_t(a[lane]));
        break;
      case Reduce::Xor:
        value = T(uint32_t(value) ^ uint32_t(a[lane]));
        break;
      }
    });
    T *d = warp.lanes<T>(inst.op[0]);
    eachLane(active, [&](unsigned lane) { d[lane] = value; });
  });
}

/// redux.sync of f32; aux: bit 0 max, bit 1 abs, bit 2 NaN.
void execReduceFloat(Warp &warp, const Inst &inst, uint32_t all) {
  eachGroup(warp, inst.op[2], all, [&](uint32_t active) {
    const float *a = warp.lanes<float>(inst.op[1]);
    const bool max = inst.aux & 1, absolute = inst.aux & 2, nan = inst.aux & 4;
    float value = NAN;
    bool anyNan = false;
    eachLane(active, [&](unsigned lane) {
      const float v = absolute ? std::fabs(a[lane]) : a[lane];
      anyNan |= v != v;
      if (value != value) {
        value = v;
      } else if (v == v &&
                 (max ? v > value || (v == value && !std::signbit(v)) : v < value || (v == value && std::signbit(v)))) {
        value = v;
      }
    });
    const uint32_t bits = (nan && anyNan) || value != value ? 0x7fffffffu : std::bit_cast<uint32_t>(value);
    uint32_t *d = warp.lanes<uint32_t>(inst.op[0]);
    eachLane(active, [&](unsigned lane) { d[lane] = bits; });
  });
}

void execActiveMask(Warp &warp, const Inst &inst, uint32_t active) {
  uint32_t *d = warp.lanes<uint32_t>(inst.op[0]);
  eachLane(active, [&](unsigned lane) { d[lane] = active; });
}

/// op: d, p, mask. The leader is the lowest lane.
void execElect(Warp &warp, const Inst &inst, uint32_t all) {
  eachGroup(warp, inst.op[2], all, [&](uint32_t active) {
    const auto leader = unsigned(std::countr_zero(active));
    if (inst.op[0] != noPlace) {
      uint32_t *d = warp.lanes<uint32_t>(inst.op[0]);
      eachLane(active, [&](unsigned lane) { d[lane] = leader; });
    }
    uint32_t &p = warp.predicate(inst.op[1]);
    p = (p & ~active) | (1u << leader);
  });
}

/// fns: the position of the n-th set bit from a base, up or down.
void execFindNthSet(Warp &warp, const Inst &inst, uint32_t active) {
  uint32_t *d = warp.lanes<uint32_t>(inst.op[0]);
  const uint32_t *mask = warp.lanes<uint32_t>(inst.op[1]), *base = warp.lanes<uint32_t>(inst.op[2]);
  const int32_t *offset = warp.lanes<int32_t>(inst.op[3]);
  eachLane(active, [&](unsigned lane) {
    uint32_t result = 0xffffffff;
    const uint32_t from = base[lane] & 31;
    if (offset[lane] == 0) {
      result = mask[lane] >> from & 1 ? from : result;
    } else {
      const int step = offset[lane] > 0 ? 1 : -1;
      int32_t count = offset[lane] > 0 ? offset[lane] - 1 : -offset[lane] - 1;
      for (int pos = int(from); pos >= 0 && pos < 32; pos += step) {
        if ((mask[lane] >> pos & 1) && count-- == 0) {
          result = uint32_t(pos);
          break;
        }
      }
    }
    d[lane] = result;
  });
}

} // namespace

/// `d|p`: the destination register (in the list as noPlace for `_`), then the predicate.
static void dstAndPred(Build &b, Type type) {
  const Operand operand = b.takeOperand();
  if (operand.kind == Operand::Kind::Sink) {
    b.append(noPlace);
  } else {
    Operand first = operand;
    first.second.clear();
    if (first.kind != Operand::Kind::Register) {
      b.refuse("a register as destination");
    }
    b.placeOf(first, type);
  }
  if (operand.second.empty() || operand.second[0].kind == Operand::Kind::Sink) {
    b.append(noPlace);
  } else {
    b.placeOf(operand.second[0], Type::Pred);
  }
}

static void shuffleRow(Build &b, const Row &row) {
  dstAndPred(b, Type::B32);
  b.src(Type::B32);
  b.src(Type::U32);
  b.src(Type::U32);
  b.src(Type::U32);
  b.inst.aux = uint64_t(b.which({"up", "down", "bfly", "idx"}));
  b.inst.exec = execShuffle;
}

static void voteRow(Build &b, const Row &row) {
  const int mode = b.which({"all", "any", "uni", "ballot"});
  mode == 3 ? (void)b.dst(Type::B32) : b.dstPred();
  const bool negated = b.srcPred();
  b.src(Type::U32);
  b.inst.aux = uint64_t(mode) | (negated ? Negated : 0);
  b.inst.exec = execVote;
}

static void matchRow(Build &b, const Row &row) {
  dstAndPred(b, Type::B32);
  const Type type = b.type();
  b.src(type);
  b.src(Type::U32);
  b.inst.aux = b.has("all");
  b.inst.exec = type == Type::B64 ? execMatch<uint64_t> : execMatch<uint32_t>;
}

static void reduceRow(Build &b, const Row &row) {
  const Type type = b.type();
  b.dst(type);
  b.src(type);
  b.src(Type::U32);
  b.inst.aux = uint64_t(b.which({"add", "min", "max", "and", "or", "xor"}));
  b.inst.exec = isSigned(type) ? execReduce<int32_t> : execReduce<uint32_t>;
}

static void reduceFloatRow(Build &b, const Row &row) {
  b.dst(Type::F32);
  b.src(Type::F32);
  b.src(Type::U32);
  b.inst.aux = (b.has("max") ? 1 : 0) | (b.has("abs") ? 2 : 0) | (b.has("NaN") ? 4 : 0);
  b.inst.exec = execReduceFloat;
}

static void activeMaskRow(Build &b, const Row &row) {
  b.dst(Type::B32);
  b.inst.exec = execActiveMask;
}

static void electRow(Build &b, const Row &row) {
  dstAndPred(b, Type::B32);
  b.src(Type::U32);
  b.inst.exec = execElect;
}

static void findNthSetRow(Build &b, const Row &row) {
  b.dst(Type::B32);
  b.src(Type::B32);
  b.src(Type::B32);
  b.src(Type::S32);
  b.inst.exec = execFindNthSet;
}

std::span<const Row> kvc::sim::ptx::warpRows() {
  static const Row rows[] = {
      {"shfl sync up|down|bfly|idx b32", Class::Shuffle, shuffleRow, 0, 0, 60},
      {"vote sync all|any|uni pred", Class::Vote, voteRow, 0, 0, 60},
      {"vote sync ballot b32", Class::Vote, voteRow, 0, 0, 60},
      {"match any|all sync b32|b64", Class::Vote, matchRow, 0, 70, 60},
      {"redux sync add|min|max u32|s32", Class::Shuffle, reduceRow, 0, 80, 70},
      {"redux sync and|or|xor b32", Class::Shuffle, reduceRow, 0, 80, 70},
      {"redux sync min|max [abs] [NaN] f32", Class::Shuffle, reduceFloatRow, 0, 100, 86},
      {"activemask b32", Class::Vote, activeMaskRow, 0, 0, 62},
      {"elect sync", Class::Vote, electRow, 0, 90, 80},
      {"fns b32", Class::Integer, findNthSetRow, 0, 0, 60},
  };
  return rows;
}
