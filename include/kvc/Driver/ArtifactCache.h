//===- ArtifactCache.h - Artifacts that were made before --------*- C++ -*-===//
#ifndef KVC_DRIVER_ARTIFACTCACHE_H
#define KVC_DRIVER_ARTIFACTCACHE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvc {

/// A folder of .kvca files by the hash of all that they depend on. Several processes may share it.
class ArtifactCache {
public:
  /// Empty: nothing is found and nothing is kept.
  explicit ArtifactCache(llvm::StringRef folder) : folder(folder) {}

  /// The hash of `parts`, in order, and of this compiler.
  static std::string key(llvm::ArrayRef<llvm::StringRef> parts);

  /// The bytes of a whole, undamaged artifact.
  std::optional<std::vector<uint8_t>> find(llvm::StringRef key) const;
  /// Keeps an artifact. Where the folder cannot be written nothing is kept: it is made again the next time.
  void insert(llvm::StringRef key, llvm::ArrayRef<uint8_t> artifact) const;

private:
  std::string path(llvm::StringRef key) const;
  std::string folder;
};

} // namespace kvc

#endif // KVC_DRIVER_ARTIFACTCACHE_H
