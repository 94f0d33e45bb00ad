//===- Alu.cpp - Choice of the vector extension ---------------------------===//
#include "ptx/Alu.h"

using namespace kvc::sim::ptx;

namespace kvc::sim::ptx {
#define KVCSIM_DECLARE(isa)                                                                                            \
  namespace isa {                                                                                                      \
  ExecFn pickInteger(AluOp op, Type type, unsigned flags);                                                             \
  ExecFn pickFloat(AluOp op, Type type, unsigned flags);                                                               \
  ExecFn pickHalf(AluOp op, Type type, unsigned flags);                                                                \
  ExecFn pickCompare(AluOp op, Type type, unsigned flags);                                                             \
  ExecFn pickFastConvert(uint64_t aux);                                                                                \
  ExecFn pickPack(Type type, bool relu);                                                                               \
  }
KVCSIM_DECLARE(isaBase)
#ifdef __x86_64__
KVCSIM_DECLARE(isaAvx2)
KVCSIM_DECLARE(isaAvx512)
#endif
#undef KVCSIM_DECLARE
} // namespace kvc::sim::ptx

namespace {

struct Extension {
  std::string_view name;
  ExecFn (*integer)(AluOp, Type, unsigned);
  ExecFn (*floating)(AluOp, Type, unsigned);
  ExecFn (*half)(AluOp, Type, unsigned);
  ExecFn (*compare)(AluOp, Type, unsigned);
  ExecFn (*convert)(uint64_t);
  ExecFn (*pack)(Type, bool);
};

const Extension &extension() {
  static const Extension chosen = [] {
#define KVCSIM_USE(isa)                                                                                                \
  Extension {                                                                                                          \
    #isa, isa::pickInteger, isa::pickFloat, isa::pickHalf, isa::pickCompare, isa::pickFastConvert, isa::pickPack       \
  }
#ifdef __x86_64__
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi2") &&
                      __builtin_cpu_supports("lzcnt");
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
      return KVCSIM_USE(isaAvx512);
    }
    if (avx2) {
      return KVCSIM_USE(isaAvx2);
    }
#endif
    return KVCSIM_USE(isaBase);
#undef KVCSIM_USE
  }();
  return chosen;
}

} // namespace

ExecFn kvc::sim::ptx::pickAlu(AluOp op, Type type, unsigned flags) {
  switch (type) {
  case Type::F16:
  case Type::F16x2:
  case Type::BF16:
  case Type::BF16x2:
    return extension().half(op, type, flags);
  case Type::F32:
  case Type::F64:
  case Type::F32x2:
    return extension().floating(op, type, flags);
  default:
    return extension().integer(op, type, flags);
  }
}

ExecFn kvc::sim::ptx::pickCompare(bool isSet, Type type, unsigned flags) {
  return extension().compare(isSet ? AluOp::Set : AluOp::Setp, type, flags);
}

ExecFn kvc::sim::ptx::pickFastConvert(uint64_t aux) { return extension().convert(aux); }

ExecFn kvc::sim::ptx::pickPack(Type type, bool relu) { return extension().pack(type, relu); }

std::string_view kvc::sim::ptx::aluExtension() { return extension().name; }
