//===- Kernel.cpp - A compiled module beside the oracle's -----------------===//
#include "Kernel.h"

#include "kvc/InitAll.h"
#include "kvc/Target/Artifact.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace kvc;
using namespace kvc::differential;

Compiler::Compiler() : context(MLIRContext::Threading::DISABLED) {
  DialectRegistry registry;
  registerAllDialects(registry);
  context.appendDialectRegistry(registry);
  context.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error) {
      llvm::raw_string_ostream(errors) << (errors.empty() ? "" : "; ") << diagnostic;
    }
    return success();
  });
}

OwningOpRef<ModuleOp> Compiler::parse(StringRef text) { return parseSourceString<ModuleOp>(text, &context); }

OwningOpRef<ModuleOp> Compiler::lower(ModuleOp module, const Target &target, Stage stage) {
  return lowerToStage(module, target, stage, CompileOptions());
}

FailureOr<TargetCode> Compiler::generate(ModuleOp lowered, const Target &target, const std::string &cacheFolder) {
  BackendOptions options;
  options.cacheFolder = cacheFolder;
  return getBackend(target).compile(lowered, target, options);
}

FailureOr<std::vector<uint8_t>> Compiler::pack(ModuleOp lowered, const Target &target, const TargetCode &generated) {
  ArtifactBuilder artifact;
  if (failed(artifact.addTarget(lowered, target, generated))) {
    return failure();
  }
  return artifact.finish(lowered.getLoc(), "differential test");
}

bool differential::isMissingLowering(StringRef message) { return message.contains("has no lowering"); }

bool differential::isTooLarge(StringRef message) { return message.contains("bytes of staging memory"); }

std::string differential::refusalOf(Compiler &compiler, const Module &module, const Target *target) {
  // Not visible in types: the oracle finds it when it runs.
  if (module.meaning.window && module.config[AxisMask].contains("tree")) {
    return "docs/spec/cache-semantics.md: a tree mask over a ring is an error";
  }
  compiler.take();
  OwningOpRef<ModuleOp> ir = compiler.parse(module.text());
  if (!ir) {
    return compiler.take();
  }
  // What is missing for CPUs shows before vectors; teams of lanes have gaps of their own behind it.
  if (target && !compiler.lower(*ir, *target, target->team ? Stage::Vector : Stage::Tile)) {
    // Any other failure is one of the kernel's runs.
    std::string message = compiler.take();
    return isMissingLowering(message) ? message : "";
  }
  return "";
}

std::unique_ptr<Kernel> differential::compile(Compiler &compiler, const Config &config, const KernelOptions &options) {
  auto kernel = std::make_unique<Kernel>(config);
  auto stop = [&](Outcome outcome, std::string message) {
    kernel->outcome = outcome;
    kernel->message = std::move(message);
    return std::move(kernel);
  };
  compiler.take();
  kernel->ir = compiler.parse(kernel->module.text());
  if (!kernel->ir) {
    return stop(Outcome::RefusedByVerifier, compiler.take());
  }
  const Target *target = kernel->target = options.target;
  if (!target) {
    return stop(Outcome::Failed, "expects a machine that one of the targets fits");
  }
  kernel->lowered = compiler.lower(*kernel->ir, *target);
  if (!kernel->lowered) {
    std::string message = compiler.take();
    return stop(isMissingLowering(message) ? Outcome::NotLowered : Outcome::Failed, message);
  }
  if (options.mutation) {
    options.mutation(*kernel->lowered);
  }
  FailureOr<TargetCode> generated = compiler.generate(*kernel->lowered, *target, options.cacheFolder);
  if (failed(generated)) {
    return stop(Outcome::Failed, compiler.take());
  }
  kernel->generated = std::move(*generated);
  FailureOr<std::vector<uint8_t>> bytes = compiler.pack(*kernel->lowered, *target, kernel->generated);
  if (failed(bytes)) {
    return stop(Outcome::Failed, compiler.take());
  }
  kernel->artifact = std::move(*bytes);
  return stop(Outcome::Ready, "");
}
