//===- HipDriver.h - The HIP API --------------------------------*- C++ -*-===//
//
// The interface of HIP 6 and later.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_HIP_HIPDRIVER_H
#define KVC_HIP_HIPDRIVER_H

#include "gpu/Driver.h"

namespace kvc::rt::hip {

/// Results that are looked at, by the numbers of the interface.
constexpr int sharedObjectFailed = 303;

/// hipDeviceProp_t of HIP 6 (its functions have the suffix R0600) as far as it is looked at: bytes of LDS that a
/// workgroup can have, the number of compute units, and, behind what it has in common with other vendors, the
/// architecture's name, such as gfx942:sramecc+:xnack-. A driver may write all of it.
struct DeviceProperties {
  char identity[288];
  size_t memoryBytes, sharedBytes;
  char limits[84];
  int computeUnits;
  char others[768];
  char architecture[256];
  char rest[680];
};
static_assert(offsetof(DeviceProperties, sharedBytes) == 296 && offsetof(DeviceProperties, computeUnits) == 388 &&
              offsetof(DeviceProperties, architecture) == 1160 && sizeof(DeviceProperties) >= 1472);

/// name of the symbol, result, parameters: what the interface has beside the functions of all drivers.
#define KVC_HIP_FUNCTIONS(F)                                                                                           \
  F(hipGetErrorName, const char *, int)                                                                                \
  F(hipGetErrorString, const char *, int)                                                                              \
  F(hipGetDevicePropertiesR0600, int, DeviceProperties *, int)                                                         \
  F(hipSetDevice, int, int)

class Driver final : public gpu::Driver {
public:
  Driver();

#define KVC_HIP_MEMBER(name, result, ...) result (*name)(__VA_ARGS__) = nullptr;
  KVC_HIP_FUNCTIONS(KVC_HIP_MEMBER)
#undef KVC_HIP_MEMBER

protected:
  std::vector<Symbol> ownSymbols() override;
  std::pair<const char *, const char *> describe(int result) const override;
  StatusCode statusOf(int result, const char *&hint) const override;
};

} // namespace kvc::rt::hip

#endif // KVC_HIP_HIPDRIVER_H
