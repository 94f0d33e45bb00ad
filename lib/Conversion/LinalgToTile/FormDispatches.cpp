//===- FormDispatches.cpp - Tensor computations become dispatches ---------===//
#include "Groups.h"
#include "MapScores.h"

#include "kvc/Conversion/Passes.h"
#include "kvc/Dialect/Tile/IR/Kernels.h"
#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

namespace kvc {
#define GEN_PASS_DEF_FORMDISPATCHESPASS
#include "kvc/Conversion/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {

struct FormDispatchesPass : kvc::impl::FormDispatchesPassBase<FormDispatchesPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    for (auto function : module.getOps<func::FuncOp>()) {
      generalizeMapScores(function);
      function.walk([&](linalg::LinalgOp op) { op->setAttr(originAttr, function.getSymNameAttr()); });
    }
    OpPassManager before(ModuleOp::getOperationName());
    before.addPass(createInlinerPass());
    before.addPass(createSymbolDCEPass());
    before.addNestedPass<func::FuncOp>(createConvertElementwiseToLinalgPass());
    if (failed(runPipeline(before, module))) {
      return signalPassFailure();
    }
    module.walk(emptyUnreadInits);
    OpPassManager clean(ModuleOp::getOperationName());
    clean.addNestedPass<func::FuncOp>(memref::createResolveRankedShapeTypeResultDimsPass());
    clean.addNestedPass<func::FuncOp>(createCanonicalizerPass());
    clean.addNestedPass<func::FuncOp>(createCSEPass());
    if (failed(runPipeline(clean, module))) {
      return signalPassFailure();
    }
    for (func::FuncOp function : tile::hostFunctionsOf(module)) {
      if (!function.isDeclaration() && failed(formDispatches(function))) {
        return signalPassFailure();
      }
    }
    OpPassManager after(ModuleOp::getOperationName());
    after.addNestedPass<func::FuncOp>(createLowerAffinePass());
    after.addNestedPass<func::FuncOp>(createCanonicalizerPass());
    after.addNestedPass<func::FuncOp>(createCSEPass());
    if (failed(runPipeline(after, module))) {
      return signalPassFailure();
    }
    module.walk(keepOneOfEachAssertion);
  }

  /// Every layer of a model asserts the same of the same sizes.
  static void keepOneOfEachAssertion(Block *block) {
    llvm::SmallPtrSet<void *, 8> known;
    for (cf::AssertOp assertion : llvm::make_early_inc_range(block->getOps<cf::AssertOp>())) {
      if (!known.insert(assertion.getArg().getAsOpaquePointer()).second) {
        assertion.erase();
      }
    }
  }

  /// An init that gives only its shape (element-wise operations start from an operand) becomes an empty tensor, whose
  /// sizes do not depend on what computes the operand.
  static void emptyUnreadInits(linalg::GenericOp op) {
    if (!op.hasPureTensorSemantics()) {
      return;
    }
    for (OpOperand &init : op.getDpsInitsMutable()) {
      if (op.payloadUsesValueFromOperand(&init) || init.get().getDefiningOp<tensor::EmptyOp>()) {
        continue;
      }
      OpBuilder b(op);
      auto type = cast<RankedTensorType>(init.get().getType());
      SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, op.getLoc(), init.get());
      init.set(tensor::EmptyOp::create(b, op.getLoc(), sizes, type.getElementType()));
    }
  }

  static LogicalResult formDispatches(func::FuncOp function) {
    IRRewriter rewriter(function.getContext());
    // Fills of which nothing is computed, and operations other than linear layers, become generic.
    auto generalize = [&](linalg::LinalgOp op) {
      if (isa<linalg::GenericOp>(op) || isLinear(op) ||
          (isa<linalg::FillOp>(op) && llvm::all_of(op->getUses(), [](OpOperand &use) {
             auto user = dyn_cast<linalg::LinalgOp>(use.getOwner());
             return user && user.isDpsInit(&use);
           }))) {
        return success();
      }
      rewriter.setInsertionPoint(op);
      StringAttr origin = op->getAttrOfType<StringAttr>(originAttr);
      FailureOr<linalg::GenericOp> generic = linalg::generalizeNamedOp(rewriter, op);
      if (failed(generic)) {
        return LogicalResult(op->emitOpError() << "has no form as linalg.generic");
      }
      (*generic)->setAttr(originAttr, origin);
      return success();
    };
    for (Block &block : function.getBody()) {
      SmallVector<linalg::LinalgOp> named(block.getOps<linalg::LinalgOp>());
      for (linalg::LinalgOp op : named) {
        if (failed(generalize(op))) {
          return failure();
        }
      }
      for (const Group &group : formGroups(block)) {
        if (failed(group.x ? buildLinearKernel(group) : buildRowKernel(group))) {
          return failure();
        }
      }
      sortTopologically(&block);
    }
    return success();
  }

  void getDependentDialects(DialectRegistry &registry) const override {
    Base::getDependentDialects(registry);
    registry.insert<affine::AffineDialect>();
  }
};
} // namespace
