//===- HipDevice.h - Devices behind the HIP API -----------------*- C++ -*-===//
#ifndef KVC_HIP_HIPDEVICE_H
#define KVC_HIP_HIPDEVICE_H

#include "core/Device.h"

namespace kvc::rt {

/// "hip:N": device N of ROCm's runtime on this machine. "sim:gfx942" (or another chip): the same code with the
/// simulator in its place.
Result<std::shared_ptr<Device>> createHipDevice(std::string_view name, const DeviceOptions &options);

} // namespace kvc::rt

#endif // KVC_HIP_HIPDEVICE_H
