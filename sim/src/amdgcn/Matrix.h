//===- Matrix.h - Matrix instructions ---------------------------*- C++ -*-===//
#ifndef KVCSIM_AMDGCN_MATRIX_H
#define KVCSIM_AMDGCN_MATRIX_H

#include "amdgcn/Floats8.h"
#include "amdgcn/Program.h"

#include <vector>

namespace kvc::sim::amdgcn {

enum class Element : uint8_t { F16, BF16, F32, Fp8, Bf8, I8, U8, I4, U4, I32 };

/// D = A B + C, of `blocks` products of m x k and k x n.
struct MatrixShape {
  unsigned m = 0, n = 0, k = 0, blocks = 1;
  Element a, b, d;
  /// Elements of a lane's A and B; registers of D.
  unsigned perLane = 0, results = 0;
  bool wmma = false;
  /// A pass is 4 cycles; whether the unit for reduced precision does it.
  unsigned passes = 0;
  bool isXdl = true;
  /// Where element v of a lane lies in A and B (row by row, block by block), and register v of a lane in D; at
  /// v * lanes + lane.
  std::vector<uint16_t> aAt, bAt, dAt;
  uint64_t macs() const { return uint64_t(m) * n * k * blocks; }
};

/// Elements of A, B or D at most.
inline constexpr unsigned matrixLimit = 4096;

/// Loops compiled for each vector extension. `halves`: f16 codes as f32. The others: acc (m x n) += a (m x k) b (k x
/// n), in the order of k, one rounding each.
struct MatrixLoops {
  void (*floats)(float *acc, const float *a, const float *b, unsigned m, unsigned n, unsigned k);
  void (*halves)(float *to, const uint32_t *from, unsigned count);
  void (*integers)(int32_t *acc, const int32_t *a, const int32_t *b, unsigned m, unsigned n, unsigned k);
};
const MatrixLoops &matrixLoops();

} // namespace kvc::sim::amdgcn

#endif // KVCSIM_AMDGCN_MATRIX_H
