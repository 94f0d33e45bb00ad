//===- CpuDevice.h - The device "cpu" ---------------------------*- C++ -*-===//
#ifndef KVC_CPU_CPUDEVICE_H
#define KVC_CPU_CPUDEVICE_H

#include "core/Device.h"

namespace kvc::rt {

Result<std::shared_ptr<Device>> createCpuDevice(const DeviceOptions &options);

} // namespace kvc::rt

#endif // KVC_CPU_CPUDEVICE_H
