//===- PageLayout.h - What lies where inside a page -------------*- C++ -*-===//
//
// The one function that lays out pages and tails. Everything that needs bytes or addresses asks it.
//
// A head block holds, for `page` slots of one KV head:
//   K codes | K scales | K zeros | V codes | V scales | V zeros | positions | scores | norms | min | max
//
// Operands of a product are stored as the machine consumes them: the summed dimension in units of `pack` elements, the
// other one across the lanes. For keys (summed over channels) element (slot s, channel d) is element d % pack of unit
//   ((s / lanes) * (channels / pack) + d / pack) * lanes + s % lanes,
// for values (summed over slots) element s % pack of unit (s / pack) * channels + d. Codes of integer formats fill the
// word that a lane reads at once, as far as the page and its groups allow. A page whose slots do not fill whole blocks
// of lanes (keys) or units (values) stores plain rows: unit s * (channels / pack) + d / pack, element d % pack.
//
// Teams read plain rows. Their units of 4- and 2-bit codes are words whose elements 2 i and 2 i + 1 lie 16 bits apart:
// a mask of the word is a pair of 16-bit numbers.
//
// Scales that belong to one slot lie in the order of slots: a vector of them meets a vector of scores or probabilities.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_TARGET_PAGELAYOUT_H
#define KVC_TARGET_PAGELAYOUT_H

#include "kvc/Dialect/KVCache/IR/KVCache.h"
#include "kvc/Target/Target.h"

#include <string>

namespace kvc {

/// Where the codes, scales and zeros of one of K and V lie in a head block. Offsets and sizes in bytes.
struct PlaneLayout {
  kvcache::FormatAttr format;
  kvcache::Plane plane;
  int64_t channels, slots;
  /// Packed for the lanes (true) or plain rows (false).
  bool packed;
  int64_t lanes;
  /// Elements of a unit, and bytes of a unit.
  int64_t pack, unitBytes;
  /// Whether neighbours lie 16 bits apart in a unit of 32 bits, and not side by side.
  bool pairs = false;
  int64_t codes, scales, zeros;
  /// Bytes of one scale or zero; 0 without scales. `zeros` is -1 for symmetric formats.
  int64_t scaleBytes;

  // The formulas hold for any type of index with + * / %: for numbers, and for values that emit code.

  /// Units of a plain row.
  int64_t rowUnits() const { return (channels + pack - 1) / pack; }
  /// Number of unit (before the element within it) that holds (slot, channel).
  template <typename Index> Index unitOf(Index slot, Index channel) const {
    if (!packed) {
      return slot * rowUnits() + channel / pack;
    }
    if (plane == kvcache::Plane::K) {
      return ((slot / lanes) * (channels / pack) + channel / pack) * lanes + slot % lanes;
    }
    return (slot / pack) * channels + channel;
  }
  template <typename Index> Index elementOf(Index slot, Index channel) const {
    return packed && plane == kvcache::Plane::V ? slot % pack : channel % pack;
  }
  /// Number of an element's lowest bit in its unit.
  template <typename Index> Index bitOf(Index element) const {
    return pairs ? element / 2 * format.getBits() + element % 2 * 16 : element * format.getBits();
  }
  /// Index of the scale (and zero) of (slot, channel).
  template <typename Index> Index scaleOf(Index slot, Index channel) const {
    int64_t group = format.getGroup();
    if (format.getAxis() == kvcache::Axis::Channel) {
      return slot / group * channels + channel;
    }
    if (packed && plane == kvcache::Plane::K) {
      return ((slot / lanes) * (channels / group) + channel / group) * lanes + slot % lanes;
    }
    return packed ? channel / group * slots + slot : slot * (channels / group) + channel / group;
  }
  int64_t scaleCount() const;
  int64_t codeBytes() const;
};

/// Layout of the pages and tails of a cache on a target. Offsets and sizes in bytes; -1 for what is not there.
struct PageLayout {
  PlaneLayout k, v;
  int64_t positions = -1, scores = -1, norms = -1, min = -1, max = -1;
  int64_t headBlockBytes = 0;
  /// Head blocks of a page: all KV heads, or 1 with a table per head.
  int64_t headsPerPage = 0;
  /// Bytes from one page to the next, and without the padding.
  int64_t pageBytes = 0, pagePayloadBytes = 0;
  /// The tail of a table: a ring of slots in the tail's type; slot s is at (s % tailSlots). Laid out like a page of
  /// tailSlots slots.
  int64_t tailSlots = 0;
  PlaneLayout tailK, tailV;
  int64_t tailHeadBytes = 0, tailBytes = 0, tailSlotPayloadBytes = 0;

  const PlaneLayout &plane(kvcache::Plane p) const { return p == kvcache::Plane::K ? k : v; }
  const PlaneLayout &tailPlane(kvcache::Plane p) const { return p == kvcache::Plane::K ? tailK : tailV; }
};

PageLayout computePageLayout(kvcache::CacheType type, const Target &target);
/// Why the pages of a cache hold K or V in plain rows; empty when they are packed.
std::string whyPlainRows(kvcache::CacheType type, kvcache::Plane plane, const Target &target);

} // namespace kvc

#endif // KVC_TARGET_PAGELAYOUT_H
