//===- Kernels.cpp - What passes over kernels begin with -----------------===//
#include "Kernels.h"

#include "kvc/Dialect/Tile/IR/Tile.h"

using namespace mlir;
using namespace kvc;

LogicalResult kvc::forEachKernel(ModuleOp module,
                                 llvm::function_ref<LogicalResult(func::FuncOp, const Target &)> lower) {
  const Target *target = getTargetOf(module);
  if (!target) {
    return module.emitError() << "expects the attribute " << tile::TileDialect::targetAttr
                              << " of a known target, but got " << module->getAttr(tile::TileDialect::targetAttr);
  }
  for (auto kernel : module.getOps<func::FuncOp>()) {
    if (kernel->hasAttr(tile::TileDialect::kernelAttr) && failed(lower(kernel, *target))) {
      return failure();
    }
  }
  return success();
}
