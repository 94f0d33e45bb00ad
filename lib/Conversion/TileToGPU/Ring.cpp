//===- Ring.cpp - Loops over tiles of slots, copied ahead -----------------===//
//
// Keys and values of a tile come as rows of pages. All warps copy them, each the same number of rows, into a ring of
// stages in staging memory; while a tile is used the copies of the next ones are on their way:
//
//   copy keys, values of the tiles that fill the stages        one group each; the last values are not copied yet
//   for each tile
//     wait for its keys, barrier                               every warp is past the values of the tile before
//     copy values to their stage
//     scores, softmax
//     wait for its values, barrier                             every warp is past the keys of this tile
//     copy keys to their stage
//     output
//
// So even with one stage the keys of the next tile arrive while this one's values are used, and its values while its
// keys are. The page of the rows that a warp copies is read from the table ahead of the copy.
//
//===----------------------------------------------------------------------===//
#include "Ring.h"

#include "CodeTile.h"
#include "DirectTile.h"

using namespace mlir;
using namespace kvc;

void Ring::prepare() {
  tile::OperandOp first = operands.front().op;
  int64_t tileBytes = 0;
  for (StagedOperand &operand : operands) {
    tile::OperandOp op = operand.op;
    operand.cache = &emitter.context.cache(op.getCache());
    operand.plane = &operand.cache->layout.plane(op.getPlane());
    operand.product = emitter.productOf(op.getResult());
    auto mma = cast<tile::MmaOp>(*op->getUsers().begin());
    const int64_t rows = mma.getA().getType().getDimSize(0), channels = op.getType().getChannels();
    operand.atom = &emitter.atomFor(operand.product, rows);
    operand.slots = op.getType().getSlots();
    rowsPerWarp = operand.slots / warps;
    ofRegisters = emitter.isTall(rows);
    const bool isValues = mma.getContract() == tile::Contract::Slots;
    if (emitter.facts.readsInOrder()) {
      // Lanes read neighbours of a row of values, and the same of several rows of keys.
      layOutPadded(operand, channels);
      if (isValues) {
        operand.stageRow = operand.chunks * 16;
      } else if (llvm::isPowerOf2_64(rowsPerWarp)) {
        operand.rowDistance = distanceOfReaders(*operand.atom);
      }
      operand.stageBytes = operand.slots * operand.stageRow;
    } else if (!ofRegisters) {
      layOutStage(operand, channels);
      operand.stageBytes = operand.slots * operand.stageRow;
    } else if (isValues ? !emitter.tallRows.find(rows)->second
                        : emitter.facts.stagesRows && RowImage::fits(channels / 8)) {
      operand.chunks = channels / 8;
      operand.image = RowImage{isValues, operand.chunks};
      operand.stageRow = operand.chunks * 16;
      operand.stageBytes = operand.slots * operand.stageRow;
    } else if (!isValues) {
      layOutPadded(operand, channels);
      operand.stageBytes = operand.slots * operand.stageRow;
    } else {
      operand.chunks = channels / 8;
      operand.woven = &*emitter.tallRows.find(rows)->second;
      operand.stageRow = Woven::rowBytes(channels);
      operand.stageBytes = operand.slots / Woven::slots * operand.stageRow;
    }
    tileBytes += operand.stageBytes;
  }
  // As many stages as fit the room of the schedule's and of all queries, but no more than those: other loops have
  // queries in registers, or other tiles. The stage of the only operand is in use while the next one is copied.
  stagingBytes = emitter.queryBytesBefore(loop);
  const int64_t given = emitter.schedule.getStages();
  const int64_t room =
      emitter.queryBytes + given * tileBytes * emitter.schedule.getSlots() / first.getType().getSlots();
  stages =
      std::clamp<int64_t>((room - stagingBytes) / tileBytes, operands.size() == 1 ? 2 : 1, std::max<int64_t>(given, 2));
  if (ofRegisters || (emitter.facts.readsInOrder() && operands.size() > 1)) {
    // What is stored behind a barrier was loaded in front of a product: a second stage would gain nothing.
    stages = 1;
    toEnd = countsToEnd(first, loop);
  }
  for (StagedOperand &operand : operands) {
    operand.offset = stagingBytes;
    stagingBytes += operand.stageBytes * stages;
  }
  const int64_t page = operands.front().cache->type.getPage(), lanes = emitter.facts.lanes;
  auto isRun = [&](int64_t rows) {
    Value slot = first.getSlot();
    const bool steps = slot == loop.getInductionVar()
                           ? isMultipleOf(loop.getLowerBound(), rows) && isMultipleOf(loop.getStep(), rows)
                           : isMultipleOf(slot, rows);
    return page % rows == 0 && steps && (rows == rowsPerWarp || llvm::all_of(operands, [&](StagedOperand &operand) {
                                           return piecesOf(operand, rows) % lanes == 0;
                                         }));
  };
  runRows = rowsPerWarp;
  while (runRows > 1 && !isRun(runRows)) {
    runRows = runRows % 2 ? 1 : runRows / 2;
  }
}

bool kvc::fitsRing(TeamEmitter &emitter, Operation *operation, tile::OperandOp first) {
  auto op = dyn_cast<tile::OperandOp>(operation);
  if (!op || !op.getResult().hasOneUse() || op.getPart() != tile::Part::Pages) {
    return false;
  }
  auto mma = dyn_cast<tile::MmaOp>(*op->getUsers().begin());
  if (!mma || mma->getBlock() != op->getBlock()) {
    return false;
  }
  const CacheMemory &cache = emitter.context.cache(op.getCache());
  const kvcache::FormatAttr format = cache.layout.plane(op.getPlane()).format;
  const ProductType product = emitter.productOf(op.getResult());
  if (format.getName() != (product == ProductType::F16 ? "f16" : "bf16") || product == ProductType::Split ||
      (op.getPlane() == kvcache::Plane::K && cache.type.getRope())) {
    return false;
  }
  const int64_t channels = op.getType().getChannels(), slots = op.getType().getSlots(), warps = emitter.warps;
  if (channels != emitter.paddedChannels(op.getPlane(), channels) ||
      slots != emitter.paddedSlots(mma.getA().getType().getDimSize(0), slots) || slots % warps ||
      slots / warps > emitter.facts.lanes) {
    return false;
  }
  return !first ||
         (op.getCache() == first.getCache() && op.getSlot() == first.getSlot() && op.getCount() == first.getCount() &&
          op.getSequence() == first.getSequence() && op.getHead() == first.getHead());
}

Value Ring::loadPage(ImplicitLocOpBuilder &b, Value iv) {
  auto inside = scf::IfOp::create(b, TypeRange{b.getI32Type()}, isInside(b, iv), /*withElseRegion=*/true);
  ImplicitLocOpBuilder yes = ImplicitLocOpBuilder::atBlockBegin(b.getLoc(), inside.thenBlock());
  StagedOperand &operand = operands.front();
  tile::OperandOp op = operand.op;
  IRMapping mapping;
  Value slot = at(yes, op.getSlot(), iv, mapping), count = at(yes, op.getCount(), iv, mapping);
  // Rows past the end have no page: the last row's stands for theirs. A tile may count no slot at all.
  Value last = arith::MaxSIOp::create(yes, arith::SubIOp::create(yes, count, indexOf(yes, 1)), indexOf(yes, 0));
  Value row = arith::MinSIOp::create(yes, toIndex(yes, ownRow(yes)), last);
  Value logical =
      arith::DivUIOp::create(yes, arith::AddIOp::create(yes, slot, row), indexOf(yes, operand.cache->type.getPage()));
  Value table = emitter.context.tableRow(yes, *operand.cache, op.getSequence(), op.getHead());
  scf::YieldOp::create(yes, memref::LoadOp::create(yes, operand.cache->table, ValueRange{table, logical}).getResult());
  ImplicitLocOpBuilder no = ImplicitLocOpBuilder::atBlockBegin(b.getLoc(), inside.elseBlock());
  scf::YieldOp::create(no, wordOf(no, 0));
  return inside.getResult(0);
}

Value Ring::slotInPage(ImplicitLocOpBuilder &b, Value slot, Value row) {
  Value place = arith::AddIOp::create(b, slot, toIndex(b, row));
  return arith::RemUIOp::create(b, place, indexOf(b, operands.front().cache->type.getPage()));
}

void Ring::copy(ImplicitLocOpBuilder &b, size_t number, Value iv, Value page, Value stage) {
  StagedOperand &operand = operands[number];
  tile::OperandOp op = operand.op;
  const PageLayout &layout = operand.cache->layout;
  const int64_t lanes = emitter.facts.lanes, chunks = operand.chunks, rowBytes = chunks * 16;
  const int64_t slots = op.getType().getSlots();
  const int64_t copies = llvm::divideCeil(rowsPerWarp * chunks, lanes);
  // Lanes copy chunks that follow each other, or as many rows below each other as keep what one lane copies at known
  // distances.
  const int64_t across = std::min<int64_t>(chunks & -chunks, lanes), down = lanes / across, parts = chunks / across;
  const bool isGrid = emitter.facts.readsInOrder() && rowsPerWarp % down == 0;

  auto inside = scf::IfOp::create(b, isInside(b, iv), /*withElseRegion=*/false);
  ImplicitLocOpBuilder yes = ImplicitLocOpBuilder::atBlockBegin(b.getLoc(), inside.thenBlock());
  IRMapping mapping;
  Value slot = at(yes, op.getSlot(), iv, mapping), count = at(yes, op.getCount(), iv, mapping);
  Value stageBase = addWords(yes, mulWords(yes, stage, operand.stageBytes), operand.offset);
  Value warpRow = mulWords(yes, emitter.warp, rowsPerWarp);
  Value headOffset = indexOf(yes, operand.plane->codes);
  if (!operand.cache->type.getPerHead()) {
    headOffset = arith::AddIOp::create(yes, headOffset,
                                       arith::MulIOp::create(yes, op.getHead(), indexOf(yes, layout.headBlockBytes)));
  }
  auto planeOffset = [&](ImplicitLocOpBuilder &b, Value page) {
    Value bytes = arith::MulIOp::create(b, toIndex(b, page), indexOf(b, layout.pageBytes));
    return arith::AddIOp::create(b, bytes, headOffset).getResult();
  };
  // Where this lane's copies of a run begin.
  SmallVector<Value> runs;
  for (int64_t first = 0; runRows > 1 && first < rowsPerWarp; first += runRows) {
    Value entry = runRows == rowsPerWarp ? page : emitter.shuffleFrom(yes, page, wordOf(yes, first));
    Value row = addWords(yes, warpRow, first);
    Value place = arith::MulIOp::create(yes, slotInPage(yes, slot, row), indexOf(yes, rowBytes));
    Value base = arith::AddIOp::create(yes, planeOffset(yes, entry), place);
    Value own = mulWords(yes, emitter.lane, 16);
    if (isGrid) {
      own = addWords(yes, mulWords(yes, arith::DivUIOp::create(yes, emitter.lane, wordOf(yes, across)), rowBytes),
                     mulWords(yes, arith::RemUIOp::create(yes, emitter.lane, wordOf(yes, across)), 16));
    }
    runs.push_back(arith::AddIOp::create(yes, base, toIndex(yes, own)));
  }

  auto emitCopies = [&](ImplicitLocOpBuilder &b, bool isFull) {
    // Where a row's chunks divide a warp, every copy is `stepRows` further, and swizzles repeat every `period` copies.
    const int64_t stepRows = lanes % chunks == 0 ? lanes / chunks : 0;
    const int64_t period = !stepRows ? copies : operand.swizzled ? std::max<int64_t>(1, 8 / stepRows) : 1;
    for (int64_t i = 0; i < copies; ++i) {
      const int64_t number = isGrid ? 0 : i % period, further = isGrid ? i / parts * down : (i - number) * stepRows;
      const int64_t furtherChunk = isGrid ? i % parts * across : 0;
      Value piece = addWords(b, emitter.lane, isGrid || stepRows ? 0 : i * lanes);
      Value ofRow = wordOf(b, isGrid ? across : chunks);
      Value row = arith::DivUIOp::create(b, piece, ofRow), chunk = arith::RemUIOp::create(b, piece, ofRow);
      row = addWords(b, row, number * stepRows);
      Value from;
      int64_t displacement = furtherChunk * 16;
      if (isGrid && !runs.empty()) {
        const int64_t run = further / runRows;
        from = runs[run];
        displacement += (further - run * runRows) * rowBytes;
      } else if (!runs.empty()) {
        const int64_t run = i * lanes / (runRows * chunks);
        from = runs[run];
        displacement = i * lanes * 16 - run * runRows * rowBytes;
      } else {
        // The lane that has the row's page gives it to all that copy the row.
        Value pageRow = addWords(b, row, further);
        Value source = emitter.shuffleFrom(b, page, pageRow);
        Value place =
            arith::MulIOp::create(b, slotInPage(b, slot, addWords(b, warpRow, pageRow)), indexOf(b, rowBytes));
        from = arith::AddIOp::create(b, arith::AddIOp::create(b, planeOffset(b, source), place),
                                     toIndex(b, mulWords(b, chunk, 16)));
      }
      Value stagedChunk = chunk;
      if (operand.swizzled) {
        stagedChunk =
            arith::XOrIOp::create(b, chunk, arith::RemUIOp::create(b, addWords(b, row, warpRow), wordOf(b, 8)));
      }
      Value stagedRow = operand.placeOfRow(b, addWords(b, row, warpRow));
      Value to =
          addWords(b, addWords(b, mulWords(b, stagedRow, operand.stageRow), stageBase), mulWords(b, stagedChunk, 16));
      Value valid;
      if (!isFull) {
        // Subtracted from the count, which changes, so that no row numbers are kept in registers.
        valid = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, addWords(b, row, warpRow),
                                      addWords(b, toWord(b, count), -further));
      }
      auto emit = [&](ImplicitLocOpBuilder &b) {
        tile::CopyAsyncOp::create(b, operand.cache->pages, from, displacement, emitter.staging, to,
                                  operand.placeOfRow(further) * operand.stageRow + furtherChunk * 16, valid);
      };
      if ((i + 1) * lanes <= rowsPerWarp * chunks) {
        emit(b);
        continue;
      }
      Value isPiece = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, addWords(b, emitter.lane, i * lanes),
                                            wordOf(b, rowsPerWarp * chunks));
      auto branch = scf::IfOp::create(b, isPiece, /*withElseRegion=*/false);
      ImplicitLocOpBuilder inner = ImplicitLocOpBuilder::atBlockBegin(b.getLoc(), branch.thenBlock());
      emit(inner);
    }
  };
  Value isFull = arith::CmpIOp::create(yes, arith::CmpIPredicate::sge, count, indexOf(yes, slots));
  auto full = scf::IfOp::create(yes, isFull, /*withElseRegion=*/true);
  ImplicitLocOpBuilder whole = ImplicitLocOpBuilder::atBlockBegin(b.getLoc(), full.thenBlock());
  emitCopies(whole, true);
  ImplicitLocOpBuilder part = ImplicitLocOpBuilder::atBlockBegin(b.getLoc(), full.elseBlock());
  emitCopies(part, false);
  tile::CommitAsyncOp::create(b);
}

TileLoop kvc::describeLoop(TeamEmitter &emitter, scf::ForOp loop, SmallVectorImpl<LateOperand> &others) {
  TileLoop tiles;
  for (Operation &op : *loop.getBody()) {
    if (isa<tile::OperandOp, tile::GatherOperandOp>(op)) {
      if (fitsRing(emitter, &op, tiles.operands.empty() ? tile::OperandOp() : tiles.operands.front())) {
        tiles.operands.push_back(cast<tile::OperandOp>(op));
      } else {
        others.push_back({&op, ""});
      }
    } else if (auto softmax = dyn_cast<tile::SoftmaxStepOp>(op)) {
      tiles.step = softmax;
    }
  }
  auto carriedAt = [&](Value value) -> std::optional<unsigned> {
    auto argument = dyn_cast<BlockArgument>(value);
    if (!argument || argument.getOwner() != loop.getBody() || argument.getArgNumber() == 0) {
      return std::nullopt;
    }
    return argument.getArgNumber() - 1;
  };
  if (!tiles.step || loop.getNumResults() != 3) {
    return tiles;
  }
  const auto max = carriedAt(tiles.step.getMax()), sum = carriedAt(tiles.step.getSum()),
             acc = carriedAt(tiles.step.getAcc());
  if (max && sum && acc) {
    tiles.loop = loop;
    std::tie(tiles.max, tiles.sum, tiles.acc) = std::tie(*max, *sum, *acc);
  }
  return tiles;
}

CarriedState::CarriedState(TeamEmitter &emitter, const TileLoop &tiles, const MmaAtom &atom) : emitter(emitter) {
  tile::SoftmaxStepOp step = tiles.step;
  const auto accType = cast<VectorType>(step.getAcc().getType());
  const Layout rows = emitter.rowLayout(atom, accType.getDimSize(0));
  const int64_t channels = emitter.paddedValues(accType.getDimSize(1));
  parts = {{tiles.max, rows},
           {tiles.sum, rows},
           {tiles.acc, emitter.accumulatorLayout(atom, accType.getDimSize(0), channels)}};
}

SmallVector<Value> CarriedState::pull(ImplicitLocOpBuilder &b, ValueRange values) const {
  SmallVector<Value> registers;
  for (const auto &[number, layout] : parts) {
    llvm::append_range(registers, emitter.pullAll(b, values[number], layout));
  }
  return registers;
}

void CarriedState::set(ValueRange registers, ValueRange values) const {
  for (const auto &[number, layout] : parts) {
    const int64_t count =
        layout.outSize(Axis::Column) > 1 ? layout.inSize(Axis::Register) : TeamEmitter::compactCount(layout, Axis::Row);
    emitter.fragments[values[number]] = {layout, SmallVector<Value>(registers.begin(), registers.begin() + count)};
    registers = registers.drop_front(count);
  }
}

LogicalResult TeamEmitter::emitLoop(scf::ForOp loop) {
  SmallVector<LateOperand> others;
  const TileLoop tiles = describeLoop(*this, loop, others);
  const auto &[carrying, operands, step, maxAt, sumAt, accAt] = tiles;
  if (operands.empty() && others.empty() &&
      llvm::none_of(loop.getResultTypes(), [](Type type) { return isa<VectorType>(type); })) {
    return emitBlock(*loop.getBody());
  }
  if (!carrying) {
    return emitPlainLoop(loop);
  }
  if (SmallVector<std::unique_ptr<DirectTile>> direct = directTiles(loop); !direct.empty()) {
    return emitDirectLoop(tiles, direct);
  }
  if (operands.empty()) {
    return emitPlainLoop(loop);
  }
  if (roles) {
    return emitGroupLoop(tiles);
  }

  Ring ring(*this, loop, operands);
  ring.prepare();
  useStaging(ring.bytes());
  if (ring.isOfRegisters()) {
    return emitRegisterLoop(tiles, ring);
  }
  Builder b(loop.getLoc(), loop);
  const CarriedState state(*this, tiles, *ring.operands.front().atom);
  SmallVector<Value> init = state.pull(b, loop.getInitArgs());
  if (hasFailed()) {
    return failure();
  }

  // Whatever used staging memory before is done with it.
  barrier(b);
  CodeTiles codes(*this);
  int64_t offset = ring.bytes();
  llvm::erase_if(others, [&](LateOperand &other) {
    std::optional<CodeTile> tile = createCodeTile(other.op, loop, offset, other.why);
    offset = tile ? codes.add(*tile, b) : offset;
    return tile.has_value();
  });
  useStaging(offset);
  if (failed(decodeOperands(loop, others, offset, /*alone=*/false))) {
    return failure();
  }
  Value stepSize = loop.getStep(), iv = loop.getLowerBound(), page;
  const size_t count = ring.operands.size();
  for (int64_t i = 0; i < ring.stageCount(); ++i) {
    iv = i ? arith::AddIOp::create(b, iv, stepSize).getResult() : iv;
    page = ring.loadPage(b, iv);
    const bool isLast = i == ring.stageCount() - 1;
    for (size_t n = 0; n < count - isLast; ++n) {
      ring.copy(b, n, iv, page, wordOf(b, i));
    }
  }
  const size_t stateSize = init.size();
  init.push_back(page);
  init.push_back(wordOf(b, 0));
  const size_t carriedCount = init.size();
  codes.loadFirst(b, loop, init);
  Value distance = arith::SubIOp::create(b, iv, loop.getLowerBound());

  auto lowered = scf::ForOp::create(b, loop.getLowerBound(), loop.getUpperBound(), stepSize, init);
  Block &body = *lowered.getBody();
  loop.getInductionVar().replaceAllUsesWith(lowered.getInductionVar());
  Builder inner = Builder::atBlockBegin(loop.getLoc(), &body);
  ValueRange carried = lowered.getRegionIterArgs();
  state.set(carried, loop.getRegionIterArgs());
  page = carried[stateSize];
  Value stage = carried[stateSize + 1];
  codes.attach(lowered, carried.drop_front(carriedCount));
  Value next = arith::AddIOp::create(inner, lowered.getInductionVar(), distance);
  Value isLast = arith::CmpIOp::create(inner, arith::CmpIPredicate::eq, stage, wordOf(inner, ring.stageCount() - 1));
  Value nextStage = arith::SelectOp::create(inner, isLast, wordOf(inner, 0), addWords(inner, stage, 1));
  Value isFirst = arith::CmpIOp::create(inner, arith::CmpIPredicate::eq, stage, wordOf(inner, 0));
  Value stageBefore =
      arith::SelectOp::create(inner, isFirst, wordOf(inner, ring.stageCount() - 1), addWords(inner, stage, -1));
  Value nextPage;
  for (auto [number, operand] : llvm::enumerate(ring.operands)) {
    operand.stage = addWords(inner, mulWords(inner, stage, operand.stageBytes), operand.offset);
    staged[operand.op.getResult()] = operand;
    Operation *user = *operand.op.getResult().getUsers().begin();
    beforeProduct[user] = [=, this, &ring, &nextPage, number = number](Builder &b) {
      tile::WaitAsyncOp::create(b, ring.groups() - 1);
      barrier(b);
      if (number > 0) {
        ring.copy(b, number - 1, arith::AddIOp::create(b, next, stepSize), nextPage, stage);
        return;
      }
      ring.copy(b, count - 1, next, page, stageBefore);
      nextPage = ring.loadPage(b, arith::AddIOp::create(b, next, stepSize));
    };
  }
  Operation *yield = loop.getBody()->getTerminator();
  body.getOperations().splice(body.end(), loop.getBody()->getOperations(), loop.getBody()->begin(),
                              Block::iterator(yield));
  ring.moveTo(lowered);
  done.push_back(loop);
  if (failed(emitBlock(body))) {
    return failure();
  }
  Builder end = Builder::atBlockEnd(loop.getLoc(), &body);
  SmallVector<Value> results = state.pull(end, yield->getOperands());
  results.append({nextPage, nextStage});
  codes.finish(results);
  scf::YieldOp::create(end, results);
  state.set(lowered.getResults(), loop.getResults());
  for (StagedOperand &operand : ring.operands) {
    beforeProduct.erase(*operand.op.getResult().getUsers().begin());
  }
  for (const LateOperand &other : others) {
    beforeProduct.erase(*other.op->getResult(0).getUsers().begin());
  }
  tile::WaitAsyncOp::create(b, 0);
  barrier(b);
  // The old loop goes after what it still speaks of.
  yield->setOperands(loop.getInitArgs());

  return leaveState(b, loop, loop.getResult(maxAt), loop.getResult(sumAt), loop.getResult(accAt));
}
