//===- Order.cpp - What stays in front of and behind products -------------===//
#include "Order.h"

#include "kvc/Dialect/Tile/IR/Lanes.h"
#include "kvc/Target/Atoms.h"
#include "kvc/Target/LLVM/TeamKernels.h"
#include "mlir/Dialect/LLVMIR/ROCDLDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;
using namespace kvc;

static bool isStaging(Value memory) { return cast<MemRefType>(memory.getType()).getMemorySpaceAsInt() == sharedSpace; }

/// Nothing may be moved across the place in front of `op`.
static void keepApart(Operation &op) {
  OpBuilder b(&op);
  ROCDL::SchedBarrier::create(b, op.getLoc(), b.getI32IntegerAttr(0));
}

void amd::keepReadsBehindProducts(func::FuncOp function) {
  function.walk([](Block *block) {
    bool isBehindProduct = false;
    for (Operation &op : *block) {
      auto read = dyn_cast<vector::LoadOp>(op);
      if (isa<tile::LaneMmaOp>(op)) {
        isBehindProduct = true;
      } else if (isBehindProduct && read && isStaging(read.getBase())) {
        keepApart(op);
        isBehindProduct = false;
      }
    }
  });
}

void amd::loadInBatches(func::FuncOp function) {
  // Registers of a batch: few enough for a loop's numbers beside them, enough for one wait to be of many loads.
  constexpr int64_t most = 64;
  auto isLoad = [](Operation &op) {
    auto load = dyn_cast<vector::LoadOp>(op);
    return load && load.getVectorType().getElementType().isF32() && !isStaging(load.getBase());
  };
  function.walk([&](Block *block) {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*block))) {
      if (!isLoad(op)) {
        continue;
      }
      Operation *to = op.getNextNode();
      while (isMemoryEffectFree(to) && !to->hasTrait<OpTrait::IsTerminator>() &&
             !llvm::is_contained(op.getUsers(), to)) {
        to = to->getNextNode();
      }
      if (llvm::is_contained(op.getUsers(), to)) {
        op.moveBefore(to);
      }
    }
    int64_t loaded = 0;
    for (Operation &op : *block) {
      if (!isLoad(op)) {
        continue;
      }
      loaded += cast<vector::LoadOp>(op).getVectorType().getNumElements();
      if (loaded > most) {
        keepApart(op);
        loaded = cast<vector::LoadOp>(op).getVectorType().getNumElements();
      }
    }
  });
}

/// Wait states that must lie between a matrix instruction and a read of its result.
static int64_t distanceOf(const MmaAtom &atom, const Target &target) {
  const int64_t productsOfPass = target.cpu == "gfx90a" ? 512 : 1024;
  return atom.m * atom.n * atom.k / productsOfPass + 3;
}

/// Takes the sums of products on by assembly that waits, at the builder's place: nothing that it stands for reads them
/// before, whatever is scheduled. It has an effect, so that it does not sink behind a branch: registers of sums that
/// are no longer needed may be written there, which has to keep away as well.
static void takeOnSums(ImplicitLocOpBuilder &b, ArrayRef<tile::LaneMmaOp> products, const Target &target,
                       function_ref<bool(OpOperand &)> isReplaced) {
  SmallVector<Value> sums;
  SmallVector<Type> types;
  std::string outputs, inputs, text;
  int64_t distance = 0;
  for (auto [number, constant] : llvm::enumerate(products)) {
    tile::LaneMmaOp product = constant;
    types.push_back(VectorType::get({static_cast<int64_t>(product->getNumResults())}, b.getF32Type()));
    sums.push_back(vector::FromElementsOp::create(b, types.back(), product->getResults()));
    outputs += "=v,";
    inputs += "," + std::to_string(number);
    distance = std::max(distance, distanceOf(*lookupMmaAtom(product.getAtom()), target));
  }
  for (; distance > 0; distance -= 8) {
    text += (text.empty() ? "s_nop " : "\n\ts_nop ") + std::to_string(std::min<int64_t>(distance, 8) - 1);
  }
  outputs.pop_back();
  Type type = types.size() == 1 ? types.front() : LLVM::LLVMStructType::getLiteral(b.getContext(), types);
  Value kept = LLVM::InlineAsmOp::create(b, type, sums, text, outputs + inputs, /*has_side_effects=*/true,
                                         /*is_align_stack=*/false, LLVM::tailcallkind::TailCallKind::None,
                                         LLVM::AsmDialectAttr(), ArrayAttr())
                   .getResult(0);
  for (auto [number, constant] : llvm::enumerate(products)) {
    tile::LaneMmaOp product = constant;
    Value all =
        products.size() == 1
            ? kept
            : LLVM::ExtractValueOp::create(b, kept, ArrayRef<int64_t>(static_cast<int64_t>(number))).getResult();
    for (auto [i, sum] : llvm::enumerate(product->getResults())) {
      Value one = vector::ExtractOp::create(b, all, static_cast<int64_t>(i));
      sum.replaceUsesWithIf(one, [&, joined = sums[number].getDefiningOp()](OpOperand &use) {
        return use.getOwner() != joined && isReplaced(use);
      });
    }
  }
}

/// What of a block is computed for a value.
static void collectSources(Value value, Block &block, llvm::SmallPtrSetImpl<Operation *> &sources) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getBlock() != &block || !sources.insert(op).second) {
    return;
  }
  for (Value operand : op->getOperands()) {
    collectSources(operand, block, sources);
  }
}

/// Keeps what reads sums behind a branch away from the products in front of it. LLVM 22 looks for them along one path
/// to each block, which is not always the shortest.
static void keepDistance(Block &block, const Target &target) {
  SmallVector<tile::LaneMmaOp> products;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (auto product = dyn_cast<tile::LaneMmaOp>(op)) {
      products.push_back(product);
    }
    auto branch = dyn_cast<scf::IfOp>(op);
    if (!branch || products.empty()) {
      continue;
    }
    llvm::SmallPtrSet<Operation *, 32> sources;
    collectSources(branch.getCondition(), block, sources);
    // What a loop carries on is read far behind.
    auto readsLater = [&](OpOperand &use) {
      Operation *user = block.findAncestorOpInBlock(*use.getOwner());
      return user && !branch->isBeforeInBlock(user) ? user == branch : user && !user->hasTrait<OpTrait::IsTerminator>();
    };
    Operation *last = products.back();
    auto isBehindProducts = [&](OpOperand &use) {
      Operation *user = block.findAncestorOpInBlock(*use.getOwner());
      return user && last->isBeforeInBlock(user) && !user->hasTrait<OpTrait::IsTerminator>();
    };
    auto isUsed = [](tile::LaneMmaOp product, function_ref<bool(OpOperand &)> matches) {
      return llvm::any_of(product->getResults(), [&](Value sum) {
        return llvm::any_of(sum.getUses(), [&](OpOperand &use) { return matches(use); });
      });
    };
    SmallVector<tile::LaneMmaOp> early, late;
    for (tile::LaneMmaOp product : products) {
      // What is read in front of the branch, but not for it, may be moved behind it.
      if (!sources.contains(product) &&
          isUsed(product, [&](OpOperand &use) { return isBehindProducts(use) && !readsLater(use); })) {
        early.push_back(product);
      } else if (isUsed(product, readsLater)) {
        late.push_back(product);
      }
    }
    products.clear();
    if (!early.empty()) {
      ImplicitLocOpBuilder b(last->getLoc(), last->getBlock(), std::next(last->getIterator()));
      takeOnSums(b, early, target, isBehindProducts);
    }
    if (!late.empty()) {
      ImplicitLocOpBuilder b(branch.getLoc(), branch);
      takeOnSums(b, late, target, readsLater);
    }
  }
}

void amd::keepSumsFromBranches(func::FuncOp function, const Target &target) {
  function.walk([&](Block *block) { keepDistance(*block, target); });
}
