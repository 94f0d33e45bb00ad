//===- Compile.cpp - Modules to artifacts ---------------------------------===//
#include "kvc/Driver/Compile.h"

#include "kvc/Target/Artifact.h"
#include "kvc/Target/CodeCache.h"
#include "kvc/Target/Schedule.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <dlfcn.h>

using namespace mlir;
using namespace kvc;

FailureOr<std::vector<const Target *>> kvc::selectTargets(Location location, ArrayRef<std::string> names) {
  std::vector<const Target *> targets;
  for (const std::string &name : names) {
    const Target *target = lookupTarget(name);
    if (!target) {
      InFlightDiagnostic diagnostic = emitError(location) << "expects targets among ";
      llvm::interleaveComma(getTargets(), diagnostic, [&](const Target &row) { diagnostic << row.name; });
      return diagnostic << ", but got '" << name << "'";
    }
    if (llvm::is_contained(targets, target)) {
      return emitError(location) << "expects different targets, but got '" << name << "' twice";
    }
    targets.push_back(target);
  }
  if (targets.empty()) {
    const Target *host = getHostTarget();
    if (!host) {
      return emitError(location)
             << "expects a machine that one of the targets fits (x86-64-v3 or better, aarch64), but "
                "this one does not: name a target";
    }
    targets.push_back(host);
  }
  return targets;
}

namespace {
/// Tells a fault of the compiler from a module that it refuses: a refusal is an error that one of our passes reports
/// about a module that is still valid.
class Refusals : public PassInstrumentation {
public:
  explicit Refusals(bool &refused) : refused(refused) {}
  void runAfterPassFailed(Pass *pass, Operation *op) override {
    // The innermost pass decides; one without a name only runs others.
    if (decided || pass->getArgument().empty()) {
      return;
    }
    decided = true;
    ScopedDiagnosticHandler quiet(op->getContext(), [](Diagnostic &) { return success(); });
    refused = pass->getArgument().starts_with("kvc-") && succeeded(verify(op));
  }

private:
  bool decided = false;
  bool &refused;
};

/// The file of a reproducer, made when there is something to reproduce.
class ReproducerFile : public ReproducerStream {
public:
  explicit ReproducerFile(std::string file) : file(std::move(file)), stream(this->file, error) {}
  StringRef description() override { return file; }
  raw_ostream &os() override { return error ? static_cast<raw_ostream &>(llvm::nulls()) : stream; }

private:
  std::string file;
  std::error_code error;
  llvm::raw_fd_ostream stream;
};

/// For a refusal.
class NoReproducer : public ReproducerStream {
public:
  StringRef description() override { return "nowhere"; }
  raw_ostream &os() override { return llvm::nulls(); }
};
} // namespace

static std::string reproducerPath(const std::string &folder) {
  llvm::SmallString<128> model(folder), path;
  llvm::sys::path::append(model, "kvc-reproducer-%%%%%%%%.mlir");
  llvm::sys::fs::createUniquePath(model, path, /*MakeAbsolute=*/false);
  return path.str().str();
}

LogicalResult kvc::applyMethod(ModuleOp module, const MethodOptions &options) {
  bool hasSites = module.walk([](kvcache::AttendOp) { return WalkResult::interrupt(); }).wasInterrupted();
  return hasSites || options.method != MethodOptions().method ? spliceMethod(module, options) : success();
}

void kvc::setLinearAccuracy(ModuleOp module, StringRef accuracy) {
  if (accuracy != "exact") {
    module->setAttr(linearAccuracyAttr, StringAttr::get(module.getContext(), accuracy));
  }
}

OwningOpRef<ModuleOp> kvc::lowerToStage(ModuleOp module, const Target &target, Stage stage,
                                        const CompileOptions &options) {
  OwningOpRef<ModuleOp> copy = module.clone();
  PassManager pm(module.getContext());
  PipelineOptions pipeline;
  pipeline.target = target.name.str();
  pipeline.verifyStages = options.verifyStages;
  buildStages(pm, Stage::Input, stage, pipeline);
  bool refused = false;
  std::string reproducer;
  if (!options.reproducerFolder.empty()) {
    pm.enableCrashReproducerGeneration([&](std::string &) -> std::unique_ptr<ReproducerStream> {
      if (refused) {
        return std::make_unique<NoReproducer>();
      }
      reproducer = reproducerPath(options.reproducerFolder);
      return std::make_unique<ReproducerFile>(reproducer);
    });
    // Instrumentations hear of a failure in reverse order: this one before the reproducer is written.
    pm.addInstrumentation(std::make_unique<Refusals>(refused));
  }
  // A refusal is said by its own error; that a pipeline has failed and where its reproducer is adds nothing.
  ScopedDiagnosticHandler filter(module.getContext(), [&](Diagnostic &diagnostic) {
    return success(refused && StringRef(diagnostic.str()).starts_with("Failures have been detected"));
  });
  if (failed(pm.run(*copy))) {
    if (!reproducer.empty() && llvm::sys::fs::exists(reproducer)) {
      emitRemark(module.getLoc()) << "to reproduce: kvc-opt --run-reproducer " << reproducer;
    }
    return nullptr;
  }
  return copy;
}

/// Adds a function that truncates for every type of caches among the arguments that seals slots later than it takes
/// them.
static void addTruncateFunctions(ModuleOp module) {
  llvm::SetVector<kvcache::CacheType> types;
  for (auto function : module.getOps<func::FuncOp>()) {
    for (Type argument : function.getArgumentTypes()) {
      auto cache = dyn_cast<kvcache::CacheType>(argument);
      if (cache && cache.hasTail()) {
        types.insert(cache);
      }
    }
  }
  MLIRContext *context = module.getContext();
  ImplicitLocOpBuilder b(module.getLoc(), context);
  Type batch = kvcache::BatchType::get(context);
  Type lengths = RankedTensorType::get({ShapedType::kDynamic}, b.getI32Type());
  for (auto [i, cache] : llvm::enumerate(types)) {
    b.setInsertionPointToEnd(module.getBody());
    auto function = func::FuncOp::create(b, ("kvc.truncate." + Twine(i)).str(),
                                         b.getFunctionType({cache, batch, lengths}, {cache}));
    function->setAttr(truncateAttrName, b.getUnitAttr());
    b.setInsertionPointToStart(function.addEntryBlock());
    auto truncated = kvcache::TruncateOp::create(b, cache, function.getArgument(0), function.getArgument(2),
                                                 function.getArgument(1));
    func::ReturnOp::create(b, truncated.getResult());
  }
}

/// The hash of the program or library that this code is part of, and LLVM's version.
static std::string compilerHash() {
  void *here = reinterpret_cast<void *>(&compilerHash);
  Dl_info info;
  llvm::SmallString<256> file;
  // For a program dladdr gives argv[0], which need not name a file.
  if (!dladdr(here, &info) || llvm::sys::fs::real_path(info.dli_fname, file)) {
    file = llvm::sys::fs::getMainExecutable(nullptr, here);
  }
  auto bytes = llvm::MemoryBuffer::getFile(file, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!bytes) {
    return "";
  }
  llvm::BLAKE3 hash;
  hash.update((*bytes)->getBuffer());
  hash.update(StringRef(LLVM_VERSION_STRING));
  return llvm::toHex(hash.result(), /*LowerCase=*/true);
}

/// The hash of `parts`, in order, and of this compiler; empty where its file cannot be read.
static std::string keyOf(ArrayRef<StringRef> parts) {
  static const std::string compiler = compilerHash();
  if (compiler.empty()) {
    return "";
  }
  llvm::BLAKE3 hash;
  hash.update(StringRef(compiler));
  for (StringRef part : parts) {
    hash.update(StringRef(std::to_string(part.size()) + ":"));
    hash.update(part);
  }
  return llvm::toHex(hash.result(), /*LowerCase=*/true);
}

FailureOr<std::vector<uint8_t>> kvc::compileModule(ModuleOp source, const CompileOptions &options) {
  FailureOr<std::vector<const Target *>> targets = selectTargets(source.getLoc(), options.targets);
  if (failed(targets)) {
    return failure();
  }
  OwningOpRef<ModuleOp> owner = source.clone();
  ModuleOp module = *owner;
  addTruncateFunctions(module);
  std::string text;
  llvm::raw_string_ostream os(text);
  module->print(os, OpPrintingFlags().printGenericOpForm());
  SmallVector<StringRef> parts{text, options.provenance};
  llvm::append_range(parts, llvm::map_range(*targets, [](const Target *target) { return target->name; }));
  std::string key = keyOf(parts);
  CodeCache cache(key.empty() ? "" : options.backend.cacheFolder, ".kvca");
  if (std::optional<std::string> found = cache.find(key)) {
    return std::vector<uint8_t>(found->begin(), found->end());
  }
  ArtifactBuilder artifact;
  for (const Target *target : *targets) {
    OwningOpRef<ModuleOp> lowered = lowerToStage(module, *target, Stage::Vector, options);
    if (!lowered) {
      return failure();
    }
    FailureOr<TargetCode> code = getBackend(*target).compile(*lowered, *target, options.backend);
    if (failed(code) || failed(artifact.addTarget(*lowered, *target, *code))) {
      return failure();
    }
  }
  FailureOr<std::vector<uint8_t>> bytes = artifact.finish(module.getLoc(), options.provenance);
  if (succeeded(bytes)) {
    cache.insert(key, llvm::toStringRef(*bytes));
  }
  return bytes;
}
