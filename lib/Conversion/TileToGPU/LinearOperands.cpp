//===- LinearOperands.cpp - Activations and weights as words of bf16 ------===//
//
// Along K a lane holds four neighbours of each step of the instruction, not the pairs that the instruction's layout
// names: the order of a sum's terms is free as long as both operands have the same. So lanes read words of codes.
//
//===----------------------------------------------------------------------===//
#include "LinearTeam.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace kvc;

/// Of a step's limit what is left for part `number` of `size` values.
static int64_t leftOf(int64_t limit, int64_t number, int64_t size) {
  return limit - number * size >= size ? allValues : std::max<int64_t>(0, limit - number * size);
}

LaneValues LinearTeam::laneValues(Value quad, int64_t four, bool wholeSegment) {
  const int64_t stepRun = 4 * context.foursOfLane;
  if (!wholeSegment) {
    return {mul(quad, stepRun), 4 * four};
  }
  if (laneRun == 8) {
    return {mul(quad, 2 * stepRun), 4 * four};
  }
  return {mul(quad, stepRun), atom.k * (four / context.foursOfLane) + 4 * (four % context.foursOfLane)};
}

Value LinearTeam::loadFour(Value memory, Value row, Value base, const LaneValues &values, int64_t limit) {
  // Memory of f32, or of the bytes of 16-bit numbers.
  auto memref = cast<MemRefType>(memory.getType());
  const bool isF32 = memref.getElementType().isF32();
  const int64_t rowUnits = memref.getDimSize(1), elementBytes = isF32 ? 4 : 2, units = isF32 ? 1 : 2;
  auto load = [&](Value at, int64_t count) {
    auto type = VectorType::get({count * units}, memref.getElementType());
    int64_t alignment =
        count == 1 ? elementBytes : llvm::MinAlign(rowUnits / units * elementBytes, count * elementBytes);
    Value raw = vector::LoadOp::create(b, type, memory, ValueRange{row, mul(at, units)}, /*nontemporal=*/false,
                                       llvm::MaybeAlign(alignment));
    return raw;
  };
  Value at = add(add(base, values.first), values.further);
  if (limit == allValues) {
    return load(at, 4);
  }
  // K ends here: elements past the end are not read.
  Value end = index(rowUnits / units - 1);
  SmallVector<Value> pieces;
  auto one = VectorType::get({units}, memref.getElementType());
  Value none = arith::ConstantOp::create(b, b.getZeroAttr(one));
  for (int64_t i = 0; i < 4; ++i) {
    Value exists = isLess(add(values.first, values.further + i), index(limit));
    Value piece = load(min(add(at, i), end), 1);
    pieces.push_back(arith::SelectOp::create(b, exists, piece, none));
  }
  SmallVector<Value> elements;
  for (Value piece : pieces) {
    for (int64_t i = 0; i < units; ++i) {
      elements.push_back(vector::ExtractOp::create(b, piece, i));
    }
  }
  return vector::FromElementsOp::create(b, VectorType::get({4 * units}, memref.getElementType()), elements);
}

LinearTeam::SplitWords LinearTeam::split(ArrayRef<Value> fours, int64_t terms) {
  // Cut after eight bits of mantissa: what is left is exact, and the third part has no more than eight bits.
  auto pair = VectorType::get({2}, b.getBF16Type());
  auto toBytes = [&](Value x) {
    Value one = vector::FromElementsOp::create(b, VectorType::get({1}, b.getF32Type()), x);
    return vector::BitCastOp::create(b, VectorType::get({4}, b.getI8Type()), one).getResult();
  };
  Value mask = arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(-1U << 16)));
  SplitWords words(terms);
  for (Value four : fours) {
    for (int64_t i : {0, 2}) {
      if (terms == 1) {
        Value two = vector::ExtractStridedSliceOp::create(b, four, i, 2, 1);
        words[0].push_back(arith::TruncFOp::create(b, pair, two));
        continue;
      }
      Value left[2] = {vector::ExtractOp::create(b, four, i), vector::ExtractOp::create(b, four, i + 1)};
      for (int64_t term = 0; term < terms; ++term) {
        // The upper halves of both.
        Value upper = vector::ShuffleOp::create(b, toBytes(left[0]), toBytes(left[1]), ArrayRef<int64_t>{2, 3, 6, 7});
        words[term].push_back(vector::BitCastOp::create(b, pair, upper));
        for (Value &x : left) {
          if (term + 1 < terms) {
            Value head = arith::AndIOp::create(b, arith::BitcastOp::create(b, b.getI32Type(), x), mask);
            x = arith::SubFOp::create(b, x, arith::BitcastOp::create(b, b.getF32Type(), head));
          }
        }
      }
    }
  }
  return words;
}

LinearTeam::SplitWords LinearTeam::loadX(Value row, Value step, int64_t segment, int64_t limit) {
  Value base = add(mul(step, stepValues), segment * segmentValues);
  int64_t left = leftOf(limit, segment, segmentValues);
  SmallVector<Value> fours;
  for (int64_t four = 0; four < 2 * context.foursOfLane; ++four) {
    fours.push_back(loadFour(op.getX(), row, base, laneValues(context.quad, four), left));
  }
  return split(fours, terms);
}

//===----------------------------------------------------------------------===//
// Activations in staging memory
//===----------------------------------------------------------------------===//

// [term][row][segment][lane's place]: the words of a lane's values, four for each eight. Of two segments the first lies
// behind the second in odd rows, so that the words of two rows that are read together are in different banks.

void LinearTeam::stageX(Value rowBlock, Value step, int64_t chunk, int64_t limit) {
  const int64_t segments = chunkValues / segmentValues, rowWords = chunkValues / 2;
  const int64_t quads = context.quads, laneWords = segmentValues / 2 / quads;
  const int64_t pieces = passRows * segments * quads, threads = linearWarps * context.facts.lanes;
  Value lastRow = add(op.getRowEnd(), -1);
  Value quad = rem(context.thread, quads), segment = rem(div(context.thread, quads), segments);
  for (int64_t i = 0; i < pieces; i += threads) {
    // Fewer pieces than threads: whole warps have none.
    OpBuilder::InsertionGuard guard(b);
    if (i + threads > pieces) {
      auto branch = scf::IfOp::create(b, isLess(context.thread, index(pieces - i)), /*withElseRegion=*/false);
      b.setInsertionPoint(branch.thenYield());
    }
    Value inPass = add(div(context.thread, quads * segments), i / (quads * segments));
    Value row = min(add(rowBlock, inPass), lastRow);
    Value base = add(mul(step, stepValues), chunk * chunkValues);
    SmallVector<Value> fours;
    for (int64_t four = 0; four < 2 * context.foursOfLane; ++four) {
      LaneValues values = laneValues(quad, four);
      values.first = add(values.first, mul(segment, segmentValues));
      fours.push_back(loadFour(op.getX(), row, base, values, leftOf(limit, chunk, chunkValues)));
    }
    SplitWords words = split(fours, terms);
    Value place = segments == 2 ? arith::XOrIOp::create(b, segment, rem(inPass, 2)).getResult() : segment;
    Value at = add(add(mul(inPass, rowWords), mul(place, 16)), mul(quad, laneWords));
    for (int64_t term = 0; term < terms; ++term) {
      for (int64_t first = 0; first < laneWords; first += 4) {
        auto four = ArrayRef<Value>(words[term]).slice(first, 4);
        Value whole = vector::FromElementsOp::create(
            b, VectorType::get({4}, b.getI32Type()), llvm::map_to_vector(four, [&](Value word) -> Value {
              Value cast = vector::BitCastOp::create(b, VectorType::get({1}, b.getI32Type()), word);
              return vector::ExtractOp::create(b, cast, 0);
            }));
        vector::StoreOp::create(b, whole, xMemory, ValueRange{add(at, term * passRows * rowWords + first)},
                                /*nontemporal=*/false, llvm::MaybeAlign(16));
      }
    }
    if (hasOffset) {
      Value sum;
      for (Value four : fours) {
        for (int64_t k = 0; k < 4; ++k) {
          Value x = vector::ExtractOp::create(b, four, k);
          sum = sum ? arith::AddFOp::create(b, sum, x).getResult() : x;
        }
      }
      for (int32_t distance = 1; distance < quads; distance *= 2) {
        Value other =
            gpu::ShuffleOp::create(b, sum, distance, static_cast<int32_t>(context.facts.lanes), gpu::ShuffleMode::XOR)
                .getShuffleResult();
        sum = arith::AddFOp::create(b, sum, other);
      }
      Value first = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, quad, index(0));
      auto branch = scf::IfOp::create(b, first, /*withElseRegion=*/false);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPoint(branch.thenYield());
      memref::StoreOp::create(b, sum, xSumMemory, ValueRange{segment, inPass});
    }
  }
}

LinearTeam::SplitWords LinearTeam::loadStagedX(int64_t rowTile, int64_t segment) {
  const int64_t rowWords = chunkValues / 2, laneWords = segmentValues / 2 / context.quads;
  Value inPass = add(add(mul(rowWarp, shape.rowTiles * atom.n), context.bColumn), rowTile * atom.n);
  Value place = index(segment);
  if (chunkValues > segmentValues) {
    place = arith::XOrIOp::create(b, place, rem(context.bColumn, 2));
  }
  Value at = add(add(mul(inPass, rowWords), mul(place, 16)), mul(context.quad, laneWords));
  SplitWords words(terms);
  for (int64_t term = 0; term < terms; ++term) {
    for (int64_t first = 0; first < laneWords; first += 4) {
      Value whole = vector::LoadOp::create(b, VectorType::get({4}, b.getI32Type()), xMemory,
                                           ValueRange{add(at, term * passRows * rowWords + first)},
                                           /*nontemporal=*/false, llvm::MaybeAlign(16));
      whole = vector::BitCastOp::create(b, VectorType::get({8}, b.getBF16Type()), whole);
      for (int64_t i = 0; i < 8; i += 2) {
        words[term].push_back(vector::ExtractStridedSliceOp::create(b, whole, i, 2, 1));
      }
    }
  }
  return words;
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

LinearWeight::LinearWeight(tile::LinearOp op, unsigned number, int64_t maxTerms)
    : memory(op.getWeights()[number]), decoder(getBlockDecoder(cast<StringAttr>(op.getEncodings()[number]).getValue())),
      isPlain(decoder.segmentValues == 0) {
  auto type = cast<MemRefType>(memory.getType());
  const bool isF32 = type.getElementType().isF32();
  WeightSteps block(decoder.encoding, op.getInner(), segmentValues);
  blockValues = block.values;
  blockUnits = block.units;
  // Weights begin at multiples of 64 bytes on a device of teams.
  int64_t rowBytes = type.getDimSize(1) * (isF32 ? 4 : 1);
  alignment = static_cast<int64_t>(llvm::MinAlign(llvm::MinAlign(rowBytes, block.bytes), 64));
  // 8 bits of mantissa each: f16 has 11.
  terms = std::min<int64_t>(maxTerms, isF32 ? 3 : decoder.encoding == "f16" ? 2 : 1);
}

SmallVector<LinearTeam::SplitWords> LinearTeam::loadPlain(const LinearWeight &weight, ArrayRef<Value> rows, Value step,
                                                          int64_t segment, int64_t limit) {
  Value base = add(mul(step, stepValues), segment * segmentValues);
  int64_t left = leftOf(limit, segment, segmentValues);
  SmallVector<SplitWords, 2> columns;
  for (Value row : rows) {
    SmallVector<Value> fours;
    for (int64_t number = 0; number < 2 * context.foursOfLane; ++number) {
      Value four = loadFour(weight.memory, row, base, laneValues(context.quad, number), left);
      if (weight.decoder.encoding == "f16") {
        four = vector::BitCastOp::create(b, VectorType::get({4}, b.getF16Type()), four);
        four = arith::ExtFOp::create(b, VectorType::get({4}, b.getF32Type()), four);
      }
      fours.push_back(four);
    }
    if (weight.decoder.encoding != "bf16") {
      columns.push_back(split(fours, weight.terms));
      continue;
    }
    SplitWords words(1);
    for (Value four : fours) {
      four = vector::BitCastOp::create(b, VectorType::get({4}, b.getBF16Type()), four);
      for (int64_t i : {0, 2}) {
        words[0].push_back(vector::ExtractStridedSliceOp::create(b, four, i, 2, 1));
      }
    }
    columns.push_back(words);
  }
  SmallVector<SplitWords> halves(2, SplitWords(weight.terms));
  for (int64_t half : {0, 1}) {
    for (int64_t term = 0; term < weight.terms; ++term) {
      const int64_t stepWords = 2 * context.foursOfLane;
      for (int64_t pair = 0; pair < stepWords; ++pair) {
        for (const SplitWords &column : columns) {
          halves[half][term].push_back(column[term][stepWords * half + pair]);
        }
      }
    }
  }
  return halves;
}

LinearTeam::Words LinearTeam::loadCodes(const LinearWeight &weight, ArrayRef<BlockAddress> blocks, int64_t segment,
                                        int64_t half, bool wholeSegment) {
  // A byte below 128 behind the upper half of 128.0 is the number 128 + byte.
  constexpr int64_t base = 128, upper = 0x43;
  auto four = VectorType::get({4}, b.getI8Type());
  auto pair = VectorType::get({2}, b.getBF16Type());
  Value uppers = arith::ConstantOp::create(b, SplatElementsAttr::get(four, b.getI8IntegerAttr(upper)));
  auto numbers = [&](float value) -> Value {
    return arith::ConstantOp::create(b, SplatElementsAttr::get(pair, b.getFloatAttr(b.getBF16Type(), value)));
  };
  auto toBytes = [&](Value word) {
    Value single = vector::FromElementsOp::create(b, VectorType::get({1}, b.getI32Type()), word);
    return vector::BitCastOp::create(b, four, single).getResult();
  };
  auto toPair = [&](Value bytes, int64_t first) -> Value {
    Value spread = vector::ShuffleOp::create(b, bytes, uppers, ArrayRef<int64_t>{first, 4, first + 1, 4});
    return vector::BitCastOp::create(b, pair, spread);
  };
  auto mask = [&](Value word, uint32_t bits) {
    return toBytes(arith::AndIOp::create(b, word, arith::ConstantOp::create(b, b.getI32IntegerAttr(int32_t(bits)))));
  };
  SmallVector<Words, 2> columns;
  for (const BlockAddress &block : blocks) {
    Words words;
    for (int64_t four = 0; four < context.foursOfLane; ++four) {
      const LaneValues values = laneValues(context.quad, half * context.foursOfLane + four, wholeSegment);
      Value word = weight.decoder.emitBytes(b, block, segment, values);
      for (int64_t i : {0, 2}) {
        if (weight.decoder.bias) {
          words.push_back(math::FmaOp::create(b, toPair(toBytes(word), i), numbers(1),
                                              numbers(static_cast<float>(-base - *weight.decoder.bias))));
        } else {
          // The sign bit behind the same half is 128 or 256: 128 + low bits - that is the code.
          words.push_back(math::FmaOp::create(b, toPair(mask(word, 0x80808080), i), numbers(-1),
                                              toPair(mask(word, 0x7f7f7f7f), i)));
        }
      }
    }
    columns.push_back(words);
  }
  Words all;
  for (int64_t pair = 0; pair < 2 * context.foursOfLane; ++pair) {
    for (const Words &words : columns) {
      all.push_back(words[pair]);
    }
  }
  return all;
}
