//===- LaneNumbers.cpp - What lanes compute of their numbers --------------===//
//
// Places in rows and in staging memory and numbers of slots follow from a lane's number by a few instructions. LLVM
// keeps those that are used behind a loop, and in its branches, in registers all the time, which a loop with products
// has no room for.
//
//===----------------------------------------------------------------------===//
#include "LaneNumbers.h"

#include "kvc/Dialect/Tile/IR/Lanes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/ROCDLDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kvc;

namespace {
/// What a number is computed of: what all lanes of a wave share, the lane's number besides, or anything.
enum class Source : uint8_t { Shared, Lane, Any };

class LaneNumbers {
public:
  LaneNumbers(Value thread, int64_t lanes, int64_t threads) : thread(thread), lanes(lanes), threads(threads) {}

  /// What ops from `first` to their block's end use of a lane's numbers that are computed in front of them is computed
  /// anew there.
  void rebuildAt(Operation *first) {
    ImplicitLocOpBuilder b(first->getLoc(), first);
    IRMapping rebuilt;
    for (OpOperand *use : usesFrom(first)) {
      use->set(rebuild(b, use->get(), rebuilt));
    }
  }

  /// The same in the branches of a loop where it is worth it: those that only compute are of tiles at an edge (masks,
  /// values that are cleared), others take more of such numbers than may stay in registers.
  void rebuildInBranches(scf::ForOp loop) {
    constexpr size_t few = 8;
    SmallVector<std::pair<scf::IfOp, size_t>> branches;
    loop.walk<WalkOrder::PreOrder>([&](scf::IfOp branch) {
      const bool onlyComputes = isMemoryEffectFree(branch);
      branches.push_back({branch, onlyComputes ? 0 : few});
      return onlyComputes ? WalkResult::skip() : WalkResult::advance();
    });
    for (auto [branch, most] : llvm::reverse(branches)) {
      for (Region &region : branch->getRegions()) {
        if (!region.empty() && countNumbers(region.front()) > most) {
          rebuildAt(&region.front().front());
          rebuiltBlocks.insert(&region.front());
        }
      }
    }
  }

  /// A wave's number, which LLVM does not always take for one that all lanes share, becomes such.
  void shareWave(arith::DivUIOp op) {
    if (sourceOf(op.getLhs()) == Source::Lane && isWave(op) && op.getType().isInteger(32)) {
      ImplicitLocOpBuilder b(op.getLoc(), op->getBlock(), std::next(op->getIterator()));
      Value shared = ROCDL::ReadfirstlaneOp::create(b, op.getType(), op.getResult());
      op.getResult().replaceAllUsesExcept(shared, shared.getDefiningOp());
      sources[shared] = Source::Shared;
    }
  }

private:
  /// Uses of what is computed of lanes' numbers in front of `first`, from there to the end of its block.
  SmallVector<OpOperand *> usesFrom(Operation *first) {
    Block *block = first->getBlock();
    auto isInFront = [&](Value value) {
      Operation *own = block->findAncestorOpInBlock(*value.getDefiningOp());
      return !own || own->isBeforeInBlock(first);
    };
    SmallVector<OpOperand *> uses;
    for (Operation &op : llvm::make_range(first->getIterator(), block->end())) {
      op.walk([&](Operation *user) {
        for (OpOperand &operand : user->getOpOperands()) {
          if (sourceOf(operand.get()) == Source::Lane && isInFront(operand.get())) {
            uses.push_back(&operand);
          }
        }
      });
    }
    return uses;
  }

  /// How many different numbers of lanes a block takes that are not computed anew in it.
  size_t countNumbers(Block &block) {
    llvm::SmallPtrSet<Value, 16> numbers;
    block.walk<WalkOrder::PreOrder>([&](Block *inner) {
      if (rebuiltBlocks.contains(inner)) {
        return WalkResult::skip();
      }
      for (Operation &op : *inner) {
        const bool isNumber = op.getNumResults() == 1 && sourceOf(op.getResult(0)) == Source::Lane;
        for (Value operand : op.getOperands()) {
          if (!isNumber && sourceOf(operand) == Source::Lane) {
            numbers.insert(operand);
          }
        }
      }
      return WalkResult::advance();
    });
    return numbers.size();
  }

  bool isWave(arith::DivUIOp op) const {
    const std::optional<int64_t> divisor = getConstantIntValue(op.getRhs());
    return divisor && *divisor % lanes == 0;
  }

  Source sourceOf(Value value) {
    auto [found, isNew] = sources.try_emplace(value, Source::Any);
    return isNew ? sources[value] = findSource(value) : found->second;
  }

  Source findSource(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op) {
      const bool isParameter = isa<func::FuncOp>(value.getParentBlock()->getParentOp());
      return isParameter ? Source::Shared : Source::Any;
    }
    if (isa<gpu::ThreadIdOp>(op)) {
      return Source::Lane;
    }
    if (op->getNumRegions()) {
      return Source::Any;
    }
    if (auto quotient = dyn_cast<arith::DivUIOp>(op); quotient && isWave(quotient)) {
      return Source::Shared;
    }
    Source source = Source::Shared;
    for (Value operand : op->getOperands()) {
      source = std::max(source, sourceOf(operand));
    }
    return source == Source::Lane && !isa<arith::ArithDialect>(op->getDialect()) ? Source::Any : source;
  }

  Value rebuild(ImplicitLocOpBuilder &b, Value value, IRMapping &rebuilt) {
    if (sourceOf(value) != Source::Lane || rebuilt.contains(value)) {
      return rebuilt.lookupOrDefault(value);
    }
    if (isThread(value)) {
      Value &known = rebuilt.contains(thread) ? hidden.back() : hidden.emplace_back(hide(b));
      rebuilt.map(thread, known);
      rebuilt.map(value, known);
      return known;
    }
    Operation *op = value.getDefiningOp();
    for (Value operand : op->getOperands()) {
      rebuild(b, operand, rebuilt);
    }
    b.clone(*op, rebuilt);
    return rebuilt.lookup(value);
  }

  bool isThread(Value value) const {
    return isa<gpu::ThreadIdOp>(value.getDefiningOp()) || llvm::is_contained(hidden, value);
  }

  /// The thread's number, but LLVM does not know that it is.
  Value hide(ImplicitLocOpBuilder &b) {
    Type word = b.getI32Type();
    Value known = ROCDL::ThreadIdXOp::create(b, word);
    Value copy = LLVM::InlineAsmOp::create(b, word, known, /*asm_string=*/"", "=v,0", /*has_side_effects=*/true,
                                           /*is_align_stack=*/false, LLVM::tailcallkind::TailCallKind::None,
                                           LLVM::AsmDialectAttr(), ArrayAttr())
                     .getResult(0);
    // Small numbers have shorter products.
    const auto mask = static_cast<int32_t>(llvm::PowerOf2Ceil(threads) - 1);
    Value number = arith::AndIOp::create(b, copy, arith::ConstantOp::create(b, b.getI32IntegerAttr(mask)));
    Value result = arith::IndexCastUIOp::create(b, b.getIndexType(), number);
    sources[result] = Source::Lane;
    return result;
  }

  Value thread;
  const int64_t lanes, threads;
  llvm::DenseMap<Value, Source> sources;
  SmallVector<Value> hidden;
  llvm::SmallPtrSet<Block *, 16> rebuiltBlocks;
};
} // namespace

void amd::rebuildLaneNumbers(func::FuncOp function, const TeamFacts &facts) {
  gpu::ThreadIdOp thread;
  SmallVector<scf::ForOp> loops;
  function.walk([&](Operation *op) {
    if (auto id = dyn_cast<gpu::ThreadIdOp>(op); id && !thread) {
      thread = id;
    }
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      const bool multiplies = loop->walk([](tile::LaneMmaOp) { return WalkResult::interrupt(); }).wasInterrupted();
      if (multiplies) {
        loops.push_back(loop);
      }
    }
  });
  auto threads = function->getAttrOfType<IntegerAttr>(tile::TileDialect::teamAttr);
  if (!thread || !threads) {
    return;
  }
  LaneNumbers numbers(thread, facts.lanes, threads.getInt());
  function.walk([&](arith::DivUIOp op) { numbers.shareWave(op); });
  for (scf::ForOp loop : loops) {
    numbers.rebuildAt(loop->getNextNode());
    numbers.rebuildInBranches(loop);
  }
}
