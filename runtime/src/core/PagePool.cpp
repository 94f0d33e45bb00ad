//===- PagePool.cpp - Blocks with reference counts ------------------------===//
//
// Taking, sharing and copying of blocks.
//
//===----------------------------------------------------------------------===//
#include "core/PagePool.h"

#include <fmt/format.h>

#include <cassert>
#include <limits>

namespace kvc::rt {

Status BlockPool::initialize(std::shared_ptr<Device> newDevice, uint64_t blockBytes, int64_t blocks) {
  uint64_t total = 0;
  if (blocks < 0 || blocks > std::numeric_limits<int32_t>::max() ||
      __builtin_mul_overflow(blockBytes, uint64_t(blocks), &total)) {
    return Status(StatusCode::outOfRange,
                  fmt::format("expects a pool of 0 to {} blocks that can be addressed, but got {} of {} bytes",
                              std::numeric_limits<int32_t>::max(), blocks, blockBytes));
  }
  KVC_ASSIGN_OR_RETURN(memory, Memory::allocate(newDevice, total, MemoryKind::device));
  device = std::move(newDevice);
  bytesPerBlock = blockBytes;
  references.assign(size_t(blocks), 0);
  unused.resize(size_t(blocks));
  for (size_t i = 0; i < unused.size(); ++i) {
    unused[i] = int32_t(unused.size() - 1 - i);
  }
  return {};
}

int32_t BlockPool::take() {
  assert(!unused.empty() && "the caller checks first");
  int32_t index = unused.back();
  unused.pop_back();
  references[size_t(index)] = 1;
  return index;
}

void BlockPool::drop(int32_t index) {
  assert(references[size_t(index)] > 0 && "a block in use has a reference");
  if (--references[size_t(index)] == 0) {
    unused.push_back(index);
  }
}

void BlockPool::takeThese(const std::unordered_map<int32_t, uint32_t> &blocks) {
  std::erase_if(unused, [&](int32_t block) { return blocks.contains(block); });
  for (auto [block, count] : blocks) {
    assert(references[size_t(block)] == 0 && "the caller checks first");
    references[size_t(block)] = count;
  }
}

Result<int32_t> BlockPool::makeUnique(int32_t index) {
  if (referencesOf(index) == 1) {
    return index;
  }
  int32_t copy = take();
  if (Status status = device->copyOnDevice(block(copy), block(index), bytesPerBlock); !status.ok()) {
    drop(copy);
    return status;
  }
  drop(index);
  return copy;
}

} // namespace kvc::rt
