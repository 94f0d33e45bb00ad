//===- sequences.cpp - Example: sequences that come and go ----------------===//
//
// Usage: sequences FILE.kvca FUNCTION
//
// FUNCTION takes caches, a batch and rows tensor<?x4xf32>, appends the rows and
// returns one number per entry of the batch. Two prompts run in one batch, one
// is forked, cut back and continued; all share the pages they can share.
//
//===----------------------------------------------------------------------===//
#include <kvc_runtime.hpp>

#include <iostream>
#include <numeric>

namespace rt = kvc::runtime;

namespace {

void step(rt::Context &context, const char *function, const std::vector<int32_t> &sequences,
          const std::vector<int32_t> &counts) {
  rt::BatchHandle batch = context.batch(sequences, counts);
  int64_t rows = std::accumulate(counts.begin(), counts.end(), int64_t(0));
  std::vector<float> data(size_t(rows) * 4, 1.0f);
  std::vector<int64_t> dims{rows, 4};
  auto results = context.call(function, {rt::Argument::batch(batch.get()), rt::Argument::tensor(data.data(), dims)});
  for (float value : results[0].copy<float>()) {
    std::cout << value << ' ';
  }
  kvc_cache_statistics_t statistics = context.statistics();
  std::cout << "| " << statistics.pages_used << " pages, " << statistics.bytes_used << " bytes\n";
}

int run(const char *path, const char *function) {
  rt::Device device("cpu", /*threads=*/2);
  rt::Module module = rt::Module::load(device, path);
  rt::Context context(module, function, {.sequences = 4, .max_length = 1024});

  int32_t first = context.create(), second = context.create();
  step(context, function, {first, second}, {10, 3}); // prefill of two prompts
  int32_t branch = context.fork(first);              // shares every page
  step(context, function, {first, branch}, {1, 1});  // the page that is written is copied
  context.truncate(branch, 4);
  step(context, function, {branch}, {2});
  context.free(second);
  step(context, function, {branch, first}, {1, 1});
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 3) {
    std::cerr << "usage: sequences FILE.kvca FUNCTION\n";
    return 2;
  }
  try {
    return run(argv[1], argv[2]);
  } catch (const rt::Error &error) {
    std::cerr << "sequences: " << error.what() << '\n';
    return 1;
  }
}
