//===- Replay.cpp - One written case, or what is left of it ---------------===//
#include "Replay.h"

#include "Compare.h"
#include "Kernel.h"
#include "Mutants.h"
#include "Session.h"

#include "kvc/Driver/DeviceRun.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace kvc;
using namespace kvc::differential;

/// Sequences and slots of each cache, enough for every case.
static constexpr int64_t sequences = 3, capacity = 1536;

static ReplayStatus stop(const Twine &message) {
  llvm::errs() << "kvc-differential: " << message << "\n";
  return ReplayStatus::other;
}

/// The first elements along every dimension that `type` fixes.
static NpyArray cut(const NpyArray &array, Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  SmallVector<int64_t> shape(array.shape);
  for (int64_t d = 0; tensor && d < int64_t(shape.size()); ++d) {
    shape[d] = tensor.isDynamicDim(d) ? shape[d] : std::min(shape[d], tensor.getDimSize(d));
  }
  int64_t size = 1;
  for (int64_t extent : shape) {
    size *= extent;
  }
  std::vector<double> floats;
  std::vector<int64_t> ints;
  for (int64_t i = 0; i < size; ++i) {
    // The index in the whole array of element i of the part.
    int64_t rest = i, from = 0, stride = 1;
    for (int64_t d = int64_t(shape.size()) - 1; d >= 0; --d) {
      from += rest % shape[d] * stride;
      rest /= shape[d];
      stride *= array.shape[d];
    }
    array.isFloat() ? floats.push_back(array.floatAt(from)) : ints.push_back(array.intAt(from));
  }
  return array.isFloat() ? NpyArray::ofFloats(shape, floats, array.itemBytes)
                         : NpyArray::ofInts(shape, ints, array.itemBytes);
}

static std::vector<int64_t> integersOf(const NpyArray &array) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < array.size(); ++i) {
    values.push_back(array.intAt(i));
  }
  return values;
}

ReplayStatus differential::replay(const SuiteOptions &options) {
  auto text = llvm::MemoryBuffer::getFile(options.replayFile);
  if (!text) {
    return stop("cannot read '" + options.replayFile + "': " + text.getError().message());
  }
  Compiler compiler;
  OwningOpRef<ModuleOp> module = compiler.parse((*text)->getBuffer());
  auto function = module ? module->lookupSymbol<func::FuncOp>("case") : func::FuncOp();
  if (!function) {
    return stop("expects a valid module with a function @case in '" + options.replayFile + "': " + compiler.take());
  }

  std::vector<NpyArray> inputs;
  SmallVector<reference::Datum> data;
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
    if (auto cache = dyn_cast<kvcache::CacheType>(type)) {
      data.push_back(reference::Cache::empty(cache, sequences, capacity));
      continue;
    }
    auto name = function.getArgAttrOfType<StringAttr>(i, arrayAttr);
    if (!name) {
      return stop("expects the attribute " + Twine(arrayAttr) + " of argument " + Twine(i));
    }
    const size_t first = inputs.size();
    const bool isBatch = isa<kvcache::BatchType>(type);
    static constexpr llvm::StringLiteral partsOfBatch[] = {"_query_offsets", "_sequences", "_positions"},
                                         whole[] = {""};
    for (StringRef part : isBatch ? ArrayRef(partsOfBatch) : ArrayRef(whole)) {
      SmallString<128> path(options.arrayFolder);
      llvm::sys::path::append(path, name.getValue() + part + ".npy");
      llvm::Expected<NpyArray> array = readNpy(path.str().str());
      if (!array) {
        return stop(llvm::toString(array.takeError()));
      }
      inputs.push_back(cut(*array, type));
    }
    data.push_back(isBatch ? reference::Datum(reference::Batch{integersOf(inputs[first]), integersOf(inputs[first + 1]),
                                                               integersOf(inputs[first + 2])})
                           : datumOf(inputs[first]));
  }

  const Target *target = getHostTarget();
  OwningOpRef<ModuleOp> lowered = target ? compiler.lower(*module, *target) : nullptr;
  if (!lowered) {
    return stop("does not compile: " + compiler.take());
  }
  if (!options.kernelMutant.empty()) {
    (*getKernelMutation(options.kernelMutant, options.mutatedKernel))(*lowered);
  }
  FailureOr<TargetCode> generated =
      compiler.generate(*lowered, *target, options.cacheFolder.empty() ? getDefaultCacheFolder() : options.cacheFolder);
  FailureOr<std::vector<uint8_t>> artifact = failure();
  if (succeeded(generated)) {
    artifact = compiler.pack(*lowered, *target, *generated);
  }
  if (failed(artifact)) {
    return stop("does not compile: " + compiler.take());
  }
  DeviceRunOptions run;
  run.threads = 1;
  run.sequences = sequences;
  run.capacity = capacity;
  llvm::Expected<runtime::DeviceHandle> device = openDevice(run);
  if (!device) {
    return stop(llvm::toString(device.takeError()));
  }
  kvc_module_t *loaded;
  if (kvc_module_load_bytes(device->get(), artifact->data(), artifact->size(), nullptr, &loaded) != KVC_OK) {
    return stop(kvc_last_error_message());
  }
  runtime::ModuleHandle code(loaded);
  llvm::Expected<DeviceResults> got = runOnDevice(device->get(), code.get(), "case", inputs, run);
  if (!got) {
    return stop(llvm::toString(got.takeError()));
  }

  std::unique_ptr<reference::Evaluator> oracle = createOracle(options.oracleMutant);
  FailureOr<SmallVector<reference::Datum>> want = oracle->call(function, data);
  if (failed(want)) {
    return stop("the oracle says: " + compiler.take());
  }
  size_t next = 0;
  for (auto [i, datum] : llvm::enumerate(*want)) {
    if (!isa<RankedTensorType>(function.getResultTypes()[i])) {
      continue;
    }
    NpyArray &array = got->arrays[next++];
    auto bound = function.getResultAttrOfType<DenseF64ArrayAttr>(i, boundAttr);
    if (!bound || bound.size() != 3) {
      return stop("expects the attribute " + Twine(boundAttr) + " of result " + Twine(i));
    }
    const Tolerance tolerance{"case", "as written", {bound[0], bound[1]}, bound[2] != 0};
    const kvc_tensor_t tensor{KVC_F32, static_cast<int32_t>(array.shape.size()), array.shape.data(),
                              array.bytes.data()};
    Comparison comparison = compare(datum.asTensor(), tensor, tolerance);
    if (!comparison.failure.empty()) {
      llvm::outs() << "FAIL result " << i << ": " << comparison.failure << "\n";
      return ReplayStatus::differs;
    }
  }
  llvm::outs() << "PASS\n";
  return ReplayStatus::same;
}
