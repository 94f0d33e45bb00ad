//===- LaneValues.h - What a lane knows of itself and others -----*- C++ -*-===//
#ifndef KVC_LIB_CONVERSION_TILETOGPU_LANEVALUES_H
#define KVC_LIB_CONVERSION_TILETOGPU_LANEVALUES_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace kvc {

/// Values that differ from lane to lane of a warp, and exchanges between its lanes.
class LaneValues {
public:
  /// Reads the lane's number at the builder's place.
  LaneValues(mlir::ImplicitLocOpBuilder &b, int64_t lanes);

  mlir::Value word(int64_t value);
  /// Entry `lane` of a table, one for each lane.
  mlir::Value table(llvm::ArrayRef<uint64_t> values, mlir::Type type);
  mlir::Value condition(llvm::ArrayRef<bool> values);
  /// What lane `source` (i32) holds of a value: an index, an integer or a float of up to 64 bits.
  mlir::Value shuffle(mlir::Value value, mlir::Value source);

  /// The lane's number (i32).
  mlir::Value lane;

private:
  /// Bit `lane` of a plane (i32).
  mlir::Value bit(uint64_t plane);
  mlir::Value shuffleWord(mlir::Value value, mlir::Value source);

  mlir::ImplicitLocOpBuilder &b;
  int64_t lanes;
};

} // namespace kvc

#endif // KVC_LIB_CONVERSION_TILETOGPU_LANEVALUES_H
