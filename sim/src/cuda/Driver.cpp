//===- Driver.cpp - Devices, contexts and errors --------------------------===//
#include "cuda/Driver.h"

#include "kvcsim/kvcsim.h"

using namespace kvc::sim;
using namespace kvc::sim::cuda;

Driver &kvc::sim::cuda::driver() {
  static Driver state;
  return state;
}

std::vector<Context *> &kvc::sim::cuda::contextStack() {
  thread_local std::vector<Context *> stack;
  return stack;
}

Result kvc::sim::cuda::error(Result result, std::string text) {
  driver().lastError = std::move(text);
  return result;
}

Result kvc::sim::cuda::resultOf(const Fault &fault) {
  switch (fault.kind) {
  case FaultKind::Syntax:
  case FaultKind::Unsupported:
    return InvalidPtx;
  case FaultKind::LaterVersion:
    return UnsupportedPtxVersion;
  case FaultKind::InvalidValue:
    return InvalidValue;
  case FaultKind::IllegalAddress:
    return IllegalAddress;
  case FaultKind::Misaligned:
    return MisalignedAddress;
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

KVCSIM_EXPORT int kvcsim_device(const char *target) { return driver().deviceOf(target); }
KVCSIM_EXPORT const char *kvcsim_last_error(void) { return driver().errorText(); }
KVCSIM_EXPORT int kvcsim_set_option(const char *name, const char *value) {
  return driver().setOption(name, value) ? 0 : -1;
}
KVCSIM_EXPORT const char *kvcsim_take_report(void) { return driver().takeReports(); }

// Errors --------------------------------------------------------------------------------------------------------------

static constexpr struct {
  Result result;
  const char *name, *text;
} results[] = {
    {Success, "CUDA_SUCCESS", "no error"},
    {InvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {InvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {InvalidImage, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {InvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {NoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {InvalidPtx, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {UnsupportedPtxVersion, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX has an unsupported version"},
    {FileNotFound, "CUDA_ERROR_FILE_NOT_FOUND", "file not found"},
    {InvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {NotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {IllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {LaunchOutOfResources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {LaunchTimeout, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
    {HostMemoryAlreadyRegistered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "the memory is already registered"},
    {HostMemoryNotRegistered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "the memory is not registered"},
    {IllegalInstruction, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered"},
    {MisalignedAddress, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {LaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {NotSupported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {StreamCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {StreamCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "the capture was invalidated"},
    {StreamCaptureUnmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "the capture was not begun in this stream"},
    {StreamCaptureImplicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {StreamCaptureWrongThread, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {InvalidClusterSize, "CUDA_ERROR_INVALID_CLUSTER_SIZE", "cluster misconfiguration"},
    {Unknown, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

KVCSIM_API cuGetErrorName(int code, const char **text) {
  for (const auto &entry : results) {
    if (entry.result == code) {
      *text = entry.name;
      return Success;
    }
  }
  *text = nullptr;
  return InvalidValue;
}

KVCSIM_API cuGetErrorString(int code, const char **text) {
  for (const auto &entry : results) {
    if (entry.result == code) {
      *text = entry.text;
      return Success;
    }
  }
  *text = nullptr;
  return InvalidValue;
}

// Devices -------------------------------------------------------------------------------------------------------------

KVCSIM_API cuInit(unsigned flags) {
  return guarded([&]() -> Result {
    if (flags != 0) {
      return error(InvalidValue, "expects no flags for cuInit");
    }
    driver().initialise("sm_", "sm_80");
    return Success;
  });
}

KVCSIM_API cuDriverGetVersion(int *version) {
  if (!version) {
    return InvalidValue;
  }
  *version = 13000;
  return Success;
}

template <typename F> static int withDevice(int ordinal, F f) {
  return guarded([&]() -> Result {
    if (!driver().initialised) {
      return error(NotInitialized, "expects cuInit before other calls");
    }
    if (ordinal < 0 || size_t(ordinal) >= driver().devices.size()) {
      return error(InvalidDevice,
                   fmt::format("expects a device below {}, but got {}", driver().devices.size(), ordinal));
    }
    return f(*driver().devices[size_t(ordinal)]);
  });
}

KVCSIM_API cuDeviceGetCount(int *count) {
  return guarded([&]() -> Result {
    if (!driver().initialised) {
      return error(NotInitialized, "expects cuInit before other calls");
    }
    *count = int(driver().devices.size());
    return Success;
  });
}

KVCSIM_API cuDeviceGet(int *device, int ordinal) {
  return withDevice(ordinal, [&](Device &) {
    *device = ordinal;
    return Success;
  });
}

KVCSIM_API cuDeviceGetName(char *name, int bytes, int device) {
  return withDevice(device, [&](Device &d) -> Result {
    if (!name || bytes <= 0) {
      return error(InvalidValue, "expects room for the name");
    }
    const std::string_view text = d.chip->name.substr(0, size_t(bytes) - 1);
    std::memcpy(name, text.data(), text.size());
    name[text.size()] = '\0';
    return Success;
  });
}

KVCSIM_API cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
  return withDevice(device, [&](Device &d) -> Result {
    std::memset(uuid, 0, 16);
    std::memcpy(uuid, "kvcsim", 6);
    uuid[15] = static_cast<unsigned char>(device);
    return Success;
  });
}

KVCSIM_API cuDeviceTotalMem_v2(size_t *bytes, int device) {
  return withDevice(device, [&](Device &d) {
    *bytes = d.chip->memoryBytes;
    return Success;
  });
}

KVCSIM_API cuDeviceGetAttribute(int *value, int attribute, int device) {
  return withDevice(device, [&](Device &d) -> Result {
    if (!value || !attributeOf(*d.chip, attribute, *value)) {
      return error(InvalidValue,
                   fmt::format("expects a device attribute that the simulator has, but got {}", attribute));
    }
    return Success;
  });
}

KVCSIM_API cuDeviceComputeCapability(int *major, int *minor, int device) {
  return withDevice(device, [&](Device &d) {
    *major = d.chip->major;
    *minor = d.chip->minor;
    return Success;
  });
}

// Contexts ------------------------------------------------------------------------------------------------------------

Context::Context(DriverOptions &state, Device &device)
    : device(&device), memory(state, device.chip->memoryBytes), streams(state) {}

static void forget(Context *context) {
  // Of other threads only the stacks' entries stay: their calls are refused because the context is not known.
  std::erase(contextStack(), context);
}

KVCSIM_API cuDevicePrimaryCtxRetain(Context **context, int device) {
  return withDevice(device, [&](Device &d) {
    if (!d.primary) {
      d.primary = std::make_unique<Context>(driver(), d);
    }
    ++d.primary->references;
    *context = d.primary.get();
    return Success;
  });
}

KVCSIM_API cuDevicePrimaryCtxRelease_v2(int device) {
  return withDevice(device, [&](Device &d) -> Result {
    if (!d.primary) {
      return error(InvalidContext, "expects a primary context that is retained, but got none");
    }
    if (--d.primary->references == 0) {
      forget(d.primary.get());
      d.primary.reset();
    }
    return Success;
  });
}

KVCSIM_API cuDevicePrimaryCtxReset_v2(int device) {
  return withDevice(device, [&](Device &d) {
    if (d.primary) {
      // Holders keep their handle: what the context had is gone.
      const int references = d.primary->references;
      const bool current = !contextStack().empty() && contextStack().back() == d.primary.get();
      forget(d.primary.get());
      d.primary = std::make_unique<Context>(driver(), d);
      d.primary->references = references;
      if (current) {
        contextStack().push_back(d.primary.get());
      }
    }
    return Success;
  });
}

KVCSIM_API cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags) {
  return withDevice(device, [&](Device &) { return Success; });
}

KVCSIM_API cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
  return withDevice(device, [&](Device &d) {
    *flags = d.primary ? d.primary->flags : 0;
    *active = d.primary != nullptr;
    return Success;
  });
}

KVCSIM_API cuCtxCreate_v2(Context **context, unsigned flags, int device) {
  return withDevice(device, [&](Device &d) {
    auto created = std::make_unique<Context>(driver(), d);
    created->flags = flags;
    *context = addTo(driver().contexts, std::move(created));
    contextStack().push_back(*context);
    return Success;
  });
}

KVCSIM_API cuCtxDestroy_v2(Context *context) {
  return guarded([&]() -> Result {
    forget(context);
    return removeFrom(driver().contexts, context) ? Success : error(InvalidContext, "expects a context of cuCtxCreate");
  });
}

static bool isKnown(Context *context) {
  const auto &state = driver();
  return isIn(state.contexts, context) ||
         std::any_of(state.devices.begin(), state.devices.end(),
                     [&](const auto &device) { return device->primary.get() == context; });
}

KVCSIM_API cuCtxSetCurrent(Context *context) {
  return guarded([&]() -> Result {
    auto &stack = contextStack();
    if (context && !isKnown(context)) {
      return error(InvalidContext, "expects a context, but got another handle");
    }
    if (!stack.empty()) {
      stack.pop_back();
    }
    if (context) {
      stack.push_back(context);
    }
    return Success;
  });
}

KVCSIM_API cuCtxGetCurrent(Context **context) {
  *context = contextStack().empty() ? nullptr : contextStack().back();
  return Success;
}

KVCSIM_API cuCtxPushCurrent_v2(Context *context) {
  return guarded([&]() -> Result {
    if (!isKnown(context)) {
      return error(InvalidContext, "expects a context, but got another handle");
    }
    contextStack().push_back(context);
    return Success;
  });
}

KVCSIM_API cuCtxPopCurrent_v2(Context **context) {
  return guarded([&]() -> Result {
    if (contextStack().empty()) {
      return error(InvalidContext, "expects a current context, but got none");
    }
    if (context) {
      *context = contextStack().back();
    }
    contextStack().pop_back();
    return Success;
  });
}

KVCSIM_API cuCtxGetDevice(int *device) {
  return guarded([&]() -> Result {
    if (contextStack().empty()) {
      return error(InvalidContext, "expects a current context, but got none");
    }
    const auto &devices = driver().devices;
    for (size_t i = 0; i < devices.size(); ++i) {
      if (devices[i].get() == contextStack().back()->device) {
        *device = int(i);
      }
    }
    return Success;
  });
}

KVCSIM_API cuCtxSynchronize() {
  return withoutCapture("synchronisation of the context", [](Context &) { return Success; });
}

KVCSIM_API cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  if (least) {
    *least = 0;
  }
  if (greatest) {
    *greatest = -5;
  }
  return Success;
}

KVCSIM_API cuCtxGetApiVersion(Context *context, unsigned *version) {
  *version = 3020;
  return Success;
}

KVCSIM_API cuCtxSetLimit(int limit, size_t value) {
  return withContext([](Context &) { return Success; });
}
