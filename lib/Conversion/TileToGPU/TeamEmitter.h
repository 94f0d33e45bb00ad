//===- TeamEmitter.h - Virtual vectors as registers of lanes ----*- C++ -*-===//
//
// A kernel with tiles is run by a team of warps. What a product or the softmax makes is held in registers by a layout
// (include/kvc/Target/Layout.h) that follows from the target's matrix instruction; element-wise operations, broadcasts,
// rows and positions are lazy: whoever consumes them pulls single elements in the layout it needs. Keys and values go
// through a ring of staging memory that a loop over tiles fills ahead.
//
// Rows of a tile are padded to whole instructions: padding rows are zeros that nobody stores.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_LIB_CONVERSION_TILETOGPU_TEAMEMITTER_H
#define KVC_LIB_CONVERSION_TILETOGPU_TEAMEMITTER_H

#include "../TileToVector/KernelContext.h"

#include "kvc/Dialect/Tile/IR/Lanes.h"
#include "kvc/Target/Atoms.h"
#include "kvc/Target/Schedule.h"
#include "kvc/Target/Target.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

namespace kvc {

class CodeTile;

/// A tile in registers.
struct Fragment {
  Layout layout;
  llvm::SmallVector<mlir::Value> registers;
};

/// How the warps of a team divide a tile of rows x columns: `rowWarps` of them along the rows, each with `rowTiles`
/// instructions below each other, the others along the columns.
struct TeamShape {
  int64_t rowWarps, rowTiles, columnWarps;
  /// Rows of an instruction that are used, 16 or 8. Where operands come by matrix loads half of a product's rows are in
  /// the layout of a second operand: so of eight rows the probabilities multiply values from the other side, as the
  /// columns of an instruction whose rows are channels, and the accumulator is held transposed.
  int64_t usedRows;
  bool usesHalf() const { return usedRows < 16; }
};

/// The matrix instruction of a machine for products of that type.
const MmaAtom &atomOf(const TeamFacts &facts, ProductType type);
/// Numbers as words, in sets: one, or high parts, rests, and high parts without infinities.
llvm::SmallVector<llvm::SmallVector<mlir::Value>> createWords(mlir::ImplicitLocOpBuilder &b,
                                                              llvm::ArrayRef<mlir::Value> numbers, ProductType type);
/// Sets of words that stand for numbers.
inline int64_t setsOf(ProductType type) { return type == ProductType::Split ? 3 : 1; }
/// Which sets of the first operand meet which of the second; their products are added up.
llvm::ArrayRef<std::pair<int64_t, int64_t>> productTerms(ProductType type);

/// Rows in staging memory as they lie in pages, side by side. Of 16 or 8 neighbouring chunks of 16 bytes each row has
/// them in another order, so that lanes that read together meet all banks, which are 16 chunks wide: of keys a chunk of
/// each of 16 rows, of values four of each of four.
struct RowImage {
  bool ofValues;
  int64_t chunks;

  /// Regions that reads need not wait for copies to each other: keys and values.
  int64_t region() const { return ofValues; }
  static bool fits(int64_t chunks) { return chunks % 8 == 0; }
  /// Chunks that change places among each other, the low digits of a chunk's number.
  int64_t group() const { return chunks % 16 ? 8 : 16; }
  /// The bits of a chunk's number that are flipped in row `row` of a tile (i32).
  mlir::Value flips(mlir::ImplicitLocOpBuilder &b, mlir::Value row) const;
};

/// An operand that goes through staging memory.
struct StagedOperand {
  /// Null where it is decoded there.
  tile::OperandOp op = nullptr;
  const CacheMemory *cache = nullptr;
  const PlaneLayout *plane = nullptr;
  const MmaAtom *atom = nullptr;
  /// 16-byte chunks of a row, bytes of a row in staging memory, whether chunks are swizzled there.
  int64_t chunks = 0, stageRow = 0;
  bool swizzled = false;
  /// First byte and bytes of a stage in staging memory.
  int64_t offset = 0, stageBytes = 0;
  /// Byte offset of the stage that holds the present tile (i32).
  mlir::Value stage;
  /// Rows in staging memory, and bytes from one set of words to the next.
  int64_t slots = 0, setBytes = 0;
  /// Of values of a tall atom, that lie there as `Woven` says; null else.
  const struct Woven *woven = nullptr;
  /// Of operands of a tall atom that are such.
  std::optional<RowImage> image{};
  ProductType product = ProductType::F16;
  /// Rows of 16 lie in staging memory in the order of the lanes that read them: those that neighbours read are
  /// `rowDistance` apart.
  int64_t rowDistance = 1;

  /// Where a row lies.
  int64_t placeOfRow(int64_t row) const;
  mlir::Value placeOfRow(mlir::ImplicitLocOpBuilder &b, mlir::Value row) const;
  mlir::Value placeOfIndex(mlir::ImplicitLocOpBuilder &b, mlir::Value row) const;
};

/// How rows of so many channels lie in staging memory: eight rows of a matrix must fall on different banks. Either
/// chunks are swizzled, in groups of eight, or a row has an odd number of them.
void layOutStage(StagedOperand &operand, int64_t channels);
/// The same without a swizzle: what is added to a lane's address is known then.
void layOutPadded(StagedOperand &operand, int64_t channels);
/// How far the slots of keys are apart that neighbouring lanes read.
int64_t distanceOfReaders(const MmaAtom &atom);

/// Values in staging memory as the second operand of a tall atom takes them: a row has four slots of all channels, side
/// by side for each channel. A lane reads two neighbouring channels of a row at once, as operands of two column tiles,
/// and brings `channels` channels of four slots there. What it brings of a pair of channels lies beside what its
/// neighbours bring: channels are counted anew, so that no bank is met twice.
struct Woven {
  static constexpr int64_t slots = 4, tiles = 2;
  int64_t channels;

  /// Of `columns` columns as a row has them to channels.
  Layout channelOrder(int64_t columns) const {
    return Layout({{2, Axis::Column, 1, Axis::Column, 1},
                   {8, Axis::Column, 2, Axis::Column, channels},
                   {channels / 2, Axis::Column, 16, Axis::Column, 2},
                   {columns / (8 * channels), Axis::Column, 8 * channels, Axis::Column, 8 * channels}});
  }
  /// Bytes of a row, and of a lane's pairs of channels from one to the next and from one round of eight lanes on.
  static int64_t rowBytes(int64_t columns) { return columns * slots * 2; }
  static constexpr int64_t pairBytes = 8 * 16;
  int64_t roundBytes() const { return channels / 2 * pairBytes; }
};

/// A tile in staging memory as products of warp groups read it: columns of `swizzle` bytes, of eight rows one panel
/// behind the other (dialects/Tile/TileLaneOps.td).
struct Panels {
  static constexpr int64_t groupRows = 8;
  int64_t swizzle = 0, rows = 0, columns = 0;

  /// Of rows x columns elements of 16 bits: the widest panels that divide a row.
  static Panels of(int64_t rows, int64_t columns) {
    int64_t swizzle = 128;
    while (columns * 2 % swizzle) {
      swizzle /= 2;
    }
    return {swizzle, rows, columns};
  }
  int64_t chunks() const { return swizzle / 16; }
  int64_t count() const { return columns * 2 / swizzle; }
  /// Of eight rows: bytes of a panel, and of all.
  int64_t panelBytes() const { return groupRows * swizzle; }
  int64_t groupBytes() const { return count() * panelBytes(); }
  int64_t bytes() const { return rows * swizzle * count(); }
  /// Where a row lies, for a multiple of eight and for any (i32).
  int64_t placeOfRow(int64_t row) const { return row / groupRows * groupBytes(); }
  mlir::Value placeOfRow(mlir::ImplicitLocOpBuilder &b, mlir::Value row) const;
  /// The bits of a chunk's number that are flipped in a row (i32).
  mlir::Value flipOfRow(mlir::ImplicitLocOpBuilder &b, mlir::Value row) const;
};

/// A stage of the ring that copying and computing warps share, as numbers that are carried (i32).
struct RingPosition {
  mlir::Value stage, parity;
};

/// Staging memory of a query tile whose products are those of warp groups, and what is known of it so far.
struct RoleState {
  const GroupMmaAtom *atom = nullptr;
  /// The query tile has no rows where lanes hold it in registers.
  Panels query, k, v;
  int64_t stages = 0, kOffset = 0, vOffset = 0, barrierOffset = 0;
  /// Whether whole tiles are copied in boxes; else all is copied in pieces of 16 bytes.
  bool copiesBoxes = false;
  /// The query tile, and its words where they stay in registers.
  mlir::Value queryTile;
  llvm::SmallVector<mlir::Value> queryWords;
  /// Where the code of the copying warps goes on, and where both sides are in the ring.
  mlir::Block *producer = nullptr;
  RingPosition produced, consumed;

  /// Phase barriers, by displacement from the first: keys and values of a stage are there, their stage is free.
  int64_t fullAt(bool isKey) const { return (isKey ? 0 : 1) * stages * 8; }
  int64_t emptyAt(bool isKey) const { return (isKey ? 2 : 3) * stages * 8; }
};

/// A loop over tiles of slots with a softmax state: results `max`, `sum` and `acc` of the loop.
struct TileLoop {
  mlir::scf::ForOp loop;
  llvm::SmallVector<tile::OperandOp> operands;
  tile::SoftmaxStepOp step;
  unsigned max = 0, sum = 0, acc = 0;
};

/// Why whole tiles are not copied in boxes of so many slots, which lie side by side in one page; empty where they are.
std::string whyNoBoxes(const CacheMemory &cache, int64_t run);

class DirectTile;
class StageReader;

/// An operand that is loaded and decoded in front of its product, and why nothing of it comes ahead.
struct LateOperand {
  mlir::Operation *op;
  std::string why;
};

class TeamEmitter {
public:
  using Builder = mlir::ImplicitLocOpBuilder;

  TeamEmitter(KernelContext &context, tile::ScheduleAttr schedule);
  llvm::LogicalResult run();

  KernelContext &context;
  const TeamFacts &facts;
  tile::ScheduleAttr schedule;

  /// Of query tiles, by their rows, that the tall atom multiplies: how their values lie in staging memory where they
  /// are woven.
  std::map<int64_t, std::optional<Woven>> tallRows;
  bool isTall(int64_t rows) const { return tallRows.contains(rows); }
  const MmaAtom &atomFor(ProductType type, int64_t rows) const;

  /// Whether warps that share rows divide the channels of the output instead of the slots.
  bool dividesValues = false;
  /// Query tiles that stay in staging memory, in front of what loops put there, with their bytes, and those of the
  /// largest.
  llvm::MapVector<mlir::Value, int64_t> tilesInStaging;
  int64_t queryBytes = 0;
  /// What of it a loop leaves alone.
  int64_t queryBytesBefore(mlir::scf::ForOp loop) const;

  // Coordinates of this lane, at the kernel's entry (i32).
  mlir::Value lane, warp;
  mlir::Value staging;
  /// Warps that compute, of all that the team has.
  const int64_t warps;
  int64_t teamWarps;
  /// A barrier of the warps that run this code.
  void barrier(Builder &b);

  //===-- Team.cpp --------------------------------------------------------===//
  TeamShape shapeOf(int64_t rows) const;
  /// Layout of products of rows x columns, of their first operand, of the probabilities made of them, and of a softmax
  /// state: the numbers of its rows and its accumulator, which is partial over the warps along the columns until they
  /// merge theirs.
  Layout productLayout(const MmaAtom &atom, int64_t rows, int64_t columns) const;
  Layout operandLayout(const MmaAtom &atom, int64_t rows, int64_t inner, bool innerOverWarps) const;
  Layout probabilityLayout(const MmaAtom &atom, int64_t rows, int64_t slots) const;
  Layout rowLayout(const MmaAtom &atom, int64_t rows) const;
  Layout accumulatorLayout(const MmaAtom &atom, int64_t rows, int64_t columns, bool isMerged = false) const;
  /// The first operand of scores: as operandLayout, but the channels of `keySteps` steps are counted so that a lane's
  /// are neighbours, or `keyRun` of them where it is not 0.
  Layout queryLayout(const MmaAtom &atom, int64_t rows, int64_t channels, int64_t keyRun) const;
  int64_t keySteps(const MmaAtom &atom, int64_t channels) const;
  /// Neighbouring channels of a slot of values that a lane reads together, for as many tiles of a warp's `channels`
  /// columns. The accumulator has a column of each tile side by side then.
  int64_t valueTiles(const MmaAtom &atom, int64_t channels) const;
  /// Coordinate along `axis` of register `reg` of this lane (i32).
  mlir::Value coordinate(Builder &b, const Layout &layout, Axis axis, int64_t reg);
  /// Number of the register that holds `reg`'s coordinate along `axis` where registers of other axes are left out.
  static int64_t compactRegister(const Layout &layout, Axis axis, int64_t reg);
  static int64_t compactCount(const Layout &layout, Axis axis);
  /// Offsets of the exclusive-or steps that visit all lanes along `axis`.
  static llvm::SmallVector<int64_t> laneSteps(const Layout &layout, Axis axis);
  mlir::Value shuffleXor(Builder &b, mlir::Value value, int64_t offset);
  mlir::Value shuffleFrom(Builder &b, mlir::Value value, mlir::Value source);
  /// Numbers of rows that are held as `from` holds rows, as `to` does.
  llvm::SmallVector<mlir::Value> moveRows(Builder &b, llvm::ArrayRef<mlir::Value> numbers, const Layout &from,
                                          const Layout &to);

  /// Which of several warps with the same rows this one is (i32).
  mlir::Value columnWarp(Builder &b, const TeamShape &shape);

  //===-- Pull.cpp --------------------------------------------------------===//
  /// Element `reg` of a vector<M x N> in `layout`.
  mlir::Value pull(Builder &b, mlir::Value tile, const Layout &layout, int64_t reg);
  /// The element of a vector<M> (axis Row) or vector<N> (axis Column) that register `reg` of `layout` belongs to.
  mlir::Value pullAlong(Builder &b, mlir::Value tile, Axis axis, const Layout &layout, int64_t reg);
  /// An element at a rank-1 or rank-2 tile's registers, all of them.
  llvm::SmallVector<mlir::Value> pullAll(Builder &b, mlir::Value tile, const Layout &layout);

  /// A condition (i1, the same in all lanes) that implies that all elements of a tile of i1 are true; null when none is
  /// known.
  mlir::Value impliesAll(Builder &b, mlir::Value tile);

  //===-- Rows.cpp --------------------------------------------------------===//
  mlir::Value loadRowElement(tile::LoadRowsOp op, const Layout &layout, int64_t reg);
  mlir::Value loadRowNumber(mlir::Operation *op, const Layout &layout, int64_t reg);
  mlir::Value loadColumnPosition(mlir::Operation *op, const Layout &layout, int64_t reg);
  mlir::Value loadMaskElement(Builder &b, tile::LoadMaskOp op, const Layout &layout, int64_t reg);
  void emitStoreRows(tile::StoreRowsOp op);

  //===-- RingOfRegisters.cpp ---------------------------------------------===//
  void findTallRows();
  llvm::LogicalResult emitRegisterLoop(const TileLoop &tiles, class Ring &ring);

  //===-- Ring.cpp --------------------------------------------------------===//
  llvm::LogicalResult emitLoop(mlir::scf::ForOp loop);

  //===-- Direct.cpp ------------------------------------------------------===//
  /// The operands of a loop that lanes load from pages to registers; empty where they are not all such.
  llvm::SmallVector<std::unique_ptr<DirectTile>> directTiles(mlir::scf::ForOp loop);
  llvm::LogicalResult emitDirectLoop(const TileLoop &tiles, llvm::ArrayRef<std::unique_ptr<DirectTile>> operands);

  //===-- Roles.cpp -------------------------------------------------------===//
  /// Cuts a kernel into regions for some warps of the team.
  llvm::LogicalResult splitRoles();
  llvm::LogicalResult emitScope(mlir::scf::IfOp scope);
  bool isOfWarpGroups(mlir::Operation *op) const;
  /// The copies of a loop over tiles, by the warps that do nothing else.
  llvm::LogicalResult emitProducerLoop(const TileLoop &tiles);
  /// The stage after `position`.
  RingPosition advance(Builder &b, RingPosition position) const;
  mlir::Value stageOffset(Builder &b, mlir::Value stage, bool isKey) const;
  /// Offset of a stage's phase barrier without its displacement.
  static mlir::Value barrierOffset(Builder &b, mlir::Value stage, const RoleState &state);
  /// The first lane of a warp arrives for all.
  void arriveOnce(Builder &b, mlir::Value barrier, int64_t displacement);

  //===-- Boxes.cpp -------------------------------------------------------===//
  /// Number of the map of boxes of so many slots of all channels of a cache's keys or values.
  int64_t numberOfMap(const CacheMemory &cache, kvcache::Plane plane, int64_t slots);

  //===-- WarpGroups.cpp --------------------------------------------------===//
  /// The first operand of products, stored where warp groups read it.
  llvm::LogicalResult placeFirstOperand(mlir::Value tile, ProductType type);
  llvm::LogicalResult emitGroupLoop(const TileLoop &tiles);

  //===-- Loops.cpp -------------------------------------------------------===//
  /// A loop over tiles none of whose operands go through a ring.
  llvm::LogicalResult emitPlainLoop(mlir::scf::ForOp loop);
  /// Decodes the operands of a loop's body in front of their products, into staging memory from `offset` on.
  llvm::LogicalResult decodeOperands(mlir::scf::ForOp loop, llvm::ArrayRef<LateOperand> operands, int64_t offset,
                                     bool alone);
  /// An operand of codes in the form that its product takes (CodeTile.h).
  std::optional<CodeTile> createCodeTile(mlir::Operation *op, mlir::scf::ForOp loop, int64_t offset, std::string &why);
  /// Completes a loop's softmax state unless only loops take it up.
  llvm::LogicalResult leaveState(Builder &b, mlir::scf::ForOp loop, mlir::Value max, mlir::Value sum, mlir::Value acc);
  void emitColumnReduction(mlir::vector::MultiDimReductionOp op);
  void emitStoreSlotNumbers(tile::StoreSlotNumbersOp op);

  //===-- Unpack.cpp ------------------------------------------------------===//
  StagedOperand describeUnpacked(mlir::Operation *op, int64_t offset);
  /// All warps decode a tile into staging memory.
  void unpack(Builder &b, mlir::Operation *op, const StagedOperand &operand);

  //===-- Products.cpp ----------------------------------------------------===//
  llvm::LogicalResult emitMma(tile::MmaOp op);
  /// The type of an operand's products.
  ProductType productOf(mlir::Value operand);
  /// Channels of keys and of values, and slots of a tile of `rows` rows, filled up to whole instructions for every
  /// warp.
  static int64_t paddedKeys(int64_t channels) { return llvm::alignTo(channels, 16); }
  int64_t paddedValues(int64_t channels) const {
    return llvm::alignTo(channels, dividesValues ? 64 * schedule.getWarps() : 16);
  }
  int64_t paddedChannels(kvcache::Plane plane, int64_t channels) const {
    return plane == kvcache::Plane::K ? paddedKeys(channels) : paddedValues(channels);
  }
  int64_t paddedSlots(int64_t rows, int64_t slots) const {
    return llvm::alignTo(slots, dividesValues ? 16 : 16 * shapeOf(rows).columnWarps);
  }
  /// Queries of products of several types (pages and tail) become a tile for each: their words must not be held side by
  /// side.
  void separateFirstOperands();
  /// Makes the words of the first operand of products, in the order of their registers.
  void packOperand(Builder &b, mlir::Value tile, ProductType type, const Layout &layout);
  /// The same of a tile whose words other lanes hold: they are shuffled.
  llvm::SmallVector<llvm::SmallVector<mlir::Value>> packFromLanes(Builder &b, const Fragment &held, ProductType type,
                                                                  const Layout &layout);
  /// The same for queries that stay in staging memory.
  void stageQueries(Builder &b, mlir::Value tile, ProductType type, int64_t keyRun = 0);
  /// Queries that go through staging memory, so that every row is loaded once, to the words of all warps.
  void spreadQueries(Builder &b, mlir::Value tile, ProductType type, int64_t keyRun);
  /// How queries of `rows` rows lie there.
  StagedOperand describeQueries(int64_t rows, int64_t channels, ProductType type) const;

  //===-- Softmax.cpp -----------------------------------------------------===//
  llvm::LogicalResult emitSoftmaxStep(tile::SoftmaxStepOp op);
  // The parts of a step.
  /// Scores in `layout`, minus infinity where they are not visible.
  llvm::SmallVector<mlir::Value> maskedScores(Builder &b, tile::SoftmaxStepOp op, const Layout &layout);
  /// Maxima of a lane's rows with a tile's scores, whether they are other ones than before, whether any is.
  struct RaisedMax {
    llvm::SmallVector<mlir::Value> value, grows;
    mlir::Value any;
  };
  RaisedMax raiseMax(Builder &b, llvm::ArrayRef<mlir::Value> scores, llvm::ArrayRef<mlir::Value> oldMax,
                     const Layout &layout);
  /// What was summed so far follows the maximum of the rows of `layout`.
  void rescaleState(Builder &b, const RaisedMax &max, llvm::ArrayRef<mlir::Value> oldMax,
                    llvm::SmallVectorImpl<mlir::Value> &sum, llvm::SmallVectorImpl<mlir::Value> &acc,
                    const Layout &layout, const Layout &accLayout);
  /// Probabilities of a tile, and in `added` their sums by rows.
  llvm::SmallVector<mlir::Value> probabilities(Builder &b, llvm::ArrayRef<mlir::Value> scores, const RaisedMax &max,
                                               const Layout &layout, llvm::MutableArrayRef<mlir::Value> added);
  void emitSoftmaxFinish(tile::SoftmaxFinishOp op);
  /// Sums what lanes and warps hold of a state.
  void completeState(Builder &b, mlir::Value max, mlir::Value sum, mlir::Value acc);

  /// Reports what has no lowering yet; the first report counts.
  mlir::InFlightDiagnostic fail(mlir::Operation *op);
  bool hasFailed() const { return failedOp; }

  llvm::DenseMap<mlir::Value, Fragment> fragments;
  /// Tiles as words of the first operand of products, in sets.
  std::map<std::pair<void *, ProductType>, llvm::SmallVector<llvm::SmallVector<mlir::Value>>> words;
  /// Queries in staging memory.
  std::map<std::pair<void *, ProductType>, StagedOperand> stagedQueries;
  /// How columns were combined that a loop's result holds in parts.
  llvm::DenseMap<mlir::Value, mlir::vector::CombiningKind> columnKinds;
  llvm::DenseMap<mlir::Value, StagedOperand> staged;
  /// Called in front of the product that reads values: the ring waits for them there.
  llvm::DenseMap<mlir::Operation *, std::function<void(Builder &)>> beforeProduct;

  /// Called behind the product that has read values.
  llvm::DenseMap<mlir::Operation *, std::function<void(Builder &)>> afterProduct;
  /// Of products whose second operand is in registers: what reads it there.
  llvm::DenseMap<mlir::Operation *, std::function<std::unique_ptr<StageReader>(Builder &)>> heldReaders;
  /// Neighbouring channels that a lane has of a product's keys where they come from codes to registers, else 0. The
  /// queries are held alike.
  int64_t keyRun(tile::MmaOp op);

  llvm::LogicalResult emitBlock(mlir::Block &block);
  /// Reserves staging memory that is used until the next barrier of all.
  void useStaging(int64_t bytes) { stagingBytes = std::max(stagingBytes, bytes); }
  Builder entryBuilder() { return entry; }
  /// Erases an operation, that other tiles may still speak of, when all is emitted.
  void finished(mlir::Operation *op) { done.push_back(op); }

  /// Of the scope that is being emitted; null outside scopes of warps that compute while others copy.
  RoleState *roles = nullptr;

private:
  /// Decides what does not fit the registers.
  void placeQueries();
  /// Channels of the widest accumulator that warps make.
  int64_t widestValues() const;
  /// Whether a product's queries fit beside the rest.
  bool queriesFit(tile::MmaOp op);
  bool queriesFitInOrder(tile::MmaOp op);
  /// Whether a product's queries have room in staging memory beside the keys or values of its loop.
  bool hasRoomFor(int64_t queryBytes, tile::MmaOp op);
  /// Registers of a lane with the codes of a loop that come a tile ahead.
  int64_t codeRegisters(mlir::scf::ForOp loop);
  llvm::LogicalResult emitOp(mlir::Operation *op);
  /// The first operand of products is made where it is defined, before the loops that use it.
  llvm::LogicalResult packFirstOperand(mlir::Value tile);

  Builder entry;
  int64_t stagingBytes = 0;
  bool failedOp = false;
  llvm::SmallVector<mlir::Operation *> done;
  /// Maps of boxes, by number.
  llvm::SmallVector<tile::BoxesAttr> maps;
  llvm::DenseMap<mlir::Operation *, int64_t> keyRuns;
  /// Regions of the warps that compute; those that copy run the other region.
  llvm::DenseMap<mlir::Operation *, RoleState> roleScopes;
  /// Lane and warp parts of coordinates, by the printed modes that make them.
  llvm::StringMap<mlir::Value> coordinateBases;
  /// Elements of rows and numbers that were loaded where they are defined, and what follows from them.
  std::map<std::tuple<void *, Axis, int64_t, std::string>, mlir::Value> leaves;
};

/// Whether an index is surely a multiple of `factor`.
bool isMultipleOf(mlir::Value value, int64_t factor, unsigned depth = 0);
/// `value` as it is at another iteration of a loop: clones what it is computed by.
mlir::Value valueAt(mlir::ImplicitLocOpBuilder &b, mlir::scf::ForOp loop, mlir::Value value, mlir::Value iv,
                    mlir::IRMapping &mapping);

/// A number of slots as it is at iteration `iv` of a loop, all words: slots are less than 2^31.
mlir::Value wordAt(mlir::ImplicitLocOpBuilder &b, mlir::scf::ForOp loop, mlir::Value value, mlir::Value iv);
/// Whether the tiles of a loop count the slots up to its end, so that there are some inside and none behind.
bool countsToEnd(tile::OperandOp op, mlir::scf::ForOp loop);

inline mlir::Value wordOf(mlir::ImplicitLocOpBuilder &b, int64_t value) {
  return mlir::arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
}
inline mlir::Value indexOf(mlir::ImplicitLocOpBuilder &b, int64_t value) {
  return mlir::arith::ConstantIndexOp::create(b, value);
}
inline mlir::Value toIndex(mlir::ImplicitLocOpBuilder &b, mlir::Value word) {
  return mlir::arith::IndexCastOp::create(b, b.getIndexType(), word);
}
inline mlir::Value toUnsignedIndex(mlir::ImplicitLocOpBuilder &b, mlir::Value word) {
  return mlir::arith::IndexCastUIOp::create(b, b.getIndexType(), word);
}
inline mlir::Value toWord(mlir::ImplicitLocOpBuilder &b, mlir::Value index) {
  return mlir::arith::IndexCastOp::create(b, b.getI32Type(), index);
}
inline mlir::Value floatOf(mlir::ImplicitLocOpBuilder &b, float value) {
  return mlir::arith::ConstantOp::create(b, b.getF32FloatAttr(value));
}
/// x op y, folded where both are known.
template <typename Op> mlir::Value fold(mlir::ImplicitLocOpBuilder &b, mlir::Value x, mlir::Value y) {
  return b.createOrFold<Op>(x, y);
}
inline mlir::Value addWords(mlir::ImplicitLocOpBuilder &b, mlir::Value x, mlir::Value y) {
  return fold<mlir::arith::AddIOp>(b, x, y);
}
inline mlir::Value addWords(mlir::ImplicitLocOpBuilder &b, mlir::Value x, int64_t y) {
  return y ? addWords(b, x, wordOf(b, y)) : x;
}
inline mlir::Value mulWords(mlir::ImplicitLocOpBuilder &b, mlir::Value x, int64_t y) {
  return fold<mlir::arith::MulIOp>(b, x, wordOf(b, y));
}

} // namespace kvc

#endif // KVC_LIB_CONVERSION_TILETOGPU_TEAMEMITTER_H
