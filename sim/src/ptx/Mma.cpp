//===- Mma.cpp - Matrix products of a warp, and their loads and stores ----===//
//
// Layouts: lane l has g = l / 4 and t = l % 4. An element's place in a fragment is a formula of g, t and its index i,
// the same for all shapes: elements come in runs of `32 bits`; A runs over rows g and g + 8, then over columns.
//
//===----------------------------------------------------------------------===//
#include "common/Floats.h"
#include "ptx/Access.h"
#include "ptx/Decoder.h"
#include "ptx/DecoderImpl.h"

using namespace kvc::sim;
using namespace kvc::sim::ptx;

namespace {

constexpr unsigned maxM = 16, maxN = 8, maxK = 64;

/// Inst::aux of mma.
struct MmaAux {
  uint8_t k;
  Type a, b, d, c;
  bool saturate;

  uint64_t pack() const {
    return uint64_t(k) | uint64_t(a) << 8 | uint64_t(b) << 16 | uint64_t(c) << 24 | uint64_t(d) << 32 |
           uint64_t(saturate) << 40;
  }
  static MmaAux unpack(uint64_t v) {
    return {uint8_t(v),          Type(v >> 8 & 255),  Type(v >> 16 & 255),
            Type(v >> 32 & 255), Type(v >> 24 & 255), bool(v >> 40 & 1)};
  }
};

/// One element of a 32-bit register as a float.
inline float elementOf(Type type, uint32_t word, unsigned i) {
  switch (type) {
  case Type::F16:
    return f16ToFloat(uint16_t(word >> (16 * i)));
  case Type::BF16:
    return bf16ToFloat(uint16_t(word >> (16 * i)));
  case Type::TF32:
    // The lower bits are not read.
    return std::bit_cast<float>(word & 0xffffe000u);
  case Type::E4M3:
    return float(decodeFloat(formatE4M3, word >> (8 * i) & 255));
  case Type::E5M2:
    return float(decodeFloat(formatE5M2, word >> (8 * i) & 255));
  default:
    return 0;
  }
}

inline int32_t integerOf(Type type, uint32_t word, unsigned i) {
  return type == Type::S8 ? int32_t(int8_t(word >> (8 * i))) : int32_t(word >> (8 * i) & 255);
}

/// Elements of A and B as [row][k] and [column][k]. `Get(type, word, i)` reads one element.
template <typename T, typename Get>
void gather(Warp &warp, const MmaAux &aux, const Place *aWords, const Place *bWords, T (&a)[maxM][maxK],
            T (&b)[maxN][maxK], Get get) {
  const unsigned perWord = 32 / bitsOf(aux.a);
  const unsigned kWords = aux.k / (4 * perWord); // words along k for a lane
  for (unsigned lane = 0; lane < laneCount; ++lane) {
    const unsigned g = lane >> 2, t = lane & 3;
    for (unsigned j = 0; j < kWords; ++j) {
      for (unsigned half = 0; half < 2; ++half) {
        const uint32_t word = warp.lanes<uint32_t>(aWords[2 * j + half])[lane];
        for (unsigned i = 0; i < perWord; ++i) {
          a[g + 8 * half][4 * perWord * j + t * perWord + i] = get(aux.a, word, i);
        }
      }
      const uint32_t word = warp.lanes<uint32_t>(bWords[j])[lane];
      for (unsigned i = 0; i < perWord; ++i) {
        b[g][4 * perWord * j + t * perWord + i] = get(aux.b, word, i);
      }
    }
  }
}

/// Sums are in f32, in the order of k, with fused multiply-adds.
#ifdef __x86_64__
[[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]
#endif
void multiply(const float (&a)[maxM][maxK], const float (&bt)[maxK][maxN], float (&d)[maxM][maxN], unsigned k) {
  for (unsigned m = 0; m < maxM; ++m) {
    for (unsigned i = 0; i < k; ++i) {
      for (unsigned n = 0; n < maxN; ++n) {
        d[m][n] = __builtin_fmaf(a[m][i], bt[i][n], d[m][n]);
      }
    }
  }
}

/// The accumulators of a lane: rows g and g + 8, columns 2t and 2t + 1.
template <typename F> void eachAccumulator(F f) {
  for (unsigned lane = 0; lane < laneCount; ++lane) {
    for (unsigned i = 0; i < 4; ++i) {
      f(lane, i, (lane >> 2) + 8 * (i >> 1), 2 * (lane & 3) + (i & 1));
    }
  }
}

void execMmaFloat(Warp &warp, const Inst &inst, uint32_t active) {
  const MmaAux aux = MmaAux::unpack(inst.aux);
  const unsigned kWords = aux.k * bitsOf(aux.a) / 128;
  const unsigned dWords = aux.d == Type::F32 ? 4 : 2, cWords = aux.c == Type::F32 ? 4 : 2;
  const Place *dPlaces = inst.op, *aPlaces = dPlaces + dWords, *bPlaces = aPlaces + 2 * kWords,
              *cPlaces = bPlaces + kWords;
  float a[maxM][maxK], b[maxN][maxK], bt[maxK][maxN], d[maxM][maxN];
  gather(warp, aux, aPlaces, bPlaces, a, b, elementOf);
  for (unsigned k = 0; k < aux.k; ++k) {
    for (unsigned n = 0; n < maxN; ++n) {
      bt[k][n] = b[n][k];
    }
  }
  eachAccumulator([&](unsigned lane, unsigned i, unsigned row, unsigned column) {
    d[row][column] = cWords == 4 ? warp.lanes<float>(cPlaces[i])[lane]
                                 : f16ToFloat(uint16_t(warp.lanes<uint32_t>(cPlaces[i >> 1])[lane] >> (16 * (i & 1))));
  });
  multiply(a, bt, d, aux.k);
  eachAccumulator([&](unsigned lane, unsigned i, unsigned row, unsigned column) {
    float value = d[row][column];
    if (value != value) {
      value = std::bit_cast<float>(0x7fffffffu);
    }
    if (dWords == 4) {
      warp.lanes<float>(dPlaces[i])[lane] = value;
    } else {
      uint32_t &word = warp.lanes<uint32_t>(dPlaces[i >> 1])[lane];
      const uint32_t bits = floatToF16(value);
      word = i & 1 ? (word & 0xffff) | bits << 16 : bits;
    }
  });
}

void execMmaInteger(Warp &warp, const Inst &inst, uint32_t active) {
  const MmaAux aux = MmaAux::unpack(inst.aux);
  const unsigned kWords = aux.k * bitsOf(aux.a) / 128;
  const Place *dPlaces = inst.op, *aPlaces = dPlaces + 4, *bPlaces = aPlaces + 2 * kWords, *cPlaces = bPlaces + kWords;
  int32_t a[maxM][maxK], b[maxN][maxK];
  gather(warp, aux, aPlaces, bPlaces, a, b, integerOf);
  int32_t results[laneCount][4];
  eachAccumulator([&](unsigned lane, unsigned i, unsigned row, unsigned column) {
    int64_t sum = warp.lanes<int32_t>(cPlaces[i])[lane];
    for (unsigned k = 0; k < aux.k; ++k) {
      sum += a[row][k] * b[column][k];
    }
    results[lane][i] = aux.saturate ? int32_t(std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX)) : int32_t(sum);
  });
  for (unsigned i = 0; i < 4; ++i) {
    for (unsigned lane = 0; lane < laneCount; ++lane) {
      warp.lanes<int32_t>(dPlaces[i])[lane] = results[lane][i];
    }
  }
}

/// m8n8k4 of f64: A row g column t, B row t column g, C/D row g columns 2t, 2t+1.
void execMmaDouble(Warp &warp, const Inst &inst, uint32_t active) {
  double a[8][4], b[8][4], d[laneCount][2];
  for (unsigned lane = 0; lane < laneCount; ++lane) {
    a[lane >> 2][lane & 3] = warp.lanes<double>(inst.op[2])[lane];
    b[lane >> 2][lane & 3] = warp.lanes<double>(inst.op[3])[lane];
  }
  for (unsigned lane = 0; lane < laneCount; ++lane) {
    for (unsigned i = 0; i < 2; ++i) {
      double sum = warp.lanes<double>(inst.op[4 + i])[lane];
      for (unsigned k = 0; k < 4; ++k) {
        sum = __builtin_fma(a[lane >> 2][k], b[2 * (lane & 3) + i][k], sum);
      }
      d[lane][i] = sum;
    }
  }
  for (unsigned i = 0; i < 2; ++i) {
    for (unsigned lane = 0; lane < laneCount; ++lane) {
      warp.lanes<double>(inst.op[i])[lane] = d[lane][i];
    }
  }
}

// Matrices of 8 x 8 16-bit elements between shared memory and registers -----------------------------------------------

/// Inst::aux: how many matrices, whether they are transposed, whether the address has 32 bits.
struct MatrixAux {
  uint8_t count;
  bool transposed, narrow, generic;
  uint64_t pack() const {
    return uint64_t(count) | uint64_t(transposed) << 8 | uint64_t(narrow) << 9 | uint64_t(generic) << 10;
  }
  static MatrixAux unpack(uint64_t v) { return {uint8_t(v), bool(v >> 8 & 1), bool(v >> 9 & 1), bool(v >> 10 & 1)}; }
};

/// Addresses of the rows: those of lanes 0 .. 8 * count - 1.
uint32_t rowAddresses(Warp &warp, const Inst &inst, const MatrixAux &aux, Place base, LaneAddresses &addresses) {
  addressesOf(warp, base, aux.narrow, inst.imm, addresses);
  const uint32_t rows = aux.count == 4 ? allLanes : (1u << (8 * aux.count)) - 1;
  eachLane(rows, [&](unsigned lane) {
    if (aux.generic) {
      if (windowOf(addresses.at[lane]) != Space::Shared) {
        fail(FaultKind::IllegalAddress, "expects an address of shared memory, but got {:#x} (lane {})",
             addresses.at[lane], lane);
      }
      addresses.at[lane] = uint32_t(addresses.at[lane]);
    }
    checkAligned(addresses.at[lane], 16, lane);
  });
  countShared(countersOf(warp, inst), addresses, rows, 16);
  return rows;
}

void execLoadMatrix(Warp &warp, const Inst &inst, uint32_t active) {
  const MatrixAux aux = MatrixAux::unpack(inst.aux);
  LaneAddresses addresses;
  const uint32_t rows = rowAddresses(warp, inst, aux, inst.op[aux.count], addresses);
  uint16_t element[4][8][8];
  eachLane(rows, [&](unsigned lane) {
    std::memcpy(element[lane >> 3][lane & 7], sharedRead(warp, uint32_t(addresses.at[lane]), 16, warp.accessor(lane)),
                16);
  });
  for (unsigned m = 0; m < aux.count; ++m) {
    uint32_t *d = warp.lanes<uint32_t>(inst.op[m]);
    for (unsigned lane = 0; lane < laneCount; ++lane) {
      const unsigned g = lane >> 2, c = 2 * (lane & 3);
      const uint32_t low = aux.transposed ? element[m][c][g] : element[m][g][c];
      const uint32_t high = aux.transposed ? element[m][c + 1][g] : element[m][g][c + 1];
      d[lane] = low | high << 16;
    }
  }
}

void execStoreMatrix(Warp &warp, const Inst &inst, uint32_t active) {
  const MatrixAux aux = MatrixAux::unpack(inst.aux);
  LaneAddresses addresses;
  const uint32_t rows = rowAddresses(warp, inst, aux, inst.op[0], addresses);
  uint16_t element[4][8][8];
  for (unsigned m = 0; m < aux.count; ++m) {
    const uint32_t *a = warp.lanes<uint32_t>(inst.op[1 + m]);
    for (unsigned lane = 0; lane < laneCount; ++lane) {
      const unsigned g = lane >> 2, c = 2 * (lane & 3);
      (aux.transposed ? element[m][c][g] : element[m][g][c]) = uint16_t(a[lane]);
      (aux.transposed ? element[m][c + 1][g] : element[m][g][c + 1]) = uint16_t(a[lane] >> 16);
    }
  }
  eachLane(rows, [&](unsigned lane) {
    sharedWrite(warp, uint32_t(addresses.at[lane]), 16, element[lane >> 3][lane & 7], warp.accessor(lane));
  });
}

/// movmatrix: the transpose of an 8 x 8 matrix in the registers of a warp.
void execMoveMatrix(Warp &warp, const Inst &inst, uint32_t active) {
  uint16_t element[8][8];
  const uint32_t *a = warp.lanes<uint32_t>(inst.op[1]);
  for (unsigned lane = 0; lane < laneCount; ++lane) {
    element[lane >> 2][2 * (lane & 3)] = uint16_t(a[lane]);
    element[lane >> 2][2 * (lane & 3) + 1] = uint16_t(a[lane] >> 16);
  }
  uint32_t *d = warp.lanes<uint32_t>(inst.op[0]);
  for (unsigned lane = 0; lane < laneCount; ++lane) {
    const unsigned g = lane >> 2, c = 2 * (lane & 3);
    d[lane] = element[c][g] | uint32_t(element[c + 1][g]) << 16;
  }
}

} // namespace

static void mmaRow(Build &b, const Row &row) {
  MmaAux aux{};
  const std::string_view shape = b.matched[2];
  aux.k = uint8_t(std::stoi(std::string(shape.substr(shape.find('k') + 1))));
  // d, a, b, c.
  aux.d = b.type(0);
  aux.a = b.type(1);
  aux.b = b.type(2);
  aux.c = b.type(3);
  aux.saturate = b.has("satfinite");
  const bool integer = aux.d == Type::S32;
  const unsigned kWords = aux.k * bitsOf(aux.a) / 128;
  const bool small = bitsOf(aux.a) == 8;
  if (aux.a != aux.b && !small) {
    b.refuse("A and B of one type");
  }
  const Type accumulator = integer ? Type::S32 : Type::F32;
  aux.d == Type::F16 ? b.dstVector(Type::B32, 2) : b.dstVector(accumulator, 4);
  b.srcVector(Type::B32, 2 * kWords);
  b.srcVector(Type::B32, kWords);
  aux.c == Type::F16 ? b.srcVector(Type::B32, 2) : b.srcVector(accumulator, 4);
  b.inst.aligned = true;
  b.inst.macs = 16 * 8 * aux.k;
  b.inst.aux = aux.pack();
  b.inst.exec = integer ? execMmaInteger : execMmaFloat;
}

static void mmaDoubleRow(Build &b, const Row &row) {
  b.dstVector(Type::F64, 2);
  b.srcVector(Type::F64, 1);
  b.srcVector(Type::F64, 1);
  b.srcVector(Type::F64, 2);
  b.inst.aligned = true;
  b.inst.macs = 8 * 8 * 4;
  b.inst.exec = execMmaDouble;
}

static MatrixAux matrixAux(Build &b) {
  MatrixAux aux{};
  aux.count = uint8_t(1 << b.which({"x1", "x2", "x4"}));
  aux.transposed = b.has("trans");
  aux.generic = !b.has("shared") && !b.has("shared::cta");
  return aux;
}

static void loadMatrixRow(Build &b, const Row &row) {
  MatrixAux aux = matrixAux(b);
  b.dstVector(Type::B32, aux.count);
  aux.narrow = b.address(aux.generic ? Space::Generic : Space::Shared);
  b.inst.aligned = true;
  b.inst.aux = aux.pack();
  b.inst.exec = execLoadMatrix;
}

static void storeMatrixRow(Build &b, const Row &row) {
  MatrixAux aux = matrixAux(b);
  aux.narrow = b.address(aux.generic ? Space::Generic : Space::Shared);
  b.srcVector(Type::B32, aux.count);
  b.inst.aligned = true;
  b.inst.aux = aux.pack();
  b.inst.exec = execStoreMatrix;
}

static void moveMatrixRow(Build &b, const Row &row) {
  b.dst(Type::B32);
  b.src(Type::B32);
  b.inst.aligned = true;
  b.inst.exec = execMoveMatrix;
}

std::span<const Row> kvc::sim::ptx::mmaRows() {
  static const Row rows[] = {
      {"mma sync aligned m16n8k8|m16n8k16 row col f16|f32 f16 f16 f16|f32", Class::Mma, mmaRow, 0, 80, 70},
      {"mma sync aligned m16n8k8|m16n8k16 row col f32 bf16 bf16 f32", Class::Mma, mmaRow, 0, 80, 70},
      {"mma sync aligned m16n8k4|m16n8k8 row col f32 tf32 tf32 f32", Class::Mma, mmaRow, 0, 80, 70},
      {"mma sync aligned m16n8k16|m16n8k32 row col [satfinite] s32 u8|s8 u8|s8 s32", Class::Mma, mmaRow, 0, 80, 70},
      {"mma sync aligned m16n8k32 row col f32|f16 e4m3|e5m2 e4m3|e5m2 f32|f16", Class::Mma, mmaRow, 0, 89, 84},
      {"mma sync aligned m16n8k16 row col f32|f16 e4m3|e5m2 e4m3|e5m2 f32|f16", Class::Mma, mmaRow, 0, 89, 87},
      {"mma sync aligned m8n8k4 row col f64 f64 f64 f64", Class::Mma, mmaDoubleRow, 0, 80, 70},
      {"ldmatrix sync aligned m8n8 <num> [trans] [shared|shared::cta] b16", Class::MatrixLoad, loadMatrixRow, 0, 75,
       65},
      {"stmatrix sync aligned m8n8 <num> [trans] [shared|shared::cta] b16", Class::StoreShared, storeMatrixRow, 0, 90,
       78},
      {"movmatrix sync aligned m8n8 trans b16", Class::Shuffle, moveMatrixRow, 0, 75, 78},
  };
  return rows;
}
