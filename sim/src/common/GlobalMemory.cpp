//===- GlobalMemory.cpp - Device memory by allocation ---------------------===//
#include "common/GlobalMemory.h"

#include "common/Fault.h"

#include <cstdlib>
#include <cstring>

using namespace kvc::sim;

/// Bytes without an allocation behind each.
static constexpr uint64_t gap = 4096;

GlobalMemory::~GlobalMemory() = default;

uint64_t GlobalMemory::allocate(uint64_t bytes, std::string label, uint64_t align) {
  // More than any chip has: sizes in files may be anything.
  constexpr uint64_t most = uint64_t(1) << 40;
  if (bytes > most) {
    fail(FaultKind::OutOfMemory, "expects at most {} bytes for {}, but got {}", most, label, bytes);
  }
  auto *host = static_cast<uint8_t *>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
  if (!host) {
    fail(FaultKind::OutOfMemory, "expects {} bytes of host memory for {}, but got none", bytes, label);
  }
  std::memset(host, 0xa5, bytes);
  const uint64_t base = (next + align - 1) / align * align;
  next = base + (bytes + 511) / 512 * 512 + gap;
  allocations[base] = {base, bytes, host, std::move(label), false};
  owned.emplace(base, std::unique_ptr<uint8_t, void (*)(void *)>(host, [](void *p) { std::free(p); }));
  inUse += bytes;
  return base;
}

void GlobalMemory::registerHost(void *host, uint64_t bytes, std::string label) {
  const auto base = reinterpret_cast<uint64_t>(host);
  allocations[base] = {base, bytes, static_cast<uint8_t *>(host), std::move(label), false};
}

bool GlobalMemory::free(uint64_t base) {
  auto found = allocations.find(base);
  if (found == allocations.end()) {
    return false;
  }
  if (owned.erase(base)) {
    inUse -= found->second.bytes;
  }
  allocations.erase(found);
  return true;
}

Allocation *GlobalMemory::find(uint64_t address) {
  auto after = allocations.upper_bound(address);
  if (after == allocations.begin()) {
    return nullptr;
  }
  Allocation &candidate = std::prev(after)->second;
  return candidate.contains(address, 1) ? &candidate : nullptr;
}

uint8_t *GlobalMemory::at(uint64_t address, uint64_t size, const char *what) {
  Allocation *allocation = find(address);
  if (size == 0) {
    return nullptr;
  }
  if (!allocation || !allocation->contains(address, size)) {
    fail(FaultKind::IllegalAddress, "{}: expects {} bytes of device memory at {:#x}, but got {}", what, size, address,
         describe(address));
  }
  return allocation->host + (address - allocation->base);
}

std::string GlobalMemory::describe(uint64_t address) const {
  auto after = allocations.upper_bound(address);
  std::string text;
  if (after != allocations.begin()) {
    const Allocation &before = std::prev(after)->second;
    const uint64_t offset = address - before.base;
    text = offset < before.bytes ? fmt::format("offset {} of {} ({} bytes)", offset, before.label, before.bytes)
                                 : fmt::format("an address {} bytes behind the end of {} ({} bytes)",
                                               offset - before.bytes, before.label, before.bytes);
  }
  if (after != allocations.end() && (text.empty() || after->first - address < gap)) {
    text += fmt::format("{}an address {} bytes before {} ({} bytes)", text.empty() ? "" : ", ", after->first - address,
                        after->second.label, after->second.bytes);
  }
  return text.empty() ? "an address outside of all allocations" : text;
}
