//===- Kernels.cpp - What passes over kernels begin with -----------------===//
#include "Kernels.h"

#include "kvc/Dialect/Tile/IR/Kernels.h"

using namespace mlir;
using namespace kvc;

LogicalResult kvc::forEachKernel(ModuleOp module,
                                 llvm::function_ref<LogicalResult(func::FuncOp, const Target &)> lower) {
  const Target *target = getTargetOf(module);
  if (!target) {
    return module.emitError() << "expects the attribute " << tile::TileDialect::targetAttr
                              << " of a known target, but got " << module->getAttr(tile::TileDialect::targetAttr);
  }
  for (func::FuncOp kernel : tile::kernelsOf(module)) {
    if (failed(lower(kernel, *target))) {
      return failure();
    }
  }
  return success();
}
