//===- TileToVector.cpp - Kernels become loops over vectors ---------------===//
#include "../Utils/Kernels.h"
#include "KernelContext.h"

#include "kvc/Conversion/Passes.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace kvc {
#define GEN_PASS_DEF_CONVERTTILETOVECTORPASS
#include "kvc/Conversion/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {
struct ConvertTileToVectorPass : kvc::impl::ConvertTileToVectorPassBase<ConvertTileToVectorPass> {
  void runOnOperation() override {
    if (failed(forEachKernel(getOperation(), lowerKernel))) {
      signalPassFailure();
    }
  }

  static LogicalResult lowerKernel(func::FuncOp kernel, const Target &target) {
    if (target.team) {
      return success(); // kvc-convert-tile-to-gpu
    }
    KernelContext context(kernel, target);
    if (failed(lowerTiles(context))) {
      return failure();
    }
    SmallVector<Operation *> ops;
    kernel.walk([&](Operation *op) {
      // A dot of pairs is an instruction: the target's own lowering knows which.
      if (isa_and_nonnull<tile::TileDialect>(op->getDialect()) && !isa<tile::PairDotOp>(op)) {
        ops.push_back(op);
      }
    });
    for (Operation *op : ops) {
      FailureOr<bool> lowered = lowerSlotOp(op, context);
      if (failed(lowered)) {
        return failure();
      }
      if (!*lowered) {
        return op->emitOpError() << "has no lowering to vectors";
      }
    }
    return context.finish();
  }
};
} // namespace
