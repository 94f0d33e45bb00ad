//===- Lengths.h - Lengths of caches for sequences that grow ----*- C++ -*-===//
//
// Grids and buffers of a plan follow the largest length of a batch, which grows with every decode step. Kernels take
// the lengths of their own sequences from memory and must be right when another sequence of the batch is longer: a
// larger number changes no result, and a graph of the launches stays valid until the sequences outgrow it.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_CORE_LENGTHS_H
#define KVC_CORE_LENGTHS_H

#include "artifact/Artifact.h"

namespace kvc::rt {

/// A length that stands for all from the one before to it: multiples of a quarter of a power of two and of 1024, at
/// most `most` (unless `length` is above it).
int64_t roundUpLength(int64_t length, int64_t most);

/// Whether lengths may be rounded in a function: no shape or number that it returns, no check and no limit follows
/// them.
bool mayRoundLengths(const fb::Function &function);

} // namespace kvc::rt

#endif // KVC_CORE_LENGTHS_H
