//===- GGUF.cpp - Model files to MLIR -------------------------------------===//
//
// Opens a GGUF file and hands it to the importer of its architecture.
//
//===----------------------------------------------------------------------===//
#include "kvc/Import/GGUF.h"

#include "Llama.h"
#include "kvc/Dialect/KVCache/IR/KVCache.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

OwningOpRef<ModuleOp> kvc::importGGUF(const gguf::File &file, MLIRContext *context, const GGUFImportOptions &options) {
  context->loadDialect<kvcache::KVCacheDialect, func::FuncDialect, linalg::LinalgDialect, tensor::TensorDialect,
                       arith::ArithDialect, math::MathDialect>();
  Location loc = FileLineColLoc::get(context, file.name(), 0, 0);
  Result<std::string_view> architecture = file.getString("general.architecture");
  if (!architecture.ok()) {
    return emitError(loc) << architecture.message(), nullptr;
  }
  if (*architecture != "llama") {
    return emitError(loc) << "expects the architecture 'llama', but got '" << StringRef(*architecture) << "'", nullptr;
  }
  FailureOr<import::LlamaConfig> config = import::readLlamaConfig(file, loc);
  if (failed(config)) {
    return nullptr;
  }
  OwningOpRef<ModuleOp> module = import::buildLlamaGraph(file, *config, options, loc);
  if (module && failed(verify(*module))) {
    return nullptr;
  }
  return module;
}

OwningOpRef<ModuleOp> kvc::importGGUF(StringRef path, MLIRContext *context, const GGUFImportOptions &options) {
  Result<gguf::File> file = gguf::File::open(path.str());
  if (!file.ok()) {
    return emitError(FileLineColLoc::get(context, path, 0, 0)) << file.message(), nullptr;
  }
  return importGGUF(*file, context, options);
}
