//===- File.cpp - Reader of GGUF model files ------------------------------===//
//
// Mapping, parsing and checking of a GGUF file.
//
//===----------------------------------------------------------------------===//
#include "gguf/File.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <limits>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kvc::gguf {

static_assert(std::endian::native == std::endian::little, "GGUF data is used in place");

namespace {

constexpr uint64_t maxNameBytes = 65535;
constexpr uint32_t maxDims = 4;
constexpr uint64_t maxAlignment = uint64_t(1) << 30;

struct ValueTypeRow {
  ValueType type;
  std::string_view name;
  uint32_t bytes; // 0: of variable size
};
constexpr ValueTypeRow valueTypes[] = {
    {ValueType::u8, "u8", 1},       {ValueType::i8, "i8", 1},        {ValueType::u16, "u16", 2},
    {ValueType::i16, "i16", 2},     {ValueType::u32, "u32", 4},      {ValueType::i32, "i32", 4},
    {ValueType::f32, "f32", 4},     {ValueType::boolean, "bool", 1}, {ValueType::string, "string", 0},
    {ValueType::array, "array", 0}, {ValueType::u64, "u64", 8},      {ValueType::i64, "i64", 8},
    {ValueType::f64, "f64", 8},
};

const ValueTypeRow *findValueType(uint32_t number) {
  auto *it = std::ranges::find(valueTypes, ValueType(number), &ValueTypeRow::type);
  return it == std::end(valueTypes) ? nullptr : it;
}

/// A name from the file for a message: quoted, cut, with everything but printable ASCII escaped.
std::string quoted(std::string_view text) {
  constexpr size_t shown = 80;
  std::string out = "'";
  for (unsigned char c : text.substr(0, shown)) {
    if (c >= 0x20 && c < 0x7f && c != '\\') {
      out += char(c);
    } else {
      out += fmt::format("\\x{:02x}", unsigned(c));
    }
  }
  return out + (text.size() > shown ? "...'" : "'");
}

template <typename T> T load(const std::byte *p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

bool isInteger(ValueType type) {
  return type != ValueType::f32 && type != ValueType::f64 && type != ValueType::string && type != ValueType::array;
}

std::string describe(const Value &value) {
  if (value.type == ValueType::array) {
    return fmt::format("an array of {} {}", value.count, valueTypeName(value.elementType));
  }
  return std::string(valueTypeName(value.type));
}

} // namespace

std::string_view valueTypeName(ValueType type) {
  const ValueTypeRow *row = findValueType(uint32_t(type));
  return row ? row->name : "unknown";
}

int64_t integerAt(const Value &value, uint64_t index) {
  const ValueTypeRow *row = findValueType(uint32_t(value.elementType));
  const std::byte *p = value.bytes + index * row->bytes;
  switch (value.elementType) {
  case ValueType::u8:
  case ValueType::boolean:
    return load<uint8_t>(p);
  case ValueType::i8:
    return load<int8_t>(p);
  case ValueType::u16:
    return load<uint16_t>(p);
  case ValueType::i16:
    return load<int16_t>(p);
  case ValueType::u32:
    return load<uint32_t>(p);
  case ValueType::i32:
    return load<int32_t>(p);
  case ValueType::u64:
    return int64_t(load<uint64_t>(p));
  case ValueType::i64:
    return load<int64_t>(p);
  default:
    assert(false && "not an integer value");
    return 0;
  }
}

double floatAt(const Value &value, uint64_t index) {
  switch (value.elementType) {
  case ValueType::f32:
    return load<float>(value.bytes + index * 4);
  case ValueType::f64:
    return load<double>(value.bytes + index * 8);
  default:
    return double(integerAt(value, index));
  }
}

/// An mmapped file.
struct File::Mapping {
  void *address = nullptr;
  size_t size = 0;
  Mapping(void *address, size_t size) : address(address), size(size) {}
  Mapping(const Mapping &) = delete;
  Mapping &operator=(const Mapping &) = delete;
  ~Mapping() { ::munmap(address, size); }
};

//===----------------------------------------------------------------------===//
// Parser
//===----------------------------------------------------------------------===//

/// Reads the file front to back. `where` names the item that is being read, for messages.
class File::Parser {
public:
  explicit Parser(File &file) : file(file), content(file.content) {}

  Status run() {
    KVC_RETURN_IF_ERROR(header());
    for (uint64_t i = 0; i < keyCount; ++i) {
      KVC_RETURN_IF_ERROR(keyValue(i));
    }
    KVC_RETURN_IF_ERROR(alignment());
    for (uint64_t i = 0; i < tensorCount; ++i) {
      KVC_RETURN_IF_ERROR(tensorInfo(i));
    }
    return placeTensors();
  }

private:
  uint64_t remaining() const { return content.size() - position; }

  Status corrupt(const std::string &what) const {
    return {StatusCode::corrupt,
            fmt::format("{}: {} (at byte {} of {})", file.fileName, what, position, content.size())};
  }

  Status take(uint64_t bytes, std::string_view where, const std::byte *&data) {
    if (bytes > remaining()) {
      return corrupt(fmt::format("expects {} more bytes for {}, but got {}", bytes, where, remaining()));
    }
    data = content.data() + position;
    position += bytes;
    return {};
  }

  template <typename T> Status number(std::string_view where, T &value) {
    const std::byte *data = nullptr;
    KVC_RETURN_IF_ERROR(take(sizeof(T), where, data));
    value = load<T>(data);
    return {};
  }

  Status string(std::string_view where, uint64_t limit, std::string_view &value) {
    uint64_t length = 0;
    KVC_RETURN_IF_ERROR(number(where, length));
    if (length > limit) {
      return corrupt(fmt::format("expects at most {} bytes for {}, but got a length of {}", limit, where, length));
    }
    const std::byte *data = nullptr;
    KVC_RETURN_IF_ERROR(take(length, where, data));
    value = {reinterpret_cast<const char *>(data), length};
    return {};
  }

  /// Checks a count against the bytes that are left, before anything is allocated by it.
  Status count(std::string_view where, uint64_t n, uint64_t smallest) const {
    if (n > remaining() / smallest) {
      return corrupt(
          fmt::format("expects {} that fit the {} bytes left, but got a count of {}", where, remaining(), n));
    }
    return {};
  }

  Status header() {
    constexpr std::string_view magic = "GGUF";
    if (content.size() < magic.size() || std::memcmp(content.data(), magic.data(), magic.size()) != 0) {
      return corrupt("expects a GGUF file that starts with 'GGUF', but got " +
                     quoted({reinterpret_cast<const char *>(content.data()), std::min<size_t>(content.size(), 4)}));
    }
    position = magic.size();
    KVC_RETURN_IF_ERROR(number("the version", file.fileVersion));
    if (file.fileVersion != 2 && file.fileVersion != 3) {
      bool swapped = (file.fileVersion & 0xffff) == 0;
      return {StatusCode::unsupported, fmt::format("{}: expects GGUF version 2 or 3, but got {}{}", file.fileName,
                                                   file.fileVersion, swapped ? " (a big-endian file)" : "")};
    }
    KVC_RETURN_IF_ERROR(number("the number of tensors", tensorCount));
    KVC_RETURN_IF_ERROR(number("the number of keys", keyCount));
    // A key is at least a length, a byte, a type and a byte; a tensor a length, a byte, three numbers and a dimension.
    KVC_RETURN_IF_ERROR(count("keys", keyCount, 8 + 1 + 4 + 1));
    KVC_RETURN_IF_ERROR(count("tensors", tensorCount, 8 + 1 + 4 + 8 + 4 + 8));
    return {};
  }

  Status strings(const std::string &where, Value &value) {
    KVC_RETURN_IF_ERROR(count("elements of " + where, value.count, 8));
    value.strings.resize(value.count);
    for (std::string_view &element : value.strings) {
      KVC_RETURN_IF_ERROR(string(where, remaining(), element));
    }
    return {};
  }

  Status numbers(const std::string &where, uint32_t size, Value &value) {
    KVC_RETURN_IF_ERROR(count("elements of " + where, value.count, size));
    KVC_RETURN_IF_ERROR(take(value.count * size, where, value.bytes));
    if (value.elementType == ValueType::boolean) {
      for (uint64_t i = 0; i < value.count; ++i) {
        if (value.bytes[i] > std::byte(1)) {
          return corrupt(fmt::format("expects 0 or 1 in boolean {}, but got {}", where, int(value.bytes[i])));
        }
      }
    }
    return {};
  }

  Status keyValue(uint64_t index) {
    std::string_view key;
    KVC_RETURN_IF_ERROR(string(fmt::format("key {}", index), maxNameBytes, key));
    std::string where = "key " + quoted(key);
    if (key.empty()) {
      return corrupt(fmt::format("expects a name for key {}, but got an empty one", index));
    }
    const ValueTypeRow *type = nullptr;
    KVC_RETURN_IF_ERROR(valueType(where, type));
    Value value;
    value.type = value.elementType = type->type;
    if (type->type == ValueType::array) {
      KVC_RETURN_IF_ERROR(valueType(where, type));
      value.elementType = type->type;
      KVC_RETURN_IF_ERROR(number("the length of " + where, value.count));
      if (type->type == ValueType::array) {
        return {StatusCode::unsupported, file.fileName + ": " + where + " is an array of arrays"};
      }
    }
    KVC_RETURN_IF_ERROR(type->type == ValueType::string ? strings(where, value) : numbers(where, type->bytes, value));
    if (!file.values.emplace(key, std::move(value)).second) {
      return corrupt("expects each key once, but got a second " + where);
    }
    file.keyOrder.push_back(key);
    return {};
  }

  Status valueType(const std::string &where, const ValueTypeRow *&type) {
    uint32_t id = 0;
    KVC_RETURN_IF_ERROR(number("the type of " + where, id));
    type = findValueType(id);
    return type ? Status() : corrupt(fmt::format("expects a value type from 0 to 12 for {}, but got {}", where, id));
  }

  Status alignment() {
    constexpr std::string_view key = "general.alignment";
    if (!file.find(key)) {
      return {};
    }
    KVC_ASSIGN_OR_RETURN(file.dataAlignment, file.getUnsigned(key));
    if (!std::has_single_bit(file.dataAlignment) || file.dataAlignment > maxAlignment) {
      return corrupt(fmt::format("expects a power of two up to {} for key 'general.alignment', but got {}",
                                 maxAlignment, file.dataAlignment));
    }
    return {};
  }

  Status tensorInfo(uint64_t index) {
    Tensor tensor{};
    KVC_RETURN_IF_ERROR(string(fmt::format("the name of tensor {}", index), maxNameBytes, tensor.name));
    std::string where = "tensor " + quoted(tensor.name);
    if (tensor.name.empty()) {
      return corrupt(fmt::format("expects a name for tensor {}, but got an empty one", index));
    }
    uint32_t rank = 0, type = 0;
    KVC_RETURN_IF_ERROR(number("the rank of " + where, rank));
    if (rank < 1 || rank > maxDims) {
      return corrupt(fmt::format("expects 1 to {} dimensions for {}, but got {}", maxDims, where, rank));
    }
    tensor.dims.resize(rank);
    for (uint64_t &dim : tensor.dims) {
      KVC_RETURN_IF_ERROR(number("a dimension of " + where, dim));
    }
    KVC_RETURN_IF_ERROR(number("the type of " + where, type));
    KVC_RETURN_IF_ERROR(number("the offset of " + where, tensor.offset));
    tensor.format = findBlockFormat(type);
    if (!tensor.format) {
      return {StatusCode::unsupported,
              fmt::format("{}: {} has type {}, which is not a tensor type that kvc knows", file.fileName, where, type)};
    }
    if (!file.tensorIndex.emplace(tensor.name, file.tensorList.size()).second) {
      return corrupt("expects each tensor once, but got a second " + where);
    }
    file.tensorList.push_back(std::move(tensor));
    return {};
  }

  Result<uint64_t> tensorBytes(const Tensor &tensor) const {
    Result<uint64_t> bytes = rowBytes(*tensor.format, tensor.dims[0]);
    for (size_t i = 0; i < tensor.dims.size() && bytes.ok(); ++i) {
      if (tensor.dims[i] < 1) {
        return Status(StatusCode::corrupt,
                      fmt::format("expects dimensions of at least 1, but got 0 for dimension {}", i));
      }
      if (i == 0) {
        continue;
      }
      // Bound by int64 so that later products of signed sizes cannot overflow either.
      if (*bytes > uint64_t(std::numeric_limits<int64_t>::max()) / tensor.dims[i]) {
        return Status(StatusCode::corrupt, "expects a size that fits 63 bits, but the dimensions give more");
      }
      bytes = *bytes * tensor.dims[i];
    }
    return bytes;
  }

  Status placeTensors() {
    if (file.tensorList.empty()) {
      file.dataStart = content.size();
      return {};
    }
    // The header fits the file, and files are far below 2^63 bytes: this does not overflow.
    file.dataStart = (position + file.dataAlignment - 1) / file.dataAlignment * file.dataAlignment;
    if (file.dataStart > content.size()) {
      return corrupt(fmt::format("expects tensor data from byte {}, but the file ends", file.dataStart));
    }
    uint64_t dataSize = content.size() - file.dataStart;
    std::vector<const Tensor *> byOffset;
    for (Tensor &tensor : file.tensorList) {
      std::string where = "tensor " + quoted(tensor.name);
      Result<uint64_t> bytes = tensorBytes(tensor);
      if (!bytes.ok()) {
        return corrupt(where + ": " + bytes.message());
      }
      if (tensor.offset % file.dataAlignment != 0) {
        return corrupt(fmt::format("expects a multiple of the alignment {} as the offset of {}, but got {}",
                                   file.dataAlignment, where, tensor.offset));
      }
      if (tensor.offset > dataSize || *bytes > dataSize - tensor.offset) {
        return corrupt(fmt::format("expects {} within the {} bytes of tensor data, but got {} bytes at offset {}",
                                   where, dataSize, *bytes, tensor.offset));
      }
      tensor.offset += file.dataStart;
      tensor.data = content.subspan(tensor.offset, *bytes);
      byOffset.push_back(&tensor);
    }
    std::ranges::sort(byOffset, {}, &Tensor::offset);
    for (size_t i = 1; i < byOffset.size(); ++i) {
      const Tensor &a = *byOffset[i - 1], &b = *byOffset[i];
      if (b.offset - a.offset < a.data.size()) {
        return corrupt(fmt::format("expects tensors apart from each other, but {} and {} overlap", quoted(a.name),
                                   quoted(b.name)));
      }
    }
    return {};
  }

  File &file;
  std::span<const std::byte> content;
  uint64_t position = 0;
  uint64_t keyCount = 0;
  uint64_t tensorCount = 0;
};

//===----------------------------------------------------------------------===//
// File
//===----------------------------------------------------------------------===//

Result<File> File::parse(std::span<const std::byte> bytes, std::string name) {
  File file;
  file.fileName = std::move(name);
  file.content = bytes;
  KVC_RETURN_IF_ERROR(Parser(file).run());
  return file;
}

Result<File> File::open(const std::string &path) {
  auto failure = [&](int error) {
    return Status(error == ENOENT ? StatusCode::notFound : StatusCode::io,
                  fmt::format("{}: cannot open: {}", path, std::strerror(error)));
  };
  // Without O_NONBLOCK, opening a FIFO would wait for a writer.
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    return failure(errno);
  }
  struct stat info{};
  if (::fstat(descriptor, &info) != 0) {
    int error = errno;
    ::close(descriptor);
    return failure(error);
  }
  if (!S_ISREG(info.st_mode) || info.st_size <= 0) {
    ::close(descriptor);
    return Status(StatusCode::invalidArgument, path + ": expects a GGUF file, but got " +
                                                   (S_ISREG(info.st_mode) ? "an empty file" : "no regular file"));
  }
  size_t size = size_t(info.st_size);
  void *address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  int error = errno;
  ::close(descriptor);
  if (address == MAP_FAILED) {
    return failure(error);
  }
  auto mapping = std::make_shared<const Mapping>(address, size);
  KVC_ASSIGN_OR_RETURN(File file, parse({static_cast<const std::byte *>(address), size}, path));
  file.mapping = std::move(mapping);
  return file;
}

const Value *File::find(std::string_view key) const {
  auto it = values.find(key);
  return it == values.end() ? nullptr : &it->second;
}

const Tensor *File::findTensor(std::string_view name) const {
  auto it = tensorIndex.find(name);
  return it == tensorIndex.end() ? nullptr : &tensorList[it->second];
}

static Status absent(const File &file, std::string_view key) {
  return {StatusCode::notFound, fmt::format("{}: expects key {}, but it is absent", file.name(), quoted(key))};
}

static Status wrongType(const File &file, std::string_view key, std::string_view wanted, const Value &value) {
  return {StatusCode::invalidArgument,
          fmt::format("{}: expects {} for key {}, but got {}", file.name(), wanted, quoted(key), describe(value))};
}

Result<uint64_t> File::getUnsigned(std::string_view key) const {
  const Value *value = find(key);
  if (!value) {
    return absent(*this, key);
  }
  if (!isInteger(value->type) || value->type == ValueType::boolean) {
    return wrongType(*this, key, "an integer", *value);
  }
  int64_t number = integerAt(*value, 0);
  if (number < 0 && value->type != ValueType::u64) {
    return Status(StatusCode::invalidArgument, fmt::format("{}: expects a value of at least 0 for key {}, but got {}",
                                                           fileName, quoted(key), number));
  }
  return uint64_t(number);
}

Result<double> File::getFloat(std::string_view key) const {
  const Value *value = find(key);
  if (!value) {
    return absent(*this, key);
  }
  if (value->type != ValueType::f32 && value->type != ValueType::f64) {
    return wrongType(*this, key, "a floating-point number", *value);
  }
  return floatAt(*value, 0);
}

Result<bool> File::getBool(std::string_view key) const {
  const Value *value = find(key);
  if (!value) {
    return absent(*this, key);
  }
  if (value->type != ValueType::boolean) {
    return wrongType(*this, key, "a bool", *value);
  }
  return integerAt(*value, 0) != 0;
}

Result<std::string_view> File::getString(std::string_view key) const {
  const Value *value = find(key);
  if (!value) {
    return absent(*this, key);
  }
  if (value->type != ValueType::string) {
    return wrongType(*this, key, "a string", *value);
  }
  return value->strings.front();
}

Result<std::span<const std::string_view>> File::getStrings(std::string_view key) const {
  const Value *value = find(key);
  if (!value) {
    return absent(*this, key);
  }
  if (value->type != ValueType::array || value->elementType != ValueType::string) {
    return wrongType(*this, key, "an array of strings", *value);
  }
  return std::span<const std::string_view>(value->strings);
}

Result<std::vector<int64_t>> File::getIntegers(std::string_view key) const {
  const Value *value = find(key);
  if (!value) {
    return absent(*this, key);
  }
  if (value->type != ValueType::array || !isInteger(value->elementType)) {
    return wrongType(*this, key, "an array of integers", *value);
  }
  std::vector<int64_t> numbers(value->count);
  for (uint64_t i = 0; i < value->count; ++i) {
    numbers[i] = integerAt(*value, i);
  }
  return numbers;
}

} // namespace kvc::gguf
