//===- ObjectCache.cpp - Compiled kernels on disk -------------------------===//
//
// An entry: magic, version, scratch bytes, size and hash of the object, object.
//
//===----------------------------------------------------------------------===//
#include "Codegen.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/xxhash.h"

using namespace kvc;

static constexpr llvm::StringLiteral magic = "kvc-obj1";
static constexpr size_t headerBytes = 32;

std::string kvc::getDefaultCacheFolder() {
  llvm::SmallString<128> folder;
  if (const char *base = std::getenv("XDG_CACHE_HOME"); base && *base) {
    folder = base;
  } else if (const char *home = std::getenv("HOME"); home && *home) {
    folder = home;
    llvm::sys::path::append(folder, ".cache");
  } else {
    return "";
  }
  llvm::sys::path::append(folder, "kvc");
  return folder.str().str();
}

std::string cpu::ObjectCache::path(llvm::StringRef key) const {
  // Two levels, so that no folder gets huge.
  llvm::SmallString<128> path(folder);
  llvm::sys::path::append(path, key.take_front(2), key.drop_front(2) + ".o");
  return path.str().str();
}

std::optional<cpu::CachedKernel> cpu::ObjectCache::find(llvm::StringRef key) const {
  if (folder.empty()) {
    return std::nullopt;
  }
  auto file = llvm::MemoryBuffer::getFile(path(key), /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!file) {
    return std::nullopt;
  }
  llvm::StringRef bytes = (*file)->getBuffer();
  if (bytes.size() < headerBytes || !bytes.starts_with(magic)) {
    return std::nullopt;
  }
  const char *p = bytes.data() + magic.size();
  CachedKernel kernel;
  kernel.scratchBytes = llvm::support::endian::read64le(p);
  uint64_t size = llvm::support::endian::read64le(p + 8), hash = llvm::support::endian::read64le(p + 16);
  bytes = bytes.drop_front(headerBytes);
  if (bytes.size() != size || llvm::xxh3_64bits(bytes) != hash) {
    return std::nullopt;
  }
  kernel.object = bytes.str();
  return kernel;
}

void cpu::ObjectCache::insert(llvm::StringRef key, const CachedKernel &kernel) const {
  if (folder.empty()) {
    return;
  }
  std::string target = path(key);
  if (llvm::sys::fs::create_directories(llvm::sys::path::parent_path(target))) {
    return;
  }
  auto file = llvm::sys::fs::TempFile::create(target + ".%%%%%%%%.tmp");
  if (!file) {
    llvm::consumeError(file.takeError());
    return;
  }
  char header[headerBytes];
  std::memcpy(header, magic.data(), magic.size());
  llvm::support::endian::write64le(header + 8, kernel.scratchBytes);
  llvm::support::endian::write64le(header + 16, kernel.object.size());
  llvm::support::endian::write64le(header + 24, llvm::xxh3_64bits(kernel.object));
  bool failed;
  {
    llvm::raw_fd_ostream os(file->FD, /*shouldClose=*/false);
    os << llvm::StringRef(header, headerBytes) << kernel.object;
    os.flush();
    failed = os.has_error();
    os.clear_error();
  }
  llvm::consumeError(failed ? file->discard() : file->keep(target));
}
