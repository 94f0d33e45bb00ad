//===- GpuDevice.h - Devices behind drivers ---------------------*- C++ -*-===//
#ifndef KVC_GPU_GPUDEVICE_H
#define KVC_GPU_GPUDEVICE_H

#include "core/Device.h"
#include "gpu/Driver.h"

namespace kvc::rt::gpu {

/// A tensor map: what only the driver and the device read.
struct alignas(64) TensorMap {
  std::array<uint8_t, 128> bytes{};
};

/// One device of a driver, as far as vendors differ. It lives as long as the device and all code that was loaded on it.
/// Thread-safe.
class DeviceContext {
public:
  virtual ~DeviceContext() = default;

  virtual const Driver &driver() const = 0;
  /// Makes the device that of the calling thread. A driver's result, as below.
  virtual int makeCurrent() const = 0;
  /// See Device::rankTarget.
  virtual Result<int> rankTarget(std::string_view target, std::string_view device) const = 0;
  /// The form of its code, and what messages call it.
  virtual CodeFormat format() const = 0;
  virtual std::string_view formatName() const = 0;
  virtual int load(ModuleHandle *module, std::span<const uint8_t> bytes, std::string_view assembly) const = 0;
  /// Lets a kernel have its staging memory. Why not; empty: it can.
  virtual std::string allowStaging(Function function, uint32_t bytes) const = 0;
  /// Whether there are tensor maps. Why not; empty: there are.
  virtual std::string allowBoxes() const { return "its driver makes none"; }
  /// Makes the tensor map of memory of so many bytes at an address. A driver's result.
  virtual int encode(const BoxMap &, uint64_t /*address*/, uint64_t /*bytes*/, TensorMap &) const {
    return noBinaryForGpu;
  }
  /// Multiprocessors, or compute units: what the driver calls so.
  virtual int64_t processors() const = 0;
  /// Blocks of one launch.
  virtual int64_t mostItems(const KernelInfo &kernel) const = 0;
};

/// A kernel is launched with one block for each item; the words of its arguments are its parameters. Kernels and copies
/// follow each other in one stream, and nobody waits until the host reads what they wrote.
Result<std::shared_ptr<Device>> createGpuDevice(std::string_view name, std::shared_ptr<DeviceContext> context,
                                                const DeviceOptions &options);

} // namespace kvc::rt::gpu

#endif // KVC_GPU_GPUDEVICE_H
