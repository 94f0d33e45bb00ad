//===- HipDriver.h - The HIP API, found at run time -------------*- C++ -*-===//
//
// A library with the interface of HIP 6 is opened with dlopen; nothing is linked and no header of ROCm is used.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_HIP_HIPDRIVER_H
#define KVC_HIP_HIPDRIVER_H

#include "gpu/Library.h"
#include "support/Result.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace kvc::rt::hip {

struct ModuleTag;
struct FunctionTag;
struct StreamTag;
using ModuleHandle = ModuleTag *;
using Function = FunctionTag *;
using Stream = StreamTag *;

/// Results that are looked at, and flags, by the numbers of the interface.
constexpr int success = 0, outOfMemory = 2, invalidImage = 200, noBinaryForGpu = 209, sharedObjectFailed = 303;
constexpr unsigned hostPortable = 1, hostMapped = 2;

/// hipDeviceProp_t of HIP 6 (its functions have the suffix R0600) as far as it is looked at: the architecture's name,
/// such as gfx942:sramecc+:xnack-, behind what it has in common with other vendors. A driver may write all of it.
struct DeviceProperties {
  char others[1160];
  char architecture[256];
  char rest[680];
};
static_assert(offsetof(DeviceProperties, architecture) == 1160 && sizeof(DeviceProperties) >= 1472);

/// name of the symbol, result, parameters.
#define KVC_HIP_FUNCTIONS(F)                                                                                           \
  F(hipInit, int, unsigned)                                                                                            \
  F(hipGetErrorName, const char *, int)                                                                                \
  F(hipGetErrorString, const char *, int)                                                                              \
  F(hipGetDeviceCount, int, int *)                                                                                     \
  F(hipGetDevicePropertiesR0600, int, DeviceProperties *, int)                                                         \
  F(hipSetDevice, int, int)                                                                                            \
  F(hipDeviceSynchronize, int)                                                                                         \
  F(hipMalloc, int, void **, size_t)                                                                                   \
  F(hipFree, int, void *)                                                                                              \
  F(hipHostMalloc, int, void **, size_t, unsigned)                                                                     \
  F(hipHostFree, int, void *)                                                                                          \
  F(hipMemcpyHtoD, int, void *, const void *, size_t)                                                                  \
  F(hipMemcpyDtoH, int, void *, void *, size_t)                                                                        \
  F(hipMemcpyDtoD, int, void *, void *, size_t)                                                                        \
  F(hipModuleLoadData, int, ModuleHandle *, const void *)                                                              \
  F(hipModuleUnload, int, ModuleHandle)                                                                                \
  F(hipModuleGetFunction, int, Function *, ModuleHandle, const char *)                                                 \
  F(hipModuleLaunchKernel, int, Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,        \
    Stream, void **, void **)

class Driver {
public:
  /// Opens the first of `libraries` that is there and initialises it. notFound: none is; the message lists them.
  static Result<std::shared_ptr<Driver>> open(const std::vector<std::string> &libraries);

#define KVC_HIP_MEMBER(name, result, ...) result (*name)(__VA_ARGS__) = nullptr;
  KVC_HIP_FUNCTIONS(KVC_HIP_MEMBER)
#undef KVC_HIP_MEMBER

  gpu::SimulatorFunctions simulator;

  /// A failure in words: what was done, and what the driver says.
  Status failure(int result, const std::string &what) const;
};

} // namespace kvc::rt::hip

#endif // KVC_HIP_HIPDRIVER_H
