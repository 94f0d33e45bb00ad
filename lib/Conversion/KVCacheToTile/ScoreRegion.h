//===- ScoreRegion.h - A score region on a tile of scores -------*- C++ -*-===//
#ifndef KVC_LIB_CONVERSION_KVCACHETOTILE_SCOREREGION_H
#define KVC_LIB_CONVERSION_KVCACHETOTILE_SCOREREGION_H

#include "KernelBuilder.h"

namespace kvc {

/// What a score region sees of a tile of `rows` x `slots` scores; rows are packed as by tile.load_rows.
struct ScoreTile {
  mlir::Value scores;        // vector<rows x slots x f32>
  mlir::Value entry;         // index
  mlir::Value firstHead;     // index: query head of row 0
  mlir::Value rowPositions;  // vector<rows x i32>
  mlir::Value slotPositions; // vector<slots x i32>
  int64_t rows, slots, group;
  mlir::ValueRange captures; // scalars
};

/// Clones the region's body on tiles instead of scalars; returns the tile of new scores.
mlir::Value inlineScoreRegion(mlir::ImplicitLocOpBuilder &b, mlir::Region &region, const ScoreTile &tile);

} // namespace kvc

#endif // KVC_LIB_CONVERSION_KVCACHETOTILE_SCOREREGION_H
