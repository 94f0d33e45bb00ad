//===- VectorMovement.cpp - Operations that move elements -----------------===//
#include "VectorMovement.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kvc;

std::optional<ElementMap> kvc::movementOf(Operation *op, unsigned result) {
  auto sizeOf = [](Value value) { return cast<VectorType>(value.getType()).getNumElements(); };
  if (auto broadcast = dyn_cast<vector::BroadcastOp>(op)) {
    return [](int64_t) { return Source{0, 0}; };
  }
  if (isa<vector::FromElementsOp>(op)) {
    return [](int64_t e) { return Source{static_cast<unsigned>(e), 0}; };
  }
  if (isa<vector::ShapeCastOp>(op)) {
    return [](int64_t e) { return Source{0, e}; };
  }
  if (auto shuffled = dyn_cast<vector::ShuffleOp>(op)) {
    int64_t first = sizeOf(shuffled.getV1());
    SmallVector<int64_t> mask(shuffled.getMask());
    return [first, mask](int64_t e) {
      int64_t at = std::max<int64_t>(0, mask[e]);
      return at < first ? Source{0, at} : Source{1, at - first};
    };
  }
  if (auto extract = dyn_cast<vector::ExtractStridedSliceOp>(op)) {
    int64_t offset = cast<IntegerAttr>(extract.getOffsets()[0]).getInt();
    int64_t stride = cast<IntegerAttr>(extract.getStrides()[0]).getInt();
    return [offset, stride](int64_t e) { return Source{0, offset + e * stride}; };
  }
  if (auto insert = dyn_cast<vector::InsertStridedSliceOp>(op)) {
    int64_t offset = cast<IntegerAttr>(insert.getOffsets()[0]).getInt(), size = sizeOf(insert.getValueToStore());
    return
        [offset, size](int64_t e) { return e >= offset && e < offset + size ? Source{0, e - offset} : Source{1, e}; };
  }
  if (isa<vector::InterleaveOp>(op)) {
    return [](int64_t e) { return Source{static_cast<unsigned>(e % 2), e / 2}; };
  }
  if (isa<vector::DeinterleaveOp>(op)) {
    return [result](int64_t e) { return Source{0, 2 * e + result}; };
  }
  return std::nullopt;
}
