//===- Access.h - How instructions reach memory -----------------*- C++ -*-===//
#ifndef KVCSIM_PTX_ACCESS_H
#define KVCSIM_PTX_ACCESS_H

#include "common/Fault.h"
#include "ptx/Machine.h"

#include <algorithm>
#include <bit>

namespace kvc::sim::ptx {

template <typename F> inline void eachLane(uint32_t active, F f) {
  for (uint32_t rest = active; rest != 0; rest &= rest - 1) {
    f(unsigned(std::countr_zero(rest)));
  }
}

inline InstCounters &countersOf(Warp &warp, const Inst &inst) { return warp.worker->counters[inst.index]; }

/// Where an address of the generic space lies.
inline Space windowOf(uint64_t address) {
  switch (address >> 32) {
  case sharedWindow >> 32:
    return Space::Shared;
  case localWindow >> 32:
    return Space::Local;
  case paramWindow >> 32:
    return Space::Param;
  default:
    return Space::Global;
  }
}

inline void checkAligned(uint64_t address, uint32_t size, unsigned lane) {
  if (address & (size - 1)) {
    fail(FaultKind::Misaligned, "expects an address that is a multiple of {}, but got {:#x} (lane {})", size, address,
         lane);
  }
}

/// The host's address of global memory.
inline uint8_t *globalAt(Warp &warp, uint64_t address, uint32_t size, unsigned lane, bool store) {
  Worker &worker = *warp.worker;
  const Allocation *allocation = worker.lastAllocation[store];
  if (!allocation || !allocation->contains(address, size)) {
    GlobalMemory &memory = *worker.launch->memory;
    allocation = memory.find(address);
    if (!allocation || !allocation->contains(address, size)) {
      fail(FaultKind::IllegalAddress, "expects {} bytes of global memory at {:#x} (lane {}), but got {}", size, address,
           lane, memory.describe(address));
    }
    if (store && allocation->readOnly) {
      fail(FaultKind::IllegalAddress, "expects memory that can be written at {:#x} (lane {}), but got {}", address,
           lane, memory.describe(address));
    }
    worker.lastAllocation[store] = allocation;
  }
  return allocation->host + (address - allocation->base);
}

inline uint8_t *localAt(Warp &warp, uint64_t address, uint32_t size, unsigned lane) {
  const uint32_t bytes = warp.worker->launch->program->localBytes;
  if (address < reservedLocal || address + size > bytes) {
    fail(FaultKind::IllegalAddress,
         "expects an access to the {} bytes of local memory, but got {} bytes at {} (lane {})",
         bytes < reservedLocal ? 0 : bytes - reservedLocal, size, int64_t(address) - reservedLocal, lane);
  }
  return warp.local.data() + size_t(lane) * bytes + address;
}

inline const uint8_t *paramAt(Warp &warp, uint64_t address, uint32_t size, unsigned lane) {
  const auto &parameters = warp.worker->launch->config->parameters;
  if (address > parameters.size() || size > parameters.size() - address) {
    fail(FaultKind::IllegalAddress, "expects an access to the {} bytes of parameters, but got {} bytes at {} (lane {})",
         parameters.size(), size, address, lane);
  }
  return parameters.data() + address;
}

/// The CTA that a shared address belongs to; the address without its rank.
inline Cta &sharedOwner(Warp &warp, uint32_t &address) {
  const uint32_t rank = address >> clusterRankShift;
  if (rank == 0) {
    return *warp.cta;
  }
  Cluster &cluster = *warp.cta->cluster;
  if (rank > cluster.ctas.size()) {
    fail(FaultKind::IllegalAddress, "expects a shared address of one of {} CTAs of the cluster, but got {:#x}",
         cluster.ctas.size(), address);
  }
  address &= (1u << clusterRankShift) - 1;
  return *cluster.ctas[rank - 1];
}

inline const uint8_t *sharedRead(Warp &warp, uint32_t address, uint32_t size, const Accessor &by) {
  Cta &owner = sharedOwner(warp, address);
  return &owner == warp.cta ? owner.shared.read(address, size, by) : owner.shared.readRemote(address, size);
}

inline void sharedWrite(Warp &warp, uint32_t address, uint32_t size, const void *value, const Accessor &by) {
  Cta &owner = sharedOwner(warp, address);
  &owner == warp.cta ? owner.shared.write(address, size, value, by) : owner.shared.writeRemote(address, size, value);
}

/// Addresses of a memory operand, by lane.
struct LaneAddresses {
  uint64_t at[laneCount];
};
inline void addressesOf(Warp &warp, Place base, bool narrow, int64_t offset, LaneAddresses &to) {
  if (narrow) {
    const uint32_t *from = warp.lanes<uint32_t>(base);
    for (unsigned i = 0; i < laneCount; ++i) {
      to.at[i] = uint32_t(from[i] + uint32_t(offset));
    }
  } else {
    const uint64_t *from = warp.lanes<uint64_t>(base);
    for (unsigned i = 0; i < laneCount; ++i) {
      to.at[i] = from[i] + uint64_t(offset);
    }
  }
}

/// Adds the traffic of one access: `size` bytes per active lane.
void countGlobal(InstCounters &counters, const LaneAddresses &addresses, uint32_t active, uint32_t size);
void countShared(InstCounters &counters, const LaneAddresses &addresses, uint32_t active, uint32_t size);

} // namespace kvc::sim::ptx

#endif // KVCSIM_PTX_ACCESS_H
