//===- Evaluator.cpp - Calls, control flow and dispatch of the oracle -----===//
#include "Internal.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"
#include <limits>
#include <set>

using namespace mlir;
using namespace kvc;
using namespace kvc::reference;

LogicalResult reference::unknownOperation(Operation *op) {
  return op->emitOpError() << "expects an operation that the reference oracle knows, but got '" << op->getName() << "'";
}

//===----------------------------------------------------------------------===//
// Checks of values
//===----------------------------------------------------------------------===//

LogicalResult reference::checkSize(Evaluator &evaluator, Operation *op, ArrayRef<int64_t> shape) {
  int64_t size = 1;
  for (int64_t extent : shape) {
    if (extent < 0) {
      return op->emitOpError() << "expects extents of at least 0, but got " << extent;
    }
    if (extent && size > evaluator.getOptions().maxElements / extent) {
      return op->emitOpError() << "expects a tensor of at most " << evaluator.getOptions().maxElements
                               << " elements, but got shape [" << shape << "]";
    }
    size *= extent;
  }
  return success();
}

LogicalResult reference::checkBatch(llvm::function_ref<InFlightDiagnostic()> emitError, const Batch &batch,
                                    int64_t rows, int64_t sequences) {
  if (static_cast<int64_t>(batch.queryOffsets.size()) != batch.entries() + 1) {
    return emitError() << "expects query_offsets of " << batch.entries() + 1
                       << " elements, one more than sequences, but got " << batch.queryOffsets.size();
  }
  if (batch.queryOffsets.front() != 0 || batch.queryOffsets.back() != batch.rows()) {
    return emitError() << "expects query_offsets from 0 to the " << batch.rows() << " positions, but got "
                       << batch.queryOffsets.front() << " to " << batch.queryOffsets.back();
  }
  for (int64_t entry = 0; entry < batch.entries(); ++entry) {
    if (batch.rowsOf(entry) < 0) {
      return emitError() << "expects query_offsets that do not decrease, but got " << batch.queryOffsets[entry]
                         << " before " << batch.queryOffsets[entry + 1];
    }
  }
  std::set<int64_t> seen;
  for (int64_t sequence : batch.sequences) {
    if (sequence < 0 || (sequences >= 0 && sequence >= sequences)) {
      auto diag = emitError() << "expects sequences of at least 0";
      if (sequences >= 0) {
        diag << " and below the " << sequences << " sequences of the cache";
      }
      return diag << ", but got " << sequence;
    }
    if (!seen.insert(sequence).second) {
      return emitError() << "expects every sequence in one entry of the batch, but got sequence " << sequence
                         << " twice";
    }
  }
  for (int64_t position : batch.positions) {
    if (position < 0 || position > std::numeric_limits<int32_t>::max()) {
      return emitError() << "expects positions of 0 to 2147483647, but got " << position;
    }
  }
  if (rows >= 0 && rows != batch.rows()) {
    return emitError() << "expects as many rows as the batch has positions (" << batch.rows() << "), but got " << rows;
  }
  return success();
}

LogicalResult reference::checkBatch(Operation *op, const Batch &batch, const Tensor *rows, const Cache *cache) {
  return checkBatch([&]() -> InFlightDiagnostic { return op->emitOpError(); }, batch, rows ? rows->shape[0] : -1,
                    cache ? cache->sequences() : -1);
}

LogicalResult reference::checkDatum(llvm::function_ref<InFlightDiagnostic()> emitError, const Twine &what, Type type,
                                    const Datum &datum) {
  auto mismatch = [&](bool fits) -> LogicalResult {
    return fits ? success()
                : LogicalResult(emitError()
                                << "expects " << what << " of type " << type << ", but got a value of another kind");
  };
  if (isa<kvcache::BatchType>(type)) {
    if (failed(mismatch(datum.isBatch()))) {
      return failure();
    }
    return checkBatch([&] { return emitError(); }, datum.asBatch(), -1, -1);
  }
  if (auto cache = dyn_cast<kvcache::CacheType>(type)) {
    if (failed(mismatch(datum.isCache()))) {
      return failure();
    }
    if (cache.aliasesValues() || cache.getK().getHadamard() || cache.getV().getHadamard()) {
      return emitError() << "is not evaluated yet for a cache with " << cache.getUnsupportedField() << ": " << cache;
    }
    if (datum.asCache().type != cache) {
      return emitError() << "expects " << what << " of type " << type << ", but got " << datum.asCache().type;
    }
    return success();
  }
  if (auto selection = dyn_cast<kvcache::SelectionType>(type)) {
    return mismatch(datum.isSelection() && datum.asSelection().unit == selection.getUnit());
  }
  if (auto tensor = dyn_cast<RankedTensorType>(type)) {
    if (failed(mismatch(datum.isTensor() && datum.asTensor().isFloat == isa<FloatType>(tensor.getElementType())))) {
      return failure();
    }
    ArrayRef<int64_t> shape = datum.asTensor().shape;
    if (failed(verifyCompatibleShape(tensor.getShape(), shape))) {
      return emitError() << "expects " << what << " of type " << type << ", but got shape [" << shape << "]";
    }
    return success();
  }
  if (isa<FloatType>(type)) {
    return mismatch(datum.isFloat());
  }
  if (type.isIntOrIndex()) {
    return mismatch(datum.isInt());
  }
  return emitError() << "expects " << what << " of a type that the reference oracle knows, but got " << type;
}

//===----------------------------------------------------------------------===//
// Calls and blocks
//===----------------------------------------------------------------------===//

FailureOr<SmallVector<Datum>> Evaluator::call(func::FuncOp function, ArrayRef<Datum> inputs) {
  auto error = [&] { return function.emitOpError(); };
  if (function.isExternal()) {
    return error() << "expects a function with a body, but got a declaration", failure();
  }
  if (inputs.size() != function.getNumArguments()) {
    return error() << "expects " << function.getNumArguments() << " inputs, but got " << inputs.size(), failure();
  }
  if (!function.getBody().hasOneBlock()) {
    return error() << "expects a body of one block, but got " << function.getBody().getBlocks().size(), failure();
  }
  for (auto [i, type, input] : llvm::enumerate(function.getArgumentTypes(), inputs)) {
    if (failed(checkDatum(error, "input " + Twine(i), type, input))) {
      return failure();
    }
  }
  if (depth >= options.maxCallDepth) {
    return error() << "expects calls nested at most " << options.maxCallDepth << " deep, but got more", failure();
  }
  llvm::DenseMap<mlir::Value, Datum> mine, *outer = frame;
  frame = &mine;
  ++depth;
  llvm::scope_exit restore([&] {
    frame = outer;
    --depth;
  });
  return runBlock(function.getBody().front(), inputs);
}

FailureOr<SmallVector<Datum>> Evaluator::runBlock(Block &block, ArrayRef<Datum> arguments, ArrayRef<int64_t> index) {
  ArrayRef<int64_t> outerIndex = loopIndex;
  if (!index.empty()) {
    loopIndex = index;
  }
  llvm::scope_exit restore([&] { loopIndex = outerIndex; });
  for (auto [argument, datum] : llvm::zip_equal(block.getArguments(), arguments)) {
    (*frame)[argument] = datum;
  }
  SmallVector<Datum> operands, results;
  for (Operation &op : block) {
    operands.clear();
    for (mlir::Value operand : op.getOperands()) {
      operands.push_back(frame->lookup(operand));
    }
    if (op.hasTrait<OpTrait::IsTerminator>()) {
      return operands;
    }
    results.clear();
    if (failed(eval(&op, operands, results))) {
      return failure();
    }
    for (auto [i, result] : llvm::enumerate(op.getResults())) {
      // A wrong kind or shape here is an error of the module (a static shape that does not hold) or of an eval.
      if (failed(checkDatum([&]() -> InFlightDiagnostic { return op.emitOpError(); }, "result " + Twine(i),
                            result.getType(), results[i]))) {
        return failure();
      }
      (*frame)[result] = results[i];
    }
  }
  return block.getParentOp()->emitOpError() << "expects a block that ends in a terminator", failure();
}

LogicalResult Evaluator::evalControl(Operation *op, ArrayRef<Datum> operands, SmallVectorImpl<Datum> &results) {
  auto take = [&](FailureOr<SmallVector<Datum>> values) -> LogicalResult {
    if (failed(values)) {
      return failure();
    }
    llvm::append_range(results, *values);
    return success();
  };
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](func::CallOp callOp) -> LogicalResult {
        auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op, callOp.getCalleeAttr());
        if (!callee) {
          return op->emitOpError() << "expects a function to call, but got no @" << callOp.getCallee();
        }
        return take(call(callee, operands));
      })
      .Case([&](scf::IfOp ifOp) -> LogicalResult {
        Region &region = operands[0].asInt() ? ifOp.getThenRegion() : ifOp.getElseRegion();
        return region.empty() ? success() : take(runBlock(region.front(), {}));
      })
      .Case([&](scf::ForOp forOp) -> LogicalResult {
        int64_t low = operands[0].asInt(), high = operands[1].asInt(), step = operands[2].asInt();
        if (step <= 0) {
          return op->emitOpError() << "expects a step above 0, but got " << step;
        }
        SmallVector<Datum> carried(operands.drop_front(3));
        for (int64_t i = low; i < high;) {
          SmallVector<Datum> arguments{Datum(i)};
          llvm::append_range(arguments, carried);
          FailureOr<SmallVector<Datum>> next = runBlock(*forOp.getBody(), arguments);
          if (failed(next)) {
            return failure();
          }
          carried = std::move(*next);
          if (llvm::AddOverflow(i, step, i)) {
            break;
          }
        }
        llvm::append_range(results, carried);
        return success();
      })
      .Default([](Operation *other) { return unknownOperation(other); });
}

LogicalResult Evaluator::eval(Operation *op, ArrayRef<Datum> operands, SmallVectorImpl<Datum> &results) {
  if (isa<kvcache::KVCacheDialect>(op->getDialect())) {
    if (isa<kvcache::AttentionOp, kvcache::OnlineAttentionOp, kvcache::ScoreOp, kvcache::PoolOp, kvcache::TopKOp,
            kvcache::MergeStatesOp, kvcache::ExportOp, kvcache::SoftCapOp, kvcache::AlibiOp>(op)) {
      return evalAttention(*this, op, operands, results);
    }
    if (isa<kvcache::MapScoresOp, kvcache::ThresholdOp>(op)) {
      return evalScores(*this, op, operands, results);
    }
    return evalCache(*this, op, operands, results);
  }
  if (isa<arith::ArithDialect, math::MathDialect>(op->getDialect())) {
    return evalArith(op, operands, results);
  }
  if (isa<tensor::TensorDialect>(op->getDialect())) {
    return evalTensor(*this, op, operands, results);
  }
  if (isa<linalg::LinalgDialect>(op->getDialect())) {
    return evalLinalg(*this, op, operands, results);
  }
  return evalControl(op, operands, results);
}

FailureOr<SmallVector<Datum>> reference::run(ModuleOp module, StringRef name, ArrayRef<Datum> inputs, Options options) {
  auto function = module.lookupSymbol<func::FuncOp>(name);
  if (!function) {
    return module.emitError() << "expects a function @" << name << " in the module, but got none", failure();
  }
  return Evaluator(std::move(options)).call(function, inputs);
}
