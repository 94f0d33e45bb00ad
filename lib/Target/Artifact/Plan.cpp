//===- Plan.cpp - Host functions to plans ---------------------------------===//
#include "PlanValues.h"

#include "gguf/BlockFormats.h"
#include "kvc/Dialect/Tile/IR/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;

namespace {
using plan::Dim;
using plan::Step;

class FunctionBuilder : plan::Values {
public:
  FunctionBuilder(func::FuncOp function, const llvm::StringMap<uint32_t> &kernels, plan::Tables &tables)
      : Values(function, tables), kernels(kernels) {}

  FailureOr<plan::Function> build() {
    out.name = function.getSymName().str();
    if (!function.getBody().hasOneBlock()) {
      return function.emitOpError() << "expects a straight line of operations in a host function, but got branches";
    }
    for (BlockArgument argument : function.getArguments()) {
      if (failed(addArgument(argument))) {
        return failure();
      }
    }
    for (Operation &op : function.getBody().front()) {
      if (failed(visit(&op))) {
        return failure();
      }
    }
    addFrees();
    return std::move(out);
  }

private:
  LogicalResult binary(Operation *op, fb::ExprOp kind) {
    FailureOr<int32_t> a = exprOf(op, op->getOperand(0)), b = exprOf(op, op->getOperand(1));
    if (failed(a) || failed(b)) {
      return failure();
    }
    exprs[op->getResult(0)] = node(kind, *a, *b);
    return success();
  }

  /// x - floordiv(x, y) * y, for sizes.
  LogicalResult remainder(Operation *op) {
    FailureOr<int32_t> a = exprOf(op, op->getOperand(0)), b = exprOf(op, op->getOperand(1));
    if (failed(a) || failed(b)) {
      return failure();
    }
    int32_t whole = node(fb::ExprOp::mul, node(fb::ExprOp::floordiv, *a, *b), *b);
    exprs[op->getResult(0)] = node(fb::ExprOp::sub, *a, whole);
    return success();
  }

  //===--------------------------------------------------------------------===//
  // Operations
  //===--------------------------------------------------------------------===//

  LogicalResult visit(Operation *op) {
    using E = fb::ExprOp;
    return TypeSwitch<Operation *, LogicalResult>(op)
        .Case([&](arith::ConstantOp op) { return visitConstant(op); })
        .Case<arith::AddIOp>([&](Operation *op) { return binary(op, E::add); })
        .Case<arith::SubIOp>([&](Operation *op) { return binary(op, E::sub); })
        .Case<arith::MulIOp>([&](Operation *op) { return binary(op, E::mul); })
        .Case<arith::CeilDivSIOp, arith::CeilDivUIOp>([&](Operation *op) { return binary(op, E::ceildiv); })
        .Case<arith::FloorDivSIOp, arith::DivUIOp, arith::DivSIOp>(
            [&](Operation *op) { return binary(op, E::floordiv); })
        .Case<arith::RemUIOp, arith::RemSIOp>([&](Operation *op) { return remainder(op); })
        .Case<arith::MinSIOp, arith::MinUIOp>([&](Operation *op) { return binary(op, E::min); })
        .Case<arith::MaxSIOp, arith::MaxUIOp>([&](Operation *op) { return binary(op, E::max); })
        .Case<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtSIOp>([&](Operation *op) -> LogicalResult {
          FailureOr<int32_t> source = exprOf(op, op->getOperand(0));
          if (failed(source)) {
            return failure();
          }
          exprs[op->getResult(0)] = *source;
          return success();
        })
        .Case([&](tensor::DimOp op) -> LogicalResult {
          std::optional<int64_t> axis = op.getConstantIndex();
          if (!axis || !values.contains(op.getSource())) {
            return op.emitOpError() << "expects a constant axis of a tensor of the plan";
          }
          exprs[op.getResult()] = *dim(op.getSource(), *axis);
          return success();
        })
        .Case([&](tensor::ExtractOp op) { return visitElement(op); })
        .Case([&](tensor::EmptyOp op) { return visitEmpty(op); })
        .Case<tensor::CastOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp>(
            [&](Operation *op) -> LogicalResult { return addView(op, op->getOperand(0), -1); })
        .Case([&](tensor::ExtractSliceOp op) { return visitSlice(op); })
        .Case([&](tile::MakeSelectionOp op) -> LogicalResult {
          selections[op.getResult()] = {op.getCounts(), op.getEntries()};
          return success();
        })
        .Case([&](WeightOp op) { return visitWeight(op); })
        .Case([&](tile::RowsOp op) { return ofBatch(op, op.getBatch(), E::rows); })
        .Case([&](tile::EntriesOp op) { return ofBatch(op, op.getBatch(), E::entries); })
        .Case([&](tile::MaxRowsOp op) { return ofBatch(op, op.getBatch(), E::max_rows); })
        .Case([&](tile::SingleRowsOp op) { return ofBatch(op, op.getBatch(), E::single_rows); })
        .Case([&](tile::ProcessorsOp op) -> LogicalResult {
          exprs[op.getResult()] = node(E::processors, -1, -1);
          return success();
        })
        .Case([&](tile::MaxLengthOp op) -> LogicalResult {
          FailureOr<uint32_t> cache = valueOf(op, op.getCache()), batch = valueOf(op, op.getBatch());
          if (failed(cache) || failed(batch)) {
            return failure();
          }
          int32_t moment = node(E::max_length, *cache, *batch);
          momentOf[moment] = out.steps.size();
          exprs[op.getResult()] = moment;
          return success();
        })
        .Case([&](tile::DispatchOp op) { return visitDispatch(op); })
        .Case([&](tile::ReserveOp op) { return visitReserve(op); })
        .Case([&](tile::ReleaseOp op) { return visitRelease(op); })
        .Case([&](tile::ReserveLengthsOp op) { return visitReserveLengths(op); })
        .Case([&](tile::CreateOp op) { return visitCreate(op); })
        .Case([&](tile::CloneOp op) { return visitClone(op); })
        .Case([&](ForkOp op) { return visitFork(op); })
        .Case([&](func::ReturnOp op) { return visitReturn(op); })
        // Where it is asserted is what it means.
        .Case([&](arith::CmpIOp) { return success(); })
        .Case([&](cf::AssertOp op) { return visitAssert(op); })
        .Default([](Operation *op) { return op->emitOpError() << "cannot be held by a plan"; });
  }

  LogicalResult visitConstant(arith::ConstantOp op) {
    if (auto integer = dyn_cast<IntegerAttr>(op.getValue())) {
      exprs[op.getResult()] = constant(integer.getInt());
      return success();
    }
    auto elements = dyn_cast<DenseElementsAttr>(op.getValue());
    auto type = dyn_cast<RankedTensorType>(op.getType());
    if (!elements || !type) {
      return op.emitOpError() << "cannot be held by a plan: expects an integer or a dense tensor, but got "
                              << op.getType();
    }
    FailureOr<fb::DType> dtype = plan::dtypeOf(op, type.getElementType());
    if (failed(dtype)) {
      return failure();
    }
    plan::Value value;
    value.dtype = *dtype;
    value.dims = dimsOf(type, {});
    value.source = fb::TensorSource::constant;
    value.constant = tables.constantOf(plan::bytesOf(elements));
    values[op.getResult()] = add(value);
    return success();
  }

  LogicalResult visitElement(tensor::ExtractOp op) {
    auto type = op.getTensor().getType();
    auto found = values.find(op.getTensor());
    if (found == values.end() || !isVisible(found->second) ||
        !(type.getElementType().isInteger(32) || type.getElementType().isInteger(64))) {
      return op.emitOpError()
             << "expects an element of an i32 or i64 argument or constant, which the host can see, but "
                "got one of "
             << type;
    }
    int32_t flat = constant(0);
    for (auto [axis, index] : llvm::enumerate(op.getIndices())) {
      FailureOr<int32_t> at = exprOf(op, index);
      if (failed(at)) {
        return failure();
      }
      flat = node(fb::ExprOp::add, node(fb::ExprOp::mul, flat, *dim(op.getTensor(), axis)), *at);
    }
    exprs[op.getResult()] = node(fb::ExprOp::element, found->second, flat);
    return success();
  }

  LogicalResult visitEmpty(tensor::EmptyOp op) {
    SmallVector<int32_t> sizes;
    for (mlir::Value size : op.getDynamicSizes()) {
      FailureOr<int32_t> node = exprOf(op, size);
      if (failed(node)) {
        return failure();
      }
      sizes.push_back(*node);
    }
    FailureOr<fb::DType> dtype = plan::dtypeOf(op, op.getType().getElementType());
    if (failed(dtype)) {
      return failure();
    }
    plan::Value value;
    value.dtype = *dtype;
    value.dims = dimsOf(op.getType(), sizes);
    values[op.getResult()] = add(value);
    return success();
  }

  /// Only slices that are contiguous: parts of the first dimension.
  LogicalResult visitSlice(tensor::ExtractSliceOp op) {
    auto source = op.getSourceType();
    int64_t elementBytes = llvm::divideCeil(source.getElementTypeBitWidth(), 8);
    bool contiguous = op.hasUnitStride() && source.getRank() > 0;
    int32_t rowBytes = constant(elementBytes);
    for (int64_t axis = 1; contiguous && axis < source.getRank(); ++axis) {
      contiguous = isConstantIntValue(op.getMixedOffsets()[axis], 0) && !source.isDynamicDim(axis) &&
                   isConstantIntValue(op.getMixedSizes()[axis], source.getDimSize(axis));
      rowBytes = node(fb::ExprOp::mul, rowBytes, *dim(op.getSource(), axis));
    }
    if (!contiguous || op.getType().getRank() != source.getRank()) {
      return op.emitOpError() << "cannot be held by a plan: expects whole rows of the first dimension";
    }
    FailureOr<int32_t> offset = exprOf(op, op.getMixedOffsets()[0]);
    if (failed(offset)) {
      return failure();
    }
    return addView(op, op.getSource(), node(fb::ExprOp::mul, *offset, rowBytes));
  }

  LogicalResult visitWeight(WeightOp op) {
    auto type = cast<RankedTensorType>(op.getType());
    plan::Value value;
    value.source = fb::TensorSource::weight;
    value.weight = op.getName().str();
    auto encoding = dyn_cast_or_null<EncodedAttr>(type.getEncoding());
    StringRef name = encoding                         ? encoding.getName()
                     : type.getElementType().isF32()  ? "f32"
                     : type.getElementType().isF16()  ? "f16"
                     : type.getElementType().isBF16() ? "bf16"
                                                      : "";
    auto format =
        llvm::find_if(gguf::blockFormats(), [&](const auto &format) { return format.encoding == name.str(); });
    if (format == gguf::blockFormats().end() || type.getRank() == 0) {
      return op.emitOpError() << "expects a tensor of f32, f16, bf16 or a known encoding, but got " << type;
    }
    int64_t row = type.getShape().back(), rows = type.getNumElements() / std::max<int64_t>(row, 1);
    Result<uint64_t> rowBytes = gguf::rowBytes(*format, row);
    if (!rowBytes.ok()) {
      return op.emitOpError() << rowBytes.message();
    }
    value.weightType = format->id;
    value.weightBytes = *rowBytes * rows;
    if (encoding) {
      value.dtype = fb::DType::i8;
      for (int64_t size : type.getShape().drop_back()) {
        value.dims.push_back({size, -1});
      }
      value.dims.push_back({int64_t(*rowBytes), -1});
    } else {
      value.dtype = *plan::dtypeOf(op, type.getElementType());
      value.dims = dimsOf(type, {});
    }
    values[op.getResult()] = add(value);
    return success();
  }

  LogicalResult ofBatch(Operation *op, mlir::Value batch, fb::ExprOp kind) {
    FailureOr<uint32_t> value = valueOf(op, batch);
    if (failed(value)) {
      return failure();
    }
    exprs[op->getResult(0)] = node(kind, *value, -1);
    return success();
  }

  //===--------------------------------------------------------------------===//
  // Steps
  //===--------------------------------------------------------------------===//

  LogicalResult use(Operation *op, uint32_t value) {
    // Memory and sizes of a tensor are fixed at its first use, those of its base too.
    for (uint32_t v = value;; v = out.values[v].base) {
      if (bound.insert(v).second) {
        for (const Dim &dim : out.values[v].dims) {
          if (dim.expr >= 0 && failed(checkMoments(op, dim.expr, /*isUse=*/true))) {
            return failure();
          }
        }
        if (out.values[v].offset >= 0 && failed(checkMoments(op, out.values[v].offset, /*isUse=*/true))) {
          return failure();
        }
      }
      if (out.values[v].source != fb::TensorSource::view) {
        break;
      }
    }
    if (out.values[value].kind == fb::ValueType::Scalar && out.values[value].expr >= 0 &&
        failed(checkMoments(op, out.values[value].expr, /*isUse=*/true))) {
      return failure();
    }
    lastUse[rootOf(value)] = out.steps.size();
    return success();
  }

  /// A result that is an operand updated in place.
  void alias(mlir::Value result, mlir::Value operand) {
    values[result] = values.find(operand)->second;
    if (isa<CacheType>(result.getType())) {
      lastUpdate[values[result]] = out.steps.size() + 1;
    }
  }

  LogicalResult visitDispatch(tile::DispatchOp op) {
    auto kernel = kernels.find(op.getKernel());
    if (kernel == kernels.end()) {
      return op.emitOpError() << "expects a kernel with code, but got " << op.getKernelAttr();
    }
    Step step;
    step.kernel = kernel->second;
    SmallVector<mlir::Value> operands;
    for (mlir::Value operand : llvm::concat<mlir::Value>(op.getInputs(), op.getOutputs())) {
      if (auto pair = selections.find(operand); pair != selections.end()) {
        operands.append({pair->second.first, pair->second.second});
      } else {
        operands.push_back(operand);
      }
    }
    for (mlir::Value operand : operands) {
      FailureOr<uint32_t> value = valueOf(op, operand);
      if (failed(value) || failed(use(op, *value))) {
        return failure();
      }
      step.operands.push_back(*value);
    }
    FailureOr<int32_t> items = exprOf(op, op.getItems());
    if (failed(items) || failed(checkMoments(op, *items, /*isUse=*/true)) || failed(checkSignature(op, operands))) {
      return failure();
    }
    step.items = *items;
    for (auto [result, output] : llvm::zip_equal(op.getResults(), op.getOutputs())) {
      if (auto pair = selections.find(output); pair != selections.end()) {
        selections[result] = pair->second;
        continue;
      }
      uint32_t root = rootOf(values.find(output)->second);
      const plan::Value &value = out.values[root];
      if (value.kind == fb::ValueType::Tensor && value.source != fb::TensorSource::buffer) {
        return op.emitOpError() << "writes to memory that is not the function's: run kvc-insert-copies first";
      }
      alias(result, output);
    }
    out.steps.push_back(std::move(step));
    return success();
  }

  /// The words that the operands give must be those that the kernel reads.
  LogicalResult checkSignature(tile::DispatchOp op, ArrayRef<mlir::Value> operands) {
    auto kernel = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op, op.getKernelAttr());
    ArrayRef<Type> types = kernel.getArgumentTypes().drop_back();
    unsigned next = 0;
    auto fail = [&](mlir::Value operand, const Twine &want) {
      InFlightDiagnostic diagnostic = op.emitOpError()
                                      << "expects an operand of type " << want << ", but got " << operand.getType();
      diagnostic.attachNote(kernel.getLoc()) << "the kernel is " << kernel.getFunctionType();
      return diagnostic;
    };
    for (mlir::Value operand : operands) {
      unsigned arrays = isa<CacheType>(operand.getType()) ? 6 : isa<BatchType>(operand.getType()) ? 3 : 1;
      if (next + arrays > types.size()) {
        return fail(operand, "none");
      }
      auto tensor = dyn_cast<RankedTensorType>(operand.getType());
      auto memref = dyn_cast<MemRefType>(types[next]);
      if (tensor) {
        const plan::Value &value = out.values[values.find(operand)->second];
        bool same = memref && memref.getRank() == int64_t(value.dims.size());
        for (int64_t axis = 0; same && axis < memref.getRank(); ++axis) {
          int64_t size = value.dims[axis].size;
          same = memref.isDynamicDim(axis) ? size < 0 : size == memref.getDimSize(axis);
        }
        if (!same) {
          return fail(operand, text(types[next]));
        }
      } else if (arrays == 1 && operand.getType() != types[next]) {
        return fail(operand, text(types[next]));
      }
      next += arrays;
    }
    if (next != types.size()) {
      return op.emitOpError() << "expects operands for all arguments of the kernel " << kernel.getFunctionType();
    }
    return success();
  }

  FailureOr<Step> cacheStep(Operation *op, fb::Action action, mlir::Value cache, mlir::Value batch) {
    Step step;
    step.action = action;
    FailureOr<uint32_t> cacheValue = valueOf(op, cache);
    if (failed(cacheValue) || failed(use(op, *cacheValue))) {
      return failure();
    }
    step.cache = *cacheValue;
    if (batch) {
      FailureOr<uint32_t> batchValue = valueOf(op, batch);
      if (failed(batchValue)) {
        return failure();
      }
      step.batch = *batchValue;
    }
    return step;
  }

  LogicalResult visitReserve(tile::ReserveOp op) {
    FailureOr<Step> step = cacheStep(op, fb::Action::Reserve, op.getCache(), op.getBatch());
    if (failed(step)) {
      return failure();
    }
    step->mode = op.getMode() == tile::ReserveMode::Append ? fb::ReserveMode::append : fb::ReserveMode::rewrite;
    // Lengths stay: sizes that were asked for before are still right.
    values[op.getResult()] = step->cache;
    out.steps.push_back(std::move(*step));
    return success();
  }

  LogicalResult visitReserveLengths(tile::ReserveLengthsOp op) {
    FailureOr<Step> step = cacheStep(op, fb::Action::Reserve, op.getCache(), op.getBatch());
    FailureOr<uint32_t> lengths = valueOf(op, op.getLengths());
    FailureOr<int32_t> limit = exprOf(op, op.getLimit());
    if (failed(step) || failed(lengths) || failed(limit)) {
      return failure();
    }
    if (!isVisible(*lengths)) {
      return op.emitOpError()
             << "expects lengths that are an argument or a constant, which the host can see, but got a "
                "computed tensor";
    }
    step->mode = fb::ReserveMode::lengths;
    step->lengths = static_cast<int32_t>(*lengths);
    step->limit = *limit;
    values[op.getResult()] = step->cache;
    out.steps.push_back(std::move(*step));
    return success();
  }

  LogicalResult visitRelease(tile::ReleaseOp op) {
    FailureOr<Step> step = cacheStep(op, fb::Action::Release, op.getCache(), op.getBatch());
    if (failed(step)) {
      return failure();
    }
    values[op.getResult()] = step->cache;
    out.steps.push_back(std::move(*step));
    return success();
  }

  LogicalResult visitClone(tile::CloneOp op) {
    FailureOr<Step> step = cacheStep(op, fb::Action::Clone, op.getCache(), {});
    if (failed(step)) {
      return failure();
    }
    return addNewCache(std::move(*step), op.getResult());
  }

  LogicalResult visitCreate(tile::CreateOp op) {
    FailureOr<Step> step = cacheStep(op, fb::Action::Create, op.getSource(), op.getBatch());
    return failed(step) ? failure() : addNewCache(std::move(*step), op.getResult());
  }

  /// A step whose result is a cache of its own.
  LogicalResult addNewCache(Step step, mlir::Value result) {
    plan::Value cache;
    cache.kind = fb::ValueType::Cache;
    cache.spec = tables.specOf(cast<CacheType>(result.getType()));
    step.result = add(cache);
    values[result] = step.result;
    ownCaches.insert(step.result);
    lastUse[step.result] = out.steps.size();
    out.steps.push_back(std::move(step));
    return success();
  }

  LogicalResult visitFork(ForkOp op) {
    FailureOr<Step> step = cacheStep(op, fb::Action::Fork, op.getCache(), {});
    FailureOr<int32_t> source = exprOf(op, op.getSource()), destination = exprOf(op, op.getDestination());
    if (failed(step) || failed(source) || failed(destination)) {
      return failure();
    }
    step->source = *source;
    step->destination = *destination;
    alias(op.getResult(), op.getCache());
    out.steps.push_back(std::move(*step));
    return success();
  }

  bool isArgumentSize(int32_t root) const {
    const plan::Expr &expr = out.exprs[root];
    return expr.op == fb::ExprOp::dim && out.values[expr.a].source == fb::TensorSource::argument;
  }

  LogicalResult visitAssert(cf::AssertOp op) {
    using P = arith::CmpIPredicate;
    auto compare = op.getArg().getDefiningOp<arith::CmpIOp>();
    if (!compare || !llvm::is_contained({P::eq, P::sge, P::sle, P::uge, P::ule}, compare.getPredicate())) {
      return op.emitOpError() << "expects an equality or an order of two sizes, but got " << op.getArg() << ": "
                              << op.getMsg();
    }
    FailureOr<int32_t> left = exprOf(op, compare.getLhs()), right = exprOf(op, compare.getRhs());
    if (failed(left) || failed(right) || failed(checkMoments(op, *left)) || failed(checkMoments(op, *right))) {
      return failure();
    }
    plan::Check check{0, fb::Relation::equal, *left, *right, op.getMsg().str()};
    if (compare.getPredicate() != P::eq) {
      check.relation = fb::Relation::at_least;
    }
    // The message speaks of an argument when it can.
    if (llvm::is_contained({P::sle, P::ule}, compare.getPredicate()) ||
        (compare.getPredicate() == P::eq && !isArgumentSize(*left) && isArgumentSize(*right))) {
      std::swap(check.left, check.right);
    }
    SmallVector<int32_t> moments;
    collectMoments(*left, moments);
    collectMoments(*right, moments);
    // What the steps do not change is checked before the first one.
    auto place = out.checks.end();
    if (moments.empty()) {
      place = llvm::find_if(out.checks, [](const plan::Check &other) { return other.step > 0; });
    } else {
      check.step = out.steps.size();
    }
    out.checks.insert(place, std::move(check));
    return success();
  }

  LogicalResult visitReturn(func::ReturnOp op) {
    for (auto [i, operand] : llvm::enumerate(op.getOperands())) {
      FailureOr<uint32_t> value = valueOf(op, operand);
      if (failed(value)) {
        return failure();
      }
      if (isa<BatchType>(operand.getType())) {
        return op.emitOpError() << "expects tensors, caches and numbers as results, but got " << operand.getType();
      }
      auto name = function.getResultAttrOfType<StringAttr>(i, "kvcache.name");
      out.results.push_back({name ? name.str() : "", *value, text(operand.getType())});
      returned.insert(rootOf(*value));
    }
    return success();
  }

  void addFrees() {
    for (auto [value, step] : lastUse) {
      bool isBuffer =
          out.values[value].kind == fb::ValueType::Tensor && out.values[value].source == fb::TensorSource::buffer;
      if ((isBuffer || ownCaches.contains(value)) && !returned.contains(value)) {
        out.steps[step].free.push_back(value);
      }
    }
  }

  const llvm::StringMap<uint32_t> &kernels;
  DenseMap<mlir::Value, std::pair<mlir::Value, mlir::Value>> selections;
  DenseSet<uint32_t> ownCaches, returned;
};
} // namespace

FailureOr<plan::Function> plan::buildFunction(func::FuncOp function, const llvm::StringMap<uint32_t> &kernels,
                                              Tables &tables) {
  return FunctionBuilder(function, kernels, tables).build();
}
