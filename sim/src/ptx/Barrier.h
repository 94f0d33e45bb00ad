//===- Barrier.h - What warps wait for --------------------------*- C++ -*-===//
#ifndef KVCSIM_PTX_BARRIER_H
#define KVCSIM_PTX_BARRIER_H

#include "ptx/Machine.h"

namespace kvc::sim::ptx {

/// A warp has ended: barriers of the whole CTA do not wait for it.
void warpEnded(Warp &warp);

/// No warp of the cluster can go on: lets asynchronous work take effect. False when there is none.
bool wakeUp(Cluster &cluster);

/// Faults where an instruction uses a register that a matrix product in flight will still write.
void checkInFlight(Warp &warp, const Inst &inst);

/// Takes down that an instruction uses its registers: of those, matrix products need wgmma.fence in between.
void noteAccess(Warp &warp, const Inst &inst);

/// Copies to global memory that the warp did not wait for take effect when it ends.
void completeStores(Warp &warp, unsigned lane, uint32_t groups);

/// Ends the phase of the cluster's barrier where all warps that are left have arrived.
void completeClusterPhase(Cluster &cluster);

/// Takes effect: copies of the lane whose group is one of the first `groups`.
void completeCopies(Warp &warp, unsigned lane, uint32_t groups);

} // namespace kvc::sim::ptx

#endif // KVCSIM_PTX_BARRIER_H
