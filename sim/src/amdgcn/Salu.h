//===- Salu.h - Scalar instructions -----------------------------*- C++ -*-===//
#ifndef KVCSIM_AMDGCN_SALU_H
#define KVCSIM_AMDGCN_SALU_H

#include "amdgcn/Program.h"

namespace kvc::sim::amdgcn {

/// Accumulates (of the lane rows): the destination is the last source, too.
enum ScalarFlags : uint32_t { ReadsDestination = 1, ReadsScc = 2 };

struct ScalarRow {
  std::string_view name;
  Type d = Type::None;
  Type s[3] = {Type::None, Type::None, Type::None};
  unsigned sources = 0;
  uint32_t flags = 0;
  ExecFn exec = nullptr;
};

/// Null when no row has this name.
const ScalarRow *findScalarRow(std::string_view name);

} // namespace kvc::sim::amdgcn

#endif // KVCSIM_AMDGCN_SALU_H
