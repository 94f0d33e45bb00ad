//===- Memory.cpp - Device memory of the driver interface -----------------===//
#include "cuda/Driver.h"

#include "ptx/TensorMap.h"

using namespace kvc::sim;
using namespace kvc::sim::cuda;

// Allocation ----------------------------------------------------------------------------------------------------------

KVCSIM_API cuMemAlloc_v2(DevicePointer *pointer, size_t bytes) {
  return withoutCapture("allocation", [&](Context &context) { return context.memory.allocate(pointer, bytes); });
}

KVCSIM_API cuMemFree_v2(DevicePointer pointer) {
  return withoutCapture("release of memory", [&](Context &context) { return context.memory.release(pointer); });
}

KVCSIM_API cuMemAllocAsync(DevicePointer *pointer, size_t bytes, Stream *stream) {
  return withContext([&](Context &context) { return context.memory.allocate(pointer, bytes); });
}

KVCSIM_API cuMemFreeAsync(DevicePointer pointer, Stream *stream) {
  return withContext([&](Context &context) {
    return context.streams.enqueue(stream, [&context, pointer] { return context.memory.release(pointer); });
  });
}

KVCSIM_API cuMemAllocPitch_v2(DevicePointer *pointer, size_t *pitch, size_t width, size_t height, unsigned element) {
  return withoutCapture("allocation", [&](Context &context) {
    *pitch = (width + 511) / 512 * 512;
    return context.memory.allocate(pointer, *pitch * height);
  });
}

KVCSIM_API cuMemGetInfo_v2(size_t *free, size_t *total) {
  return withContext([&](Context &context) {
    *total = context.device->chip->memoryBytes;
    *free = context.memory.bytesFree();
    return Success;
  });
}

KVCSIM_API cuMemGetAddressRange_v2(DevicePointer *base, size_t *bytes, DevicePointer pointer) {
  return withContext([&](Context &context) -> Result {
    const Allocation *found = context.memory.find(pointer);
    if (!found) {
      return error(NotFound, fmt::format("expects device memory at {:#x}, but got {}", pointer,
                                         context.memory.describe(pointer)));
    }
    if (base) {
      *base = found->base;
    }
    if (bytes) {
      *bytes = found->bytes;
    }
    return Success;
  });
}

// Host memory that the device reaches at the same address.
KVCSIM_API cuMemAllocHost_v2(void **pointer, size_t bytes) {
  return withoutCapture("allocation", [&](Context &context) { return context.memory.allocateHost(pointer, bytes); });
}

KVCSIM_API cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) { return cuMemAllocHost_v2(pointer, bytes); }

KVCSIM_API cuMemFreeHost(void *pointer) {
  return withoutCapture("release of memory", [&](Context &context) { return context.memory.releaseHost(pointer); });
}

KVCSIM_API cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags) {
  return withoutCapture("registration of memory",
                        [&](Context &context) { return context.memory.registerHost(pointer, bytes); });
}

KVCSIM_API cuMemHostUnregister(void *pointer) {
  return withoutCapture("registration of memory",
                        [&](Context &context) { return context.memory.unregisterHost(pointer); });
}

KVCSIM_API cuMemHostGetDevicePointer_v2(DevicePointer *device, void *host, unsigned flags) {
  return withContext([&](Context &context) {
    const int result = context.memory.checkHost(host);
    if (result == Success) {
      *device = reinterpret_cast<uint64_t>(host);
    }
    return result;
  });
}

KVCSIM_API cuPointerGetAttribute(void *value, int attribute, DevicePointer pointer) {
  return withContext([&](Context &context) -> Result {
    const Allocation *found = context.memory.find(pointer);
    if (!found) {
      return error(InvalidValue, fmt::format("expects memory that the driver knows, but got {:#x}", pointer));
    }
    const bool host = reinterpret_cast<uint64_t>(found->host) == found->base;
    switch (attribute) {
    case 1: // context
      *static_cast<Context **>(value) = &context;
      return Success;
    case 2: // memory type
      *static_cast<unsigned *>(value) = host ? MemoryHost : MemoryDevice;
      return Success;
    case 3: // device pointer
      *static_cast<DevicePointer *>(value) = pointer;
      return Success;
    case 8: // managed
      *static_cast<unsigned *>(value) = 0;
      return Success;
    case 11: // start of the range
      *static_cast<DevicePointer *>(value) = found->base;
      return Success;
    case 12: // its bytes
      *static_cast<size_t *>(value) = found->bytes;
      return Success;
    default:
      return error(InvalidValue,
                   fmt::format("expects a pointer attribute that the simulator has, but got {}", attribute));
    }
  });
}

// Copies --------------------------------------------------------------------------------------------------------------

/// The host's address of `bytes` at an address of either side (unified addressing).
static uint8_t *anySide(Context &context, uint64_t address, size_t bytes, const char *what) {
  if (address >> 40 == uint64_t(0x0a00) >> 8 || context.memory.find(address)) {
    return context.memory.at(address, bytes, what);
  }
  return reinterpret_cast<uint8_t *>(address);
}

static Result copyDown(Context &context, DevicePointer to, const void *from, size_t bytes) {
  if (bytes != 0) {
    std::memmove(context.memory.at(to, bytes, "copy to the device"), from, bytes);
  }
  return Success;
}
static Result copyUp(Context &context, void *to, DevicePointer from, size_t bytes) {
  if (bytes != 0) {
    std::memmove(to, context.memory.at(from, bytes, "copy from the device"), bytes);
  }
  return Success;
}
static Result copyAcross(Context &context, DevicePointer to, DevicePointer from, size_t bytes) {
  if (bytes != 0) {
    std::memmove(context.memory.at(to, bytes, "copy"), context.memory.at(from, bytes, "copy"), bytes);
  }
  return Success;
}
static Result copyAny(Context &context, DevicePointer to, DevicePointer from, size_t bytes) {
  if (bytes != 0) {
    std::memmove(anySide(context, to, bytes, "copy"), anySide(context, from, bytes, "copy"), bytes);
  }
  return Success;
}

KVCSIM_API cuMemcpyHtoD_v2(DevicePointer to, const void *from, size_t bytes) {
  return withoutCapture("copy that waits", [&](Context &context) { return copyDown(context, to, from, bytes); });
}
KVCSIM_API cuMemcpyDtoH_v2(void *to, DevicePointer from, size_t bytes) {
  return withoutCapture("copy that waits", [&](Context &context) { return copyUp(context, to, from, bytes); });
}
KVCSIM_API cuMemcpyDtoD_v2(DevicePointer to, DevicePointer from, size_t bytes) {
  return withoutCapture("copy that waits", [&](Context &context) { return copyAcross(context, to, from, bytes); });
}
KVCSIM_API cuMemcpy(DevicePointer to, DevicePointer from, size_t bytes) {
  return withoutCapture("copy that waits", [&](Context &context) { return copyAny(context, to, from, bytes); });
}
KVCSIM_API cuMemcpyHtoDAsync_v2(DevicePointer to, const void *from, size_t bytes, Stream *stream) {
  return withContext([&](Context &context) {
    return context.streams.enqueue(stream, [&context, to, from, bytes] { return copyDown(context, to, from, bytes); });
  });
}
KVCSIM_API cuMemcpyDtoHAsync_v2(void *to, DevicePointer from, size_t bytes, Stream *stream) {
  return withContext([&](Context &context) {
    return context.streams.enqueue(stream, [&context, to, from, bytes] { return copyUp(context, to, from, bytes); });
  });
}
KVCSIM_API cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, size_t bytes, Stream *stream) {
  return withContext([&](Context &context) {
    return context.streams.enqueue(stream,
                                   [&context, to, from, bytes] { return copyAcross(context, to, from, bytes); });
  });
}
KVCSIM_API cuMemcpyAsync(DevicePointer to, DevicePointer from, size_t bytes, Stream *stream) {
  return withContext([&](Context &context) {
    return context.streams.enqueue(stream, [&context, to, from, bytes] { return copyAny(context, to, from, bytes); });
  });
}

static Result copy2D(Context &context, const Copy2D &copy) {
  if (copy.sourceType == MemoryArray || copy.destinationType == MemoryArray) {
    return error(NotSupported, "expects linear memory in a 2D copy, but got an array");
  }
  const size_t sourcePitch = copy.sourcePitch ? copy.sourcePitch : copy.widthBytes;
  const size_t destinationPitch = copy.destinationPitch ? copy.destinationPitch : copy.widthBytes;
  for (size_t row = 0; row < copy.height && copy.widthBytes != 0; ++row) {
    const size_t from = (copy.sourceY + row) * sourcePitch + copy.sourceX;
    const size_t to = (copy.destinationY + row) * destinationPitch + copy.destinationX;
    const uint8_t *source = copy.sourceType == MemoryHost
                                ? static_cast<const uint8_t *>(copy.sourceHost) + from
                                : anySide(context, copy.sourceDevice + from, copy.widthBytes, "2D copy");
    uint8_t *destination = copy.destinationType == MemoryHost
                               ? static_cast<uint8_t *>(copy.destinationHost) + to
                               : anySide(context, copy.destinationDevice + to, copy.widthBytes, "2D copy");
    std::memmove(destination, source, copy.widthBytes);
  }
  return Success;
}

KVCSIM_API cuMemcpy2D_v2(const Copy2D *copy) {
  return withoutCapture("copy that waits", [&](Context &context) { return copy2D(context, *copy); });
}
KVCSIM_API cuMemcpy2DAsync_v2(const Copy2D *copy, Stream *stream) {
  return withContext([&](Context &context) {
    return context.streams.enqueue(stream, [&context, copy = *copy] { return copy2D(context, copy); });
  });
}

// Fills ---------------------------------------------------------------------------------------------------------------

template <typename T> static Result fill(Context &context, DevicePointer to, T value, size_t count) {
  if (to % sizeof(T) != 0) {
    return error(InvalidValue,
                 fmt::format("expects an address that is a multiple of {}, but got {:#x}", sizeof(T), to));
  }
  size_t bytes;
  if (__builtin_mul_overflow(count, sizeof(T), &bytes)) {
    return error(InvalidValue, "expects fewer than 2^64 bytes");
  }
  if (bytes != 0) {
    auto *at = reinterpret_cast<T *>(context.memory.at(to, bytes, "fill"));
    std::fill(at, at + count, value);
  }
  return Success;
}

#define KVCSIM_FILL(name, asyncName, type)                                                                             \
  KVCSIM_API name(DevicePointer to, type value, size_t count) {                                                        \
    return withoutCapture("fill that waits", [&](Context &context) { return fill(context, to, value, count); });       \
  }                                                                                                                    \
  KVCSIM_API asyncName(DevicePointer to, type value, size_t count, Stream *stream) {                                   \
    return withContext([&](Context &context) {                                                                         \
      return context.streams.enqueue(stream,                                                                           \
                                     [&context, to, value, count] { return fill(context, to, value, count); });        \
    });                                                                                                                \
  }
KVCSIM_FILL(cuMemsetD8_v2, cuMemsetD8Async, unsigned char)
KVCSIM_FILL(cuMemsetD16_v2, cuMemsetD16Async, unsigned short)
KVCSIM_FILL(cuMemsetD32_v2, cuMemsetD32Async, unsigned)
#undef KVCSIM_FILL

// Tensor maps ---------------------------------------------------------------------------------------------------------

KVCSIM_API cuTensorMapEncodeTiled(void *map, int dataType, unsigned rank, void *address, const uint64_t *dimensions,
                                  const uint64_t *strides, const unsigned *box, const unsigned *elementStrides,
                                  int interleave, int swizzle, int promotion, int fill) {
  return guarded([&]() -> Result {
    if (!map || reinterpret_cast<uintptr_t>(map) % 64 != 0) {
      return error(InvalidValue, "tensor map: expects a map at a multiple of 64 bytes");
    }
    ptx::TensorMap tensor;
    const auto refusal = ptx::encodeTiled({dataType, rank, reinterpret_cast<uint64_t>(address), dimensions, strides,
                                           box, elementStrides, interleave, swizzle, fill},
                                          tensor);
    if (refusal) {
      return error(refusal->isUnsupported ? NotSupported : InvalidValue, "tensor map: " + refusal->text);
    }
    std::memcpy(map, &tensor, sizeof tensor);
    return Success;
  });
}
