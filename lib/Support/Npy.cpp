//===- Npy.cpp - NumPy array files ----------------------------------------===//
#include "kvc/Support/Npy.h"
#include "kvc/Support/Output.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include <cstring>

using namespace kvc;
using namespace llvm;

static constexpr StringLiteral magic("\x93NUMPY");
/// The header of version 1 is padded so that the data starts at a multiple of this.
static constexpr size_t dataAlignment = 64;

template <typename T> static T load(const std::vector<char> &bytes, int64_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

double NpyArray::floatAt(int64_t i) const {
  switch (itemBytes) {
  case 2:
    return APFloat(APFloat::IEEEhalf(), APInt(16, load<uint16_t>(bytes, i))).convertToDouble();
  case 4:
    return load<float>(bytes, i);
  default:
    return load<double>(bytes, i);
  }
}

int64_t NpyArray::intAt(int64_t i) const {
  const bool isSigned = kind == 'i';
  switch (itemBytes) {
  case 1:
    return isSigned ? int64_t(load<int8_t>(bytes, i)) : load<uint8_t>(bytes, i);
  case 2:
    return isSigned ? int64_t(load<int16_t>(bytes, i)) : load<uint16_t>(bytes, i);
  case 4:
    return isSigned ? int64_t(load<int32_t>(bytes, i)) : load<uint32_t>(bytes, i);
  default:
    return load<int64_t>(bytes, i);
  }
}

NpyArray NpyArray::ofFloats(ArrayRef<int64_t> shape, ArrayRef<double> values, int64_t itemBytes) {
  NpyArray array{'f', itemBytes, SmallVector<int64_t>(shape), std::vector<char>(values.size() * itemBytes)};
  for (auto [i, value] : enumerate(values)) {
    char *to = array.bytes.data() + i * itemBytes;
    const auto narrow = static_cast<float>(value);
    if (itemBytes == 2) {
      APFloat half(narrow);
      bool losesInfo = false;
      half.convert(APFloat::IEEEhalf(), APFloat::rmNearestTiesToEven, &losesInfo);
      const auto bits = static_cast<uint16_t>(half.bitcastToAPInt().getZExtValue());
      std::memcpy(to, &bits, sizeof bits);
    } else if (itemBytes == 4) {
      std::memcpy(to, &narrow, sizeof narrow);
    } else {
      std::memcpy(to, &value, sizeof value);
    }
  }
  return array;
}

NpyArray NpyArray::ofInts(ArrayRef<int64_t> shape, ArrayRef<int64_t> values, int64_t itemBytes) {
  NpyArray array{'i', itemBytes, SmallVector<int64_t>(shape), std::vector<char>(values.size() * itemBytes)};
  for (auto [i, value] : enumerate(values)) {
    // Little endian: the low bytes come first.
    std::memcpy(array.bytes.data() + i * itemBytes, &value, itemBytes);
  }
  return array;
}

template <typename... Parts> static Error fail(StringRef path, Parts &&...parts) {
  std::string text;
  raw_string_ostream os(text);
  os << path << ": ";
  (os << ... << parts);
  return createStringError(inconvertibleErrorCode(), "%s", text.c_str());
}

/// The text after `'key':` of the header's dictionary, without leading blanks; empty when there is none.
static StringRef fieldOf(StringRef header, StringRef key) {
  const size_t at = header.find(("'" + key + "'").str());
  if (at == StringRef::npos) {
    return {};
  }
  StringRef rest = header.drop_front(at + key.size() + 2).ltrim();
  return rest.consume_front(":") ? rest.ltrim() : StringRef();
}

/// Reads the dictionary of the header into kind, item size and shape.
static Error parseHeader(StringRef path, StringRef header, NpyArray &array) {
  StringRef type = fieldOf(header, "descr");
  if (!type.consume_front("'") || type.find('\'') == StringRef::npos) {
    return fail(path, "expects a type string in the header of an .npy file, but got ", header);
  }
  type = type.take_until([](char c) { return c == '\''; });
  static constexpr StringLiteral known[] = {"<f2", "<f4", "<f8", "|i1", "<i2", "<i4",
                                            "<i8", "|u1", "<u2", "<u4", "<u8", "|b1"};
  if (!is_contained(known, type)) {
    return fail(path, "expects little-endian numbers (f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1), but got type ", type);
  }
  array.kind = type[1];
  array.itemBytes = type[2] - '0';
  if (!fieldOf(header, "fortran_order").starts_with("False")) {
    return fail(path, "expects an array in C order; store it with numpy.ascontiguousarray");
  }
  StringRef extents = fieldOf(header, "shape");
  if (!extents.consume_front("(") || extents.find(')') == StringRef::npos) {
    return fail(path, "expects a shape in the header of an .npy file, but got ", header);
  }
  SmallVector<StringRef> parts;
  extents.take_until([](char c) { return c == ')'; }).split(parts, ',', -1, /*KeepEmpty=*/false);
  for (StringRef part : parts) {
    int64_t extent = 0;
    if (part.trim().empty()) {
      continue;
    }
    if (part.trim().getAsInteger(10, extent) || extent < 0) {
      return fail(path, "expects extents of at least 0, but got ", part.trim());
    }
    array.shape.push_back(extent);
  }
  return Error::success();
}

Expected<NpyArray> kvc::readNpy(StringRef path) {
  auto buffer = MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer) {
    return fail(path, "expects a readable .npy file, but got: ", buffer.getError().message());
  }
  StringRef data = (*buffer)->getBuffer();
  if (!data.consume_front(magic) || data.size() < 4) {
    return fail(path, "expects an .npy file, but got other data");
  }
  const int version = static_cast<unsigned char>(data[0]);
  if (version < 1 || version > 3) {
    return fail(path, "expects version 1 to 3 of the .npy format, but got ", version);
  }
  data = data.drop_front(2);
  const size_t lengthBytes = version == 1 ? 2 : 4;
  if (data.size() < lengthBytes) {
    return fail(path, "expects a whole header, but the file ends");
  }
  const size_t length =
      version == 1 ? support::endian::read16le(data.data()) : size_t(support::endian::read32le(data.data()));
  data = data.drop_front(lengthBytes);
  if (data.size() < length) {
    return fail(path, "expects a header of ", length, " bytes, but the file ends after ", data.size());
  }
  NpyArray array;
  if (Error error = parseHeader(path, data.take_front(length), array)) {
    return error;
  }
  data = data.drop_front(length);
  uint64_t bytes = array.itemBytes;
  bool overflow = false;
  for (int64_t extent : array.shape) {
    bytes = SaturatingMultiply<uint64_t>(bytes, extent, &overflow);
    if (overflow) {
      return fail(path, "expects an array that fits into memory, but got more than 2^64 bytes");
    }
  }
  if (data.size() != bytes) {
    return fail(path, "expects ", bytes, " bytes of data for the shape in the header, but got ", data.size());
  }
  array.bytes.assign(data.begin(), data.end());
  return array;
}

std::string kvc::formatNpy(const NpyArray &array) {
  std::string header;
  raw_string_ostream os(header);
  os << "{'descr': '" << (array.itemBytes == 1 ? '|' : '<') << array.kind << array.itemBytes
     << "', 'fortran_order': False, 'shape': (";
  for (int64_t extent : array.shape) {
    os << extent << ", ";
  }
  os << "), }";
  const size_t prefix = magic.size() + 4;
  header.append(alignTo(prefix + header.size() + 1, dataAlignment) - prefix - header.size() - 1, ' ');
  header.push_back('\n');
  const auto length = static_cast<uint16_t>(header.size());
  std::string bytes = magic.str();
  bytes.append({'\x01', '\0', char(length & 255), char(length >> 8)});
  bytes.append(header);
  bytes.append(array.bytes.data(), array.bytes.size());
  return bytes;
}

Error kvc::writeNpy(StringRef path, const NpyArray &array) {
  return writeOutputs({Output{path.str(), formatNpy(array)}});
}
