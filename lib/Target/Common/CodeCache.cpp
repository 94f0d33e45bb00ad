//===- CodeCache.cpp - Compiled kernels on disk ---------------------------===//
//
// An entry: magic, size and hash of the contents, contents.
//
//===----------------------------------------------------------------------===//
#include "kvc/Target/CodeCache.h"

#include "kvc/Target/Backend.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CachePruning.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/xxhash.h"

using namespace kvc;

static constexpr llvm::StringLiteral magic = "kvc-obj2";
static constexpr size_t headerBytes = 24;

static llvm::CachePruningPolicy pruningPolicy() {
  llvm::CachePruningPolicy policy;
  policy.Expiration = std::chrono::hours(30 * 24);
  policy.MaxSizeBytes = uint64_t(4) << 30;
  return policy;
}

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

std::string CodeCache::keyOf(llvm::StringRef text) {
  return llvm::toHex(llvm::SHA256::hash(llvm::arrayRefFromStringRef(text)), /*LowerCase=*/true);
}

std::string CodeCache::path(llvm::StringRef key) const {
  // The prefix of what LLVM removes from a folder.
  llvm::SmallString<128> path(folder);
  llvm::sys::path::append(path, "llvmcache-" + key + suffix);
  return path.str().str();
}

std::optional<std::string> CodeCache::find(llvm::StringRef key) const {
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
  uint64_t size = llvm::support::endian::read64le(p), hash = llvm::support::endian::read64le(p + 8);
  bytes = bytes.drop_front(headerBytes);
  if (bytes.size() != size || llvm::xxh3_64bits(bytes) != hash) {
    return std::nullopt;
  }
  return bytes.str();
}

void CodeCache::insert(llvm::StringRef key, llvm::StringRef contents) const {
  if (folder.empty() || llvm::sys::fs::create_directories(folder)) {
    return;
  }
  std::string target = path(key);
  auto file = llvm::sys::fs::TempFile::create(target + ".%%%%%%%%.tmp");
  if (!file) {
    llvm::consumeError(file.takeError());
    return;
  }
  char header[headerBytes];
  std::memcpy(header, magic.data(), magic.size());
  llvm::support::endian::write64le(header + 8, contents.size());
  llvm::support::endian::write64le(header + 16, llvm::xxh3_64bits(contents));
  bool failed;
  {
    llvm::raw_fd_ostream os(file->FD, /*shouldClose=*/false);
    os << llvm::StringRef(header, headerBytes) << contents;
    os.flush();
    failed = os.has_error();
    os.clear_error();
  }
  llvm::consumeError(failed ? file->discard() : file->keep(target));
  llvm::pruneCache(folder, pruningPolicy());
}
