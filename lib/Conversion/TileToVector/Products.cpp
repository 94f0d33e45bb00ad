//===- Products.cpp - Register-blocked products with page operands -------===//
//
// Both products keep a block of rows x blocks of lanes of the result in registers while they walk the summed dimension:
// an element of the first operand is broadcast, a vector of the second is loaded (and unpacked) once for all rows of
// the block.
//
//===----------------------------------------------------------------------===//
#include "Products.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace kvc;

namespace {
/// Rows and blocks of lanes of a register block.
struct BlockShape {
  int64_t tall, wide;
};
} // namespace

static BlockShape blockShape(const Target &target, int64_t rows, int64_t laneBlocks) {
  int64_t tall = std::min(rows, target.mmaRows);
  // Few rows leave registers for more blocks of lanes.
  int64_t wide = std::min(laneBlocks, std::max<int64_t>(1, target.mmaRows * target.mmaBlocks / tall));
  return {tall, std::min<int64_t>(wide, 4)};
}

/// Walks the rows of some blocks of lanes.
static void forRowBlocks(ImplicitLocOpBuilder &b, TileEmitter &emitter, int64_t rows, int64_t tall, Value lane,
                         int64_t width, llvm::function_ref<void(ImplicitLocOpBuilder &, const RegisterBlock &)> body) {
  int64_t whole = rows / tall * tall;
  if (whole == tall) {
    body(b, {indexOf(b, 0), lane, tall, width});
  } else {
    emitter.forRange(b, indexOf(b, 0), indexOf(b, whole), tall,
                     [&](ImplicitLocOpBuilder &b, Value row) { body(b, {row, lane, tall, width}); });
  }
  if (whole != rows) {
    body(b, {indexOf(b, whole), lane, rows - whole, width});
  }
}

void kvc::forBlocks(ImplicitLocOpBuilder &b, TileEmitter &emitter, int64_t rows, int64_t laneBlocks,
                    llvm::function_ref<void(ImplicitLocOpBuilder &, const RegisterBlock &)> body) {
  auto [tall, wide] = blockShape(emitter.context.getTarget(), rows, laneBlocks);
  // Code of wide heads would be that of narrow ones many times over.
  constexpr int64_t unrolled = 4;
  int64_t lane = 0;
  if (laneBlocks / wide > unrolled) {
    lane = laneBlocks / wide * wide;
    emitter.forRange(b, indexOf(b, 0), indexOf(b, lane), wide, [&](ImplicitLocOpBuilder &b, Value first) {
      forRowBlocks(b, emitter, rows, tall, first, wide, body);
    });
  }
  for (; lane < laneBlocks; lane += wide) {
    forRowBlocks(b, emitter, rows, tall, indexOf(b, lane), std::min(wide, laneBlocks - lane), body);
  }
}

void kvc::forKeyBlocks(ImplicitLocOpBuilder &b, TileEmitter &emitter, int64_t rows, int64_t laneBlocks,
                       llvm::function_ref<void(ImplicitLocOpBuilder &, const RegisterBlock &, int64_t)> body) {
  auto [tall, wide] = blockShape(emitter.context.getTarget(), rows, laneBlocks);
  for (int64_t lane = 0; lane < laneBlocks; lane += wide) {
    forRowBlocks(b, emitter, rows, tall, indexOf(b, lane), std::min(wide, laneBlocks - lane),
                 [&](ImplicitLocOpBuilder &b, const RegisterBlock &block) { body(b, block, lane); });
  }
}

SmallVector<Value> kvc::carry(ImplicitLocOpBuilder &b, Value begin, Value end, ArrayRef<Value> init,
                              llvm::function_ref<SmallVector<Value>(ImplicitLocOpBuilder &, Value, ValueRange)> body) {
  auto loop = scf::ForOp::create(b, begin, end, indexOf(b, 1), init);
  ImplicitLocOpBuilder inner = ImplicitLocOpBuilder::atBlockBegin(b.getLoc(), loop.getBody());
  SmallVector<Value> next = body(inner, loop.getInductionVar(), loop.getRegionIterArgs());
  scf::YieldOp::create(inner, next);
  return SmallVector<Value>(loop.getResults());
}

Value Broadcasts::at(ImplicitLocOpBuilder &b, Value row, Value column) const {
  Value x = memref::LoadOp::create(b, memory, ValueRange{row, column});
  Value all = vector::BroadcastOp::create(b, emitter.laneType(x.getType()), x);
  return pairs ? vector::BitCastOp::create(b, VectorType::get({2 * emitter.lanes}, b.getBF16Type()), all) : all;
}

static Value multiplyAdd(ImplicitLocOpBuilder &b, bool pairs, Value a, Value x, Value acc) {
  if (pairs) {
    return tile::PairDotOp::create(b, acc, a, x);
  }
  return math::FmaOp::create(b, a, x, acc);
}

/// result[r, s] = sum over channels of a[r, c] * key[s, c].
static void emitScores(TileEmitter &emitter, tile::MmaOp op, const PageOperand &keys, const Broadcasts &a,
                       Value result) {
  ImplicitLocOpBuilder b(op.getLoc(), op);
  int64_t rows = op.getA().getType().getDimSize(0);
  int64_t pack = keys.staged ? 1 : keys.layout->pack;
  VectorType lane = emitter.laneType(b.getF32Type());
  forKeyBlocks(b, emitter, rows, emitter.blocksOf(keys.slots),
               [&](ImplicitLocOpBuilder &b, const RegisterBlock &block, int64_t firstLaneBlock) {
                 Value zero = arith::ConstantOp::create(b, b.getZeroAttr(lane));
                 SmallVector<Value> init(block.rows * block.laneBlocks, zero);
                 auto step = [&](ImplicitLocOpBuilder &b, Value unit, ValueRange acc) {
                   SmallVector<SmallVector<Value>> x;
                   for (int64_t n = 0; n < block.laneBlocks; ++n) {
                     x.push_back(loadKeyUnit(b, emitter, keys, firstLaneBlock + n, unit));
                   }
                   SmallVector<Value> next(acc);
                   for (size_t e = 0; e < x[0].size(); ++e) {
                     Value column = a.pairs ? unit : add(b, mul(b, unit, pack), indexOf(b, static_cast<int64_t>(e)));
                     for (int64_t r = 0; r < block.rows; ++r) {
                       Value q = a.at(b, block.row(b, r), column);
                       for (int64_t n = 0; n < block.laneBlocks; ++n) {
                         Value &sum = next[r * block.laneBlocks + n];
                         sum = multiplyAdd(b, a.pairs, q, x[n][e], sum);
                       }
                     }
                   }
                   return next;
                 };
                 SmallVector<Value> sums = carry(b, indexOf(b, 0), indexOf(b, keys.channels / pack), init, step);
                 for (int64_t r = 0; r < block.rows; ++r) {
                   for (int64_t n = 0; n < block.laneBlocks; ++n) {
                     vector::StoreOp::create(b, sums[r * block.laneBlocks + n], result,
                                             ValueRange{block.row(b, r), block.column(b, emitter, n)});
                   }
                 }
               });
}

/// acc[r, c] += sum over slots < count of a[r, s] * value[s, c], in place.
static void emitOutput(TileEmitter &emitter, tile::MmaOp op, const PageOperand &values, const Broadcasts &a,
                       Value acc) {
  ImplicitLocOpBuilder b(op.getLoc(), op);
  int64_t rows = op.getA().getType().getDimSize(0);
  int64_t pack = values.staged ? 1 : values.layout->pack;
  int64_t chunkSlots = values.staged ? values.slots : values.chunk;
  VectorType lane = emitter.laneType(b.getF32Type());
  Value count = values.count;

  /// One unit; slots of it at or past `valid` (null: none) count as zero.
  auto unitStep = [&](ImplicitLocOpBuilder &b, const RegisterBlock &block, const ValueChunk &chunk, Value unit,
                      ValueRange acc, Value valid) {
    SmallVector<SmallVector<Value>> x;
    for (int64_t n = 0; n < block.laneBlocks; ++n) {
      x.push_back(loadValueUnit(b, emitter, values, chunk, unit, block.laneBlock(b, n)));
    }
    SmallVector<Value> next(acc);
    for (size_t e = 0; e < x[0].size(); ++e) {
      Value slot = add(b, chunk.first, add(b, mul(b, unit, pack), indexOf(b, static_cast<int64_t>(e))));
      Value column = a.pairs ? arith::DivUIOp::create(b, slot, indexOf(b, 2)).getResult() : slot;
      for (int64_t n = 0; n < block.laneBlocks && valid; ++n) {
        Value &value = x[n][e];
        if (a.pairs) {
          // Of a pair only the low half is in use.
          VectorType words = emitter.laneType(b.getI32Type());
          Value low = arith::ConstantOp::create(b, DenseElementsAttr::get(words, b.getI32IntegerAttr(0xffff)));
          Value bits = arith::AndIOp::create(b, vector::BitCastOp::create(b, words, value), low);
          value = vector::BitCastOp::create(b, value.getType(), bits);
        } else {
          Value used = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, indexOf(b, static_cast<int64_t>(e)), valid);
          value = arith::SelectOp::create(b, used, value, arith::ConstantOp::create(b, b.getZeroAttr(lane)));
        }
      }
      for (int64_t r = 0; r < block.rows; ++r) {
        Value p = a.at(b, block.row(b, r), column);
        for (int64_t n = 0; n < block.laneBlocks; ++n) {
          Value &sum = next[r * block.laneBlocks + n];
          sum = multiplyAdd(b, a.pairs, p, x[n][e], sum);
        }
      }
    }
    return next;
  };

  forBlocks(
      b, emitter, rows, emitter.blocksOf(values.channels), [&](ImplicitLocOpBuilder &b, const RegisterBlock &block) {
        SmallVector<Value> sums;
        auto place = [&](ImplicitLocOpBuilder &b, int64_t r, int64_t n) {
          return SmallVector<Value>{block.row(b, r), block.column(b, emitter, n)};
        };
        for (int64_t r = 0; r < block.rows; ++r) {
          for (int64_t n = 0; n < block.laneBlocks; ++n) {
            sums.push_back(vector::LoadOp::create(b, lane, acc, place(b, r, n)));
          }
        }
        Value chunks = arith::CeilDivUIOp::create(b, count, indexOf(b, chunkSlots));
        sums = carry(b, indexOf(b, 0), chunks, sums, [&](ImplicitLocOpBuilder &b, Value number, ValueRange carried) {
          Value first = mul(b, number, chunkSlots);
          ValueChunk chunk = valueChunk(b, emitter, values, first);
          Value slots = arith::MinSIOp::create(b, arith::SubIOp::create(b, count, first), indexOf(b, chunkSlots));
          Value units = arith::DivUIOp::create(b, slots, indexOf(b, pack));
          SmallVector<Value> next = carry(b, indexOf(b, 0), units, SmallVector<Value>(carried),
                                          [&](ImplicitLocOpBuilder &b, Value unit, ValueRange acc) {
                                            return unitStep(b, block, chunk, unit, acc, Value());
                                          });
          if (pack == 1) {
            return next;
          }
          Value rest = arith::RemUIOp::create(b, slots, indexOf(b, pack));
          Value any = arith::CmpIOp::create(b, arith::CmpIPredicate::ne, rest, indexOf(b, 0));
          Value end = add(b, units, arith::IndexCastUIOp::create(b, b.getIndexType(), any));
          return carry(b, units, end, next, [&](ImplicitLocOpBuilder &b, Value unit, ValueRange acc) {
            return unitStep(b, block, chunk, unit, acc, rest);
          });
        });
        for (int64_t r = 0; r < block.rows; ++r) {
          for (int64_t n = 0; n < block.laneBlocks; ++n) {
            vector::StoreOp::create(b, sums[r * block.laneBlocks + n], acc, place(b, r, n));
          }
        }
      });
}

LogicalResult TileEmitter::emitMma(tile::MmaOp op) {
  Builder b(op.getLoc(), op);
  const PageOperand &operand = operandOf(op.getB());
  Value plain = materialize(b, op.getA());
  bool isCodes = operand.access == Access::Codes;
  Broadcasts a{operand.isPairs() ? pairsOf(op.getA()) : plain, operand.isPairs(), *this};
  if (op.getContract() == tile::Contract::Channels) {
    if (op.getAcc()) {
      return op.emitOpError() << "has no lowering of an accumulator of scores";
    }
    VectorType type = op.getResult().getType();
    Value result = allocate({type.getDimSize(0), padded(type.getDimSize(1))}, b.getF32Type());
    setBuffer(op.getResult(), result);
    if (isCodes) {
      Value sums = groupSumsOf(op.getA(), operand.layout->format.getGroup());
      emitCodeScores(*this, op, operand, plain, sums, result);
    } else {
      emitScores(*this, op, operand, a, result);
    }
    return success();
  }
  if (!op.getAcc()) {
    return op.emitOpError() << "expects an accumulator of a product over slots";
  }
  Value acc = materialize(b, op.getAcc());
  setBuffer(op.getResult(), acc);
  if (isCodes) {
    emitCodeOutput(*this, op, operand, plain, acc);
  } else {
    emitOutput(*this, op, operand, a, acc);
  }
  return success();
}
