//===- LinearTile.cpp - Linear layers as loops over vectors ---------------===//
//
// Lanes run along K, so that weights are read as they lie. A tile of rows x columns keeps its sums in registers; at its
// end the lanes of all sums are added up together. Few rows read codes and scale the sums of each segment. Many rows
// read a panel of dequantised columns that is made once.
//
//===----------------------------------------------------------------------===//
#include "BlockDecoders.h"
#include "BodyVectorizer.h"
#include "Lowerings.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kvc;

namespace {

/// Columns of a tile of sums.
constexpr int64_t tileColumns = 4;
/// Up to so many rows the weights are decoded again for each row tile.
constexpr int64_t fewRows = 4;
/// Rows whose results are kept until the element-wise part.
constexpr int64_t blockRows = 128;

class LinearLowering {
public:
  LinearLowering(tile::LinearOp op, const Target &target)
      : op(op), b(op.getLoc(), op), lanes(target.lanes), inner(op.getInner()), vectors(llvm::divideCeil(inner, lanes)),
        rowTile(std::max<int64_t>(1, std::min(fewRows, target.mmaRows * target.mmaBlocks / tileColumns))),
        epilogue(target.lanes) {
    // As many columns as the panel of half a core's cache holds.
    panelColumns = lanes;
    while (panelColumns > tileColumns && panelColumns * vectors * lanes * 4 > target.cacheBytes / 2) {
      panelColumns /= 2;
    }
  }

  LogicalResult run() {
    epilogue.setInduction(op.getBody().getArgument(1));
    for (BlockArgument value : op.getBody().getArguments().drop_front(2)) {
      epilogue.addVarying(value);
    }
    if (failed(epilogue.analyze(op.getBody().front()))) {
      return epilogue.offender->emitOpError() << "expects indices of the row, then of the column inside tile.linear";
    }
    zero = index(0);
    one = index(1);
    rowBound = op.getRowEnd();
    while (results.size() < op.getWeights().size()) {
      results.push_back(buffer({blockRows, lanes}, results.size()));
    }
    panel = buffer({panelColumns / tileColumns, vectors, tileColumns, lanes}, 0);

    forLoop(op.getRowBegin(), op.getRowEnd(), blockRows, [&](Value rowBlock) {
      Value left = arith::SubIOp::create(b, op.getRowEnd(), rowBlock);
      Value rows = arith::MinUIOp::create(b, left, index(blockRows));
      emitOffsetSums(rowBlock, rows);
      forLoop(op.getColumnBegin(), op.getColumnEnd(), lanes, [&](Value column) {
        for (unsigned w = 0; w < op.getWeights().size(); ++w) {
          emitWeight(w, rowBlock, rows, column);
        }
        emitEpilogue(rowBlock, rows, column);
      });
    });
    op.erase();
    return success();
  }

private:
  Value index(int64_t value) { return arith::ConstantIndexOp::create(b, value); }
  Value add(Value x, Value y) { return b.createOrFold<arith::AddIOp>(x, y); }
  Value mul(Value x, int64_t y) { return b.createOrFold<arith::MulIOp>(x, index(y)); }
  VectorType f32Vector() { return VectorType::get({lanes}, b.getF32Type()); }

  void forLoop(Value begin, Value end, int64_t by, llvm::function_ref<void(Value)> body) {
    auto loop = scf::ForOp::create(b, begin, end, index(by));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(loop.getBody()->getTerminator());
    body(loop.getInductionVar());
  }
  void forLoop(int64_t begin, int64_t end, int64_t by, llvm::function_ref<void(Value)> body) {
    forLoop(index(begin), index(end), by, body);
  }
  void ifElse(Value condition, llvm::function_ref<void()> yes, llvm::function_ref<void()> no) {
    auto branch = scf::IfOp::create(b, condition, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(branch.thenYield());
    yes();
    b.setInsertionPoint(branch.elseYield());
    no();
  }

  Value isFew(Value rows) { return arith::CmpIOp::create(b, arith::CmpIPredicate::ule, rows, index(fewRows)); }

  /// Stack memory of the kernel; linear layers of one kernel share it. `number` tells buffers of one shape apart.
  Value buffer(ArrayRef<int64_t> shape, unsigned number) {
    auto type = MemRefType::get(shape, b.getF32Type());
    Block &entry = op->getParentOfType<func::FuncOp>().getBody().front();
    unsigned seen = 0;
    for (auto existing : entry.getOps<memref::AllocaOp>()) {
      if (existing.getType() == type && existing->hasAttr(bufferAttr) && seen++ == number) {
        return existing;
      }
    }
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&entry);
    if (auto previous = llvm::to_vector(entry.getOps<memref::AllocaOp>()); !previous.empty()) {
      b.setInsertionPointAfter(previous.back());
    }
    auto made = memref::AllocaOp::create(b, type, b.getI64IntegerAttr(64));
    made->setAttr(bufferAttr, b.getUnitAttr());
    return made;
  }

  //===--------------------------------------------------------------------===//
  // One weight, a strip of `lanes` columns from `column`
  //===--------------------------------------------------------------------===//

  void emitWeight(unsigned w, Value rowBlock, Value rows, Value column) {
    auto tiles = [&](int64_t tall, Value end, Value count, bool fromPanel, Value firstColumn) {
      forLoop(zero, count, tall, [&](Value row) {
        forLoop(zero, end, tileColumns,
                [&](Value offset) { emitTile(w, tall, rowBlock, row, column, firstColumn, offset, fromPanel); });
      });
    };
    ifElse(
        isFew(rows),
        [&] {
          // Row tiles no taller than needed: 1, 2, ... rowTile.
          std::function<void(int64_t)> choose = [&](int64_t tall) {
            if (tall >= rowTile) {
              return tiles(rowTile, index(lanes), rows, false, zero);
            }
            Value fits = arith::CmpIOp::create(b, arith::CmpIPredicate::ule, rows, index(tall));
            ifElse(fits, [&] { tiles(tall, index(lanes), rows, false, zero); }, [&] { choose(2 * tall); });
          };
          choose(1);
        },
        [&] {
          forLoop(0, lanes, panelColumns, [&](Value first) {
            emitPanel(w, add(column, first));
            tiles(rowTile, index(panelColumns), rows, true, first);
          });
        });
  }

  /// The row of the weight for a column; columns past the end repeat the last one, and their results are not used.
  Value clampColumn(Value column) { return arith::MinUIOp::create(b, column, index(op.getColumns() - 1)); }

  WeightSteps steps(unsigned w) { return {cast<StringAttr>(op.getEncodings()[w]).getValue(), inner, lanes}; }

  /// Calls `body(step, values of the step or of the tail, sums)` for all steps of a row; `body` returns the new sums.
  using StepBody = llvm::function_ref<SmallVector<Value>(Value step, int64_t count, ValueRange sums)>;
  SmallVector<Value> forSteps(const WeightSteps &s, ValueRange sums, StepBody body) {
    SmallVector<Value> out(sums);
    if (s.count) {
      auto loop = scf::ForOp::create(b, zero, index(s.count), one, sums);
      OpBuilder::InsertionGuard guard(b);
      if (sums.empty()) {
        b.setInsertionPoint(loop.getBody()->getTerminator());
        body(loop.getInductionVar(), s.values, {});
      } else {
        b.setInsertionPointToStart(loop.getBody());
        scf::YieldOp::create(b, body(loop.getInductionVar(), s.values, loop.getRegionIterArgs()));
      }
      out = loop.getResults();
    }
    return s.tail ? body(index(s.count), s.tail, out) : out;
  }

  /// Dequantises panelColumns columns: panel[column / tileColumns][k / lanes][column % tileColumns][k % lanes].
  void emitPanel(unsigned w, Value column) {
    WeightSteps s = steps(w);
    forLoop(0, panelColumns / tileColumns, 1, [&](Value group) {
      forLoop(0, tileColumns, 1, [&](Value inGroup) {
        Value row = clampColumn(add(add(column, mul(group, tileColumns)), inGroup));
        forSteps(s, {}, [&](Value step, int64_t count, ValueRange) -> SmallVector<Value> {
          Value k = mul(step, llvm::divideCeil(s.values, lanes));
          for (int64_t segment = 0; segment < s.segments; ++segment) {
            DecodedSegment decoded = s.decoder.emit(b, {op.getWeights()[w], row, mul(step, s.units)}, segment, lanes,
                                                    std::min(count, lanes));
            for (Value code : decoded.codes) {
              vector::StoreOp::create(b, dequantize(decoded, code), panel, ValueRange{group, k, inGroup, zero});
              k = add(k, one);
            }
          }
          return {};
        });
      });
    });
  }

  Value splat(Value scalar) { return vector::BroadcastOp::create(b, f32Vector(), scalar); }
  Value fma(Value x, Value y, Value acc) { return vector::FMAOp::create(b, x, y, acc); }

  /// Exact: every code * scale fits f32, so only the sum rounds.
  Value dequantize(const DecodedSegment &decoded, Value code) {
    if (!decoded.scale) {
      return code;
    }
    Value scale = splat(decoded.scale);
    return decoded.offset ? fma(code, scale, splat(decoded.offset)) : arith::MulFOp::create(b, code, scale).getResult();
  }

  /// Sums of `tall` rows x tileColumns columns, into results[w].
  void emitTile(unsigned w, int64_t tall, Value rowBlock, Value row, Value column, Value panelFirst, Value offset,
                bool fromPanel) {
    SmallVector<Value> xRows, rowsInBlock, weightRows;
    Value lastRow = arith::SubIOp::create(b, arith::SubIOp::create(b, rowBound, rowBlock), one);
    for (int64_t r = 0; r < tall; ++r) {
      // Rows past the end repeat the last one; the element-wise part does not visit them.
      rowsInBlock.push_back(arith::MinUIOp::create(b, add(row, index(r)), lastRow));
      xRows.push_back(add(rowBlock, rowsInBlock.back()));
    }
    Value inStrip = add(panelFirst, offset);
    for (int64_t c = 0; c < tileColumns && !fromPanel; ++c) {
      weightRows.push_back(clampColumn(add(add(column, inStrip), index(c))));
    }
    Value none = arith::ConstantOp::create(b, b.getZeroAttr(f32Vector()));
    SmallVector<Value> sums(tall * tileColumns, none);
    Value added;
    if (fromPanel) {
      WeightSteps plain("f32", inner, lanes);
      Value group = arith::DivUIOp::create(b, offset, index(tileColumns));
      added = addLanes(forSteps(plain, sums, [&](Value step, int64_t count, ValueRange acc) {
        SmallVector<Value> out(acc), weights;
        for (int64_t c = 0; c < tileColumns; ++c) {
          weights.push_back(vector::LoadOp::create(b, f32Vector(), panel, ValueRange{group, step, index(c), zero}));
        }
        for (int64_t r = 0; r < tall; ++r) {
          Value x = loadRow(b, op.getX(), {xRows[r], mul(step, lanes)}, lanes, std::min(count, lanes));
          for (int64_t c = 0; c < tileColumns; ++c) {
            Value &sum = out[r * tileColumns + c];
            sum = fma(x, weights[c], sum);
          }
        }
        return out;
      }));
    } else {
      added = emitDecodedSums(w, xRows, rowsInBlock, weightRows, sums);
    }
    for (int64_t r = 0; r < tall; ++r) {
      Value part = vector::ExtractStridedSliceOp::create(b, added, ArrayRef<int64_t>{r * tileColumns},
                                                         ArrayRef<int64_t>{tileColumns}, ArrayRef<int64_t>{1});
      vector::StoreOp::create(b, part, results[w], ValueRange{add(row, index(r)), inStrip});
    }
  }

  /// How far ahead of the rows that are read, in rows, memory is asked for: whole tiles, some kilobytes.
  static int64_t rowsAhead(int64_t rowBytes) {
    constexpr int64_t bytesAhead = 4096;
    return tileColumns * std::max<int64_t>(1, llvm::divideCeil(bytesAhead, tileColumns * rowBytes));
  }

  /// Rows of weights lie one behind the other, but a tile reads several at once, which prefetchers of stream after
  /// stream follow badly: step by step, a later tile is asked for in the order of memory.
  void emitPrefetch(unsigned w, const WeightSteps &s, Value firstRow, Value step) {
    constexpr int64_t line = 64;
    Value weight = op.getWeights()[w];
    Value row = add(firstRow, index(rowsAhead(s.bytes * (s.count + (s.tail ? 1 : 0)))));
    int64_t unit = s.bytes / s.units;
    for (int64_t byte = 0; byte < tileColumns * s.bytes; byte += line) {
      Value at = add(mul(step, tileColumns * s.units), index(byte / unit));
      memref::PrefetchOp::create(b, weight, ValueRange{row, at}, /*isWrite=*/false, /*localityHint=*/3,
                                 /*isDataCache=*/true);
    }
  }

  /// For few rows and weights with offsets.
  void emitOffsetSums(Value rowBlock, Value rows) {
    for (unsigned w = 0; w < op.getWeights().size() && !xSums; ++w) {
      WeightSteps s = steps(w);
      if (s.decoder.hasOffset) {
        xSums = buffer({fewRows, inner / s.decoder.segmentValues}, 0);
        ifElse(isFew(rows), [&] { emitXSums(s, rowBlock, rows); }, [] {});
      }
    }
  }

  /// The sums over x of each segment, for the offsets: xSums[row][segment].
  void emitXSums(const WeightSteps &s, Value rowBlock, Value rows) {
    int64_t perSegment = s.decoder.segmentValues;
    forLoop(zero, rows, 1, [&](Value row) {
      forLoop(0, inner / perSegment, 1, [&](Value segment) {
        Value sum;
        for (int64_t i = 0; i < perSegment; i += lanes) {
          Value x = loadRow(b, op.getX(), {add(rowBlock, row), add(mul(segment, perSegment), index(i))}, lanes, lanes);
          sum = sum ? arith::AddFOp::create(b, sum, x).getResult() : x;
        }
        Value total = vector::ReductionOp::create(b, vector::CombiningKind::ADD, sum, arith::FastMathFlags::reassoc);
        memref::StoreOp::create(b, total, xSums, ValueRange{row, segment});
      });
    });
  }

  /// `rowsInBlock`: the rows of xSums that belong to xRows.
  Value emitDecodedSums(unsigned w, ArrayRef<Value> xRows, ArrayRef<Value> rowsInBlock, ArrayRef<Value> weightRows,
                        SmallVector<Value> init) {
    WeightSteps s = steps(w);
    size_t tile = init.size();
    if (s.decoder.hasOffset) {
      init.append(tile, arith::ConstantOp::create(b, b.getF32FloatAttr(0)));
    }
    SmallVector<Value> sums = forSteps(s, init, [&](Value step, int64_t count, ValueRange acc) {
      SmallVector<Value> out(acc);
      Value k = mul(step, s.values);
      emitPrefetch(w, s, weightRows[0], step);
      int64_t perSegment = s.values / s.segments;
      for (int64_t segment = 0; segment < s.segments; ++segment) {
        SmallVector<SmallVector<Value, 4>> xs(xRows.size());
        for (auto [r, xRow] : llvm::enumerate(xRows)) {
          for (int64_t i = 0; i < perSegment; i += lanes) {
            Value at = add(k, index(segment * perSegment + i));
            xs[r].push_back(loadRow(b, op.getX(), {xRow, at}, lanes, std::min(count, lanes)));
          }
        }
        for (auto [c, weightRow] : llvm::enumerate(weightRows)) {
          DecodedSegment decoded = s.decoder.emit(b, {op.getWeights()[w], weightRow, mul(step, s.units)}, segment,
                                                  lanes, std::min(count, lanes));
          Value scale = decoded.scale ? splat(decoded.scale) : Value();
          for (size_t r = 0; r < xRows.size(); ++r) {
            Value &sum = out[r * tileColumns + c];
            if (!scale) {
              sum = fma(decoded.codes[0], xs[r][0], sum);
              continue;
            }
            Value part = arith::MulFOp::create(b, decoded.codes[0], xs[r][0]);
            for (size_t i = 1; i < decoded.codes.size(); ++i) {
              part = fma(decoded.codes[i], xs[r][i], part);
            }
            sum = fma(part, scale, sum);
            if (decoded.offset) {
              Value at = add(mul(step, s.segments), index(segment));
              Value xSum = memref::LoadOp::create(b, xSums, ValueRange{rowsInBlock[r], at});
              Value &offsets = out[tile + r * tileColumns + c];
              offsets = math::FmaOp::create(b, decoded.offset, xSum, offsets);
            }
          }
        }
      }
      return out;
    });
    Value added = addLanes(SmallVector<Value>(ArrayRef<Value>(sums).take_front(tile)));
    if (s.decoder.hasOffset) {
      Value offsets =
          vector::FromElementsOp::create(b, cast<VectorType>(added.getType()), ValueRange(sums).drop_front(tile));
      added = arith::AddFOp::create(b, added, offsets);
    }
    return added;
  }

  /// One vector with the sum over lanes of each of n vectors; n is a power of two.
  Value addLanes(SmallVector<Value> parts) {
    // Vectors hold `held` sums each, `width` lanes apart; joining two halves the width.
    int64_t held = 1, width = lanes;
    auto fold = [&](Value x, Value y, int64_t inputs) {
      SmallVector<int64_t> low, high;
      int64_t size = cast<VectorType>(x.getType()).getDimSize(0);
      for (int64_t part = 0, parts = inputs * held; part < parts; ++part) {
        int64_t base = (part / held) * size + part % held * width;
        for (int64_t i = 0; i < width / 2; ++i) {
          low.push_back(base + i);
          high.push_back(base + width / 2 + i);
        }
      }
      return arith::AddFOp::create(b, vector::ShuffleOp::create(b, x, y, low), vector::ShuffleOp::create(b, x, y, high))
          .getResult();
    };
    while (parts.size() > 1 && width > 1) {
      SmallVector<Value> next;
      for (size_t i = 0; i < parts.size(); i += 2) {
        next.push_back(fold(parts[i], parts[i + 1], 2));
      }
      parts = next;
      held *= 2;
      width /= 2;
    }
    while (width > 1) {
      parts[0] = fold(parts[0], parts[0], 1);
      width /= 2;
    }
    // More sums than lanes: whole vectors follow each other.
    while (parts.size() > 1) {
      SmallVector<Value> next;
      for (size_t i = 0; i < parts.size(); i += 2) {
        int64_t size = cast<VectorType>(parts[i].getType()).getDimSize(0);
        next.push_back(
            vector::ShuffleOp::create(b, parts[i], parts[i + 1], llvm::to_vector(llvm::seq<int64_t>(0, 2 * size))));
      }
      parts = next;
    }
    return parts[0];
  }

  //===--------------------------------------------------------------------===//
  // The element-wise part
  //===--------------------------------------------------------------------===//

  void emitEpilogue(Value rowBlock, Value rows, Value column) {
    Value mask;
    if (op.getColumns() % lanes) {
      mask = firstLanes(b, lanes, arith::SubIOp::create(b, op.getColumnEnd(), column));
    }
    forLoop(zero, rows, 1, [&](Value row) {
      Block &body = op.getBody().front();
      IRMapping uniform, vectorized;
      uniform.map(body.getArgument(0), add(rowBlock, row));
      for (auto [argument, result] : llvm::zip_equal(body.getArguments().drop_front(2), results)) {
        vectorized.map(argument, vector::LoadOp::create(b, f32Vector(), result, ValueRange{row, zero}));
      }
      epilogue.emitUniform(b, uniform);
      epilogue.emitVarying(b, uniform, vectorized, column, mask);
    });
  }

  static constexpr StringLiteral bufferAttr = "tile.linear_buffer";

  tile::LinearOp op;
  ImplicitLocOpBuilder b;
  int64_t lanes, inner;
  int64_t vectors; ///< of a row of x
  int64_t rowTile;
  int64_t panelColumns;
  BodyVectorizer epilogue;
  Value zero, one, rowBound, panel, xSums;
  SmallVector<Value> results; ///< for each weight blockRows x lanes
};

} // namespace

LogicalResult kvc::lowerLinear(tile::LinearOp op, const Target &target) { return LinearLowering(op, target).run(); }

LogicalResult kvc::lowerDecodeRow(tile::DecodeRowOp op, const Target &target) {
  ImplicitLocOpBuilder b(op.getLoc(), op);
  int64_t lanes = target.lanes, inner = op.getTarget().getType().getDimSize(0);
  WeightSteps s(op.getEncoding(), inner, lanes);
  auto f32Vector = VectorType::get({lanes}, b.getF32Type());
  auto emit = [&](Value step, int64_t count) {
    auto times = [&](int64_t by) { return b.createOrFold<arith::MulIOp>(step, arith::ConstantIndexOp::create(b, by)); };
    Value k = times(s.values);
    Value mask;
    if (count < lanes) {
      mask = firstLanes(b, lanes, arith::ConstantIndexOp::create(b, count));
    }
    for (int64_t segment = 0; segment < s.segments; ++segment) {
      DecodedSegment decoded =
          s.decoder.emit(b, {op.getWeight(), op.getRow(), times(s.units)}, segment, lanes, std::min(count, lanes));
      for (Value value : decoded.codes) {
        if (decoded.scale) {
          value = arith::MulFOp::create(b, value, vector::BroadcastOp::create(b, f32Vector, decoded.scale));
        }
        if (decoded.offset) {
          value = arith::AddFOp::create(b, value, vector::BroadcastOp::create(b, f32Vector, decoded.offset));
        }
        storeLanes(b, value, op.getTarget(), k, mask);
        k = arith::AddIOp::create(b, k, arith::ConstantIndexOp::create(b, lanes));
      }
    }
  };
  Value zero = arith::ConstantIndexOp::create(b, 0), one = arith::ConstantIndexOp::create(b, 1);
  Value whole = arith::ConstantIndexOp::create(b, s.count);
  auto loop = scf::ForOp::create(b, zero, whole, one);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(loop.getBody()->getTerminator());
    emit(loop.getInductionVar(), s.values);
  }
  if (s.tail) {
    emit(whole, s.tail);
  }
  op.erase();
  return success();
}
