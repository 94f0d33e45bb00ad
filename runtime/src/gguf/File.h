//===- File.h - Reader of GGUF model files ----------------------*- C++ -*-===//
//
// Maps a GGUF file (version 2 or 3, little endian) read-only and gives its
// key/values and tensors. The file is not trusted: every length, count, offset
// and product is checked before it is used, no memory is allocated by a count
// that the bytes left in the file could not hold, and errors name the item.
//
// The layout of the format is that of the GGUF specification in the ggml
// repository (docs/gguf.md).
//
//===----------------------------------------------------------------------===//
#ifndef KVC_GGUF_FILE_H
#define KVC_GGUF_FILE_H

#include "gguf/BlockFormats.h"
#include "support/Result.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kvc::gguf {

/// Type of a metadata value; the numbers are those of the file.
enum class ValueType : uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

/// "u32", "string", ...
std::string_view valueTypeName(ValueType type);

/// A metadata value. Views point into the file and live as long as it does.
struct Value {
  ValueType type = ValueType::u8;
  ValueType elementType = ValueType::u8; ///< of an array; equal to `type` for a scalar
  uint64_t count = 1;                    ///< elements of an array
  const std::byte *bytes = nullptr;      ///< numbers and booleans: `count` little-endian elements, not aligned
  std::vector<std::string_view> strings; ///< strings: `count` elements
};

/// A tensor of the file.
struct Tensor {
  std::string_view name;
  const BlockFormat *format;
  std::vector<uint64_t> dims; ///< 1 to 4, the fastest first: {columns, rows, ...}
  uint64_t offset;            ///< of the data, from the start of the file
  std::span<const std::byte> data;

  uint64_t columns() const { return dims[0]; }
  uint64_t rows() const { return data.size() / (data.empty() ? 1 : rowSize()); }
  uint64_t rowSize() const { return dims[0] / format->valuesPerBlock * format->bytesPerBlock; }
};

/// An open file. Immutable, so any number of threads may read it. Moving it keeps all views valid.
///
/// The mapping is shared with the file system: a file that another process truncates while it is mapped makes
/// the operating system end this process (SIGBUS), as with every mapped file.
class File {
public:
  /// Maps and checks a file. Errors: notFound, io, corrupt, unsupported (version, byte order, unknown types).
  static Result<File> open(const std::string &path);

  /// Reads a file that is already in memory; `bytes` must outlive the result. `name` is used in messages.
  static Result<File> parse(std::span<const std::byte> bytes, std::string name);

  const std::string &name() const { return fileName; }
  uint32_t version() const { return fileVersion; }
  uint64_t alignment() const { return dataAlignment; }
  std::span<const std::byte> bytes() const { return content; }
  /// Offset of the tensor data from the start of the file.
  uint64_t dataOffset() const { return dataStart; }

  /// Keys in the order of the file.
  std::span<const std::string_view> keys() const { return keyOrder; }
  const Value *find(std::string_view key) const;

  /// Typed access. Errors: notFound for an absent key, invalidArgument for a value of another type.
  /// Integers of every width are accepted when the value is not negative.
  Result<uint64_t> getUnsigned(std::string_view key) const;
  Result<double> getFloat(std::string_view key) const;
  Result<bool> getBool(std::string_view key) const;
  Result<std::string_view> getString(std::string_view key) const;
  Result<std::span<const std::string_view>> getStrings(std::string_view key) const;
  /// An array of integers, widened.
  Result<std::vector<int64_t>> getIntegers(std::string_view key) const;

  std::span<const Tensor> tensors() const { return tensorList; }
  const Tensor *findTensor(std::string_view name) const;

private:
  class Parser;
  struct Mapping;

  File() = default;

  std::string fileName;
  std::shared_ptr<const Mapping> mapping; ///< null for parse()
  std::span<const std::byte> content;
  uint32_t fileVersion = 0;
  uint64_t dataAlignment = 32;
  uint64_t dataStart = 0;
  std::vector<std::string_view> keyOrder;
  std::unordered_map<std::string_view, Value> values;
  std::vector<Tensor> tensorList;
  std::unordered_map<std::string_view, size_t> tensorIndex;
};

/// An element of a numeric value as an integer (u8..i64, boolean) or as a double.
int64_t integerAt(const Value &value, uint64_t index);
double floatAt(const Value &value, uint64_t index);

} // namespace kvc::gguf

#endif // KVC_GGUF_FILE_H
