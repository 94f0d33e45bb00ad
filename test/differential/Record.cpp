//===- Record.cpp - Passed runs that can be repeated elsewhere ------------===//
//
// Arrays lie in the data file as they are in memory, at multiples of eight bytes; the calls name them by offset.
//
//===----------------------------------------------------------------------===//
#include "Record.h"

#include "kvc/Support/Output.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Path.h"
#include <cmath>

using namespace kvc;
using namespace kvc::differential;
using llvm::StringRef;

namespace {
/// The data file of a record.
class Data {
public:
  /// Where the bytes of `values` begin.
  template <typename T> int64_t add(llvm::ArrayRef<T> values) {
    bytes.resize(llvm::alignTo(bytes.size(), 8));
    const int64_t offset = static_cast<int64_t>(bytes.size());
    bytes.append(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T));
    return offset;
  }

  std::string bytes;
};

/// Whether all numbers are floats: what was stored or rounded is, and takes half the room then.
bool areFloats(llvm::ArrayRef<double> values) {
  return llvm::all_of(values, [](double value) {
    return std::isnan(value) || static_cast<double>(static_cast<float>(value)) == value;
  });
}
} // namespace

static llvm::json::Array listOf(llvm::ArrayRef<int64_t> values) { return llvm::json::Array(values); }

static llvm::json::Value argumentOf(Role role, const CallArguments &arguments, Data &data) {
  switch (role) {
  case Role::Cache:
    return "cache";
  case Role::Prefix:
    return "prefix";
  case Role::Batch:
    return "batch";
  default:
    break;
  }
  const NpyArray &array = arguments.arrays.at(role);
  if (array.shape.empty()) {
    return array.isFloat() ? llvm::json::Object{{"real", array.floatAt(0)}}
                           : llvm::json::Object{{"integer", array.intAt(0)}};
  }
  const char *dtype = array.isFloat() ? "f32" : array.itemBytes == 1 ? "i8" : "i32";
  return llvm::json::Object{
      {"dtype", dtype}, {"dims", listOf(array.shape)}, {"offset", data.add(llvm::ArrayRef<char>(array.bytes))}};
}

static llvm::json::Value resultOf(const Config &config, ResultKind kind, size_t number, const CallArguments &arguments,
                                  const Target *target, bool isPrefix, Data &data) {
  if (kind == ResultKind::Cache) {
    return isPrefix ? "prefix" : "cache";
  }
  const reference::Tensor &wanted = arguments.wanted[number];
  const Errors &bound = arguments.bounds[number];
  const bool narrow = areFloats(wanted.floats);
  const std::vector<float> floats(wanted.floats.begin(), narrow ? wanted.floats.end() : wanted.floats.begin());
  llvm::json::Object result{
      {"name", nameOf(kind)},
      {"dims", listOf(wanted.shape)},
      {"dtype", narrow ? "f32" : "f64"},
      {"offset", narrow ? data.add(llvm::ArrayRef<float>(floats)) : data.add(llvm::ArrayRef<double>(wanted.floats))},
      {"peak", bound.peak},
      {"rms", bound.rms},
      {"count", toleranceOf(config, kind, target).isCount}};
  if (!arguments.freedoms[number].empty()) {
    result["freedoms"] = data.add(llvm::ArrayRef<Freedom>(arguments.freedoms[number]));
  }
  return result;
}

/// The artifact of a module for those of the targets that it compiles for; the others get their reason in `refused`.
static llvm::FailureOr<std::vector<uint8_t>> compileFor(Compiler &compiler, mlir::ModuleOp module,
                                                        CompileOptions options, llvm::json::Object &refused) {
  compiler.take();
  llvm::FailureOr<std::vector<uint8_t>> artifact = compileModule(module, options);
  if (succeeded(artifact) || options.targets.size() == 1) {
    return artifact;
  }
  std::vector<std::string> fitting;
  for (const std::string &target : options.targets) {
    CompileOptions one = options;
    one.targets = {target};
    compiler.take();
    if (succeeded(compileModule(module, one))) {
      fitting.push_back(target);
    } else {
      refused[target] = compiler.take();
    }
  }
  options.targets = fitting;
  return fitting.empty() ? llvm::FailureOr<std::vector<uint8_t>>(mlir::failure()) : compileModule(module, options);
}

llvm::Error differential::writeRecord(Compiler &compiler, const Kernel &kernel, const Session &session,
                                      const CaseId &id, llvm::ArrayRef<std::string> targets, StringRef cacheFolder,
                                      StringRef folder) {
  Data data;
  llvm::json::Array calls;
  for (const auto &[function, arguments] : session.calls) {
    const reference::Batch &batch = arguments.batch;
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < batch.entries(); ++i) {
      rows.push_back(batch.rowsOf(i));
    }
    llvm::json::Array inputs, results;
    for (Role role : function->arguments) {
      inputs.push_back(argumentOf(role, arguments, data));
    }
    for (auto [i, kind] : llvm::enumerate(function->results)) {
      results.push_back(resultOf(kernel.module.config, kind, i, arguments, kernel.target,
                                 function->kind == FunctionKind::AppendPrefix, data));
    }
    calls.push_back(llvm::json::Object{{"function", function->name},
                                       {"sequences", listOf(batch.sequences)},
                                       {"rows", listOf(rows)},
                                       {"positions", listOf(batch.positions)},
                                       {"arguments", std::move(inputs)},
                                       {"results", std::move(results)}});
  }
  CompileOptions options;
  options.targets = targets;
  options.backend.cacheFolder = cacheFolder.str();
  options.provenance = "kvc-differential " + id.str();
  llvm::json::Object refused;
  llvm::FailureOr<std::vector<uint8_t>> artifact = compileFor(compiler, *kernel.ir, options, refused);
  if (failed(artifact)) {
    return llvm::createStringError("does not compile for any of " + llvm::join(targets, ", ") + ": " + compiler.take());
  }
  const std::string name = llvm::formatv("case-{0}", id.seed).str();
  auto pathOf = [&](StringRef suffix) {
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, name + suffix);
    return path.str().str();
  };
  const llvm::json::Value record = llvm::json::Object{
      {"name", id.str()},
      {"sequences", Session::sequences},
      {"capacity", session.capacity},
      {"garbage", id[AxisGarbage]},
      {"seed", static_cast<int64_t>(id.seed)},
      // The function whose first argument has the type of the caches.
      {"cache_of", kernel.module.find(FunctionKind::Dump)->name},
      {"calls", std::move(calls)},
      // Targets without code, and why.
      {"refused", std::move(refused)},
  };
  if (std::error_code error = llvm::sys::fs::create_directories(folder)) {
    return llvm::createStringError("cannot create the folder '" + folder + "': " + error.message());
  }
  return writeOutputs({{pathOf(".json"), llvm::formatv("{0}\n", record).str()},
                       {pathOf(".bin"), std::move(data.bytes)},
                       {pathOf(".kvca"), std::string(artifact->begin(), artifact->end())}});
}
