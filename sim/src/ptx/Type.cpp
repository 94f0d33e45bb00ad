//===- Type.cpp - Types of PTX --------------------------------------------===//
#include "ptx/Type.h"

#include <array>
#include <cassert>

using namespace kvc::sim::ptx;

// In the order of the enumeration.
static constexpr TypeInfo types[] = {
    {Type::None, "", 0, TypeKind::None},
    {Type::Pred, "pred", 1, TypeKind::Pred},
    {Type::B8, "b8", 8, TypeKind::Bits},
    {Type::U8, "u8", 8, TypeKind::Unsigned},
    {Type::S8, "s8", 8, TypeKind::Signed},
    {Type::E4M3, "e4m3", 8, TypeKind::Float},
    {Type::E5M2, "e5m2", 8, TypeKind::Float},
    {Type::B16, "b16", 16, TypeKind::Bits},
    {Type::U16, "u16", 16, TypeKind::Unsigned},
    {Type::S16, "s16", 16, TypeKind::Signed},
    {Type::F16, "f16", 16, TypeKind::Float},
    {Type::BF16, "bf16", 16, TypeKind::Float},
    {Type::E4M3x2, "e4m3x2", 16, TypeKind::Packed},
    {Type::E5M2x2, "e5m2x2", 16, TypeKind::Packed},
    {Type::B32, "b32", 32, TypeKind::Bits},
    {Type::U32, "u32", 32, TypeKind::Unsigned},
    {Type::S32, "s32", 32, TypeKind::Signed},
    {Type::F32, "f32", 32, TypeKind::Float},
    {Type::TF32, "tf32", 32, TypeKind::Float},
    {Type::U16x2, "u16x2", 32, TypeKind::Packed},
    {Type::S16x2, "s16x2", 32, TypeKind::Packed},
    {Type::F16x2, "f16x2", 32, TypeKind::Packed},
    {Type::BF16x2, "bf16x2", 32, TypeKind::Packed},
    {Type::B64, "b64", 64, TypeKind::Bits},
    {Type::U64, "u64", 64, TypeKind::Unsigned},
    {Type::S64, "s64", 64, TypeKind::Signed},
    {Type::F64, "f64", 64, TypeKind::Float},
    {Type::F32x2, "f32x2", 64, TypeKind::Packed},
    {Type::B128, "b128", 128, TypeKind::Bits},
};

const TypeInfo &kvc::sim::ptx::infoOf(Type type) {
  const TypeInfo &info = types[static_cast<size_t>(type)];
  assert(info.type == type);
  return info;
}

std::optional<Type> kvc::sim::ptx::typeByName(std::string_view name) {
  for (const TypeInfo &info : types) {
    if (info.name == name && info.type != Type::None) {
      return info.type;
    }
  }
  return std::nullopt;
}
