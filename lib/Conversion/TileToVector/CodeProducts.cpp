//===- CodeProducts.cpp - Products with codes as they are stored ---------===//
//
// Few rows cannot pay for scaling every code, so scales and zeros leave the sum. Where they belong to a slot, those of
// keys multiply partial sums over a group of channels, those of values the probabilities; where they belong to a
// channel, those of keys multiply the query. A zero multiplies the sum of the other operand over its group.
//
//===----------------------------------------------------------------------===//
#include "Codec.h"
#include "Products.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include <numeric>

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;

namespace {

/// Sums of products of codes with a first operand in memory, for one register block.
struct CodeDot {
  TileEmitter &emitter;
  const PlaneLayout &layout;
  const RegisterBlock &block;
  /// First operand: memref<rows x elements of the summed dimension x f32>, and its row for row r and block n of the
  /// register block.
  Value memory;
  llvm::function_ref<Value(ImplicitLocOpBuilder &, int64_t r, int64_t n)> rowOf;

  VectorType lane(ImplicitLocOpBuilder &b) const { return emitter.laneType(b.getF32Type()); }
  Value &at(MutableArrayRef<Value> sums, int64_t r, int64_t n) const { return sums[r * block.laneBlocks + n]; }

  SmallVector<Value> zeros(ImplicitLocOpBuilder &b) const {
    Value zero = arith::ConstantOp::create(b, b.getZeroAttr(lane(b)));
    return SmallVector<Value>(block.rows * block.laneBlocks, zero);
  }

  /// Enters one unit of every block; `first` is the number of its first element in the first operand.
  SmallVector<Value> step(ImplicitLocOpBuilder &b, ValueRange sums, Value first, ArrayRef<Value> bytes) const {
    SmallVector<Value> next(sums);
    auto words = emitter.laneType(getUnitType(b.getContext(), layout));
    SmallVector<Value> units;
    for (Value raw : bytes) {
      units.push_back(unitsOfBytes(b, layout, raw));
    }
    for (int64_t e = 0; e < layout.pack; ++e) {
      Value shift = arith::ConstantOp::create(
          b, DenseElementsAttr::get(words, b.getIntegerAttr(words.getElementType(), e * layout.format.getBits())));
      SmallVector<Value> codes;
      for (Value unit : units) {
        codes.push_back(decodeElement(b, layout, unit, shift));
      }
      Value column = add(b, first, indexOf(b, e));
      for (int64_t r = 0; r < block.rows; ++r) {
        for (int64_t n = 0; n < block.laneBlocks; ++n) {
          Value a = broadcastFrom(b, memory, {rowOf(b, r, n), column}, lane(b));
          Value &sum = at(next, r, n);
          sum = math::FmaOp::create(b, a, codes[n], sum);
        }
      }
    }
    return next;
  }
};

/// A vector of lanes of a row of memory, from a column on.
struct Row {
  Value memory, row;

  Value load(ImplicitLocOpBuilder &b, TileEmitter &emitter, Value column) const {
    return vector::LoadOp::create(b, emitter.laneType(b.getF32Type()), memory, ValueRange{row, column});
  }
  void store(ImplicitLocOpBuilder &b, TileEmitter &, Value column, Value value) const {
    vector::StoreOp::create(b, value, memory, ValueRange{row, column});
  }
};

Value fma(ImplicitLocOpBuilder &b, Value x, Value y, Value z) { return math::FmaOp::create(b, x, y, z); }

SmallVector<Value> loadKeyBlocks(ImplicitLocOpBuilder &b, TileEmitter &emitter, const PageOperand &keys,
                                 const RegisterBlock &block, int64_t firstLaneBlock, Value unit) {
  SmallVector<Value> bytes;
  for (int64_t n = 0; n < block.laneBlocks; ++n) {
    bytes.push_back(loadKeyBytes(b, emitter, keys, firstLaneBlock + n, unit));
  }
  return bytes;
}

} // namespace

/// Scales of groups of channels: score = sum over groups of scale * (sum of a * code) + zero * (sum of a).
static void emitTokenScores(ImplicitLocOpBuilder &b, TileEmitter &emitter, const PageOperand &keys, Value a, Value sums,
                            Value result, int64_t rows) {
  const PlaneLayout &layout = *keys.layout;
  int64_t units = layout.format.getGroup() / layout.pack, lanes = emitter.lanes;
  forKeyBlocks(
      b, emitter, rows, emitter.blocksOf(keys.slots),
      [&](ImplicitLocOpBuilder &b, const RegisterBlock &block, int64_t firstLaneBlock) {
        auto rowOf = [&](ImplicitLocOpBuilder &b, int64_t r, int64_t) { return block.row(b, r); };
        CodeDot dot{emitter, layout, block, a, rowOf};
        auto out = [&](ImplicitLocOpBuilder &b, int64_t r) { return Row{result, block.row(b, r)}; };
        // Totals stay in memory: partial sums take the registers.
        Value zero = arith::ConstantOp::create(b, b.getZeroAttr(dot.lane(b)));
        for (int64_t r = 0; r < block.rows; ++r) {
          for (int64_t n = 0; n < block.laneBlocks; ++n) {
            out(b, r).store(b, emitter, block.column(b, emitter, n), zero);
          }
        }
        emitter.forRange(
            b, indexOf(b, 0), indexOf(b, keys.channelGroups()), 1, [&](ImplicitLocOpBuilder &b, Value group) {
              Value begin = mul(b, group, units), end = add(b, begin, indexOf(b, units));
              SmallVector<Value> partial =
                  carry(b, begin, end, dot.zeros(b), [&](ImplicitLocOpBuilder &b, Value unit, ValueRange carried) {
                    return dot.step(b, carried, mul(b, unit, layout.pack),
                                    loadKeyBlocks(b, emitter, keys, block, firstLaneBlock, unit));
                  });
              for (int64_t n = 0; n < block.laneBlocks; ++n) {
                int64_t laneBlock = firstLaneBlock + n;
                Value at = add(b, keys.scaleBase[laneBlock], mul(b, group, lanes * layout.scaleBytes));
                Value ahead = keys.ahead.empty() ? Value() : keys.ahead[laneBlock];
                fetchAhead(b, keys, at, ahead);
                Value scale = decodeScale(b, loadScales(b, keys, at, lanes)), offset;
                if (sums) {
                  at = add(b, at, indexOf(b, layout.zeros - layout.scales));
                  fetchAhead(b, keys, at, ahead);
                  offset = loadScales(b, keys, at, lanes);
                }
                for (int64_t r = 0; r < block.rows; ++r) {
                  Value total =
                      fma(b, scale, dot.at(partial, r, n), out(b, r).load(b, emitter, block.column(b, emitter, n)));
                  if (offset) {
                    total = fma(b, offset, broadcastFrom(b, sums, {block.row(b, r), group}, dot.lane(b)), total);
                  }
                  out(b, r).store(b, emitter, block.column(b, emitter, n), total);
                }
              }
            });
      });
}

/// Scales of groups of slots: the query is multiplied by them, once for each group of the tile.
static void emitChannelScores(ImplicitLocOpBuilder &b, TileEmitter &emitter, const PageOperand &keys, Value a,
                              Value result, int64_t rows) {
  const PlaneLayout &layout = *keys.layout;
  int64_t lanes = emitter.lanes, blocks = emitter.blocksOf(keys.slots);
  // Blocks of lanes that share scales; a tile may begin and end within a group.
  int64_t groupBlocks = std::gcd(layout.format.getGroup() / lanes, keys.chunk / lanes);
  int64_t groups = llvm::divideCeil(blocks, groupBlocks);
  Value scaled = emitter.allocate({groups * rows, emitter.padded(keys.channels)}, b.getF32Type());
  Value offsets = emitter.allocate({groups * rows}, b.getF32Type());
  bool hasZeros = layout.zeros >= 0;
  auto rowIn = [&](ImplicitLocOpBuilder &b, int64_t group, Value row) { return add(b, row, indexOf(b, group * rows)); };
  Value none = arith::ConstantOp::create(b, b.getZeroAttr(emitter.laneType(b.getF32Type())));
  for (int64_t group = 0; group < groups; ++group) {
    int64_t firstBlock = group * groupBlocks;
    Value scales = keys.scaleBase[firstBlock], ahead = keys.ahead.empty() ? Value() : keys.ahead[firstBlock];
    SmallVector<Value> totals(rows, none);
    for (int64_t c = 0; c < keys.channels; c += lanes) {
      int64_t count = std::min(lanes, keys.channels - c);
      auto columns = VectorType::get({count}, b.getF32Type());
      Value at = add(b, scales, indexOf(b, c * layout.scaleBytes)), zeroAt;
      fetchAhead(b, keys, at, ahead);
      Value scale = decodeScale(b, loadScales(b, keys, at, count)), zero;
      if (hasZeros) {
        zeroAt = add(b, at, indexOf(b, layout.zeros - layout.scales));
        fetchAhead(b, keys, zeroAt, ahead);
        zero = loadScales(b, keys, zeroAt, count);
      }
      for (int64_t row = 0; row < rows; ++row) {
        Value q = vector::LoadOp::create(b, columns, a, ValueRange{indexOf(b, row), indexOf(b, c)});
        vector::StoreOp::create(b, arith::MulFOp::create(b, q, scale), scaled,
                                ValueRange{indexOf(b, group * rows + row), indexOf(b, c)});
        if (hasZeros) {
          Value &total = totals[row];
          Value part = arith::MulFOp::create(b, q, zero);
          if (count != lanes) {
            part = vector::InsertStridedSliceOp::create(b, part, none, 0, 1);
          }
          total = arith::AddFOp::create(b, total, part);
        }
      }
    }
    for (int64_t row = 0; row < rows && hasZeros; ++row) {
      Value sum = vector::ReductionOp::create(b, vector::CombiningKind::ADD, totals[row]);
      memref::StoreOp::create(b, sum, offsets, ValueRange{indexOf(b, group * rows + row)});
    }
  }
  forKeyBlocks(
      b, emitter, rows, blocks, [&](ImplicitLocOpBuilder &b, const RegisterBlock &block, int64_t firstLaneBlock) {
        auto rowOf = [&](ImplicitLocOpBuilder &b, int64_t r, int64_t n) {
          return rowIn(b, (firstLaneBlock + n) / groupBlocks, block.row(b, r));
        };
        CodeDot dot{emitter, layout, block, scaled, rowOf};
        SmallVector<Value> sums = carry(b, indexOf(b, 0), indexOf(b, keys.channels / layout.pack), dot.zeros(b),
                                        [&](ImplicitLocOpBuilder &b, Value unit, ValueRange carried) {
                                          return dot.step(b, carried, mul(b, unit, layout.pack),
                                                          loadKeyBlocks(b, emitter, keys, block, firstLaneBlock, unit));
                                        });
        for (int64_t r = 0; r < block.rows; ++r) {
          for (int64_t n = 0; n < block.laneBlocks; ++n) {
            Value score = dot.at(sums, r, n);
            if (hasZeros) {
              score = arith::AddFOp::create(b, score, broadcastFrom(b, offsets, {rowOf(b, r, n)}, dot.lane(b)));
            }
            Row{result, block.row(b, r)}.store(b, emitter, block.column(b, emitter, n), score);
          }
        }
      });
}

void kvc::emitCodeScores(TileEmitter &emitter, tile::MmaOp op, const PageOperand &keys, Value a, Value sums,
                         Value result) {
  ImplicitLocOpBuilder b(op.getLoc(), op);
  int64_t rows = op.getA().getType().getDimSize(0);
  if (keys.isGrouped(Axis::Token)) {
    return emitTokenScores(b, emitter, keys, a, sums, result, rows);
  }
  emitChannelScores(b, emitter, keys, a, result, rows);
}

void kvc::emitCodeOutput(TileEmitter &emitter, tile::MmaOp op, const PageOperand &values, Value a, Value acc) {
  ImplicitLocOpBuilder b(op.getLoc(), op);
  const PlaneLayout &layout = *values.layout;
  int64_t rows = op.getA().getType().getDimSize(0), lanes = emitter.lanes, groups = values.channelGroups();
  VectorType lane = emitter.laneType(b.getF32Type());
  // Probabilities times scales, and their sums times zeros, for each group of channels.
  int64_t columns = emitter.padded(values.slots);
  Value scaled = emitter.allocate({rows * groups, columns}, b.getF32Type());
  Value offsets = emitter.allocate({rows * groups}, b.getF32Type());
  auto rowIn = [&](ImplicitLocOpBuilder &b, int64_t group, Value row) { return add(b, row, indexOf(b, group * rows)); };
  SmallVector<Value> used;
  Value none = arith::ConstantOp::create(b, b.getZeroAttr(lane));
  for (int64_t block = 0; block < columns / lanes; ++block) {
    SmallVector<int32_t> numbers(lanes);
    std::iota(numbers.begin(), numbers.end(), static_cast<int32_t>(block * lanes));
    VectorType words = emitter.laneType(b.getI32Type());
    Value number = arith::ConstantOp::create(b, DenseElementsAttr::get(words, ArrayRef<int32_t>(numbers)));
    Value count = arith::IndexCastOp::create(b, b.getI32Type(), values.count);
    used.push_back(
        arith::CmpIOp::create(b, arith::CmpIPredicate::slt, number, vector::BroadcastOp::create(b, words, count)));
  }
  emitter.forRows(b, rows, [&](ImplicitLocOpBuilder &b, Value row) {
    for (int64_t group = 0; group < groups; ++group) {
      Value total;
      for (int64_t block = 0; block < columns / lanes; ++block) {
        Value p = Row{a, row}.load(b, emitter, indexOf(b, block * lanes));
        auto times = [&](Value wide) -> Value {
          // Behind the last slot there is no scale.
          Value factor = Row{wide, indexOf(b, group)}.load(b, emitter, indexOf(b, block * lanes));
          return arith::SelectOp::create(b, used[block], arith::MulFOp::create(b, p, factor), none);
        };
        Row{scaled, rowIn(b, group, row)}.store(b, emitter, indexOf(b, block * lanes), times(values.wideScales));
        if (values.wideZeros) {
          Value part = times(values.wideZeros);
          total = total ? arith::AddFOp::create(b, total, part).getResult() : part;
        }
      }
      if (total) {
        Value sum = vector::ReductionOp::create(b, vector::CombiningKind::ADD, total);
        memref::StoreOp::create(b, sum, offsets, ValueRange{rowIn(b, group, row)});
      }
    }
  });

  forBlocks(
      b, emitter, rows, emitter.blocksOf(values.channels), [&](ImplicitLocOpBuilder &b, const RegisterBlock &block) {
        auto rowOf = [&](ImplicitLocOpBuilder &b, int64_t r, int64_t n) {
          // Rows of a group of channels follow one another.
          Value group = arith::DivUIOp::create(b, block.column(b, emitter, n), indexOf(b, layout.format.getGroup()));
          return add(b, block.row(b, r), mul(b, group, rows));
        };
        CodeDot dot{emitter, layout, block, scaled, rowOf};
        Value chunks = arith::CeilDivUIOp::create(b, values.count, indexOf(b, values.chunk));
        SmallVector<Value> sums = carry(
            b, indexOf(b, 0), chunks, dot.zeros(b), [&](ImplicitLocOpBuilder &b, Value number, ValueRange carried) {
              Value first = mul(b, number, values.chunk);
              ValueChunk chunk = valueChunk(b, emitter, values, first);
              Value left = arith::SubIOp::create(b, values.count, first);
              Value slots = arith::MinSIOp::create(b, left, indexOf(b, values.chunk));
              // Slots of the last unit that are not in use meet probabilities of zero.
              Value units = arith::CeilDivUIOp::create(b, slots, indexOf(b, layout.pack));
              return carry(b, indexOf(b, 0), units, SmallVector<Value>(carried),
                           [&](ImplicitLocOpBuilder &b, Value unit, ValueRange inner) {
                             SmallVector<Value> bytes;
                             for (int64_t n = 0; n < block.laneBlocks; ++n) {
                               bytes.push_back(loadValueBytes(b, emitter, values, chunk, unit, block.laneBlock(b, n)));
                             }
                             return dot.step(b, inner, add(b, first, mul(b, unit, layout.pack)), bytes);
                           });
            });
        for (int64_t r = 0; r < block.rows; ++r) {
          for (int64_t n = 0; n < block.laneBlocks; ++n) {
            Row row{acc, block.row(b, r)};
            Value total =
                arith::AddFOp::create(b, row.load(b, emitter, block.column(b, emitter, n)), dot.at(sums, r, n));
            if (values.wideZeros) {
              total = arith::AddFOp::create(b, total, broadcastFrom(b, offsets, {rowOf(b, r, n)}, lane));
            }
            row.store(b, emitter, block.column(b, emitter, n), total);
          }
        }
      });
}
