//===- LinearToVector.cpp - Linear layers and linalg of kernels -----------===//
#include "../Utils/Kernels.h"
#include "Lowerings.h"

#include "kvc/Conversion/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/MemRef/Transforms/Transforms.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace kvc {
#define GEN_PASS_DEF_CONVERTLINEARTOVECTORPASS
#include "kvc/Conversion/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {
struct ConvertLinearToVectorPass : kvc::impl::ConvertLinearToVectorPassBase<ConvertLinearToVectorPass> {
  void runOnOperation() override {
    if (failed(forEachKernel(getOperation(), lowerKernel))) {
      signalPassFailure();
    }
  }

  /// Kernels that do nothing but linear layers run on the matrix units of a team; for others the layers become loops
  /// over vectors as well.
  static bool isLeftToTeams(func::FuncOp kernel) {
    Operation *other = nullptr;
    bool hasLinear = false;
    kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (isa<tile::LinearOp>(op)) {
        hasLinear = true;
        return WalkResult::skip();
      }
      auto isVector = [](Type type) { return isa<VectorType>(type); };
      const bool isScalar = op == kernel || isa<arith::ArithDialect>(op->getDialect()) ||
                            isa<scf::ForOp, scf::IfOp, scf::YieldOp, memref::DimOp, memref::LoadOp, func::ReturnOp>(op);
      if (!isScalar || llvm::any_of(op->getResultTypes(), isVector)) {
        other = op;
      }
      return WalkResult::advance();
    });
    if (hasLinear && other) {
      remark::missed(kernel.getLoc(), remark::RemarkOpts::name("team").category("linear"))
          << ("linear layers as loops of one warp, without matrix units: the kernel has " +
              other->getName().getStringRef() + " as well")
                 .str();
    }
    return hasLinear && !other;
  }

  static LogicalResult lowerKernel(func::FuncOp kernel, const Target &target) {
    SmallVector<Operation *> ops;
    kernel.walk([&](Operation *op) {
      if (isa<tile::LinearOp, tile::DecodeRowOp, linalg::LinalgOp>(op)) {
        ops.push_back(op);
      }
    });
    if (ops.empty() || (target.team && isLeftToTeams(kernel))) {
      return success();
    }
    for (Operation *op : ops) {
      if (failed(lower(op, target))) {
        return failure();
      }
    }
    // Views of rows become offsets of the loads and stores.
    RewritePatternSet patterns(kernel.getContext());
    memref::populateFoldMemRefAliasOpPatterns(patterns);
    return applyPatternsGreedily(kernel, std::move(patterns));
  }

  static LogicalResult lower(Operation *op, const Target &target) {
    if (auto linear = dyn_cast<tile::LinearOp>(op)) {
      return lowerLinear(linear, target);
    }
    if (auto decode = dyn_cast<tile::DecodeRowOp>(op)) {
      return lowerDecodeRow(decode, target);
    }
    if (auto generic = dyn_cast<linalg::GenericOp>(op)) {
      return lowerGeneric(generic, target);
    }
    IRRewriter rewriter(op);
    FailureOr<linalg::GenericOp> generic = linalg::generalizeNamedOp(rewriter, cast<linalg::LinalgOp>(op));
    if (failed(generic)) {
      return op->emitOpError() << "has no lowering to vectors";
    }
    return lowerGeneric(*generic, target);
  }
};
} // namespace
