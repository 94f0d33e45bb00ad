//===- kvc-bench.cpp - Attention kernels beside the machine's ceilings ----===//
//
// Decode: 8 sequences, 32 query and 8 KV heads of 128 channels, pages of 16. Prefill: one sequence, causal.
// Prints medians and ratios to the ceilings measured in the same run.
//
//===----------------------------------------------------------------------===//
#include "Ceilings.h"

#include "kvc/Driver/Compile.h"
#include "kvc/Driver/DeviceRun.h"
#include "kvc/InitAll.h"
#include "kvc/Support/Output.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>
#include <cstdlib>
#include <ctime>

using namespace mlir;
using namespace kvc;

namespace {

constexpr int64_t heads = 8, queryHeads = 32, dim = 128;

struct Case {
  std::string name, format;
  int64_t page;
  double bits; // of a stored element, with its scales
};

[[noreturn]] void fail(const llvm::Twine &message) {
  llvm::errs() << "kvc-bench: error: " << message << "\n";
  std::exit(1);
}

void check(kvc_status_t status) {
  if (status != KVC_OK) {
    fail(kvc_last_error_message());
  }
}

/// How long a call takes, and what all threads together spend on it.
struct Seconds {
  double elapsed, cpu;
};

/// A compiled module with @fill (append) and @attend (attention), and its cache.
class Bench {
public:
  Bench(MLIRContext &context, kvc_device_t *device, const Case &which, int32_t sequences, int64_t slots)
      : device(device), sequences(sequences) {
    std::string text = llvm::formatv(R"(
!kv = !kvcache.cache<heads = {0}, dim = {1}, page = {2}, {3}>
func.func @fill(%c: !kv, %b: !kvcache.batch, %k: tensor<?x{0}x{1}xf32>, %v: tensor<?x{0}x{1}xf32>) -> !kv {{
  %r = kvcache.append %c, %k, %v at %b : !kv, tensor<?x{0}x{1}xf32>, tensor<?x{0}x{1}xf32>
  return %r : !kv
}
func.func @attend(%c: !kv, %b: !kvcache.batch, %q: tensor<?x{4}x{1}xf32>) -> tensor<?x{4}x{1}xf32> {{
  %o = kvcache.attention %q over %c at %b {{scale = 0.088388346 : f32, causal}
      : (tensor<?x{4}x{1}xf32>, !kv, !kvcache.batch) -> tensor<?x{4}x{1}xf32>
  return %o : tensor<?x{4}x{1}xf32>
})",
                                     heads, dim, which.page, which.format, queryHeads);
    OwningOpRef<ModuleOp> source = parseSourceString<ModuleOp>(text, ParserConfig(&context));
    if (!source) {
      fail("expects a valid cache type for " + which.name + ", but got '" + which.format + "'");
    }
    CompileOptions options;
    options.provenance = "kvc-bench " + which.name;
    FailureOr<std::vector<uint8_t>> artifact = compileModule(*source, options);
    if (failed(artifact)) {
      fail("the module of " + which.name + " does not compile");
    }
    kvc_module_t *raw;
    check(kvc_module_load_bytes(device, artifact->data(), artifact->size(), nullptr, &raw));
    module = runtime::ModuleHandle(raw);
    kvc_cache_options_t cacheOptions{sizeof(cacheOptions), sequences, slots, 0, 0};
    kvc_cache_t *rawCache;
    check(kvc_cache_create(raw, 0, &cacheOptions, &rawCache));
    cache = runtime::CacheHandle(rawCache);
    fill(slots);
  }

  /// Adds the seconds of a call of @attend with `rows` rows for each sequence, the last of which is the newest slot.
  void attend(int32_t rows, int64_t length) {
    runtime::BatchHandle batch = makeBatch(rows, length - rows);
    std::vector<float> query(size_t(sequences) * rows * queryHeads * dim);
    fillRandom(query);
    int64_t dims[] = {int64_t(sequences) * rows, queryHeads, dim};
    kvc_argument_t arguments[3] = {cacheArgument(), batchArgument(batch.get()), tensorArgument(query, dims)};
    auto start = std::chrono::steady_clock::now();
    std::clock_t cpuStart = std::clock();
    call("attend", arguments, 3);
    cpuTimes.push_back(double(std::clock() - cpuStart) / CLOCKS_PER_SEC);
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }

  /// Medians of all calls of @attend but the first.
  Seconds medians() const { return {median(times), median(cpuTimes)}; }

private:
  static double median(const std::vector<double> &times) {
    std::vector<double> seconds(times.begin() + 1, times.end());
    auto middle = seconds.begin() + seconds.size() / 2;
    std::nth_element(seconds.begin(), middle, seconds.end());
    return *middle;
  }

  static void fillRandom(std::vector<float> &values) {
    uint32_t state = 1;
    for (float &value : values) {
      state = state * 1664525u + 1013904223u;
      value = float(int32_t(state)) * 0x1p-31f;
    }
  }

  runtime::BatchHandle makeBatch(int32_t rows, int64_t first) {
    std::vector<int32_t> ids(sequences), counts(sequences, rows), positions;
    for (int32_t s = 0; s < sequences; ++s) {
      ids[s] = s;
      for (int32_t r = 0; r < rows; ++r) {
        positions.push_back(int32_t(first) + r);
      }
    }
    kvc_batch_t *batch;
    check(kvc_batch_create(device, ids.size(), ids.data(), counts.data(), positions.data(), &batch));
    return runtime::BatchHandle(batch);
  }

  kvc_argument_t cacheArgument() {
    kvc_argument_t argument{};
    argument.kind = KVC_CACHE;
    argument.cache = cache.get();
    return argument;
  }

  static kvc_argument_t batchArgument(kvc_batch_t *batch) {
    kvc_argument_t argument{};
    argument.kind = KVC_BATCH;
    argument.batch = batch;
    return argument;
  }

  static kvc_argument_t tensorArgument(std::vector<float> &values, int64_t *dims) {
    kvc_argument_t argument{};
    argument.kind = KVC_TENSOR;
    argument.tensor = {KVC_F32, 3, dims, values.data()};
    return argument;
  }

  void call(const char *name, const kvc_argument_t *arguments, size_t count) {
    size_t function;
    check(kvc_module_find_function(module.get(), name, &function));
    kvc_value_t *result;
    check(kvc_module_call(module.get(), function, arguments, count, &result, 1));
    kvc_value_release(result);
  }

  void fill(int64_t slots) {
    constexpr int32_t chunk = 512;
    std::vector<float> rows(size_t(sequences) * chunk * heads * dim);
    fillRandom(rows);
    for (int64_t first = 0; first < slots; first += chunk) {
      int32_t count = int32_t(std::min<int64_t>(chunk, slots - first));
      runtime::BatchHandle batch = makeBatch(count, first);
      int64_t dims[] = {int64_t(sequences) * count, heads, dim};
      kvc_argument_t arguments[4] = {cacheArgument(), batchArgument(batch.get()), tensorArgument(rows, dims),
                                     tensorArgument(rows, dims)};
      call("fill", arguments, 4);
    }
  }

  kvc_device_t *device;
  int32_t sequences;
  runtime::ModuleHandle module;
  runtime::CacheHandle cache;
  std::vector<double> times, cpuTimes;
};

/// Times all cases in turns, so that what else the machine does meets all of them alike.
std::vector<Seconds> measure(MLIRContext &context, kvc_device_t *device, ArrayRef<Case> cases, int32_t sequences,
                             int64_t slots, int32_t rows, int repetitions) {
  std::vector<std::unique_ptr<Bench>> benches;
  for (const Case &which : cases) {
    benches.push_back(std::make_unique<Bench>(context, device, which, sequences, slots));
  }
  for (int i = 0; i < repetitions + 1; ++i) {
    for (auto &bench : benches) {
      bench->attend(rows, slots);
    }
  }
  std::vector<Seconds> seconds;
  for (auto &bench : benches) {
    seconds.push_back(bench->medians());
  }
  return seconds;
}

} // namespace

int main(int argc, char **argv) {
  // The sizes that the figures in docs are for; smaller ones show that the bench runs.
  constexpr const char *usage = "[slots of decode] [slots of prefill, 0: none] [case of decode] [repetitions]";
  constexpr int64_t maxSlots = 1 << 22; // of 8 sequences: 128 GiB in bf16
  int64_t decodeSlots = 32768, prefillSlots = 4096;
  int repetitions = 9;
  std::string only = argc > 3 ? argv[3] : "";
  if (argc == 2 && llvm::StringRef(argv[1]) == "--help") {
    llvm::outs() << "usage: kvc-bench " << usage << "\nMeasures attention beside what this machine can do at most.\n";
    return 0;
  }
  auto isWrong = [&](int index, auto &number, int64_t low, int64_t high) {
    return argc > index && (llvm::StringRef(argv[index]).getAsInteger(10, number) || number < low || number > high);
  };
  if (argc > 5 || isWrong(1, decodeSlots, 1, maxSlots) || isWrong(2, prefillSlots, 0, maxSlots) ||
      isWrong(4, repetitions, 1, 1000)) {
    fail(llvm::Twine("expects ") + usage + ", at most " + llvm::Twine(maxSlots) + " slots and 1000 repetitions");
  }
  constexpr int threads = 2;
  constexpr int32_t sequences = 8;
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry);
  DeviceRunOptions deviceOptions;
  deviceOptions.threads = threads;
  llvm::Expected<runtime::DeviceHandle> device = openDevice(deviceOptions);
  if (!device) {
    fail(llvm::toString(device.takeError()));
  }
  double bandwidth = bench::readBandwidth(threads), peak = bench::bf16Throughput(threads);
  llvm::outs() << llvm::formatv("ceilings, {0} threads: read {1:f1} GB/s, bf16 {2:f1} GFLOP/s\n", threads,
                                bandwidth / 1e9, peak / 1e9);
  llvm::outs() << llvm::formatv("decode, {0} sequences of {1} slots, {2}/{3} heads, {4} channels, page 16 (kivi: 32)\n",
                                sequences, decodeSlots, queryHeads, heads, dim);
  SmallVector<Case> cases = {{"bf16", "k = bf16, v = bf16", 16, 16},
                             {"f16", "k = f16, v = f16", 16, 16},
                             {"int8", "k = int8, v = int8", 16, 9},
                             {"int4", "k = int4, v = int4", 16, 5},
                             {"kivi-int4", "k = int4<axis = channel>, v = int4, residual = 128", 32, 5},
                             {"kivi-int2", "k = int2<axis = channel>, v = int2, residual = 128", 32, 3}};
  const Case prefillCases[] = {cases[0], cases[1], cases[4]};
  if (!only.empty()) {
    llvm::erase_if(cases, [&](const Case &which) { return which.name != only; });
    if (cases.empty()) {
      fail("has no case named " + only);
    }
  }
  std::vector<Seconds> decode = measure(context, device->get(), cases, sequences, decodeSlots, 1, repetitions);
  for (auto [which, seconds] : llvm::zip_equal(cases, decode)) {
    double bytes = double(sequences) * double(decodeSlots) * heads * 2 * dim * which.bits / 8;
    llvm::outs() << llvm::formatv(
        "  {0,-10} {1,8:f2} ms  {2,6:f1} GB/s  {3,5:f2} of read bandwidth  {4,5:f2} x bf16 time  {5,5:f2} x bf16 "
        "processor time\n",
        which.name, seconds.elapsed * 1e3, bytes / seconds.elapsed / 1e9, bytes / seconds.elapsed / bandwidth,
        seconds.elapsed / decode[0].elapsed, seconds.cpu / decode[0].cpu);
  }
  if (prefillSlots == 0) {
    return finishStandardOutput("kvc-bench") ? 0 : 1;
  }
  llvm::outs() << llvm::formatv("prefill, one sequence of {0} rows, causal\n", prefillSlots);
  std::vector<Seconds> prefill =
      measure(context, device->get(), prefillCases, 1, prefillSlots, int32_t(prefillSlots), 3);
  for (auto [which, seconds] : llvm::zip_equal(prefillCases, prefill)) {
    double operations = 2.0 * 2 * dim * queryHeads * double(prefillSlots) * double(prefillSlots + 1) / 2;
    llvm::outs() << llvm::formatv("  {0,-10} {1,8:f1} ms  {2,6:f1} GFLOP/s  {3,5:f2} of bf16 peak\n", which.name,
                                  seconds.elapsed * 1e3, operations / seconds.elapsed / 1e9,
                                  peak ? operations / seconds.elapsed / peak : 0.0);
  }
  return finishStandardOutput("kvc-bench") ? 0 : 1;
}
