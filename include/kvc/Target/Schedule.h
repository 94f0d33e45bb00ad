//===- Schedule.h - Tile sizes of attention kernels -------------*- C++ -*-===//
#ifndef KVC_TARGET_SCHEDULE_H
#define KVC_TARGET_SCHEDULE_H

#include "kvc/Dialect/Tile/IR/Tile.h"
#include "kvc/Target/Target.h"

namespace kvc {

/// What a schedule depends on.
struct AttentionShape {
  /// Query heads of one KV head.
  int64_t group;
  kvcache::CacheType cache;
};

/// The one place that picks tile sizes. Overridden by the attribute `tile.schedule` of an attention op. `target` is
/// null where the module names none.
tile::ScheduleAttr chooseSchedule(const AttentionShape &shape, const Target *target);

} // namespace kvc

#endif // KVC_TARGET_SCHEDULE_H
