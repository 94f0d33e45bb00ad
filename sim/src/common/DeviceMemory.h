//===- DeviceMemory.h - Memory as a driver hands it out ---------*- C++ -*-===//
//
// Memory of the device up to what the chip has, and the host's memory that the device reaches at the same address.
// Vendors' drivers have the same rules and numbers of results; every function returns one, and leaves the text of an
// error with the driver's options.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_COMMON_DEVICEMEMORY_H
#define KVCSIM_COMMON_DEVICEMEMORY_H

#include "common/DriverOptions.h"
#include "common/GlobalMemory.h"

#include <set>

namespace kvc::sim {

class DeviceMemory : public GlobalMemory {
public:
  DeviceMemory(DriverOptions &state, uint64_t capacity) : state(state), capacity(capacity) {}

  uint64_t bytesFree() const { return capacity - bytesInUse(); }

  /// `bytes` > 0.
  int allocate(unsigned long long *address, uint64_t bytes);
  /// 0 is no memory, and no error.
  int release(uint64_t address);

  int allocateHost(void **pointer, uint64_t bytes);
  int releaseHost(void *pointer);
  int registerHost(void *pointer, uint64_t bytes);
  int unregisterHost(void *pointer);
  /// Whether the device reaches that memory of the host.
  int checkHost(const void *pointer);

private:
  int error(int result, std::string text);

  DriverOptions &state;
  const uint64_t capacity;
  std::map<void *, std::unique_ptr<uint8_t[]>> hostMemory;
  std::set<void *> registered;
};

} // namespace kvc::sim

#endif // KVCSIM_COMMON_DEVICEMEMORY_H
