//===- Graphs.h - Graphs of launches that come again ------------*- C++ -*-===//
//
// A decode step is the same sequence of launches as the one before: the same kernels, grids and words, because what
// grows (lengths, page tables, positions) lies in memory and buffers come back at their addresses. Such a sequence is
// captured when it comes for the second time and is one launch from then on. Words are compared, all of them: a graph
// is only ever launched in place of the launches that it was made of.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_GPU_GRAPHS_H
#define KVC_GPU_GRAPHS_H

#include "gpu/GpuDevice.h"

#include <atomic>
#include <mutex>

namespace kvc::rt::gpu {

/// Of all modules of a device.
struct GraphCounters {
  std::atomic<int64_t> captured = 0, launched = 0;
};

/// Of the kernels of one module. Thread-safe; the caller has made the device current, and keeps its context.
class GraphCache {
public:
  /// Puts one launch into a stream.
  using Enqueue = std::function<int(const Launch &, Stream)>;
  /// Sequences that are remembered; the one that was not used for longest goes.
  static constexpr size_t most = 32;

  GraphCache(const DeviceContext &context, std::shared_ptr<GraphCounters> counters)
      : driver(context.driver()), counters(std::move(counters)) {}

  /// Launches a graph of `launches` on a stream, and captures it before where the same came once. False, and nothing is
  /// launched: they are new.
  Result<bool> launch(std::span<const Launch> launches, Stream stream, const Enqueue &enqueue);
  /// Gives all graphs back.
  void clear();

private:
  struct Entry {
    uint64_t hash = 0, lastUse = 0;
    std::vector<Launch> launches;
    GraphExec exec = nullptr;
  };
  Entry *find(uint64_t hash, std::span<const Launch> launches);
  void remember(uint64_t hash, std::span<const Launch> launches);
  Status capture(Entry &entry, const Enqueue &enqueue);

  const Driver &driver;
  std::shared_ptr<GraphCounters> counters;
  std::mutex mutex;
  std::vector<Entry> entries;
  Stream captureStream = nullptr;
  uint64_t clock = 0;
};

} // namespace kvc::rt::gpu

#endif // KVC_GPU_GRAPHS_H
