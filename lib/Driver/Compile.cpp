//===- Compile.cpp - Modules to artifacts ---------------------------------===//
#include "kvc/Driver/Compile.h"

#include "kvc/Driver/ArtifactCache.h"
#include "kvc/Target/Artifact.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

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

/// Arranges that a failing pass leaves a file from which kvc-opt repeats the failure, and says so.
static std::string enableReproducer(PassManager &pm, const std::string &folder) {
  if (folder.empty()) {
    return "";
  }
  llvm::SmallString<128> model(folder), path;
  llvm::sys::path::append(model, "kvc-reproducer-%%%%%%%%.mlir");
  llvm::sys::fs::createUniquePath(model, path, /*MakeAbsolute=*/false);
  pm.enableCrashReproducerGeneration(path);
  return path.str().str();
}

LogicalResult kvc::applyMethod(ModuleOp module, const MethodOptions &options) {
  bool hasSites = module.walk([](kvcache::AttendOp) { return WalkResult::interrupt(); }).wasInterrupted();
  return hasSites || options.method != MethodOptions().method ? spliceMethod(module, options) : success();
}

OwningOpRef<ModuleOp> kvc::lowerToStage(ModuleOp module, const Target &target, Stage stage,
                                        const CompileOptions &options) {
  OwningOpRef<ModuleOp> copy = module.clone();
  PassManager pm(module.getContext());
  PipelineOptions pipeline;
  pipeline.target = target.name.str();
  pipeline.verifyStages = options.verifyStages;
  buildStages(pm, Stage::Input, stage, pipeline);
  std::string reproducer = enableReproducer(pm, options.reproducerFolder);
  if (failed(pm.run(*copy))) {
    if (llvm::sys::fs::exists(reproducer)) {
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
  ArtifactCache cache(options.backend.cacheFolder);
  std::string key = ArtifactCache::key(parts);
  if (std::optional<std::vector<uint8_t>> found = cache.find(key)) {
    return std::move(*found);
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
    cache.insert(key, *bytes);
  }
  return bytes;
}
