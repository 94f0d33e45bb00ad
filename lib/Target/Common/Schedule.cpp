//===- Schedule.cpp - Tile sizes of attention kernels ---------------------===//
#include "kvc/Target/Schedule.h"

using namespace kvc;

tile::ScheduleAttr kvc::chooseSchedule(const AttentionShape &shape) {
  // A query tile of about 64 rows amortises the unpacking of a KV tile; 64 slots keep scores, probabilities and the
  // tile's operands within a first-level cache of 32 KiB.
  constexpr int64_t rows = 64, slots = 64, split = 1024;
  int64_t tokens = std::max<int64_t>(2, rows / shape.group);
  return tile::ScheduleAttr::get(shape.cache.getContext(), shape.group, tokens, slots, split);
}
