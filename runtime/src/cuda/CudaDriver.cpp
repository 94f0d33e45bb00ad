//===- CudaDriver.cpp - The CUDA driver API -------------------------------===//
#include "cuda/CudaDriver.h"

namespace kvc::rt::cuda {

static const gpu::Interface cudaInterface{.name = "CUDA",
                                          .title = "the CUDA driver API",
                                          .library = "a CUDA driver",
                                          .driver = "an NVIDIA driver",
                                          .files = {"libcuda.so.1", "libcuda.so"},
                                          .variable = "KVC_CUDA",
                                          .simulatorFile = "libkvcsim_cuda.so",
                                          .simulatorVariable = "KVC_SIM_CUDA",
                                          .simulatedChip = "sm_80",
                                          .functions = {
                                              .initialize = "cuInit",
                                              .countDevices = "cuDeviceGetCount",
                                              .allocate = "cuMemAlloc_v2",
                                              .release = "cuMemFree_v2",
                                              .allocateHost = "cuMemHostAlloc",
                                              .releaseHost = "cuMemFreeHost",
                                              .copyToDevice = "cuMemcpyHtoDAsync_v2",
                                              .copyToHost = "cuMemcpyDtoHAsync_v2",
                                              .copyOnDevice = "cuMemcpyDtoDAsync_v2",
                                              .createStream = "cuStreamCreate",
                                              .destroyStream = "cuStreamDestroy_v2",
                                              .synchronizeStream = "cuStreamSynchronize",
                                              .createEvent = "cuEventCreate",
                                              .destroyEvent = "cuEventDestroy_v2",
                                              .recordEvent = "cuEventRecord",
                                              .synchronizeEvent = "cuEventSynchronize",
                                              .elapsedTime = "cuEventElapsedTime",
                                              .beginCapture = "cuStreamBeginCapture_v2",
                                              .endCapture = "cuStreamEndCapture",
                                              .instantiateGraph = "cuGraphInstantiateWithFlags",
                                              .launchGraph = "cuGraphLaunch",
                                              .destroyGraph = "cuGraphDestroy",
                                              .destroyGraphExec = "cuGraphExecDestroy",
                                              .loadModule = "cuModuleLoadData",
                                              .unloadModule = "cuModuleUnload",
                                              .findFunction = "cuModuleGetFunction",
                                              .launchKernel = "cuLaunchKernel",
                                          }};

Driver::Driver() : gpu::Driver(cudaInterface) {}

std::vector<gpu::Driver::Symbol> Driver::ownSymbols() {
  return {
#define KVC_CUDA_SYMBOL(name, ...) {#name, reinterpret_cast<void **>(&name)},
      KVC_CUDA_FUNCTIONS(KVC_CUDA_SYMBOL)
#undef KVC_CUDA_SYMBOL
#define KVC_CUDA_SYMBOL(name, ...) {#name, reinterpret_cast<void **>(&name), /*isNeeded=*/false},
          KVC_CUDA_NEWER_FUNCTIONS(KVC_CUDA_SYMBOL)
#undef KVC_CUDA_SYMBOL
  };
}

std::pair<const char *, const char *> Driver::describe(int result) const {
  const char *name = nullptr, *text = nullptr;
  (void)cuGetErrorName(result, &name);
  (void)cuGetErrorString(result, &text);
  return {name, text};
}

StatusCode Driver::statusOf(int result, const char *&hint) const {
  switch (result) {
  case invalidPtx:
    return StatusCode::corrupt;
  case unsupportedPtxVersion:
    hint = "; a newer driver reads it";
    return StatusCode::unsupported;
  case noJitCompiler:
    return StatusCode::unsupported;
  default:
    return StatusCode::internal;
  }
}

} // namespace kvc::rt::cuda
