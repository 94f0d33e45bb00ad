//===- CudaDriver.h - The CUDA driver API -----------------------*- C++ -*-===//
#ifndef KVC_CUDA_CUDADRIVER_H
#define KVC_CUDA_CUDADRIVER_H

#include "gpu/Driver.h"

namespace kvc::rt::cuda {

using DeviceNumber = int;
struct ContextTag;
using Context = ContextTag *;

/// Results, attributes and flags that are looked at, by the numbers of the driver's interface.
constexpr int invalidPtx = 218, noJitCompiler = 221, unsupportedPtxVersion = 222;
constexpr int attributeMultiprocessors = 16, attributeComputeMajor = 75, attributeComputeMinor = 76;
constexpr int functionMaxDynamicShared = 8;
/// Of tensor maps: elements of 16 bits, no interleaving, swizzles of 32, 64 and 128 bytes, lines of 256 bytes for the
/// second-level cache, zeros for what lies outside.
constexpr int mapUint16 = 1, mapPlain = 0, mapSwizzle32 = 1, mapSwizzle64 = 2, mapSwizzle128 = 3, mapLines256 = 3,
              mapZeros = 0;

/// name of the symbol, parameters: what the interface has beside the functions of all drivers.
#define KVC_CUDA_FUNCTIONS(F)                                                                                          \
  F(cuGetErrorName, int, const char **)                                                                                \
  F(cuGetErrorString, int, const char **)                                                                              \
  F(cuDriverGetVersion, int *)                                                                                         \
  F(cuDeviceGet, DeviceNumber *, int)                                                                                  \
  F(cuDeviceGetName, char *, int, DeviceNumber)                                                                        \
  F(cuDeviceTotalMem_v2, size_t *, DeviceNumber)                                                                       \
  F(cuDeviceGetAttribute, int *, int, DeviceNumber)                                                                    \
  F(cuDevicePrimaryCtxRetain, Context *, DeviceNumber)                                                                 \
  F(cuDevicePrimaryCtxRelease_v2, DeviceNumber)                                                                        \
  F(cuCtxSetCurrent, Context)                                                                                          \
  F(cuFuncSetAttribute, gpu::Function, int, int)

/// The same of what older drivers lack.
#define KVC_CUDA_NEWER_FUNCTIONS(F)                                                                                    \
  F(cuTensorMapEncodeTiled, void *, int, unsigned, void *, const uint64_t *, const uint64_t *, const unsigned *,       \
    const unsigned *, int, int, int, int)

class Driver final : public gpu::Driver {
public:
  Driver();

#define KVC_CUDA_MEMBER(name, ...) int (*name)(__VA_ARGS__) = nullptr;
  KVC_CUDA_FUNCTIONS(KVC_CUDA_MEMBER)
  KVC_CUDA_NEWER_FUNCTIONS(KVC_CUDA_MEMBER)
#undef KVC_CUDA_MEMBER

protected:
  std::vector<Symbol> ownSymbols() override;
  std::pair<const char *, const char *> describe(int result) const override;
  StatusCode statusOf(int result, const char *&hint) const override;
};

} // namespace kvc::rt::cuda

#endif // KVC_CUDA_CUDADRIVER_H
