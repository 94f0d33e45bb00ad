//===- Memory.cpp - Memory of the HIP interface ---------------------------===//
#include "hip/Runtime.h"

#include <cstring>

using namespace kvc::sim;
using namespace kvc::sim::hip;

static uint64_t addressOf(const void *pointer) { return reinterpret_cast<uint64_t>(pointer); }

// Allocation ----------------------------------------------------------------------------------------------------------

/// Nothing is an allocation of no bytes.
static int allocate(Device &device, void **pointer, size_t bytes) {
  if (!pointer) {
    return error(InvalidValue, "expects a place for the address of an allocation");
  }
  unsigned long long address = 0;
  const int result = bytes == 0 ? Success : device.memory.allocate(&address, bytes);
  *pointer = reinterpret_cast<void *>(address);
  return result;
}

KVCSIM_API hipMalloc(void **pointer, size_t bytes) {
  return withoutCapture("allocation", [&](Device &device) { return allocate(device, pointer, bytes); });
}
KVCSIM_API hipFree(void *pointer) {
  return withoutCapture("release of memory", [&](Device &device) { return device.memory.release(addressOf(pointer)); });
}
KVCSIM_API hipMallocAsync(void **pointer, size_t bytes, Stream *stream) {
  return withDevice([&](Device &device) { return allocate(device, pointer, bytes); });
}
KVCSIM_API hipFreeAsync(void *pointer, Stream *stream) {
  return withDevice([&](Device &device) {
    return device.streams.enqueue(stream, [&device, pointer] { return device.memory.release(addressOf(pointer)); });
  });
}

KVCSIM_API hipMemGetInfo(size_t *free, size_t *total) {
  return withDevice([&](Device &device) {
    *total = device.chip->memoryBytes;
    *free = device.memory.bytesFree();
    return Success;
  });
}

// Host memory that the device reaches at the same address.
KVCSIM_API hipHostMalloc(void **pointer, size_t bytes, unsigned flags) {
  return withoutCapture("allocation", [&](Device &device) { return device.memory.allocateHost(pointer, bytes); });
}
KVCSIM_API hipHostFree(void *pointer) {
  return withoutCapture("release of memory",
                        [&](Device &device) -> int { return pointer ? device.memory.releaseHost(pointer) : Success; });
}
KVCSIM_API hipHostRegister(void *pointer, size_t bytes, unsigned flags) {
  return withoutCapture("registration of memory",
                        [&](Device &device) { return device.memory.registerHost(pointer, bytes); });
}
KVCSIM_API hipHostUnregister(void *pointer) {
  return withoutCapture("registration of memory",
                        [&](Device &device) { return device.memory.unregisterHost(pointer); });
}
KVCSIM_API hipHostGetDevicePointer(void **pointer, void *host, unsigned flags) {
  return withDevice([&](Device &device) {
    const int result = device.memory.checkHost(host);
    if (result == Success) {
      *pointer = host;
    }
    return result;
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

static int copyAndWait(void *to, const void *from, size_t bytes, int kind) {
  return withoutCapture("copy that waits", [&](Device &device) { return copy(device, to, from, bytes, kind); });
}
static int copyOn(void *to, const void *from, size_t bytes, int kind, Stream *stream) {
  return withDevice([&](Device &device) {
    return device.streams.enqueue(stream, [=, &device] { return copy(device, to, from, bytes, kind); });
  });
}

KVCSIM_API hipMemcpy(void *to, const void *from, size_t bytes, int kind) { return copyAndWait(to, from, bytes, kind); }
KVCSIM_API hipMemcpyAsync(void *to, const void *from, size_t bytes, int kind, Stream *stream) {
  return copyOn(to, from, bytes, kind, stream);
}
KVCSIM_API hipMemcpyHtoD(void *to, const void *from, size_t bytes) {
  return copyAndWait(to, from, bytes, HostToDevice);
}
KVCSIM_API hipMemcpyDtoH(void *to, void *from, size_t bytes) { return copyAndWait(to, from, bytes, DeviceToHost); }
KVCSIM_API hipMemcpyDtoD(void *to, void *from, size_t bytes) { return copyAndWait(to, from, bytes, DeviceToDevice); }
KVCSIM_API hipMemcpyHtoDAsync(void *to, const void *from, size_t bytes, Stream *stream) {
  return copyOn(to, from, bytes, HostToDevice, stream);
}
KVCSIM_API hipMemcpyDtoHAsync(void *to, void *from, size_t bytes, Stream *stream) {
  return copyOn(to, from, bytes, DeviceToHost, stream);
}
KVCSIM_API hipMemcpyDtoDAsync(void *to, void *from, size_t bytes, Stream *stream) {
  return copyOn(to, from, bytes, DeviceToDevice, stream);
}

template <typename T> static Result fill(Device &device, void *to, T value, size_t count) {
  uint8_t *at = count == 0 ? nullptr : device.memory.at(addressOf(to), count * sizeof(T), "fill");
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(at + i * sizeof(T), &value, sizeof(T));
  }
  return Success;
}
template <typename T> static int fillAndWait(void *to, T value, size_t count) {
  return withoutCapture("fill that waits", [&](Device &device) { return fill(device, to, value, count); });
}
template <typename T> static int fillOn(void *to, T value, size_t count, Stream *stream) {
  return withDevice([&](Device &device) {
    return device.streams.enqueue(stream, [=, &device] { return fill(device, to, value, count); });
  });
}
KVCSIM_API hipMemset(void *to, int value, size_t bytes) { return fillAndWait(to, uint8_t(value), bytes); }
KVCSIM_API hipMemsetAsync(void *to, int value, size_t bytes, Stream *stream) {
  return fillOn(to, uint8_t(value), bytes, stream);
}
KVCSIM_API hipMemsetD8(void *to, unsigned char value, size_t count) { return fillAndWait(to, value, count); }
KVCSIM_API hipMemsetD8Async(void *to, unsigned char value, size_t count, Stream *stream) {
  return fillOn(to, value, count, stream);
}
KVCSIM_API hipMemsetD16(void *to, unsigned short value, size_t count) { return fillAndWait(to, value, count); }
KVCSIM_API hipMemsetD16Async(void *to, unsigned short value, size_t count, Stream *stream) {
  return fillOn(to, value, count, stream);
}
KVCSIM_API hipMemsetD32(void *to, int value, size_t count) { return fillAndWait(to, value, count); }
KVCSIM_API hipMemsetD32Async(void *to, int value, size_t count, Stream *stream) {
  return fillOn(to, value, count, stream);
}
