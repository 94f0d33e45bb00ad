//===- Layout.h - Which lane holds which element ----------------*- C++ -*-===//
//
// A layout maps coordinates to coordinates digit by digit. A mode says: digit `size` of input axis `in`, which counts
// `inStride` each, is the digit of output axis `out` that counts `outStride` each. The accumulator of an m16n8 matrix
// instruction, four registers in each of 32 lanes, is
//
//   size  in        inStride   out     outStride
//   2     register  1          column  1
//   2     register  2          row     8
//   4     lane      1          column  2
//   8     lane      4          row     1
//
// so register 3 of lane 5 holds row 8 + 1, column 2 * 1 + 1. Sizes are any numbers, not only powers of two: head
// dimensions of 80 and 96 need no padding to 128. A digit without an output axis is a replica: lanes that differ in it
// hold the same. Digits that flip by exclusive or (swizzles of shared memory) are no layouts; they are applied to
// addresses after them.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_TARGET_LAYOUT_H
#define KVC_TARGET_LAYOUT_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/raw_ostream.h"

#include <array>
#include <cstdint>
#include <optional>

namespace kvc {

/// Axes of coordinates. Where an element is held: register, lane, warp; which element it is: row, column. Layouts of
/// memory use `address`. `none`: of a replica.
enum class Axis : uint8_t { Register, Lane, Warp, Row, Column, Address, None };
constexpr unsigned axisCount = 6;

/// One number for each axis; 0 where a layout does not have it.
struct Coordinates {
  std::array<int64_t, axisCount> value{};
  int64_t &operator[](Axis axis) { return value[static_cast<unsigned>(axis)]; }
  int64_t operator[](Axis axis) const { return value[static_cast<unsigned>(axis)]; }
  bool operator==(const Coordinates &) const = default;
};

struct Mode {
  int64_t size;
  Axis in;
  int64_t inStride;
  Axis out;
  int64_t outStride;
  bool operator==(const Mode &) const = default;
};

/// How dear it is to bring values from one layout to another.
enum class ConversionCost { Free, Registers, Lanes, Staging };

class Layout {
public:
  Layout() = default;
  /// Normalises: drops modes of size 1, joins modes that continue each other, sorts by input.
  explicit Layout(llvm::ArrayRef<Mode> modes);

  llvm::ArrayRef<Mode> getModes() const { return modes; }
  /// Number of values of an axis, as input or as output.
  int64_t inSize(Axis axis) const;
  int64_t outSize(Axis axis) const;

  /// Where `in` is mapped to. Inputs are within their sizes.
  Coordinates operator()(const Coordinates &in) const;
  Coordinates operator()(int64_t reg, int64_t lane, int64_t warp) const;

  /// Every output axis is covered once: its digits' strides are 1, s1, s1 s2, ... without gap or overlap; likewise the
  /// inputs. Replicas are allowed.
  bool isValid() const;
  bool hasReplicas() const;

  /// From outputs to inputs; a replica's digit is 0. Of a layout without replicas the true inverse.
  Layout inverse() const;
  /// `this` first, then `after`; nothing where the digits of the two do not meet.
  std::optional<Layout> compose(const Layout &after) const;
  /// This layout as the tile, repeated as `outer` says: outer's strides count whole tiles.
  Layout product(const Layout &outer) const;
  /// The inverse of product: `rest` with tile.product(rest) == *this.
  std::optional<Layout> divide(const Layout &tile) const;
  /// Only output axis `axis`: digits of other axes become replicas.
  Layout project(Axis axis) const;
  /// Without the registers that are replicas, which then count anew.
  Layout withoutReplicatedRegisters() const;
  /// All registers, in runs that are neighbours along `axis`: a power of two of them, at most `most`.
  llvm::SmallVector<llvm::SmallVector<int64_t>> runsAlong(Axis axis, int64_t most) const;
  /// Output axes exchanged.
  Layout transposed() const;

  bool operator==(const Layout &other) const { return modes == other.modes; }
  void print(llvm::raw_ostream &os) const;

private:
  llvm::SmallVector<Mode> modes;
};

inline llvm::raw_ostream &operator<<(llvm::raw_ostream &os, const Layout &layout) {
  layout.print(os);
  return os;
}

/// What moves where when values in layout `from` shall be held in layout `to`.
struct Conversion {
  ConversionCost cost;
  /// With cost Free or Registers: register i of `to` is register source[i] of `from`.
  llvm::SmallVector<int64_t> source;
};
Conversion convert(const Layout &from, const Layout &to);

} // namespace kvc

#endif // KVC_TARGET_LAYOUT_H
