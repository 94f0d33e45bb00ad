//===- Chips.h - Facts of the chips that are simulated ----------*- C++ -*-===//
#ifndef KVCSIM_CUDA_CHIPS_H
#define KVCSIM_CUDA_CHIPS_H

#include "cuda/DriverTypes.h"

#include <span>
#include <string_view>

namespace kvc::sim::cuda {

/// One product per architecture, with the figures that its vendor has published.
struct Chip {
  std::string_view target;
  std::string_view name;
  int major, minor;
  int multiprocessors;
  int sharedPerMultiprocessor;
  int sharedPerBlockOptin;
  int threadsPerMultiprocessor;
  int blocksPerMultiprocessor;
  int l2Bytes;
  int clockKhz;
  int memoryClockKhz;
  int memoryBusBits;
  uint64_t memoryBytes;
};

std::span<const Chip> chips();
/// Null when no chip has this target (`sm_90` finds sm_90a).
const Chip *findChip(std::string_view target);
/// False for an attribute that is not known.
bool attributeOf(const Chip &chip, int attribute, int &value);

} // namespace kvc::sim::cuda

#endif // KVCSIM_CUDA_CHIPS_H
