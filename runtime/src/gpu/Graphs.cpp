//===- Graphs.cpp - Graphs of launches that come again --------------------===//
#include "gpu/Graphs.h"

#include <algorithm>

namespace kvc::rt::gpu {
namespace {

uint64_t hashOf(std::span<const Launch> launches) {
  uint64_t hash = 0xcbf29ce484222325;
  auto add = [&](uint64_t word) { hash = (hash ^ word) * 0x100000001b3; };
  for (const Launch &launch : launches) {
    add(launch.kernel);
    add(uint64_t(launch.items));
    std::for_each(launch.words.begin(), launch.words.end(), add);
  }
  return hash;
}

} // namespace

GraphCache::Entry *GraphCache::find(uint64_t hash, std::span<const Launch> launches) {
  for (Entry &entry : entries) {
    if (entry.hash == hash &&
        std::equal(launches.begin(), launches.end(), entry.launches.begin(), entry.launches.end())) {
      return &entry;
    }
  }
  return nullptr;
}

void GraphCache::remember(uint64_t hash, std::span<const Launch> launches) {
  if (entries.size() == most) {
    auto oldest = std::min_element(entries.begin(), entries.end(),
                                   [](const Entry &a, const Entry &b) { return a.lastUse < b.lastUse; });
    if (oldest->exec) {
      (void)driver.destroyGraphExec(oldest->exec);
    }
    entries.erase(oldest);
  }
  entries.push_back({hash, clock, {launches.begin(), launches.end()}, nullptr});
}

Status GraphCache::capture(Entry &entry, const Enqueue &enqueue) {
  // A stream of its own: what other threads launch meanwhile is not meant.
  int result = captureStream ? success : driver.createStream(&captureStream, streamNonBlocking);
  if (result == success) {
    result = driver.beginCapture(captureStream, captureThreadLocal);
  }
  if (result != success) {
    return driver.failure(result, "cannot begin to capture a graph");
  }
  for (const Launch &launch : entry.launches) {
    result = result == success ? enqueue(launch, captureStream) : result;
  }
  Graph graph = nullptr;
  const int ended = driver.endCapture(captureStream, &graph);
  result = result == success ? ended : result;
  if (result == success) {
    result = driver.instantiateGraph(&entry.exec, graph, 0);
  }
  if (graph) {
    (void)driver.destroyGraph(graph);
  }
  if (result != success) {
    entry.exec = nullptr;
    return driver.failure(result, "cannot capture a graph of " + std::to_string(entry.launches.size()) + " launches");
  }
  ++counters->captured;
  return {};
}

Result<bool> GraphCache::launch(std::span<const Launch> launches, Stream stream, const Enqueue &enqueue) {
  const uint64_t hash = hashOf(launches);
  std::lock_guard lock(mutex);
  ++clock;
  Entry *entry = find(hash, launches);
  if (!entry) {
    remember(hash, launches);
    return false;
  }
  entry->lastUse = clock;
  if (!entry->exec) {
    KVC_RETURN_IF_ERROR(capture(*entry, enqueue));
  }
  if (int result = driver.launchGraph(entry->exec, stream)) {
    return driver.failure(result, "cannot launch a graph of " + std::to_string(launches.size()) + " kernels");
  }
  ++counters->launched;
  return true;
}

void GraphCache::clear() {
  std::lock_guard lock(mutex);
  for (const Entry &entry : entries) {
    if (entry.exec) {
      (void)driver.destroyGraphExec(entry.exec);
    }
  }
  entries.clear();
  if (captureStream) {
    (void)driver.destroyStream(captureStream);
    captureStream = nullptr;
  }
}

} // namespace kvc::rt::gpu
