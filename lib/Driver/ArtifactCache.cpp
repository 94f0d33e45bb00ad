//===- ArtifactCache.cpp - Artifacts that were made before ----------------===//
#include "kvc/Driver/ArtifactCache.h"

#include "artifact/Artifact.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <dlfcn.h>

using namespace kvc;
using llvm::StringRef;

/// The hash of the program or library that this code is part of, and LLVM's version.
static std::string compilerHash() {
  void *here = reinterpret_cast<void *>(&compilerHash);
  Dl_info info;
  llvm::SmallString<256> file;
  // For a program dladdr gives argv[0], which need not name a file.
  if (!dladdr(here, &info) || llvm::sys::fs::real_path(info.dli_fname, file)) {
    file = llvm::sys::fs::getMainExecutable(nullptr, here);
  }
  auto bytes = llvm::MemoryBuffer::getFile(file, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!bytes) {
    return "";
  }
  llvm::BLAKE3 hash;
  hash.update((*bytes)->getBuffer());
  hash.update(StringRef(LLVM_VERSION_STRING));
  return llvm::toHex(hash.result(), /*LowerCase=*/true);
}

std::string ArtifactCache::key(llvm::ArrayRef<StringRef> parts) {
  static const std::string compiler = compilerHash();
  if (compiler.empty()) {
    return "";
  }
  llvm::BLAKE3 hash;
  hash.update(StringRef(compiler));
  for (StringRef part : parts) {
    hash.update(StringRef(std::to_string(part.size()) + ":"));
    hash.update(part);
  }
  return llvm::toHex(hash.result(), /*LowerCase=*/true);
}

std::string ArtifactCache::path(StringRef key) const {
  if (folder.empty() || key.empty()) {
    return "";
  }
  // Two levels, so that no folder gets huge.
  llvm::SmallString<128> path(folder);
  llvm::sys::path::append(path, "artifacts", key.take_front(2), key.drop_front(2) + ".kvca");
  return path.str().str();
}

std::optional<std::vector<uint8_t>> ArtifactCache::find(StringRef key) const {
  std::string file = path(key);
  if (file.empty()) {
    return std::nullopt;
  }
  auto buffer = llvm::MemoryBuffer::getFile(file, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer) {
    return std::nullopt;
  }
  std::vector<uint8_t> bytes((*buffer)->getBuffer().bytes_begin(), (*buffer)->getBuffer().bytes_end());
  if (!artifact::Artifact::fromBytes(bytes).ok()) {
    return std::nullopt;
  }
  return bytes;
}

void ArtifactCache::insert(StringRef key, llvm::ArrayRef<uint8_t> artifact) const {
  std::string file = path(key);
  if (file.empty() || llvm::sys::fs::create_directories(llvm::sys::path::parent_path(file))) {
    return;
  }
  (void)artifact::writeFile(file, artifact).ok();
}
