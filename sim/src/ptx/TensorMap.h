//===- TensorMap.h - The simulator's tensor maps ----------------*- C++ -*-===//
//
// A tensor map is opaque to programs: 128 bytes that cuTensorMapEncodeTiled writes and TMA instructions read. These are
// the simulator's own, with a mark, so that bytes which are none are refused.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_PTX_TENSORMAP_H
#define KVCSIM_PTX_TENSORMAP_H

#include <cstdint>
#include <optional>
#include <string>

namespace kvc::sim::ptx {

struct TensorMap {
  static constexpr uint32_t mark = 0x4d54766b;

  uint32_t magic;
  uint8_t rank;
  uint8_t elementBytes;
  /// 0 none, 1 16-byte, 2 32-byte.
  uint8_t interleave;
  /// 0 none, 1: 32 bytes, 2: 64, 3: 128.
  uint8_t swizzle;
  /// What is out of range is NaN instead of zero.
  uint8_t fillNan;
  /// CUtensorMapDataType.
  uint8_t dataType;
  uint8_t elementStride[5];
  uint8_t reserved;
  /// Extents of a box minus one, innermost first.
  uint8_t boxLast[5];
  uint8_t reserved2[3];
  /// Extents minus one.
  uint32_t last[5];
  uint64_t address;
  /// Bytes between neighbours of dimension i + 1.
  uint64_t stride[4];
  uint8_t unused[128 - 88];
};
static_assert(sizeof(TensorMap) == 128);

/// What cuTensorMapEncodeTiled is told, innermost dimension first, in the driver's numbers.
struct TiledArray {
  int dataType;
  unsigned rank;
  uint64_t address;
  const uint64_t *extents, *strides;
  const unsigned *box, *steps;
  int interleave, swizzle, fill;
};
/// Why there is no map of an array: it breaks a rule, or the simulator has no such maps.
struct TensorMapRefusal {
  bool isUnsupported;
  std::string text;
};
std::optional<TensorMapRefusal> encodeTiled(const TiledArray &array, TensorMap &map);

} // namespace kvc::sim::ptx

#endif // KVCSIM_PTX_TENSORMAP_H
