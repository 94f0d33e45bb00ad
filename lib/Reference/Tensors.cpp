//===- Tensors.cpp - tensor and linalg in the oracle ----------------------===//
//
// A linalg operation of any name is its indexing maps and its body, run for every point of the iteration space.
//
//===----------------------------------------------------------------------===//
#include "Internal.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"
#include <limits>

using namespace mlir;
using namespace kvc;
using namespace kvc::reference;

//===----------------------------------------------------------------------===//
// Elements and indices
//===----------------------------------------------------------------------===//

Datum reference::elementOf(const Tensor &tensor, int64_t offset) {
  return tensor.isFloat ? Datum(tensor.floats[offset]) : Datum(tensor.ints[offset]);
}

void reference::setElement(Tensor &tensor, int64_t offset, const Datum &value) {
  if (tensor.isFloat) {
    tensor.floats[offset] = value.asFloat();
  } else {
    tensor.ints[offset] = value.asInt();
  }
}

Tensor reference::uninitialised(ArrayRef<int64_t> shape, Type elementType) {
  int64_t size = 1;
  for (int64_t extent : shape) {
    size *= extent;
  }
  if (isa<FloatType>(elementType)) {
    return Tensor::ofFloats(shape, std::vector<double>(size, std::numeric_limits<double>::quiet_NaN()));
  }
  return Tensor::ofInts(shape, std::vector<int64_t>(size, narrowInt(elementType, 0x5a5a5a5a5a5a5a5a)));
}

bool reference::nextIndex(MutableArrayRef<int64_t> index, ArrayRef<int64_t> shape) {
  for (int64_t d = static_cast<int64_t>(shape.size()) - 1; d >= 0; --d) {
    if (++index[d] < shape[d]) {
      return true;
    }
    index[d] = 0;
  }
  return false;
}

static bool isEmpty(ArrayRef<int64_t> shape) { return llvm::is_contained(shape, 0); }

/// Calls `body` with every index of the shape.
template <typename Body> static void forEachIndex(ArrayRef<int64_t> shape, Body &&body) {
  if (isEmpty(shape)) {
    return;
  }
  SmallVector<int64_t> index(shape.size(), 0);
  do {
    body(ArrayRef<int64_t>(index));
  } while (nextIndex(index, shape));
}

static bool isInside(ArrayRef<int64_t> index, ArrayRef<int64_t> shape) {
  return llvm::all_of(llvm::zip_equal(index, shape),
                      [](auto pair) { return std::get<0>(pair) >= 0 && std::get<0>(pair) < std::get<1>(pair); });
}

/// Offsets, sizes or strides: static ones from the attribute, dynamic ones from operands in order.
static SmallVector<int64_t> mixed(ArrayRef<int64_t> fixed, Operands &dynamic) {
  SmallVector<int64_t> values(fixed);
  for (int64_t &value : values) {
    if (ShapedType::isDynamic(value)) {
      value = dynamic.front().asInt();
      dynamic = dynamic.drop_front();
    }
  }
  return values;
}

//===----------------------------------------------------------------------===//
// tensor
//===----------------------------------------------------------------------===//

namespace {
/// The elements of a tensor that a slice names.
struct Slice {
  SmallVector<int64_t> offsets, sizes, strides;

  template <typename Op> static Slice of(Op op, Operands operands) {
    Slice slice;
    slice.offsets = mixed(op.getStaticOffsets(), operands);
    slice.sizes = mixed(op.getStaticSizes(), operands);
    slice.strides = mixed(op.getStaticStrides(), operands);
    return slice;
  }

  LogicalResult check(Operation *op, ArrayRef<int64_t> shape) const {
    for (auto [d, extent] : llvm::enumerate(shape)) {
      int64_t last = offsets[d] + (sizes[d] - 1) * strides[d];
      if (sizes[d] < 0 || (sizes[d] > 0 && (offsets[d] < 0 || offsets[d] >= extent || last < 0 || last >= extent))) {
        return op->emitOpError() << "expects a slice inside [" << shape << "], but got offset " << offsets[d]
                                 << ", size " << sizes[d] << ", stride " << strides[d] << " in dimension " << d;
      }
    }
    return success();
  }

  SmallVector<int64_t> sourceIndex(ArrayRef<int64_t> index) const {
    SmallVector<int64_t> source;
    for (auto [d, i] : llvm::enumerate(index)) {
      source.push_back(offsets[d] + i * strides[d]);
    }
    return source;
  }
};
} // namespace

static void copyElement(Tensor &to, int64_t toOffset, const Tensor &from, int64_t fromOffset) {
  if (to.isFloat) {
    to.floats[toOffset] = from.floats[fromOffset];
  } else {
    to.ints[toOffset] = from.ints[fromOffset];
  }
}

/// The tensor in another shape of as many elements.
static LogicalResult reshape(Operation *op, const Tensor &source, ArrayRef<int64_t> shape, Results &results) {
  int64_t size = 1;
  for (int64_t extent : shape) {
    size *= extent;
  }
  if (size != source.size()) {
    return op->emitOpError() << "expects a shape of " << source.size() << " elements, but got [" << shape << "]";
  }
  Tensor out = source;
  out.shape.assign(shape.begin(), shape.end());
  results.push_back(std::move(out));
  return success();
}

static SmallVector<int64_t> indicesOf(Operands operands) {
  return llvm::map_to_vector(operands, [](const Datum &datum) { return datum.asInt(); });
}

static LogicalResult checkInside(Operation *op, ArrayRef<int64_t> index, ArrayRef<int64_t> shape) {
  if (!isInside(index, shape)) {
    return op->emitOpError() << "expects an index inside [" << shape << "], but got [" << index << "]";
  }
  return success();
}

static Type elementTypeOf(Operation *op) { return cast<RankedTensorType>(op->getResult(0).getType()).getElementType(); }

LogicalResult reference::evalTensor(Evaluator &evaluator, Operation *op, Operands operands, Results &results) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](tensor::EmptyOp emptyOp) -> LogicalResult {
        SmallVector<int64_t> shape = mixed(emptyOp.getType().getShape(), operands);
        if (failed(checkSize(evaluator, op, shape))) {
          return failure();
        }
        results.push_back(uninitialised(shape, elementTypeOf(op)));
        return success();
      })
      .Case([&](tensor::DimOp) -> LogicalResult {
        ArrayRef<int64_t> shape = operands[0].asTensor().shape;
        int64_t d = operands[1].asInt();
        if (d < 0 || d >= static_cast<int64_t>(shape.size())) {
          return op->emitOpError() << "expects a dimension below " << shape.size() << ", but got " << d;
        }
        results.push_back(shape[d]);
        return success();
      })
      .Case([&](tensor::RankOp) -> LogicalResult {
        results.push_back(operands[0].asTensor().rank());
        return success();
      })
      .Case([&](tensor::CastOp) -> LogicalResult {
        results.push_back(operands[0]);
        return success();
      })
      .Case([&](tensor::ExpandShapeOp expandOp) -> LogicalResult {
        Operands sizes = operands.drop_front();
        return reshape(op, operands[0].asTensor(), mixed(expandOp.getStaticOutputShape(), sizes), results);
      })
      .Case([&](tensor::CollapseShapeOp collapseOp) -> LogicalResult {
        SmallVector<int64_t> shape;
        for (const ReassociationIndices &group : collapseOp.getReassociationIndices()) {
          int64_t extent = 1;
          for (int64_t d : group) {
            extent *= operands[0].asTensor().shape[d];
          }
          shape.push_back(extent);
        }
        return reshape(op, operands[0].asTensor(), shape, results);
      })
      .Case([&](tensor::ExtractOp) -> LogicalResult {
        const Tensor &source = operands[0].asTensor();
        SmallVector<int64_t> index = indicesOf(operands.drop_front());
        if (failed(checkInside(op, index, source.shape))) {
          return failure();
        }
        results.push_back(elementOf(source, source.offset(index)));
        return success();
      })
      .Case([&](tensor::InsertOp) -> LogicalResult {
        Tensor out = operands[1].asTensor();
        SmallVector<int64_t> index = indicesOf(operands.drop_front(2));
        if (failed(checkInside(op, index, out.shape))) {
          return failure();
        }
        setElement(out, out.offset(index), operands[0]);
        results.push_back(std::move(out));
        return success();
      })
      .Case([&](tensor::FromElementsOp fromOp) -> LogicalResult {
        Tensor out = uninitialised(fromOp.getType().getShape(), elementTypeOf(op));
        for (auto [i, element] : llvm::enumerate(operands)) {
          setElement(out, i, element);
        }
        results.push_back(std::move(out));
        return success();
      })
      .Case([&](tensor::SplatOp splatOp) -> LogicalResult {
        Operands sizes = operands.drop_front();
        SmallVector<int64_t> shape = mixed(splatOp.getType().getShape(), sizes);
        if (failed(checkSize(evaluator, op, shape))) {
          return failure();
        }
        Tensor out = uninitialised(shape, elementTypeOf(op));
        for (int64_t i = 0; i < out.size(); ++i) {
          setElement(out, i, operands[0]);
        }
        results.push_back(std::move(out));
        return success();
      })
      .Case([&](tensor::ExtractSliceOp sliceOp) -> LogicalResult {
        const Tensor &source = operands[0].asTensor();
        Slice slice = Slice::of(sliceOp, operands.drop_front());
        if (failed(slice.check(op, source.shape))) {
          return failure();
        }
        Tensor out = uninitialised(slice.sizes, elementTypeOf(op));
        int64_t next = 0;
        forEachIndex(slice.sizes, [&](ArrayRef<int64_t> index) {
          copyElement(out, next++, source, source.offset(slice.sourceIndex(index)));
        });
        llvm::SmallBitVector dropped = sliceOp.getDroppedDims();
        out.shape.clear();
        for (auto [d, extent] : llvm::enumerate(slice.sizes)) {
          if (!dropped.test(d)) {
            out.shape.push_back(extent);
          }
        }
        results.push_back(std::move(out));
        return success();
      })
      .Case([&](tensor::InsertSliceOp sliceOp) -> LogicalResult {
        const Tensor &source = operands[0].asTensor();
        Tensor out = operands[1].asTensor();
        Slice slice = Slice::of(sliceOp, operands.drop_front(2));
        if (failed(slice.check(op, out.shape))) {
          return failure();
        }
        int64_t size = 1;
        for (int64_t extent : slice.sizes) {
          size *= extent;
        }
        if (size != source.size()) {
          return op->emitOpError() << "expects a source of " << size << " elements, but got " << source.size();
        }
        int64_t next = 0;
        forEachIndex(slice.sizes, [&](ArrayRef<int64_t> index) {
          copyElement(out, out.offset(slice.sourceIndex(index)), source, next++);
        });
        results.push_back(std::move(out));
        return success();
      })
      .Case([&](tensor::ConcatOp concatOp) -> LogicalResult {
        const int64_t dim = concatOp.getDim();
        SmallVector<int64_t> shape = operands[0].asTensor().shape;
        shape[dim] = 0;
        for (const Datum &operand : operands) {
          shape[dim] += operand.asTensor().shape[dim];
        }
        if (failed(checkSize(evaluator, op, shape))) {
          return failure();
        }
        Tensor out = uninitialised(shape, elementTypeOf(op));
        int64_t base = 0;
        for (const Datum &operand : operands) {
          const Tensor &part = operand.asTensor();
          for (auto [d, extent] : llvm::enumerate(part.shape)) {
            if (static_cast<int64_t>(d) != dim && extent != shape[d]) {
              return op->emitOpError() << "expects operands of equal extents in dimension " << d << ", but got "
                                       << shape[d] << " and " << extent;
            }
          }
          int64_t next = 0;
          forEachIndex(part.shape, [&](ArrayRef<int64_t> index) {
            SmallVector<int64_t> target(index);
            target[dim] += base;
            copyElement(out, out.offset(target), part, next++);
          });
          base += part.shape[dim];
        }
        results.push_back(std::move(out));
        return success();
      })
      .Case([&](tensor::GenerateOp generateOp) -> LogicalResult {
        SmallVector<int64_t> shape = mixed(generateOp.getType().getShape(), operands);
        if (failed(checkSize(evaluator, op, shape))) {
          return failure();
        }
        Tensor out = uninitialised(shape, elementTypeOf(op));
        bool ok = true;
        int64_t next = 0;
        forEachIndex(shape, [&](ArrayRef<int64_t> index) {
          SmallVector<Datum> arguments(index.begin(), index.end());
          FailureOr<SmallVector<Datum>> element = evaluator.runBlock(generateOp.getBody().front(), arguments);
          ok = ok && succeeded(element);
          if (ok) {
            setElement(out, next++, element->front());
          }
        });
        results.push_back(std::move(out));
        return success(ok);
      })
      .Case([&](tensor::PadOp padOp) -> LogicalResult {
        const Tensor &source = operands[0].asTensor();
        Operands amounts = operands.drop_front();
        SmallVector<int64_t> low = mixed(padOp.getStaticLow(), amounts), high = mixed(padOp.getStaticHigh(), amounts);
        SmallVector<int64_t> shape;
        for (auto [extent, before, after] : llvm::zip_equal(source.shape, low, high)) {
          if (before < 0 || after < 0) {
            return op->emitOpError() << "expects padding of at least 0, but got " << std::min(before, after);
          }
          shape.push_back(extent + before + after);
        }
        if (failed(checkSize(evaluator, op, shape))) {
          return failure();
        }
        Tensor out = uninitialised(shape, elementTypeOf(op));
        bool ok = true;
        int64_t next = 0;
        forEachIndex(shape, [&](ArrayRef<int64_t> index) {
          SmallVector<int64_t> inner;
          for (auto [i, before] : llvm::zip_equal(index, low)) {
            inner.push_back(i - before);
          }
          if (isInside(inner, source.shape)) {
            copyElement(out, next++, source, source.offset(inner));
            return;
          }
          SmallVector<Datum> arguments(index.begin(), index.end());
          FailureOr<SmallVector<Datum>> element = evaluator.runBlock(padOp.getRegion().front(), arguments);
          ok = ok && succeeded(element);
          if (ok) {
            setElement(out, next++, element->front());
          }
        });
        results.push_back(std::move(out));
        return success(ok);
      })
      .Default([](Operation *other) { return unknownOperation(other); });
}

//===----------------------------------------------------------------------===//
// linalg
//===----------------------------------------------------------------------===//

/// The extents of the iteration space, from the operands whose maps name single dimensions.
static FailureOr<SmallVector<int64_t>> loopExtents(linalg::LinalgOp op, Operands operands) {
  SmallVector<int64_t> extents(op.getNumLoops(), -1);
  for (OpOperand &operand : op->getOpOperands()) {
    AffineMap map = op.getMatchingIndexingMap(&operand);
    for (auto [d, expr] : llvm::enumerate(map.getResults())) {
      auto dim = dyn_cast<AffineDimExpr>(expr);
      if (!dim) {
        continue;
      }
      int64_t extent = operands[operand.getOperandNumber()].asTensor().shape[d];
      int64_t &known = extents[dim.getPosition()];
      if (known >= 0 && known != extent) {
        return op.emitOpError() << "expects operands that agree on loop " << dim.getPosition() << ", but got extents "
                                << known << " and " << extent,
               failure();
      }
      known = extent;
    }
  }
  if (llvm::is_contained(extents, -1)) {
    return op.emitOpError() << "expects every loop to be a dimension of an operand, but got one that is not", failure();
  }
  return extents;
}

/// Whether a body is yield(c + a * b) of its three arguments, in f32.
static bool isProductSum(Block &body) {
  auto sum = body.getTerminator()->getNumOperands() == 1
                 ? body.getTerminator()->getOperand(0).getDefiningOp<arith::AddFOp>()
                 : arith::AddFOp();
  if (!sum || body.getNumArguments() != 3 || !sum.getType().isF32() || body.getOperations().size() != 3) {
    return false;
  }
  auto product = sum.getRhs().getDefiningOp<arith::MulFOp>();
  return product && sum.getLhs() == body.getArgument(2) && product.getLhs() == body.getArgument(0) &&
         product.getRhs() == body.getArgument(1);
}

/// How far the offset into a tensor moves with each loop.
static SmallVector<int64_t> loopStrides(AffineMap map, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(map.getNumDims(), 0);
  int64_t stride = 1;
  for (auto [expr, extent] : llvm::reverse(llvm::zip_equal(map.getResults(), shape))) {
    strides[cast<AffineDimExpr>(expr).getPosition()] += stride;
    stride *= extent;
  }
  return strides;
}

/// c += a * b over the iteration space: what the body of a matrix product says, without interpreting it. Models have
/// 10^8 of these for a token.
static void sumProducts(ArrayRef<int64_t> extents, ArrayRef<AffineMap> maps, const Tensor &a, const Tensor &b,
                        Tensor &c) {
  SmallVector<int64_t> strides[3] = {loopStrides(maps[0], a.shape), loopStrides(maps[1], b.shape),
                                     loopStrides(maps[2], c.shape)};
  forEachIndex(extents.drop_back(), [&](ArrayRef<int64_t> outer) {
    int64_t offsets[3] = {0, 0, 0};
    for (auto [loop, i] : llvm::enumerate(outer)) {
      for (int operand = 0; operand < 3; ++operand) {
        offsets[operand] += i * strides[operand][loop];
      }
    }
    for (int64_t i = 0; i < extents.back(); ++i) {
      c.floats[offsets[2] + i * strides[2].back()] +=
          a.floats[offsets[0] + i * strides[0].back()] * b.floats[offsets[1] + i * strides[1].back()];
    }
  });
}

LogicalResult reference::evalLinalg(Evaluator &evaluator, Operation *op, Operands operands, Results &results) {
  if (auto indexOp = dyn_cast<linalg::IndexOp>(op)) {
    results.push_back(evaluator.getLoopIndex()[indexOp.getDim()]);
    return success();
  }
  auto linalgOp = dyn_cast<linalg::LinalgOp>(op);
  if (!linalgOp || !linalgOp.hasPureTensorSemantics() || op->getNumRegions() != 1 || op->getRegion(0).empty()) {
    return unknownOperation(op);
  }
  FailureOr<SmallVector<int64_t>> extents = loopExtents(linalgOp, operands);
  if (failed(extents)) {
    return failure();
  }
  const int64_t inputs = linalgOp.getNumDpsInputs();
  SmallVector<AffineMap> maps = linalgOp.getIndexingMapsArray();
  // Results start as the destinations; the body sees what it wrote before.
  SmallVector<Tensor> outs;
  for (const Datum &init : operands.drop_front(inputs)) {
    outs.push_back(init.asTensor());
  }
  auto tensorOf = [&](int64_t i) -> const Tensor & { return i < inputs ? operands[i].asTensor() : outs[i - inputs]; };

  Block &body = op->getRegion(0).front();
  if (inputs == 2 && outs.size() == 1 && operands[0].isTensor() && operands[1].isTensor() && !extents->empty() &&
      isProductSum(body) && llvm::all_of(maps, [](AffineMap map) { return map.isProjectedPermutation(); })) {
    sumProducts(*extents, maps, tensorOf(0), tensorOf(1), outs[0]);
    results.push_back(std::move(outs[0]));
    return success();
  }
  // The body of some operations does not see the destinations.
  const int64_t seen = body.getNumArguments();
  LogicalResult outcome = success();
  forEachIndex(*extents, [&](ArrayRef<int64_t> index) {
    if (failed(outcome)) {
      return;
    }
    SmallVector<Datum> arguments;
    SmallVector<int64_t> offsets;
    for (auto [i, map] : llvm::enumerate(maps)) {
      if (!operands[i].isTensor()) {
        arguments.push_back(operands[i]);
        offsets.push_back(0);
        continue;
      }
      const Tensor &tensor = tensorOf(i);
      SmallVector<int64_t> place = map.compose(index);
      if (failed(checkInside(op, place, tensor.shape))) {
        outcome = failure();
        return;
      }
      offsets.push_back(tensor.offset(place));
      arguments.push_back(elementOf(tensor, offsets.back()));
    }
    FailureOr<SmallVector<Datum>> yielded = evaluator.runBlock(body, ArrayRef(arguments).take_front(seen), index);
    if (failed(yielded)) {
      outcome = failure();
      return;
    }
    for (auto [i, value] : llvm::enumerate(*yielded)) {
      setElement(outs[i], offsets[inputs + i], value);
    }
  });
  for (Tensor &out : outs) {
    results.push_back(std::move(out));
  }
  return outcome;
}
