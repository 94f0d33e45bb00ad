//===- InitAll.cpp - The one list of dialects and passes ------------------===//
#include "kvc/InitAll.h"

#include "kvc/Conversion/Passes.h"
#include "kvc/Dialect/KVCache/IR/KVCache.h"
#include "kvc/Dialect/KVCache/Transforms/Passes.h"
#include "kvc/Dialect/Tile/IR/Tile.h"
#include "kvc/Dialect/Tile/Transforms/Passes.h"
#include "kvc/Pipelines/Pipelines.h"
#include "kvc/Target/AMD/Passes.h"
#include "kvc/Target/CPU/Passes.h"
#include "kvc/Target/LLVM/Passes.h"
#include "kvc/Target/NVIDIA/Passes.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"

void kvc::registerAllDialects(mlir::DialectRegistry &registry) {
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  registry.insert<kvcache::KVCacheDialect, tile::TileDialect>();
  kvcache::registerBufferizableOpInterfaceModels(registry);
}

void kvc::registerAllPasses() {
  mlir::registerAllPasses();
  registerKVCConversionPasses();
  registerKVCKVCachePasses();
  registerKVCTilePasses();
  registerKVCLLVMPasses();
  registerKVCCPUPasses();
  registerKVCNVIDIAPasses();
  registerKVCAMDPasses();
  registerKVCPipelinePasses();
  registerCPUPipelines();
  registerNVIDIAPipelines();
  registerAMDPipelines();
  registerPipelines();
}
