//===- Rotation.h - RoPE in a kernel ----------------------------*- C++ -*-===//
#ifndef KVC_LIB_CONVERSION_UTILS_ROTATION_H
#define KVC_LIB_CONVERSION_UTILS_ROTATION_H

#include "kvc/Dialect/KVCache/IR/KVCache.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace kvc {

/// Cosines and sines of the angles of all pairs at one position: vectors of rope.dims / 2 f32.
struct RopeAngles {
  mlir::Value cosines, sines;
};

/// Angles at `position` (an index value that may be negative), accurate to about one ulp at any position.
RopeAngles createRopeAngles(mlir::ImplicitLocOpBuilder &b, kvcache::RopeAttr rope, mlir::Value position);

/// The same for pairs of any frequencies (a vector of f64).
RopeAngles createRopeAngles(mlir::ImplicitLocOpBuilder &b, mlir::Value frequencies, mlir::Value position);

/// A head (a vector of f32, at least rope.dims long) rotated by those angles.
mlir::Value createRotation(mlir::ImplicitLocOpBuilder &b, kvcache::RopeAttr rope, mlir::Value head,
                           const RopeAngles &angles);

} // namespace kvc

#endif // KVC_LIB_CONVERSION_UTILS_ROTATION_H
