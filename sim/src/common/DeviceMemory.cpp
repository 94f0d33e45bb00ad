//===- DeviceMemory.cpp - Memory as a driver hands it out -----------------===//
#include "common/DeviceMemory.h"

#include "common/Fault.h"

using namespace kvc::sim;

/// Numbers of both interfaces.
static constexpr int success = 0, invalidValue = 1, outOfMemory = 2, alreadyRegistered = 712, notRegistered = 713;

static uint64_t addressOf(const void *pointer) { return reinterpret_cast<uint64_t>(pointer); }

int DeviceMemory::error(int result, std::string text) {
  state.lastError = std::move(text);
  return result;
}

int DeviceMemory::allocate(unsigned long long *address, uint64_t bytes) {
  if (!address || bytes == 0) {
    return error(invalidValue, "expects a size above 0 for an allocation");
  }
  if (bytes > bytesFree()) {
    return error(outOfMemory, fmt::format("expects at most {} bytes of device memory, but got {}", bytesFree(), bytes));
  }
  // A host that has no memory left is told apart from a program error.
  try {
    *address = GlobalMemory::allocate(bytes, fmt::format("an allocation of {} bytes", bytes));
  } catch (const Fault &fault) {
    return error(outOfMemory, fault.what());
  }
  return success;
}

int DeviceMemory::release(uint64_t address) {
  if (address != 0 && !free(address)) {
    return error(invalidValue,
                 fmt::format("expects the address of an allocation, but got {:#x}: {}", address, describe(address)));
  }
  return success;
}

int DeviceMemory::allocateHost(void **pointer, uint64_t bytes) {
  if (!pointer || bytes == 0) {
    return error(invalidValue, "expects a size above 0 for an allocation");
  }
  auto memory = std::make_unique<uint8_t[]>(bytes);
  *pointer = memory.get();
  GlobalMemory::registerHost(*pointer, bytes, "host memory of the driver");
  hostMemory.emplace(*pointer, std::move(memory));
  return success;
}

int DeviceMemory::releaseHost(void *pointer) {
  if (!hostMemory.contains(pointer)) {
    return error(invalidValue, "expects host memory that the driver has allocated");
  }
  free(addressOf(pointer));
  hostMemory.erase(pointer);
  return success;
}

int DeviceMemory::registerHost(void *pointer, uint64_t bytes) {
  if (!pointer || bytes == 0) {
    return error(invalidValue, "expects host memory to register");
  }
  if (!registered.insert(pointer).second) {
    return error(alreadyRegistered, "expects host memory that is not registered");
  }
  GlobalMemory::registerHost(pointer, bytes, "registered host memory");
  return success;
}

int DeviceMemory::unregisterHost(void *pointer) {
  if (registered.erase(pointer) == 0) {
    return error(notRegistered, "expects host memory that is registered");
  }
  free(addressOf(pointer));
  return success;
}

int DeviceMemory::checkHost(const void *pointer) {
  return find(addressOf(pointer)) ? success
                                  : error(invalidValue, "expects host memory of the driver, or registered memory");
}
