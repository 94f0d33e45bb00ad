//===- Mutants.cpp - Compilers and oracles that are wrong -----------------===//
#include "Mutants.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kvc;
using namespace kvc::differential;

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// Applies `change` to all operations of a kind that are on vectors; it says whether it changed one.
template <typename Op> static int64_t changeAll(Operation *kernel, llvm::function_ref<bool(Op)> change) {
  int64_t count = 0;
  SmallVector<Op> ops;
  kernel->walk([&](Op op) { ops.push_back(op); });
  for (Op op : ops) {
    count += change(op);
  }
  return count;
}

static bool isVector(Operation *op) { return isa<VectorType>(op->getResult(0).getType()); }

/// Masks of scores that are chosen by a comparison of positions let everything through.
static int64_t dropMasks(Operation *kernel) {
  return changeAll<arith::SelectOp>(kernel, [](arith::SelectOp op) {
    if (!isVector(op) || !isa<FloatType>(getElementTypeOrSelf(op.getType()))) {
      return false;
    }
    op.replaceAllUsesWith(op.getTrueValue());
    return true;
  });
}

static int64_t swapSubtractions(Operation *kernel) {
  return changeAll<arith::SubFOp>(kernel, [](arith::SubFOp op) {
    Value left = op.getLhs();
    op.getLhsMutable().assign(op.getRhs());
    op.getRhsMutable().assign(left);
    return true;
  });
}

static int64_t flipMaximum(Operation *kernel) {
  return changeAll<arith::MaximumFOp>(
             kernel,
             [](arith::MaximumFOp op) {
               OpBuilder b(op);
               op.replaceAllUsesWith(arith::MinimumFOp::create(b, op.getLoc(), op.getLhs(), op.getRhs()).getResult());
               return true;
             }) +
         changeAll<arith::MaxNumFOp>(kernel, [](arith::MaxNumFOp op) {
           OpBuilder b(op);
           op.replaceAllUsesWith(arith::MinNumFOp::create(b, op.getLoc(), op.getLhs(), op.getRhs()).getResult());
           return true;
         });
}

/// Whole numbers that index arithmetic adds: off by one.
static int64_t shiftComparisons(Operation *kernel) {
  return changeAll<arith::CmpIOp>(kernel, [](arith::CmpIOp op) {
    using P = arith::CmpIPredicate;
    const P from = op.getPredicate();
    const P to = from == P::slt ? P::sle : from == P::sle ? P::slt : from == P::ult ? P::ule : from;
    op.setPredicate(to);
    return to != from;
  });
}

/// Codes become floating point without their sign or zero: products and sums of dequantisation lose the second operand.
static int64_t dropMultiplyAdd(Operation *kernel) {
  return changeAll<arith::AddFOp>(kernel,
                                  [](arith::AddFOp op) {
                                    if (!isVector(op)) {
                                      return false;
                                    }
                                    op.replaceAllUsesWith(op.getLhs());
                                    return true;
                                  }) +
         changeAll<vector::FMAOp>(kernel, [](vector::FMAOp op) {
           op.replaceAllUsesWith(op.getAcc());
           return true;
         });
}

static constexpr KernelMutant kernelMutants[] = {
    {"drop-mask", "selects of floating point vectors take their first operand", dropMasks},
    {"swap-subtraction", "a - b becomes b - a", swapSubtractions},
    {"flip-maximum", "maxima become minima", flipMaximum},
    {"shift-comparison", "< and <= are exchanged", shiftComparisons},
    {"drop-addition", "sums keep one operand", dropMultiplyAdd},
};

ArrayRef<KernelMutant> differential::getKernelMutants() { return kernelMutants; }

std::optional<Mutation> differential::getKernelMutation(StringRef name, std::string kernel) {
  for (const KernelMutant &mutant : kernelMutants) {
    if (mutant.name == name) {
      return [&mutant, kernel](ModuleOp module) {
        for (auto function : module.getOps<func::FuncOp>()) {
          if (function->hasAttr("tile.kernel") && function.getName().contains(kernel)) {
            mutant.mutate(function);
          }
        }
      };
    }
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Oracles
//===----------------------------------------------------------------------===//

namespace {
/// Evaluates operations of one kind after a change.
template <typename Op, void (*change)(Op)> struct ChangedEvaluator : reference::Evaluator {
  LogicalResult eval(Operation *op, ArrayRef<reference::Datum> operands,
                     SmallVectorImpl<reference::Datum> &results) override {
    auto wanted = dyn_cast<Op>(op);
    if (!wanted) {
      return Evaluator::eval(op, operands, results);
    }
    // The oracle finds operands by their values, so the clone stays in the module while it is evaluated.
    OpBuilder b(op);
    auto copy = cast<Op>(b.clone(*op));
    change(copy);
    LogicalResult result = Evaluator::eval(copy, operands, results);
    copy->erase();
    return result;
  }
};

void dropCausal(kvcache::AttentionOp op) { op.setCausal(false); }
void changeScale(kvcache::AttentionOp op) {
  op.setScaleAttr(FloatAttr::get(op.getScaleAttr().getType(), op.getScale().convertToFloat() * 1.01));
}
void exportOtherPlane(kvcache::ExportOp op) {
  op.setPlane(op.getPlane() == kvcache::Plane::K ? kvcache::Plane::V : kvcache::Plane::K);
}

template <typename Op, void (*change)(Op)> std::unique_ptr<reference::Evaluator> make() {
  return std::make_unique<ChangedEvaluator<Op, change>>();
}
} // namespace

static constexpr OracleMutant oracleMutants[] = {
    {"drop-causal", "attention is not causal", make<kvcache::AttentionOp, dropCausal>},
    {"change-scale", "scores are 1 % larger", make<kvcache::AttentionOp, changeScale>},
    {"exchange-planes", "export gives V for K", make<kvcache::ExportOp, exportOtherPlane>},
};

ArrayRef<OracleMutant> differential::getOracleMutants() { return oracleMutants; }

std::unique_ptr<reference::Evaluator> differential::createOracle(StringRef mutant) {
  for (const OracleMutant &known : oracleMutants) {
    if (known.name == mutant) {
      return known.create();
    }
  }
  return std::make_unique<reference::Evaluator>();
}
