//===- Barrier.h - What warps wait for --------------------------*- C++ -*-===//
#ifndef KVCSIM_PTX_BARRIER_H
#define KVCSIM_PTX_BARRIER_H

#include "ptx/Machine.h"

namespace kvc::sim::ptx {

/// A warp has ended: barriers of the whole CTA do not wait for it.
void warpEnded(Warp &warp);

/// No warp of the cluster can go on: lets asynchronous work take effect. False when there is none.
bool wakeUp(Cluster &cluster);

/// Takes effect: copies of the lane whose group is one of the first `groups`.
void completeCopies(Warp &warp, unsigned lane, uint32_t groups);

} // namespace kvc::sim::ptx

#endif // KVCSIM_PTX_BARRIER_H
