//===- GenericToVector.cpp - linalg operations of kernels to vector loops -===//
#include "BodyVectorizer.h"
#include "Lowerings.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kvc;

namespace {

/// An output that the vectorised dimension is summed (or otherwise combined) into.
struct Reduction {
  OpOperand *output;
  Operation *combiner;
  Value term; ///< what is combined with the output's element
};

/// A linalg.generic on memrefs whose last dimension becomes lanes.
class GenericLowering {
public:
  GenericLowering(linalg::GenericOp op, int64_t lanes)
      : op(op), body(*op.getBody()), lanes(lanes), last(op.getNumLoops() - 1), vectorizer(lanes) {}

  /// False when the operation needs loops over single elements.
  bool analyze() {
    if (op.getNumLoops() == 0) {
      return false;
    }
    reduces = op.getIteratorTypesArray()[last] == utils::IteratorType::reduction;
    for (OpOperand &operand : op->getOpOperands()) {
      AffineMap map = op.getMatchingIndexingMap(&operand);
      Value argument = op.getMatchingBlockArgument(&operand);
      if (!map.isProjectedPermutation()) {
        return false;
      }
      bool varies = map.isFunctionOfDim(last);
      if (varies) {
        auto position = *map.getResultPosition(getAffineDimExpr(last, op.getContext()));
        if (position + 1 != map.getNumResults() || !hasUnitStride(operand.get())) {
          return false;
        }
        vectorizer.addVarying(argument);
      }
      if (op.isDpsInit(&operand) && varies == reduces) {
        return false;
      }
    }
    SmallVector<Operation *> skip;
    for (auto index : llvm::to_vector(body.getOps<linalg::IndexOp>())) {
      if (int64_t(index.getDim()) == last) {
        if (induction) {
          index.replaceAllUsesWith(induction.getResult());
          index.erase();
          continue;
        }
        induction = index;
        vectorizer.setInduction(index);
      }
      skip.push_back(index);
    }
    if (reduces) {
      for (OpOperand &output : op.getDpsInitsMutable()) {
        SmallVector<Operation *> combiners;
        unsigned number = output.getOperandNumber() - op.getNumDpsInputs();
        Value term = matchReduction(op.getRegionOutputArgs(), number, combiners);
        if (!term || combiners.size() != 1 || combiners[0]->getNumOperands() != 2 ||
            !linalg::getCombinerOpKind(combiners[0]) || !arith::getNeutralElement(combiners[0])) {
          return false;
        }
        reductions.push_back({&output, combiners[0], term});
        skip.push_back(combiners[0]);
      }
    }
    return succeeded(vectorizer.analyze(body, skip));
  }

  void emit() {
    ImplicitLocOpBuilder b(op.getLoc(), op);
    SmallVector<Range> ranges = cast<linalg::LinalgOp>(*op).createLoopRanges(b, op.getLoc());
    Value zero = arith::ConstantIndexOp::create(b, 0), one = arith::ConstantIndexOp::create(b, 1);
    for (int64_t dim = 0; dim < last; ++dim) {
      auto loop = scf::ForOp::create(b, zero, getValueOrCreateConstantIndexOp(b, b.getLoc(), ranges[dim].size), one);
      ivs.push_back(loop.getInductionVar());
      b.setInsertionPoint(loop.getBody()->getTerminator());
    }
    // What does not depend on the last dimension stands before the loop over it.
    for (auto index : body.getOps<linalg::IndexOp>()) {
      if (int64_t(index.getDim()) != last) {
        uniform.map(index.getResult(), ivs[index.getDim()]);
      }
    }
    for (OpOperand &operand : op->getOpOperands()) {
      Value argument = op.getMatchingBlockArgument(&operand);
      if (!vectorizer.isVarying(argument) && (!argument.use_empty() || (reduces && op.isDpsInit(&operand)))) {
        uniform.map(argument, memref::LoadOp::create(b, operand.get(), indicesOf(operand, Value())));
      }
    }
    vectorizer.emitUniform(b, uniform);

    Value size = getValueOrCreateConstantIndexOp(b, b.getLoc(), ranges[last].size);
    Value width = arith::ConstantIndexOp::create(b, lanes);
    std::optional<int64_t> known = getConstantIntValue(size);
    Value whole = known ? Value(arith::ConstantIndexOp::create(b, *known / lanes * lanes))
                        : Value(arith::SubIOp::create(b, size, arith::RemUIOp::create(b, size, width)));
    SmallVector<Value> sums;
    for (Reduction &reduction : reductions) {
      TypedAttr neutral = *arith::getNeutralElement(reduction.combiner);
      auto type = VectorType::get({lanes}, neutral.getType());
      sums.push_back(arith::ConstantOp::create(b, SplatElementsAttr::get(type, neutral)));
    }
    auto loop = scf::ForOp::create(b, zero, whole, width, sums);
    {
      OpBuilder::InsertionGuard guard(b);
      if (sums.empty()) {
        b.setInsertionPoint(loop.getBody()->getTerminator());
        step(b, loop.getInductionVar(), Value(), {});
      } else {
        b.setInsertionPointToStart(loop.getBody());
        scf::YieldOp::create(b, step(b, loop.getInductionVar(), Value(), loop.getRegionIterArgs()));
      }
    }
    sums = loop.getResults();
    if (!known || *known % lanes) {
      Value mask = firstLanes(b, lanes, arith::SubIOp::create(b, size, whole));
      sums = step(b, whole, mask, sums);
    }
    for (auto [reduction, sum] : llvm::zip_equal(reductions, sums)) {
      // The order of the sum over lanes is fixed by the target, so reassociation keeps results the same run to run.
      auto kind = *linalg::getCombinerOpKind(reduction.combiner);
      Value total = vector::ReductionOp::create(b, kind, sum, arith::FastMathFlags::reassoc);
      IRMapping map;
      Value before = uniform.lookup(op.getMatchingBlockArgument(reduction.output));
      for (Value operand : reduction.combiner->getOperands()) {
        map.map(operand, operand == reduction.term ? total : before);
      }
      Value after = b.clone(*reduction.combiner, map)->getResult(0);
      memref::StoreOp::create(b, after, reduction.output->get(), indicesOf(*reduction.output, Value()));
    }
  }

private:
  SmallVector<Value> indicesOf(OpOperand &operand, Value base) {
    SmallVector<Value> indices;
    for (AffineExpr expr : op.getMatchingIndexingMap(&operand).getResults()) {
      int64_t dim = cast<AffineDimExpr>(expr).getPosition();
      indices.push_back(dim == last ? base : ivs[dim]);
    }
    return indices;
  }

  /// One vector of elements; returns the sums after it.
  SmallVector<Value> step(ImplicitLocOpBuilder &b, Value base, Value mask, ValueRange sums) {
    IRMapping vectors;
    for (OpOperand &operand : op->getOpOperands()) {
      Value argument = op.getMatchingBlockArgument(&operand);
      if (vectorizer.isVarying(argument) && !argument.use_empty()) {
        vectors.map(argument, loadLanes(b, operand.get(), indicesOf(operand, base), lanes, mask));
      }
    }
    vectorizer.emitVarying(b, uniform, vectors, base, mask);
    SmallVector<Value> out;
    for (auto [reduction, sum] : llvm::zip(reductions, sums)) {
      Value term = vectorizer.vectorOf(b, uniform, vectors, reduction.term, base);
      OperationState state(b.getLoc(), reduction.combiner->getName(), {sum, term}, {sum.getType()});
      state.propertiesAttr = reduction.combiner->getPropertiesAsAttribute();
      Value next = b.create(state)->getResult(0);
      out.push_back(mask ? arith::SelectOp::create(b, mask, next, sum).getResult() : next);
    }
    if (!reduces) {
      for (OpOperand &output : op.getDpsInitsMutable()) {
        Value yielded = body.getTerminator()->getOperand(output.getOperandNumber() - op.getNumDpsInputs());
        Value value = vectorizer.vectorOf(b, uniform, vectors, yielded, base);
        storeLanes(b, value, output.get(), indicesOf(output, base), mask);
      }
    }
    return out;
  }

  linalg::GenericOp op;
  Block &body;
  int64_t lanes, last;
  bool reduces = false;
  linalg::IndexOp induction;
  BodyVectorizer vectorizer;
  SmallVector<Reduction> reductions;
  SmallVector<Value> ivs;
  IRMapping uniform;
};

} // namespace

LogicalResult kvc::lowerGeneric(linalg::GenericOp op, const Target &target) {
  IRRewriter rewriter(op);
  GenericLowering lowering(op, target.lanes);
  if (lowering.analyze()) {
    lowering.emit();
  } else if (failed(linalg::linalgOpToLoops(rewriter, op))) {
    return op.emitOpError() << "has no lowering to loops";
  }
  rewriter.eraseOp(op);
  return success();
}
