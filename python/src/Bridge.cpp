//===- Bridge.cpp - The compiler as the Python module sees it -------------===//
#include "Bridge.h"

#include "kvc/Dialect/KVCache/IR/KVCache.h"
#include "kvc/Driver/Compile.h"
#include "kvc/InitAll.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

using namespace kvc;

Result<std::vector<uint8_t>> python::compileText(const std::string &text, const std::string &name,
                                                 const std::string &target) {
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  context.printOpOnDiagnostic(false);
  auto sources = std::make_shared<llvm::SourceMgr>();
  sources->AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(text, name), llvm::SMLoc());
  std::string said;
  llvm::raw_string_ostream stream(said);
  mlir::SourceMgrDiagnosticHandler handler(*sources, &context, stream);
  auto failed = [&](StatusCode code) {
    llvm::StringRef trimmed = llvm::StringRef(said).trim();
    return Status(code, trimmed.empty() ? name + ": the compiler failed" : trimmed.str());
  };
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::parseSourceFile<mlir::ModuleOp>(sources, mlir::ParserConfig(&context));
  if (!module) {
    return failed(StatusCode::invalidArgument);
  }
  CompileOptions options;
  if (!target.empty()) {
    options.targets.push_back(target);
  }
  options.backend.cacheFolder = getDefaultCacheFolder();
  options.provenance = "kvc.jit " + name;
  llvm::FailureOr<std::vector<uint8_t>> artifact = compileModule(*module, options);
  if (llvm::failed(artifact)) {
    return failed(StatusCode::unsupported);
  }
  return std::move(*artifact);
}

Status python::checkCacheType(const std::string &text) {
  mlir::DialectRegistry registry;
  registry.insert<kvcache::KVCacheDialect>();
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  std::string said;
  mlir::ScopedDiagnosticHandler collect(
      &context, [&](mlir::Diagnostic &diagnostic) { said += (said.empty() ? "" : "; ") + diagnostic.str(); });
  if (llvm::isa_and_nonnull<kvcache::CacheType>(mlir::parseType(text, &context))) {
    return {};
  }
  return Status(StatusCode::invalidArgument, text + ": " + (said.empty() ? "expects a type of a cache" : said));
}

std::string python::hostTarget() {
  const Target *target = getHostTarget();
  return target ? target->name.str() : "";
}

std::string python::cacheFolder() { return getDefaultCacheFolder(); }
