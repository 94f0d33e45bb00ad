//===- Team.cpp - Layouts of a team, control flow -------------------------===//
#include "CodeTile.h"
#include "DirectTile.h"
#include "Ring.h"

using namespace mlir;
using namespace kvc;

TeamEmitter::TeamEmitter(KernelContext &context, tile::ScheduleAttr schedule)
    : context(context), facts(*context.getTarget().team), schedule(schedule), warps(schedule.getWarps()),
      teamWarps(schedule.getWarps()),
      entry(Builder::atBlockBegin(context.kernel.getLoc(), &context.kernel.getBody().front())) {
  Value thread = toWord(entry, gpu::ThreadIdOp::create(entry, gpu::Dimension::x));
  Value lanes = wordOf(entry, facts.lanes);
  lane = arith::RemUIOp::create(entry, thread, lanes);
  warp = arith::DivUIOp::create(entry, thread, lanes);
  auto space = gpu::AddressSpaceAttr::get(entry.getContext(), gpu::AddressSpace::Workgroup);
  auto type = MemRefType::get({ShapedType::kDynamic}, entry.getI8Type(), MemRefLayoutAttrInterface(), space);
  staging = gpu::DynamicSharedMemoryOp::create(entry, type);
}

InFlightDiagnostic TeamEmitter::fail(Operation *op) {
  if (failedOp) {
    return InFlightDiagnostic();
  }
  failedOp = true;
  return op->emitOpError();
}

static constexpr int64_t rowsOfInstruction = 16;

int64_t TeamEmitter::widestValues() const {
  int64_t widest = 0;
  context.kernel.walk([&](tile::MmaOp op) {
    if (op.getContract() == tile::Contract::Slots && !isOfWarpGroups(op)) {
      widest = std::max(widest, op.getB().getType().getChannels());
    }
  });
  return widest;
}

bool TeamEmitter::queriesFit(tile::MmaOp op) {
  // Of 16 rows: an accumulator of f32, queries as words, scores; addresses and what is on its way need the rest, more
  // of it where a kernel has code for warp groups too.
  const bool hasRoles = teamWarps != schedule.getWarps();
  const int64_t registers = hasRoles ? facts.consumerRegisters : facts.laneRegisters,
                otherRegisters = hasRoles ? 88 : 56;
  const int64_t rows = op.getA().getType().getDimSize(0), channels = op.getB().getType().getChannels();
  const TeamShape shape = shapeOf(rows);
  const int64_t scores = op.getB().getType().getSlots() / shape.columnWarps / 2, values = widestValues() / 2;
  const int64_t sets = setsOf(productOf(op.getB()));
  if (!facts.readsInOrder() || sets > 1) {
    dividesValues |= shape.rowTiles * (values + scores) + otherRegisters > registers && shape.columnWarps > 1;
  }
  if (facts.readsInOrder()) {
    return queriesFitInOrder(op);
  }
  const int64_t held = dividesValues ? values / shape.columnWarps : values;
  // What is split is decoded between products, which needs more.
  const int64_t decoding = sets > 1 ? 24 : 0;
  return shape.rowTiles * (held + scores + sets * channels / 4) + otherRegisters + decoding <= registers;
}

int64_t TeamEmitter::codeRegisters(scf::ForOp loop) {
  int64_t registers = 0;
  for (Operation &op : *loop.getBody()) {
    std::string why;
    auto tile =
        isa<tile::OperandOp, tile::GatherOperandOp>(op) ? createCodeTile(&op, loop, /*offset=*/0, why) : std::nullopt;
    registers += tile ? static_cast<int64_t>(tile->types().size()) : 0;
  }
  return registers;
}

bool TeamEmitter::queriesFitInOrder(tile::MmaOp op) {
  const TeamShape shape = shapeOf(op.getA().getType().getDimSize(0));
  const auto type = op.getB().getType();
  const int64_t values = widestValues(), sets = setsOf(productOf(op.getB()));
  // What is split is decoded between products, a chunk at a time.
  constexpr int64_t decoding = 24;
  WarpTile tile{shape.rowTiles,
                dividesValues ? type.getSlots() : type.getSlots() / shape.columnWarps,
                type.getChannels(),
                dividesValues ? values / shape.columnWarps : values,
                /*querySets=*/sets,
                sets > 1 ? decoding : copiedRegisters(facts, type.getSlots(), type.getChannels(), values, warps)};
  auto loop = op->getParentOfType<scf::ForOp>();
  const auto direct = loop ? directTiles(loop) : SmallVector<std::unique_ptr<DirectTile>>();
  if (!direct.empty()) {
    tile.isDirect = true;
    tile.onTheirWay = 0;
    for (const std::unique_ptr<DirectTile> &operand : direct) {
      tile.onTheirWay += registersOf(*operand);
    }
  } else if (const int64_t codes = loop ? codeRegisters(loop) : 0) {
    tile.onTheirWay = codes + decoding;
  }
  return fitsRegisters(facts, tile);
}

bool TeamEmitter::hasRoomFor(int64_t queryBytes, tile::MmaOp op) {
  auto loop = op->getParentOfType<scf::ForOp>();
  if (!loop || !facts.readsInOrder() || setsOf(productOf(op.getB())) == 1) {
    return true;
  }
  // Operands that are split are decoded in the loop, in turns where need be, or in front of it.
  int64_t most = 0;
  for (Operation &other : *loop.getBody()) {
    if (isa<tile::OperandOp, tile::GatherOperandOp>(other)) {
      most = std::max(most, describeUnpacked(&other, /*offset=*/0).stageBytes);
    }
  }
  return queryBytes + most <= facts.stagingBytes;
}

void TeamEmitter::placeQueries() {
  auto walk = [&](auto visit) {
    context.kernel.walk([&](tile::MmaOp op) {
      if (op.getContract() == tile::Contract::Channels && !isOfWarpGroups(op)) {
        visit(op);
      }
    });
  };
  // Tiles with less than an instruction's slots for each warp would be filled up to that.
  walk([&](tile::MmaOp op) {
    const TeamShape shape = shapeOf(op.getA().getType().getDimSize(0));
    dividesValues |= !schedule.getProducers() && shape.columnWarps > 1 &&
                     op.getB().getType().getSlots() < rowsOfInstruction * shape.columnWarps;
  });
  // Whether any of them divides the values decides for all.
  walk([&](tile::MmaOp op) { queriesFit(op); });
  separateFirstOperands();
  walk([&](tile::MmaOp op) {
    if (!queriesFit(op)) {
      const int64_t rows = op.getA().getType().getDimSize(0), channels = op.getB().getType().getChannels();
      const int64_t own = describeQueries(rows, channels, productOf(op.getB())).stageBytes;
      if (!hasRoomFor(own, op)) {
        return;
      }
      int64_t &bytes = tilesInStaging[op.getA()];
      bytes = std::max(bytes, own);
      queryBytes = std::max(queryBytes, bytes);
    }
  });
}

int64_t TeamEmitter::keyRun(tile::MmaOp op) {
  auto [found, isNew] = keyRuns.try_emplace(op, 0);
  auto loop = op->getParentOfType<scf::ForOp>();
  if (!isNew || op.getContract() != tile::Contract::Channels || !loop || op->getBlock() != loop.getBody() ||
      dividesValues || shapeOf(op.getA().getType().getDimSize(0)).rowWarps > 1 || setsOf(productOf(op.getB())) > 1 ||
      !queriesFit(op)) {
    return found->second;
  }
  if (!facts.loadsMatrices) {
    SmallVector<LateOperand> others;
    if (!describeLoop(*this, loop, others).loop) {
      return 0;
    }
    for (const std::unique_ptr<DirectTile> &tile : directTiles(loop)) {
      if (tile->shape().op == op.getB().getDefiningOp()) {
        keyRuns[op] = tile->keyRun();
      }
    }
    return keyRuns[op];
  }
  // As the loops see it: keys and values, each the operand of one product.
  const auto operands =
      llvm::count_if(*loop.getBody(), [](Operation &op) { return isa<tile::OperandOp, tile::GatherOperandOp>(op); });
  if (operands != 2 || !op.getB().hasOneUse()) {
    return 0;
  }
  std::string why;
  auto tile = CodeTile::create(*this, op.getB().getDefiningOp(), loop, CodeTile::Form::Keys, /*offset=*/0, why);
  return keyRuns[op] = tile ? tile->run() : 0;
}

int64_t TeamEmitter::queryBytesBefore(scf::ForOp loop) const {
  int64_t most = 0;
  for (auto [tile, bytes] : tilesInStaging) {
    if (tile.getParentRegion()->isAncestor(loop->getParentRegion())) {
      // Elsewhere all loops begin behind the largest, so that they have equally many stages.
      most = std::max(most, facts.readsInOrder() ? bytes : queryBytes);
    }
  }
  return most;
}

void TeamEmitter::barrier(Builder &b) {
  if (warps == teamWarps) {
    gpu::BarrierOp::create(b);
  } else {
    tile::PartBarrierOp::create(b, 1, warps * facts.lanes);
  }
}

LogicalResult TeamEmitter::run() {
  if (schedule.getProducers() && failed(splitRoles())) {
    return failure();
  }
  findTallRows();
  placeQueries();
  useStaging(queryBytes);
  if (failed(emitBlock(context.kernel.getBody().front())) || hasFailed()) {
    return failure();
  }
  for (Operation *op : llvm::reverse(done)) {
    op->erase();
  }
  if (stagingBytes > facts.stagingBytes) {
    return context.kernel.emitOpError() << "expects a schedule of at most " << facts.stagingBytes
                                        << " bytes of staging memory on " << context.getTarget().name << ", but got "
                                        << stagingBytes << ": choose fewer slots or stages in tile.schedule";
  }
  OpBuilder b(context.kernel.getContext());
  context.kernel->setAttr(tile::TileDialect::teamAttr, b.getI64IntegerAttr(teamWarps * facts.lanes));
  context.kernel->setAttr(tile::TileDialect::stagingAttr, b.getI64IntegerAttr(stagingBytes));
  if (!maps.empty()) {
    context.kernel->setAttr(tile::TileDialect::boxesAttr,
                            b.getArrayAttr(SmallVector<Attribute>(maps.begin(), maps.end())));
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

const MmaAtom &TeamEmitter::atomFor(ProductType type, int64_t rows) const {
  if (!isTall(rows)) {
    return kvc::atomOf(facts, type);
  }
  return *lookupMmaAtom((facts.tallMmaAtom + (type == ProductType::F16 ? ".f16" : ".bf16")).str());
}

TeamShape TeamEmitter::shapeOf(int64_t rows) const {
  if (isTall(rows)) {
    const int64_t m = atomFor(ProductType::F16, rows).m;
    return {warps, static_cast<int64_t>(llvm::divideCeil(rows, m)) / warps, 1, m};
  }
  const int64_t tiles = llvm::divideCeil(rows, 16), rowWarps = rowWarpsOf(warps, rows), columnWarps = warps / rowWarps;
  // A warp that has all slots of its rows would have to give its accumulator another layout in the end.
  const bool isHalf = facts.loadsMatrices && rows <= 8 && columnWarps > 1 && !dividesValues;
  return {rowWarps, static_cast<int64_t>(llvm::divideCeil(tiles, rowWarps)), columnWarps, isHalf ? 8 : 16};
}

/// The rows of `tile` that a lane's first registers hold: half of them.
static Layout halfOf(const Layout &tile) {
  SmallVector<Mode> modes(tile.getModes());
  for (Mode &mode : modes) {
    if (mode.in == Axis::Register && mode.out == Axis::Row) {
      mode.out = Axis::None;
      mode.outStride = 0;
    }
  }
  return Layout(modes).withoutReplicatedRegisters();
}

/// A first operand of one row tile, for all rows of all warps.
static Layout rowsOfWarps(const Layout &tile, const TeamShape &shape, bool innerOverWarps) {
  return tile.product(Layout({{shape.rowTiles, Axis::Register, 1, Axis::Row, 1}}))
      .product(Layout({{shape.rowWarps, Axis::Warp, 1, Axis::Row, 1}}))
      .product(Layout({{shape.columnWarps, Axis::Warp, 1, innerOverWarps ? Axis::Column : Axis::None, 1}}));
}

/// Results `one` side by side, or `tiles` of them each with every so many columns one, and one below the other; warps
/// that share rows divide the columns or hold all of them.
static Layout resultLayout(const Layout &one, const TeamShape &shape, int64_t columns, bool dividesColumns,
                           int64_t tiles) {
  const int64_t own = dividesColumns ? columns / shape.columnWarps : columns;
  Layout warps = dividesColumns ? Layout({{shape.columnWarps, Axis::Warp, 1, Axis::Column, 1}})
                                : Layout({{shape.columnWarps, Axis::Warp, 1, Axis::None, 0}});
  SmallVector<Mode> modes;
  for (Mode mode : one.getModes()) {
    mode.outStride *= mode.out == Axis::Column ? tiles : 1;
    modes.push_back(mode);
  }
  modes.push_back({tiles, Axis::Register, one.inSize(Axis::Register), Axis::Column, 1});
  return Layout(modes)
      .product(Layout({{own / one.outSize(Axis::Column) / tiles, Axis::Register, 1, Axis::Column, 1}}))
      .product(Layout({{shape.rowTiles, Axis::Register, 1, Axis::Row, 1}}))
      .product(Layout({{shape.rowWarps, Axis::Warp, 1, Axis::Row, 1}}))
      .product(warps);
}

Layout TeamEmitter::productLayout(const MmaAtom &atom, int64_t rows, int64_t columns) const {
  const TeamShape shape = shapeOf(rows);
  return resultLayout(shape.usesHalf() ? halfOf(atom.d()) : atom.d(), shape, columns,
                      /*dividesColumns=*/!dividesValues, /*tiles=*/1);
}

Layout TeamEmitter::accumulatorLayout(const MmaAtom &atom, int64_t rows, int64_t columns, bool isMerged) const {
  const TeamShape shape = shapeOf(rows);
  if (auto tall = tallRows.find(rows); tall != tallRows.end()) {
    if (!tall->second) {
      return resultLayout(atom.d(), shape, columns, /*dividesColumns=*/false, /*tiles=*/1);
    }
    const Layout woven = resultLayout(atom.d(), shape, columns, /*dividesColumns=*/false, Woven::tiles);
    std::optional<Layout> ordered = woven.compose(
        Layout({{woven.outSize(Axis::Row), Axis::Row, 1, Axis::Row, 1}}).product(tall->second->channelOrder(columns)));
    assert(ordered && "expects columns of whole rounds of lanes");
    return *ordered;
  }
  const int64_t own = dividesValues ? columns / shape.columnWarps : columns;
  return resultLayout(shape.usesHalf() ? halfOf(atom.d()).transposed() : atom.d(), shape, columns,
                      /*dividesColumns=*/dividesValues || isMerged, isMerged ? 1 : valueTiles(atom, own));
}

Layout TeamEmitter::rowLayout(const MmaAtom &atom, int64_t rows) const {
  return productLayout(atom, rows, atom.n * shapeOf(rows).columnWarps).project(Axis::Row).withoutReplicatedRegisters();
}

int64_t TeamEmitter::valueTiles(const MmaAtom &atom, int64_t channels) const {
  return facts.loadsMatrices ? 1 : valueTilesOf(facts, atom, channels);
}

int64_t TeamEmitter::keySteps(const MmaAtom &atom, int64_t channels) const {
  constexpr int64_t most = 8;
  const int64_t held = atom.a().inSize(Axis::Register), steps = most / held;
  return !facts.loadsMatrices && steps > 1 && channels % (steps * atom.k) == 0 ? steps : 1;
}

Layout TeamEmitter::queryLayout(const MmaAtom &atom, int64_t rows, int64_t channels, int64_t keyRun) const {
  const TeamShape shape = shapeOf(rows);
  const Layout one = atom.a();
  const int64_t held = one.inSize(Axis::Register);
  SmallVector<Mode> modes;
  if (keyRun) {
    // Pairs and steps of a lane side by side, then the lanes.
    int64_t column = 1, lanes = 1;
    for (Mode mode : one.getModes()) {
      if (mode.out == Axis::Column && mode.in == Axis::Register) {
        mode.outStride = column;
        column *= mode.size;
      } else if (mode.out == Axis::Column) {
        mode.outStride = keyRun;
        lanes *= mode.size;
      }
      modes.push_back(mode);
    }
    const int64_t steps = keyRun / column;
    modes.push_back({steps, Axis::Register, held, Axis::Column, column});
    modes.push_back({channels / (keyRun * lanes), Axis::Register, held * steps, Axis::Column, keyRun * lanes});
    return rowsOfWarps(Layout(modes), shape, /*innerOverWarps=*/false);
  }
  const int64_t steps = keySteps(atom, channels);
  modes.push_back({steps, Axis::Register, held, Axis::Column, held});
  for (Mode mode : one.getModes()) {
    mode.outStride *= mode.in == Axis::Lane && mode.out == Axis::Column ? steps : 1;
    modes.push_back(mode);
  }
  return rowsOfWarps(Layout(modes).product(Layout({{channels / atom.k / steps, Axis::Register, 1, Axis::Column, 1}})),
                     shape, /*innerOverWarps=*/false);
}

Value TeamEmitter::columnWarp(Builder &b, const TeamShape &shape) {
  return arith::RemUIOp::create(b, arith::DivUIOp::create(b, warp, wordOf(b, shape.rowWarps)),
                                wordOf(b, shape.columnWarps));
}

static Layout firstOperandLayout(const Layout &one, const TeamShape &shape, int64_t inner, bool innerOverWarps) {
  const int64_t own = innerOverWarps ? inner / shape.columnWarps : inner;
  return rowsOfWarps(one.product(Layout({{own / one.outSize(Axis::Column), Axis::Register, 1, Axis::Column, 1}})),
                     shape, innerOverWarps);
}

Layout TeamEmitter::operandLayout(const MmaAtom &atom, int64_t rows, int64_t inner, bool innerOverWarps) const {
  return firstOperandLayout(atom.a(), shapeOf(rows), inner, innerOverWarps);
}

Layout TeamEmitter::probabilityLayout(const MmaAtom &atom, int64_t rows, int64_t slots) const {
  const TeamShape shape = shapeOf(rows);
  return firstOperandLayout(shape.usesHalf() ? atom.b().transposed() : atom.a(), shape, slots, !dividesValues);
}

Value TeamEmitter::coordinate(Builder &b, const Layout &layout, Axis axis, int64_t reg) {
  std::string key;
  llvm::raw_string_ostream os(key);
  llvm::SmallVector<Mode> modes;
  for (const Mode &mode : layout.getModes()) {
    if (mode.out == axis && mode.in != Axis::Register) {
      modes.push_back(mode);
    }
  }
  os << Layout(modes);
  Value &base = coordinateBases[key];
  if (!base) {
    for (const Mode &mode : modes) {
      Value place = mode.in == Axis::Lane ? lane : warp;
      Value digit = entry.createOrFold<arith::RemUIOp>(
          entry.createOrFold<arith::DivUIOp>(place, wordOf(entry, mode.inStride)), wordOf(entry, mode.size));
      digit = mulWords(entry, digit, mode.outStride);
      base = base ? addWords(entry, base, digit) : digit;
    }
    if (!base) {
      base = wordOf(entry, 0);
    }
  }
  return addWords(b, base, layout(reg, 0, 0)[axis]);
}

int64_t TeamEmitter::compactRegister(const Layout &layout, Axis axis, int64_t reg) {
  int64_t result = 0, stride = 1;
  for (const Mode &mode : layout.getModes()) {
    if (mode.in == Axis::Register && mode.out == axis) {
      result += reg / mode.inStride % mode.size * stride;
      stride *= mode.size;
    }
  }
  return result;
}

int64_t TeamEmitter::compactCount(const Layout &layout, Axis axis) {
  return layout.project(axis).withoutReplicatedRegisters().inSize(Axis::Register);
}

SmallVector<int64_t> TeamEmitter::laneSteps(const Layout &layout, Axis axis) {
  SmallVector<int64_t> steps;
  for (const Mode &mode : layout.getModes()) {
    if (mode.in == Axis::Lane && mode.out == axis) {
      for (int64_t step = 1; step < mode.size; step *= 2) {
        steps.push_back(step * mode.inStride);
      }
    }
  }
  return steps;
}

Value TeamEmitter::shuffleXor(Builder &b, Value value, int64_t offset) {
  return gpu::ShuffleOp::create(b, value, wordOf(b, offset), wordOf(b, facts.lanes), gpu::ShuffleMode::XOR)
      .getShuffleResult();
}

Value TeamEmitter::shuffleFrom(Builder &b, Value value, Value source) {
  return gpu::ShuffleOp::create(b, value, source, wordOf(b, facts.lanes), gpu::ShuffleMode::IDX).getShuffleResult();
}

SmallVector<Value> TeamEmitter::moveRows(Builder &b, ArrayRef<Value> numbers, const Layout &from, const Layout &to) {
  Layout source = from.project(Axis::Row).withoutReplicatedRegisters(),
         target = to.project(Axis::Row).withoutReplicatedRegisters();
  if (source == target) {
    return SmallVector<Value>(numbers);
  }
  std::optional<Layout> places = target.compose(source.inverse());
  assert(places && "rows of a team divide alike");
  SmallVector<Value> moved;
  for (int64_t i = 0; i < target.inSize(Axis::Register); ++i) {
    moved.push_back(shuffleFrom(b, numbers[(*places)(i, 0, 0)[Axis::Register]], coordinate(b, *places, Axis::Lane, i)));
  }
  return moved;
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

LogicalResult TeamEmitter::emitBlock(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (failed(emitOp(&op)) || hasFailed()) {
      return failure();
    }
  }
  return success();
}

static bool isTile(Type type) { return isa<VectorType>(type); }

LogicalResult TeamEmitter::packFirstOperand(Value tile) {
  for (Operation *user : tile.getUsers()) {
    auto mma = dyn_cast<tile::MmaOp>(user);
    if (!mma || mma.getA() != tile) {
      continue;
    }
    const ProductType type = productOf(mma.getB());
    if (words.contains({tile.getAsOpaquePointer(), type}) ||
        stagedQueries.contains({tile.getAsOpaquePointer(), type})) {
      continue;
    }
    if (roles) {
      return placeFirstOperand(tile, type);
    }
    Builder b(tile.getLoc(), tile.getContext());
    b.setInsertionPointAfterValue(tile);
    auto tileType = cast<VectorType>(tile.getType());
    if (tilesInStaging.contains(tile)) {
      stageQueries(b, tile, type);
      continue;
    }
    const TeamShape shape = shapeOf(tileType.getDimSize(0));
    // In a loop (statistics) keys that were decoded in front of it lie where the queries would.
    const bool isInLoop = tile.getParentRegion()->getParentOfType<scf::ForOp>() != nullptr;
    if (shape.usesHalf() || (!facts.loadsMatrices && shape.columnWarps > 1 && !isInLoop)) {
      spreadQueries(b, tile, type, keyRun(mma));
      continue;
    }
    packOperand(b, tile, type,
                queryLayout(atomFor(type, tileType.getDimSize(0)), tileType.getDimSize(0),
                            paddedKeys(tileType.getDimSize(1)), keyRun(mma)));
  }
  return success(!hasFailed());
}

LogicalResult TeamEmitter::emitOp(Operation *op) {
  auto finished = [&]() -> LogicalResult {
    done.push_back(op);
    return success();
  };
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    return emitLoop(loop);
  }
  if (auto branch = dyn_cast<scf::IfOp>(op)) {
    if (roleScopes.contains(branch)) {
      return emitScope(branch);
    }
    if (branch.getNumResults() && llvm::any_of(branch.getResultTypes(), isTile)) {
      return fail(op) << "gives tiles, which has no lowering to teams yet";
    }
    for (Region &region : branch->getRegions()) {
      if (!region.empty() && failed(emitBlock(region.front()))) {
        return failure();
      }
    }
    return success();
  }
  if (auto store = dyn_cast<tile::StoreRowsOp>(op)) {
    emitStoreRows(store);
    return finished();
  }
  if (auto mma = dyn_cast<tile::MmaOp>(op)) {
    return failed(emitMma(mma)) ? failure() : finished();
  }
  if (auto step = dyn_cast<tile::SoftmaxStepOp>(op)) {
    return failed(emitSoftmaxStep(step)) ? failure() : finished();
  }
  if (auto finish = dyn_cast<tile::SoftmaxFinishOp>(op)) {
    emitSoftmaxFinish(finish);
    return finished();
  }
  if (auto reduction = dyn_cast<vector::MultiDimReductionOp>(op)) {
    emitColumnReduction(reduction);
    return finished();
  }
  if (auto store = dyn_cast<tile::StoreSlotNumbersOp>(op)) {
    emitStoreSlotNumbers(store);
    return finished();
  }
  if (isa<tile::OperandOp, tile::GatherOperandOp>(op)) {
    if (!staged.contains(op->getResult(0))) {
      return fail(op) << "outside a loop over tiles has no lowering to teams yet";
    }
    return finished();
  }
  if (isa<tile::LoadRowsOp, tile::RowPositionsOp, tile::LoadHeadsOp, tile::SlotPositionsOp, tile::GatherPositionsOp,
          tile::LoadMaskOp>(op)) {
    return failed(packFirstOperand(op->getResult(0))) ? failure() : finished();
  }
  bool lazy =
      op->hasTrait<OpTrait::Elementwise>() || isa<vector::BroadcastOp, vector::ShapeCastOp, arith::ConstantOp>(op);
  if (op->getNumResults() == 1 && isTile(op->getResult(0).getType()) && lazy) {
    return failed(packFirstOperand(op->getResult(0))) ? failure() : finished();
  }
  if (llvm::any_of(op->getOperandTypes(), isTile) || llvm::any_of(op->getResultTypes(), isTile)) {
    return fail(op) << "has no lowering to teams yet";
  }
  return success();
}
