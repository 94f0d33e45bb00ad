//===- PageLayout.cpp - What lies where inside a page ---------------------===//
#include "kvc/Target/PageLayout.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace kvc;
using namespace kvc::kvcache;

static constexpr int64_t pageAlignment = 64;
/// Planes start at multiples of this, so that no scale or number is misaligned, and rows can be copied 16 bytes at a
/// time where teams do so.
static int64_t planeAlignmentOf(const Target &target) { return target.team ? 16 : 4; }

int64_t PlaneLayout::scaleCount() const { return format.isInteger() ? slots * channels / format.getGroup() : 0; }

int64_t PlaneLayout::codeBytes() const {
  int64_t units = packed ? slots * channels / pack : slots * rowUnits();
  return units * unitBytes;
}

/// `granule`: slots at multiples of it may start a block of lanes.
static PlaneLayout layoutPlane(FormatAttr format, int64_t slots, int64_t granule, CacheType type, Plane plane,
                               const Target &target, int64_t &offset) {
  PlaneLayout layout;
  layout.format = format;
  layout.plane = plane;
  layout.channels = type.getDim(plane);
  layout.slots = slots;
  layout.lanes = target.lanes;
  const FormatRow *row = lookupFormat(layout.format.getName());
  layout.pack = row->codesPerUnit;
  layout.unitBytes = row->unitBytes;
  const bool isKey = plane == Plane::K;
  auto fits = [&](int64_t pack) {
    return isKey ? slots % target.lanes == 0 && granule % target.lanes == 0 && layout.channels % pack == 0
                 : slots % pack == 0 && granule % pack == 0;
  };
  int64_t pack = row->kind == FormatRow::Kind::BF16 ? target.bf16Pairs : row->codesPerUnit;
  if (row->kind == FormatRow::Kind::Integer) {
    // A unit is as much of a lane's word as the dimensions, and groups along the summed one, allow.
    const bool alongSum = layout.format.getAxis() == (isKey ? Axis::Token : Axis::Channel);
    auto isWhole = [&](int64_t pack) { return fits(pack) && (!alongSum || layout.format.getGroup() % pack == 0); };
    while (2 * pack * row->bits / 8 <= target.wordBytes && isWhole(2 * pack)) {
      pack *= 2;
    }
  }
  // Teams read rows of 16-bit elements as they are: their matrix loads transpose.
  layout.packed = !target.team && fits(pack);
  const int64_t codesPerWord = 32 / row->bits;
  if (target.team && row->kind == FormatRow::Kind::Integer && (row->bits == 4 || row->bits == 2) &&
      layout.channels % codesPerWord == 0 &&
      (layout.format.getAxis() == Axis::Channel || layout.format.getGroup() % codesPerWord == 0)) {
    layout.pairs = true;
    layout.pack = codesPerWord;
    layout.unitBytes = 4;
  }
  if (layout.packed) {
    layout.pack = pack;
    layout.unitBytes = pack * layout.format.getBits() / 8;
  }
  auto place = [&](int64_t bytes) {
    int64_t at = offset;
    offset = llvm::alignTo(offset + bytes, planeAlignmentOf(target));
    return at;
  };
  layout.codes = place(layout.codeBytes());
  layout.scaleBytes = layout.format.isInteger() ? layout.format.getScale().getIntOrFloatBitWidth() / 8 : 0;
  layout.scales = layout.zeros = -1;
  if (layout.scaleBytes) {
    layout.scales = place(layout.scaleCount() * layout.scaleBytes);
    if (!layout.format.getSymmetric()) {
      layout.zeros = place(layout.scaleCount() * layout.scaleBytes);
    }
  }
  return layout;
}

PageLayout kvc::computePageLayout(CacheType type, const Target &target) {
  PageLayout layout;
  int64_t offset = 0;
  layout.k = layoutPlane(type.getK(), type.getPage(), type.getPage(), type, Plane::K, target, offset);
  layout.v = layoutPlane(type.getV(), type.getPage(), type.getPage(), type, Plane::V, target, offset);
  auto numbers = [&](bool present, int64_t count) -> int64_t {
    if (!present) {
      return -1;
    }
    int64_t at = offset;
    offset += count * 4;
    return at;
  };
  layout.positions = numbers(type.getStoredPositions(), type.getPage());
  layout.scores = numbers(type.getScorePlane(), type.getPage());
  layout.norms = numbers(type.getNormPlane(), type.getPage());
  layout.min = numbers(type.getMinmaxPlane(), type.getKDim());
  layout.max = numbers(type.getMinmaxPlane(), type.getKDim());
  layout.headBlockBytes = llvm::alignTo(offset, planeAlignmentOf(target));
  layout.headsPerPage = type.getPerHead() ? 1 : type.getHeads();
  layout.pagePayloadBytes = layout.headBlockBytes * layout.headsPerPage;
  layout.pageBytes = llvm::alignTo(layout.pagePayloadBytes, pageAlignment);
  layout.tailSlots = type.getTailSlots();
  if (layout.tailSlots) {
    llvm::StringRef name = type.getTail().isF32() ? "f32" : type.getTail().isF16() ? "f16" : "bf16";
    FormatAttr tail = FormatAttr::getByName(type.getContext(), name);
    int64_t group = type.getSealGroup(), tailOffset = 0;
    layout.tailK = layoutPlane(tail, layout.tailSlots, group, type, Plane::K, target, tailOffset);
    layout.tailV = layoutPlane(tail, layout.tailSlots, group, type, Plane::V, target, tailOffset);
    layout.tailHeadBytes = llvm::alignTo(tailOffset, planeAlignmentOf(target));
    layout.tailBytes = llvm::alignTo(layout.tailHeadBytes * layout.headsPerPage, pageAlignment);
    layout.tailSlotPayloadBytes = (type.getKDim() + type.getVDim()) * tail.getBits() / 8 * layout.headsPerPage;
  }
  return layout;
}

std::string kvc::whyPlainRows(CacheType type, Plane plane, const Target &target) {
  const PlaneLayout &layout = computePageLayout(type, target).plane(plane);
  // Teams want rows: no page is packed for them.
  if (layout.packed || target.team) {
    return "";
  }
  auto unfilled = [](int64_t count, const char *what, int64_t of, const char *whole) {
    return llvm::formatv("{0} {1} do not fill {2} of {3}", count, what, whole, of).str();
  };
  if (plane == Plane::K && layout.slots % target.lanes) {
    return unfilled(layout.slots, "slots of a page", target.lanes, "blocks of lanes");
  }
  return plane == Plane::K ? unfilled(layout.channels, "channels", layout.pack, "units")
                           : unfilled(layout.slots, "slots of a page", layout.pack, "units");
}
