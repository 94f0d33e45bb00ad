//===- Rows.cpp - Rows of queries and results, element by element ---------===//
#include "TeamEmitter.h"

using namespace mlir;
using namespace kvc;

namespace {
/// Where a row of a packed tile lies: token and head of the group.
struct RowPlace {
  Value token, head;
};
RowPlace placeOf(ImplicitLocOpBuilder &b, Value row, int64_t group) {
  if (group == 1) {
    return {row, wordOf(b, 0)};
  }
  Value heads = wordOf(b, group);
  return {arith::DivUIOp::create(b, row, heads), arith::RemUIOp::create(b, row, heads)};
}

/// The last row stands for rows past the end, so that every address is good.
Value clampToken(ImplicitLocOpBuilder &b, Value token, Value count) {
  Value last = arith::SubIOp::create(b, toWord(b, count), wordOf(b, 1));
  return toIndex(b, arith::MinSIOp::create(b, token, last));
}

std::string textOf(const Layout &layout) {
  std::string text;
  llvm::raw_string_ostream(text) << layout;
  return text;
}
} // namespace

Value TeamEmitter::loadRowElement(tile::LoadRowsOp op, const Layout &layout, int64_t reg) {
  // Neighbours in a row are loaded together.
  Coordinates here = layout(reg, 0, 0);
  int64_t first = reg;
  for (int64_t i : {reg - 1, reg + 1}) {
    if (i >= 0 && i < layout.inSize(Axis::Register)) {
      Coordinates there = layout(i, 0, 0);
      if (there[Axis::Row] == here[Axis::Row] && there[Axis::Column] / 2 == here[Axis::Column] / 2) {
        first = std::min(reg, i);
      }
    }
  }
  std::string key = textOf(layout);
  Value &value = leaves[{op.getOperation(), Axis::Row, reg, key}];
  if (value) {
    return value;
  }
  Builder b(op.getLoc(), op.getContext());
  b.setInsertionPointAfter(op);
  RowPlace place = placeOf(b, coordinate(b, layout, Axis::Row, reg), op.getGroup());
  Value used = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, place.token, toWord(b, op.getCount()));
  // Columns that fill up an instruction are zeros.
  const int64_t columns = op.getResult().getType().getDimSize(1);
  const bool isWhole = columns == layout.outSize(Axis::Column);
  Value column = coordinate(b, layout, Axis::Column, first), zero = floatOf(b, 0.0f);
  SmallVector<Value> at{
      arith::AddIOp::create(b, op.getRow(), clampToken(b, place.token, op.getCount())),
      arith::AddIOp::create(b, op.getHead(), toIndex(b, place.head)),
      toIndex(b, column),
  };
  SmallVector<Value> pair;
  if (isWhole) {
    auto type = VectorType::get({2}, b.getF32Type());
    Value loaded = vector::LoadOp::create(b, type, op.getSource(), at, /*nontemporal=*/false, llvm::MaybeAlign(8));
    pair = {vector::ExtractOp::create(b, loaded, 0), vector::ExtractOp::create(b, loaded, 1)};
  }
  Value result;
  for (int64_t i : {0, 1}) {
    Value element;
    if (isWhole) {
      element = arith::SelectOp::create(b, used, pair[i], zero);
    } else {
      Value own = addWords(b, column, i);
      Value exists = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, own, wordOf(b, columns));
      at[2] = toIndex(b, arith::MinSIOp::create(b, own, wordOf(b, columns - 1)));
      Value loaded = memref::LoadOp::create(b, op.getSource(), at);
      element = arith::SelectOp::create(b, arith::AndIOp::create(b, used, exists), loaded, zero);
    }
    leaves[{op.getOperation(), Axis::Row, first + i, key}] = element;
    if (first + i == reg) {
      result = element;
    }
  }
  return result;
}

Value TeamEmitter::loadColumnPosition(Operation *op, const Layout &layout, int64_t reg) {
  Layout columns = layout.project(Axis::Column).withoutReplicatedRegisters();
  Value &value = leaves[{op, Axis::Column, compactRegister(layout, Axis::Column, reg), textOf(columns)}];
  if (value) {
    return value;
  }
  Builder b(op->getLoc(), op->getContext());
  b.setInsertionPointAfter(op);
  // Columns past the end have no page: the last one stands for them. Nobody looks at their positions.
  auto clamp = [&](Value count) {
    Value last = arith::MaxSIOp::create(b, arith::SubIOp::create(b, count, indexOf(b, 1)), indexOf(b, 0));
    return arith::MinSIOp::create(b, toIndex(b, coordinate(b, layout, Axis::Column, reg)), last).getResult();
  };
  auto positionOf = [&](Value cache, Value sequence, Value head, Value slot) -> Value {
    if (!cast<kvcache::CacheType>(cache.getType()).getStoredPositions()) {
      return toWord(b, slot);
    }
    return tile::LoadNumberOp::create(b, b.getI32Type(), tile::SlotPlane::Position, cache, sequence, head, slot);
  };
  if (auto gather = dyn_cast<tile::GatherPositionsOp>(op)) {
    Value number = arith::AddIOp::create(b, gather.getFirst(), clamp(gather.getCount()));
    Value slot = tile::SelectionEntryOp::create(b, gather.getSelection(), gather.getEntry(), gather.getHead(), number,
                                                cast<kvcache::CacheType>(gather.getCache().getType()).getHeads());
    value = positionOf(gather.getCache(), gather.getSequence(), gather.getHead(), slot);
    return value;
  }
  auto positions = cast<tile::SlotPositionsOp>(op);
  Value length = tile::CounterOp::create(b, tile::Counter::Length, positions.getCache(), positions.getSequence(),
                                         positions.getHead());
  Value slot =
      arith::AddIOp::create(b, positions.getSlot(), clamp(arith::SubIOp::create(b, length, positions.getSlot())));
  value = positionOf(positions.getCache(), positions.getSequence(), positions.getHead(), slot);
  return value;
}

Value TeamEmitter::loadMaskElement(Builder &b, tile::LoadMaskOp op, const Layout &layout, int64_t reg) {
  RowPlace place = placeOf(b, coordinate(b, layout, Axis::Row, reg), op.getGroup());
  Value column = arith::AddIOp::create(b, op.getColumn(), toIndex(b, coordinate(b, layout, Axis::Column, reg)));
  auto compare = [&](arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, predicate, x, y).getResult();
  };
  Value zero = indexOf(b, 0), one = wordOf(b, 1);
  Value says = arith::AndIOp::create(b, compare(arith::CmpIPredicate::sge, column, zero),
                                     compare(arith::CmpIPredicate::slt, column, op.getWidth()));
  says = arith::AndIOp::create(b, says, compare(arith::CmpIPredicate::slt, place.token, toWord(b, op.getCount())));
  auto branch = scf::IfOp::create(b, TypeRange{b.getI32Type()}, says, /*withElseRegion=*/true);
  Builder yes = Builder::atBlockBegin(op.getLoc(), branch.thenBlock());
  Value row = arith::AddIOp::create(yes, op.getRow(), toIndex(yes, place.token));
  Value bit = memref::LoadOp::create(yes, op.getSource(), ValueRange{row, column});
  scf::YieldOp::create(yes, arith::ExtUIOp::create(yes, b.getI32Type(), bit).getResult());
  Builder no = Builder::atBlockBegin(op.getLoc(), branch.elseBlock());
  scf::YieldOp::create(no, one);
  return branch.getResult(0);
}

Value TeamEmitter::loadRowNumber(Operation *op, const Layout &layout, int64_t reg) {
  Layout rows = layout.project(Axis::Row).withoutReplicatedRegisters();
  Value &value = leaves[{op, Axis::Row, compactRegister(layout, Axis::Row, reg), textOf(rows)}];
  if (value) {
    return value;
  }
  Builder b(op->getLoc(), op->getContext());
  b.setInsertionPointAfter(op);
  Value row = coordinate(b, layout, Axis::Row, reg);
  if (auto positions = dyn_cast<tile::RowPositionsOp>(op)) {
    RowPlace place = placeOf(b, row, positions.getGroup());
    Value at = arith::AddIOp::create(b, positions.getRow(), clampToken(b, place.token, positions.getCount()));
    value = toWord(b, tile::PositionOp::create(b, positions.getBatch(), at));
  } else if (auto heads = dyn_cast<tile::LoadHeadsOp>(op)) {
    RowPlace place = placeOf(b, row, heads.getGroup());
    Value at = arith::AddIOp::create(b, heads.getHead(), toIndex(b, place.head));
    value = memref::LoadOp::create(b, heads.getSource(), at);
  } else {
    auto load = cast<tile::LoadRowsOp>(op);
    RowPlace place = placeOf(b, row, load.getGroup());
    Value token = arith::AddIOp::create(b, load.getRow(), clampToken(b, place.token, load.getCount()));
    Value head = arith::AddIOp::create(b, load.getHead(), toIndex(b, place.head));
    value = memref::LoadOp::create(b, load.getSource(), ValueRange{token, head});
  }
  return value;
}

void TeamEmitter::emitStoreRows(tile::StoreRowsOp op) {
  auto found = fragments.find(op.getValue());
  if (found == fragments.end()) {
    fail(op) << "of what is not held in registers has no lowering to teams yet";
    return;
  }
  Fragment fragment = found->second;
  const Layout &layout = fragment.layout;
  Builder b(op.getLoc(), op);
  const bool isMatrix = op.getValue().getType().getRank() == 2;
  const int64_t group = op.getGroup(), columns = isMatrix ? op.getValue().getType().getDimSize(1) : 0;
  Value count = toWord(b, op.getCount());
  SmallVector<bool> rowDone(compactCount(layout, Axis::Row));
  for (int64_t reg = 0; reg < layout.inSize(Axis::Register); ++reg) {
    int64_t number = compactRegister(layout, Axis::Row, reg);
    if (rowDone[number]) {
      continue;
    }
    rowDone[number] = true;
    RowPlace place = placeOf(b, coordinate(b, layout, Axis::Row, reg), group);
    Value used = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, place.token, count);
    // Of lanes that hold the same the first one writes.
    for (const Mode &mode : layout.getModes()) {
      if (mode.in != Axis::Register && (mode.out == Axis::None || (!isMatrix && mode.out != Axis::Row))) {
        Value digit = mode.in == Axis::Lane ? lane : warp;
        digit =
            arith::RemUIOp::create(b, arith::DivUIOp::create(b, digit, wordOf(b, mode.inStride)), wordOf(b, mode.size));
        used = arith::AndIOp::create(b, used, arith::CmpIOp::create(b, arith::CmpIPredicate::eq, digit, wordOf(b, 0)));
      }
    }
    auto branch = scf::IfOp::create(b, used, /*withElseRegion=*/false);
    Builder inner = Builder::atBlockBegin(op.getLoc(), branch.thenBlock());
    Value row = arith::AddIOp::create(inner, op.getRow(), toIndex(inner, place.token));
    Value head = arith::AddIOp::create(inner, op.getHead(), toIndex(inner, place.head));
    if (!isMatrix) {
      memref::StoreOp::create(inner, fragment.registers[number], op.getTarget(), ValueRange{row, head});
      continue;
    }
    for (ArrayRef<int64_t> run : layout.runsAlong(Axis::Column, 4)) {
      const int64_t i = run.front();
      if (compactRegister(layout, Axis::Row, i) != number) {
        continue;
      }
      Value at = coordinate(inner, layout, Axis::Column, i);
      if (columns != layout.outSize(Axis::Column)) {
        for (auto [e, reg] : llvm::enumerate(run)) {
          Value own = addWords(inner, at, static_cast<int64_t>(e));
          Value exists = arith::CmpIOp::create(inner, arith::CmpIPredicate::slt, own, wordOf(inner, columns));
          auto guard = scf::IfOp::create(inner, exists, /*withElseRegion=*/false);
          Builder guarded = Builder::atBlockBegin(op.getLoc(), guard.thenBlock());
          memref::StoreOp::create(guarded, fragment.registers[reg], op.getTarget(),
                                  ValueRange{row, head, toIndex(guarded, own)});
        }
        continue;
      }
      auto type = VectorType::get({static_cast<int64_t>(run.size())}, inner.getF32Type());
      Value values = vector::FromElementsOp::create(
          inner, type, llvm::map_to_vector(run, [&](int64_t reg) { return fragment.registers[reg]; }));
      Value column = toIndex(inner, at);
      vector::StoreOp::create(inner, values, op.getTarget(), ValueRange{row, head, column}, /*nontemporal=*/false,
                              llvm::MaybeAlign(4 * run.size()));
    }
  }
}
