//===- Schedule.cpp - Tile sizes of attention kernels ---------------------===//
#include "kvc/Target/Schedule.h"

#include "kvc/Target/Atoms.h"

using namespace kvc;

static ProductType productOf(mlir::Type type) {
  return type.isF16() ? ProductType::F16 : type.isBF16() ? ProductType::BF16 : ProductType::Split;
}

ProductType kvc::productOf(kvcache::CacheType type, kvcache::Plane plane, tile::Part part) {
  if (part == tile::Part::Tail) {
    return ::productOf(type.getTail());
  }
  kvcache::FormatAttr format = plane == kvcache::Plane::K ? type.getK() : type.getV();
  return ::productOf(format.isInteger() ? format.getScale() : mlir::Type(format.getFloatType()));
}

ProductType kvc::productOfEither(kvcache::CacheType type, kvcache::Plane plane) {
  const ProductType pages = productOf(type, plane, tile::Part::Pages);
  const ProductType tail = type.hasTail() ? productOf(type, plane, tile::Part::Tail) : pages;
  if (pages == tail) {
    return pages;
  }
  return pages == ProductType::BF16 || tail == ProductType::BF16 ? ProductType::BF16 : ProductType::Split;
}

/// Rows for each warp of a team: an instruction's.
static constexpr int64_t rowsPerWarp = 16, teamWarps = 4;

/// Slots that a span of a decode step has at least.
static constexpr int64_t split = 1024;

int64_t kvc::rowWarpsOf(int64_t warps, int64_t rows) {
  const int64_t tiles = llvm::divideCeil(rows, rowsPerWarp);
  int64_t rowWarps = 1;
  while (rowWarps * 2 <= std::min(warps, tiles)) {
    rowWarps *= 2;
  }
  return rowWarps;
}

int64_t kvc::paddedRowBytes(int64_t channels) {
  constexpr int64_t chunk = 8, chunkBytes = 16;
  return (channels / chunk | 1) * chunkBytes;
}

int64_t kvc::copiedRegisters(const TeamFacts &facts, int64_t slots, int64_t keys, int64_t values, int64_t warps) {
  return slots * std::max(keys, values) / (2 * warps * facts.lanes);
}

/// Whether an accumulator of 16 rows leaves no registers for the rest: then warps divide its channels and not the rows.
static bool isWide(const AttentionShape &shape, const TeamFacts &facts) {
  constexpr int64_t otherRegisters = 80;
  return shape.cache.getVDim() / 2 + otherRegisters > facts.laneRegisters;
}

/// Whether K and V are rows of 16-bit numbers in pages that products take as they are stored.
static bool areCopied(kvcache::CacheType cache) {
  auto isCopied = [&](kvcache::Plane plane, kvcache::FormatAttr format) {
    return !format.isInteger() && productOf(cache, plane, tile::Part::Pages) != ProductType::Split;
  };
  return !cache.hasTail() && !cache.getRope() && isCopied(kvcache::Plane::K, cache.getK()) &&
         isCopied(kvcache::Plane::V, cache.getV());
}

/// Whether K and V are codes that are decoded to f16.
static bool areCodes(kvcache::CacheType cache) {
  auto isCode = [&](kvcache::Plane plane, kvcache::FormatAttr format) {
    return format.isInteger() && productOf(cache, plane, tile::Part::Pages) == ProductType::F16;
  };
  return !cache.getRope() && isCode(kvcache::Plane::K, cache.getK()) && isCode(kvcache::Plane::V, cache.getV());
}

/// Whether a warp of a prefill tile of `slots` slots can have twice an instruction's rows: accumulator and scores of so
/// many leave registers for addresses, with or without the queries. A matrix load of keys or values then serves two
/// instructions, one of queries in staging memory only one for each step.
static bool fitsDoubleRows(const AttentionShape &shape, const TeamFacts &facts, int64_t slots, bool withQueries) {
  constexpr int64_t otherRegisters = 46;
  const int64_t queries = withQueries ? shape.cache.getKDim() / 2 : 0;
  return areCopied(shape.cache) && shape.cache.getVDim() + slots + queries + otherRegisters <= facts.laneRegisters;
}

/// The most heads of a group that `rows` query rows hold, none of them cut.
static int64_t headsOf(const AttentionShape &shape, int64_t rows) {
  int64_t heads = std::min(rows, shape.group);
  while (shape.group % heads) {
    --heads;
  }
  return heads;
}

static const GroupMmaAtom *groupAtomFor(const AttentionShape &shape, const TeamFacts &facts) {
  kvcache::CacheType cache = shape.cache;
  const bool plain = areCopied(cache) && cache.getK() == cache.getV() && !cache.aliasesValues();
  std::string name = (facts.groupAtom + "." + cache.getK().getName()).str();
  return plain && facts.producerWarps ? lookupGroupMmaAtom(name) : nullptr;
}

/// For products of warp groups: two groups compute, others copy. What a lane holds of the accumulator, of the scores
/// and of the probabilities at once must fit its registers. Nothing where no tile does.
static tile::ScheduleAttr chooseGroupSchedule(const AttentionShape &shape, const Target &target) {
  const GroupMmaAtom *found = groupAtomFor(shape, *target.team);
  if (!found) {
    return {};
  }
  const GroupMmaAtom &atom = *found;
  constexpr int64_t groups = 2, otherRegisters = 56, barrierBytes = 256;
  const int64_t kDim = shape.cache.getKDim(), vDim = shape.cache.getVDim(), rows = groups * atom.m;
  const TeamFacts &facts = *target.team;
  const int64_t heads = headsOf(shape, teamWarps * rowsPerWarp), tokens = rows / heads;
  const bool fillsTile = tokens >= 2 && tokens * heads > rows - rows / (groups * atom.warps);
  if (kDim % atom.k || vDim % atom.k || vDim > atom.maxN || !fillsTile) {
    return {};
  }
  for (int64_t slots : {128, 64}) {
    const int64_t held = vDim / 2 + slots / 2 + slots / 4;
    const int64_t queryBytes = rows * kDim * 2, stageBytes = slots * (kDim + vDim) * 2;
    const int64_t stages = std::min<int64_t>(3, (facts.stagingBytes - queryBytes - barrierBytes) / stageBytes);
    if (held + otherRegisters <= facts.consumerRegisters && stages >= 2) {
      return tile::ScheduleAttr::get(shape.cache.getContext(), tokens, slots, split, groups * atom.warps, stages,
                                     facts.producerWarps);
    }
  }
  return {};
}

/// For the tall atom: every warp has one instruction's rows, keys and values go through registers to one stage (keys in
/// rows of an odd number of chunks). Nothing where pages have something else, or no tile fits.
static tile::ScheduleAttr chooseTallSchedule(const AttentionShape &shape, const Target &target) {
  constexpr int64_t round = 64, mostChannels = 192;
  const TeamFacts &facts = *target.team;
  const MmaAtom *atom = lookupMmaAtom((facts.tallMmaAtom + ".f16").str());
  const int64_t keys = shape.cache.getKDim(), values = shape.cache.getVDim();
  if (!atom || !areCopied(shape.cache) || keys % (2 * atom->k) || values % round || values > mostChannels) {
    return {};
  }
  const int64_t heads = headsOf(shape, teamWarps * rowsPerWarp), rows = teamWarps * atom->m, tokens = rows / heads;
  if (tokens < 1 || tokens * heads <= rows - atom->m) {
    return {};
  }
  for (int64_t slots = 2 * atom->n; slots >= atom->n; slots /= 2) {
    const int64_t bytes = slots * (paddedRowBytes(keys) + values * 2);
    if (bytes <= facts.stagingBytes) {
      // Decode steps copy to as many stages as two teams have room for.
      const int64_t stages = 4 * slots * (keys + values) * 2 <= facts.stagingBytes ? 2 : 1;
      return tile::ScheduleAttr::get(shape.cache.getContext(), tokens, slots, split, teamWarps, stages,
                                     /*producers=*/0);
    }
  }
  return {};
}

namespace {
/// Bytes of staging memory that keys and values of a slot and a query row take where they do not go from pages to
/// registers: three sets of words where f32 is split.
struct StagedBytes {
  StagedBytes(const AttentionShape &shape)
      : keys(shape.cache.getKDim() * setBytes(shape.cache, kvcache::Plane::K)),
        values(shape.cache.getVDim() * setBytes(shape.cache, kvcache::Plane::V)),
        keyStages(splits(shape.cache, kvcache::Plane::K) ? 1 : 2),
        valueStages(splits(shape.cache, kvcache::Plane::V) ? 1 : 2) {}

  /// What is split is decoded in front of its product and has one stage, whatever the schedule says.
  int64_t of(int64_t slots, int64_t rows, int64_t stages) const {
    return slots * (keys * std::min(keyStages, stages) + values * std::min(valueStages, stages)) + rows * keys;
  }

  const int64_t keys, values;

private:
  static bool splits(kvcache::CacheType cache, kvcache::Plane plane) {
    return productOf(cache, plane, tile::Part::Pages) == ProductType::Split ||
           productOfEither(cache, plane) == ProductType::Split;
  }
  static int64_t setBytes(kvcache::CacheType cache, kvcache::Plane plane) { return splits(cache, plane) ? 6 : 2; }

  const int64_t keyStages, valueStages;
};

/// Rows, slots and stages of a tile of single warps.
struct TeamTile {
  int64_t warps, rows, slots, stages;
};
} // namespace

/// 16 query rows for each warp keep scores, accumulator and queries in registers; 64 slots a tile give every warp of a
/// decode step one matrix instruction's worth. Two stages of keys and values shall fit the staging memory.
static TeamTile chooseTeamTile(const AttentionShape &shape, const TeamFacts &facts) {
  const StagedBytes bytes(shape);
  const bool wide = isWide(shape, facts);
  for (int64_t warps = teamWarps; warps >= 1; warps /= 2) {
    const int64_t slots = warps * rowsPerWarp, rows = wide ? rowsPerWarp : slots;
    if (bytes.of(slots, rows, /*stages=*/2) <= facts.stagingBytes) {
      return {wide ? teamWarps : warps, rows, slots, 2};
    }
  }
  // An instruction's slots and rows: warps divide the channels of values.
  return {teamWarps, rowsPerWarp, rowsPerWarp, 1};
}

/// The atom of 16-bit products of a warp.
static const MmaAtom &warpAtom(const TeamFacts &facts) { return *lookupMmaAtom((facts.mmaAtom + ".f16").str()); }

/// Words of 32 bits of a lane's share of 16-bit numbers.
static int64_t wordsOf(const Layout &operand) { return operand.inSize(Axis::Register) / 2; }

int64_t kvc::valueTilesOf(const TeamFacts &facts, const MmaAtom &atom, int64_t channels) {
  constexpr int64_t most = 8, otherRegisters = 112;
  const int64_t sums = channels / atom.n * atom.d().inSize(Axis::Register);
  int64_t tiles = most;
  // One piece is used while the next one is read.
  while (tiles > 1 &&
         (channels % (tiles * atom.n) || sums + 2 * tiles * wordsOf(atom.b()) + otherRegisters > facts.laneRegisters)) {
    tiles /= 2;
  }
  return tiles;
}

bool kvc::fitsRegisters(const TeamFacts &facts, const WarpTile &tile) {
  constexpr int64_t otherRegisters = 64;
  const MmaAtom &atom = warpAtom(facts);
  const int64_t first = wordsOf(atom.a()), second = wordsOf(atom.b()), sums = atom.d().inSize(Axis::Register);
  const int64_t acc = tile.rows * tile.values / atom.n * sums, scores = tile.rows * tile.slots / atom.n * sums,
                probs = tile.rows * tile.slots / atom.k * first;
  const int64_t queries = tile.querySets * tile.rows * tile.keys / atom.k * first,
                queriesRead = tile.querySets ? 0 : 2 * tile.rows * first;
  // One piece of an operand is used while the next one is read; from registers only words of values are made.
  const int64_t values = second * valueTilesOf(facts, atom, tile.values);
  const int64_t keysRead = tile.isDirect ? 0 : 2 * second, valuesRead = tile.isDirect ? values : 2 * values;
  const int64_t most = std::max(scores + keysRead + queriesRead, probs + valuesRead);
  // The compiler keeps the number of each of a lane's slots for the masks.
  const int64_t numbers = tile.slots / atom.n * sums;
  return acc + queries + tile.onTheirWay + most + numbers + otherRegisters <= facts.laneRegisters;
}

/// Whether a tile of a decode step that warps copy to staging memory fits: they divide its slots, or the channels.
static bool fitsDecode(const AttentionShape &shape, const TeamFacts &facts, int64_t slots, int64_t warps) {
  const int64_t keys = shape.cache.getKDim(), values = shape.cache.getVDim();
  constexpr int64_t roundChannels = 64;
  const bool divides = slots < warps * rowsPerWarp;
  const int64_t bytes = slots * (paddedRowBytes(keys) + values * 2) + rowsPerWarp * paddedRowBytes(keys);
  const int64_t copied = copiedRegisters(facts, slots, keys, values, warps);
  const bool fitsRows = !divides || values % (warps * roundChannels) == 0;
  return fitsRows && bytes <= facts.stagingBytes &&
         fitsRegisters(facts, {1, divides ? slots : slots / warps, keys, divides ? values / warps : values,
                               /*querySets=*/0, copied});
}

/// Rows of the smallest such tile.
static int64_t readRows(const AttentionShape &shape, const TeamFacts &facts) {
  return isWide(shape, facts) ? rowsPerWarp : teamWarps * rowsPerWarp;
}

/// Where lanes read operands in order and keys and values are copied: the largest tile that fits registers and staging
/// memory. What is copied goes through registers, so that a second stage would gain nothing.
static tile::ScheduleAttr chooseReadingSchedule(const AttentionShape &shape, const Target &target) {
  const TeamFacts &facts = *target.team;
  if (!facts.readsInOrder() || !areCopied(shape.cache)) {
    return {};
  }
  const int64_t keys = shape.cache.getKDim(), values = shape.cache.getVDim(),
                heads = headsOf(shape, readRows(shape, facts));
  auto schedule = [&](int64_t rows, int64_t slots) {
    return tile::ScheduleAttr::get(shape.cache.getContext(), rows / heads, slots, split, teamWarps, /*stages=*/1,
                                   /*producers=*/0);
  };
  if (isWide(shape, facts)) {
    // Warps divide the channels, as those of a decode step do where a tile has less slots than all of them take.
    int64_t slots = teamWarps * rowsPerWarp / 2;
    while (slots > rowsPerWarp && !fitsDecode(shape, facts, slots, teamWarps)) {
      slots /= 2;
    }
    return fitsDecode(shape, facts, slots, teamWarps) ? schedule(rowsPerWarp, slots) : tile::ScheduleAttr();
  }
  for (int64_t rowTiles : {2, 1}) {
    for (int64_t slots = teamWarps * rowsPerWarp; slots >= rowTiles * rowsPerWarp; slots /= 2) {
      const int64_t rows = teamWarps * rowTiles * rowsPerWarp;
      const int64_t copied = copiedRegisters(facts, slots, keys, values, teamWarps);
      const int64_t bytes = slots * (paddedRowBytes(keys) + values * 2);
      for (int64_t sets : {1, 0}) {
        const bool fitsStaging = bytes + (sets ? 0 : rows * paddedRowBytes(keys)) <= facts.stagingBytes;
        if (fitsStaging && fitsRegisters(facts, {rowTiles, slots, keys, values, sets, copied})) {
          return schedule(rows, slots);
        }
      }
    }
  }
  return {};
}

int64_t kvc::chooseHeads(const AttentionShape &shape, const Target *target) {
  if (!target || !target->team) {
    return shape.group;
  }
  if (chooseReadingSchedule(shape, *target)) {
    return headsOf(shape, readRows(shape, *target->team));
  }
  const bool isTile = !chooseGroupSchedule(shape, *target) && !chooseTallSchedule(shape, *target);
  return headsOf(shape, isTile ? chooseTeamTile(shape, *target->team).rows : teamWarps * rowsPerWarp);
}

static tile::ScheduleAttr chooseTeamSchedule(const AttentionShape &shape, const Target &target) {
  if (tile::ScheduleAttr schedule = chooseGroupSchedule(shape, target)) {
    return schedule;
  }
  if (tile::ScheduleAttr schedule = chooseTallSchedule(shape, target)) {
    return schedule;
  }
  if (tile::ScheduleAttr schedule = chooseReadingSchedule(shape, target)) {
    return schedule;
  }
  const TeamFacts &facts = *target.team;
  auto [warps, rows, slots, stages] = chooseTeamTile(shape, facts);
  const int64_t heads = headsOf(shape, rows);
  const bool dividesRows = rows == warps * rowsPerWarp;
  if (dividesRows && fitsDoubleRows(shape, facts, slots, /*withQueries=*/true)) {
    rows *= 2;
  } else if (dividesRows && fitsDoubleRows(shape, facts, slots, /*withQueries=*/false)) {
    // With one stage keys are copied while values are used, and values while keys are: queries in staging memory take
    // no more than the other stage, so that as many teams run side by side.
    rows *= 2;
    stages = 1;
  }
  return tile::ScheduleAttr::get(shape.cache.getContext(), rows / heads, slots, split, warps, stages, /*producers=*/0);
}

std::string kvc::whyNoWarpGroups(const AttentionShape &shape, const Target &target) {
  if (!target.team || target.team->groupAtom.empty()) {
    return {};
  }
  if (!groupAtomFor(shape, *target.team)) {
    return "keys and values are not rows of one 16-bit format in pages alone, used as they are stored";
  }
  return chooseGroupSchedule(shape, target)
             ? ""
             : "heads and dimensions do not fill tiles of two groups whose operands fit registers and staging memory";
}

tile::ScheduleAttr kvc::chooseSchedule(const AttentionShape &shape, const Target *target) {
  if (target && target->team) {
    return chooseTeamSchedule(shape, *target);
  }
  // A query tile of about 64 rows amortises the unpacking of a KV tile; 64 slots keep scores, probabilities and the
  // tile's operands within a first-level cache of 32 KiB.
  constexpr int64_t rows = 64, slots = 64;
  int64_t tokens = std::max<int64_t>(2, rows / shape.group);
  return tile::ScheduleAttr::get(shape.cache.getContext(), tokens, slots, split, /*warps=*/1, /*stages=*/1,
                                 /*producers=*/0);
}

/// Whether a warp of a decode step has the registers for `own` slots that it loads from pages to them.
static bool fitsDirect(const AttentionShape &shape, const TeamFacts &facts, int64_t own, int64_t querySets) {
  const int64_t keys = shape.cache.getKDim(), values = shape.cache.getVDim();
  const int64_t loaded = own / rowsPerWarp * (keys + values) / rowsPerWarp * wordsOf(warpAtom(facts).b());
  return fitsRegisters(facts, {1, own, keys, values, querySets, loaded, /*isDirect=*/true});
}

/// The same where lanes read operands in order and keys and values are copied: the largest tile that warps load from
/// pages to registers, else one that they copy.
static int64_t chooseReadSlots(const AttentionShape &shape, const TeamFacts &facts, tile::ScheduleAttr schedule) {
  const int64_t warps = schedule.getWarps(), slots = warps * rowsPerWarp;
  const bool isDirect = shape.group <= rowsPerWarp && shape.cache.getPage() % rowsPerWarp == 0;
  for (int64_t own : {2 * rowsPerWarp, rowsPerWarp}) {
    if (isDirect && schedule.getSplit() % (warps * own) == 0 && fitsDecode(shape, facts, warps * own, warps) &&
        fitsDirect(shape, facts, own, /*querySets=*/0)) {
      return warps * own;
    }
  }
  for (int64_t copied = slots; copied > rowsPerWarp; copied /= 2) {
    if (fitsDecode(shape, facts, copied, warps)) {
      return copied;
    }
  }
  return rowsPerWarp;
}

int64_t kvc::chooseDecodeSlots(const AttentionShape &shape, const Target *target, tile::ScheduleAttr schedule) {
  const int64_t slots = schedule.getSlots();
  if (!target || !target->team || isWide(shape, *target->team) || schedule.getSplit() % (2 * slots)) {
    return slots;
  }
  if (target->team->readsInOrder() && areCopied(shape.cache)) {
    return chooseReadSlots(shape, *target->team, schedule);
  }
  if (!target->team->loadsMatrices) {
    // Lanes read pages, where tiles of all warps begin at whole instructions. Loops that do not must fit staging
    // memory.
    const int64_t bytes = 2 * slots * (shape.cache.getKDim() + shape.cache.getVDim()) * 2;
    const bool fits = areCopied(shape.cache)
                          ? fitsDirect(shape, *target->team, 2 * slots / schedule.getWarps(), /*querySets=*/1)
                          : areCodes(shape.cache);
    const bool isDirect = fits && shape.group <= rowsPerWarp && shape.cache.getPage() % rowsPerWarp == 0;
    return isDirect && bytes <= target->team->stagingBytes ? 2 * slots : slots;
  }
  if (areCodes(shape.cache)) {
    // One stage of what is decoded, beside queries of a tail that may be split.
    const int64_t keys = shape.cache.getKDim(), values = shape.cache.getVDim();
    const int64_t bytes = 2 * slots * (keys + values) * 2 + rowsPerWarp * keys * 6;
    return bytes <= target->team->stagingBytes ? 2 * slots : slots;
  }
  // Two stages of the one tile, or a stage and queries of prefill that take no less, have room for one of the other.
  const bool hasRoom = schedule.getStages() >= 2 || shape.cache.getKDim() >= shape.cache.getVDim();
  return areCopied(shape.cache) && hasRoom ? 2 * slots : slots;
}

tile::ScheduleAttr kvc::chooseDecodeSchedule(tile::ScheduleAttr schedule, int64_t heads) {
  if (!schedule.getProducers()) {
    return schedule;
  }
  // Every warp that shares the columns of scores needs whole instructions of slots.
  int64_t warps = schedule.getWarps();
  auto divides = [&] {
    const int64_t columnWarps = warps / rowWarpsOf(warps, heads);
    return schedule.getSlots() % (rowsPerWarp * columnWarps) == 0 && schedule.getSlots() % warps == 0;
  };
  while (warps > 1 && !divides()) {
    warps /= 2;
  }
  return tile::ScheduleAttr::get(schedule.getContext(), schedule.getPrefillTokens(), schedule.getSlots(),
                                 schedule.getSplit(), warps, schedule.getStages(), /*producers=*/0);
}

int64_t kvc::chooseLinearTiles(int64_t columns, const TeamFacts &facts) {
  // Every processor shall get two teams: weights are read as fast as memory gives them.
  constexpr int64_t tile = 16, perProcessor = 2;
  const int64_t tiles = columns / tile / (perProcessor * facts.processors);
  return tiles >= 4 ? 4 : tiles >= 2 ? 2 : 1;
}
