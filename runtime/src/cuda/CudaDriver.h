//===- CudaDriver.h - The CUDA driver API, found at run time ----*- C++ -*-===//
//
// A library with the driver's interface is opened with dlopen; nothing is linked and no header of a toolkit is used.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_CUDA_CUDADRIVER_H
#define KVC_CUDA_CUDADRIVER_H

#include "gpu/Library.h"
#include "support/Result.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace kvc::rt::cuda {

using DeviceNumber = int;
using DevicePointer = unsigned long long;
struct ContextTag;
struct ModuleTag;
struct FunctionTag;
struct StreamTag;
struct EventTag;
struct GraphTag;
struct GraphExecTag;
using Context = ContextTag *;
using ModuleHandle = ModuleTag *;
using Function = FunctionTag *;
using Stream = StreamTag *;
using Event = EventTag *;
using Graph = GraphTag *;
using GraphExec = GraphExecTag *;

/// Results and attributes that are looked at, by the numbers of the driver's interface.
constexpr int success = 0, outOfMemory = 2, invalidImage = 200, noBinaryForGpu = 209, invalidPtx = 218,
              noJitCompiler = 221, unsupportedPtxVersion = 222;
constexpr int attributeComputeMajor = 75, attributeComputeMinor = 76;
constexpr int functionMaxDynamicShared = 8;
constexpr unsigned streamNonBlocking = 1;
constexpr int captureThreadLocal = 1;
constexpr unsigned hostPortable = 1, hostDeviceMap = 2;

/// name of the symbol, parameters.
#define KVC_CUDA_FUNCTIONS(F)                                                                                          \
  F(cuInit, unsigned)                                                                                                  \
  F(cuGetErrorName, int, const char **)                                                                                \
  F(cuGetErrorString, int, const char **)                                                                              \
  F(cuDeviceGetCount, int *)                                                                                           \
  F(cuDeviceGet, DeviceNumber *, int)                                                                                  \
  F(cuDriverGetVersion, int *)                                                                                         \
  F(cuDeviceGetName, char *, int, DeviceNumber)                                                                        \
  F(cuDeviceTotalMem_v2, size_t *, DeviceNumber)                                                                       \
  F(cuDeviceGetAttribute, int *, int, DeviceNumber)                                                                    \
  F(cuDevicePrimaryCtxRetain, Context *, DeviceNumber)                                                                 \
  F(cuDevicePrimaryCtxRelease_v2, DeviceNumber)                                                                        \
  F(cuCtxSetCurrent, Context)                                                                                          \
  F(cuMemAlloc_v2, DevicePointer *, size_t)                                                                            \
  F(cuMemFree_v2, DevicePointer)                                                                                       \
  F(cuMemHostAlloc, void **, size_t, unsigned)                                                                         \
  F(cuMemFreeHost, void *)                                                                                             \
  F(cuMemcpyHtoD_v2, DevicePointer, const void *, size_t)                                                              \
  F(cuMemcpyDtoH_v2, void *, DevicePointer, size_t)                                                                    \
  F(cuMemcpyDtoDAsync_v2, DevicePointer, DevicePointer, size_t, Stream)                                                \
  F(cuMemcpyHtoDAsync_v2, DevicePointer, const void *, size_t, Stream)                                                 \
  F(cuMemcpyDtoHAsync_v2, void *, DevicePointer, size_t, Stream)                                                       \
  F(cuStreamCreate, Stream *, unsigned)                                                                                \
  F(cuStreamDestroy_v2, Stream)                                                                                        \
  F(cuStreamSynchronize, Stream)                                                                                       \
  F(cuStreamBeginCapture_v2, Stream, int)                                                                              \
  F(cuStreamEndCapture, Stream, Graph *)                                                                               \
  F(cuGraphInstantiateWithFlags, GraphExec *, Graph, unsigned long long)                                               \
  F(cuGraphLaunch, GraphExec, Stream)                                                                                  \
  F(cuGraphDestroy, Graph)                                                                                             \
  F(cuGraphExecDestroy, GraphExec)                                                                                     \
  F(cuModuleLoadData, ModuleHandle *, const void *)                                                                    \
  F(cuModuleUnload, ModuleHandle)                                                                                      \
  F(cuModuleGetFunction, Function *, ModuleHandle, const char *)                                                       \
  F(cuFuncSetAttribute, Function, int, int)                                                                            \
  F(cuLaunchKernel, Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void **,   \
    void **)                                                                                                           \
  F(cuEventCreate, Event *, unsigned)                                                                                  \
  F(cuEventDestroy_v2, Event)                                                                                          \
  F(cuEventRecord, Event, Stream)                                                                                      \
  F(cuEventSynchronize, Event)                                                                                         \
  F(cuEventElapsedTime, float *, Event, Event)

class Driver {
public:
  /// Opens the first of `libraries` that is there and initialises it. notFound: none is; the message lists them.
  static Result<std::shared_ptr<Driver>> open(const std::vector<std::string> &libraries);

#define KVC_CUDA_MEMBER(name, ...) int (*name)(__VA_ARGS__) = nullptr;
  KVC_CUDA_FUNCTIONS(KVC_CUDA_MEMBER)
#undef KVC_CUDA_MEMBER

  gpu::SimulatorFunctions simulator;

  /// Runs work on a stream between two events, waits for it and sets the seconds between them.
  int timed(Stream stream, const std::function<int()> &work, double &seconds) const;

  /// A failure in words: what was done, and what the driver says.
  Status failure(int result, const std::string &what) const;
};

} // namespace kvc::rt::cuda

#endif // KVC_CUDA_CUDADRIVER_H
