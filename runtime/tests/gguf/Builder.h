//===- Builder.h - Writes small GGUF files for tests ------------*- C++ -*-===//
//
// Builds the bytes of a GGUF file item by item, right or wrong on purpose.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_TESTS_GGUF_BUILDER_H
#define KVC_TESTS_GGUF_BUILDER_H

#include "gguf/File.h"

#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

namespace kvc::gguf::test {

/// The numbers of a file are given by the caller; `finish` puts the header, keys, tensors and data together.
class Builder {
public:
  uint32_t version = 3;
  uint64_t alignment = 32;
  std::string magic = "GGUF";
  /// Added to the true counts.
  uint64_t extraKeys = 0, extraTensors = 0;

  template <typename T> static void put(std::string &out, T value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    out.append(bytes, sizeof(T));
  }
  static void putString(std::string &out, std::string_view text) {
    put<uint64_t>(out, text.size());
    out += text;
  }

  /// A key with the raw bytes of its value.
  void rawKey(std::string_view name, uint32_t type, std::string_view value) {
    putString(keys, name);
    put(keys, type);
    keys += value;
    ++keyCount;
  }
  template <typename T> void key(std::string_view name, T value) {
    std::string bytes;
    put(bytes, value);
    rawKey(name, typeOf<T>(), bytes);
  }
  void key(std::string_view name, std::string_view text) {
    std::string bytes;
    putString(bytes, text);
    rawKey(name, uint32_t(ValueType::string), bytes);
  }
  void key(std::string_view name, const char *text) { key(name, std::string_view(text)); }
  template <typename T> void keyArray(std::string_view name, const std::vector<T> &elements) {
    std::string bytes;
    if constexpr (std::is_same_v<T, std::string>) {
      put(bytes, uint32_t(ValueType::string));
    } else {
      put(bytes, typeOf<T>());
    }
    put<uint64_t>(bytes, elements.size());
    for (const T &element : elements) {
      if constexpr (std::is_same_v<T, std::string>) {
        putString(bytes, element);
      } else {
        put(bytes, element);
      }
    }
    rawKey(name, uint32_t(ValueType::array), bytes);
  }

  /// A tensor whose info is given as it is.
  void rawTensor(std::string_view name, const std::vector<uint64_t> &dims, uint32_t type, uint64_t offset) {
    putString(infos, name);
    put<uint32_t>(infos, uint32_t(dims.size()));
    for (uint64_t dim : dims) {
      put(infos, dim);
    }
    put(infos, type);
    put(infos, offset);
    ++tensorCount;
  }
  /// A tensor that lies after the previous one.
  void tensor(std::string_view name, const std::vector<uint64_t> &dims, uint32_t type, std::string_view bytes) {
    data.resize((data.size() + alignment - 1) / alignment * alignment);
    rawTensor(name, dims, type, data.size());
    data += bytes;
  }

  std::string finish() const {
    std::string out = magic;
    put(out, version);
    put<uint64_t>(out, tensorCount + extraTensors);
    put<uint64_t>(out, keyCount + extraKeys);
    out += keys;
    out += infos;
    if (tensorCount) {
      out.resize((out.size() + alignment - 1) / alignment * alignment);
    }
    return out + data;
  }

private:
  template <typename T> static uint32_t typeOf() {
    if constexpr (std::is_same_v<T, bool>) {
      return uint32_t(ValueType::boolean);
    } else if constexpr (std::is_same_v<T, float>) {
      return uint32_t(ValueType::f32);
    } else if constexpr (std::is_same_v<T, double>) {
      return uint32_t(ValueType::f64);
    } else {
      constexpr ValueType types[2][4] = {{ValueType::u8, ValueType::u16, ValueType::u32, ValueType::u64},
                                         {ValueType::i8, ValueType::i16, ValueType::i32, ValueType::i64}};
      static_assert(std::is_integral_v<T>);
      return uint32_t(types[std::is_signed_v<T>][std::bit_width(sizeof(T)) - 1]);
    }
  }

  std::string keys, infos, data;
  uint64_t keyCount = 0, tensorCount = 0;
};

inline std::span<const std::byte> asBytes(std::string_view text) {
  return {reinterpret_cast<const std::byte *>(text.data()), text.size()};
}

} // namespace kvc::gguf::test

#endif // KVC_TESTS_GGUF_BUILDER_H
