//===- TensorMap.cpp - Tensor maps of tiled arrays ------------------------===//
#include "ptx/TensorMap.h"

#include <cstddef>
#include <fmt/format.h>

using namespace kvc::sim::ptx;

std::optional<TensorMapRefusal> kvc::sim::ptx::encodeTiled(const TiledArray &array, TensorMap &map) {
  static constexpr uint8_t elementBytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  constexpr int firstFloat = 6;
  auto bad = [](std::string text) { return TensorMapRefusal{false, std::move(text)}; };
  auto unsupported = [](std::string text) { return TensorMapRefusal{true, std::move(text)}; };
  if (array.dataType < 0 || size_t(array.dataType) >= sizeof elementBytes) {
    return unsupported(
        fmt::format("expects a data type of 0 to {}, but got {}", sizeof elementBytes - 1, array.dataType));
  }
  if (array.rank < 1 || array.rank > 5) {
    return bad(fmt::format("expects a rank of 1 to 5, but got {}", array.rank));
  }
  if (array.interleave != 0) {
    return unsupported("expects no interleave");
  }
  if (array.swizzle < 0 || array.swizzle > 3) {
    return unsupported(fmt::format("expects no swizzle, or one of 32, 64 or 128 bytes, but got {}", array.swizzle));
  }
  if (array.address % 16 != 0) {
    return bad(fmt::format("expects an address that is a multiple of 16, but got {:#x}", array.address));
  }
  map = {};
  map.magic = TensorMap::mark;
  map.rank = uint8_t(array.rank);
  map.elementBytes = elementBytes[array.dataType];
  map.swizzle = uint8_t(array.swizzle);
  map.fillNan = array.fill != 0;
  map.dataType = uint8_t(array.dataType);
  map.address = array.address;
  if (map.fillNan && array.dataType < firstFloat) {
    return bad("expects floating-point data where NaN fills");
  }
  for (unsigned i = 0; i < array.rank; ++i) {
    const uint64_t extent = array.extents[i];
    const unsigned box = array.box[i], step = array.steps[i];
    if (extent == 0 || extent > uint64_t(1) << 32) {
      return bad(fmt::format("expects extents of 1 to 2^32, but got {} for dimension {}", extent, i));
    }
    if (box == 0 || box > 256) {
      return bad(fmt::format("expects a box of 1 to 256, but got {} for dimension {}", box, i));
    }
    if (step == 0 || step > 8) {
      return bad(fmt::format("expects element strides of 1 to 8, but got {} for dimension {}", step, i));
    }
    map.last[i] = uint32_t(extent - 1);
    map.boxLast[i] = uint8_t(box - 1);
    map.elementStride[i] = uint8_t(step);
    if (i + 1 < array.rank) {
      const uint64_t stride = array.strides[i];
      if (stride % 16 != 0 || stride >= uint64_t(1) << 40) {
        return bad(fmt::format("expects strides that are multiples of 16 below 2^40, but got {} for dimension {}",
                               stride, i + 1));
      }
      map.stride[i] = stride;
    }
  }
  const uint64_t inner = uint64_t(array.box[0]) * map.elementBytes;
  if (inner % 16 != 0) {
    return bad(fmt::format("expects an inner box of a multiple of 16 bytes, but got {}", inner));
  }
  if (map.swizzle != 0 && inner > uint64_t(16) << map.swizzle) {
    return bad(
        fmt::format("expects an inner box of at most {} bytes for this swizzle, but got {}", 16 << map.swizzle, inner));
  }
  return std::nullopt;
}
