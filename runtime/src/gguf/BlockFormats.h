//===- BlockFormats.h - How GGUF stores the values of a tensor --*- C++ -*-===//
//
// The one table of tensor types: size of a block and the scalar reference that
// decodes it. A block is a run of values along a row that is stored together.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_GGUF_BLOCKFORMATS_H
#define KVC_GGUF_BLOCKFORMATS_H

#include "support/Result.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace kvc::gguf {

/// A tensor type. `decodeBlock` is null for types that kvc knows by name and size only.
struct BlockFormat {
  std::string_view name;     ///< as GGUF tools print it, for example "Q4_1"
  std::string_view encoding; ///< lower case, as the attribute #kvcache.encoded<..> spells it
  uint32_t id;               ///< the number in the file
  uint32_t valuesPerBlock;
  uint32_t bytesPerBlock;
  /// Decodes one block of `bytesPerBlock` bytes to `valuesPerBlock` floats. No alignment is needed.
  void (*decodeBlock)(const std::byte *block, float *values);
};

/// All types that are known, in the order of their ids.
std::span<const BlockFormat> blockFormats();

/// The row of a type, or null when the id or the name is not known.
const BlockFormat *findBlockFormat(uint32_t id);
const BlockFormat *findBlockFormat(std::string_view name);

/// Bytes of a row of `values` values.
/// Errors: invalidArgument when `values` is no multiple of the block; outOfRange when the product overflows.
Result<uint64_t> rowBytes(const BlockFormat &format, uint64_t values);

/// Decodes a row: `source` holds rowBytes(format, values.size()) bytes. Arithmetic is binary32 without fused
/// operations, so the values are those that the format defines.
/// Errors: unsupported when the type has no decoder, invalidArgument when the sizes do not fit.
Status dequantizeRow(const BlockFormat &format, std::span<const std::byte> source, std::span<float> values);

} // namespace kvc::gguf

#endif // KVC_GGUF_BLOCKFORMATS_H
