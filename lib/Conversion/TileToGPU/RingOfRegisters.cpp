//===- RingOfRegisters.cpp - Tiles that go to staging memory through lanes ===//
//
// Query tiles of the tall atom. A lane loads its share of a tile to registers in front of a product and stores it
// behind that, so one stage is as good as two, and places in it are known:
//
//   load keys, store them
//   for each tile
//     barrier                                          every warp is past the values of the tile before
//     load values
//     scores, softmax
//     store values, barrier                            every warp is past the keys of this tile
//     load keys of the next tile
//     output
//     store them
//
// On the way values are woven (TeamEmitter.h). Loads have an end behind which they give zeros: rows that do not exist
// need no branches.
//
//===----------------------------------------------------------------------===//
#include "Ring.h"

using namespace mlir;
using namespace kvc;

//===----------------------------------------------------------------------===//
// Which query tiles
//===----------------------------------------------------------------------===//

/// Channels of a lane's piece of values of the loop that `op` is in; 0 where the loop's tiles do not go through
/// registers.
static int64_t wovenChannels(TeamEmitter &emitter, tile::MmaOp op, const MmaAtom &atom) {
  auto loop = dyn_cast<scf::ForOp>(op->getParentOp());
  if (!loop) {
    return 0;
  }
  SmallVector<LateOperand> others;
  const TileLoop tiles = describeLoop(emitter, loop, others);
  if (!tiles.loop || !others.empty() || tiles.operands.size() != 2) {
    return 0;
  }
  tile::OperandOp keys = tiles.operands[0], values = tiles.operands[1];
  auto contractOf = [](tile::OperandOp operand) {
    return cast<tile::MmaOp>(*operand->getUsers().begin()).getContract();
  };
  if (contractOf(keys) != tile::Contract::Channels || contractOf(values) != tile::Contract::Slots) {
    return 0;
  }
  constexpr int64_t chunk = 8, mostChannels = 192, round = 8 * chunk;
  const int64_t warps = emitter.warps, lanes = emitter.facts.lanes, rows = op.getA().getType().getDimSize(0);
  const int64_t slots = keys.getType().getSlots(), own = slots / warps;
  const int64_t keyChannels = keys.getType().getChannels(), valueChannels = values.getType().getChannels();
  if (llvm::divideCeil(rows, atom.m) % warps || slots % atom.n || own % Woven::slots || keyChannels % (2 * atom.k) ||
      own * keyChannels / chunk % lanes || valueChannels % round || valueChannels > mostChannels) {
    return 0;
  }
  if (emitter.facts.stagesRows) {
    return own * valueChannels / chunk % lanes ? 0 : chunk;
  }
  for (int64_t channels : {chunk, chunk / 2}) {
    if (own / Woven::slots * (valueChannels / channels) % lanes == 0) {
      return channels;
    }
  }
  return 0;
}

void TeamEmitter::findTallRows() {
  if (facts.tallMmaAtom.empty()) {
    return;
  }
  const MmaAtom &atom = *lookupMmaAtom((facts.tallMmaAtom + ".f16").str());
  std::map<int64_t, int64_t> channels;
  context.kernel.walk([&](tile::MmaOp op) {
    const int64_t own = wovenChannels(*this, op, atom);
    auto [found, isNew] = channels.try_emplace(op.getA().getType().getDimSize(0), own);
    found->second = std::min(found->second, own);
  });
  for (auto [rows, own] : channels) {
    if (own) {
      tallRows.emplace(rows, facts.stagesRows ? std::nullopt : std::optional(Woven{own}));
    }
  }
}

//===----------------------------------------------------------------------===//
// Loads and stores
//===----------------------------------------------------------------------===//

Ring::Piece Ring::pieceOf(const StagedOperand &operand) {
  return operand.woven ? Piece{Woven::slots, operand.woven->channels * 2} : Piece{1, 16};
}

Ring::PiecePlace Ring::placeOf(ImplicitLocOpBuilder &b, const StagedOperand &operand, int64_t i) {
  const int64_t lanes = emitter.facts.lanes, ofRow = piecesOfRow(operand);
  const bool divides = lanes % ofRow == 0;
  Value number = addWords(b, emitter.lane, divides ? 0 : i * lanes), pieces = wordOf(b, ofRow);
  return {b.createOrFold<arith::DivUIOp>(number, pieces), b.createOrFold<arith::RemUIOp>(number, pieces),
          divides ? i * (lanes / ofRow) : 0};
}

Value Ring::blockOffset(ImplicitLocOpBuilder &b, Value page) {
  const CacheMemory &cache = *operands.front().cache;
  Value bytes = arith::MulIOp::create(b, toIndex(b, page), indexOf(b, cache.layout.pageBytes));
  if (cache.type.getPerHead()) {
    return bytes;
  }
  Value head = operands.front().op.getHead();
  return arith::AddIOp::create(b, bytes, arith::MulIOp::create(b, head, indexOf(b, cache.layout.headBlockBytes)));
}

Value Ring::lookUp(ImplicitLocOpBuilder &b, Value iv) {
  const StagedOperand &operand = operands.front();
  tile::OperandOp op = operand.op;
  Value slot = wordAt(b, loop, op.getSlot(), iv), count = wordAt(b, loop, op.getCount(), iv);
  // Rows past the end have no page: the last row's stands for theirs. Other tiles may count no slot at all.
  Value last = addWords(b, count, -1);
  if (!toEnd) {
    last = arith::MaxSIOp::create(b, last, wordOf(b, 0));
  }
  Value row = arith::MinSIOp::create(b, ownRow(b), last);
  Value logical = b.createOrFold<arith::DivUIOp>(addWords(b, slot, row), wordOf(b, operand.cache->type.getPage()));
  Value table = emitter.context.tableRow(b, *operand.cache, op.getSequence(), op.getHead());
  return memref::LoadOp::create(b, operand.cache->table, ValueRange{table, toIndex(b, logical)});
}

SmallVector<Value> Ring::locate(ImplicitLocOpBuilder &b, Value iv, Value page, Value inside) {
  tile::OperandOp op = operands.front().op;
  Value slot = wordAt(b, loop, op.getSlot(), iv), warpRow = mulWords(b, emitter.warp, rowsPerWarp), zero = wordOf(b, 0);
  // Rows from this warp's first to the tile's end.
  Value left = arith::SubIOp::create(b, wordAt(b, loop, op.getCount(), iv), warpRow);
  if (!toEnd) {
    left = arith::SelectOp::create(b, inside, left, zero);
  }
  if (runRows == 1) {
    return {page, left};
  }
  SmallVector<Value> place;
  for (int64_t first = 0; first < rowsPerWarp; first += runRows) {
    Value own = runRows == rowsPerWarp ? page : emitter.shuffleFrom(b, page, wordOf(b, first));
    Value inPage = b.createOrFold<arith::RemUIOp>(addWords(b, slot, addWords(b, warpRow, first)),
                                                  wordOf(b, operands.front().cache->type.getPage()));
    // Of rows behind the run there are no loads.
    place.append({blockOffset(b, own), inPage, arith::MaxSIOp::create(b, addWords(b, left, -first), zero)});
  }
  return place;
}

SmallVector<Value> Ring::load(ImplicitLocOpBuilder &b, size_t number, Value iv, ValueRange tilePlace) {
  const StagedOperand &operand = operands[number];
  const Piece piece = pieceOf(operand);
  const int64_t lanes = emitter.facts.lanes, rowBytes = operand.chunks * 16, ofRow = piecesOfRow(operand),
                count = piecesOf(operand, rowsPerWarp) / lanes;
  Value pages = operand.cache->pages, codes = indexOf(b, operand.plane->codes);
  auto viewType = MemRefType::get({ShapedType::kDynamic}, b.getI8Type(),
                                  StridedLayoutAttr::get(b.getContext(), ShapedType::kDynamic, {1}),
                                  cast<MemRefType>(pages.getType()).getMemorySpace());
  SmallVector<Value> runs;
  for (size_t i = 0; runRows > 1 && i < tilePlace.size(); i += 3) {
    Value begin = arith::AddIOp::create(b, tilePlace[i], toIndex(b, mulWords(b, tilePlace[i + 1], rowBytes)));
    begin = arith::AddIOp::create(b, begin, codes);
    Value bytes = toIndex(b, mulWords(b, tilePlace[i + 2], rowBytes));
    runs.push_back(memref::ReinterpretCastOp::create(b, viewType, pages, OpFoldResult(begin),
                                                     ArrayRef<OpFoldResult>{bytes},
                                                     ArrayRef<OpFoldResult>{b.getIndexAttr(1)}));
  }
  auto type = VectorType::get({piece.bytes}, b.getI8Type());
  Value padding = arith::ConstantOp::create(b, b.getI8IntegerAttr(0));
  SmallVector<Value> loaded;
  for (int64_t i = 0; i < count; ++i) {
    const PiecePlace place = placeOf(b, operand, i);
    if (copies(operand)) {
      // The lane's place is given: it copies the chunk that belongs there.
      const int64_t run = i * lanes / ofRow / runRows;
      Value chunk = arith::XOrIOp::create(b, place.piece, flipsAt(b, operand, place));
      // Behind the run's begin; of rows that the lane's place does not divide nothing is known.
      const int64_t known = (place.further - run * runRows) * rowBytes;
      Value from = addWords(b, mulWords(b, place.row, rowBytes), mulWords(b, chunk, piece.bytes));
      from = addWords(b, from, std::min<int64_t>(known, 0));
      Value to = addWords(b, mulWords(b, emitter.warp, rowsPerWarp * operand.stageRow), operand.offset);
      tile::CopyWarpOp::create(b, runs[run], from, std::max<int64_t>(known, 0), emitter.staging, to,
                               i * lanes * piece.bytes, operand.image->region());
      continue;
    }
    for (int64_t e = 0; e < piece.slots; ++e) {
      if (!runs.empty()) {
        const int64_t run = i * lanes / ofRow * piece.slots / runRows;
        Value own = addWords(b, mulWords(b, place.row, piece.slots * rowBytes), mulWords(b, place.piece, piece.bytes));
        const int64_t known = (place.further * piece.slots + e - run * runRows) * rowBytes;
        Value from = arith::AddIOp::create(b, toIndex(b, own), indexOf(b, known));
        loaded.push_back(
            vector::TransferReadOp::create(b, type, runs[run], ValueRange{from}, padding, ArrayRef<bool>{false}));
        continue;
      }
      // The lane that has the row's page gives it to all that load of the row.
      Value row = addWords(b, mulWords(b, place.row, piece.slots), place.further * piece.slots + e);
      Value source = emitter.shuffleFrom(b, tilePlace[0], row);
      Value exists = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, row, tilePlace[1]);
      Value slot = wordAt(b, loop, operands.front().op.getSlot(), iv);
      slot = addWords(b, slot, addWords(b, mulWords(b, emitter.warp, rowsPerWarp), row));
      auto branch = scf::IfOp::create(b, TypeRange{type}, exists, /*withElseRegion=*/true);
      ImplicitLocOpBuilder yes = ImplicitLocOpBuilder::atBlockBegin(b.getLoc(), branch.thenBlock());
      Value inPage = yes.createOrFold<arith::RemUIOp>(slot, wordOf(yes, operand.cache->type.getPage()));
      Value inPlane = addWords(yes, mulWords(yes, inPage, rowBytes), mulWords(yes, place.piece, piece.bytes));
      Value from = arith::AddIOp::create(yes, blockOffset(yes, source), codes);
      from = arith::AddIOp::create(yes, from, toIndex(yes, inPlane));
      Value bytes = vector::LoadOp::create(yes, type, pages, ValueRange{from}, /*nontemporal=*/false,
                                           llvm::MaybeAlign(piece.bytes));
      scf::YieldOp::create(yes, bytes);
      ImplicitLocOpBuilder no = ImplicitLocOpBuilder::atBlockBegin(b.getLoc(), branch.elseBlock());
      scf::YieldOp::create(no, arith::ConstantOp::create(no, no.getZeroAttr(type)).getResult());
      loaded.push_back(branch.getResult(0));
    }
  }
  return loaded;
}

Value Ring::flipsAt(ImplicitLocOpBuilder &b, const StagedOperand &operand, const PiecePlace &place) {
  Value row = addWords(b, addWords(b, place.row, mulWords(b, emitter.warp, rowsPerWarp)), place.further);
  return operand.image->flips(b, row);
}

void Ring::store(ImplicitLocOpBuilder &b, size_t number, ArrayRef<Value> values) {
  const StagedOperand &operand = operands[number];
  if (copies(operand)) {
    tile::WaitWarpOp::create(b);
    return;
  }
  const Piece piece = pieceOf(operand);
  const Woven *woven = operand.woven;
  auto bytes = VectorType::get({16}, b.getI8Type());
  auto write = [&](Value value, Value own, int64_t known) {
    Value to = arith::AddIOp::create(b, toIndex(b, own), indexOf(b, operand.offset + known));
    vector::StoreOp::create(b, value, emitter.staging, to, /*nontemporal=*/false, llvm::MaybeAlign(16));
  };
  Value warpRow = mulWords(b, emitter.warp, rowsPerWarp / piece.slots);
  for (int64_t i = 0; !values.empty(); ++i) {
    ArrayRef<Value> slots = values.take_front(piece.slots);
    values = values.drop_front(piece.slots);
    const PiecePlace place = placeOf(b, operand, i);
    const int64_t known = place.further * operand.stageRow;
    Value row = mulWords(b, addWords(b, place.row, warpRow), operand.stageRow);
    if (!woven) {
      Value chunk =
          operand.image ? arith::XOrIOp::create(b, place.piece, flipsAt(b, operand, place)).getResult() : place.piece;
      write(slots.front(), addWords(b, row, mulWords(b, chunk, piece.bytes)), known);
      continue;
    }
    Value lanes = wordOf(b, 8);
    Value own = addWords(b, mulWords(b, b.createOrFold<arith::DivUIOp>(place.piece, lanes), woven->roundBytes()),
                         mulWords(b, b.createOrFold<arith::RemUIOp>(place.piece, lanes), 16));
    auto halves = VectorType::get({woven->channels}, b.getI16Type()), all = VectorType::get({8}, b.getI16Type());
    SmallVector<Value> channels;
    for (Value slot : slots) {
      channels.push_back(vector::BitCastOp::create(b, halves, slot));
    }
    for (int64_t channel = 0; channel < woven->channels; channel += Woven::tiles) {
      SmallVector<Value> elements;
      for (int64_t tile = 0; tile < Woven::tiles; ++tile) {
        for (Value slot : channels) {
          elements.push_back(vector::ExtractOp::create(b, slot, channel + tile));
        }
      }
      Value pair = vector::BitCastOp::create(b, bytes, vector::FromElementsOp::create(b, all, elements));
      write(pair, addWords(b, row, own), known + channel / Woven::tiles * Woven::pairBytes);
    }
  }
}

//===----------------------------------------------------------------------===//
// The loop
//===----------------------------------------------------------------------===//

LogicalResult TeamEmitter::emitRegisterLoop(const TileLoop &tiles, Ring &ring) {
  scf::ForOp loop = tiles.loop;
  Builder b(loop.getLoc(), loop);
  const CarriedState state(*this, tiles, *ring.operands.front().atom);
  SmallVector<Value> init = state.pull(b, loop.getInitArgs());
  if (hasFailed()) {
    return failure();
  }
  // Whatever used staging memory before is done with it.
  barrier(b);
  Value lower = toWord(b, loop.getLowerBound()), upper = toWord(b, loop.getUpperBound()),
        step = toWord(b, loop.getStep());
  Value hasFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, lower, upper);
  auto first = scf::IfOp::create(b, TypeRange{b.getI32Type()}, hasFirst, /*withElseRegion=*/true);
  Builder yes = Builder::atBlockBegin(b.getLoc(), first.thenBlock());
  scf::YieldOp::create(yes, ring.lookUp(yes, lower));
  Builder no = Builder::atBlockBegin(b.getLoc(), first.elseBlock());
  scf::YieldOp::create(no, wordOf(no, 0));
  SmallVector<Value> place = ring.locate(b, lower, first.getResult(0), hasFirst);
  ring.store(b, 0, ring.load(b, 0, lower, place));
  const size_t stateSize = init.size();
  llvm::append_range(init, place);

  auto lowered = scf::ForOp::create(b, lower, upper, step, init);
  Block &body = *lowered.getBody();
  Builder inner = Builder::atBlockBegin(loop.getLoc(), &body);
  Value present = lowered.getInductionVar();
  loop.getInductionVar().replaceAllUsesWith(toIndex(inner, present));
  state.set(lowered.getRegionIterArgs(), loop.getRegionIterArgs());
  Value next = arith::AddIOp::create(inner, present, step);
  Value hasNext = arith::CmpIOp::create(inner, arith::CmpIPredicate::slt, next, upper);
  // Behind the last tile nothing is loaded, and that one is looked up again: its last slot, where tiles count to the
  // end.
  Value looked = ring.countsSlotsToEnd() ? next : arith::SelectOp::create(inner, hasNext, next, present).getResult();
  for (StagedOperand &operand : ring.operands) {
    operand.stage = wordOf(inner, operand.offset);
    staged[operand.op.getResult()] = operand;
  }
  auto productOf = [&](size_t number) { return *ring.operands[number].op.getResult().getUsers().begin(); };
  ValueRange presentPlace = lowered.getRegionIterArgs().drop_front(stateSize);
  SmallVector<Value> nextPlace, keys, values;
  Value page;
  beforeProduct[productOf(0)] = [&](Builder &b) {
    barrier(b);
    values = ring.load(b, 1, present, presentPlace);
    page = ring.lookUp(b, looked);
  };
  beforeProduct[productOf(1)] = [&](Builder &b) {
    ring.store(b, 1, values);
    barrier(b);
    nextPlace = ring.locate(b, looked, page, hasNext);
    keys = ring.load(b, 0, looked, nextPlace);
  };
  Operation *yield = loop.getBody()->getTerminator();
  body.getOperations().splice(body.end(), loop.getBody()->getOperations(), loop.getBody()->begin(),
                              Block::iterator(yield));
  ring.moveTo(lowered);
  for (Operation &op : llvm::make_early_inc_range(body)) {
    // Numbers of slots that are used as words, of masks, are computed as such.
    if (auto word = dyn_cast<arith::IndexCastOp>(op); word && word.getType().isInteger(32)) {
      Builder at(op.getLoc(), &op);
      word.replaceAllUsesWith(wordAt(at, lowered, word.getIn(), present));
    }
  }
  finished(loop);
  if (failed(emitBlock(body))) {
    return failure();
  }
  Builder end = Builder::atBlockEnd(loop.getLoc(), &body);
  SmallVector<Value> results = state.pull(end, yield->getOperands());
  llvm::append_range(results, nextPlace);
  ring.store(end, 0, keys);
  scf::YieldOp::create(end, results);
  state.set(lowered.getResults(), loop.getResults());
  beforeProduct.erase(productOf(0));
  beforeProduct.erase(productOf(1));
  barrier(b);
  // The old loop goes after what it still speaks of.
  yield->setOperands(loop.getInitArgs());
  auto resultOf = [&](unsigned number) { return loop.getResult(number); };
  return leaveState(b, loop, resultOf(tiles.max), resultOf(tiles.sum), resultOf(tiles.acc));
}
