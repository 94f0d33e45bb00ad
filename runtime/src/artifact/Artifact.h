//===- Artifact.h - The .kvca container -------------------------*- C++ -*-===//
//
// A .kvca file is a 64-byte header and a FlatBuffer (runtime/schema/kvca.fbs).
// Opening one checks everything that running it relies on: header, checksum,
// the structure of the buffer, and every index and size in it. A damaged or
// hostile file gives an error, never a crash.
//
//   bytes  0..7   magic "\x89KVCA\r\n\x1a"
//          8..11  format version, u32 (all integers little endian)
//         12..15  header size, u32 (64)
//         16..23  payload size, u64
//         24..27  CRC-32 (zlib) of the payload, u32
//         28..63  zero
//
//===----------------------------------------------------------------------===//
#ifndef KVC_ARTIFACT_ARTIFACT_H
#define KVC_ARTIFACT_ARTIFACT_H

#include "artifact/kvca_generated.h"
#include "support/Result.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace kvc::artifact {

/// Raised whenever an older reader would misread a newer file.
inline constexpr uint32_t formatVersion = 1;
inline constexpr size_t headerBytes = 64;

/// Header + payload: the bytes of a .kvca file. `payload` is a finished
/// FlatBuffer whose root is a kvc.fb.Module; it is verified first, so that the
/// compiler never writes what the runtime would refuse.
Result<std::vector<uint8_t>> seal(std::span<const uint8_t> payload);

/// Writes `bytes` to `path` through a temporary file in the same folder and a
/// rename: readers see the old file or the new one, whole.
Status writeFile(const std::string &path, std::span<const uint8_t> bytes);

/// The semantic rules of the schema (the FlatBuffers verifier has passed).
Status verifyModule(const fb::Module &module);

/// A verified artifact; owns its bytes.
class Artifact {
public:
  /// Reads a file. Errors: notFound, io, corrupt (what is wrong and where).
  static Result<Artifact> open(const std::string &path);
  /// Takes the bytes of a file.
  static Result<Artifact> fromBytes(std::vector<uint8_t> bytes);

  const fb::Module &module() const { return *fb::GetModule(bytes.data() + headerBytes); }
  uint64_t sizeInBytes() const { return bytes.size(); }

private:
  explicit Artifact(std::vector<uint8_t> bytes) : bytes(std::move(bytes)) {}
  std::vector<uint8_t> bytes;
};

/// Bytes of one element; 0 for a number that is not a DType.
uint64_t sizeOf(fb::DType dtype);
/// "f32", "i8", ...; "?" for a number that is not a DType.
const char *nameOf(fb::DType dtype);

} // namespace kvc::artifact

#endif // KVC_ARTIFACT_ARTIFACT_H
