//===- OpReductions.cpp - Reductions of functions and operations ---------===//
#include "kvc/Dialect/KVCache/IR/KVCache.h"
#include "kvc/Reducer/Reducer.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"

using namespace mlir;
using namespace kvc::kvcache;
using namespace kvc::reducer;

/// Runs `change` on the candidate number `index` of those that a walk over ops of one kind gives. `candidates` says how
/// many an op has.
template <typename OpTy, typename Count, typename Change>
static bool applyNth(ModuleOp module, int64_t index, Count &&candidates, Change &&change) {
  OpTy chosen{};
  module.walk([&](OpTy op) {
    int64_t count = candidates(op);
    if (index < count) {
      chosen = op;
      return WalkResult::interrupt();
    }
    index -= count;
    return WalkResult::advance();
  });
  if (!chosen) {
    return false;
  }
  change(chosen, index);
  return true;
}

static bool isUnused(func::FuncOp function) {
  return SymbolTable::symbolKnownUseEmpty(function, function->getParentOfType<ModuleOp>());
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

static bool dropFunction(ModuleOp module, int64_t index) {
  return applyNth<func::FuncOp>(
      module, index, [](func::FuncOp op) { return isUnused(op); }, [](func::FuncOp op, int64_t) { op.erase(); });
}

static bool dropReturn(ModuleOp module, int64_t index) {
  return applyNth<func::FuncOp>(
      module, index, [](func::FuncOp op) { return isUnused(op) ? static_cast<int64_t>(op.getNumResults()) : 0; },
      [](func::FuncOp op, int64_t result) {
        op.walk([&](func::ReturnOp ret) { ret.getOperandsMutable().erase(result); });
        llvm::BitVector dropped(op.getNumResults());
        dropped.set(result);
        (void)op.eraseResults(dropped);
      });
}

static bool dropArgument(ModuleOp module, int64_t index) {
  auto unusedArguments = [](func::FuncOp op) {
    SmallVector<unsigned> unused;
    for (BlockArgument argument : op.getArguments()) {
      if (isUnused(op) && argument.use_empty()) {
        unused.push_back(argument.getArgNumber());
      }
    }
    return unused;
  };
  return applyNth<func::FuncOp>(
      module, index, [&](func::FuncOp op) { return static_cast<int64_t>(unusedArguments(op).size()); },
      [&](func::FuncOp op, int64_t which) {
        llvm::BitVector dropped(op.getNumArguments());
        dropped.set(unusedArguments(op)[which]);
        (void)op.eraseArguments(dropped);
      });
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

static bool eraseUnusedOp(ModuleOp module, int64_t index) {
  return applyNth<Operation *>(
      module, index,
      [](Operation *op) {
        return !isa<ModuleOp>(op) && !op->hasTrait<OpTrait::IsTerminator>() && isOpTriviallyDead(op);
      },
      [](Operation *op, int64_t) { op->erase(); });
}

/// An op whose result has the type of an operand: the operand instead.
static bool bypassOp(ModuleOp module, int64_t index) {
  auto sources = [](Operation *op) {
    SmallVector<Value> found;
    if (op->getNumResults() == 1 && !op->use_empty()) {
      for (Value operand : op->getOperands()) {
        if (operand.getType() == op->getResult(0).getType()) {
          found.push_back(operand);
        }
      }
    }
    return found;
  };
  return applyNth<Operation *>(
      module, index, [&](Operation *op) { return static_cast<int64_t>(sources(op).size()); },
      [&](Operation *op, int64_t which) {
        op->getResult(0).replaceAllUsesWith(sources(op)[which]);
        op->erase();
      });
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

static bool dropSegment(ModuleOp module, int64_t index) {
  return applyNth<AttentionOp>(
      module, index,
      [](AttentionOp op) { return op.getCaches().size() > 1 ? static_cast<int64_t>(op.getCaches().size()) : 0; },
      [](AttentionOp op, int64_t dropped) {
        SmallVector<Value> selections;
        SmallVector<int64_t> segments;
        for (int64_t i = 0, e = op.getCaches().size(); i < e; ++i) {
          if (Value selection = op.getSelectionOf(i); selection && i != dropped) {
            selections.push_back(selection);
            segments.push_back(i - (i > dropped));
          }
        }
        op.getCachesMutable().erase(dropped);
        op.getSelectionsMutable().assign(selections);
        op.setSelectedSegments(segments);
        if (segments.empty()) {
          op.removeSelectedSegmentsAttr();
        }
      });
}

static bool dropScoreRegion(ModuleOp module, int64_t index) {
  return applyNth<AttentionOp>(
      module, index, [](AttentionOp op) { return !op.getScore().empty(); },
      [](AttentionOp op, int64_t) {
        op.getScore().front().erase();
        op.getCapturesMutable().clear();
      });
}

/// What restricts or extends an attention, each to be taken away alone.
static SmallVector<std::function<void()>> masksOf(AttentionOp op) {
  SmallVector<std::function<void()>> drops;
  if (op.getCausal()) {
    drops.push_back([op]() mutable { op.setCausal(false); });
  }
  if (op.getSinksAttr()) {
    drops.push_back([op]() mutable { op.removeSinksAttr(); });
  } else if (op.getWindowAttr()) {
    drops.push_back([op]() mutable { op.removeWindowAttr(); });
  }
  if (op.getTreeMask()) {
    drops.push_back([op]() mutable { op.getTreeMaskMutable().clear(); });
  }
  if (op.getSinkLogits()) {
    drops.push_back([op]() mutable { op.getSinkLogitsMutable().clear(); });
  }
  if (!op.getSelections().empty()) {
    drops.push_back([op]() mutable {
      op.getSelectionsMutable().clear();
      op.removeSelectedSegmentsAttr();
    });
  }
  if (op.getStatRowsAttr()) {
    drops.push_back([op]() mutable { op.removeStatRowsAttr(); });
  }
  return drops;
}

static bool dropMask(ModuleOp module, int64_t index) {
  return applyNth<AttentionOp>(
      module, index, [](AttentionOp op) { return static_cast<int64_t>(masksOf(op).size()); },
      [](AttentionOp op, int64_t which) { masksOf(op)[which](); });
}

/// A captured value that the score region does not use.
static bool dropCapture(ModuleOp module, int64_t index) {
  auto unused = [](AttentionOp op) {
    SmallVector<unsigned> found;
    if (!op.getScore().empty()) {
      Block &block = op.getScore().front();
      unsigned fixed = block.getNumArguments() - op.getCaptures().size();
      for (unsigned i = 0; i < op.getCaptures().size(); ++i) {
        if (block.getArgument(fixed + i).use_empty()) {
          found.push_back(i);
        }
      }
    }
    return found;
  };
  return applyNth<AttentionOp>(
      module, index, [&](AttentionOp op) { return static_cast<int64_t>(unused(op).size()); },
      [&](AttentionOp op, int64_t which) {
        unsigned dropped = unused(op)[which];
        Block &block = op.getScore().front();
        block.eraseArgument(block.getNumArguments() - op.getCaptures().size() + dropped);
        op.getCapturesMutable().erase(dropped);
      });
}

/// An unused result of an attention that has others.
static bool dropResult(ModuleOp module, int64_t index) {
  auto unused = [](AttentionOp op) {
    SmallVector<unsigned> found;
    for (OpResult result : llvm::reverse(op->getResults())) {
      if (op->getNumResults() > 1 && result.use_empty()) {
        found.push_back(result.getResultNumber());
      }
    }
    return found;
  };
  return applyNth<AttentionOp>(
      module, index, [&](AttentionOp op) { return static_cast<int64_t>(unused(op).size()); },
      [&](AttentionOp op, int64_t which) {
        unsigned dropped = unused(op)[which];
        OpBuilder b(op);
        SmallVector<Type> types(op->getResultTypes());
        types.erase(types.begin() + dropped);
        SmallVector<AttentionResult> kinds = op.getReturnKinds();
        bool stats = kinds[dropped] == AttentionResult::Stats;
        kinds.erase(kinds.begin() + dropped);
        Operation *raw =
            Operation::create(op.getLoc(), op->getName(), types, op->getOperands(), op->getDiscardableAttrDictionary(),
                              op->getPropertiesStorage(), BlockRange(), op->getNumRegions());
        b.insert(raw);
        auto kept = cast<AttentionOp>(raw);
        kept.getScore().takeBody(op.getScore());
        kept.setReturnsAttr(b.getArrayAttr(llvm::map_to_vector(
            kinds, [&](AttentionResult kind) -> Attribute { return AttentionResultAttr::get(b.getContext(), kind); })));
        if (kinds == SmallVector<AttentionResult>{AttentionResult::Out}) {
          kept.removeReturnsAttr();
        }
        if (stats) {
          kept.removeStatAttr();
          kept.removeStatRowsAttr();
        }
        for (unsigned from = 0, to = 0; from < op->getNumResults(); ++from) {
          if (from != dropped) {
            op->getResult(from).replaceAllUsesWith(raw->getResult(to++));
          }
        }
        op.erase();
      });
}

/// Lowers a known integer attribute of an op: windows, budgets, k.
static bool shrinkNumber(ModuleOp module, int64_t index) {
  auto numbers = [](Operation *op) {
    SmallVector<NamedAttribute> found;
    if (isa_and_nonnull<KVCacheDialect>(op->getDialect())) {
      for (NamedAttribute attr : op->getAttrs()) {
        if (auto number = dyn_cast<IntegerAttr>(attr.getValue());
            number && number.getType().isInteger(64) && number.getInt() > 1) {
          found.push_back(attr);
        }
      }
    }
    return found;
  };
  return applyNth<Operation *>(
      module, index, [&](Operation *op) { return static_cast<int64_t>(numbers(op).size()); },
      [&](Operation *op, int64_t which) {
        NamedAttribute attr = numbers(op)[which];
        auto number = cast<IntegerAttr>(attr.getValue());
        op->setAttr(attr.getName(), IntegerAttr::get(number.getType(), number.getInt() / 2));
      });
}

ArrayRef<Reduction> kvc::reducer::getReductions() {
  static constexpr Reduction reductions[] = {
      {"drop-function", dropFunction}, {"drop-return", dropReturn},     {"erase-unused-op", eraseUnusedOp},
      {"bypass-op", bypassOp},         {"drop-segment", dropSegment},   {"drop-score-region", dropScoreRegion},
      {"drop-mask", dropMask},         {"drop-capture", dropCapture},   {"drop-result", dropResult},
      {"shrink-number", shrinkNumber}, {"drop-argument", dropArgument},
  };
  return reductions;
}
