//===- Atomic.cpp - Atomic operations and reductions in memory ------------===//
#include "common/Floats.h"
#include "ptx/Access.h"
#include "ptx/Decoder.h"
#include "ptx/DecoderImpl.h"

using namespace kvc::sim;
using namespace kvc::sim::ptx;

namespace {

enum class Op : uint8_t { Add, Min, Max, Inc, Dec, And, Or, Xor, Exch, Cas };

struct AtomicAux {
  Op op;
  Type type;
  /// Elements of a vector.
  uint8_t count;
  bool narrow, hasResult;
  Space space;

  uint64_t pack() const {
    return uint64_t(op) | uint64_t(type) << 8 | uint64_t(count) << 16 | uint64_t(narrow) << 24 |
           uint64_t(hasResult) << 25 | uint64_t(space) << 32;
  }
  static AtomicAux unpack(uint64_t v) {
    return {Op(v & 255), Type(v >> 8 & 255), uint8_t(v >> 16), bool(v >> 24 & 1), bool(v >> 25 & 1), Space(v >> 32)};
  }
};

float flushed(float v) { return std::fabs(v) < 0x1p-126f ? std::copysign(0.0f, v) : v; }

uint16_t halfOp(const FloatFormat &format, Op op, uint16_t a, uint16_t b) {
  const double x = decodeFloat(format, a), y = decodeFloat(format, b);
  if (op == Op::Add) {
    return uint16_t(encodeFloat(format, x + y, Rounding::RN));
  }
  if (std::isnan(x) || std::isnan(y)) {
    return std::isnan(x) && std::isnan(y) ? uint16_t(format.nan) : std::isnan(x) ? b : a;
  }
  // Of zeros the negative one is smaller.
  const bool less = x < y || (x == y && std::signbit(x));
  return (op == Op::Min) == less ? a : b;
}

template <typename T> T integerOp(Op op, T a, T b) {
  using U = std::make_unsigned_t<T>;
  switch (op) {
  case Op::Add:
    return T(U(a) + U(b));
  case Op::Min:
    return a < b ? a : b;
  case Op::Max:
    return a > b ? a : b;
  case Op::Inc:
    return a >= b ? T(0) : T(U(a) + 1);
  case Op::Dec:
    return a == 0 || a > b ? b : T(U(a) - 1);
  case Op::And:
    return a & b;
  case Op::Or:
    return a | b;
  case Op::Xor:
    return a ^ b;
  default:
    return b;
  }
}

/// What memory holds afterwards. Elements are up to 64 bits.
uint64_t combine(const AtomicAux &aux, uint64_t old, uint64_t b, uint64_t c, bool global) {
  if (aux.op == Op::Exch) {
    return b;
  }
  if (aux.op == Op::Cas) {
    return old == b ? c : old;
  }
  switch (aux.type) {
  case Type::U32:
  case Type::B32:
    return integerOp(aux.op, uint32_t(old), uint32_t(b));
  case Type::S32:
    return uint32_t(integerOp(aux.op, int32_t(old), int32_t(b)));
  case Type::U64:
  case Type::B64:
    return integerOp(aux.op, old, b);
  case Type::S64:
    return uint64_t(integerOp(aux.op, int64_t(old), int64_t(b)));
  case Type::F32: {
    // On global memory denormals are flushed, on shared memory they are not.
    float x = std::bit_cast<float>(uint32_t(old)), y = std::bit_cast<float>(uint32_t(b));
    const float sum = global ? flushed(flushed(x) + flushed(y)) : x + y;
    return sum != sum ? 0x7fffffffu : std::bit_cast<uint32_t>(sum);
  }
  case Type::F64:
    return std::bit_cast<uint64_t>(std::bit_cast<double>(old) + std::bit_cast<double>(b));
  case Type::F16:
    return halfOp(formatF16, aux.op, uint16_t(old), uint16_t(b));
  case Type::BF16:
    return halfOp(formatBF16, aux.op, uint16_t(old), uint16_t(b));
  case Type::F16x2:
  case Type::BF16x2: {
    const FloatFormat &format = aux.type == Type::F16x2 ? formatF16 : formatBF16;
    return halfOp(format, aux.op, uint16_t(old), uint16_t(b)) |
           uint32_t(halfOp(format, aux.op, uint16_t(old >> 16), uint16_t(b >> 16))) << 16;
  }
  default:
    return b;
  }
}

/// Read-modify-write that other threads of the host may do at the same time.
template <typename T, typename F> T exchange(uint8_t *at, F f) {
  auto *word = reinterpret_cast<T *>(at);
  T old = __atomic_load_n(word, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(word, &old, T(f(old)), false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
  }
  return old;
}

void execAtomic(Warp &warp, const Inst &inst, uint32_t active) {
  const AtomicAux aux = AtomicAux::unpack(inst.aux);
  const unsigned size = bytesOf(aux.type), total = size * aux.count;
  const Place *results = inst.op;
  const Place base = inst.op[aux.hasResult ? aux.count : 0];
  const Place *sources = inst.op + (aux.hasResult ? aux.count : 0) + 1;
  LaneAddresses addresses;
  addressesOf(warp, base, aux.narrow, inst.imm, addresses);
  bool touchesShared = false;
  eachLane(active, [&](unsigned lane) {
    uint64_t address = addresses.at[lane];
    checkAligned(address, total, lane);
    Space space = aux.space;
    if (space == Space::Generic) {
      space = windowOf(address);
      address = space == Space::Global ? address : uint32_t(address);
    }
    auto source = [&](unsigned i) {
      uint64_t value = 0;
      std::memcpy(&value, warp.lanes<uint8_t>(sources[i]) + size_t(lane) * std::max(2u, size), size);
      return value;
    };
    uint8_t *at;
    if (space == Space::Shared || space == Space::SharedCluster) {
      touchesShared = true;
      auto shared = uint32_t(address);
      Cta &owner = sharedOwner(warp, shared);
      if (&owner == warp.cta) {
        Clocks &clocks = owner.atomicClocks[shared];
        warp.clocks.join(clocks);
        owner.shared.atomic(shared, total, warp.accessor(lane));
        clocks.join(warp.clocks);
      } else {
        owner.shared.checkBounds(shared, total);
      }
      at = owner.shared.data() + shared;
    } else if (space == Space::Local) {
      at = localAt(warp, address, total, lane);
    } else {
      at = globalAt(warp, address, total, lane, true);
    }
    const bool global = space == Space::Global;
    for (unsigned i = 0; i < aux.count; ++i) {
      const uint64_t b = source(i), c = aux.op == Op::Cas ? source(1) : 0;
      auto next = [&](uint64_t old) { return combine(aux, old, b, c, global); };
      uint64_t old;
      switch (size) {
      case 2:
        old = exchange<uint16_t>(at + 2 * i, next);
        break;
      case 4:
        old = exchange<uint32_t>(at + 4 * i, next);
        break;
      default:
        old = exchange<uint64_t>(at + 8 * i, next);
        break;
      }
      if (aux.hasResult) {
        std::memcpy(warp.lanes<uint8_t>(results[i]) + size_t(lane) * std::max(2u, size), &old, size);
      }
    }
  });
  if (touchesShared) {
    warp.tick();
    countShared(countersOf(warp, inst), addresses, active, total);
  } else {
    countGlobal(countersOf(warp, inst), addresses, active, total);
  }
}

} // namespace

static Space spaceOf(const Build &b) {
  return b.has("global")                           ? Space::Global
         : b.has("shared") || b.has("shared::cta") ? Space::Shared
         : b.has("shared::cluster")                ? Space::SharedCluster
                                                   : Space::Generic;
}

static void atomicRow(Build &b, const Row &row) {
  AtomicAux aux{};
  aux.op = Op(b.which({"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"}));
  aux.type = b.type();
  const int vector = b.which({"v2", "v4", "v8"});
  aux.count = uint8_t(vector < 0 ? 1 : 2 << vector);
  aux.space = spaceOf(b);
  aux.hasResult = b.source.opcode == "atom";
  if (bytesOf(aux.type) * aux.count > 16) {
    b.refuse("at most 16 bytes");
  }
  const bool global = aux.space == Space::Global || aux.space == Space::Generic;
  const bool commutes = !aux.hasResult && !isFloat(aux.type) && infoOf(aux.type).kind != TypeKind::Packed &&
                        (aux.op == Op::Add || aux.op == Op::Min || aux.op == Op::Max || aux.op == Op::And ||
                         aux.op == Op::Or || aux.op == Op::Xor);
  if (global && !commutes) {
    b.decoder.program.ordered = true;
  }
  if (aux.hasResult) {
    b.dstVector(aux.type, aux.count);
  }
  aux.narrow = b.address(aux.space);
  b.srcVector(aux.type, aux.count);
  if (aux.op == Op::Cas) {
    b.src(aux.type);
  }
  if (b.has("L2::cache_hint")) {
    b.src(Type::B64);
  }
  b.inst.aux = aux.pack();
  b.inst.exec = execAtomic;
}

#define KVCSIM_ATOMIC " [<asem>] [<scope>] [global|shared|shared::cta|shared::cluster] "

std::span<const Row> kvc::sim::ptx::atomicRows() {
  static const Row rows[] = {
      {"atom" KVCSIM_ATOMIC "and|or|xor|exch [L2::cache_hint] b32|b64", Class::Atomic, atomicRow},
      {"atom" KVCSIM_ATOMIC "cas [L2::cache_hint] b16|b32|b64", Class::Atomic, atomicRow},
      {"atom" KVCSIM_ATOMIC "add [L2::cache_hint] u32|s32|u64|f32|f64", Class::Atomic, atomicRow},
      {"atom" KVCSIM_ATOMIC "min|max [L2::cache_hint] u32|s32|u64|s64", Class::Atomic, atomicRow},
      {"atom" KVCSIM_ATOMIC "inc|dec [L2::cache_hint] u32", Class::Atomic, atomicRow},
      {"atom" KVCSIM_ATOMIC "add noftz [L2::cache_hint] <half>", Class::Atomic, atomicRow, 0, 70, 62},
      {"atom" KVCSIM_ATOMIC "add [L2::cache_hint] v2|v4 f32", Class::Atomic, atomicRow, 0, 90, 81},
      {"atom" KVCSIM_ATOMIC "add|min|max noftz [L2::cache_hint] <vec> <half>", Class::Atomic, atomicRow, 0, 90, 81},
      {"red" KVCSIM_ATOMIC "and|or|xor [L2::cache_hint] b32|b64", Class::Atomic, atomicRow},
      {"red" KVCSIM_ATOMIC "add [L2::cache_hint] u32|s32|u64|f32|f64", Class::Atomic, atomicRow},
      {"red" KVCSIM_ATOMIC "min|max [L2::cache_hint] u32|s32|u64|s64", Class::Atomic, atomicRow},
      {"red" KVCSIM_ATOMIC "inc|dec [L2::cache_hint] u32", Class::Atomic, atomicRow},
      {"red" KVCSIM_ATOMIC "add noftz [L2::cache_hint] <half>", Class::Atomic, atomicRow, 0, 70, 62},
      {"red" KVCSIM_ATOMIC "add [L2::cache_hint] v2|v4 f32", Class::Atomic, atomicRow, 0, 90, 81},
      {"red" KVCSIM_ATOMIC "add|min|max noftz [L2::cache_hint] <vec> <half>", Class::Atomic, atomicRow, 0, 90, 81},
  };
  return rows;
}
