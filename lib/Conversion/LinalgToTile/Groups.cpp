//===- Groups.cpp - Which computations share a kernel ---------------------===//
#include "Groups.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace kvc;

SmallVector<Operation *> Group::ops() const {
  SmallVector<Operation *> out;
  for (const LinearSection &section : sections) {
    llvm::append_range(out, section.linears);
    llvm::append_range(out, section.epilogue);
  }
  llvm::append_range(out, rowOps);
  return out;
}

bool kvc::isLinear(linalg::LinalgOp op) {
  if (op.getNumLoops() != 3 || op.getNumDpsInputs() != 2 || op.getNumDpsInits() != 1 || !op.hasPureTensorSemantics() ||
      !linalg::isaContractionOpInterface(op)) {
    return false;
  }
  auto map = [&](ArrayRef<unsigned> results) {
    SmallVector<AffineExpr> exprs;
    for (unsigned dim : results) {
      exprs.push_back(getAffineDimExpr(dim, op.getContext()));
    }
    return AffineMap::get(3, 0, exprs, op.getContext());
  };
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  auto weight = dyn_cast<RankedTensorType>(op.getDpsInputOperand(1)->get().getType());
  bool f32 = llvm::all_of(op->getOperandTypes(), [](Type type) { return getElementTypeOrSelf(type).isF32(); });
  return f32 && weight && weight.hasStaticShape() && maps[0] == map({0, 2}) && maps[1] == map({1, 2}) &&
         maps[2] == map({0, 1});
}

bool kvc::isOverRows(linalg::GenericOp op) {
  if (op.getNumLoops() == 0 || op.getIteratorTypesArray()[0] != utils::IteratorType::parallel) {
    return false;
  }
  AffineExpr row = getAffineDimExpr(0, op.getContext());
  for (OpOperand &operand : op->getOpOperands()) {
    AffineMap map = op.getMatchingIndexingMap(&operand);
    for (AffineExpr result : map.getResults()) {
      if (result != row && result.isFunctionOfDim(0)) {
        return false;
      }
    }
    if (llvm::count(map.getResults(), row) > 1 ||
        (op.isDpsInit(&operand) && (map.getNumResults() == 0 || map.getResult(0) != row))) {
      return false;
    }
  }
  return true;
}

InitialValue kvc::getInitialValue(Value init) {
  if (auto fill = init.getDefiningOp<linalg::FillOp>()) {
    return {fill.getInputs()[0], Value()};
  }
  return {Value(), init.getDefiningOp<tensor::EmptyOp>() ? Value() : init};
}

llvm::SetVector<Value> kvc::getInputs(Operation *op) {
  llvm::SetVector<Value> inputs(op->operand_begin(), op->operand_end());
  getUsedValuesDefinedAbove(op->getRegions(), inputs);
  return inputs;
}

namespace {

class Former {
public:
  explicit Former(Block &block) : block(block) {}

  SmallVector<Group> run() {
    for (Operation &op : block) {
      auto linalgOp = dyn_cast<linalg::LinalgOp>(op);
      if (!linalgOp || isa<linalg::FillOp>(op)) {
        continue;
      }
      Group group;
      if (isLinear(linalgOp)) {
        group.x = linalgOp.getDpsInputOperand(0)->get();
        group.sections.push_back({{linalgOp}, {}});
      } else {
        group.rowOps.push_back(cast<linalg::GenericOp>(op));
      }
      groupOf[&op] = groups.size();
      groups.push_back(std::move(group));
    }
    for (size_t i = 0; i < groups.size(); ++i) {
      fuseEpilogue(i);
    }
    mergeSameX();
    for (size_t i = 0; i < groups.size(); ++i) {
      joinRows(i);
    }
    llvm::erase_if(groups, [](const Group &group) { return group.sections.empty() && group.rowOps.empty(); });
    return std::move(groups);
  }

private:
  std::optional<size_t> groupDefining(Value value) {
    auto it = groupOf.find(value.getDefiningOp());
    return value.getDefiningOp() && it != groupOf.end() ? std::optional(it->second) : std::nullopt;
  }

  /// A value of group `from` reaches group `to`; with `direct` false, only ways through other operations count.
  bool reaches(size_t from, size_t to, bool direct) {
    llvm::SmallPtrSet<Operation *, 32> seen;
    SmallVector<Operation *> work;
    for (Operation *op : groups[to].ops()) {
      seen.insert(op);
    }
    auto visitInputs = [&](Operation *op, bool first) {
      for (Value input : getInputs(op)) {
        Operation *def = input.getDefiningOp();
        if (!def || def->getBlock() != &block || seen.contains(def)) {
          continue;
        }
        if (groupDefining(input) == from) {
          if (!first || direct) {
            return true;
          }
          continue;
        }
        seen.insert(def);
        work.push_back(def);
      }
      return false;
    };
    for (Operation *op : groups[to].ops()) {
      if (visitInputs(op, true)) {
        return true;
      }
    }
    while (!work.empty()) {
      Operation *op = work.pop_back_val();
      // A group runs as one: what any of its operations needs, all of them need.
      auto it = groupOf.find(op);
      SmallVector<Operation *> together = it == groupOf.end() ? SmallVector<Operation *>{op} : groups[it->second].ops();
      for (Operation *member : together) {
        seen.insert(member);
        if (visitInputs(member, false)) {
          return true;
        }
      }
    }
    return false;
  }

  /// Moves everything of `from` into `into`.
  void absorb(size_t into, size_t from) {
    for (Operation *op : groups[from].ops()) {
      groupOf[op] = into;
    }
    llvm::append_range(groups[into].sections, groups[from].sections);
    llvm::append_range(groups[into].rowOps, groups[from].rowOps);
    groups[from] = Group();
  }

  /// The operation computes element (m, n) of its results from elements (m, n), (m), (n) of its operands.
  static bool isElementwise(linalg::GenericOp op) {
    if (op.getNumLoops() != 2 || op.getNumParallelLoops() != 2) {
      return false;
    }
    for (OpOperand &operand : op->getOpOperands()) {
      AffineMap map = op.getMatchingIndexingMap(&operand);
      if (op.isDpsInit(&operand)) {
        if (!map.isIdentity() || op.payloadUsesValueFromOperand(&operand)) {
          return false;
        }
      } else if (!map.isProjectedPermutation() || (map.getNumResults() == 2 && !map.isIdentity())) {
        return false;
      }
    }
    return llvm::all_of(op.getBody()->without_terminator(), [](Operation &inner) {
      return isa<linalg::IndexOp>(inner) || inner.hasTrait<OpTrait::ConstantLike>() ||
             OpTrait::hasElementwiseMappableTraits(&inner);
    });
  }

  void fuseEpilogue(size_t index) {
    if (groups[index].rowOps.size() != 1 || !isElementwise(groups[index].rowOps[0])) {
      return;
    }
    linalg::GenericOp op = groups[index].rowOps[0];
    SmallVector<size_t> producers;
    for (OpOperand *operand : op.getDpsInputOperands()) {
      std::optional<size_t> producer = groupDefining(operand->get());
      if (producer && groups[*producer].x && op.getMatchingIndexingMap(operand).isIdentity() &&
          !llvm::is_contained(producers, *producer)) {
        producers.push_back(*producer);
      }
    }
    // Of producers with different x, the last is the one whose results are still at hand.
    llvm::sort(producers, std::greater<>());
    while (!producers.empty()) {
      size_t into = producers.front();
      producers.erase(producers.begin());
      if (reaches(into, index, false)) {
        continue;
      }
      for (size_t other : producers) {
        if (groups[other].x == groups[into].x && !reaches(other, into, true) && !reaches(into, other, true) &&
            !reaches(other, index, false)) {
          LinearSection section = groups[other].sections[0];
          absorb(into, other);
          groups[into].sections.pop_back();
          llvm::append_range(groups[into].sections[0].linears, section.linears);
          llvm::append_range(groups[into].sections[0].epilogue, section.epilogue);
        }
      }
      llvm::sort(groups[into].sections[0].linears,
                 [](linalg::LinalgOp a, linalg::LinalgOp b) { return a->isBeforeInBlock(b); });
      groups[into].sections[0].epilogue.push_back(op);
      groups[index] = Group();
      groupOf[op] = into;
      return;
    }
  }

  void mergeSameX() {
    llvm::DenseMap<Value, SmallVector<size_t>> byX;
    for (size_t i = 0; i < groups.size(); ++i) {
      if (!groups[i].x) {
        continue;
      }
      SmallVector<size_t> &same = byX[groups[i].x];
      const size_t *into =
          llvm::find_if(same, [&](size_t other) { return !reaches(other, i, true) && !reaches(i, other, true); });
      if (into != same.end()) {
        absorb(*into, i);
      } else {
        same.push_back(i);
      }
    }
  }

  void joinRows(size_t index) {
    if (groups[index].rowOps.size() != 1 || !isOverRows(groups[index].rowOps[0])) {
      return;
    }
    linalg::GenericOp op = groups[index].rowOps[0];
    AffineExpr row = getAffineDimExpr(0, op.getContext());
    for (OpOperand *operand : op.getDpsInputOperands()) {
      std::optional<size_t> producer = groupDefining(operand->get());
      if (!producer || *producer == index || groups[*producer].rowOps.empty() ||
          !isOverRows(groups[*producer].rowOps[0]) || reaches(*producer, index, false)) {
        continue;
      }
      // Row i of the op needs only row i of what the group makes.
      bool rowToRow = llvm::all_of(getInputs(op), [&](Value value) {
        if (groupDefining(value) != producer) {
          return true;
        }
        SmallVector<OpOperand *> uses;
        for (OpOperand &use : op->getOpOperands()) {
          if (use.get() == value) {
            uses.push_back(&use);
          }
        }
        return !uses.empty() && llvm::all_of(uses, [&](OpOperand *use) {
          AffineMap map = op.getMatchingIndexingMap(use);
          return map.getNumResults() > 0 && map.getResult(0) == row;
        });
      });
      llvm::SetVector<Value> captured;
      getUsedValuesDefinedAbove(op->getRegions(), captured);
      bool capturesGroup = llvm::any_of(captured, [&](Value value) { return groupDefining(value) == producer; });
      if (rowToRow && !capturesGroup) {
        groups[*producer].rowOps.push_back(op);
        groups[index] = Group();
        groupOf[op] = *producer;
        return;
      }
    }
  }

  Block &block;
  SmallVector<Group> groups;
  llvm::DenseMap<Operation *, size_t> groupOf;
};

/// The tensor whose memory a result would have taken: its sizes exist before the group.
Value sizesOf(Value init) {
  if (auto fill = init.getDefiningOp<linalg::FillOp>()) {
    return fill.getOutputs()[0];
  }
  return init;
}

Value sizeOf(ImplicitLocOpBuilder &host, Value tensor, int64_t dim) {
  if (auto empty = tensor.getDefiningOp<tensor::EmptyOp>(); empty && empty.getType().isDynamicDim(dim)) {
    return empty.getDynamicSize(dim);
  }
  return host.createOrFold<tensor::DimOp>(tensor, dim);
}

} // namespace

SmallVector<Group> kvc::formGroups(Block &block) { return Former(block).run(); }

Value kvc::createOutput(ImplicitLocOpBuilder &host, Value init) {
  Value like = sizesOf(init);
  auto type = cast<RankedTensorType>(like.getType());
  SmallVector<Value> sizes;
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    if (type.isDynamicDim(dim)) {
      sizes.push_back(sizeOf(host, like, dim));
    }
  }
  return tensor::EmptyOp::create(host, type.getShape(), type.getElementType(), sizes);
}

Value kvc::createRowCount(ImplicitLocOpBuilder &host, Value init) { return sizeOf(host, sizesOf(init), 0); }

std::string kvc::getKernelName(const Group &group, StringRef fallback) {
  constexpr size_t maxNames = 3;
  SmallVector<StringRef> names;
  for (Operation *op : group.ops()) {
    auto origin = op->getAttrOfType<StringAttr>(originAttr);
    if (origin && !llvm::is_contained(names, origin.getValue()) && names.size() < maxNames) {
      names.push_back(origin.getValue());
    }
  }
  return names.empty() ? fallback.str() : llvm::join(names, "_");
}
