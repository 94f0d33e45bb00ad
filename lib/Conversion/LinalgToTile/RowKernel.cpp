//===- RowKernel.cpp - Operations over the same rows as a kernel ----------===//
#include "../KVCacheToTile/KernelBuilder.h"
#include "Groups.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace kvc;

namespace {

/// Rows of a work item.
constexpr int64_t itemRows = 4;

class RowKernelBuilder {
public:
  explicit RowKernelBuilder(const Group &group)
      : group(group), ops(group.ops()),
        last(*llvm::max_element(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); })),
        host(last->getLoc(), last) {}

  LogicalResult run() {
    members.insert(ops.begin(), ops.end());
    if (llvm::all_of(group.rowOps, [](linalg::GenericOp op) { return llvm::all_of(op.getResultTypes(), isEmpty); })) {
      replaceByEmpty();
      return success();
    }
    overRows =
        llvm::all_of(group.rowOps, isOverRows) &&
        (ops.size() > 1 || llvm::any_of(group.rowOps, [](linalg::GenericOp op) { return op.getNumLoops() > 1; }));
    collect();
    KernelBuilder kernel(host, getKernelName(group, "rows"), inputs.getArrayRef(), outputs);
    for (auto [i, input] : llvm::enumerate(inputs)) {
      memory[input] = kernel.input(i);
    }
    for (auto [i, result] : llvm::enumerate(results)) {
      memory[result] = kernel.output(i);
    }
    if (failed(buildBody(kernel))) {
      kernel.function.erase();
      return failure();
    }
    Value items = createIndex(host, 1);
    if (overRows) {
      Value rows = createRowCount(host, linalg::GenericOp(group.rowOps[0]).getDpsInits()[0]);
      items = arith::CeilDivUIOp::create(host, rows, createIndex(host, itemRows));
    }
    ResultRange values = kernel.dispatch(items);
    for (auto [old, value] : llvm::zip_equal(results, values)) {
      old.replaceAllUsesWith(value);
    }
    for (Operation *op : llvm::reverse(ops)) {
      op->erase();
    }
    return success();
  }

private:
  static bool isEmpty(Type type) { return llvm::is_contained(cast<RankedTensorType>(type).getShape(), 0); }

  /// Tensors without elements are computed by nobody.
  void replaceByEmpty() {
    for (linalg::GenericOp op : llvm::reverse(group.rowOps)) {
      for (OpResult result : op->getResults()) {
        result.replaceAllUsesWith(createOutput(host, op.getDpsInits()[result.getResultNumber()]));
      }
      op->erase();
    }
  }

  void collect() {
    auto addInput = [&](Value value) {
      // Constant numbers are made in the kernel; constant tensors lie in the artifact.
      bool isNumber = value.getDefiningOp<arith::ConstantOp>() && !isa<ShapedType>(value.getType());
      if (!members.contains(value.getDefiningOp()) && !isNumber) {
        inputs.insert(value);
      }
    };
    for (linalg::GenericOp op : group.rowOps) {
      // An init that is read as an input as well is one.
      llvm::SetVector<Value> read;
      read.insert_range(op.getDpsInputs());
      getUsedValuesDefinedAbove(op->getRegions(), read);
      llvm::for_each(read, addInput);
      for (OpOperand &init : op.getDpsInitsMutable()) {
        InitialValue initial = getInitialValue(init.get());
        if (op.payloadUsesValueFromOperand(&init) && (initial.fill || initial.tensor)) {
          addInput(initial.fill ? initial.fill : initial.tensor);
        }
      }
      for (OpResult result : op->getResults()) {
        auto type = cast<RankedTensorType>(result.getType());
        bool used = llvm::any_of(result.getUsers(), [&](Operation *user) { return !members.contains(user); });
        // A row whose size is not known here cannot be kept inside the kernel.
        bool fits =
            overRows && type.getRank() > 0 && !llvm::is_contained(type.getShape().drop_front(), ShapedType::kDynamic);
        if (used || !fits) {
          results.push_back(result);
          outputs.push_back(createOutput(host, op.getDpsInits()[result.getResultNumber()]));
        }
      }
    }
  }

  LogicalResult buildBody(KernelBuilder &kernel) {
    ImplicitLocOpBuilder &b = kernel.body;
    OpBuilder::InsertionGuard guard(b);
    entry = b.getInsertionBlock();
    if (overRows) {
      // Every output has the rows as its first dimension; a group without an output is dead.
      Value rows = memref::DimOp::create(b, memory.lookup(results[0]), 0);
      Value begin = createMul(b, kernel.item, createIndex(b, itemRows));
      Value end = arith::MinUIOp::create(b, rows, createAdd(b, begin, createIndex(b, itemRows)));
      auto loop = scf::ForOp::create(b, begin, end, createIndex(b, 1));
      b.setInsertionPoint(loop.getBody()->getTerminator());
      row = loop.getInductionVar();
    }
    for (linalg::GenericOp op : group.rowOps) {
      if (failed(buildOp(b, op))) {
        return failure();
      }
    }
    return success();
  }

  /// Memory of the kernel for the row of a value that does not leave it.
  Value createScratch(ImplicitLocOpBuilder &b, ArrayRef<int64_t> shape, Type element) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(entry);
    return memref::AllocaOp::create(b, MemRefType::get(shape, element), b.getI64IntegerAttr(64));
  }

  /// Row `row` of a memref along dimension `dim`, without that dimension.
  Value rowView(ImplicitLocOpBuilder &b, Value whole, int64_t dim) {
    auto type = cast<MemRefType>(whole.getType());
    SmallVector<OpFoldResult> offsets(type.getRank(), b.getIndexAttr(0)), sizes,
        strides(type.getRank(), b.getIndexAttr(1));
    SmallVector<int64_t> shape;
    for (int64_t i = 0; i < type.getRank(); ++i) {
      if (i == dim) {
        offsets[i] = row;
        sizes.push_back(b.getIndexAttr(1));
        continue;
      }
      shape.push_back(type.getDimSize(i));
      sizes.push_back(type.isDynamicDim(i) ? OpFoldResult(memref::DimOp::create(b, whole, i).getResult())
                                           : OpFoldResult(b.getIndexAttr(type.getDimSize(i))));
    }
    // No place in a row without elements exists that a view could start at.
    if (llvm::is_contained(shape, 0) && !llvm::is_contained(shape, ShapedType::kDynamic)) {
      return createScratch(b, shape, type.getElementType());
    }
    auto rowType = memref::SubViewOp::inferRankReducedResultType(shape, type, offsets, sizes, strides);
    return memref::SubViewOp::create(b, rowType, whole, offsets, sizes, strides);
  }

  /// What the op sees of a value: its row where the map has one, else all of it; and the map over the other dimensions.
  std::pair<Value, AffineMap> view(ImplicitLocOpBuilder &b, Value value, AffineMap map) {
    MLIRContext *context = b.getContext();
    if (!overRows) {
      return {memory.lookup(value), map};
    }
    AffineExpr rowDim = getAffineDimExpr(0, context);
    SmallVector<AffineExpr> dims = {rowDim}, kept;
    for (unsigned i = 1; i < map.getNumDims(); ++i) {
      dims.push_back(getAffineDimExpr(i - 1, context));
    }
    Value seen = memory.lookup(value);
    for (auto [i, expr] : llvm::enumerate(map.getResults())) {
      if (expr != rowDim) {
        kept.push_back(expr.replaceDims(dims));
      } else if (Value scratch = scratchRows.lookup(value)) {
        seen = scratch;
      } else {
        seen = rowView(b, seen, i);
      }
    }
    return {seen, AffineMap::get(map.getNumDims() - 1, 0, kept, context)};
  }

  Value scalar(ImplicitLocOpBuilder &b, Value value) {
    if (Value argument = memory.lookup(value)) {
      return argument;
    }
    return b.clone(*value.getDefiningOp())->getResult(0);
  }

  LogicalResult buildOp(ImplicitLocOpBuilder &b, linalg::GenericOp op) {
    SmallVector<Value> ins, outs;
    SmallVector<AffineMap> maps;
    for (OpOperand *operand : op.getDpsInputOperands()) {
      AffineMap map = op.getMatchingIndexingMap(operand);
      if (!isa<ShapedType>(operand->get().getType())) {
        ins.push_back(scalar(b, operand->get()));
        maps.push_back(overRows ? AffineMap::get(map.getNumDims() - 1, 0, b.getContext()) : map);
        continue;
      }
      auto [seen, seenMap] = view(b, operand->get(), map);
      ins.push_back(seen);
      maps.push_back(seenMap);
    }
    for (OpOperand &init : op.getDpsInitsMutable()) {
      OpResult result = op.getTiedOpResult(&init);
      AffineMap map = op.getMatchingIndexingMap(&init);
      if (!memory.contains(result)) {
        auto type = cast<RankedTensorType>(result.getType());
        scratchRows[result] = createScratch(b, type.getShape().drop_front(), type.getElementType());
      }
      auto [seen, seenMap] = view(b, result, map);
      outs.push_back(seen);
      maps.push_back(seenMap);
      InitialValue initial = getInitialValue(init.get());
      if (!op.payloadUsesValueFromOperand(&init)) {
        continue;
      }
      if (initial.fill) {
        linalg::FillOp::create(b, ValueRange{scalar(b, initial.fill)}, ValueRange{seen});
      } else if (initial.tensor) {
        linalg::CopyOp::create(b, ValueRange{view(b, initial.tensor, map).first}, ValueRange{seen});
      }
    }

    SmallVector<utils::IteratorType> iterators = op.getIteratorTypesArray();
    if (overRows) {
      iterators.erase(iterators.begin());
    }
    IRMapping map;
    llvm::SetVector<Value> captured;
    getUsedValuesDefinedAbove(op->getRegions(), captured);
    for (Value value : captured) {
      map.map(value, scalar(b, value));
    }
    auto made = linalg::GenericOp::create(b, TypeRange(), ins, outs, maps, iterators);
    op.getRegion().cloneInto(&made.getRegion(), map);
    for (auto index : llvm::to_vector(made.getBody()->getOps<linalg::IndexOp>())) {
      if (overRows && index.getDim() == 0) {
        index.replaceAllUsesWith(row);
        index.erase();
      } else if (overRows) {
        index.setDim(index.getDim() - 1);
      }
    }
    for (tensor::DimOp dim : llvm::to_vector(made.getBody()->getOps<tensor::DimOp>())) {
      OpBuilder inner(dim);
      dim.replaceAllUsesWith(memref::DimOp::create(inner, dim.getLoc(), dim.getSource(), dim.getIndex()).getResult());
      dim.erase();
    }
    for (tensor::ExtractOp extract : llvm::to_vector(made.getBody()->getOps<tensor::ExtractOp>())) {
      Type original;
      for (Value value : captured) {
        if (map.lookup(value) == extract.getTensor()) {
          original = value.getType();
        }
      }
      if (failed(lowerExtract(b, op, made, extract, cast<RankedTensorType>(original)))) {
        return failure();
      }
    }
    return success();
  }

  /// Element [r, c] of a captured tensor: a load, or for an encoded tensor a load from row r, decoded before `made`.
  LogicalResult lowerExtract(ImplicitLocOpBuilder &b, linalg::GenericOp op, linalg::GenericOp made,
                             tensor::ExtractOp extract, RankedTensorType type) {
    OpBuilder inner(extract);
    auto encoded = dyn_cast_or_null<kvcache::EncodedAttr>(type.getEncoding());
    Value source = extract.getTensor();
    if (!encoded) {
      auto load = memref::LoadOp::create(inner, extract.getLoc(), source, extract.getIndices());
      extract.replaceAllUsesWith(load.getResult());
      extract.erase();
      return success();
    }
    auto column = extract.getIndices().back().getDefiningOp<linalg::IndexOp>();
    SmallVector<Operation *> slice;
    if (!overRows || type.getRank() != 2 || made.getNumLoops() != 1 || !column || column.getDim() != 0 ||
        failed(collectUniform(made, extract.getIndices().front(), slice))) {
      return op.emitOpError() << "expects to read an encoded tensor by [row, column] with the same row for all of the "
                                 "last dimension, but got other indices of "
                              << type;
    }
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(made);
    IRMapping map;
    for (OpOperand &operand : made->getOpOperands()) {
      Value argument = made.getMatchingBlockArgument(&operand);
      if (made.getMatchingIndexingMap(&operand).getNumResults() == 0 && isa<MemRefType>(operand.get().getType()) &&
          !made.isDpsInit(&operand)) {
        map.map(argument, memref::LoadOp::create(b, operand.get(), ValueRange()));
      } else {
        map.map(argument, operand.get());
      }
    }
    for (Operation *step : slice) {
      b.clone(*step, map);
    }
    Value decoded = createScratch(b, {type.getDimSize(1)}, type.getElementType());
    tile::DecodeRowOp::create(b, source, map.lookupOrDefault(extract.getIndices().front()), decoded,
                              b.getStringAttr(encoded.getName()));
    auto load = memref::LoadOp::create(inner, extract.getLoc(), decoded, ValueRange{column.getResult()});
    extract.replaceAllUsesWith(load.getResult());
    extract.erase();
    return success();
  }

  /// Operations of the body that `value` needs, in order; fails when it differs along the op's dimensions.
  static LogicalResult collectUniform(linalg::GenericOp made, Value value, SmallVectorImpl<Operation *> &slice) {
    if (auto argument = dyn_cast<BlockArgument>(value); argument && argument.getOwner() == made.getBody()) {
      OpOperand &operand = made->getOpOperand(argument.getArgNumber());
      return success(made.getMatchingIndexingMap(&operand).getNumResults() == 0 && !made.isDpsInit(&operand));
    }
    Operation *def = value.getDefiningOp();
    if (!def || def->getBlock() != made.getBody() || llvm::is_contained(slice, def)) {
      return success();
    }
    if (isa<linalg::IndexOp>(def) || !isMemoryEffectFree(def) || def->getNumRegions()) {
      return failure();
    }
    for (Value operand : def->getOperands()) {
      if (failed(collectUniform(made, operand, slice))) {
        return failure();
      }
    }
    slice.push_back(def);
    return success();
  }

  const Group &group;
  SmallVector<Operation *> ops;
  Operation *last;
  ImplicitLocOpBuilder host;
  llvm::SmallPtrSet<Operation *, 8> members;
  bool overRows = false;
  llvm::SetVector<Value> inputs;
  SmallVector<Value> results, outputs;
  llvm::DenseMap<Value, Value> memory;      ///< kernel arguments
  llvm::DenseMap<Value, Value> scratchRows; ///< the row of a value that does not leave the kernel
  Block *entry = nullptr;
  Value row;
};

} // namespace

LogicalResult kvc::buildRowKernel(const Group &group) { return RowKernelBuilder(group).run(); }
