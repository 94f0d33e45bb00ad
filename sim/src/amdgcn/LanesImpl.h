//===- LanesImpl.h - Loops over lanes ---------------------------*- C++ -*-===//
//
// Included by the files that are compiled once for each vector extension (LanesAll.inc): all of it is in the namespace
// of the extension.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_AMDGCN_LANESIMPL_H
#define KVCSIM_AMDGCN_LANESIMPL_H

#define KVCSIM_VECTORIZE _Pragma("clang loop vectorize(assume_safety) interleave(disable)")

namespace kvc::sim::amdgcn::KVCSIM_ISA {

struct BF16 {
  uint16_t bits;
};
/// Two halves of a register.
struct H2 {
  _Float16 lo, hi;
};
struct S2 {
  int16_t lo, hi;
};
struct U2 {
  uint16_t lo, hi;
};
/// Two registers.
struct F2 {
  float lo, hi;
};

template <typename T> struct TypeOf;
template <> struct TypeOf<float> : std::integral_constant<Type, Type::F32> {};
template <> struct TypeOf<double> : std::integral_constant<Type, Type::F64> {};
template <> struct TypeOf<_Float16> : std::integral_constant<Type, Type::F16> {};
template <> struct TypeOf<BF16> : std::integral_constant<Type, Type::BF16> {};
template <> struct TypeOf<int16_t> : std::integral_constant<Type, Type::I16> {};
template <> struct TypeOf<uint16_t> : std::integral_constant<Type, Type::I16> {};
template <> struct TypeOf<int32_t> : std::integral_constant<Type, Type::B32> {};
template <> struct TypeOf<uint32_t> : std::integral_constant<Type, Type::B32> {};
template <> struct TypeOf<int64_t> : std::integral_constant<Type, Type::B64> {};
template <> struct TypeOf<uint64_t> : std::integral_constant<Type, Type::B64> {};
template <> struct TypeOf<H2> : std::integral_constant<Type, Type::H2> {};
template <> struct TypeOf<S2> : std::integral_constant<Type, Type::S2> {};
template <> struct TypeOf<U2> : std::integral_constant<Type, Type::S2> {};
template <> struct TypeOf<F2> : std::integral_constant<Type, Type::F2> {};

template <typename T> inline T loadLane(const uint32_t *row, unsigned i) {
  if constexpr (sizeof(T) == 8) {
    return std::bit_cast<T>(uint64_t(row[i]) | (uint64_t(row[rowLanes + i]) << 32));
  } else if constexpr (sizeof(T) == 2) {
    return std::bit_cast<T>(uint16_t(row[i]));
  } else {
    return std::bit_cast<T>(row[i]);
  }
}
template <typename T> inline void storeLane(uint32_t *row, unsigned i, T value) {
  if constexpr (sizeof(T) == 8) {
    const auto bits = std::bit_cast<uint64_t>(value);
    row[i] = uint32_t(bits);
    row[rowLanes + i] = uint32_t(bits >> 32);
  } else if constexpr (sizeof(T) == 2) {
    row[i] = std::bit_cast<uint16_t>(value);
  } else {
    row[i] = std::bit_cast<uint32_t>(value);
  }
}

/// Packs one byte of 0 or 1 per lane into a mask.
inline uint64_t packMask(const uint8_t *bytes, unsigned lanes) {
  uint64_t mask = 0;
  for (unsigned part = 0; part < lanes / 8; ++part) {
    uint64_t eight;
    std::memcpy(&eight, bytes + 8 * part, 8);
    mask |= ((eight * 0x0102040810204080) >> 56) << (8 * part);
  }
  return mask;
}

template <typename Signature, auto F> struct Loop;

template <typename D, typename A, auto F> struct Loop<D(A), F> {
  static void run(LaneArgs &args) {
    uint32_t *d = args.d;
    const uint32_t *a = args.a;
    KVCSIM_VECTORIZE
    for (unsigned i = 0; i < args.lanes; ++i) {
      storeLane<D>(d, i, F(loadLane<A>(a, i)));
    }
  }
  static constexpr LaneRow row(std::string_view name, uint32_t flags) {
    return {name, TypeOf<D>::value, {TypeOf<A>::value, Type::None, Type::None}, flags, run};
  }
};
template <typename D, typename A, typename B, auto F> struct Loop<D(A, B), F> {
  static void run(LaneArgs &args) {
    uint32_t *d = args.d;
    const uint32_t *a = args.a, *b = args.b;
    KVCSIM_VECTORIZE
    for (unsigned i = 0; i < args.lanes; ++i) {
      storeLane<D>(d, i, F(loadLane<A>(a, i), loadLane<B>(b, i)));
    }
  }
  static constexpr LaneRow row(std::string_view name, uint32_t flags) {
    return {name, TypeOf<D>::value, {TypeOf<A>::value, TypeOf<B>::value, Type::None}, flags, run};
  }
};
template <typename D, typename A, typename B, typename C, auto F> struct Loop<D(A, B, C), F> {
  static void run(LaneArgs &args) {
    uint32_t *d = args.d;
    const uint32_t *a = args.a, *b = args.b, *c = args.c;
    KVCSIM_VECTORIZE
    for (unsigned i = 0; i < args.lanes; ++i) {
      storeLane<D>(d, i, F(loadLane<A>(a, i), loadLane<B>(b, i), loadLane<C>(c, i)));
    }
  }
  static constexpr LaneRow row(std::string_view name, uint32_t flags) {
    return {name, TypeOf<D>::value, {TypeOf<A>::value, TypeOf<B>::value, TypeOf<C>::value}, flags, run};
  }
};

/// Comparisons: F gives a bool.
template <typename A, typename B, auto F> struct Compare {
  static void run(LaneArgs &args) {
    uint8_t bytes[rowLanes];
    const uint32_t *a = args.a, *b = args.b;
    KVCSIM_VECTORIZE
    for (unsigned i = 0; i < args.lanes; ++i) {
      bytes[i] = F(loadLane<A>(a, i), loadLane<B>(b, i));
    }
    args.maskOut = packMask(bytes, args.lanes);
  }
  static constexpr LaneRow row(std::string_view name, uint32_t flags) {
    return {name, Type::None, {TypeOf<A>::value, TypeOf<B>::value, Type::None}, flags | ResultIsMask, run};
  }
};

/// F(a, b, c, carry in, carry out), for whatever uses masks.
template <typename D, typename A, typename B, typename C, auto F> struct Carry {
  static void run(LaneArgs &args) {
    uint8_t bytes[rowLanes];
    uint32_t *d = args.d;
    const uint32_t *a = args.a, *b = args.b, *c = args.c;
    const uint64_t in = args.maskIn;
    for (unsigned i = 0; i < args.lanes; ++i) {
      bool out = false;
      D result;
      if constexpr (std::is_void_v<C>) {
        result = F(loadLane<A>(a, i), loadLane<B>(b, i), bool(in >> i & 1), out);
      } else {
        result = F(loadLane<A>(a, i), loadLane<B>(b, i), loadLane<C>(c, i), bool(in >> i & 1), out);
      }
      storeLane<D>(d, i, result);
      bytes[i] = out;
    }
    args.maskOut = packMask(bytes, args.lanes);
  }
  static constexpr LaneRow row(std::string_view name, uint32_t flags) {
    if constexpr (std::is_void_v<C>) {
      return {name, TypeOf<D>::value, {TypeOf<A>::value, TypeOf<B>::value, Type::None}, flags, run};
    } else {
      return {name, TypeOf<D>::value, {TypeOf<A>::value, TypeOf<B>::value, TypeOf<C>::value}, flags, run};
    }
  }
};

/// A row of the table: the signature, the name and what happens in a lane.
template <typename Signature, auto F> constexpr LaneRow lane(std::string_view name, uint32_t flags = 0) {
  return Loop<Signature, F>::row(name, flags);
}
/// One whose `clamp` saturates as G says.
template <typename Signature, auto F, auto G>
constexpr LaneRow laneSaturating(std::string_view name, uint32_t flags = 0) {
  LaneRow row = Loop<Signature, F>::row(name, flags);
  row.saturating = Loop<Signature, G>::run;
  return row;
}

void addFloatRows(std::vector<LaneRow> &rows);
void addIntegerRows(std::vector<LaneRow> &rows);
void addCompareRows(std::vector<LaneRow> &rows);
void addConvertRows(std::vector<LaneRow> &rows);
void addPackedRows(std::vector<LaneRow> &rows);

} // namespace kvc::sim::amdgcn::KVCSIM_ISA

#endif // KVCSIM_AMDGCN_LANESIMPL_H
