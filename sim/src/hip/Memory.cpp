//===- Memory.cpp - Memory of the HIP interface ---------------------------===//
#include "hip/Runtime.h"

#include <cstring>

using namespace kvc::sim;
using namespace kvc::sim::hip;

static uint64_t addressOf(const void *pointer) { return reinterpret_cast<uint64_t>(pointer); }

// Allocation ----------------------------------------------------------------------------------------------------------

static Result allocate(Device &device, void **pointer, size_t bytes) {
  if (!pointer) {
    return error(InvalidValue, "expects a place for the address of an allocation");
  }
  *pointer = nullptr;
  if (bytes == 0) {
    return Success;
  }
  if (bytes > device.chip->memoryBytes - device.memory.bytesInUse()) {
    return error(OutOfMemory, fmt::format("expects at most {} bytes of device memory, but got {}",
                                          device.chip->memoryBytes - device.memory.bytesInUse(), bytes));
  }
  // A host that has no memory left is told apart from a program error.
  try {
    *pointer = reinterpret_cast<void *>(device.memory.allocate(bytes, fmt::format("an allocation of {} bytes", bytes)));
  } catch (const Fault &fault) {
    return error(OutOfMemory, fault.what());
  }
  return Success;
}

static Result release(Device &device, void *pointer) {
  if (pointer && !device.memory.free(addressOf(pointer))) {
    return error(InvalidValue, fmt::format("expects the address of an allocation, but got {:#x}: {}",
                                           addressOf(pointer), device.memory.describe(addressOf(pointer))));
  }
  return Success;
}

KVCSIM_API hipMalloc(void **pointer, size_t bytes) {
  return withDevice([&](Device &device) { return allocate(device, pointer, bytes); });
}
KVCSIM_API hipFree(void *pointer) {
  return withDevice([&](Device &device) { return release(device, pointer); });
}
KVCSIM_API hipMallocAsync(void **pointer, size_t bytes, Stream *stream) { return hipMalloc(pointer, bytes); }
KVCSIM_API hipFreeAsync(void *pointer, Stream *stream) { return hipFree(pointer); }

KVCSIM_API hipMemGetInfo(size_t *free, size_t *total) {
  return withDevice([&](Device &device) {
    *total = device.chip->memoryBytes;
    *free = *total - device.memory.bytesInUse();
    return Success;
  });
}

// Host memory that the device reaches at the same address.
KVCSIM_API hipHostMalloc(void **pointer, size_t bytes, unsigned flags) {
  return withDevice([&](Device &device) -> Result {
    if (!pointer || bytes == 0) {
      return error(InvalidValue, "expects a size above 0 for an allocation");
    }
    auto memory = std::make_unique<uint8_t[]>(bytes);
    *pointer = memory.get();
    device.memory.registerHost(*pointer, bytes, "host memory of the runtime");
    device.hostMemory.emplace(*pointer, std::move(memory));
    return Success;
  });
}
KVCSIM_API hipHostFree(void *pointer) {
  return withDevice([&](Device &device) -> Result {
    if (pointer && device.hostMemory.erase(pointer) == 0) {
      return error(InvalidValue, "expects host memory of hipHostMalloc");
    }
    device.memory.free(addressOf(pointer));
    return Success;
  });
}
KVCSIM_API hipHostRegister(void *pointer, size_t bytes, unsigned flags) {
  return withDevice([&](Device &device) -> Result {
    if (!pointer || bytes == 0) {
      return error(InvalidValue, "expects host memory to register");
    }
    if (!device.registered.insert(pointer).second) {
      return error(HostMemoryAlreadyRegistered, "expects host memory that is not registered");
    }
    device.memory.registerHost(pointer, bytes, "registered host memory");
    return Success;
  });
}
KVCSIM_API hipHostUnregister(void *pointer) {
  return withDevice([&](Device &device) -> Result {
    if (device.registered.erase(pointer) == 0) {
      return error(HostMemoryNotRegistered, "expects host memory that is registered");
    }
    device.memory.free(addressOf(pointer));
    return Success;
  });
}
KVCSIM_API hipHostGetDevicePointer(void **pointer, void *host, unsigned flags) {
  return withDevice([&](Device &device) -> Result {
    if (!device.memory.find(addressOf(host))) {
      return error(InvalidValue, "expects host memory of the runtime, or registered memory");
    }
    *pointer = host;
    return Success;
  });
}

// Copies --------------------------------------------------------------------------------------------------------------

/// Kinds of hipMemcpy.
enum CopyKind : int { HostToHost = 0, HostToDevice = 1, DeviceToHost = 2, DeviceToDevice = 3, Default = 4 };

/// The host's address of either side; memory that the device does not know is the host's own.
static uint8_t *sideOf(Device &device, const void *pointer, size_t bytes, bool isDevice, const char *what) {
  if (isDevice || device.memory.find(addressOf(pointer))) {
    return device.memory.at(addressOf(pointer), bytes, what);
  }
  return static_cast<uint8_t *>(const_cast<void *>(pointer));
}

static Result copy(Device &device, void *to, const void *from, size_t bytes, int kind) {
  if (kind < HostToHost || kind > Default) {
    return error(InvalidValue, fmt::format("expects a kind of copy from 0 to 4, but got {}", kind));
  }
  if (bytes != 0) {
    std::memmove(sideOf(device, to, bytes, kind == HostToDevice || kind == DeviceToDevice, "copy to the device"),
                 sideOf(device, from, bytes, kind == DeviceToHost || kind == DeviceToDevice, "copy from the device"),
                 bytes);
  }
  return Success;
}

static int copyOn(void *to, const void *from, size_t bytes, int kind, const Stream *stream) {
  return withDevice([&](Device &device) -> Result {
    return isStream(device, stream) ? copy(device, to, from, bytes, kind)
                                    : error(InvalidHandle, "expects a stream of this device");
  });
}

KVCSIM_API hipMemcpy(void *to, const void *from, size_t bytes, int kind) {
  return copyOn(to, from, bytes, kind, nullptr);
}
KVCSIM_API hipMemcpyAsync(void *to, const void *from, size_t bytes, int kind, Stream *stream) {
  return copyOn(to, from, bytes, kind, stream);
}
KVCSIM_API hipMemcpyHtoD(void *to, const void *from, size_t bytes) {
  return copyOn(to, from, bytes, HostToDevice, nullptr);
}
KVCSIM_API hipMemcpyDtoH(void *to, void *from, size_t bytes) { return copyOn(to, from, bytes, DeviceToHost, nullptr); }
KVCSIM_API hipMemcpyDtoD(void *to, void *from, size_t bytes) {
  return copyOn(to, from, bytes, DeviceToDevice, nullptr);
}
KVCSIM_API hipMemcpyHtoDAsync(void *to, const void *from, size_t bytes, Stream *stream) {
  return copyOn(to, from, bytes, HostToDevice, stream);
}
KVCSIM_API hipMemcpyDtoHAsync(void *to, void *from, size_t bytes, Stream *stream) {
  return copyOn(to, from, bytes, DeviceToHost, stream);
}
KVCSIM_API hipMemcpyDtoDAsync(void *to, void *from, size_t bytes, Stream *stream) {
  return copyOn(to, from, bytes, DeviceToDevice, stream);
}

template <typename T> static int fill(void *to, T value, size_t count, const Stream *stream) {
  return withDevice([&](Device &device) -> Result {
    if (!isStream(device, stream)) {
      return error(InvalidHandle, "expects a stream of this device");
    }
    uint8_t *at = count == 0 ? nullptr : device.memory.at(addressOf(to), count * sizeof(T), "fill");
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(at + i * sizeof(T), &value, sizeof(T));
    }
    return Success;
  });
}
KVCSIM_API hipMemset(void *to, int value, size_t bytes) { return fill(to, uint8_t(value), bytes, nullptr); }
KVCSIM_API hipMemsetAsync(void *to, int value, size_t bytes, Stream *stream) {
  return fill(to, uint8_t(value), bytes, stream);
}
KVCSIM_API hipMemsetD8(void *to, unsigned char value, size_t count) { return fill(to, value, count, nullptr); }
KVCSIM_API hipMemsetD8Async(void *to, unsigned char value, size_t count, Stream *stream) {
  return fill(to, value, count, stream);
}
KVCSIM_API hipMemsetD16(void *to, unsigned short value, size_t count) { return fill(to, value, count, nullptr); }
KVCSIM_API hipMemsetD16Async(void *to, unsigned short value, size_t count, Stream *stream) {
  return fill(to, value, count, stream);
}
KVCSIM_API hipMemsetD32(void *to, int value, size_t count) { return fill(to, value, count, nullptr); }
KVCSIM_API hipMemsetD32Async(void *to, int value, size_t count, Stream *stream) {
  return fill(to, value, count, stream);
}
