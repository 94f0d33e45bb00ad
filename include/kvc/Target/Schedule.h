//===- Schedule.h - Tile sizes of kernels -----------------------*- C++ -*-===//
#ifndef KVC_TARGET_SCHEDULE_H
#define KVC_TARGET_SCHEDULE_H

#include "kvc/Dialect/Tile/IR/Tile.h"
#include "kvc/Target/Atoms.h"
#include "kvc/Target/Target.h"

#include <string>

namespace kvc {

/// The numbers that products of matrix instructions multiply: 16-bit ones, or f32 as sums of two bf16.
enum class ProductType : uint8_t { F16, BF16, Split };

/// The type of products with K or V of one part of a cache: that of the format or of its scales, or that of the tail.
ProductType productOf(kvcache::CacheType type, kvcache::Plane plane, tile::Part part);
/// The same with slots of either part in one tile: bf16 where one of them asks for it, else f32 where they differ.
ProductType productOfEither(kvcache::CacheType type, kvcache::Plane plane);

/// What a schedule depends on.
struct AttentionShape {
  /// Query heads of one KV head.
  int64_t group;
  kvcache::CacheType cache;
};

/// What a warp has of a tile on a machine whose lanes read operands by themselves, that is without matrix loads.
struct WarpTile {
  /// Instructions' rows, slots and channels of keys and of the accumulator.
  int64_t rows, slots, keys, values;
  /// Sets of words of a query that stay in registers; 0 where they are read of staging memory for every tile.
  int64_t querySets;
  /// Registers of a lane with what is on its way from pages: to staging memory, in turns, or to the products.
  int64_t onTheirWay;
  bool isDirect = false;
};

/// Whether a lane has the registers for it.
bool fitsRegisters(const TeamFacts &facts, const WarpTile &tile);

/// Of values, whose operand has neighbouring slots of a channel in a word: neighbouring channels of a slot that a lane
/// reads at once, for as many tiles of the channels that a warp accumulates.
int64_t valueTilesOf(const TeamFacts &facts, const MmaAtom &atom, int64_t channels);

/// Warps of `warps` that divide the rows of a query tile; the others share them.
int64_t rowWarpsOf(int64_t warps, int64_t rows);

/// Bytes of a row of 16-bit numbers in staging memory with an odd number of 16-byte chunks, so that rows begin on
/// different banks.
int64_t paddedRowBytes(int64_t channels);

/// Registers of a lane with what warps copy of a tile at once: its keys or its values.
int64_t copiedRegisters(const TeamFacts &facts, int64_t slots, int64_t keys, int64_t values, int64_t warps);

/// The one place that picks tile sizes. Overridden by the attribute `tile.schedule` of an attention op. `target` is
/// null where the module names none.
tile::ScheduleAttr chooseSchedule(const AttentionShape &shape, const Target *target);

/// Slots of a KV tile of a decode step under a schedule that was chosen for the same shape, outside of tails: those of
/// a prefill tile, or twice as many where matrix loads read what is copied or decoded, or lanes read pages: what a warp
/// does once for each tile counts half.
int64_t chooseDecodeSlots(const AttentionShape &shape, const Target *target, tile::ScheduleAttr schedule);

/// The schedule of the kernel of decode steps, whose tiles have the rows of `heads` heads: all its warps compute.
tile::ScheduleAttr chooseDecodeSchedule(tile::ScheduleAttr schedule, int64_t heads);

/// Teams of a decode step that a processor is meant to run side by side: the plan of a step divides its slots among as
/// many as fill the machine.
inline constexpr int64_t decodeTeamsOfProcessor = 2;

/// Why a schedule leaves products of warp groups, which the target has, to single warps; empty when it does not.
std::string whyNoWarpGroups(const AttentionShape &shape, const Target &target);

/// Query heads of a KV head that one work item attends with: the group, or a divisor of it where that many rows do not
/// fit a team.
int64_t chooseHeads(const AttentionShape &shape, const Target *target);

/// Of a module: "exact" (as without it) or "fast", where linear layers of teams round activations to bf16.
inline constexpr llvm::StringLiteral linearAccuracyAttr = "tile.linear_accuracy";

/// Tiles of 16 columns of a linear layer that a team takes together when rows are few: 1, 2 or 4.
int64_t chooseLinearTiles(int64_t columns, const TeamFacts &facts);

} // namespace kvc

#endif // KVC_TARGET_SCHEDULE_H
