//===- PagePool.h - Blocks with reference counts ----------------*- C++ -*-===//
//
// A fixed number of equal blocks in one piece of device memory, handed out and
// shared by count: the pages of a cache, and its tails.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_CORE_PAGEPOOL_H
#define KVC_CORE_PAGEPOOL_H

#include "core/Device.h"

#include <mutex>
#include <unordered_map>

namespace kvc::rt {

/// Not thread-safe: the caller holds the lock of the CachePool.
class BlockPool {
public:
  /// `blocks` blocks of `blockBytes` bytes; both may be 0.
  Status initialize(std::shared_ptr<Device> device, uint64_t blockBytes, int64_t blocks);

  int64_t capacity() const { return int64_t(references.size()); }
  int64_t used() const { return capacity() - available(); }
  int64_t available() const { return int64_t(unused.size()); }
  uint64_t blockBytes() const { return bytesPerBlock; }
  uint64_t bytes() const { return memory.bytes(); }
  uint8_t *data() const { return memory.as<uint8_t>(); }
  uint8_t *block(int32_t index) const { return data() + uint64_t(index) * bytesPerBlock; }
  uint32_t referencesOf(int32_t index) const { return references[size_t(index)]; }

  /// A block with one reference. There must be one available.
  int32_t take();
  void share(int32_t index) { ++references[size_t(index)]; }
  /// Drops a reference; the last one gives the block back.
  void drop(int32_t index);
  /// Takes blocks by number; none of them may be in use.
  void takeThese(const std::unordered_map<int32_t, uint32_t> &blocks);
  /// Makes the block that the caller refers to its own: itself if nobody else
  /// refers to it, otherwise a copy. A block must be available for that.
  Result<int32_t> makeUnique(int32_t index);

private:
  std::shared_ptr<Device> device;
  Memory memory;
  uint64_t bytesPerBlock = 0;
  std::vector<uint32_t> references;
  std::vector<int32_t> unused; // a stack: what was freed last is still warm
};

/// The pages and tails that a cache and its clones share, and their lock.
struct CachePool {
  BlockPool pages;
  BlockPool tails;
  std::mutex mutex;
};

} // namespace kvc::rt

#endif // KVC_CORE_PAGEPOOL_H
