//===- Batch.h - Which rows of a call belong to which sequence --*- C++ -*-===//
//
// The arrays of a batch (section 3 of docs/contracts/kernel-abi.md) with the
// facts that the host needs of them.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_CORE_BATCH_H
#define KVC_CORE_BATCH_H

#include "core/Device.h"

#include <span>

namespace kvc::rt {

/// Immutable once made.
class Batch {
public:
  /// Entry i has rows[i] rows of sequences[i]. `positions` has one number per
  /// row. Errors: invalidArgument (negative counts, sequences or positions, a
  /// sequence twice), outOfRange (more rows than an i32 counts).
  static Result<std::shared_ptr<Batch>> create(std::shared_ptr<Device> device, std::span<const int32_t> sequences,
                                               std::span<const int32_t> rows, std::span<const int32_t> positions);

  int32_t entries() const { return int32_t(sequencesData.size()); }
  int32_t rows() const { return offsetsData.back(); }
  int32_t maxRows() const { return mostRows; }
  /// Entries with one row.
  int32_t singleRows() const { return single; }
  int32_t maxSequence() const { return largestSequence; }
  int32_t sequence(size_t entry) const { return sequencesData[entry]; }
  int32_t rowsOf(size_t entry) const { return offsetsData[entry + 1] - offsetsData[entry]; }

  /// The arrays in device memory.
  const void *queryOffsets() const { return memory.as<int32_t>(); }
  const void *sequences() const { return memory.as<int32_t>() + sequencesAt; }
  const void *positions() const { return memory.as<int32_t>() + positionsAt; }

private:
  std::vector<int32_t> offsetsData;
  std::vector<int32_t> sequencesData;
  int32_t mostRows = 0;
  int32_t single = 0;
  int32_t largestSequence = -1;
  size_t sequencesAt = 0;
  size_t positionsAt = 0;
  Memory memory;
};

} // namespace kvc::rt

#endif // KVC_CORE_BATCH_H
