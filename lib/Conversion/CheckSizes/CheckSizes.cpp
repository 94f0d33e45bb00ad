//===- CheckSizes.cpp - Sizes that only a call knows become assertions ----===//
//
// Verifiers compare static sizes. Where a size is dynamic, a kernel reads what
// the operation promises to be there: here each promise becomes a cf.assert,
// which the plan keeps and the runtime checks. What a size is known to be
// folds away later.
//
//===----------------------------------------------------------------------===//
#include "kvc/Conversion/Passes.h"
#include "kvc/Dialect/KVCache/IR/KVCache.h"
#include "kvc/Dialect/Tile/IR/Kernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/TypeSwitch.h"

namespace kvc {
#define GEN_PASS_DEF_CHECKSIZESPASS
#include "kvc/Conversion/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;

namespace {

/// What the slots or pages of scores are those of.
struct Units {
  Value cache; ///< null when it is not known
  Unit unit = Unit::Token;
};

/// The cache whose lengths a cache has, before updates that keep them.
Value lengthsOf(Value cache) {
  while (auto update = cache.getDefiningOp()) {
    if (!isa<AccumulateOp, RebaseOp, SealOp, CopyOp>(update)) {
      break;
    }
    cache = update->getOperand(0);
  }
  return cache;
}

Units unitsOf(Value scores) {
  if (auto score = scores.getDefiningOp<ScoreOp>()) {
    bool isOfPages = score.getKind() == ScoreKind::Bound || score.getKind() == ScoreKind::Mean;
    return {lengthsOf(score.getCache()), isOfPages ? Unit::Page : Unit::Token};
  }
  if (auto attention = scores.getDefiningOp<AttentionOp>()) {
    return {lengthsOf(attention.getCaches()[0]), Unit::Token};
  }
  if (auto pool = scores.getDefiningOp<PoolOp>()) {
    return unitsOf(pool.getInput());
  }
  Operation *def = scores.getDefiningOp();
  if (def && (isa<MapScoresOp>(def) || OpTrait::hasElementwiseMappableTraits(def))) {
    return unitsOf(def->getOperand(0));
  }
  // A computation over the same slots.
  if (auto linalg = dyn_cast_if_present<linalg::LinalgOp>(def)) {
    OpOperand *init = linalg.getDpsInitOperand(cast<OpResult>(scores).getResultNumber());
    AffineExpr slot = linalg.getMatchingIndexingMap(init).getResults().back();
    for (OpOperand *input : linalg.getDpsInputOperands()) {
      AffineMap map = linalg.getMatchingIndexingMap(input);
      if (map.getNumResults() == 3 && map.getResults().back() == slot) {
        return unitsOf(input->get());
      }
    }
  }
  return {};
}

class SizeChecker {
public:
  explicit SizeChecker(Operation *op) : op(op), b(op->getLoc(), op) {}

  void check() {
    llvm::TypeSwitch<Operation *>(op)
        .Case([&](RopeOp op) { rows("rows", op.getInput(), op.getBatch()); })
        .Case([&](AppendOp op) {
          rows("rows of key", op.getKey(), op.getBatch());
          rows("rows of value", op.getValue(), op.getBatch());
        })
        .Case([&](AttentionOp op) { attention(op); })
        .Case([&](ScoreOp op) {
          if (op.getQuery()) {
            rows("rows of query", op.getQuery(), op.getBatch());
          }
        })
        .Case([&](TopKOp op) { scores(op.getScores(), op.getCache(), op.getBatch(), op.getUnit()); })
        .Case([&](ThresholdOp op) { scores(op.getScores(), op.getCache(), op.getBatch(), op.getUnit()); })
        .Case([&](EvictOp op) { scores(op.getScores(), op.getCache(), op.getBatch(), Unit::Token); })
        .Case([&](AccumulateOp op) { scores(op.getStats(), op.getCache(), op.getBatch(), Unit::Token); })
        .Case([&](MergeSlotsOp op) { scores(op.getWeights(), op.getCache(), op.getBatch(), Unit::Token); })
        .Case([&](CommitOp op) { rows("rows of accepted", op.getAccepted(), op.getBatch()); })
        .Case([&](MapScoresOp) { elementwise(); })
        .Case([&](TruncateOp op) { entries("entries of lengths", op.getLengths(), op.getBatch()); })
        .Case([&](ImportOp op) {
          entries("entries of key", op.getKey(), op.getBatch());
          entries("entries of value", op.getValue(), op.getBatch());
          entries("entries of lengths", op.getLengths(), op.getBatch());
        })
        .Case([&](MergeStatesOp op) {
          for (auto [i, state] : llvm::enumerate(op.getStates().drop_front())) {
            for (int64_t axis = 0; axis < ::cast<ShapedType>(state.getType()).getRank(); ++axis) {
              equal("dimension " + Twine(axis) + " of operand " + Twine(i + 1), size(state, axis),
                    size(op.getStates()[0], axis));
            }
          }
        })
        .Case([&](tensor::CastOp op) { cast(op); })
        .Case([&](linalg::LinalgOp op) { loops(op); })
        .Default([&](Operation *op) {
          if (OpTrait::hasElementwiseMappableTraits(op)) {
            elementwise();
          }
        });
    if (isa<KVCacheDialect>(op->getDialect())) {
      results();
    }
  }

private:
  OpFoldResult size(Value tensor, int64_t axis) { return tensor::getMixedSize(b, b.getLoc(), tensor, axis); }

  void require(arith::CmpIPredicate predicate, const Twine &what, OpFoldResult got, OpFoldResult want) {
    if (got == want) {
      return;
    }
    Value condition = arith::CmpIOp::create(b, predicate, getValueOrCreateConstantIndexOp(b, b.getLoc(), got),
                                            getValueOrCreateConstantIndexOp(b, b.getLoc(), want));
    cf::AssertOp::create(b, condition, (op->getName().getStringRef() + ": " + what).str());
  }
  void equal(const Twine &what, OpFoldResult got, OpFoldResult want) {
    require(arith::CmpIPredicate::eq, what, got, want);
  }
  void atLeast(const Twine &what, OpFoldResult got, OpFoldResult want) {
    require(arith::CmpIPredicate::sge, what, got, want);
  }

  void rows(StringRef what, Value tensor, Value batch) {
    equal(what, size(tensor, 0), tile::RowsOp::create(b, batch).getResult());
  }
  void entries(StringRef what, Value tensor, Value batch) {
    equal(what, size(tensor, 0), BatchEntriesOp::create(b, batch).getResult());
  }

  /// The number of slots or pages of the longest table.
  Value longest(Value cache, Value batch, Unit unit) {
    Value units = BatchMaxLengthOp::create(b, cache, batch);
    if (unit == Unit::Page) {
      Value page = arith::ConstantIndexOp::create(b, ::cast<CacheType>(cache.getType()).getPage());
      units = arith::CeilDivUIOp::create(b, units, page);
    }
    return units;
  }

  void scores(Value scores, Value cache, Value batch, Unit unit) {
    entries("entries of scores", scores, batch);
    Units known = unitsOf(scores);
    if (known.cache != lengthsOf(cache) || known.unit != unit) {
      atLeast(unit == Unit::Page ? "pages of scores" : "slots of scores", size(scores, 2), longest(cache, batch, unit));
    }
  }

  void attention(AttentionOp op) {
    rows("rows of query", op.getQuery(), op.getBatch());
    if (Value tree = op.getTreeMask()) {
      rows("rows of the tree mask", tree, op.getBatch());
      atLeast("columns of the tree mask", size(tree, 1), tile::MaxRowsOp::create(b, op.getBatch()).getResult());
    }
    if (Value logits = op.getSinkLogits()) {
      equal("heads of sink_logits", size(logits, 0), size(op.getQuery(), 1));
    }
  }

  void cast(tensor::CastOp op) {
    auto from = dyn_cast<RankedTensorType>(op.getSource().getType());
    auto to = dyn_cast<RankedTensorType>(op.getType());
    for (int64_t axis = 0; from && to && axis < to.getRank(); ++axis) {
      if (from.isDynamicDim(axis) && !to.isDynamicDim(axis)) {
        equal("dimension " + Twine(axis), size(op.getSource(), axis), b.getIndexAttr(to.getDimSize(axis)));
      }
    }
  }

  /// Dimensions that the same loop walks are equal.
  void loops(linalg::LinalgOp op) {
    llvm::SmallDenseMap<AffineExpr, OpFoldResult> extents;
    for (OpOperand &operand : op->getOpOperands()) {
      auto type = dyn_cast<RankedTensorType>(operand.get().getType());
      for (int64_t axis = 0; type && axis < type.getRank(); ++axis) {
        AffineExpr loop = op.getMatchingIndexingMap(&operand).getResult(axis);
        if (!isa<AffineDimExpr>(loop)) {
          continue;
        }
        OpFoldResult extent = size(operand.get(), axis);
        auto [found, isNew] = extents.try_emplace(loop, extent);
        if (!isNew) {
          equal("dimension " + Twine(axis) + " of operand " + Twine(operand.getOperandNumber()), extent, found->second);
        }
      }
    }
  }

  void elementwise() {
    Value first;
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      auto type = dyn_cast<RankedTensorType>(operand.getType());
      if (!type) {
        continue;
      }
      for (int64_t axis = 0; first && axis < type.getRank(); ++axis) {
        equal("dimension " + Twine(axis) + " of operand " + Twine(i), size(operand, axis), size(first, axis));
      }
      first = first ? first : operand;
    }
  }

  /// A static size of a result is the one that comes out, or for slots and pages has room for it.
  void results() {
    auto shaped = dyn_cast<ReifyRankedShapedTypeOpInterface>(op);
    ReifiedRankedShapedTypeDims shapes;
    if (!shaped || failed(shaped.reifyResultShapes(b, shapes))) {
      return;
    }
    for (auto [result, shape] : llvm::zip_equal(op->getResults(), shapes)) {
      auto type = dyn_cast<RankedTensorType>(result.getType());
      for (int64_t axis = 0; type && axis < type.getRank(); ++axis) {
        if (type.isDynamicDim(axis) || isa<Attribute>(shape[axis])) {
          continue;
        }
        // Entries and rows come first; only slots and pages may be fewer than there is room for.
        auto relation = axis == 0 ? arith::CmpIPredicate::eq : arith::CmpIPredicate::sge;
        require(relation, "dimension " + Twine(axis) + " of result " + Twine(result.getResultNumber()),
                b.getIndexAttr(type.getDimSize(axis)), shape[axis]);
      }
    }
  }

  Operation *op;
  ImplicitLocOpBuilder b;
};

struct CheckSizesPass : kvc::impl::CheckSizesPassBase<CheckSizesPass> {
  void runOnOperation() override {
    for (func::FuncOp function : tile::hostFunctionsOf(getOperation())) {
      for (Block &block : function.getBody()) {
        for (Operation *op : llvm::to_vector(llvm::make_pointer_range(block))) {
          // The form over memory is refused later.
          if (llvm::none_of(op->getOperandTypes(), [](Type type) { return isa<MemoryType, BaseMemRefType>(type); })) {
            SizeChecker(op).check();
          }
        }
      }
    }
  }
};
} // namespace
