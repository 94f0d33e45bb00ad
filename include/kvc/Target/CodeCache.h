//===- CodeCache.h - Compiled kernels and artifacts on disk -----*- C++ -*-===//
#ifndef KVC_TARGET_CODECACHE_H
#define KVC_TARGET_CODECACHE_H

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace kvc {

/// Files named by the hash of all that their contents depend on. Safe for concurrent use by threads and processes:
/// entries are written beside and renamed; what is damaged is not found. What nobody used for 30 days is removed, and
/// beyond 4 GiB what was not used for longest.
class CodeCache {
public:
  /// `suffix` tells the entries of a back end, or artifacts, from others. An empty folder keeps nothing.
  CodeCache(std::string folder, llvm::StringRef suffix) : folder(std::move(folder)), suffix(suffix) {}
  std::optional<std::string> find(llvm::StringRef key) const;
  /// Keeping is best effort: where the folder cannot be written, later runs compile again.
  void insert(llvm::StringRef key, llvm::StringRef contents) const;

  /// The key of everything in `text`.
  static std::string keyOf(llvm::StringRef text);

private:
  std::string path(llvm::StringRef key) const;
  std::string folder;
  llvm::StringRef suffix;
};

} // namespace kvc

#endif // KVC_TARGET_CODECACHE_H
