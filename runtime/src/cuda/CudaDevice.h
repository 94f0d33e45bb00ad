//===- CudaDevice.h - Devices behind the CUDA driver API --------*- C++ -*-===//
#ifndef KVC_CUDA_CUDADEVICE_H
#define KVC_CUDA_CUDADEVICE_H

#include "core/Device.h"

namespace kvc::rt {

/// "cuda:N": device N of the driver of this machine. "sim:sm_80" (or another chip): the same code with the simulator in
/// the driver's place.
Result<std::shared_ptr<Device>> createCudaDevice(std::string_view name, const DeviceOptions &options);

} // namespace kvc::rt

#endif // KVC_CUDA_CUDADEVICE_H
