//===- Boxes.cpp - Tiles as boxes of arrays -------------------------------===//
//
// Keys (or values) of a cache are an array of five dimensions: elements of a panel's row, eight slots, panels, groups
// of eight slots in a head block, head blocks of the pool. A box of it is all channels of neighbouring slots of one
// page, in the order in which a tile lies in staging memory: one instruction copies it.
//
//===----------------------------------------------------------------------===//
#include "TeamEmitter.h"

using namespace mlir;
using namespace kvc;

std::string kvc::whyNoBoxes(const CacheMemory &cache, int64_t run) {
  const PageLayout &layout = cache.layout;
  if (run == 0) {
    return "tiles may begin within a page, or pages hold few slots";
  }
  if (run % Panels::groupRows) {
    return "eight slots of a tile are not always of one page";
  }
  if (layout.pageBytes != layout.headsPerPage * layout.headBlockBytes) {
    return "head blocks of different pages are not equally far apart";
  }
  constexpr int64_t granule = 16;
  if (layout.headBlockBytes % granule || layout.k.codes % granule || layout.v.codes % granule) {
    return "head blocks, keys or values do not begin at multiples of 16 bytes";
  }
  return "";
}

int64_t TeamEmitter::numberOfMap(const CacheMemory &cache, kvcache::Plane plane, int64_t slots) {
  const PlaneLayout &layout = cache.layout.plane(plane);
  const Panels panels = Panels::of(slots, layout.channels);
  const int64_t elements = panels.swizzle / 2, rowBytes = layout.channels * 2, group = Panels::groupRows;
  // Arguments of a kernel's caches go before it is done.
  int64_t argument = 0;
  for (BlockArgument other : cast<BlockArgument>(cache.pages).getOwner()->getArguments()) {
    if (other == cache.pages) {
      break;
    }
    argument += !isa<kvcache::CacheType, kvcache::BatchType, kvcache::SelectionType>(other.getType());
  }
  Builder b = entry;
  const auto map = tile::BoxesAttr::get(
      b.getContext(), argument, layout.codes,
      b.getDenseI64ArrayAttr({rowBytes, panels.swizzle, rowBytes * group, cache.layout.headBlockBytes}),
      b.getDenseI64ArrayAttr({elements, group, panels.count(), cache.type.getPage() / group}),
      b.getDenseI64ArrayAttr({elements, group, panels.count(), slots / group, 1}), panels.swizzle);
  const auto *found = llvm::find(maps, map);
  if (found == maps.end()) {
    maps.push_back(map);
    return static_cast<int64_t>(maps.size()) - 1;
  }
  return found - maps.begin();
}
