//===- Schedule.h - Tile sizes of attention kernels -------------*- C++ -*-===//
#ifndef KVC_TARGET_SCHEDULE_H
#define KVC_TARGET_SCHEDULE_H

#include "kvc/Dialect/Tile/IR/Tile.h"

namespace kvc {

/// What a schedule depends on.
struct AttentionShape {
  /// Query heads of one KV head.
  int64_t group;
  kvcache::CacheType cache;
};

/// The one place that picks tile sizes. Overridden by the attribute `tile.schedule` of an attention op.
tile::ScheduleAttr chooseSchedule(const AttentionShape &shape);

} // namespace kvc

#endif // KVC_TARGET_SCHEDULE_H
