//===- LaneValues.cpp - What a lane of a warp knows of itself and others --===//
#include "LaneValues.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

using namespace mlir;
using namespace kvc;

LaneValues::LaneValues(ImplicitLocOpBuilder &b, int64_t lanes)
    : lane(arith::IndexCastOp::create(b, b.getI32Type(), gpu::ThreadIdOp::create(b, gpu::Dimension::x))), b(b),
      lanes(lanes) {}

Value LaneValues::word(int64_t value) { return arith::ConstantIntOp::create(b, value, 32); }

Value LaneValues::shuffleWord(Value value, Value source) {
  return gpu::ShuffleOp::create(b, value, source, word(lanes), gpu::ShuffleMode::IDX).getShuffleResult();
}

Value LaneValues::bit(uint64_t plane) {
  auto half = [&](uint64_t bits) {
    return arith::ShRUIOp::create(b, word(static_cast<int64_t>(bits & 0xffffffff)),
                                  lanes > 32 ? arith::AndIOp::create(b, lane, word(31)).getResult() : lane)
        .getResult();
  };
  Value bits = half(plane);
  if (lanes > 32) {
    Value isLow = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, lane, word(32));
    bits = arith::SelectOp::create(b, isLow, bits, half(plane >> 32));
  }
  return arith::AndIOp::create(b, bits, word(1));
}

Value LaneValues::table(ArrayRef<uint64_t> values, Type type) {
  const unsigned bits = type.getIntOrFloatBitWidth();
  Type integer = b.getIntegerType(bits);
  auto constant = [&](uint64_t value) {
    return arith::ConstantOp::create(b, b.getIntegerAttr(integer, APInt(bits, value, false, /*implicitTrunc=*/true)))
        .getResult();
  };
  uint64_t same = values[0];
  Value result = constant(same);
  for (unsigned place = 0; place < bits; ++place) {
    uint64_t plane = 0;
    for (auto [i, value] : llvm::enumerate(values)) {
      plane |= ((value ^ same) >> place & 1) << i;
    }
    if (!plane) {
      continue;
    }
    Value flips = bit(plane);
    if (bits > 32) {
      flips = arith::ExtUIOp::create(b, integer, flips);
    } else if (bits < 32) {
      flips = arith::TruncIOp::create(b, integer, flips);
    }
    flips = place ? arith::ShLIOp::create(b, flips, constant(place)).getResult() : flips;
    result = arith::XOrIOp::create(b, result, flips);
  }
  return integer == type ? result : arith::BitcastOp::create(b, type, result).getResult();
}

Value LaneValues::condition(ArrayRef<bool> values) {
  if (llvm::all_equal(values)) {
    return arith::ConstantOp::create(b, b.getBoolAttr(values[0]));
  }
  uint64_t plane = 0;
  for (auto [i, value] : llvm::enumerate(values)) {
    plane |= static_cast<uint64_t>(value) << i;
  }
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, bit(plane), word(0));
}

Value LaneValues::shuffle(Value value, Value source) {
  Type type = value.getType();
  if (type.isIndex()) {
    Value moved = shuffle(arith::IndexCastOp::create(b, b.getI64Type(), value), source);
    return arith::IndexCastOp::create(b, type, moved);
  }
  const unsigned bits = type.getIntOrFloatBitWidth();
  if (bits == 32) {
    return shuffleWord(value, source);
  }
  Type integer = b.getIntegerType(bits);
  Value raw = integer == type ? value : arith::BitcastOp::create(b, integer, value).getResult();
  if (bits < 32) {
    raw = shuffleWord(arith::ExtUIOp::create(b, b.getI32Type(), raw), source);
    raw = arith::TruncIOp::create(b, integer, raw);
  } else {
    Value half = arith::ConstantOp::create(b, b.getIntegerAttr(integer, 32));
    Value low = shuffleWord(arith::TruncIOp::create(b, b.getI32Type(), raw), source);
    Value high = shuffleWord(arith::TruncIOp::create(b, b.getI32Type(), arith::ShRUIOp::create(b, raw, half)), source);
    raw = arith::OrIOp::create(b, arith::ExtUIOp::create(b, integer, low),
                               arith::ShLIOp::create(b, arith::ExtUIOp::create(b, integer, high), half));
  }
  return integer == type ? raw : arith::BitcastOp::create(b, type, raw).getResult();
}
