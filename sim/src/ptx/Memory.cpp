//===- Memory.cpp - Loads, stores and address conversions -----------------===//
#include "ptx/Access.h"
#include "ptx/Decoder.h"
#include "ptx/DecoderImpl.h"

using namespace kvc::sim;
using namespace kvc::sim::ptx;

namespace {

/// Inst::aux of loads and stores.
struct MemoryAux {
  uint8_t element;
  uint8_t count;
  uint8_t registerBytes;
  bool isSigned;
  bool narrow;
  /// Ordered by other means than barriers: volatile, relaxed, acquire, release.
  bool strong;

  uint64_t pack() const {
    return uint64_t(element) | uint64_t(count) << 8 | uint64_t(registerBytes) << 16 | uint64_t(isSigned) << 24 |
           uint64_t(narrow) << 25 | uint64_t(strong) << 26;
  }
  static MemoryAux unpack(uint64_t v) {
    return {uint8_t(v), uint8_t(v >> 8), uint8_t(v >> 16), bool(v >> 24 & 1), bool(v >> 25 & 1), bool(v >> 26 & 1)};
  }
  uint32_t bytes() const { return uint32_t(element) * count; }
};

/// One element from memory to a lane of a register, extended.
inline void toRegister(Warp &warp, Place place, unsigned lane, const uint8_t *from, const MemoryAux &aux) {
  uint8_t *to = warp.lanes<uint8_t>(place) + size_t(lane) * aux.registerBytes;
  if (aux.element == aux.registerBytes) {
    switch (aux.element) {
    case 2:
      std::memcpy(to, from, 2);
      return;
    case 4:
      std::memcpy(to, from, 4);
      return;
    case 8:
      std::memcpy(to, from, 8);
      return;
    default:
      std::memcpy(to, from, aux.element);
      return;
    }
  }
  uint64_t value = 0;
  std::memcpy(&value, from, aux.element);
  if (aux.isSigned && (value >> (8 * aux.element - 1) & 1)) {
    value |= ~uint64_t(0) << (8 * aux.element - 1);
  }
  std::memcpy(to, &value, aux.registerBytes);
}

inline const uint8_t *readAt(Warp &warp, Space space, uint64_t address, const MemoryAux &aux, unsigned lane) {
  const uint32_t size = aux.bytes();
  if (space == Space::Generic) {
    space = windowOf(address);
    if (space != Space::Global) {
      address = uint32_t(address);
    }
  }
  switch (space) {
  case Space::Shared:
  case Space::SharedCluster: {
    if (address >> 32) {
      fail(FaultKind::IllegalAddress, "expects a shared address below 2^32, but got {:#x} (lane {})", address, lane);
    }
    Accessor by = warp.accessor(lane);
    by.atomic = aux.strong;
    return sharedRead(warp, uint32_t(address), size, by);
  }
  case Space::Local:
    return localAt(warp, address, size, lane);
  case Space::Param:
    return paramAt(warp, address, size, lane);
  default:
    return globalAt(warp, address, size, lane, false);
  }
}

inline void count(Warp &warp, const Inst &inst, Space space, const LaneAddresses &addresses, uint32_t active,
                  uint32_t size) {
  if (space == Space::Generic) {
    space = windowOf(addresses.at[std::countr_zero(active)]);
  }
  InstCounters &counters = countersOf(warp, inst);
  if (space == Space::Shared || space == Space::SharedCluster) {
    countShared(counters, addresses, active, size);
  } else if (space == Space::Global || space == Space::Const) {
    countGlobal(counters, addresses, active, size);
  }
}

/// Strong accesses hand clocks on, as atomics do.
inline void synchronise(Warp &warp, uint64_t address, bool release) {
  Clocks &clocks = warp.cta->atomicClocks[uint32_t(address)];
  if (release) {
    clocks.join(warp.clocks);
  } else {
    warp.clocks.join(clocks);
  }
}

template <Space space> void execLoad(Warp &warp, const Inst &inst, uint32_t active) {
  const MemoryAux aux = MemoryAux::unpack(inst.aux);
  LaneAddresses addresses;
  addressesOf(warp, inst.op[aux.count], aux.narrow, inst.imm, addresses);
  count(warp, inst, space, addresses, active, aux.bytes());
  eachLane(active, [&](unsigned lane) {
    const uint64_t address = addresses.at[lane];
    checkAligned(address, aux.bytes(), lane);
    if (aux.strong && (space == Space::Shared || (space == Space::Generic && windowOf(address) == Space::Shared))) {
      synchronise(warp, address, false);
    }
    const uint8_t *from = readAt(warp, space, address, aux, lane);
    for (unsigned i = 0; i < aux.count; ++i) {
      toRegister(warp, inst.op[i], lane, from + i * aux.element, aux);
    }
  });
}

template <Space space> void execStore(Warp &warp, const Inst &inst, uint32_t active) {
  const MemoryAux aux = MemoryAux::unpack(inst.aux);
  LaneAddresses addresses;
  addressesOf(warp, inst.op[0], aux.narrow, inst.imm, addresses);
  count(warp, inst, space, addresses, active, aux.bytes());
  const uint32_t size = aux.bytes();
  eachLane(active, [&](unsigned lane) {
    uint64_t address = addresses.at[lane];
    checkAligned(address, size, lane);
    uint8_t value[32];
    for (unsigned i = 0; i < aux.count; ++i) {
      std::memcpy(value + i * aux.element, warp.lanes<uint8_t>(inst.op[1 + i]) + size_t(lane) * aux.registerBytes,
                  aux.element);
    }
    Space to = space;
    if (to == Space::Generic) {
      to = windowOf(address);
      if (to != Space::Global) {
        address = uint32_t(address);
      }
    }
    switch (to) {
    case Space::Shared:
    case Space::SharedCluster: {
      if (address >> 32) {
        fail(FaultKind::IllegalAddress, "expects a shared address below 2^32, but got {:#x} (lane {})", address, lane);
      }
      Accessor by = warp.accessor(lane);
      by.atomic = aux.strong;
      sharedWrite(warp, uint32_t(address), size, value, by);
      if (aux.strong) {
        synchronise(warp, address, true);
      }
      break;
    }
    case Space::Local:
      std::memcpy(localAt(warp, address, size, lane), value, size);
      break;
    case Space::Param:
      fail(FaultKind::IllegalAddress, "expects memory that can be written, but got a parameter of the kernel (lane {})",
           lane);
    default:
      std::memcpy(globalAt(warp, address, size, lane, true), value, size);
      break;
    }
  });
  if (aux.strong) {
    warp.tick();
  }
}

/// Parameters of functions and calls: Inst::imm is the offset, op[last] the place, and the place's stride is in aux.
void execLoadCallParam(Warp &warp, const Inst &inst, uint32_t active) {
  const MemoryAux aux = MemoryAux::unpack(inst.aux);
  const auto stride = size_t(inst.aux >> 32);
  const uint8_t *base = warp.lanes<uint8_t>(inst.op[aux.count]) + inst.imm;
  eachLane(active, [&](unsigned lane) {
    for (unsigned i = 0; i < aux.count; ++i) {
      toRegister(warp, inst.op[i], lane, base + lane * stride + i * aux.element, aux);
    }
  });
}

void execStoreCallParam(Warp &warp, const Inst &inst, uint32_t active) {
  const MemoryAux aux = MemoryAux::unpack(inst.aux);
  const auto stride = size_t(inst.aux >> 32);
  uint8_t *base = warp.lanes<uint8_t>(inst.op[0]) + inst.imm;
  eachLane(active, [&](unsigned lane) {
    for (unsigned i = 0; i < aux.count; ++i) {
      std::memcpy(base + lane * stride + i * aux.element,
                  warp.lanes<uint8_t>(inst.op[1 + i]) + size_t(lane) * aux.registerBytes, aux.element);
    }
  });
}

void execNothing(Warp &warp, const Inst &inst, uint32_t active) {}

/// Adds (or, with a negative imm, subtracts) the base of a window. aux: the source has 32 bits.
void execConvertAddress(Warp &warp, const Inst &inst, uint32_t active) {
  uint64_t *to = warp.lanes<uint64_t>(inst.op[0]);
  const uint64_t *from = warp.lanes<uint64_t>(inst.op[1]);
  eachLane(active, [&](unsigned lane) { to[lane] = from[lane] + uint64_t(inst.imm); });
}

/// aux: the space that is asked for.
void execIsSpace(Warp &warp, const Inst &inst, uint32_t active) {
  const auto space = Space(inst.aux);
  const uint64_t *a = warp.lanes<uint64_t>(inst.op[1]);
  uint32_t bits = 0;
  eachLane(active, [&](unsigned lane) {
    const Space found = windowOf(a[lane]);
    bool yes = found == space;
    if (found == Space::Shared) {
      // The window of the CTA itself is part of that of the cluster.
      yes = space == Space::SharedCluster || (space == Space::Shared && (uint32_t(a[lane]) >> clusterRankShift) == 0);
    } else if (found == Space::Global && space == Space::Const) {
      const Allocation *allocation = warp.worker->launch->memory->find(a[lane]);
      yes = allocation && allocation->readOnly;
    }
    bits |= uint32_t(yes) << lane;
  });
  uint32_t &d = warp.predicate(inst.op[0]);
  d = (d & ~active) | bits;
}

/// mapa: the address of the same variable in another CTA of the cluster. aux: 1 where the operand is generic.
template <typename T> void execMapAddress(Warp &warp, const Inst &inst, uint32_t active) {
  T *d = warp.lanes<T>(inst.op[0]);
  const T *a = warp.lanes<T>(inst.op[1]);
  const uint32_t *rank = warp.lanes<uint32_t>(inst.op[2]);
  eachLane(active, [&](unsigned lane) {
    if (rank[lane] >= warp.cta->cluster->ctas.size()) {
      fail(FaultKind::InvalidValue, "expects a rank below {}, but got {} (lane {})", warp.cta->cluster->ctas.size(),
           rank[lane], lane);
    }
    const T offset = a[lane] + T(inst.imm);
    const T mask = T((1u << clusterRankShift) - 1);
    const T window = inst.aux ? T(sharedWindow) : T(0);
    d[lane] = window | (offset & mask) | T(rank[lane] + 1) << clusterRankShift;
  });
}

template <typename T> void execGetRank(Warp &warp, const Inst &inst, uint32_t active) {
  uint32_t *d = warp.lanes<uint32_t>(inst.op[0]);
  const T *a = warp.lanes<T>(inst.op[1]);
  eachLane(active, [&](unsigned lane) {
    const uint32_t rank = uint32_t(a[lane]) >> clusterRankShift;
    d[lane] = rank == 0 ? warp.cta->rank : rank - 1;
  });
}

} // namespace

// Decoding ------------------------------------------------------------------------------------------------------------

static Space spaceOf(const Build &b) {
  static constexpr std::pair<std::string_view, Space> spaces[] = {
      {"global", Space::Global},      {"shared", Space::Shared},
      {"shared::cta", Space::Shared}, {"shared::cluster", Space::SharedCluster},
      {"local", Space::Local},        {"const", Space::Const},
      {"param", Space::Param},        {"param::entry", Space::Param},
      {"param::func", Space::Param}};
  for (auto [name, space] : spaces) {
    if (b.has(name)) {
      return space;
    }
  }
  return Space::Generic;
}

static void setKind(Build &b, Space space, bool store) {
  switch (space) {
  case Space::Shared:
  case Space::SharedCluster:
    b.inst.kind = store ? Class::StoreShared : Class::LoadShared;
    break;
  case Space::Global:
  case Space::Generic:
    b.inst.kind = store ? Class::StoreGlobal : Class::LoadGlobal;
    break;
  default:
    b.inst.kind = store ? Class::StoreOther : Class::LoadOther;
    break;
  }
}

/// True when the memory operand is a parameter of a function or a call: takes it.
static bool callParameter(Build &b, MemoryAux &aux, const Operand &operand) {
  if (operand.kind != Operand::Kind::Address || operand.elements.size() != 1 ||
      operand.elements[0].kind != Operand::Kind::Variable) {
    return false;
  }
  const Variable &variable = *operand.elements[0].variable;
  if (variable.space != Space::Param || b.decoder.kernelParameters.count(&variable)) {
    return false;
  }
  b.takeOperand();
  const int64_t offset = operand.offset + operand.elements[0].offset;
  if (offset < 0 || uint64_t(offset) + aux.bytes() > variable.bytes) {
    b.refuse(fmt::format("an access to the {} bytes of {}", variable.bytes, variable.name));
  }
  b.append(b.decoder.callParameterPlace(variable));
  b.inst.imm = offset;
  b.inst.aux = variable.bytes << 32;
  return true;
}

static bool strong(const Build &b) {
  return b.has("volatile") || b.has("relaxed") || b.has("acquire") || b.has("release") || b.has("mmio");
}

static MemoryAux shapeOf(Build &b) {
  const int vector = b.which({"v2", "v4", "v8"});
  MemoryAux aux{};
  aux.element = uint8_t(bytesOf(b.type()));
  aux.count = uint8_t(vector < 0 ? 1 : 2 << vector);
  aux.isSigned = isSigned(b.type());
  aux.strong = strong(b);
  const bool wide = aux.bytes() > 16;
  if (wide && !(aux.bytes() == 32 && b.decoder.target.sm >= 100 && b.has("global"))) {
    b.refuse("at most 16 bytes for a lane (32 of global memory on sm_100 or newer)");
  }
  return aux;
}

static void orderGlobal(Build &b, Space space) {
  // Values that pass between CTAs while they run.
  if (strong(b) && (space == Space::Global || space == Space::Generic)) {
    b.decoder.program.ordered = true;
  }
}

static void cachePolicy(Build &b) {
  if (b.has("L2::cache_hint")) {
    b.src(Type::B64);
  }
}

static void loadRow(Build &b, const Row &row) {
  const Space space = spaceOf(b);
  const Type type = b.type();
  MemoryAux aux = shapeOf(b);
  if (b.has("nc") && space != Space::Global) {
    b.refuse(".global where .nc is");
  }
  setKind(b, space, false);
  orderGlobal(b, space);
  aux.registerBytes = 0;
  if (aux.count == 1 && b.vectorSize() == 1 && b.peek().kind != Operand::Kind::Vector) {
    aux.registerBytes = uint8_t(b.dst(type, true));
  } else {
    const Operand &vector = b.peek();
    b.dstVector(type, aux.count, true);
    for (const Operand &element : vector.elements) {
      if (element.kind == Operand::Kind::Register) {
        const auto bytes = uint8_t(std::max(2u, bytesOf(b.decoder.registerType(element.reg))));
        if (aux.registerBytes != 0 && aux.registerBytes != bytes) {
          b.refuse("registers of one size");
        }
        aux.registerBytes = bytes;
      }
    }
    for (const Operand &element : vector.elements) {
      // Sinks have the type's size; others must not be wider beside them.
      if (element.kind == Operand::Kind::Sink) {
        const auto bytes = uint8_t(std::max(2u, bytesOf(type)));
        if (aux.registerBytes != 0 && aux.registerBytes != bytes) {
          b.refuse("registers of the type's size beside '_'");
        }
        aux.registerBytes = bytes;
      }
    }
  }
  if (space == Space::Param && callParameter(b, aux, b.peek())) {
    b.inst.aux |= aux.pack();
    b.inst.exec = execLoadCallParam;
    return;
  }
  aux.narrow = b.address(space);
  cachePolicy(b);
  b.inst.aux = aux.pack();
  switch (space) {
  case Space::Generic:
    b.inst.exec = execLoad<Space::Generic>;
    break;
  case Space::Global:
  case Space::Const:
    b.inst.exec = execLoad<Space::Global>;
    break;
  case Space::Shared:
  case Space::SharedCluster:
    b.inst.exec = execLoad<Space::Shared>;
    break;
  case Space::Local:
    b.inst.exec = execLoad<Space::Local>;
    break;
  case Space::Param:
    b.inst.exec = execLoad<Space::Param>;
    break;
  }
}

static void storeRow(Build &b, const Row &row) {
  const Space space = spaceOf(b);
  const Type type = b.type();
  MemoryAux aux = shapeOf(b);
  if (space == Space::Const) {
    b.refuse("a space that can be written");
  }
  setKind(b, space, true);
  orderGlobal(b, space);
  const bool inCall = space == Space::Param && callParameter(b, aux, b.peek());
  if (!inCall) {
    aux.narrow = b.address(space);
  }
  if (aux.count == 1 && b.peek().kind != Operand::Kind::Vector) {
    aux.registerBytes = uint8_t(b.src(type, true));
  } else {
    const Operand &vector = b.peek();
    b.srcVector(type, aux.count, true);
    aux.registerBytes = uint8_t(std::max(2u, bytesOf(type)));
    for (const Operand &element : vector.elements) {
      if (element.kind == Operand::Kind::Register &&
          std::max(2u, bytesOf(b.decoder.registerType(element.reg))) != aux.registerBytes) {
        b.refuse("registers of the type's size in braces");
      }
    }
  }
  cachePolicy(b);
  if (inCall) {
    b.inst.aux |= aux.pack();
    b.inst.exec = execStoreCallParam;
    return;
  }
  b.inst.aux = aux.pack();
  switch (space) {
  case Space::Generic:
    b.inst.exec = execStore<Space::Generic>;
    break;
  case Space::Global:
    b.inst.exec = execStore<Space::Global>;
    break;
  case Space::Shared:
  case Space::SharedCluster:
    b.inst.exec = execStore<Space::Shared>;
    break;
  case Space::Local:
    b.inst.exec = execStore<Space::Local>;
    break;
  default:
    b.refuse("a parameter of a call");
  }
}

/// Hints: the operand is checked for its form only.
static void hint(Build &b, const Row &row) {
  b.address(spaceOf(b));
  while (b.left() > 0) {
    b.src(Type::B32, true);
  }
  b.inst.exec = execNothing;
}

static void createPolicy(Build &b, const Row &row) {
  // A policy changes no result; its value is only handed on.
  b.dst(Type::B64);
  const Place place = b.constant(0, 8);
  while (b.left() > 0) {
    b.takeOperand();
  }
  b.append(place);
  b.inst.imm = 0;
  b.inst.exec = execConvertAddress;
}

static void cvtaRow(Build &b, const Row &row) {
  const Space space = spaceOf(b);
  const bool to = b.has("to");
  b.dst(Type::B64);
  const Operand &operand = b.peek();
  if (operand.kind == Operand::Kind::Variable && operand.variable->space != space &&
      !(space == Space::SharedCluster && operand.variable->space == Space::Shared)) {
    b.refuse(fmt::format("a variable of the {} space", nameOf(space)));
  }
  b.src(Type::B64);
  uint64_t window = 0;
  switch (space) {
  case Space::Shared:
  case Space::SharedCluster:
    window = sharedWindow;
    break;
  case Space::Local:
    window = localWindow;
    break;
  case Space::Param:
    window = paramWindow;
    break;
  default:
    break;
  }
  b.inst.imm = int64_t(to ? -window : window);
  b.inst.exec = execConvertAddress;
}

static void isspacepRow(Build &b, const Row &row) {
  b.dstPred();
  b.src(Type::B64);
  b.inst.aux = uint64_t(spaceOf(b));
  b.inst.exec = execIsSpace;
}

static void mapaRow(Build &b, const Row &row) {
  const Type type = b.type();
  const bool generic = spaceOf(b) == Space::Generic;
  b.dst(type);
  b.src(type);
  b.src(Type::U32);
  b.inst.aux = generic;
  b.inst.exec = bitsOf(type) == 64 ? execMapAddress<uint64_t> : execMapAddress<uint32_t>;
}

static void getRankRow(Build &b, const Row &row) {
  const Type type = b.type();
  b.dst(Type::U32);
  b.src(type);
  b.inst.exec = bitsOf(type) == 64 ? execGetRank<uint64_t> : execGetRank<uint32_t>;
}

std::span<const Row> kvc::sim::ptx::memoryRows() {
  static const Row rows[] = {
      {"ld [weak|volatile] [<space>] [<ldcop>] [nc] [<evict>] [<l2evict>] [L2::cache_hint] [<l2pre>] [<vec>] <any>",
       Class::LoadGlobal, loadRow},
      {"ld relaxed|acquire|mmio <scope> [<space>] [<evict>] [<l2evict>] [L2::cache_hint] [<l2pre>] [<vec>] <any>",
       Class::LoadGlobal, loadRow, 0, 70, 60},
      {"ldu [global] [<vec>] <any>", Class::LoadGlobal, loadRow},
      {"st [weak|volatile] [<space>] [<stcop>] [<evict>] [<l2evict>] [L2::cache_hint] [<vec>] <any>",
       Class::StoreGlobal, storeRow},
      {"st relaxed|release|mmio <scope> [<space>] [<evict>] [<l2evict>] [L2::cache_hint] [<vec>] <any>",
       Class::StoreGlobal, storeRow, 0, 70, 60},
      {"prefetch [global|local] L1|L2", Class::Other, hint},
      {"prefetch global L2::evict_last|L2::evict_normal", Class::Other, hint},
      {"prefetchu L1", Class::Other, hint},
      {"applypriority [global] L2::evict_normal", Class::Other, hint, 0, 80, 74},
      {"createpolicy fractional L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged "
       "[L2::evict_first|L2::evict_unchanged] b64",
       Class::Other, createPolicy, 0, 80, 74},
      {"createpolicy range [global] L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged "
       "[L2::evict_first|L2::evict_unchanged] b64",
       Class::Other, createPolicy, 0, 80, 74},
      {"createpolicy cvt L2 b64", Class::Other, createPolicy, 0, 80, 74},
      {"cvta [to] <space> u64", Class::Integer, cvtaRow},
      {"isspacep <space>", Class::Compare, isspacepRow},
      {"mapa [shared::cluster] u32|u64", Class::Integer, mapaRow, 0, 90, 78},
      {"getctarank [shared::cluster] u32|u64", Class::Integer, getRankRow, 0, 90, 78},
  };
  return rows;
}
