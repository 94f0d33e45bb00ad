//===- ItemOrder.cpp - Which items run on which die ----------------------===//
#include "kvc/Target/ItemOrder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kvc;

ItemPlace kvc::placeOnDies(ImplicitLocOpBuilder &b, Value item, Value groups, Value members, int64_t dies) {
  auto word = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
  };
  auto whole = [&](Value number, int64_t size) { return b.createOrFold<arith::AndIOp>(number, word(-size)); };
  auto isLess = [&](Value x, Value y) { return b.createOrFold<arith::CmpIOp>(arith::CmpIPredicate::ult, x, y); };
  auto toIndex = [&](Value number) { return b.createOrFold<arith::IndexCastUIOp>(b.getIndexType(), number); };
  // In a block of 2 ** shift groups that begins with group `first`.
  auto yieldPlace = [&](Value first, Value shift, Value mask) {
    Value rest = b.createOrFold<arith::SubIOp>(item, b.createOrFold<arith::MulIOp>(first, members));
    Value group = b.createOrFold<arith::AddIOp>(first, b.createOrFold<arith::AndIOp>(rest, mask));
    Value member = b.createOrFold<arith::ShRUIOp>(rest, shift);
    scf::YieldOp::create(b, ValueRange{toIndex(group), toIndex(member)});
  };
  Value number = b.createOrFold<arith::DivUIOp>(item, members);
  auto branch = scf::IfOp::create(b, TypeRange{b.getIndexType(), b.getIndexType()}, isLess(number, whole(groups, dies)),
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  yieldPlace(whole(number, dies), word(llvm::Log2_64(dies)), word(dies - 1));
  // Blocks follow each other, the largest first: the item's is the first that ends behind it.
  b.setInsertionPointToStart(branch.elseBlock());
  Value first = whole(groups, 2), shift = word(0), mask = word(0);
  for (int64_t size = 2; size < dies; size *= 2) {
    Value isInside = isLess(number, whole(groups, size));
    auto select = [&](Value yes, Value no) { return b.createOrFold<arith::SelectOp>(isInside, yes, no); };
    first = select(whole(groups, 2 * size), first);
    shift = select(word(llvm::Log2_64(size)), shift);
    mask = select(word(size - 1), mask);
  }
  yieldPlace(first, shift, mask);
  return {branch.getResult(0), branch.getResult(1)};
}
