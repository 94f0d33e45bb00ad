//===- Compile.cpp - What kvc-compile does --------------------------------===//
#include "Compile.h"

#include "gguf/File.h"
#include "kvc/Driver/Compile.h"
#include "kvc/InitAll.h"
#include "kvc/Support/Output.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/WithColor.h"

using namespace mlir;
using namespace kvc;

static bool fail(const Twine &message) {
  llvm::WithColor::error(llvm::errs(), "kvc-compile") << message << "\n";
  return false;
}

/// What --emit asks for, for one target.
static FailureOr<std::string> emit(ModuleOp module, const Target &target, StringRef form,
                                   const CompileOptions &options) {
  if (form == "ptx" && !target.triple.starts_with("nvptx")) {
    return emitError(module.getLoc()) << "expects a target whose assembly is PTX for --emit=ptx, but got "
                                      << target.name << ": use --emit=asm";
  }
  Stage stage = form == "mlir" ? Stage::KVCache : form == "tile" ? Stage::Tile : Stage::Vector;
  OwningOpRef<ModuleOp> lowered = lowerToStage(module, target, stage, options);
  if (!lowered) {
    return failure();
  }
  std::optional<CodeForm> code = llvm::StringSwitch<std::optional<CodeForm>>(form)
                                     .Case("llvm", CodeForm::LLVM)
                                     .Cases({"asm", "ptx"}, CodeForm::Assembly)
                                     .Case("object", CodeForm::Object)
                                     .Default(std::nullopt);
  if (code) {
    return getBackend(target).emit(*lowered, target, *code);
  }
  std::string text;
  llvm::raw_string_ostream os(text);
  lowered->print(os);
  os << "\n";
  return text;
}

bool kvc::runCompile(const CompileRun &run) {
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry);
  context.printOpOnDiagnostic(false);
  auto sources = std::make_shared<llvm::SourceMgr>();
  SourceMgrDiagnosticHandler handler(*sources, &context);
  if (run.remarks) {
    // Every kind of remark has a filter of its own.
    remark::RemarkCategories categories{".*", ".*", ".*", ".*", ".*"};
    if (failed(remark::enableOptimizationRemarks(context, nullptr, std::make_unique<remark::RemarkEmittingPolicyAll>(),
                                                 categories, /*printAsEmitRemarks=*/true))) {
      return fail("cannot set up remarks");
    }
  }
  OwningOpRef<ModuleOp> module;
  if (StringRef(run.file).ends_with(".gguf")) {
    Result<gguf::File> file = gguf::File::open(run.file);
    if (!file.ok()) {
      return fail(file.message());
    }
    module = importModel(*file, &context, run.model);
  } else if (!run.model.kv.empty() || run.model.page != 0) {
    return fail("expects --kv and --page-size with a model (.gguf): a module says itself what its caches store");
  } else {
    module = parseSourceFile<ModuleOp>(run.file, sources, ParserConfig(&context));
    if (module) {
      setLinearAccuracy(*module, run.model.linearAccuracy);
    }
    if (module && failed(applyMethod(*module, {run.model.method, run.model.methodArgs, {}, {}}))) {
      return false;
    }
  }
  if (!module) {
    return fail("expects a valid module in " + run.file);
  }

  CompileOptions options;
  options.targets = run.targets;
  llvm::SmallString<128> temporary;
  llvm::sys::path::system_temp_directory(/*ErasedOnReboot=*/true, temporary);
  options.reproducerFolder = run.reproducerFolder == "none" ? ""
                             : run.reproducerFolder.empty() ? temporary.str().str()
                                                            : run.reproducerFolder;
  options.backend.cacheFolder = run.noCache                     ? ""
                                : run.model.cacheFolder.empty() ? getDefaultCacheFolder()
                                                                : run.model.cacheFolder;
  options.provenance = "kvc-compile " + llvm::sys::path::filename(run.file).str();

  bool isBinary = run.emit == "artifact" || run.emit == "object";
  std::string output = run.output;
  if (output.empty()) {
    llvm::SmallString<128> path(run.file);
    llvm::sys::path::replace_extension(path, run.emit == "artifact" ? "kvca" : "o");
    output = isBinary && run.file != "-" ? path.str().str() : "-";
  }

  std::string bytes;
  if (run.emit == "artifact") {
    FailureOr<std::vector<uint8_t>> artifact = compileModule(*module, options);
    if (failed(artifact)) {
      return false;
    }
    bytes.assign(artifact->begin(), artifact->end());
  } else {
    FailureOr<std::vector<const Target *>> targets = selectTargets(module->getLoc(), run.targets);
    if (failed(targets)) {
      return false;
    }
    if (targets->size() != 1) {
      return fail("expects one target for --emit=" + run.emit + ", but got " + Twine(targets->size()));
    }
    FailureOr<std::string> text = emit(*module, *targets->front(), run.emit, options);
    if (failed(text)) {
      return false;
    }
    bytes = std::move(*text);
  }

  if (llvm::Error error = writeOutputs({Output{output, std::move(bytes)}})) {
    return fail(llvm::toString(std::move(error)));
  }
  return true;
}
