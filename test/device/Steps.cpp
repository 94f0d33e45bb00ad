//===- Steps.cpp - Decode steps as graphs ---------------------------------===//
//
// A step appends and attends in two layers, whose second takes the output of the first: eight launches or so.
//
//===----------------------------------------------------------------------===//
#include "Steps.h"

#include <chrono>
#include <cstring>

using namespace kvc;
using namespace kvc::device;

namespace {

constexpr int64_t heads = 2, queryHeads = 4, channels = 64;
/// The spans that a decode step divides a sequence into have at least so many slots.
constexpr int64_t split = 1024;
constexpr int steps = 40;
/// Between the steps all sequences but the first, which is the longest, grow by a chunk so often: over boundaries of
/// spans, and without the grids having to follow.
constexpr int chunkEvery = 4, chunkRows = 300;

std::vector<float> random(size_t count, uint32_t seed) {
  std::vector<float> values(count);
  uint32_t state = seed * 2654435761u + 1;
  for (float &value : values) {
    state = state * 1664525u + 1013904223u;
    value = float(int32_t(state)) * 0x1p-31f;
  }
  return values;
}

/// The two caches of a module on one device.
class Model {
public:
  Model(const runtime::Device &device, const std::string &path, const std::vector<int32_t> &lengths)
      : module(runtime::Module::load(device, path)), caches{makeCache(lengths), makeCache(lengths)} {
    std::vector<int32_t> sequences;
    for (size_t i = 0; i < lengths.size(); ++i) {
      sequences.push_back(int32_t(i));
    }
    call("fill", sequences, lengths, 0);
  }

  void grow(const std::vector<int32_t> &sequences, uint32_t seed) {
    call("fill", sequences, std::vector<int32_t>(sequences.size(), chunkRows), seed);
  }

  /// One new row for each sequence.
  std::vector<float> step(const std::vector<int32_t> &sequences, uint32_t seed) {
    return call("step", sequences, std::vector<int32_t>(sequences.size(), 1), seed).back().copy<float>();
  }

private:
  runtime::Cache makeCache(const std::vector<int32_t> &lengths) const {
    const int64_t longest =
        *std::max_element(lengths.begin(), lengths.end()) + steps + 1 + (steps / chunkEvery + 1) * chunkRows;
    return module.cache(0, {0, int32_t(lengths.size()), longest, 0, 0});
  }

  std::vector<runtime::Value> call(const char *function, const std::vector<int32_t> &sequences,
                                   const std::vector<int32_t> &counts, uint32_t seed) {
    runtime::BatchHandle batch = caches[0].next(sequences, counts);
    const int64_t rows = kvc_batch_rows(batch.get());
    const std::vector<int64_t> keyDims{rows, heads, channels}, queryDims{rows, queryHeads, channels};
    const std::vector<float> keys = random(size_t(rows * heads * channels), seed),
                             values = random(keys.size(), seed + 1000),
                             queries = random(size_t(rows * queryHeads * channels), seed + 2000);
    std::vector<runtime::Argument> arguments{
        runtime::Argument::cache(caches[0].get()), runtime::Argument::cache(caches[1].get()),
        runtime::Argument::batch(batch.get()), runtime::Argument::tensor(keys.data(), keyDims),
        runtime::Argument::tensor(values.data(), keyDims)};
    if (std::strcmp(function, "step") == 0) {
      arguments.push_back(runtime::Argument::tensor(queries.data(), queryDims));
    }
    return module.call(function, arguments);
  }

  runtime::Module module;
  runtime::Cache caches[2];
};

} // namespace

void device::writeSteps(const std::string &folder) {
  writeFile(folder + "/step.mlir", fmt::format(R"(// A decode step of two layers, and what fills their caches.
!kv = !kvcache.cache<heads = {0}, dim = {2}, page = 16, k = f16, v = f16>
!rows = tensor<?x{0}x{2}xf32>
!queries = tensor<?x{1}x{2}xf32>
func.func @fill(%c0: !kv, %c1: !kv, %b: !kvcache.batch, %k: !rows, %v: !rows) -> (!kv, !kv) {{
  %r0 = kvcache.append %c0, %k, %v at %b : !kv, !rows, !rows
  %r1 = kvcache.append %c1, %v, %k at %b : !kv, !rows, !rows
  return %r0, %r1 : !kv, !kv
}}
func.func @step(%c0: !kv, %c1: !kv, %b: !kvcache.batch, %k: !rows, %v: !rows, %q: !queries) -> (!kv, !kv, !queries) {{
  %r0 = kvcache.append %c0, %k, %v at %b : !kv, !rows, !rows
  %x = kvcache.attention %q over %r0 at %b {{scale = 0.125 : f32, causal}} : (!queries, !kv, !kvcache.batch) -> !queries
  %r1 = kvcache.append %c1, %v, %k at %b : !kv, !rows, !rows
  %y = kvcache.attention %x over %r1 at %b {{scale = 8.0 : f32, causal}} : (!queries, !kv, !kvcache.batch) -> !queries
  return %r0, %r1, %y : !kv, !kv, !queries
}}
)",
                                               heads, queryHeads, channels));
}

Json device::runSteps(const std::string &deviceName, const std::string &folder, bool small) {
  // The longest grows over a boundary on the way, one over three of them, one over a page at once.
  std::vector<int32_t> lengths{int32_t(4 * split) - 20, 5, 15};
  if (!small) {
    lengths.insert(lengths.end(), {700, 1000, 2048, 31});
  }
  std::vector<int32_t> sequences;
  for (size_t i = 0; i < lengths.size(); ++i) {
    sequences.push_back(int32_t(i));
  }
  const std::string path = folder + "/step.kvca";
  const runtime::Device direct(deviceName.c_str()), replaying(deviceName.c_str());
  replaying.setGraphs(true);
  Model expected(direct, path, lengths), got(replaying, path, lengths);
  const std::vector<int32_t> growing(sequences.begin() + 1, sequences.end());
  std::vector<double> seconds[2];
  for (int i = 0; i < steps; ++i) {
    std::vector<float> results[2];
    for (Model *model : {&expected, &got}) {
      if (i % chunkEvery == chunkEvery - 1) {
        model->grow(growing, uint32_t(i));
      }
      const int which = model == &got;
      const auto start = std::chrono::steady_clock::now();
      results[which] = model->step(sequences, uint32_t(i));
      seconds[which].push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    if (std::memcmp(results[0].data(), results[1].data(), results[0].size() * sizeof(float)) != 0) {
      throw Failure(fmt::format("step {}: expects the same bits of a graph as of single launches", i));
    }
  }
  const runtime::Device::GraphCounts counts = replaying.graphCounts();
  // New are the first step, perhaps the second, and those after a sequence has outgrown what the grids are for.
  if (counts.captured < 1 || counts.launched < steps - 10 || direct.graphCounts().launched != 0) {
    throw Failure(fmt::format("expects most of {} steps to be replayed, but {} were, by {} graphs", steps,
                              counts.launched, counts.captured));
  }
  fmt::print(
      "{} steps of {} sequences: the same bits; {} graphs replay {} of them; {:.1f} us a step, {:.1f} us without "
      "graphs\n",
      steps, lengths.size(), counts.captured, counts.launched, median(seconds[1]) * 1e6, median(seconds[0]) * 1e6);
  return {{"steps", steps},
          {"captured", counts.captured},
          {"launched", counts.launched},
          {"graph_seconds", median(seconds[1])},
          {"direct_seconds", median(seconds[0])}};
}
