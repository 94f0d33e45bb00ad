//===- Device.cpp - Devices and errors of the HIP interface ---------------===//
#include "hip/Runtime.h"

#include "kvcsim/kvcsim.h"

#include <cstdlib>
#include <cstring>

using namespace kvc::sim;
using namespace kvc::sim::hip;

Runtime &kvc::sim::hip::runtime() {
  static Runtime state;
  return state;
}

int &kvc::sim::hip::currentDevice() {
  thread_local int device = 0;
  return device;
}
Result &kvc::sim::hip::lastResult() {
  thread_local Result last = Success;
  return last;
}

Result kvc::sim::hip::error(Result result, std::string text) {
  runtime().lastError = std::move(text);
  return result;
}

Result kvc::sim::hip::resultOf(const Fault &fault) {
  switch (fault.kind) {
  case FaultKind::Syntax:
    return InvalidImage;
  case FaultKind::Unsupported:
  case FaultKind::LaterVersion:
    return NotSupported;
  case FaultKind::InvalidValue:
    return InvalidValue;
  case FaultKind::IllegalAddress:
  case FaultKind::Misaligned:
    return IllegalAddress;
  case FaultKind::OutOfMemory:
    return OutOfMemory;
  case FaultKind::Deadlock:
    return LaunchTimeout;
  case FaultKind::Race:
  case FaultKind::Trap:
    return LaunchFailed;
  case FaultKind::Other:
    break;
  }
  return Unknown;
}

// Options -------------------------------------------------------------------------------------------------------------

KVCSIM_EXPORT int kvcsim_device(const char *target) { return runtime().deviceOf(target); }
KVCSIM_EXPORT const char *kvcsim_last_error(void) { return runtime().errorText(); }
KVCSIM_EXPORT int kvcsim_set_option(const char *name, const char *value) {
  return runtime().setOption(name, value) ? 0 : -1;
}
KVCSIM_EXPORT const char *kvcsim_take_report(void) { return runtime().takeReports(); }

// Errors --------------------------------------------------------------------------------------------------------------

static constexpr struct {
  Result result;
  const char *name, *text;
} results[] = {
    {Success, "hipSuccess", "no error"},
    {InvalidValue, "hipErrorInvalidValue", "invalid argument"},
    {OutOfMemory, "hipErrorOutOfMemory", "out of memory"},
    {NotInitialized, "hipErrorNotInitialized", "initialization error"},
    {InvalidConfiguration, "hipErrorInvalidConfiguration", "invalid configuration argument"},
    {InvalidDevicePointer, "hipErrorInvalidDevicePointer", "invalid device pointer"},
    {NoDevice, "hipErrorNoDevice", "no ROCm-capable device is detected"},
    {InvalidDevice, "hipErrorInvalidDevice", "invalid device ordinal"},
    {InvalidImage, "hipErrorInvalidImage", "device kernel image is invalid"},
    {NoBinaryForGpu, "hipErrorNoBinaryForGpu", "no kernel image is available for execution on the device"},
    {FileNotFound, "hipErrorFileNotFound", "file not found"},
    {InvalidHandle, "hipErrorInvalidHandle", "invalid resource handle"},
    {NotFound, "hipErrorNotFound", "named symbol not found"},
    {NotReady, "hipErrorNotReady", "device not ready"},
    {IllegalAddress, "hipErrorIllegalAddress", "an illegal memory access was encountered"},
    {LaunchOutOfResources, "hipErrorLaunchOutOfResources", "out of resources"},
    {LaunchTimeout, "hipErrorLaunchTimeOut", "the launch timed out and was terminated"},
    {HostMemoryAlreadyRegistered, "hipErrorHostMemoryAlreadyRegistered", "the memory is already registered"},
    {HostMemoryNotRegistered, "hipErrorHostMemoryNotRegistered", "the memory is not registered"},
    {LaunchFailed, "hipErrorLaunchFailure", "unspecified launch failure"},
    {NotSupported, "hipErrorNotSupported", "operation not supported"},
    {StreamCaptureUnsupported, "hipErrorStreamCaptureUnsupported",
     "the operation is not permitted when the stream is capturing"},
    {StreamCaptureInvalidated, "hipErrorStreamCaptureInvalidated", "the capture was invalidated"},
    {StreamCaptureUnmatched, "hipErrorStreamCaptureUnmatched", "the capture was not begun in this stream"},
    {StreamCaptureImplicit, "hipErrorStreamCaptureImplicit",
     "the operation would depend on a capturing stream by the default stream"},
    {StreamCaptureWrongThread, "hipErrorStreamCaptureWrongThread", "the capture was begun by another thread"},
    {Unknown, "hipErrorUnknown", "unknown error"},
};

KVCSIM_EXPORT const char *hipGetErrorName(int code) {
  for (const auto &entry : results) {
    if (entry.result == code) {
      return entry.name;
    }
  }
  return "hipErrorUnknown";
}

KVCSIM_EXPORT const char *hipGetErrorString(int code) {
  for (const auto &entry : results) {
    if (entry.result == code) {
      return entry.text;
    }
  }
  return "unknown error";
}

KVCSIM_API hipGetLastError(void) {
  const Result last = lastResult();
  lastResult() = Success;
  return last;
}
KVCSIM_API hipPeekAtLastError(void) { return lastResult(); }

// Devices -------------------------------------------------------------------------------------------------------------

KVCSIM_API hipInit(unsigned flags) {
  return guarded(
      [&]() -> Result { return flags == 0 ? Success : error(InvalidValue, "expects no flags for hipInit"); });
}

static int version(int *to) {
  return guarded([&]() -> Result {
    // HIP 6.0.
    *to = 60000000;
    return Success;
  });
}
KVCSIM_API hipDriverGetVersion(int *to) { return version(to); }
KVCSIM_API hipRuntimeGetVersion(int *to) { return version(to); }

KVCSIM_API hipGetDeviceCount(int *count) {
  return guarded([&] {
    *count = int(runtime().devices.size());
    return Success;
  });
}

template <typename F> static int withOrdinal(int ordinal, F f) {
  return guarded([&]() -> Result {
    if (ordinal < 0 || size_t(ordinal) >= runtime().devices.size()) {
      return error(InvalidDevice,
                   fmt::format("expects one of {} devices, but got {}", runtime().devices.size(), ordinal));
    }
    return f(*runtime().devices[size_t(ordinal)]);
  });
}

KVCSIM_API hipSetDevice(int ordinal) {
  return withOrdinal(ordinal, [&](Device &) {
    currentDevice() = ordinal;
    return Success;
  });
}
KVCSIM_API hipGetDevice(int *ordinal) {
  return guarded([&] {
    *ordinal = currentDevice();
    return Success;
  });
}
KVCSIM_API hipDeviceGet(int *device, int ordinal) {
  return withOrdinal(ordinal, [&](Device &) {
    *device = ordinal;
    return Success;
  });
}
KVCSIM_API hipDeviceGetName(char *name, int length, int ordinal) {
  return withOrdinal(ordinal, [&](Device &device) -> Result {
    if (length <= 0) {
      return error(InvalidValue, "expects room for the name of a device");
    }
    const std::string text = std::string(device.chip->name).substr(0, size_t(length) - 1);
    std::memcpy(name, text.c_str(), text.size() + 1);
    return Success;
  });
}
KVCSIM_API hipDeviceTotalMem(size_t *bytes, int ordinal) {
  return withOrdinal(ordinal, [&](Device &device) {
    *bytes = device.chip->memoryBytes;
    return Success;
  });
}

static bool attributeOf(const amdgcn::Chip &chip, int attribute, int &value) {
  const std::pair<int, int> values[] = {
      {EccEnabled, 0},
      {AsyncEngineCount, 1},
      {CanMapHostMemory, 1},
      {ClockRate, chip.clockKhz},
      {ComputeMode, 0},
      {ConcurrentKernels, 1},
      {CooperativeLaunch, 0},
      {Integrated, 0},
      {KernelExecTimeout, 0},
      {L2CacheSize, chip.l2Bytes},
      {ComputeCapabilityMajor, chip.major},
      {ManagedMemory, 0},
      {MaxBlockDimX, 1024},
      {MaxBlockDimY, 1024},
      {MaxBlockDimZ, 1024},
      {MaxGridDimX, 0x7fffffff},
      {MaxGridDimY, 65535},
      {MaxGridDimZ, 65535},
      {MaxThreadsPerBlock, 1024},
      {MaxThreadsPerMultiprocessor, int(chip.wavesPerSimd * chip.simdsPerUnit * chip.waveSize)},
      {MaxPitch, 0x7fffffff},
      {MemoryBusWidth, chip.memoryBusBits},
      {MemoryClockRate, chip.memoryClockKhz},
      {ComputeCapabilityMinor, chip.minor},
      {MultiprocessorCount, int(chip.computeUnits)},
      {PciBusId, 0},
      {PciDeviceId, 0},
      {PciDomainId, 0},
      {MaxRegistersPerBlock, 65536},
      {MaxSharedMemoryPerBlock, int(chip.ldsBytes)},
      {TotalConstantMemory, 0x7fffffff},
      {UnifiedAddressing, 1},
      {WarpSize, int(chip.waveSize)},
      {HostRegisterSupported, 1},
      {MaxSharedMemoryPerMultiprocessor, int(chip.ldsBytes)},
  };
  for (const auto &[name, known] : values) {
    if (name == attribute) {
      value = known;
      return true;
    }
  }
  return false;
}

KVCSIM_API hipDeviceGetAttribute(int *value, int attribute, int ordinal) {
  return withOrdinal(ordinal, [&](Device &device) -> Result {
    return attributeOf(*device.chip, attribute, *value)
               ? Success
               : error(InvalidValue,
                       fmt::format("expects a device attribute that the simulator has, but got {}", attribute));
  });
}

KVCSIM_API hipGetDevicePropertiesR0600(DeviceProperties *to, int ordinal) {
  return withOrdinal(ordinal, [&](Device &device) {
    const amdgcn::Chip &chip = *device.chip;
    auto attribute = [&](int name) {
      int value = 0;
      attributeOf(chip, name, value);
      return value;
    };
    DeviceProperties p{};
    const std::string name(chip.name), target(chip.target);
    std::memcpy(p.name, name.c_str(), std::min(name.size(), sizeof(p.name) - 1));
    std::memcpy(p.gcnArchName, target.c_str(), target.size());
    p.totalGlobalMem = chip.memoryBytes;
    p.sharedMemPerBlock = p.sharedMemPerMultiprocessor = p.maxSharedMemoryPerMultiProcessor = chip.ldsBytes;
    p.regsPerBlock = p.regsPerMultiprocessor = attribute(MaxRegistersPerBlock);
    p.warpSize = int(chip.waveSize);
    p.memPitch = size_t(attribute(MaxPitch));
    p.maxThreadsPerBlock = 1024;
    for (unsigned i = 0; i < 3; ++i) {
      p.maxThreadsDim[i] = attribute(MaxBlockDimX + int(i));
      p.maxGridSize[i] = attribute(MaxGridDimX + int(i));
    }
    p.clockRate = p.clockInstructionRate = chip.clockKhz;
    p.totalConstMem = size_t(attribute(TotalConstantMemory));
    p.major = chip.major;
    p.minor = chip.minor;
    p.multiProcessorCount = int(chip.computeUnits);
    p.canMapHostMemory = p.concurrentKernels = p.unifiedAddressing = p.asyncEngineCount = p.hostRegisterSupported = 1;
    p.memoryClockRate = chip.memoryClockKhz;
    p.memoryBusWidth = chip.memoryBusBits;
    p.l2CacheSize = chip.l2Bytes;
    p.maxThreadsPerMultiProcessor = attribute(MaxThreadsPerMultiprocessor);
    *to = p;
    return Success;
  });
}

KVCSIM_API hipDeviceSynchronize(void) {
  return withoutCapture("synchronisation of the device", [](Device &) { return Success; });
}

/// Frees everything of the device, and forgets a kernel's failure.
KVCSIM_API hipDeviceReset(void) {
  return guarded([] {
    auto &device = runtime().devices[size_t(currentDevice())];
    device = std::make_unique<Device>(runtime(), *device->chip);
    return Success;
  });
}
