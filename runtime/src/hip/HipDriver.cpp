//===- HipDriver.cpp - The HIP API ----------------------------------------===//
#include "hip/HipDriver.h"

namespace kvc::rt::hip {

static const gpu::Interface hipInterface{.name = "HIP",
                                         .title = "the HIP API",
                                         .library = "a library of HIP 6 or later",
                                         .driver = "an AMD driver",
                                         .files = {"libamdhip64.so.6", "libamdhip64.so.7", "libamdhip64.so"},
                                         .variable = "KVC_HIP",
                                         .simulatorFile = "libkvcsim_hip.so",
                                         .simulatorVariable = "KVC_SIM_HIP",
                                         .simulatedChip = "gfx942",
                                         .functions = {
                                             .initialize = "hipInit",
                                             .countDevices = "hipGetDeviceCount",
                                             .allocate = "hipMalloc",
                                             .release = "hipFree",
                                             .allocateHost = "hipHostMalloc",
                                             .releaseHost = "hipHostFree",
                                             .copyToDevice = "hipMemcpyHtoDAsync",
                                             .copyToHost = "hipMemcpyDtoHAsync",
                                             .copyOnDevice = "hipMemcpyDtoDAsync",
                                             .createStream = "hipStreamCreateWithFlags",
                                             .destroyStream = "hipStreamDestroy",
                                             .synchronizeStream = "hipStreamSynchronize",
                                             .createEvent = "hipEventCreateWithFlags",
                                             .destroyEvent = "hipEventDestroy",
                                             .recordEvent = "hipEventRecord",
                                             .synchronizeEvent = "hipEventSynchronize",
                                             .elapsedTime = "hipEventElapsedTime",
                                             .beginCapture = "hipStreamBeginCapture",
                                             .endCapture = "hipStreamEndCapture",
                                             .instantiateGraph = "hipGraphInstantiateWithFlags",
                                             .launchGraph = "hipGraphLaunch",
                                             .destroyGraph = "hipGraphDestroy",
                                             .destroyGraphExec = "hipGraphExecDestroy",
                                             .loadModule = "hipModuleLoadData",
                                             .unloadModule = "hipModuleUnload",
                                             .findFunction = "hipModuleGetFunction",
                                             .launchKernel = "hipModuleLaunchKernel",
                                         }};

Driver::Driver() : gpu::Driver(hipInterface) {}

std::vector<gpu::Driver::Symbol> Driver::ownSymbols() {
  return {
#define KVC_HIP_SYMBOL(name, ...) {#name, reinterpret_cast<void **>(&name)},
      KVC_HIP_FUNCTIONS(KVC_HIP_SYMBOL)
#undef KVC_HIP_SYMBOL
  };
}

std::pair<const char *, const char *> Driver::describe(int result) const {
  return {hipGetErrorName(result), hipGetErrorString(result)};
}

StatusCode Driver::statusOf(int result, const char *&) const {
  return result == sharedObjectFailed ? StatusCode::corrupt : StatusCode::internal;
}

} // namespace kvc::rt::hip
