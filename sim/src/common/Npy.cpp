//===- Npy.cpp - NumPy array files without LLVM ---------------------------===//
#include "common/Npy.h"

#include "common/Fault.h"

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace kvc::sim;

static constexpr char magic[] = "\x93NUMPY";
static constexpr size_t magicBytes = 6;
static constexpr size_t dataAlignment = 64;

/// The text after `'key':` of the header's dictionary.
static std::string fieldOf(const std::string &path, const std::string &header, const char *key) {
  const std::string quoted = "'" + std::string(key) + "'";
  size_t at = header.find(quoted);
  if (at != std::string::npos) {
    at = header.find_first_not_of(" :", at + quoted.size());
  }
  if (at == std::string::npos) {
    fail(FaultKind::InvalidValue, "{}: expects {} in the header of an .npy file, but got {}", path, quoted, header);
  }
  return header.substr(at);
}

NpyArray kvc::sim::readNpy(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    fail(FaultKind::InvalidValue, "{}: expects a readable .npy file, but got: {}", path, std::strerror(errno));
  }
  std::vector<uint8_t> data((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (data.size() < magicBytes + 4 || std::memcmp(data.data(), magic, magicBytes) != 0) {
    fail(FaultKind::InvalidValue, "{}: expects an .npy file, but got other data", path);
  }
  const int version = data[magicBytes];
  if (version < 1 || version > 3) {
    fail(FaultKind::InvalidValue, "{}: expects version 1 to 3 of the .npy format, but got {}", path, version);
  }
  const size_t lengthBytes = version == 1 ? 2 : 4;
  size_t at = magicBytes + 2;
  if (data.size() < at + lengthBytes) {
    fail(FaultKind::InvalidValue, "{}: expects a whole header, but the file ends", path);
  }
  size_t length = 0;
  std::memcpy(&length, data.data() + at, lengthBytes);
  at += lengthBytes;
  if (data.size() - at < length) {
    fail(FaultKind::InvalidValue, "{}: expects a header of {} bytes, but the file ends after {}", path, length,
         data.size() - at);
  }
  const std::string header(data.begin() + at, data.begin() + at + length);
  at += length;

  NpyArray array;
  const std::string type = fieldOf(path, header, "descr");
  const size_t quote = type.size() > 1 ? type.find('\'', 1) : std::string::npos;
  array.type = quote == std::string::npos ? "" : type.substr(1, quote - 1);
  if (array.type.size() < 3 || type[0] != '\'' || (array.type[0] != '<' && array.type[0] != '|') ||
      std::strchr("fiubV", array.type[1]) == nullptr || !std::isdigit(array.type[2])) {
    fail(FaultKind::InvalidValue, "{}: expects little-endian numbers, but got type {}", path,
         type.substr(0, quote + 1));
  }
  if (fieldOf(path, header, "fortran_order").rfind("False", 0) != 0) {
    fail(FaultKind::InvalidValue, "{}: expects an array in C order; store it with numpy.ascontiguousarray", path);
  }
  uint64_t bytes = std::strtoull(array.type.c_str() + 2, nullptr, 10);
  const std::string extents = fieldOf(path, header, "shape");
  const size_t close = extents.find(')');
  if (extents[0] != '(' || close == std::string::npos) {
    fail(FaultKind::InvalidValue, "{}: expects a shape in the header of an .npy file, but got {}", path, header);
  }
  for (size_t i = 1; i < close;) {
    if (!std::isdigit(extents[i])) {
      ++i;
      continue;
    }
    char *end = nullptr;
    array.shape.push_back(std::strtoull(extents.c_str() + i, &end, 10));
    i = end - extents.c_str();
    if (__builtin_mul_overflow(bytes, array.shape.back(), &bytes)) {
      fail(FaultKind::InvalidValue, "{}: expects an array that fits into memory, but got 2^64 bytes or more", path);
    }
  }
  if (data.size() - at != bytes) {
    fail(FaultKind::InvalidValue, "{}: expects {} bytes of data for the shape in the header, but got {}", path, bytes,
         data.size() - at);
  }
  array.bytes.assign(data.begin() + at, data.end());
  return array;
}

void kvc::sim::writeNpy(const std::string &path, const NpyArray &array) {
  std::string header = "{'descr': '" + array.type + "', 'fortran_order': False, 'shape': (";
  for (uint64_t extent : array.shape) {
    header += std::to_string(extent) + ", ";
  }
  header += "), }";
  const size_t prefix = magicBytes + 4;
  const size_t total = (prefix + header.size() + 1 + dataAlignment - 1) / dataAlignment * dataAlignment;
  header.append(total - prefix - header.size() - 1, ' ');
  header.push_back('\n');
  const std::string temporary = fmt::format("{}.{}.part", path, getpid());
  {
    std::ofstream out(temporary, std::ios::binary);
    const auto length = static_cast<uint16_t>(header.size());
    out.write(magic, magicBytes);
    const char rest[] = {1, 0, char(length & 255), char(length >> 8)};
    out.write(rest, sizeof rest);
    out << header;
    out.write(reinterpret_cast<const char *>(array.bytes.data()), std::streamsize(array.bytes.size()));
    out.close();
    if (!out) {
      std::remove(temporary.c_str());
      fail(FaultKind::InvalidValue, "{}: expects a writable file, but got: {}", path, std::strerror(errno));
    }
  }
  std::error_code error;
  std::filesystem::rename(temporary, path, error);
  if (error) {
    std::remove(temporary.c_str());
    fail(FaultKind::InvalidValue, "{}: expects a writable file, but got: {}", path, error.message());
  }
}
