//===- Context.cpp - The caches of all layers -----------------------------===//
//
// Sequences over several caches.
//
//===----------------------------------------------------------------------===//
#include "core/Context.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace kvc::rt {
namespace {

using Lock = std::lock_guard<std::mutex>;

template <typename T> size_t sizeOfVector(const T *vector) { return vector ? vector->size() : 0; }

const fb::Cache *cachePort(const fb::Function &function, const fb::Port &port) {
  return function.values()->Get(port.value())->type_as_Cache();
}

} // namespace

Result<std::shared_ptr<Batch>> nextBatch(const Cache &cache, std::span<const int32_t> sequences,
                                         std::span<const int32_t> rows) {
  std::vector<int32_t> positions;
  for (size_t i = 0; i < sequences.size(); ++i) {
    KVC_ASSIGN_OR_RETURN(int64_t first, cache.appended(sequences[i]));
    if (rows[i] > std::numeric_limits<int32_t>::max() - first) {
      return Status(StatusCode::outOfRange, fmt::format("sequence {}: expects positions of 31 bits, but got {} + {}",
                                                        sequences[i], first, rows[i]));
    }
    for (int32_t row = 0; row < rows[i]; ++row) {
      positions.push_back(int32_t(first + row));
    }
  }
  return Batch::create(cache.device(), sequences, rows, positions);
}

Status truncateCache(const std::shared_ptr<Module> &module, const std::shared_ptr<Cache> &cache, int64_t sequence,
                     int64_t length) {
  Status status = cache->truncate(sequence, length);
  const std::string &name = cache->spec().truncateFunction;
  if (status.ok() || status.code() != StatusCode::unsupported || name.empty()) {
    return status;
  }
  KVC_ASSIGN_OR_RETURN(size_t function, module->findFunction(name));
  int32_t entry = int32_t(sequence), rows = 0;
  KVC_ASSIGN_OR_RETURN(std::shared_ptr<Batch> batch, Batch::create(cache->device(), {&entry, 1}, {&rows, 1}, {}));
  std::vector<Argument> arguments(3);
  arguments[0].kind = Argument::Kind::cache;
  arguments[0].cache = cache;
  arguments[1].kind = Argument::Kind::batch;
  arguments[1].batch = std::move(batch);
  // Sealed slots are fewer than 2^31, and so is a length that cuts them.
  int32_t keep = int32_t(length);
  arguments[2].kind = Argument::Kind::tensor;
  arguments[2].dtype = fb::DType::i32;
  arguments[2].dims = {1};
  arguments[2].data = &keep;
  KVC_ASSIGN_OR_RETURN(int64_t before, cache->longest(sequence));
  std::vector<CallResult> results;
  KVC_RETURN_IF_ERROR(run(module, function, arguments, results));
  return cache->noteTruncated(sequence, before);
}

Result<std::shared_ptr<Context>> Context::create(std::shared_ptr<Module> module, size_t index,
                                                 const CacheOptions &options) {
  auto context = std::make_shared<Context>();
  const fb::Function &function = module->function(index);
  for (size_t i = 0; i < sizeOfVector(function.arguments()); ++i) {
    if (const fb::Cache *cache = cachePort(function, *function.arguments()->Get(i))) {
      KVC_ASSIGN_OR_RETURN(std::shared_ptr<Cache> layer,
                           Cache::create(module->device(), module->cacheSpecs()[cache->spec()], options));
      context->layerCaches.push_back(std::move(layer));
    }
  }
  if (context->layerCaches.empty()) {
    return Status(StatusCode::invalidArgument,
                  fmt::format("expects a function with cache arguments, but '{}' has none", function.name()->str()));
  }
  context->inUse.assign(size_t(options.sequences), 0);
  context->contextModule = std::move(module);
  return context;
}

Status Context::checkSequence(int64_t sequence) const {
  if (sequence < 0 || sequence >= int64_t(inUse.size()) || !inUse[size_t(sequence)]) {
    return Status(StatusCode::invalidArgument, fmt::format("expects a sequence that is in use, but got {}", sequence));
  }
  return {};
}

Result<int32_t> Context::takeSequence() {
  auto it = std::find(inUse.begin(), inUse.end(), 0);
  if (it == inUse.end()) {
    return Status(StatusCode::exhausted,
                  fmt::format("all {} sequences are in use: free one, or make the context larger", inUse.size()));
  }
  *it = 1;
  return int32_t(it - inUse.begin());
}

Result<int32_t> Context::createSequence() {
  Lock lock(mutex);
  return takeSequence();
}

Status Context::freeSequence(int64_t sequence) {
  Lock lock(mutex);
  KVC_RETURN_IF_ERROR(checkSequence(sequence));
  for (const std::shared_ptr<Cache> &cache : layerCaches) {
    KVC_RETURN_IF_ERROR(cache->clear(sequence));
  }
  inUse[size_t(sequence)] = 0;
  return {};
}

Result<int32_t> Context::forkSequence(int64_t source) {
  Lock lock(mutex);
  KVC_RETURN_IF_ERROR(checkSequence(source));
  KVC_ASSIGN_OR_RETURN(int32_t sequence, takeSequence());
  for (const std::shared_ptr<Cache> &cache : layerCaches) {
    if (Status status = cache->fork(source, sequence); !status.ok()) {
      for (const std::shared_ptr<Cache> &undo : layerCaches) {
        KVC_RETURN_IF_ERROR(undo->clear(sequence));
      }
      inUse[size_t(sequence)] = 0;
      return status;
    }
  }
  return sequence;
}

Status Context::truncateSequence(int64_t sequence, int64_t length) {
  Lock lock(mutex);
  KVC_RETURN_IF_ERROR(checkSequence(sequence));
  for (const std::shared_ptr<Cache> &cache : layerCaches) {
    Status status = cache->checkTruncate(sequence, length);
    bool isCompiled = status.code() == StatusCode::unsupported && !cache->spec().truncateFunction.empty();
    if (!status.ok() && !isCompiled) {
      return status;
    }
  }
  for (const std::shared_ptr<Cache> &cache : layerCaches) {
    KVC_RETURN_IF_ERROR(truncateCache(contextModule, cache, sequence, length));
  }
  return {};
}

Result<int64_t> Context::position(int64_t sequence) const {
  Lock lock(mutex);
  KVC_RETURN_IF_ERROR(checkSequence(sequence));
  return layerCaches.front()->appended(sequence);
}

Result<std::shared_ptr<Batch>> Context::batch(std::span<const int32_t> sequences, std::span<const int32_t> rows) const {
  Lock lock(mutex);
  for (int32_t sequence : sequences) {
    KVC_RETURN_IF_ERROR(checkSequence(sequence));
  }
  return nextBatch(*layerCaches.front(), sequences, rows);
}

CacheStatistics Context::statistics() const {
  CacheStatistics sum;
  for (const std::shared_ptr<Cache> &cache : layerCaches) {
    CacheStatistics one = cache->statistics();
    sum.pagesUsed += one.pagesUsed;
    sum.pagesCapacity += one.pagesCapacity;
    sum.tailsUsed += one.tailsUsed;
    sum.tailsCapacity += one.tailsCapacity;
    sum.slotsUsed += one.slotsUsed;
    sum.bytesUsed += one.bytesUsed;
    sum.bytesAllocated += one.bytesAllocated;
  }
  return sum;
}

Status Context::call(size_t index, const std::vector<Argument> &arguments, std::vector<CallResult> &results) {
  const fb::Function &function = contextModule->function(index);
  std::vector<Argument> all;
  size_t nextCache = 0, nextArgument = 0;
  for (size_t i = 0; i < sizeOfVector(function.arguments()); ++i) {
    if (cachePort(function, *function.arguments()->Get(i))) {
      Argument argument;
      argument.kind = Argument::Kind::cache;
      if (nextCache == layerCaches.size()) {
        return Status(StatusCode::invalidArgument,
                      fmt::format("function '{}' expects more caches than the {} of the context",
                                  function.name()->str(), layerCaches.size()));
      }
      argument.cache = layerCaches[nextCache++];
      all.push_back(std::move(argument));
    } else if (nextArgument < arguments.size()) {
      all.push_back(arguments[nextArgument++]);
    }
  }
  if (nextCache != layerCaches.size() && nextCache != 0) {
    return Status(StatusCode::invalidArgument, fmt::format("function '{}' expects {} caches, but the context has {}",
                                                           function.name()->str(), nextCache, layerCaches.size()));
  }
  all.insert(all.end(), arguments.begin() + ptrdiff_t(nextArgument), arguments.end());
  {
    Lock lock(mutex);
    for (const Argument &argument : all) {
      for (int32_t i = 0; argument.kind == Argument::Kind::batch && i < argument.batch->entries(); ++i) {
        KVC_RETURN_IF_ERROR(checkSequence(argument.batch->sequence(size_t(i))));
      }
    }
  }
  KVC_RETURN_IF_ERROR(run(contextModule, index, all, results));
  std::erase_if(results, [](const CallResult &result) { return result.kind == Argument::Kind::cache; });
  return {};
}

} // namespace kvc::rt
