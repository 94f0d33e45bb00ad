//===- LowerVectors.cpp - Vectors of rank 1, large buffers in scratch -----===//
#include "kvc/Target/CPU/Passes.h"

#include "kvc/Dialect/Tile/IR/Kernels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Dialect/Vector/Transforms/LoweringPatterns.h"
#include "mlir/Dialect/Vector/Transforms/VectorRewritePatterns.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace kvc {
#define GEN_PASS_DEF_CPULOWERVECTORSPASS
#define GEN_PASS_DEF_CPUPLACESCRATCHPASS
#include "kvc/Target/CPU/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {
/// The dot instruction of AVX-512 BF16: sums of products of pairs, accumulated in f32.
struct LowerPairDot : OpRewritePattern<tile::PairDotOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(tile::PairDotOp op, PatternRewriter &rewriter) const override {
    if (op.getAcc().getType().getDimSize(0) != 16) {
      return rewriter.notifyMatchFailure(op, "the instruction has 16 lanes");
    }
    auto name = rewriter.getStringAttr("llvm.x86.avx512bf16.dpbf16ps.512");
    rewriter.replaceOpWithNewOp<LLVM::CallIntrinsicOp>(op, op.getType(), name,
                                                       ValueRange{op.getAcc(), op.getA(), op.getB()});
    return success();
  }
};

struct CPULowerVectorsPass : kvc::impl::CPULowerVectorsPassBase<CPULowerVectorsPass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<LowerPairDot>(&getContext());
    vector::populateVectorMaskOpLoweringPatterns(patterns);
    vector::populateVectorMaskLoweringPatternsForSideEffectingOps(patterns);
    vector::populateVectorContractLoweringPatterns(patterns, vector::VectorContractLowering::OuterProduct);
    vector::populateVectorOuterProductLoweringPatterns(patterns);
    vector::populateVectorMultiReductionLoweringPatterns(patterns,
                                                         vector::VectorMultiReductionLowering::InnerReduction);
    vector::populateVectorBroadcastLoweringPatterns(patterns);
    vector::populateVectorTransferPermutationMapLoweringPatterns(patterns);
    vector::populateVectorTransferLoweringPatterns(patterns, /*maxTransferRank=*/1);
    vector::populateVectorTransposeLoweringPatterns(patterns, vector::VectorTransposeLowering::EltWise);
    vector::populateVectorShapeCastLoweringPatterns(patterns);
    vector::populateVectorGatherLoweringPatterns(patterns);
    vector::populateVectorScanLoweringPatterns(patterns);
    vector::populateVectorInterleaveLoweringPatterns(patterns);
    vector::populateVectorBitCastLoweringPatterns(patterns);
    vector::populateVectorShuffleLoweringPatterns(patterns);
    vector::populateVectorStepLoweringPatterns(patterns);
    vector::populateVectorRankReducingFMAPattern(patterns);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns)))) {
      getOperation().emitError() << "the lowering of vectors does not end";
      signalPassFailure();
    }
  }
};

struct CPUPlaceScratchPass : kvc::impl::CPUPlaceScratchPassBase<CPUPlaceScratchPass> {
  using CPUPlaceScratchPassBase::CPUPlaceScratchPassBase;

  // As the runtime aligns scratch memory.
  static constexpr int64_t alignment = 64;

  void runOnOperation() override {
    func::FuncOp kernel = getOperation();
    if (!tile::isKernel(kernel) || kernel.isExternal()) {
      return;
    }
    Block &entry = kernel.getBody().front();
    SmallVector<std::pair<memref::AllocaOp, int64_t>> moved;
    int64_t bytes = 0;
    auto result = kernel.walk([&](memref::AllocaOp op) {
      if (op->getBlock() != &entry || !op.getType().hasStaticShape()) {
        op.emitOpError() << "expects a static size and a place in the entry block of the kernel, since it would grow "
                            "the stack elsewhere";
        return WalkResult::interrupt();
      }
      Type element = op.getType().getElementType();
      int64_t elementBytes = 8;
      if (auto vector = dyn_cast<VectorType>(element)) {
        elementBytes = llvm::divideCeil(vector.getNumElements() * vector.getElementTypeBitWidth(), 8);
      } else if (element.isIntOrFloat()) {
        elementBytes = llvm::divideCeil(element.getIntOrFloatBitWidth(), 8);
      }
      int64_t size = op.getType().getNumElements() * elementBytes;
      if (size >= threshold) {
        moved.push_back({op, bytes});
        bytes = llvm::alignTo(bytes + size, alignment);
      }
      return WalkResult::advance();
    });
    if (result.wasInterrupted()) {
      return signalPassFailure();
    }
    if (moved.empty()) {
      return;
    }
    ImplicitLocOpBuilder b(kernel.getLoc(), &getContext());
    auto type = MemRefType::get({bytes}, b.getI8Type());
    if (failed(kernel.insertArgument(kernel.getNumArguments() - 1, type, {}, kernel.getLoc()))) {
      return signalPassFailure();
    }
    Value scratch = kernel.getArgument(kernel.getNumArguments() - 2);
    kernel->setAttr(tile::TileDialect::scratchAttr, b.getI64IntegerAttr(bytes));
    for (auto [op, offset] : moved) {
      b.setInsertionPoint(op);
      Value at = arith::ConstantIndexOp::create(b, offset);
      op.replaceAllUsesWith(memref::ViewOp::create(b, op.getType(), scratch, at, ValueRange{}).getResult());
      op.erase();
    }
  }
};
} // namespace
