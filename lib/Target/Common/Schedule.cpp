//===- Schedule.cpp - Tile sizes of attention kernels ---------------------===//
#include "kvc/Target/Schedule.h"

using namespace kvc;

/// For teams: 16 query rows for each warp keep scores, accumulator and queries in registers; 64 slots a tile give every
/// warp of a decode step one matrix instruction's worth. Two stages of keys and values must fit the staging memory.
static tile::ScheduleAttr chooseTeamSchedule(const AttentionShape &shape, const TeamFacts &facts) {
  constexpr int64_t rowsPerWarp = 16, stages = 2, split = 1024;
  auto bytesOf = [&](int64_t slots) { return stages * slots * (shape.cache.getKDim() + shape.cache.getVDim()) * 2; };
  int64_t warps = 4;
  while (warps > 1 && bytesOf(warps * rowsPerWarp) > facts.stagingBytes) {
    warps /= 2;
  }
  int64_t slots = warps * rowsPerWarp, tokens = std::max<int64_t>(2, warps * rowsPerWarp / shape.group);
  return tile::ScheduleAttr::get(shape.cache.getContext(), tokens, slots, split, warps, stages, /*producers=*/0);
}

tile::ScheduleAttr kvc::chooseSchedule(const AttentionShape &shape, const Target *target) {
  if (target && target->team) {
    return chooseTeamSchedule(shape, *target->team);
  }
  // A query tile of about 64 rows amortises the unpacking of a KV tile; 64 slots keep scores, probabilities and the
  // tile's operands within a first-level cache of 32 KiB.
  constexpr int64_t rows = 64, slots = 64, split = 1024;
  int64_t tokens = std::max<int64_t>(2, rows / shape.group);
  return tile::ScheduleAttr::get(shape.cache.getContext(), tokens, slots, split, /*warps=*/1, /*stages=*/1,
                                 /*producers=*/0);
}
