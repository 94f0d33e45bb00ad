//===- StageReader.h - Operands of products, piece by piece -----*- C++ -*-===//
#ifndef KVC_LIB_CONVERSION_TILETOGPU_STAGEREADER_H
#define KVC_LIB_CONVERSION_TILETOGPU_STAGEREADER_H

#include "TeamEmitter.h"

namespace kvc {

/// What an operand is read for: keys and values as the second operand, queries and, transposed, values as the first.
enum class Use : uint8_t { Keys, Values, Queries, ValuesFirst };

/// Gives an operand of products in pieces: of some steps along the summed dimension, some column tiles of the second
/// operand or one row tile of the first.
class StageReader {
public:
  StageReader(int64_t steps, int64_t tiles) : steps(steps), tiles(tiles) {}
  virtual ~StageReader() = default;
  const int64_t steps, tiles;
  /// Words of slots `slot ..` and channels `channel ..` (the piece's first), of a set of words: [step][tile][register].
  virtual llvm::SmallVector<mlir::Value> load(int64_t slot, int64_t channel, int64_t set, mlir::Type word) = 0;
};

/// By the atom's layout, without matrix loads: what a lane reads are runs of neighbouring channels of a slot. The
/// channels of several steps of keys are counted so that a lane's are neighbours. Of values, whose operand has
/// neighbouring slots of one channel in a word, a lane reads a channel of each of several tiles at once and makes words
/// of two slots.
class RunReader : public StageReader {
public:
  RunReader(mlir::ImplicitLocOpBuilder &b, const MmaAtom &atom, Use use, int64_t steps, int64_t tiles);

  llvm::SmallVector<mlir::Value> load(int64_t slot, int64_t channel, int64_t set, mlir::Type word) override;

protected:
  /// `count` neighbours in one chunk of eight, behind the lane's own slot and channel.
  virtual mlir::Value loadRun(int64_t slot, int64_t channel, int64_t count, int64_t set, mlir::Type word) = 0;

  mlir::ImplicitLocOpBuilder &b;
  Layout layout;
  bool isValues;
  Axis slotAxis, channelAxis;
};

/// A run that a reader of one lane asks for.
struct LaneRun {
  int64_t slot, channel, count;
};
/// All that it asks for of so many slots and channels of keys or values; of keys at most `chunk` channels at once.
llvm::SmallVector<LaneRun> laneRuns(const MmaAtom &atom, Use use, int64_t steps, int64_t tiles, int64_t slots,
                                    int64_t channels, int64_t chunk);

/// Keys or values of a tall atom in an image of their rows.
std::unique_ptr<StageReader> createImageReader(TeamEmitter &emitter, mlir::ImplicitLocOpBuilder &b,
                                               const StagedOperand &operand);

} // namespace kvc

#endif // KVC_LIB_CONVERSION_TILETOGPU_STAGEREADER_H
