//===- Codec.h - Codes of the storage formats in registers ------*- C++ -*-===//
//
// How bytes of a page become numbers and back (docs/spec/formats.md), for operands of products and single slots alike.
// Layouts say where bytes lie; this file says what they mean.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_LIB_CONVERSION_TILETOVECTOR_CODEC_H
#define KVC_LIB_CONVERSION_TILETOVECTOR_CODEC_H

#include "kvc/Target/PageLayout.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace kvc {

/// What a unit is in a register: the integer type of its bytes, or the next wider one that machines have; the bits
/// above those of the unit mean nothing.
mlir::IntegerType getUnitType(mlir::MLIRContext *context, const PlaneLayout &plane);
/// Units in registers from their bytes side by side in memory, vector<(n * plane.unitBytes) x i8>, and back.
mlir::Value unitsOfBytes(mlir::ImplicitLocOpBuilder &b, const PlaneLayout &plane, mlir::Value bytes);
mlir::Value bytesOfUnits(mlir::ImplicitLocOpBuilder &b, const PlaneLayout &plane, mlir::Value units);

/// The elements of a vector of units. Result e of `plane.pack` is an f32 vector of element e of every unit: the number
/// itself for floating point formats, else the code as a number, before scale and zero (signed for symmetric formats).
llvm::SmallVector<mlir::Value> decodeUnits(mlir::ImplicitLocOpBuilder &b, const PlaneLayout &plane, mlir::Value units);
/// The inverse: units from `plane.pack` vectors of their elements (for integer formats codes as numbers).
mlir::Value encodeUnits(mlir::ImplicitLocOpBuilder &b, const PlaneLayout &plane, mlir::ValueRange elements);

/// One element of every unit alone; `shift` is the number of the element's lowest bit as an integer of a unit's width.
mlir::Value decodeElement(mlir::ImplicitLocOpBuilder &b, const PlaneLayout &plane, mlir::Value units,
                          mlir::Value shift);
/// `units` with that element of each replaced by the f32 vector `element`.
mlir::Value encodeElement(mlir::ImplicitLocOpBuilder &b, const PlaneLayout &plane, mlir::Value units, mlir::Value shift,
                          mlir::Value element);

/// f32 from a vector or scalar of f32, f16 or bf16, exactly.
mlir::Value decodeFloat(mlir::ImplicitLocOpBuilder &b, mlir::Value value);
/// f32 rounded to nearest even to `type` (f32, f16 or bf16); NaN stays NaN, infinities and overflow become infinity.
mlir::Value encodeFloat(mlir::ImplicitLocOpBuilder &b, mlir::Value value, mlir::Type type);

/// A group of numbers that share a scale, as codes. `scale` and `zero` are of the format's scale type; `zero` is null
/// for symmetric formats. A number is code * scale + zero.
struct QuantizedGroup {
  mlir::Value codes;
  mlir::Value scale, zero;
};
/// Quantises a vector<group x f32> as an integer format says. Codes come as f32.
QuantizedGroup quantizeGroup(mlir::ImplicitLocOpBuilder &b, kvcache::FormatAttr format, mlir::Value values);
/// f32 from stored scales: never below the smallest scale of the formats.
mlir::Value decodeScale(mlir::ImplicitLocOpBuilder &b, mlir::Value scale);
/// code * scale + zero in f32 on vectors of one shape; a null zero is none.
mlir::Value dequantize(mlir::ImplicitLocOpBuilder &b, mlir::Value codes, mlir::Value scale, mlir::Value zero);

} // namespace kvc

#endif // KVC_LIB_CONVERSION_TILETOVECTOR_CODEC_H
