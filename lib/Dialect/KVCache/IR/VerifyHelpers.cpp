//===- VerifyHelpers.cpp - What the verifiers of the dialect share -------===//
//
// The labels (op_c1, ...) are those of docs/spec.
//
//===----------------------------------------------------------------------===//
#include "VerifyHelpers.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace kvc::kvcache;
using namespace kvc::kvcache::op_detail;

int64_t kvc::kvcache::getInt(Attribute attr) { return cast<IntegerAttr>(attr).getInt(); }

int64_t kvc::kvcache::getIntOr(Attribute attr, int64_t fallback) { return attr ? getInt(attr) : fallback; }

double kvc::kvcache::getFloatOr(Attribute attr, double fallback) {
  return attr ? cast<FloatAttr>(attr).getValueAsDouble() : fallback;
}

CacheType kvc::kvcache::getCacheType(Type type) {
  if (auto memory = dyn_cast<MemoryType>(type)) {
    return memory.getCache();
  }
  return dyn_cast<CacheType>(type);
}

/// A dimension as a diagnostic shows it.
static std::string dimText(int64_t dim) { return ShapedType::isDynamic(dim) ? "?" : std::to_string(dim); }

LogicalResult op_detail::verifyRows(Operation *op, StringRef name, Type type, int64_t heads, int64_t channels) {
  ShapedType rows = shapeOf(type);
  if (!rows) {
    return success();
  }
  if (rows.getDimSize(1) != heads) {
    return emitExpected(op, Twine("heads of ") + name, heads, dimText(rows.getDimSize(1)));
  }
  if (rows.getDimSize(2) != channels) {
    return emitExpected(op, Twine("channels of ") + name, channels, dimText(rows.getDimSize(2)));
  }
  return success();
}

LogicalResult op_detail::verifyQueryHeads(Operation *op, Type query, CacheType cache) {
  ShapedType rows = shapeOf(query);
  if (!rows || !cache) {
    return success();
  }
  int64_t heads = rows.getDimSize(1);
  if (ShapedType::isDynamic(heads) || heads == 0 || heads % cache.getHeads() || heads / cache.getHeads() > 128) {
    return emitExpected(op, "query heads", Twine("1 to 128 times the ") + Twine(cache.getHeads()) + " KV heads",
                        dimText(heads));
  }
  return success();
}

LogicalResult op_detail::verifyQueryChannels(Operation *op, Type query, CacheType cache) {
  ShapedType rows = shapeOf(query);
  if (rows && cache && rows.getDimSize(2) != cache.getKDim()) {
    return emitExpected(op, "channels of query", cache.getKDim(), dimText(rows.getDimSize(2)));
  }
  return success();
}

LogicalResult op_detail::verifyScores(Operation *op, StringRef name, Type type, CacheType cache) {
  ShapedType scores = shapeOf(type);
  if (scores && cache && scores.getDimSize(1) != cache.getHeads()) {
    return emitExpected(op, Twine("KV heads of ") + name, cache.getHeads(), dimText(scores.getDimSize(1)));
  }
  return success();
}

LogicalResult op_detail::verifyAtLeast(Operation *op, StringRef name, Attribute attr, int64_t low) {
  if (auto integer = dyn_cast_or_null<IntegerAttr>(attr); integer && integer.getInt() < low) {
    return emitExpected(op, name, Twine("of at least ") + Twine(low), integer.getInt());
  }
  return success();
}

LogicalResult op_detail::verifyBetween(Operation *op, StringRef name, Attribute attr, int64_t low, int64_t high) {
  auto number = dyn_cast_or_null<FloatAttr>(attr);
  if (!number) {
    return success();
  }
  double x = number.getValueAsDouble();
  if (!(x >= static_cast<double>(low) && x <= static_cast<double>(high))) {
    return op->emitOpError() << "expects " << name << " between " << low << " and " << high << ", but got " << attr;
  }
  return success();
}

LogicalResult op_detail::verifySameDim(Operation *op, const Twine &what, int64_t want, int64_t got) {
  if (!ShapedType::isDynamic(want) && !ShapedType::isDynamic(got) && want != got) {
    return emitExpected(op, what, want, got);
  }
  return success();
}

LogicalResult op_detail::verifyRopeDims(Operation *op, RopeAttr rope, int64_t channels) {
  if (rope && rope.isSite()) {
    return op->emitOpError() << "expects a rope with base and dims outside a method, but got " << rope;
  }
  if (rope && !ShapedType::isDynamic(channels) && rope.getDims() > channels) {
    return emitExpected(op, "rope dims", Twine("of at most ") + Twine(channels), rope.getDims());
  }
  return success();
}

LogicalResult op_detail::verifyMovable(Operation *op, CacheType cache) {
  if (cache && cache.getSealGroup() != 1) {
    return op->emitOpError() << "expects a cache whose slots can move one by one, but got groups of "
                             << cache.getSealGroup() << " tokens that share scales; requantize the cache first";
  }
  return verifyNoRing(op, cache);
}

LogicalResult op_detail::verifyNoRing(Operation *op, CacheType cache) {
  if (cache && cache.isRing()) {
    return op->emitOpError() << "expects a cache without a ring, but got window " << cache.getWindow();
  }
  return success();
}

LogicalResult op_detail::verifyScale(Operation *op, APFloat scale) {
  if (!scale.isFiniteNonZero()) {
    SmallString<16> text;
    scale.toString(text);
    return emitExpected(op, "a scale", "that is finite and not zero", text);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Score regions
//===----------------------------------------------------------------------===//

bool kvc::kvcache::isAllowedInScoreRegion(Operation *op) {
  if (isa<SoftCapOp, AlibiOp, YieldOp, ParameterOp, arith::ConstantOp>(op)) {
    return true;
  }
  if (!isa<arith::ArithDialect, math::MathDialect>(op->getDialect())) {
    return false;
  }
  auto isScalar = [](Type type) { return type.isIntOrIndexOrFloat(); };
  return isPure(op) && op->hasTrait<OpTrait::Elementwise>() && llvm::all_of(op->getOperandTypes(), isScalar) &&
         llvm::all_of(op->getResultTypes(), isScalar);
}

LogicalResult op_detail::verifyScoreRegion(Operation *op, Region &region, OperandRange captures) {
  // score_region_c1
  if (region.empty()) {
    if (!captures.empty()) {
      return op->emitOpError() << "expects no captures without a score region, but got " << captures.size();
    }
    return success();
  }
  // score_region_c2
  for (Value capture : captures) {
    if (!capture.getType().isIntOrIndexOrFloat()) {
      return op->emitOpError() << "expects captures of scalar type, but got " << capture.getType();
    }
  }
  // score_region_c3
  Block &block = region.front();
  Builder b(op->getContext());
  SmallVector<Type> want{b.getF32Type(), b.getIndexType(), b.getIndexType(), b.getIndexType(), b.getIndexType()};
  llvm::append_range(want, captures.getTypes());
  if (block.getArgumentTypes() != TypeRange(want)) {
    return op->emitOpError() << "expects score region arguments (" << want << "), but got (" << block.getArgumentTypes()
                             << ")";
  }
  // score_region_c4
  if (!block.mightHaveTerminator() || !isa<YieldOp>(block.back())) {
    return op->emitOpError() << "expects a score region that ends in kvcache.yield, but got "
                             << (block.empty() ? StringRef("no op") : block.back().getName().getStringRef());
  }
  for (Operation &inner : block) {
    // score_region_c5
    if (!isAllowedInScoreRegion(&inner)) {
      return inner.emitOpError()
             << "expects element-wise scalar arith and math or kvcache helpers in a score region, but got '"
             << inner.getName() << "'";
    }
  }
  return success();
}
