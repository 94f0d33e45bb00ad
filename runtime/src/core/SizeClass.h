//===- SizeClass.h - Sizes that pools of memory hand out --------*- C++ -*-===//
#ifndef KVC_CORE_SIZECLASS_H
#define KVC_CORE_SIZECLASS_H

#include <algorithm>
#include <bit>
#include <cstdint>

namespace kvc::rt {

/// Rounds up to a quarter of a power of two: at most a fifth is wasted, and
/// buffers whose sizes grow slowly still fit.
inline uint64_t sizeClass(uint64_t bytes, uint64_t least = 64) {
  if (bytes <= least) {
    return least;
  }
  uint64_t step = std::max<uint64_t>(std::bit_floor(bytes - 1) / 4, least);
  return (bytes + step - 1) / step * step;
}

} // namespace kvc::rt

#endif // KVC_CORE_SIZECLASS_H
