//===- Container.cpp - Header, checksum and files of .kvca ----------------===//
//
// Reading and writing of the container around the FlatBuffer.
//
//===----------------------------------------------------------------------===//
#include "artifact/Artifact.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kvc::artifact {
namespace {

constexpr uint8_t magic[8] = {0x89, 'K', 'V', 'C', 'A', '\r', '\n', 0x1a};
// FlatBuffers offsets are 32 bits signed.
constexpr uint64_t maxPayloadBytes = FLATBUFFERS_MAX_BUFFER_SIZE;

template <typename T> T readLittle(const uint8_t *p) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value |= T(p[i]) << (8 * i);
  }
  return value;
}

template <typename T> void writeLittle(uint8_t *p, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    p[i] = uint8_t(value >> (8 * i));
  }
}

Status corrupt(std::string message) { return Status(StatusCode::corrupt, std::move(message)); }

uint32_t checksum(std::span<const uint8_t> payload) {
  return uint32_t(crc32_z(crc32_z(0, nullptr, 0), payload.data(), payload.size()));
}

Status verifyPayload(std::span<const uint8_t> payload) {
  if (payload.size() > maxPayloadBytes) {
    return corrupt(fmt::format("expects a payload of at most {} bytes, but got {}", maxPayloadBytes, payload.size()));
  }
  // Tables are few: a million of them is far beyond any model, and bounds the
  // time that a hostile file can cost.
  flatbuffers::Verifier verifier(payload.data(), payload.size(), /*max_depth=*/16, /*max_tables=*/4000000);
  if (!fb::VerifyModuleBuffer(verifier)) {
    return corrupt("expects a well-formed FlatBuffer of type kvc.fb.Module, but its structure is damaged");
  }
  return verifyModule(*fb::GetModule(payload.data()));
}

Status ioError(const std::string &what, const std::string &path) {
  StatusCode code = errno == ENOENT ? StatusCode::notFound : StatusCode::io;
  return Status(code, fmt::format("cannot {} '{}': {}", what, path, std::strerror(errno)));
}

class FileDescriptor {
public:
  explicit FileDescriptor(int fd) : fd(fd) {}
  FileDescriptor(const FileDescriptor &) = delete;
  FileDescriptor &operator=(const FileDescriptor &) = delete;
  ~FileDescriptor() {
    if (fd >= 0) {
      ::close(fd);
    }
  }
  int get() const { return fd; }
  int release() { return std::exchange(fd, -1); }

private:
  int fd;
};

} // namespace

Result<std::vector<uint8_t>> seal(std::span<const uint8_t> payload) {
  std::vector<uint8_t> file(headerBytes + payload.size());
  std::memcpy(file.data(), magic, sizeof(magic));
  writeLittle<uint32_t>(&file[8], formatVersion);
  writeLittle<uint32_t>(&file[12], headerBytes);
  writeLittle<uint64_t>(&file[16], payload.size());
  writeLittle<uint32_t>(&file[24], checksum(payload));
  std::copy(payload.begin(), payload.end(), file.begin() + headerBytes);
  // The copy is verified, since it is aligned.
  KVC_RETURN_IF_ERROR(verifyPayload(std::span(file).subspan(headerBytes)));
  return file;
}

Result<Artifact> Artifact::fromBytes(std::vector<uint8_t> bytes) {
  if (bytes.size() < headerBytes) {
    return corrupt(fmt::format("expects an artifact of at least {} bytes, but got {}", headerBytes, bytes.size()));
  }
  if (std::memcmp(bytes.data(), magic, sizeof(magic)) != 0) {
    return corrupt("expects the magic number of a .kvca artifact, but got other bytes");
  }
  uint32_t version = readLittle<uint32_t>(&bytes[8]);
  if (version != formatVersion) {
    return Status(StatusCode::unsupported,
                  fmt::format("expects artifact format version {}, but got {}: compile the module again", formatVersion,
                              version));
  }
  uint32_t header = readLittle<uint32_t>(&bytes[12]);
  if (header != headerBytes) {
    return corrupt(fmt::format("expects a header of {} bytes, but got {}", headerBytes, header));
  }
  for (size_t i = 28; i < headerBytes; ++i) {
    if (bytes[i] != 0) {
      return corrupt(fmt::format("expects zero in the reserved header byte {}, but got {}", i, bytes[i]));
    }
  }
  uint64_t size = readLittle<uint64_t>(&bytes[16]);
  if (size != bytes.size() - headerBytes) {
    return corrupt(fmt::format("expects a payload of {} bytes, but got {}: the file is truncated or has a tail", size,
                               bytes.size() - headerBytes));
  }
  std::span<const uint8_t> payload(bytes.data() + headerBytes, size);
  uint32_t want = readLittle<uint32_t>(&bytes[24]);
  uint32_t got = checksum(payload);
  if (want != got) {
    return corrupt(fmt::format("expects checksum {:08x}, but got {:08x}: the file is damaged", want, got));
  }
  KVC_RETURN_IF_ERROR(verifyPayload(payload));
  return Artifact(std::move(bytes));
}

Result<Artifact> Artifact::open(const std::string &path) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) {
    return ioError("open", path);
  }
  struct stat info;
  if (::fstat(file.get(), &info) != 0) {
    return ioError("read", path);
  }
  if (!S_ISREG(info.st_mode)) {
    return Status(StatusCode::invalidArgument, fmt::format("expects '{}' to be a regular file", path));
  }
  if (uint64_t(info.st_size) > maxPayloadBytes + headerBytes) {
    return corrupt(
        fmt::format("'{}': expects at most {} bytes, but got {}", path, maxPayloadBytes + headerBytes, info.st_size));
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(info.st_size));
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t n = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return ioError("read", path);
    }
    if (n == 0) {
      return corrupt(fmt::format("'{}': the file shrank while it was read", path));
    }
    done += size_t(n);
  }
  Result<Artifact> artifact = fromBytes(std::move(bytes));
  if (!artifact.ok()) {
    return Status(artifact.status()).withContext("'" + path + "'");
  }
  return artifact;
}

Status writeFile(const std::string &path, std::span<const uint8_t> bytes) {
  // A name of our own rather than mkstemp: the mode then follows the umask.
  static std::atomic<unsigned> counter{0};
  std::string temporary = fmt::format("{}.{}.{}.tmp", path, ::getpid(), counter.fetch_add(1));
  FileDescriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.get() < 0) {
    return ioError("create a temporary file for", path);
  }
  auto fail = [&](const std::string &what) {
    Status status = ioError(what, path);
    ::unlink(temporary.c_str());
    return status;
  };
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t n = ::write(file.get(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return fail("write");
    }
    done += size_t(n);
  }
  if (::close(file.release()) != 0) {
    return fail("write");
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    return fail("rename a temporary file to");
  }
  return {};
}

uint64_t sizeOf(fb::DType dtype) {
  switch (dtype) {
  case fb::DType::i1:
  case fb::DType::i8:
  case fb::DType::u8:
    return 1;
  case fb::DType::i16:
  case fb::DType::f16:
  case fb::DType::bf16:
    return 2;
  case fb::DType::i32:
  case fb::DType::f32:
    return 4;
  case fb::DType::i64:
  case fb::DType::f64:
    return 8;
  }
  return 0;
}

const char *nameOf(fb::DType dtype) {
  const char *name = fb::EnumNameDType(dtype);
  return *name ? name : "?";
}

} // namespace kvc::artifact
