//===- Batch.cpp - Which rows of a call belong to which sequence ----------===//
//
// Checks and uploads the arrays of a batch.
//
//===----------------------------------------------------------------------===//
#include "core/Batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_set>

namespace kvc::rt {

Result<std::shared_ptr<Batch>> Batch::create(std::shared_ptr<Device> device, std::span<const int32_t> sequences,
                                             std::span<const int32_t> rows, std::span<const int32_t> positions) {
  auto batch = std::make_shared<Batch>();
  std::unordered_set<int32_t> seen;
  int64_t total = 0;
  batch->offsetsData.push_back(0);
  for (size_t i = 0; i < sequences.size(); ++i) {
    if (sequences[i] < 0 || !seen.insert(sequences[i]).second) {
      return Status(StatusCode::invalidArgument,
                    fmt::format("batch entry {}: expects a sequence that is not negative and not in the batch already, "
                                "but got {}",
                                i, sequences[i]));
    }
    if (rows[i] < 0) {
      return Status(StatusCode::invalidArgument,
                    fmt::format("batch entry {}: expects a row count that is not negative, but got {}", i, rows[i]));
    }
    total += rows[i];
    if (total > std::numeric_limits<int32_t>::max()) {
      return Status(StatusCode::outOfRange, "expects a batch of at most 2147483647 rows, but got more");
    }
    batch->offsetsData.push_back(int32_t(total));
    batch->mostRows = std::max(batch->mostRows, rows[i]);
    batch->single += rows[i] == 1;
    batch->largestSequence = std::max(batch->largestSequence, sequences[i]);
  }
  batch->sequencesData.assign(sequences.begin(), sequences.end());
  if (positions.size() != size_t(total)) {
    return Status(StatusCode::invalidArgument,
                  fmt::format("expects a position for each of {} rows, but got {}", total, positions.size()));
  }
  for (size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] < 0) {
      return Status(StatusCode::invalidArgument,
                    fmt::format("row {}: expects a position that is not negative, but got {}", i, positions[i]));
    }
  }
  auto aligned = [](size_t count) { return (count + 15) / 16 * 16; };
  batch->sequencesAt = aligned(batch->offsetsData.size());
  batch->positionsAt = batch->sequencesAt + aligned(sequences.size());
  std::vector<int32_t> words(batch->positionsAt + positions.size());
  std::copy(batch->offsetsData.begin(), batch->offsetsData.end(), words.begin());
  std::copy(sequences.begin(), sequences.end(), words.begin() + ptrdiff_t(batch->sequencesAt));
  std::copy(positions.begin(), positions.end(), words.begin() + ptrdiff_t(batch->positionsAt));
  uint64_t bytes = words.size() * sizeof(int32_t);
  KVC_ASSIGN_OR_RETURN(batch->memory, Memory::allocate(device, bytes, MemoryKind::device));
  KVC_RETURN_IF_ERROR(device->copyToDevice(batch->memory.data(), words.data(), bytes));
  return batch;
}

} // namespace kvc::rt
