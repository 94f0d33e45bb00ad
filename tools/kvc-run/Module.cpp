//===- Module.cpp - kvc-run module ----------------------------------------===//
#include "Module.h"
#include "SimReport.h"

#include "kvc/Driver/Compile.h"
#include "kvc/Driver/DeviceRun.h"
#include "kvc/InitAll.h"
#include "kvc/Reference/Reference.h"
#include "kvc/Support/Npy.h"
#include "kvc/Support/Output.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/WithColor.h"

using namespace mlir;
using namespace kvc;

static bool fail(const Twine &message) {
  llvm::WithColor::error(llvm::errs(), "kvc-run") << message << "\n";
  return false;
}

namespace {
/// Takes arrays from the files of --inputs, in order.
class Inputs {
public:
  explicit Inputs(ArrayRef<std::string> files) : files(files) {}

  FailureOr<NpyArray> next(const Twine &what) {
    if (files.empty()) {
      return fail("expects another file in --inputs for " + what + ", but got none"), failure();
    }
    llvm::Expected<NpyArray> array = readNpy(files.front());
    files = files.drop_front();
    if (!array) {
      return fail(llvm::toString(array.takeError())), failure();
    }
    return std::move(*array);
  }
  size_t left() const { return files.size(); }

private:
  ArrayRef<std::string> files;
};
} // namespace

static FailureOr<std::vector<int64_t>> integers(Inputs &inputs, const Twine &what) {
  FailureOr<NpyArray> array = inputs.next(what);
  if (failed(array)) {
    return failure();
  }
  if (array->isFloat() || array->shape.size() != 1) {
    return fail("expects a rank 1 array of integers for " + what + ", but got rank " + Twine(array->shape.size()) +
                " of " + Twine(array->kind) + Twine(array->itemBytes)),
           failure();
  }
  std::vector<int64_t> values;
  for (int64_t i = 0; i < array->size(); ++i) {
    values.push_back(array->intAt(i));
  }
  return values;
}

static FailureOr<reference::Batch> batchOf(Inputs &inputs, const Twine &what) {
  FailureOr<std::vector<int64_t>> offsets = integers(inputs, "query_offsets of " + what);
  FailureOr<std::vector<int64_t>> sequences = failed(offsets) ? offsets : integers(inputs, "sequences of " + what);
  FailureOr<std::vector<int64_t>> positions = failed(sequences) ? sequences : integers(inputs, "positions of " + what);
  if (failed(positions)) {
    return failure();
  }
  return reference::Batch{std::move(*offsets), std::move(*sequences), std::move(*positions)};
}

static FailureOr<reference::Datum> tensorOf(Inputs &inputs, Type type, const Twine &what) {
  FailureOr<NpyArray> array = inputs.next(what);
  if (failed(array)) {
    return failure();
  }
  const bool wantsFloat = isa<FloatType>(getElementTypeOrSelf(type));
  if (wantsFloat != array->isFloat()) {
    return fail("expects " + what + " of " + (wantsFloat ? "floating point" : "integers") + ", but got " +
                Twine(array->kind) + Twine(array->itemBytes)),
           failure();
  }
  const bool scalar = !isa<RankedTensorType>(type);
  if (scalar && array->size() != 1) {
    return fail("expects one element for " + what + ", but got " + Twine(array->size())), failure();
  }
  if (wantsFloat) {
    std::vector<double> values;
    for (int64_t i = 0; i < array->size(); ++i) {
      values.push_back(array->floatAt(i));
    }
    return scalar ? reference::Datum(values[0])
                  : reference::Datum(reference::Tensor::ofFloats(array->shape, std::move(values)));
  }
  std::vector<int64_t> values;
  for (int64_t i = 0; i < array->size(); ++i) {
    values.push_back(array->intAt(i));
  }
  return scalar ? reference::Datum(values[0])
                : reference::Datum(reference::Tensor::ofInts(array->shape, std::move(values)));
}

/// The arguments of the function, from the files; caches empty.
static FailureOr<SmallVector<reference::Datum>> readInputs(const ModuleRun &run, func::FuncOp function) {
  Inputs files(run.inputs);
  SmallVector<reference::Datum> inputs(function.getNumArguments());
  int64_t sequences = 0;
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
    const std::string what = ("argument " + Twine(i) + " of @" + run.function).str();
    if (isa<kvcache::CacheType>(type)) {
      continue;
    }
    if (isa<kvcache::BatchType>(type)) {
      FailureOr<reference::Batch> batch = batchOf(files, what);
      if (failed(batch)) {
        return failure();
      }
      for (int64_t sequence : batch->sequences) {
        sequences = std::max(sequences, std::min<int64_t>(sequence, 1 << 20) + 1);
      }
      inputs[i] = std::move(*batch);
      continue;
    }
    if (!isa<RankedTensorType>(type) && !type.isIntOrIndexOrFloat()) {
      std::string name;
      llvm::raw_string_ostream(name) << type;
      return fail("expects arguments that are tensors, scalars, batches or caches, but got " + what + " of type " +
                  name),
             failure();
    }
    FailureOr<reference::Datum> tensor = tensorOf(files, type, what);
    if (failed(tensor)) {
      return failure();
    }
    inputs[i] = std::move(*tensor);
  }
  if (files.left()) {
    return fail("expects " + Twine(run.inputs.size() - files.left()) + " files in --inputs, but got " +
                Twine(run.inputs.size())),
           failure();
  }
  for (auto [input, type] : llvm::zip(inputs, function.getArgumentTypes())) {
    if (auto cache = dyn_cast<kvcache::CacheType>(type)) {
      input = reference::Cache::empty(cache, run.sequences < 0 ? sequences : run.sequences, run.capacity);
    }
  }
  return inputs;
}

/// A result as an array: f32 in 4 bytes (8 when wide), integers in the bytes of their type.
static NpyArray arrayOf(const reference::Datum &datum, Type type, bool wide) {
  Type element = getElementTypeOrSelf(type);
  if (isa<FloatType>(element)) {
    const int64_t bytes = wide || element.isF64() ? 8 : element.isF16() ? 2 : 4;
    return datum.isTensor() ? NpyArray::ofFloats(datum.asTensor().shape, datum.asTensor().floats, bytes)
                            : NpyArray::ofFloats({}, {datum.asFloat()}, bytes);
  }
  const int64_t bits = isa<IndexType>(element) ? 64 : element.getIntOrFloatBitWidth();
  const int64_t bytes = bits <= 8 ? 1 : bits <= 16 ? 2 : bits <= 32 ? 4 : 8;
  return datum.isTensor() ? NpyArray::ofInts(datum.asTensor().shape, datum.asTensor().ints, bytes)
                          : NpyArray::ofInts({}, {datum.asInt()}, bytes);
}

static bool writeArrays(ArrayRef<std::string> files, ArrayRef<NpyArray> arrays) {
  std::vector<Output> outputs;
  for (auto [file, array] : llvm::zip_equal(files, arrays)) {
    outputs.push_back({file, formatNpy(array)});
  }
  llvm::Error error = writeOutputs(outputs);
  return error ? fail(llvm::toString(std::move(error))) : true;
}

/// The artifact of a module in a file, compiled where it is not one already.
static FailureOr<runtime::ModuleHandle> loadModule(const ModuleRun &run, kvc_device_t *device) {
  kvc_module_t *module;
  if (StringRef(run.file).ends_with(".kvca")) {
    if (kvc_module_load_file(device, run.file.c_str(), nullptr, &module) != KVC_OK) {
      return fail(kvc_last_error_message()), failure();
    }
    return runtime::ModuleHandle(module);
  }
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry);
  context.printOpOnDiagnostic(false);
  auto sources = std::make_shared<llvm::SourceMgr>();
  SourceMgrDiagnosticHandler handler(*sources, &context);
  OwningOpRef<ModuleOp> source = parseSourceFile<ModuleOp>(run.file, sources, ParserConfig(&context));
  if (!source) {
    return fail("expects a valid module in " + run.file), failure();
  }
  if (failed(applyMethod(*source, {}))) {
    return failure();
  }
  CompileOptions options;
  options.targets = targetsOf(device, run.target);
  options.backend.cacheFolder = getDefaultCacheFolder();
  options.provenance = "kvc-run module " + run.file;
  FailureOr<std::vector<uint8_t>> artifact = compileModule(*source, options);
  if (failed(artifact)) {
    return failure();
  }
  if (kvc_module_load_bytes(device, artifact->data(), artifact->size(), nullptr, &module) != KVC_OK) {
    return fail(kvc_last_error_message()), failure();
  }
  return runtime::ModuleHandle(module);
}

static bool runModuleOnDevice(const ModuleRun &run) {
  if (Status status = run.simReport ? checkSimulated(run.device) : Status(); !status.ok()) {
    return fail(status.message());
  }
  DeviceRunOptions options;
  options.device = run.device;
  options.threads = run.threads;
  options.sequences = run.sequences;
  options.capacity = run.capacity;
  options.cachePages = run.cachePages;
  llvm::Expected<runtime::DeviceHandle> device = openDevice(options);
  if (!device) {
    return fail(llvm::toString(device.takeError()));
  }
  FailureOr<runtime::ModuleHandle> module = loadModule(run, device->get());
  if (failed(module)) {
    return false;
  }
  if (!run.weights.empty() && kvc_module_bind_weights(module->get(), run.weights.c_str()) != KVC_OK) {
    return fail(kvc_last_error_message());
  }
  std::vector<NpyArray> inputs;
  for (const std::string &file : run.inputs) {
    llvm::Expected<NpyArray> array = readNpy(file);
    if (!array) {
      return fail(llvm::toString(array.takeError()));
    }
    inputs.push_back(std::move(*array));
  }
  if (kvc_device_set_profiling(device->get(), run.simReport) != KVC_OK) {
    return fail(kvc_last_error_message());
  }
  llvm::Expected<DeviceResults> results = runOnDevice(device->get(), module->get(), run.function, inputs, options);
  if (!results) {
    return fail("@" + run.function + ": " + llvm::toString(results.takeError()));
  }
  if (results->arrays.size() != run.outputs.size()) {
    return fail("expects " + Twine(results->arrays.size()) + " files in --outputs for the tensors and scalars that @" +
                run.function + " returns, but got " + Twine(run.outputs.size()));
  }
  if (!writeArrays(run.outputs, results->arrays)) {
    return false;
  }
  const char *profile;
  if (kvc_device_take_profile(device->get(), &profile) != KVC_OK) {
    return fail(kvc_last_error_message());
  }
  Result<SimReport> report = SimReport::parse(profile);
  if (!report.ok()) {
    return fail(report.message());
  }
  if (run.json) {
    llvm::outs() << "{\"target\":\"" << kvc_module_target(module->get()) << "\",\"outputs\":" << results->arrays.size()
                 << ",\"dropped_caches\":" << results->caches;
    if (run.simReport) {
      llvm::outs() << ",\"dispatches\":" << report->dispatches().dump()
                   << ",\"sim_report\":" << report->kernels().dump();
    }
    llvm::outs() << "}\n";
  } else if (run.simReport) {
    report->print(llvm::outs());
  }
  return true;
}

bool kvc::runModule(const ModuleRun &run, reference::Evaluator *oracle) {
  if (!run.reference) {
    return runModuleOnDevice(run);
  }
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry);
  context.printOpOnDiagnostic(false);
  auto sources = std::make_shared<llvm::SourceMgr>();
  SourceMgrDiagnosticHandler handler(*sources, &context);
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(run.file, sources, ParserConfig(&context));
  if (!module) {
    return fail("expects a valid module in " + run.file);
  }
  auto function = module->lookupSymbol<func::FuncOp>(run.function);
  if (!function) {
    return fail("expects a function @" + run.function + " in " + run.file + ", but got none");
  }
  SmallVector<Type> arrays;
  for (Type type : function.getResultTypes()) {
    if (isa<RankedTensorType>(type) || type.isIntOrIndexOrFloat()) {
      arrays.push_back(type);
    }
  }
  if (arrays.size() != run.outputs.size()) {
    return fail("expects " + Twine(arrays.size()) + " files in --outputs for the tensors and scalars that @" +
                run.function + " returns, but got " + Twine(run.outputs.size()));
  }
  FailureOr<SmallVector<reference::Datum>> inputs = readInputs(run, function);
  if (failed(inputs)) {
    return false;
  }
  reference::Evaluator usual;
  FailureOr<SmallVector<reference::Datum>> results = (oracle ? *oracle : usual).call(function, *inputs);
  if (failed(results)) {
    return false;
  }
  std::vector<NpyArray> written;
  for (auto [result, type] : llvm::zip(*results, function.getResultTypes())) {
    if (isa<RankedTensorType>(type) || type.isIntOrIndexOrFloat()) {
      written.push_back(arrayOf(result, type, run.wide));
    }
  }
  return writeArrays(run.outputs, written);
}
