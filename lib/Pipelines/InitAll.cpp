//===- InitAll.cpp - The one list of dialects and passes ------------------===//
#include "kvc/InitAll.h"

#include "kvc/Dialect/KVCache/IR/KVCache.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"

void kvc::registerAllDialects(mlir::DialectRegistry &registry) {
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  registry.insert<kvcache::KVCacheDialect>();
}

void kvc::registerAllPasses() { mlir::registerAllPasses(); }
