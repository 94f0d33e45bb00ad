//===- TileDialect.cpp - Registration of the tile dialect ----------------===//
#include "kvc/Dialect/Tile/IR/Lanes.h"
#include "kvc/Dialect/Tile/IR/Tile.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kvc::tile;

#include "Tile/TileDialect.cpp.inc"
#include "Tile/TileEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "Tile/TileAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "Tile/TileTypes.cpp.inc"

LogicalResult BoxesAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t argument, int64_t offset,
                                DenseI64ArrayAttr strides, DenseI64ArrayAttr extents, DenseI64ArrayAttr box,
                                int64_t swizzle) {
  constexpr int64_t granule = 16, mostElements = 256, elementBytes = 2, inner = 4;
  auto isGranular = [](int64_t bytes) { return bytes > 0 && bytes % granule == 0; };
  auto isBox = [](int64_t size) { return size > 0 && size <= mostElements; };
  if (argument < 0 || offset < 0 || offset % granule || strides.size() != inner || extents.size() != inner ||
      box.size() != inner + 1 || !llvm::all_of(strides.asArrayRef(), isGranular) ||
      !llvm::all_of(box.asArrayRef(), isBox)) {
    return emitError()
           << "expects four strides and an offset that are multiples of 16, four extents, and a box of 1 to "
              "256 elements in each of five dimensions, but got offset "
           << offset << ", strides " << strides << ", extents " << extents << " and box " << box;
  }
  if ((swizzle != 32 && swizzle != 64 && swizzle != 128) || box[0] * elementBytes != swizzle) {
    return emitError() << "expects rows of a box of 32, 64 or 128 bytes, those of the swizzle, but got "
                       << box[0] * elementBytes << " and " << swizzle;
  }
  return success();
}

void TileDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "Tile/TileAttrs.cpp.inc"
      >();
}

void TileDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "Tile/TileTypes.cpp.inc"
      >();
}

void TileDialect::initialize() {
  registerAttributes();
  registerTypes();
  addOperations<
#define GET_OP_LIST
#include "Tile/TileOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "Tile/TileLaneOps.cpp.inc"
      >();
}
