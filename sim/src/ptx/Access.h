//===- Access.h - How instructions reach memory -----------------*- C++ -*-===//
#ifndef KVCSIM_PTX_ACCESS_H
#define KVCSIM_PTX_ACCESS_H

#include "common/Access.h"
#include "ptx/Machine.h"

namespace kvc::sim::ptx {

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

inline uint8_t *globalAt(Warp &warp, uint64_t address, uint32_t size, unsigned lane, bool store) {
  return sim::globalAt(*warp.worker, *warp.worker->launch->memory, address, size, lane, store);
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

inline void countGlobal(InstCounters &counters, const LaneAddresses &addresses, uint32_t active, uint32_t size) {
  sim::countGlobal(counters, addresses.at, active, size);
}
inline void countShared(InstCounters &counters, const LaneAddresses &addresses, uint32_t active, uint32_t size) {
  constexpr unsigned banks = 32;
  counters.bytes += uint64_t(std::popcount(active)) * size;
  countBanks(counters, addresses.at, active, size, banks);
}

} // namespace kvc::sim::ptx

#endif // KVCSIM_PTX_ACCESS_H
