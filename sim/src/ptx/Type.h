//===- Type.h - Types of PTX ------------------------------------*- C++ -*-===//
#ifndef KVCSIM_PTX_TYPE_H
#define KVCSIM_PTX_TYPE_H

#include <cstdint>
#include <optional>
#include <string_view>

namespace kvc::sim::ptx {

enum class Type : uint8_t {
  None,
  Pred,
  B8,
  U8,
  S8,
  E4M3,
  E5M2,
  B16,
  U16,
  S16,
  F16,
  BF16,
  E4M3x2,
  E5M2x2,
  B32,
  U32,
  S32,
  F32,
  TF32,
  U16x2,
  S16x2,
  F16x2,
  BF16x2,
  B64,
  U64,
  S64,
  F64,
  F32x2,
  B128,
};

enum class TypeKind : uint8_t { None, Pred, Bits, Unsigned, Signed, Float, Packed };

struct TypeInfo {
  Type type;
  std::string_view name;
  uint8_t bits;
  TypeKind kind;
};

const TypeInfo &infoOf(Type type);
std::optional<Type> typeByName(std::string_view name);

inline unsigned bitsOf(Type type) { return infoOf(type).bits; }
inline unsigned bytesOf(Type type) { return infoOf(type).bits / 8; }
inline bool isSigned(Type type) { return infoOf(type).kind == TypeKind::Signed; }
inline bool isFloat(Type type) { return infoOf(type).kind == TypeKind::Float; }

} // namespace kvc::sim::ptx

#endif // KVCSIM_PTX_TYPE_H
