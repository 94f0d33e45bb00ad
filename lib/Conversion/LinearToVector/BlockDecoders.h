//===- BlockDecoders.h - Blocks of weights become vectors -------*- C++ -*-===//
//
// One row per encoding. A decoder emits the code that turns a run of values of a weight into vectors of codes and what
// scales them, so that a product can scale its sums instead of its factors.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_LIB_CONVERSION_LINEARTOVECTOR_BLOCKDECODERS_H
#define KVC_LIB_CONVERSION_LINEARTOVECTOR_BLOCKDECODERS_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <optional>

namespace kvc {

/// Consecutive values of a weight: value = code * scale + offset. A null scale is 1, a null offset 0.
struct DecodedSegment {
  llvm::SmallVector<mlir::Value, 4> codes; ///< vectors of `lanes` f32, in order
  mlir::Value scale, offset;               ///< f32
};

/// Where a decoder reads: a block of row `row` of `weight`, a memref of rows of bytes (or of f32 for the encoding f32).
struct BlockAddress {
  mlir::Value weight, row;
  mlir::Value offset;    ///< index of the first byte (f32: element) of the block in the row
  int64_t alignment = 1; ///< bytes that the block's address is surely a multiple of, a power of two
};

/// Which values of a segment a lane reads when lanes share a row: `first + further` and the next three. `first` differs
/// from lane to lane and is a multiple of 4.
struct LaneValues {
  mlir::Value first; ///< index
  int64_t further;
};

struct BlockDecoder {
  llvm::StringLiteral encoding;
  /// Values of a segment; 0: plain numbers, a segment is one vector.
  int64_t segmentValues;
  bool hasOffset;
  /// Emits segment `segment` of the block. `count` < lanes: only so many of a plain number's vector exist; the others
  /// are 0.
  DecodedSegment (*emit)(mlir::ImplicitLocOpBuilder &b, const BlockAddress &block, int64_t segment, int64_t lanes,
                         int64_t count);
  /// Emits the factors of a segment alone: scale and offset.
  DecodedSegment (*emitScales)(mlir::ImplicitLocOpBuilder &b, const BlockAddress &block, int64_t segment);
  /// Emits four codes as the bytes of an i32, the first lowest: code = byte - bias, or signed bytes where `bias` is
  /// nothing. Null for plain numbers.
  mlir::Value (*emitBytes)(mlir::ImplicitLocOpBuilder &b, const BlockAddress &block, int64_t segment,
                           const LaneValues &values);
  std::optional<int64_t> bias;
  /// Eight neighbours of a segment lie in one run of memory that starts at a multiple of eight values.
  bool runsOfEight;
};

/// The row of an encoding that the verifier of tile.linear accepted.
const BlockDecoder &getBlockDecoder(llvm::StringRef encoding);

/// A weight's row cut into equal steps of the loop over K.
struct WeightSteps {
  WeightSteps(llvm::StringRef encoding, int64_t inner, int64_t lanes);

  const BlockDecoder &decoder;
  int64_t values;   ///< of a step
  int64_t units;    ///< bytes (f32: elements) of a step
  int64_t bytes;    ///< of a step
  int64_t segments; ///< of a step
  int64_t count;    ///< whole steps of a row
  int64_t tail;     ///< values behind the last whole step; 0 unless the encoding is plain numbers
};

/// `count` < lanes: elements past it are not read and are 0.
mlir::Value loadRow(mlir::ImplicitLocOpBuilder &b, mlir::Value memref, mlir::ValueRange indices, int64_t lanes,
                    int64_t count);

} // namespace kvc

#endif // KVC_LIB_CONVERSION_LINEARTOVECTOR_BLOCKDECODERS_H
