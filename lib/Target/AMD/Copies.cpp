//===- Copies.cpp - Copies to LDS through registers -----------------------===//
//
// Copies stand in branches: past the end of a loop nothing is copied, tiles that are not full copy other rows. A branch
// becomes two: one that loads and gives what was loaded, where the copies stood, and one that stores it, later.
//
//===----------------------------------------------------------------------===//
#include "Copies.h"

#include "kvc/Dialect/Tile/IR/Lanes.h"
#include "kvc/Target/LLVM/TeamKernels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;
using namespace kvc;

namespace {
constexpr unsigned copyBytes = 16;

VectorType wordsOf(OpBuilder &b) { return VectorType::get({copyBytes / 4}, b.getI32Type()); }

Value zerosOf(ImplicitLocOpBuilder &b) { return arith::ConstantOp::create(b, b.getZeroAttr(wordsOf(b))); }

/// The bytes of a copy; zeros, and nothing is read, where it is not valid.
Value load(ImplicitLocOpBuilder &b, tile::CopyAsyncOp op, IRMapping &mapping) {
  auto read = [&](ImplicitLocOpBuilder &b) -> Value {
    Value from = addressOf(b, mapping.lookupOrDefault(op.getSource()), mapping.lookupOrDefault(op.getFrom()),
                           op.getFromDisplacement(), globalSpace);
    return LLVM::LoadOp::create(b, wordsOf(b), from, copyBytes);
  };
  if (!op.getValid()) {
    return read(b);
  }
  auto branch = scf::IfOp::create(b, TypeRange{wordsOf(b)}, mapping.lookupOrDefault(op.getValid()),
                                  /*withElseRegion=*/true);
  ImplicitLocOpBuilder yes = ImplicitLocOpBuilder::atBlockBegin(b.getLoc(), branch.thenBlock());
  scf::YieldOp::create(yes, read(yes));
  ImplicitLocOpBuilder no = ImplicitLocOpBuilder::atBlockBegin(b.getLoc(), branch.elseBlock());
  scf::YieldOp::create(no, zerosOf(no));
  return branch.getResult(0);
}

void store(ImplicitLocOpBuilder &b, tile::CopyAsyncOp op, Value bytes, IRMapping &mapping) {
  Value to = addressOf(b, mapping.lookupOrDefault(op.getTarget()), mapping.lookupOrDefault(op.getTo()),
                       op.getToDisplacement(), sharedSpace);
  LLVM::StoreOp::create(b, bytes, to, copyBytes);
}

/// Copies in a block and in the branches in it; of two sides of a branch, the side with more.
size_t copiesIn(Block &block) {
  size_t count = 0;
  for (Operation &op : block) {
    if (isa<tile::CopyAsyncOp>(op)) {
      ++count;
    } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
      size_t most = 0;
      for (Region &region : branch->getRegions()) {
        most = std::max(most, region.empty() ? 0 : copiesIn(region.front()));
      }
      count += most;
    }
  }
  return count;
}

bool hasCopies(Operation *op) {
  return op->walk([](tile::CopyAsyncOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

using Loaded = SmallVector<Value>;

/// Emits the ops of `block` in `b`'s place: copies load what is appended to `loaded`, or store what is next in it.
void emitBlock(ImplicitLocOpBuilder &b, Block &block, IRMapping &mapping, Loaded &loaded, bool stores);

/// One side of a branch, filled up to `count` results of loads.
void emitSide(Location location, Block &from, Block &to, IRMapping mapping, ArrayRef<Value> own, size_t count,
              bool stores) {
  to.clear();
  ImplicitLocOpBuilder b = ImplicitLocOpBuilder::atBlockBegin(location, &to);
  Loaded values(own);
  emitBlock(b, from, mapping, values, stores);
  if (stores) {
    scf::YieldOp::create(b, ValueRange{});
    return;
  }
  while (values.size() < count) {
    values.push_back(zerosOf(b));
  }
  scf::YieldOp::create(b, values);
}

void emitBranch(ImplicitLocOpBuilder &b, scf::IfOp branch, IRMapping &mapping, Loaded &loaded, bool stores) {
  size_t count = 0;
  for (Region &region : branch->getRegions()) {
    count = std::max(count, region.empty() ? 0 : copiesIn(region.front()));
  }
  Value condition = mapping.lookupOrDefault(branch.getCondition());
  Loaded own;
  if (stores) {
    own.assign(loaded.begin(), loaded.begin() + count);
    loaded.erase(loaded.begin(), loaded.begin() + count);
  }
  const SmallVector<Type> types(stores ? 0 : count, wordsOf(b));
  const bool hasElse = !branch.getElseRegion().empty();
  auto made = scf::IfOp::create(b, types, condition, /*withElseRegion=*/!stores || hasElse);
  emitSide(branch.getLoc(), *branch.thenBlock(), *made.thenBlock(), mapping, own, count, stores);
  if (hasElse) {
    emitSide(branch.getLoc(), *branch.elseBlock(), *made.elseBlock(), mapping, own, count, stores);
  } else if (!stores) {
    Block nothing;
    emitSide(branch.getLoc(), nothing, *made.elseBlock(), mapping, own, count, stores);
  }
  if (!stores) {
    llvm::append_range(loaded, made.getResults());
  }
}

void emitBlock(ImplicitLocOpBuilder &b, Block &block, IRMapping &mapping, Loaded &loaded, bool stores) {
  for (Operation &op : block) {
    b.setLoc(op.getLoc());
    if (auto copy = dyn_cast<tile::CopyAsyncOp>(op)) {
      if (stores) {
        store(b, copy, loaded.front(), mapping);
        loaded.erase(loaded.begin());
      } else {
        loaded.push_back(load(b, copy, mapping));
      }
    } else if (auto branch = dyn_cast<scf::IfOp>(op); branch && hasCopies(branch)) {
      emitBranch(b, branch, mapping, loaded, stores);
    } else if (!op.hasTrait<OpTrait::IsTerminator>()) {
      b.clone(op, mapping);
    }
  }
}

bool waits(Operation *op) {
  return op->walk([](tile::WaitAsyncOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

/// Whether a branch does nothing but copies: all else in it has no effect, so that it may be computed twice.
bool isOfCopies(scf::IfOp branch) {
  if (branch.getNumResults() || !hasCopies(branch)) {
    return false;
  }
  return !branch
              ->walk([&](Operation *op) {
                const bool isPart = op == branch || isa<tile::CopyAsyncOp, scf::IfOp, scf::YieldOp>(op);
                return isPart || isMemoryEffectFree(op) ? WalkResult::advance() : WalkResult::interrupt();
              })
              .wasInterrupted();
}

void split(Operation *op) {
  Operation *later = op->getNextNode();
  while (!later->hasTrait<OpTrait::IsTerminator>() && !waits(later)) {
    later = later->getNextNode();
  }
  ImplicitLocOpBuilder now(op->getLoc(), op), then(op->getLoc(), later);
  IRMapping loads, stores;
  Loaded loaded;
  if (auto copy = dyn_cast<tile::CopyAsyncOp>(op)) {
    store(then, copy, load(now, copy, loads), stores);
  } else {
    auto branch = cast<scf::IfOp>(op);
    emitBranch(now, branch, loads, loaded, /*stores=*/false);
    emitBranch(then, branch, stores, loaded, /*stores=*/true);
  }
  op->erase();
}
} // namespace

void amd::lowerCopies(func::FuncOp function) {
  SmallVector<Operation *> outermost;
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (auto branch = dyn_cast<scf::IfOp>(op); isa<tile::CopyAsyncOp>(op) || (branch && isOfCopies(branch))) {
      outermost.push_back(op);
      return WalkResult::skip();
    }
    return WalkResult::advance();
  });
  for (Operation *op : outermost) {
    split(op);
  }
  function.walk([](Operation *op) {
    if (isa<tile::CommitAsyncOp, tile::WaitAsyncOp>(op)) {
      op->erase();
    }
  });
}
