//===- Roles.cpp - Warps that copy, warps that compute --------------------===//
//
// A kernel with producers is cut into regions for parts of the team: where a query tile has as many rows as the groups
// of computing warps, the other warps do nothing but copy keys and values into a ring of stages that both sides know by
// phase barriers. Elsewhere (decode) some warps do all, and the others have nothing to do.
//
//   the copying warp, for each tile         computing warps, for each tile (WarpGroups.cpp)
//     wait: keys' stage is free               wait: keys are there
//     start copies, arrive when they end      scores; arrive: keys' stage is free
//     the same for values                     wait: values are there ...
//
// One warp copies whole tiles: what it computes besides is the same for one row as for all. The others of its group
// have only given registers up. Numbers that do not depend on tiles are computed before the cut, by all.
//
// Tiles all of whose slots count are copied in boxes (Boxes.cpp) where they can be, without the lanes: the phase ends
// with the last byte, and products may read. Others are copied in pieces of 16 bytes, so that zeros arrive for slots
// that do not count. Beside boxes it is the copying warp that waits for those and makes them visible to products; else
// each lane arrives when its copies end, and those that compute make them visible.
//
//===----------------------------------------------------------------------===//
#include "TeamEmitter.h"

#include "mlir/IR/Remarks.h"
#include "llvm/ADT/SetVector.h"

#include <numeric>

using namespace mlir;
using namespace kvc;

static constexpr int64_t panelAlignment = 1024, barrierBytes = 8;

static bool isTileType(Type type) { return isa<VectorType>(type); }

/// The operands of a block's loops, when all lie in loops of the block itself; nothing otherwise.
static std::optional<SmallVector<tile::OperandOp>> operandsOfLoops(Block &block) {
  SmallVector<tile::OperandOp> operands;
  bool direct = true;
  block.walk([&](Operation *op) {
    if (auto operand = dyn_cast<tile::OperandOp>(op)) {
      operands.push_back(operand);
      auto loop = dyn_cast<scf::ForOp>(op->getParentOp());
      direct &= loop && loop->getBlock() == &block;
    }
    direct &= !isa<tile::GatherOperandOp>(op);
  });
  if (!direct || operands.empty()) {
    return std::nullopt;
  }
  return operands;
}

/// Rows of a loop's tiles that surely lie side by side in one page: all rows of a tile are in such runs, from multiples
/// of as many on, and what a warp copies at once is of one. 0: there are none.
static int64_t runOf(const TeamFacts &facts, const RoleState &state, tile::OperandOp op) {
  auto loop = cast<scf::ForOp>(op->getParentOp());
  const int64_t rows = state.k.rows, run = std::gcd(cast<kvcache::CacheType>(op.getCache().getType()).getPage(), rows);
  auto is = [&](Value value) { return isMultipleOf(value, run); };
  const bool isAligned =
      op.getSlot() == loop.getInductionVar() ? is(loop.getLowerBound()) && is(loop.getStep()) : is(op.getSlot());
  const int64_t together = facts.lanes / std::min(state.k.chunks(), state.v.chunks());
  return isAligned && run % together == 0 && rows / run <= facts.lanes ? run : 0;
}

/// Whole tiles are copied in boxes where those of all loops can be.
static void chooseBoxes(TeamEmitter &emitter, ArrayRef<tile::OperandOp> operands, RoleState &state) {
  for (tile::OperandOp op : operands) {
    const std::string why = whyNoBoxes(emitter.context.cache(op.getCache()), runOf(emitter.facts, state, op));
    if (!why.empty()) {
      remark::missed(op.getLoc(), remark::RemarkOpts::name("boxes").category("attention"))
          << "whole tiles are copied in pieces of 16 bytes: " + why;
      return;
    }
  }
  state.copiesBoxes = true;
}

/// How warp groups compute a block; nothing where they do not.
static std::optional<RoleState> rolesOf(TeamEmitter &emitter, Block &block, int64_t rows) {
  const TeamFacts &facts = emitter.facts;
  auto operands = operandsOfLoops(block);
  if (!operands || static_cast<int64_t>(llvm::divideCeil(rows, 16)) != emitter.schedule.getWarps()) {
    return std::nullopt;
  }
  RoleState state;
  state.stages = std::max<int64_t>(2, emitter.schedule.getStages());
  for (tile::OperandOp op : *operands) {
    auto type = cast<kvcache::CacheType>(op.getCache().getType());
    const bool isKey = op.getPlane() == kvcache::Plane::K;
    const int64_t slots = op.getType().getSlots(), channels = op.getType().getChannels();
    const GroupMmaAtom *atom =
        lookupGroupMmaAtom((facts.groupAtom + "." + type.getFormat(op.getPlane()).getName()).str());
    if (!atom || (state.atom && atom != state.atom) || op.getPart() != tile::Part::Pages || (isKey && type.getRope()) ||
        type.aliasesValues() || channels % atom->k || slots % facts.lanes ||
        emitter.schedule.getWarps() % atom->warps || slots > atom->maxN || channels > atom->maxN) {
      return std::nullopt;
    }
    state.atom = atom;
    (isKey ? state.k : state.v) = Panels::of(slots, channels);
  }
  if (!state.k.columns || !state.v.columns || state.k.rows != state.v.rows) {
    return std::nullopt;
  }
  // Registers of a lane: the output's sums, scores, probabilities, and queries if they fit beside what else is needed.
  constexpr int64_t otherRegisters = 40;
  const bool holdsQueries =
      state.v.columns / 2 + state.k.rows / 2 + state.k.rows / 4 + state.k.columns / 4 + otherRegisters <=
      facts.consumerRegisters;
  state.query = Panels::of(holdsQueries ? 0 : emitter.schedule.getWarps() * 16, state.k.columns);
  state.kOffset = llvm::alignTo(state.query.bytes(), panelAlignment);
  state.vOffset = state.kOffset + llvm::alignTo(state.k.bytes(), panelAlignment) * state.stages;
  state.barrierOffset = state.vOffset + llvm::alignTo(state.v.bytes(), panelAlignment) * state.stages;
  return state;
}

LogicalResult TeamEmitter::splitRoles() {
  llvm::SetVector<Block *> blocks;
  llvm::DenseMap<Block *, int64_t> rowsOf;
  context.kernel.walk([&](tile::LoadRowsOp op) {
    auto type = cast<VectorType>(op.getType());
    // A region for some warps gives nothing to the others: around loops, not in them.
    Block *block = op->getBlock();
    while (block->getTerminator()->getNumOperands() || isa<scf::ForOp>(block->getParentOp())) {
      block = block->getParentOp()->getBlock();
    }
    if (type.getRank() == 2 && blocks.insert(block)) {
      rowsOf[block] = type.getDimSize(0);
    }
  });
  llvm::DenseMap<Block *, RoleState> states;
  for (Block *block : blocks) {
    if (std::optional<RoleState> state = rolesOf(*this, *block, rowsOf[block])) {
      states[block] = *state;
    }
  }
  // A kernel has roles or not: where one of its tiles has none, all warps do everything.
  if (states.empty() || states.size() != blocks.size()) {
    remark::missed(context.kernel.getLoc(), remark::RemarkOpts::name("roles").category("attention"))
        << "no products of warp groups: no query tile has operands that are rows of pages in loops of its own";
    return success();
  }
  teamWarps += schedule.getProducers();
  // Roles are those of warps: their number is the same in all lanes, and shall be known to be.
  warp = shuffleFrom(entry, warp, wordOf(entry, 0));
  for (Block *block : blocks) {
    chooseBoxes(*this, *operandsOfLoops(*block), states[block]);
    // What follows from tiles, or acts, goes into the region; numbers stay outside.
    SmallVector<Operation *> moved;
    llvm::DenseSet<Operation *> isMoved;
    for (Operation &op : block->without_terminator()) {
      bool moves = op.getNumRegions() || op.getNumResults() == 0 || isa<tile::LoadRowsOp>(op) ||
                   llvm::any_of(op.getOperandTypes(), isTileType) || llvm::any_of(op.getResultTypes(), isTileType) ||
                   llvm::any_of(op.getOperands(), [&](Value value) { return isMoved.contains(value.getDefiningOp()); });
      if (moves && !isa<arith::ConstantOp>(op)) {
        moved.push_back(&op);
        isMoved.insert(&op);
      }
    }
    Builder b(moved.front()->getLoc(), block->getTerminator());
    Value works = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, warp, wordOf(b, warps));
    auto scope = scf::IfOp::create(b, works, /*withElseRegion=*/true);
    for (Operation *op : moved) {
      op->moveBefore(scope.thenBlock()->getTerminator());
    }
    const RoleState &state = states[block];
    useStaging(state.barrierOffset + 4 * state.stages * barrierBytes);
    roleScopes[scope] = state;
  }
  return success();
}

bool TeamEmitter::isOfWarpGroups(Operation *op) const {
  for (; op; op = op->getParentOp()) {
    if (roleScopes.contains(op)) {
      return true;
    }
  }
  return false;
}

LogicalResult TeamEmitter::emitScope(scf::IfOp scope) {
  RoleState &state = roleScopes.find(scope)->second;
  Builder b(scope.getLoc(), scope);
  Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, addWords(b, mulWords(b, warp, facts.lanes), lane),
                                        wordOf(b, 0));
  auto first = scf::IfOp::create(b, isFirst, /*withElseRegion=*/false);
  Builder inner = Builder::atBlockBegin(scope.getLoc(), first.thenBlock());
  for (int64_t i = 0; i < state.stages; ++i) {
    Value at = barrierOffset(inner, wordOf(inner, i), state);
    for (bool isKey : {true, false}) {
      tile::PhaseInitOp::create(inner, staging, at, state.fullAt(isKey), state.copiesBoxes ? 1 : facts.lanes);
      tile::PhaseInitOp::create(inner, staging, at, state.emptyAt(isKey), warps);
    }
  }
  if (state.copiesBoxes) {
    // Barriers are memory, which arriving boxes must find initialised.
    tile::PublishOp::create(inner);
  }
  gpu::BarrierOp::create(b);
  state.produced = state.consumed = {wordOf(b, 0), wordOf(b, 0)};
  Builder copying(scope.getLoc(), scope.elseBlock()->getTerminator());
  Value copies = arith::CmpIOp::create(copying, arith::CmpIPredicate::eq, warp, wordOf(copying, warps));
  state.producer = scf::IfOp::create(copying, copies, /*withElseRegion=*/false).thenBlock();
  roles = &state;
  // Whole groups of warps give registers up, and take them.
  if (warps % schedule.getProducers() == 0) {
    Builder some = Builder::atBlockBegin(scope.getLoc(), scope.thenBlock());
    tile::SetRegistersOp::create(some, facts.consumerRegisters, /*more=*/true);
    Builder others = Builder::atBlockBegin(scope.getLoc(), scope.elseBlock());
    tile::SetRegistersOp::create(others, facts.producerRegisters, /*more=*/false);
  }
  LogicalResult result = emitBlock(*scope.thenBlock());
  roles = nullptr;
  return result;
}

void TeamEmitter::arriveOnce(Builder &b, Value barrier, int64_t displacement) {
  Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lane, wordOf(b, 0));
  auto first = scf::IfOp::create(b, isFirst, /*withElseRegion=*/false);
  Builder inner = Builder::atBlockBegin(b.getLoc(), first.thenBlock());
  tile::PhaseArriveOp::create(inner, staging, barrier, displacement, /*after_copies=*/false);
}

RingPosition TeamEmitter::advance(Builder &b, RingPosition position) const {
  Value isLast = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, position.stage, wordOf(b, roles->stages - 1));
  return {arith::SelectOp::create(b, isLast, wordOf(b, 0), addWords(b, position.stage, 1)),
          arith::XOrIOp::create(b, position.parity, arith::ExtUIOp::create(b, b.getI32Type(), isLast))};
}

Value TeamEmitter::stageOffset(Builder &b, Value stage, bool isKey) const {
  const int64_t bytes = llvm::alignTo((isKey ? roles->k : roles->v).bytes(), panelAlignment);
  return addWords(b, mulWords(b, stage, bytes), isKey ? roles->kOffset : roles->vOffset);
}

Value TeamEmitter::barrierOffset(Builder &b, Value stage, const RoleState &state) {
  return addWords(b, mulWords(b, stage, barrierBytes), state.barrierOffset);
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

Value Panels::flipOfRow(ImplicitLocOpBuilder &b, Value row) const {
  return arith::AndIOp::create(b, arith::ShRUIOp::create(b, mulWords(b, row, swizzle), wordOf(b, 7)),
                               wordOf(b, chunks() - 1));
}

Value Panels::placeOfRow(ImplicitLocOpBuilder &b, Value row) const {
  Value group = arith::DivUIOp::create(b, row, wordOf(b, groupRows)),
        inGroup = arith::RemUIOp::create(b, row, wordOf(b, groupRows));
  return addWords(b, mulWords(b, group, groupBytes()), mulWords(b, inGroup, swizzle));
}

namespace {
/// The copies of one loop by the copying warp: its lanes take 16 bytes each, side by side within a panel, row after
/// row.
class Producer {
public:
  Producer(TeamEmitter &emitter, const TileLoop &tiles)
      : emitter(emitter), loop(tiles.loop), first(tiles.operands.front()),
        cache(emitter.context.cache(first.getCache())), rows(emitter.roles->k.rows), pageSlots(cache.type.getPage()),
        run(runOf(emitter.facts, *emitter.roles, first)) {}

  /// What copies share that does not change from tile to tile; before the loop.
  void prepare(ImplicitLocOpBuilder &b);
  /// The pages of this lane's rows of the tile at `iv` (i32): row 32 i + lane has number i, or where runs share an
  /// address, the one number is that of run `lane`. 0 past the loop's end, and of rows that do not count.
  SmallVector<Value> loadPages(ImplicitLocOpBuilder &b, Value iv);
  /// The same for all lanes, run by run; as they are where no runs share addresses.
  SmallVector<Value> sharePages(ImplicitLocOpBuilder &b, ValueRange pages);
  /// Waits for the stage and starts the copies of the tile at `iv` whose pages those are; the phases of its full
  /// barriers end when they do.
  void copy(ImplicitLocOpBuilder &b, ArrayRef<tile::OperandOp> operands, Value iv, ValueRange pages, RingPosition at);

private:
  void copyBoxes(ImplicitLocOpBuilder &b, tile::OperandOp op, Value slot, Value page, RingPosition at);
  /// Waits for the pieces of a tile, makes them visible to products and arrives for them.
  void finishPieces(ImplicitLocOpBuilder &b, ArrayRef<tile::OperandOp> operands, Value barrier);
  void copyPieces(ImplicitLocOpBuilder &b, tile::OperandOp op, Value slot, Value count, ValueRange pages, Value stage,
                  bool isFull);

  TeamEmitter &emitter;
  scf::ForOp loop;
  tile::OperandOp first;
  const CacheMemory &cache;
  int64_t rows, pageSlots;
  /// Rows that share an address; 0: none surely do.
  int64_t run;
  /// Where this lane's first row and chunk of keys and values lie behind the start of a run's page.
  Value keyPlace, valuePlace;
  /// The first head block of a page that holds this head's (i32), and maps of boxes.
  Value head, keyMap, valueMap;
};
} // namespace

/// Displacements lie on both sides of an address: instructions have few bits for them.
static int64_t middleOf(int64_t runBytes) {
  constexpr int64_t window = 4096;
  return std::min(runBytes, window) / 2;
}

void Producer::prepare(ImplicitLocOpBuilder &b) {
  for (bool isKey : {true, false}) {
    const Panels &panels = isKey ? emitter.roles->k : emitter.roles->v;
    const PlaneLayout &plane = cache.layout.plane(isKey ? kvcache::Plane::K : kvcache::Plane::V);
    const int64_t chunks = panels.chunks(), rowBytes = panels.columns * 2;
    Value place = mulWords(b, arith::RemUIOp::create(b, emitter.lane, wordOf(b, chunks)), 16);
    if (run) {
      place = addWords(b, place, mulWords(b, arith::DivUIOp::create(b, emitter.lane, wordOf(b, chunks)), rowBytes));
    }
    place = addWords(b, place, plane.codes + middleOf(run * rowBytes));
    // Asked of the lane itself, so that constants are not taken out of it again.
    Value index = toIndex(b, emitter.shuffleFrom(b, place, emitter.lane));
    if (!cache.type.getPerHead()) {
      index = arith::AddIOp::create(b, index,
                                    arith::MulIOp::create(b, first.getHead(), indexOf(b, cache.layout.headBlockBytes)));
    }
    (isKey ? keyPlace : valuePlace) = index;
    if (emitter.roles->copiesBoxes) {
      const kvcache::Plane which = isKey ? kvcache::Plane::K : kvcache::Plane::V;
      (isKey ? keyMap : valueMap) = tile::BoxMapOp::create(b, b.getIndexType(), emitter.numberOfMap(cache, which, run));
    }
  }
  if (emitter.roles->copiesBoxes && !cache.type.getPerHead()) {
    head = toWord(b, first.getHead());
  }
}

SmallVector<Value> Producer::sharePages(ImplicitLocOpBuilder &b, ValueRange pages) {
  SmallVector<Value> shared(pages);
  if (run) {
    shared.clear();
    for (int64_t i = 0; i < rows / run; ++i) {
      shared.push_back(emitter.shuffleFrom(b, pages.front(), wordOf(b, i)));
    }
  }
  return shared;
}

SmallVector<Value> Producer::loadPages(ImplicitLocOpBuilder &b, Value iv) {
  const int64_t number = run ? 1 : llvm::divideCeil(rows, emitter.facts.lanes);
  const SmallVector<Type> types(number, b.getI32Type());
  Value isInside = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, iv, loop.getUpperBound());
  auto inside = scf::IfOp::create(b, types, isInside, /*withElseRegion=*/true);
  ImplicitLocOpBuilder yes = ImplicitLocOpBuilder::atBlockBegin(b.getLoc(), inside.thenBlock());
  IRMapping mapping;
  Value slot = valueAt(yes, loop, first.getSlot(), iv, mapping);
  Value count = valueAt(yes, loop, first.getCount(), iv, mapping);
  Value table = emitter.context.tableRow(yes, cache, first.getSequence(), first.getHead());
  SmallVector<Value> pages;
  for (int64_t i = 0; i < number; ++i) {
    Value row = toIndex(yes, addWords(yes, mulWords(yes, emitter.lane, run ? run : 1), i * emitter.facts.lanes));
    Value counts = arith::CmpIOp::create(yes, arith::CmpIPredicate::slt, row,
                                         arith::MinSIOp::create(yes, count, indexOf(yes, rows)));
    auto some = scf::IfOp::create(yes, TypeRange{yes.getI32Type()}, counts, /*withElseRegion=*/true);
    ImplicitLocOpBuilder in = ImplicitLocOpBuilder::atBlockBegin(b.getLoc(), some.thenBlock());
    Value logical = arith::DivUIOp::create(in, arith::AddIOp::create(in, slot, row), indexOf(in, pageSlots));
    scf::YieldOp::create(in, memref::LoadOp::create(in, cache.table, ValueRange{table, logical}).getResult());
    in = ImplicitLocOpBuilder::atBlockBegin(b.getLoc(), some.elseBlock());
    scf::YieldOp::create(in, wordOf(in, 0));
    pages.push_back(some.getResult(0));
  }
  scf::YieldOp::create(yes, pages);
  ImplicitLocOpBuilder no = ImplicitLocOpBuilder::atBlockBegin(b.getLoc(), inside.elseBlock());
  scf::YieldOp::create(no, SmallVector<Value>(number, wordOf(no, 0)));
  return llvm::to_vector_of<Value>(inside.getResults());
}

void Producer::copy(ImplicitLocOpBuilder &b, ArrayRef<tile::OperandOp> operands, Value iv, ValueRange pages,
                    RingPosition at) {
  const RoleState &roles = *emitter.roles;
  IRMapping mapping;
  Value slot = valueAt(b, loop, first.getSlot(), iv, mapping), count = valueAt(b, loop, first.getCount(), iv, mapping);
  Value barrier = TeamEmitter::barrierOffset(b, at.stage, roles);
  // A stage is free when the phase before is over; at first there is none.
  Value before = arith::XOrIOp::create(b, at.parity, wordOf(b, 1));
  Value isFull = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, count, indexOf(b, rows));
  const SmallVector<Value> shared = roles.copiesBoxes ? SmallVector<Value>() : sharePages(b, pages);
  for (tile::OperandOp op : operands) {
    const bool isKey = op.getPlane() == kvcache::Plane::K;
    tile::PhaseWaitOp::create(b, emitter.staging, barrier, roles.emptyAt(isKey), before);
    auto full = scf::IfOp::create(b, isFull, /*withElseRegion=*/true);
    ImplicitLocOpBuilder whole = ImplicitLocOpBuilder::atBlockBegin(b.getLoc(), full.thenBlock());
    ImplicitLocOpBuilder part = ImplicitLocOpBuilder::atBlockBegin(b.getLoc(), full.elseBlock());
    if (roles.copiesBoxes) {
      copyBoxes(whole, op, slot, pages.front(), at);
      copyPieces(part, op, slot, count, sharePages(part, pages), at.stage, false);
      tile::CommitAsyncOp::create(part);
      if (op == operands.back()) {
        finishPieces(part, operands, barrier);
      }
      continue;
    }
    copyPieces(whole, op, slot, count, shared, at.stage, true);
    copyPieces(part, op, slot, count, shared, at.stage, false);
    tile::PhaseArriveOp::create(b, emitter.staging, barrier, roles.fullAt(isKey), /*after_copies=*/true);
  }
}

void Producer::finishPieces(ImplicitLocOpBuilder &b, ArrayRef<tile::OperandOp> operands, Value barrier) {
  auto pending = static_cast<int64_t>(operands.size());
  for (tile::OperandOp op : operands) {
    tile::WaitAsyncOp::create(b, --pending);
    tile::PublishOp::create(b);
    tile::WarpBarrierOp::create(b);
    emitter.arriveOnce(b, barrier, emitter.roles->fullAt(op.getPlane() == kvcache::Plane::K));
  }
}

void Producer::copyBoxes(ImplicitLocOpBuilder &b, tile::OperandOp op, Value slot, Value page, RingPosition at) {
  const RoleState &roles = *emitter.roles;
  const bool isKey = op.getPlane() == kvcache::Plane::K;
  const Panels &panels = isKey ? roles.k : roles.v;
  Value block = mulWords(b, page, cache.layout.headsPerPage), group;
  if (head) {
    block = addWords(b, block, head);
  }
  if (run != pageSlots) {
    Value first = addWords(b, toWord(b, slot), mulWords(b, emitter.lane, run));
    group =
        arith::DivUIOp::create(b, arith::RemUIOp::create(b, first, wordOf(b, pageSlots)), wordOf(b, Panels::groupRows));
  }
  tile::CopyBoxesOp::create(b, rows / run, isKey ? keyMap : valueMap, block, group, emitter.staging,
                            emitter.stageOffset(b, at.stage, isKey), panels.placeOfRow(run),
                            TeamEmitter::barrierOffset(b, at.stage, roles), roles.fullAt(isKey));
}

void Producer::copyPieces(ImplicitLocOpBuilder &b, tile::OperandOp op, Value slot, Value count, ValueRange pages,
                          Value stage, bool isFull) {
  const bool isKey = op.getPlane() == kvcache::Plane::K;
  const Panels &panels = isKey ? emitter.roles->k : emitter.roles->v;
  const int64_t lanes = emitter.facts.lanes, chunks = panels.chunks(), together = lanes / chunks,
                rowBytes = panels.columns * 2;
  const int64_t middle = middleOf(run * rowBytes);
  Value laneRow = arith::DivUIOp::create(b, emitter.lane, wordOf(b, chunks));
  Value laneChunk = arith::RemUIOp::create(b, emitter.lane, wordOf(b, chunks));
  Value base = emitter.stageOffset(b, stage, isKey);

  // Where rows from `row` on lie in memory.
  auto source = [&](int64_t row) {
    Value page = run ? pages[row / run] : emitter.shuffleFrom(b, pages[row / lanes], addWords(b, laneRow, row % lanes));
    Value bytes = arith::MulIOp::create(b, toIndex(b, page), indexOf(b, cache.layout.pageBytes));
    bytes = arith::AddIOp::create(b, bytes, isKey ? keyPlace : valuePlace);
    if (run == pageSlots) {
      return bytes;
    }
    Value place = arith::AddIOp::create(b, slot, indexOf(b, row));
    if (!run) {
      place = arith::AddIOp::create(b, place, toIndex(b, laneRow));
    }
    Value inPage = arith::RemUIOp::create(b, place, indexOf(b, pageSlots));
    return arith::AddIOp::create(b, bytes, arith::MulIOp::create(b, inPage, indexOf(b, rowBytes))).getResult();
  };
  // Swizzles repeat every eight rows: places of the rows of one period.
  SmallVector<Value> places;
  for (int64_t row = 0; row < std::max<int64_t>(8, together); row += together) {
    Value here = addWords(b, laneRow, row);
    Value offset = mulWords(b, arith::XOrIOp::create(b, laneChunk, panels.flipOfRow(b, here)), 16);
    offset = addWords(b, offset, panels.placeOfRow(b, here));
    places.push_back(addWords(b, offset, base));
  }
  const auto period = static_cast<int64_t>(places.size()) * together;
  Value counted = toWord(b, count);
  Value from;
  for (int64_t row = 0; row < rows; row += together) {
    const int64_t inRun = run ? row % run : 0;
    if (inRun == 0) {
      from = source(row);
    }
    Value valid;
    if (!isFull) {
      // Subtracted from the count, which changes, so that no row numbers are kept in registers.
      valid = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, laneRow, addWords(b, counted, -row));
    }
    for (int64_t panel = 0; panel < panels.count(); ++panel) {
      const int64_t toDisplacement = panels.placeOfRow(row / period * period) + panel * panels.panelBytes();
      tile::CopyAsyncOp::create(b, cache.pages, from, inRun * rowBytes + panel * panels.swizzle - middle,
                                emitter.staging, places[row % period / together], toDisplacement, valid);
    }
  }
}

LogicalResult TeamEmitter::emitProducerLoop(const TileLoop &tiles) {
  tile::OperandOp first = tiles.operands.front();
  for (tile::OperandOp op : tiles.operands) {
    if (op.getCache() != first.getCache() || op.getSlot() != first.getSlot() || op.getCount() != first.getCount() ||
        op.getSequence() != first.getSequence() || op.getHead() != first.getHead()) {
      return fail(op) << "of other slots than the loop's first operand has no lowering to teams yet";
    }
  }
  scf::ForOp loop = tiles.loop;
  Producer producer(*this, tiles);
  Builder b(loop.getLoc(), roles->producer->getTerminator());
  producer.prepare(b);
  SmallVector<Value> init = producer.loadPages(b, loop.getLowerBound());
  const size_t pageCount = init.size();
  init.append({roles->produced.stage, roles->produced.parity});
  auto copies = scf::ForOp::create(b, loop.getLowerBound(), loop.getUpperBound(), loop.getStep(), init);
  Builder inner = Builder::atBlockBegin(loop.getLoc(), copies.getBody());
  ValueRange carried = copies.getRegionIterArgs(), pages = carried.take_front(pageCount);
  RingPosition position{carried[pageCount], carried[pageCount + 1]};
  Value iv = copies.getInductionVar();
  SmallVector<Value> results = producer.loadPages(inner, arith::AddIOp::create(inner, iv, loop.getStep()));
  producer.copy(inner, tiles.operands, iv, pages, position);
  RingPosition next = advance(inner, position);
  results.append({next.stage, next.parity});
  scf::YieldOp::create(inner, results);
  roles->produced = {copies.getResult(pageCount), copies.getResult(pageCount + 1)};
  return success();
}
