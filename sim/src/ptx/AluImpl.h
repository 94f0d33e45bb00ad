//===- AluImpl.h - Lane-wise loops ------------------------------*- C++ -*-===//
//
// Included by the files that are compiled once for each vector extension: everything is in the namespace of the
// extension (KVCSIM_ISA), so that no function of one is taken for that of another.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_PTX_ALUIMPL_H
#define KVCSIM_PTX_ALUIMPL_H

#include "common/Floats.h"
#include "ptx/Alu.h"
#include "ptx/Machine.h"

#include <bit>
#include <cfenv>
#include <cmath>
#include <type_traits>

#define KVCSIM_VECTORIZE _Pragma("clang loop vectorize(assume_safety) interleave(disable)")

namespace kvc::sim::ptx::KVCSIM_ISA {

template <typename T> struct Unsigned {
  using type = std::make_unsigned_t<T>;
};
template <> struct Unsigned<float> {
  using type = uint32_t;
};
template <> struct Unsigned<double> {
  using type = uint64_t;
};
template <typename T> using UnsignedOf = typename Unsigned<T>::type;

/// The integer of twice the size.
template <typename T> struct Wider;
template <> struct Wider<uint16_t> {
  using type = uint32_t;
};
template <> struct Wider<int16_t> {
  using type = int32_t;
};
template <> struct Wider<uint32_t> {
  using type = uint64_t;
};
template <> struct Wider<int32_t> {
  using type = int64_t;
};
template <> struct Wider<uint64_t> {
  using type = unsigned __int128;
};
template <> struct Wider<int64_t> {
  using type = __int128;
};
template <typename T> using WiderOf = typename Wider<T>::type;

/// d = F(a), d = F(a, b), ... for the active lanes. F must be defined for whatever inactive lanes hold.
template <typename F, typename D, typename A> void run1(Warp &warp, const Inst &inst, uint32_t active) {
  D *d = warp.lanes<D>(inst.op[0]);
  const A *a = warp.lanes<A>(inst.op[1]);
  if (active == allLanes) {
    KVCSIM_VECTORIZE
    for (unsigned i = 0; i < laneCount; ++i) {
      d[i] = F::apply(a[i]);
    }
    return;
  }
  KVCSIM_VECTORIZE
  for (unsigned i = 0; i < laneCount; ++i) {
    d[i] = (active >> i & 1) ? D(F::apply(a[i])) : d[i];
  }
}

template <typename F, typename D, typename A, typename B> void run2(Warp &warp, const Inst &inst, uint32_t active) {
  D *d = warp.lanes<D>(inst.op[0]);
  const A *a = warp.lanes<A>(inst.op[1]);
  const B *b = warp.lanes<B>(inst.op[2]);
  if (active == allLanes) {
    KVCSIM_VECTORIZE
    for (unsigned i = 0; i < laneCount; ++i) {
      d[i] = F::apply(a[i], b[i]);
    }
    return;
  }
  KVCSIM_VECTORIZE
  for (unsigned i = 0; i < laneCount; ++i) {
    d[i] = (active >> i & 1) ? D(F::apply(a[i], b[i])) : d[i];
  }
}

template <typename F, typename D, typename A, typename B, typename C>
void run3(Warp &warp, const Inst &inst, uint32_t active) {
  D *d = warp.lanes<D>(inst.op[0]);
  const A *a = warp.lanes<A>(inst.op[1]);
  const B *b = warp.lanes<B>(inst.op[2]);
  const C *c = warp.lanes<C>(inst.op[3]);
  if (active == allLanes) {
    KVCSIM_VECTORIZE
    for (unsigned i = 0; i < laneCount; ++i) {
      d[i] = F::apply(a[i], b[i], c[i]);
    }
    return;
  }
  KVCSIM_VECTORIZE
  for (unsigned i = 0; i < laneCount; ++i) {
    d[i] = (active >> i & 1) ? D(F::apply(a[i], b[i], c[i])) : d[i];
  }
}

/// A lane function that is not worth vectors: `f(lane)` for the active lanes.
template <typename F> inline void eachLane(uint32_t active, F f) {
  for (uint32_t rest = active; rest != 0; rest &= rest - 1) {
    f(unsigned(std::countr_zero(rest)));
  }
}

/// Packs one byte of 0 or 1 per lane into a mask.
inline uint32_t packMask(const uint8_t *bytes) {
  uint32_t mask = 0;
  for (unsigned part = 0; part < 4; ++part) {
    uint64_t eight;
    std::memcpy(&eight, bytes + 8 * part, 8);
    mask |= uint32_t((eight * 0x0102040810204080) >> 56) << (8 * part);
  }
  return mask;
}

ExecFn pickInteger(AluOp op, Type type, unsigned flags);
ExecFn pickFloat(AluOp op, Type type, unsigned flags);
ExecFn pickHalf(AluOp op, Type type, unsigned flags);
ExecFn pickCompare(AluOp op, Type type, unsigned flags);
/// Null for all but the common conversions; `aux` is a packed ConvertAux.
ExecFn pickFastConvert(uint64_t aux);
/// cvt.rn.f16x2.f32 and cvt.rn.bf16x2.f32.
ExecFn pickPack(Type type, bool relu);

} // namespace kvc::sim::ptx::KVCSIM_ISA

#endif // KVCSIM_PTX_ALUIMPL_H
