//===- Wgmma.cpp - Matrix products of a warpgroup -------------------------===//
//
// Each warp of a warpgroup computes its 16 rows of the 64 by itself. A product takes effect when its warp waits for the
// group: it reads shared memory and the registers of A then, so what overwrites them before the wait changes the result
// (and is a race). Registers of accumulators in flight may only be accumulated into, or copied: compilers place copies
// of accumulators between products and count on them being removed. A copy completes the products before it, and its
// destination is in flight too.
// Between an access to a register by any other instruction but a copy and a product that has it as accumulator or as A
// there must be wgmma.fence, and one before the first product.
//
//===----------------------------------------------------------------------===//
#include "common/Floats.h"
#include "ptx/Access.h"
#include "ptx/Barrier.h"
#include "ptx/Decoder.h"
#include "ptx/DecoderImpl.h"

#include <deque>

using namespace kvc::sim;
using namespace kvc::sim::ptx;

namespace {

constexpr unsigned maxN = 256, maxK = 32, rowsOfWarp = 16;

/// Inst::aux of wgmma.mma_async.
struct WgmmaAux {
  uint16_t n;
  uint8_t k;
  Type a, b, d;
  /// A comes from registers; A and B have M, or N, as their fastest dimension; they are negated.
  bool registersA, transposedA, transposedB, negatedA, negatedB, scaleNegated, saturate;

  uint64_t pack() const {
    return uint64_t(n) | uint64_t(k) << 16 | uint64_t(a) << 24 | uint64_t(b) << 32 | uint64_t(d) << 40 |
           uint64_t(registersA) << 48 | uint64_t(transposedA) << 49 | uint64_t(transposedB) << 50 |
           uint64_t(negatedA) << 51 | uint64_t(negatedB) << 52 | uint64_t(scaleNegated) << 53 |
           uint64_t(saturate) << 54;
  }
  static WgmmaAux unpack(uint64_t v) {
    return {uint16_t(v),         uint8_t(v >> 16),  Type(v >> 24 & 255), Type(v >> 32 & 255),
            Type(v >> 40 & 255), bool(v >> 48 & 1), bool(v >> 49 & 1),   bool(v >> 50 & 1),
            bool(v >> 51 & 1),   bool(v >> 52 & 1), bool(v >> 53 & 1),   bool(v >> 54 & 1)};
  }
  /// Registers of D of a lane.
  unsigned dCount() const { return d == Type::F16 ? n / 4 : n / 2; }
};

/// A matrix descriptor: where 8 x 16-byte pieces of an operand lie.
struct Descriptor {
  uint32_t start, leading, stride;
  unsigned mode;

  static Descriptor unpack(uint64_t v) {
    if (v >> 49 & 7) {
      fail(FaultKind::Unsupported, "expects a matrix descriptor with base offset 0, but got {}", v >> 49 & 7);
    }
    return {uint32_t(v & 0x3fff) << 4, uint32_t(v >> 16 & 0x3fff) << 4, uint32_t(v >> 32 & 0x3fff) << 4,
            unsigned(v >> 62)};
  }
  /// 16-byte chunks of a row of the swizzle pattern.
  uint32_t chunks() const {
    static constexpr uint32_t perMode[] = {1, 8, 4, 2};
    return perMode[mode];
  }
  uint32_t swizzled(uint32_t address) const {
    static constexpr unsigned bits[] = {0, 3, 2, 1};
    return address ^ ((address >> 7 & ((1u << bits[mode]) - 1)) << 4);
  }
  /// The chunk that holds elements [row][t*T ...] of an operand whose fastest dimension is k.
  uint32_t chunkK(uint32_t row, uint32_t kChunk) const {
    const uint32_t w = chunks();
    return swizzled(start + row % 8 * 16 * w + row / 8 * stride + kChunk * (w == 1 ? leading : 16));
  }
  /// The chunk that holds elements [m*T ...][k] of an operand whose fastest dimension is m.
  uint32_t chunkM(uint32_t mChunk, uint32_t k) const {
    const uint32_t w = chunks();
    return swizzled(w == 1 ? start + mChunk * stride + k % 8 * 16 + k / 8 * leading
                           : start + mChunk % w * 16 + mChunk / w * leading + k % 8 * 16 * w + k / 8 * stride);
  }
};

/// Elements of a 16-byte chunk.
template <typename T> void decodeChunk(Type type, const uint8_t *from, T *to) {
  for (unsigned i = 0; i < 128 / bitsOf(type); ++i) {
    switch (type) {
    case Type::F16:
    case Type::BF16: {
      uint16_t code;
      std::memcpy(&code, from + 2 * i, 2);
      to[i] = T(type == Type::F16 ? f16ToFloat(code) : bf16ToFloat(code));
      break;
    }
    case Type::TF32: {
      uint32_t code;
      std::memcpy(&code, from + 4 * i, 4);
      to[i] = T(std::bit_cast<float>(code & 0xffffe000u));
      break;
    }
    case Type::E4M3:
      to[i] = T(decodeFloat(formatE4M3, from[i]));
      break;
    case Type::E5M2:
      to[i] = T(decodeFloat(formatE5M2, from[i]));
      break;
    case Type::S8:
      to[i] = T(int8_t(from[i]));
      break;
    default:
      to[i] = T(from[i]);
      break;
    }
  }
}

/// Reads an operand into [k][row], `rows` from `first` on.
template <typename T, size_t pitch>
void readOperand(Warp &warp, const Descriptor &at, Type type, bool transposed, uint32_t first, uint32_t rows,
                 uint32_t k, const Accessor &by, T (*to)[pitch]) {
  const uint32_t perChunk = 128 / bitsOf(type);
  SharedMemory &shared = warp.cta->shared;
  T chunk[16];
  if (!transposed) {
    for (uint32_t row = 0; row < rows; ++row) {
      for (uint32_t c = 0; c < k / perChunk; ++c) {
        decodeChunk(type, shared.read(at.chunkK(first + row, c), 16, by), chunk);
        for (uint32_t i = 0; i < perChunk; ++i) {
          to[c * perChunk + i][row] = chunk[i];
        }
      }
    }
    return;
  }
  for (uint32_t kk = 0; kk < k; ++kk) {
    for (uint32_t m = 0; m < rows / perChunk; ++m) {
      decodeChunk(type, shared.read(at.chunkM(first / perChunk + m, kk), 16, by), chunk);
      for (uint32_t i = 0; i < perChunk; ++i) {
        to[kk][m * perChunk + i] = chunk[i];
      }
    }
  }
}

#ifdef __x86_64__
[[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]
#endif
void multiply(const float (*a)[rowsOfWarp], const float (*b)[maxN], float (*d)[maxN], unsigned n, unsigned k) {
  for (unsigned m = 0; m < rowsOfWarp; ++m) {
    for (unsigned i = 0; i < k; ++i) {
      for (unsigned j = 0; j < n; ++j) {
        d[m][j] = __builtin_fmaf(a[i][m], b[i][j], d[m][j]);
      }
    }
  }
}

void multiply(const int32_t (*a)[rowsOfWarp], const int32_t (*b)[maxN], int64_t (*d)[maxN], unsigned n, unsigned k) {
  for (unsigned m = 0; m < rowsOfWarp; ++m) {
    for (unsigned i = 0; i < k; ++i) {
      for (unsigned j = 0; j < n; ++j) {
        d[m][j] += int64_t(a[i][m]) * b[i][j];
      }
    }
  }
}

/// A of a lane in registers, as of mma.sync: rows g and g + 8, then columns.
template <typename T> void gatherA(Warp &warp, const WgmmaAux &aux, const Place *places, T (*a)[rowsOfWarp]) {
  const unsigned perWord = 32 / bitsOf(aux.a);
  for (unsigned lane = 0; lane < laneCount; ++lane) {
    for (unsigned j = 0; j < 4; ++j) {
      const uint32_t word = warp.lanes<uint32_t>(places[j])[lane];
      uint8_t bytes[16] = {};
      std::memcpy(bytes, &word, 4);
      T elements[16];
      decodeChunk(aux.a, bytes, elements);
      for (unsigned i = 0; i < perWord; ++i) {
        a[(j >> 1) * 4 * perWord + (lane & 3) * perWord + i][(lane >> 2) + 8 * (j & 1)] = elements[i];
      }
    }
  }
}

/// The accumulators of a lane: columns 8 (i / 4) + 2t + i % 2, rows g and g + 8.
template <typename F> void eachAccumulator(unsigned n, F f) {
  for (unsigned lane = 0; lane < laneCount; ++lane) {
    for (unsigned i = 0; i < n / 2; ++i) {
      f(lane, i, (lane >> 2) + 8 * (i >> 1 & 1), 8 * (i >> 2) + 2 * (lane & 3) + (i & 1));
    }
  }
}

template <typename T, typename D> void compute(Warp &warp, const PendingWgmma &pending) {
  const Inst &inst = *pending.inst;
  const WgmmaAux aux = WgmmaAux::unpack(inst.aux);
  const Accessor by{warpAgents + warp.index, 0, &pending.clocks, true, false};
  static thread_local T a[maxK][rowsOfWarp], b[maxK][maxN];
  static thread_local D d[rowsOfWarp][maxN];
  const Place *dPlaces = inst.op;
  if (aux.registersA) {
    gatherA(warp, aux, inst.op + aux.dCount(), a);
  } else {
    readOperand(warp, Descriptor::unpack(pending.a), aux.a, aux.transposedA, rowsOfWarp * (warp.index % 4), rowsOfWarp,
                aux.k, by, a);
  }
  readOperand(warp, Descriptor::unpack(pending.b), aux.b, aux.transposedB, 0, aux.n, aux.k, by, b);
  if (aux.negatedA != aux.negatedB) {
    for (unsigned k = 0; k < aux.k; ++k) {
      for (unsigned m = 0; m < rowsOfWarp; ++m) {
        a[k][m] = -a[k][m];
      }
    }
  }
  eachAccumulator(aux.n, [&](unsigned lane, unsigned i, unsigned row, unsigned column) {
    D value = 0;
    if (pending.accumulate) {
      if (aux.d == Type::F16) {
        value = D(f16ToFloat(uint16_t(warp.lanes<uint32_t>(dPlaces[i >> 1])[lane] >> (16 * (i & 1)))));
      } else if (aux.d == Type::F32) {
        value = D(warp.lanes<float>(dPlaces[i])[lane]);
      } else {
        value = D(warp.lanes<int32_t>(dPlaces[i])[lane]);
      }
    }
    d[row][column] = value;
  });
  multiply(a, b, d, aux.n, aux.k);
  eachAccumulator(aux.n, [&](unsigned lane, unsigned i, unsigned row, unsigned column) {
    const D value = d[row][column];
    if (aux.d == Type::F16) {
      uint32_t &word = warp.lanes<uint32_t>(dPlaces[i >> 1])[lane];
      const uint32_t bits = floatToF16(float(value));
      word = i & 1 ? (word & 0xffff) | bits << 16 : (word & 0xffff0000) | bits;
    } else if (aux.d == Type::F32) {
      const auto f = float(value);
      warp.lanes<uint32_t>(dPlaces[i])[lane] = f != f ? 0x7fffffffu : std::bit_cast<uint32_t>(f);
    } else {
      const auto wide = int64_t(value);
      warp.lanes<int32_t>(dPlaces[i])[lane] =
          aux.saturate ? int32_t(std::clamp<int64_t>(wide, INT32_MIN, INT32_MAX)) : int32_t(wide);
    }
  });
}

void completeOne(Warp &warp, const PendingWgmma &pending) {
  const WgmmaAux aux = WgmmaAux::unpack(pending.inst->aux);
  try {
    aux.d == Type::S32 ? compute<int32_t, int64_t>(warp, pending) : compute<float, float>(warp, pending);
  } catch (const Fault &fault) {
    throw Fault(fault.kind,
                fmt::format("{}: {}", describe(*warp.worker->launch->program, *pending.inst), fault.what()));
  }
}

/// Groups below `groups` take effect, and their registers may be used.
void completeGroups(Warp &warp, uint32_t groups) {
  size_t n = 0;
  while (n < warp.wgmmas.size() && warp.wgmmas[n].group < groups) {
    completeOne(warp, warp.wgmmas[n]);
    warp.clocks.seen[warpAgents + warp.index] =
        std::max(warp.clocks.seen[warpAgents + warp.index], warp.wgmmas[n].clocks.seen[warpAgents + warp.index]);
    ++n;
  }
  warp.wgmmas.erase(warp.wgmmas.begin(), warp.wgmmas.begin() + ptrdiff_t(n));
  warp.anyInFlight = false;
  for (uint32_t &mark : warp.inFlight) {
    mark = mark != 0 && mark - 1 < groups ? 0 : mark;
    warp.anyInFlight |= mark != 0;
  }
}

uint32_t &markOf(Warp &warp, Place place) { return warp.inFlight[place >> 6]; }

/// op: D, A (registers or a descriptor), descriptor of B, scale-d.
void execProduct(Warp &warp, const Inst &inst, uint32_t active) {
  const WgmmaAux aux = WgmmaAux::unpack(inst.aux);
  const unsigned aCount = aux.registersA ? 4 : 1;
  const Place *rest = inst.op + aux.dCount();
  auto uniform = [&](Place place, const char *what) {
    const uint64_t *values = warp.lanes<uint64_t>(place);
    for (unsigned lane = 1; lane < laneCount; ++lane) {
      if (values[lane] != values[0]) {
        fail(FaultKind::InvalidValue, "expects the same descriptor of {} in all lanes, but got {:#x} and {:#x}", what,
             values[0], values[lane]);
      }
    }
    return values[0];
  };
  PendingWgmma pending{&inst, 0, 0, false, warp.wgmmaGroup, warp.clocks};
  if (!aux.registersA) {
    pending.a = uniform(rest[0], "A");
    Descriptor::unpack(pending.a);
  }
  pending.b = uniform(rest[aCount], "B");
  Descriptor::unpack(pending.b);
  pending.accumulate = ((warp.predicate(rest[aCount + 1]) ^ (aux.scaleNegated ? allLanes : 0)) & 1) != 0;
  pending.clocks.seen[warpAgents + warp.index] = ++warp.agentClock;
  warp.tick();
  if (warp.inFlight.empty()) {
    warp.inFlight.assign(warp.worker->launch->program->registerBytes / 64 + 2, 0);
  }
  // A register in flight that is A now: the product before it must be complete.
  for (unsigned i = 0; aux.registersA && i < 4; ++i) {
    if (markOf(warp, rest[i]) != 0) {
      fail(FaultKind::Race, "expects wgmma.wait_group before a register that is in flight is used as A");
    }
  }
  if (warp.registerFences == 1) {
    fail(FaultKind::Race, "expects wgmma.fence before the first matrix product");
  }
  auto checkFenced = [&](Place place, const char *what) {
    if (warp.accessed[place >> 6] == warp.registerFences) {
      fail(FaultKind::Race, "expects wgmma.fence between the last use of a register of {} and the matrix product",
           what);
    }
  };
  for (unsigned i = 0; aux.registersA && i < 4; ++i) {
    checkFenced(rest[i], "A");
  }
  for (unsigned i = 0; i < aux.dCount(); ++i) {
    checkFenced(inst.op[i], "D");
    markOf(warp, inst.op[i]) = warp.wgmmaGroup + 1;
    markOf(warp, inst.op[i] + 64) = warp.wgmmaGroup + 1;
  }
  warp.anyInFlight = true;
  warp.wgmmas.push_back(pending);
  if (warp.worker->launch->options->earlyAsync) {
    completeOne(warp, warp.wgmmas.back());
    warp.wgmmas.pop_back();
  }
}

void execCommit(Warp &warp, const Inst &inst, uint32_t active) { ++warp.wgmmaGroup; }

void execWait(Warp &warp, const Inst &inst, uint32_t active) {
  completeGroups(warp, warp.wgmmaGroup > inst.aux ? warp.wgmmaGroup - uint32_t(inst.aux) : 0);
}

void execFence(Warp &warp, const Inst &inst, uint32_t active) { ++warp.registerFences; }

bool isCopy(const Inst &inst) { return inst.kind == Class::Move && inst.count == 2; }

} // namespace

void kvc::sim::ptx::noteAccess(Warp &warp, const Inst &inst) {
  if (inst.kind == Class::Mma || isCopy(inst)) {
    return;
  }
  for (unsigned i = 0; i < inst.count; ++i) {
    if (inst.op[i] < noPlace && !(inst.op[i] & constantBit)) {
      warp.accessed[inst.op[i] >> 6] = warp.registerFences;
    }
  }
}

void kvc::sim::ptx::checkInFlight(Warp &warp, const Inst &inst) {
  if (inst.kind == Class::Mma || inst.count == 0) {
    return;
  }
  bool any = false;
  for (unsigned i = 0; i < inst.count; ++i) {
    const Place place = inst.op[i];
    any |= place < noPlace && markOf(warp, place) != 0;
  }
  if (!any) {
    return;
  }
  if (!isCopy(inst)) {
    fail(FaultKind::Race, "expects wgmma.wait_group before a register of a matrix product in flight is used");
  }
  while (!warp.wgmmas.empty()) {
    completeOne(warp, warp.wgmmas.front());
    warp.wgmmas.erase(warp.wgmmas.begin());
  }
  const uint32_t mark = inst.op[1] & constantBit ? 0 : markOf(warp, inst.op[1]);
  if (mark != 0) {
    markOf(warp, inst.op[0]) = mark;
    markOf(warp, inst.op[0] + 64) = mark;
  }
}

// Decoding ------------------------------------------------------------------------------------------------------------

static void productRow(Build &b, const Row &row) {
  WgmmaAux aux{};
  std::string_view shape;
  for (std::string_view modifier : b.matched) {
    if (modifier.substr(0, 4) == "m64n") {
      shape = modifier;
    }
  }
  aux.n = uint16_t(std::stoi(std::string(shape.substr(4))));
  aux.k = uint8_t(std::stoi(std::string(shape.substr(shape.find('k') + 1))));
  aux.d = b.type(0);
  aux.a = b.type(1);
  aux.b = b.type(2);
  aux.saturate = b.has("satfinite");
  if (unsigned(aux.k) * bitsOf(aux.a) != 256) {
    b.refuse(fmt::format("k{} for this type", 256 / bitsOf(aux.a)));
  }
  const bool integer = aux.d == Type::S32;
  if (integer && aux.n > 32 && aux.n % 16 != 0) {
    b.refuse("a shape with n up to 32, or a multiple of 16, for integers");
  }
  b.dstVector(aux.d == Type::F16 ? Type::B32 : integer ? Type::S32 : Type::F32, aux.dCount());
  aux.registersA = b.peek().kind == Operand::Kind::Vector;
  aux.registersA ? b.srcVector(Type::B32, 4) : (void)b.src(Type::B64);
  b.src(Type::B64);
  aux.scaleNegated = b.srcPred();
  if (!integer) {
    const auto scaleA = int64_t(b.immediate(Type::B64)), scaleB = int64_t(b.immediate(Type::B64));
    if ((scaleA != 1 && scaleA != -1) || (scaleB != 1 && scaleB != -1)) {
      b.refuse("scales of 1 or -1");
    }
    aux.negatedA = scaleA == -1;
    aux.negatedB = scaleB == -1;
  }
  if (bitsOf(aux.a) == 16) {
    if (!aux.registersA) {
      aux.transposedA = b.immediate(Type::B64) != 0;
    }
    aux.transposedB = b.immediate(Type::B64) != 0;
  }
  b.inst.aligned = true;
  b.inst.macs = rowsOfWarp * aux.n * aux.k;
  b.decoder.program.hasWarpgroupProducts = true;
  b.inst.aux = aux.pack();
  b.inst.exec = execProduct;
}

/// row.op: 0 fence, 1 commit, 2 wait.
static void groupRow(Build &b, const Row &row) {
  if (row.op == 2) {
    b.inst.aux = b.immediate(Type::U32);
  }
  b.inst.aligned = true;
  b.inst.exec = row.op == 0 ? execFence : row.op == 1 ? execCommit : execWait;
}

#define KVCSIM_WGMMA "wgmma mma_async sync aligned <wgshape> "

std::span<const Row> kvc::sim::ptx::wgmmaRows() {
  static const Row rows[] = {
      {KVCSIM_WGMMA "f32|f16 f16 f16", Class::Mma, productRow, 0, 90, 80},
      {KVCSIM_WGMMA "f32 bf16 bf16", Class::Mma, productRow, 0, 90, 80},
      {KVCSIM_WGMMA "f32 tf32 tf32", Class::Mma, productRow, 0, 90, 80},
      {KVCSIM_WGMMA "f32|f16 e4m3|e5m2 e4m3|e5m2", Class::Mma, productRow, 0, 90, 80},
      {KVCSIM_WGMMA "[satfinite] s32 u8|s8 u8|s8", Class::Mma, productRow, 0, 90, 80},
      {"wgmma fence sync aligned", Class::Fence, groupRow, 0, 90, 80},
      {"wgmma commit_group sync aligned", Class::Mma, groupRow, 1, 90, 80},
      {"wgmma wait_group sync aligned", Class::Mma, groupRow, 2, 90, 80},
  };
  return rows;
}
