//===- GlobalMemory.h - Device memory by allocation -------------*- C++ -*-===//
//
// Device addresses are not host addresses: they are the same in every run, are never given twice, and gaps lie between
// allocations, so that what is out of bounds or already freed is found.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_COMMON_GLOBALMEMORY_H
#define KVCSIM_COMMON_GLOBALMEMORY_H

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace kvc::sim {

struct Allocation {
  uint64_t base = 0;
  uint64_t bytes = 0;
  uint8_t *host = nullptr;
  /// What it is, for messages.
  std::string label;
  bool readOnly = false;

  bool contains(uint64_t address, uint64_t size) const {
    return address >= base && size <= bytes && address - base <= bytes - size;
  }
};

class GlobalMemory {
public:
  GlobalMemory() = default;
  GlobalMemory(const GlobalMemory &) = delete;
  GlobalMemory &operator=(const GlobalMemory &) = delete;
  ~GlobalMemory();

  /// `bytes` > 0 of memory at an address that is a multiple of 512 (or of `align`), filled with 0xa5 bytes, so that
  /// what is read before it is written stands out and is the same each time. Faults when the host has no memory left.
  uint64_t allocate(uint64_t bytes, std::string label, uint64_t align = 512);
  /// Makes host memory reachable from the device, at the address that it has.
  void registerHost(void *host, uint64_t bytes, std::string label);
  /// False when no allocation starts at `base`.
  bool free(uint64_t base);

  Allocation *find(uint64_t address);
  const Allocation *find(uint64_t address) const { return const_cast<GlobalMemory *>(this)->find(address); }
  /// The host's address of `size` bytes; faults when they do not lie in one allocation.
  uint8_t *at(uint64_t address, uint64_t size, const char *what);
  /// Where an address is relative to the allocations around it.
  std::string describe(uint64_t address) const;
  uint64_t bytesInUse() const { return inUse; }

private:
  std::map<uint64_t, Allocation> allocations;
  std::map<uint64_t, std::unique_ptr<uint8_t, void (*)(void *)>> owned;
  uint64_t next = uint64_t(0x0a00) << 32;
  uint64_t inUse = 0;
};

} // namespace kvc::sim

#endif // KVCSIM_COMMON_GLOBALMEMORY_H
