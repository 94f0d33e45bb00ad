//===- InsertCopies.cpp - Value semantics over updates in place -----------===//
#include "kvc/Dialect/Tile/Transforms/Passes.h"

#include "kvc/Dialect/Tile/IR/Kernels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/SymbolTable.h"

namespace kvc {
#define GEN_PASS_DEF_INSERTCOPIESPASS
#include "kvc/Dialect/Tile/Transforms/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;
using kvc::kvcache::CacheType;

/// The operands that `op` updates, each with the result that is its new value.
static SmallVector<std::pair<OpOperand *, Value>> getUpdates(Operation *op) {
  SmallVector<std::pair<OpOperand *, Value>> updates;
  if (auto dispatch = dyn_cast<tile::DispatchOp>(op)) {
    for (auto [operand, result] : llvm::zip_equal(dispatch.getOutputsMutable(), dispatch.getResults())) {
      updates.push_back({&operand, result});
    }
  } else if (isa<tile::ReserveOp, tile::ReserveLengthsOp, tile::ReleaseOp, kvcache::ForkOp>(op)) {
    for (OpOperand &operand : op->getOpOperands()) {
      if (isa<CacheType>(operand.get().getType())) {
        updates.push_back({&operand, op->getResult(0)});
      }
    }
  }
  return updates;
}

/// The tensor whose memory an op of the tensor dialect shares with its result; null when there is none.
static Value getViewSource(Operation *op) {
  if (isa_and_nonnull<tensor::CastOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::ExtractSliceOp>(op)) {
    return op->getOperand(0);
  }
  return {};
}

namespace {
struct InsertCopiesPass : kvc::impl::InsertCopiesPassBase<InsertCopiesPass> {
  void runOnOperation() override {
    SmallVector<func::FuncOp> hosts;
    for (func::FuncOp function : tile::hostFunctionsOf(getOperation())) {
      if (!function.isExternal()) {
        hosts.push_back(function);
      }
    }
    for (func::FuncOp host : hosts) {
      if (!host.getBody().hasOneBlock()) {
        host.emitOpError() << "expects a straight line of operations in a host function, but got branches";
        return signalPassFailure();
      }
      // Operands change on the way, results do not: ops are visited in order.
      for (Operation &op : llvm::make_early_inc_range(host.getBody().front())) {
        for (auto [operand, result] : getUpdates(&op)) {
          if (isa<CacheType>(operand->get().getType())) {
            copyCache(*operand, result);
          } else if (failed(copyTensor(*operand, result))) {
            return signalPassFailure();
          }
        }
      }
    }
  }

  static bool isNeededAfter(Value value, OpOperand &update) {
    Operation *op = update.getOwner();
    return llvm::any_of(value.getUses(), [&](OpOperand &use) {
      return &use != &update && (use.getOwner() == op || op->isBeforeInBlock(use.getOwner()));
    });
  }

  /// Whether some later value of the same storage is a result of the function.
  static bool isReturned(Value cache) {
    for (OpOperand &use : cache.getUses()) {
      if (isa<func::ReturnOp>(use.getOwner())) {
        return true;
      }
      for (auto [operand, result] : getUpdates(use.getOwner())) {
        if (operand == &use && isReturned(result)) {
          return true;
        }
      }
    }
    return false;
  }

  static void copyCache(OpOperand &operand, Value result) {
    Value cache = operand.get();
    bool keepsArgument = isa<BlockArgument>(cache) && !isReturned(result);
    if (!keepsArgument && !isNeededAfter(cache, operand)) {
      return;
    }
    OpBuilder b(operand.getOwner());
    operand.set(tile::CloneOp::create(b, operand.getOwner()->getLoc(), cache.getType(), cache));
  }

  /// All values that share memory with `root`, which is not a view itself.
  static void collectAliases(Value root, SmallVectorImpl<Value> &aliases) {
    aliases.push_back(root);
    for (OpOperand &use : root.getUses()) {
      if (getViewSource(use.getOwner()) == root) {
        collectAliases(use.getOwner()->getResult(0), aliases);
      }
      for (auto [operand, result] : getUpdates(use.getOwner())) {
        if (operand == &use) {
          collectAliases(result, aliases);
        }
      }
    }
  }

  LogicalResult copyTensor(OpOperand &operand, Value result) {
    Value tensor = operand.get(), root = tensor;
    SmallVector<Operation *> views;
    // Through views and earlier updates to where the memory comes from.
    bool updated = false;
    while (Operation *op = root.getDefiningOp()) {
      if (Value source = getViewSource(op)) {
        views.push_back(op);
        root = source;
        continue;
      }
      auto dispatch = dyn_cast<tile::DispatchOp>(op);
      if (!dispatch) {
        break;
      }
      updated = true;
      root = dispatch.getOutputs()[cast<OpResult>(root).getResultNumber()];
    }
    Operation *owner = operand.getOwner();
    ImplicitLocOpBuilder b(owner->getLoc(), owner);
    auto empty = root.getDefiningOp<tensor::EmptyOp>();
    if (empty && !updated) {
      // Nothing has been written there: if anyone else has it, a fresh one will do.
      SmallVector<Value> aliases;
      collectAliases(root, aliases);
      bool shared = llvm::any_of(aliases, [&](Value alias) {
        return llvm::any_of(alias.getUses(), [&](OpOperand &use) {
          return &use != &operand && !getViewSource(use.getOwner()) && !comesFrom(use.get(), result);
        });
      });
      if (shared) {
        IRMapping map;
        map.map(root, b.clone(*empty)->getResult(0));
        for (Operation *view : llvm::reverse(views)) {
          b.clone(*view, map);
        }
        operand.set(map.lookup(tensor));
      }
      return success();
    }
    bool owned = root.getDefiningOp<tensor::EmptyOp>();
    if (owned) {
      SmallVector<Value> aliases;
      collectAliases(root, aliases);
      if (llvm::none_of(aliases, [&](Value alias) {
            return !comesFrom(alias, result) && isNeededAfter(alias, operand) && !isOnlyView(alias, operand, result);
          })) {
        return success();
      }
    }
    return insertCopy(operand, b);
  }

  /// Whether `value` is `result` or made from it by views and updates.
  static bool comesFrom(Value value, Value result) {
    while (value != result) {
      Operation *op = value.getDefiningOp();
      Value source = op ? getViewSource(op) : Value();
      if (auto dispatch = dyn_cast_or_null<tile::DispatchOp>(op)) {
        source = dispatch.getOutputs()[cast<OpResult>(value).getResultNumber()];
      }
      if (!source) {
        return false;
      }
      value = source;
    }
    return true;
  }

  /// Whether all later uses of `alias` only make views, whose uses are looked at themselves.
  static bool isOnlyView(Value alias, OpOperand &update, Value result) {
    Operation *op = update.getOwner();
    return llvm::all_of(alias.getUses(), [&](OpOperand &use) {
      return &use == &update || (use.getOwner() != op && use.getOwner()->isBeforeInBlock(op)) ||
             getViewSource(use.getOwner());
    });
  }

  LogicalResult insertCopy(OpOperand &operand, ImplicitLocOpBuilder &b) {
    auto type = dyn_cast<RankedTensorType>(operand.get().getType());
    if (!type || type.getEncoding()) {
      return operand.getOwner()->emitOpError()
             << "expects outputs that can be copied, but got " << operand.get().getType();
    }
    SmallVector<Value> sizes;
    for (int64_t i = 0; i < type.getRank(); ++i) {
      if (type.isDynamicDim(i)) {
        sizes.push_back(tensor::DimOp::create(b, operand.get(), i));
      }
    }
    Value target = tensor::EmptyOp::create(b, type.getShape(), type.getElementType(), sizes);
    Value items = type.getRank() == 0 ? Value(arith::ConstantIndexOp::create(b, 1))
                                      : Value(tensor::DimOp::create(b, operand.get(), 0));
    func::FuncOp kernel = makeCopyKernel(type);
    auto dispatch =
        tile::DispatchOp::create(b, FlatSymbolRefAttr::get(kernel.getSymNameAttr()), items, operand.get(), target);
    operand.set(dispatch.getResult(0));
    return success();
  }

  /// A kernel that copies slice `item` of the first dimension. kvc-deduplicate-kernels merges equal ones.
  func::FuncOp makeCopyKernel(RankedTensorType type) {
    ModuleOp module = getOperation();
    ImplicitLocOpBuilder b(module.getLoc(), &getContext());
    auto memref = MemRefType::get(type.getShape(), type.getElementType());
    b.setInsertionPointToEnd(module.getBody());
    auto kernel = func::FuncOp::create(b, "copy", b.getFunctionType({memref, memref, b.getIndexType()}, {}));
    kernel.setPrivate();
    kernel->setAttr(tile::TileDialect::kernelAttr, b.getUnitAttr());
    SymbolTable(module).insert(kernel);
    b.setInsertionPointToStart(kernel.addEntryBlock());
    Value source = kernel.getArgument(0), target = kernel.getArgument(1);
    Value zero = arith::ConstantIndexOp::create(b, 0), one = arith::ConstantIndexOp::create(b, 1);
    SmallVector<Value> indices;
    if (type.getRank() != 0) {
      indices.push_back(kernel.getArgument(2));
    }
    for (int64_t i = 1; i < type.getRank(); ++i) {
      auto loop = scf::ForOp::create(b, zero, memref::DimOp::create(b, source, i), one);
      indices.push_back(loop.getInductionVar());
      b.setInsertionPointToStart(loop.getBody());
    }
    memref::StoreOp::create(b, memref::LoadOp::create(b, source, indices), target, indices);
    b.setInsertionPointToEnd(&kernel.getBody().front());
    func::ReturnOp::create(b);
    return kernel;
  }
};
} // namespace
