//===- LinearKernel.cpp - Linear layers of one x as a kernel --------------===//
#include "../KVCacheToTile/KernelBuilder.h"
#include "Groups.h"

#include "kvc/Target/Schedule.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace kvc;

namespace {

/// A work item is a block of rows, whose activations stay in a core's cache, and of columns.
constexpr int64_t itemRows = 128;
/// Columns of an item. Cores: enough to be worth an item, few enough that every core gets several. Teams: with few rows
/// as the schedule says, so that many teams read weights at once; with more rows up to four tiles, which share the
/// activations.
Value itemColumns(ImplicitLocOpBuilder &b, const Target *target, int64_t columns, Value rows) {
  if (target && target->team) {
    constexpr int64_t tile = 16, tileRows = 8, most = 4;
    Value tiles = b.createOrFold<arith::CeilDivUIOp>(rows, createIndex(b, tileRows));
    // 1, 2, 4, 4, ...
    tiles = createAdd(b, tiles, arith::DivUIOp::create(b, tiles, createIndex(b, 3)));
    Value least = createIndex(b, chooseLinearTiles(columns, *target->team));
    tiles = arith::MinUIOp::create(b, arith::MaxUIOp::create(b, tiles, least), createIndex(b, most));
    return createMul(b, tiles, createIndex(b, tile));
  }
  constexpr int64_t least = 32, most = 256, items = 48;
  return createIndex(b, std::clamp(columns / items / least * least, least, most));
}

bool isZero(Value value) {
  FloatAttr attr;
  return value && matchPattern(value, m_Constant(&attr)) && attr.getValue().isPosZero();
}

class LinearKernelBuilder {
public:
  explicit LinearKernelBuilder(const Group &group)
      : group(group), ops(group.ops()), x(cast<linalg::LinalgOp>(ops[0]).getDpsInputOperand(0)->get()),
        last(*llvm::max_element(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); })),
        host(last->getLoc(), last), target(getTargetOf(last)) {}

  LogicalResult run() {
    members.insert(ops.begin(), ops.end());
    collect();
    KernelBuilder kernel(host, getKernelName(group, "linear"), inputs.getArrayRef(), outputs);
    for (auto [i, input] : llvm::enumerate(inputs)) {
      memory[input] = kernel.input(i);
    }
    for (auto [i, result] : llvm::enumerate(results)) {
      memory[result] = kernel.output(i);
    }
    buildBody(kernel);

    Value rows = createRowCount(host, cast<linalg::LinalgOp>(ops[0]).getDpsInits()[0]);
    Value rowBlocks = arith::CeilDivUIOp::create(host, rows, createIndex(host, itemRows));
    Value items = createMul(host, rowBlocks, columnBlocks(host, rows));
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
  static linalg::LinalgOp first(const LinearSection &section) { return section.linears[0]; }
  static int64_t columnsOf(const LinearSection &section) {
    return cast<RankedTensorType>(first(section).getDpsInputOperand(1)->get().getType()).getDimSize(0);
  }
  Value columnBlocks(ImplicitLocOpBuilder &b, const LinearSection &section, Value rows) {
    int64_t columns = columnsOf(section);
    return b.createOrFold<arith::CeilDivUIOp>(createIndex(b, columns), itemColumns(b, target, columns, rows));
  }
  Value columnBlocks(ImplicitLocOpBuilder &b, Value rows) {
    Value blocks = createIndex(b, 0);
    for (const LinearSection &section : group.sections) {
      blocks = createAdd(b, blocks, columnBlocks(b, section, rows));
    }
    return blocks;
  }

  /// Inputs are what the group does not compute, outputs what others use of it.
  void collect() {
    auto addInput = [&](Value value) {
      if (!members.contains(value.getDefiningOp()) && !value.getDefiningOp<arith::ConstantOp>()) {
        inputs.insert(value);
      }
    };
    addInput(x);
    for (const LinearSection &section : group.sections) {
      for (linalg::LinalgOp linear : section.linears) {
        addInput(linear.getDpsInputOperand(1)->get());
        if (Value tensor = getInitialValue(linear.getDpsInits()[0]).tensor) {
          addInput(tensor);
        } else if (Value fill = getInitialValue(linear.getDpsInits()[0]).fill) {
          addInput(fill);
        }
      }
      for (linalg::GenericOp op : section.epilogue) {
        for (Value input : op.getInputs()) {
          addInput(input);
        }
        llvm::SetVector<Value> all = getInputs(op);
        for (Value value : all) {
          if (!llvm::is_contained(op->getOperands(), value)) {
            addInput(value);
          }
        }
      }
    }
    for (Operation *op : ops) {
      for (OpResult result : op->getResults()) {
        if (llvm::any_of(result.getUsers(), [&](Operation *user) { return !members.contains(user); })) {
          results.push_back(result);
          outputs.push_back(createOutput(host, cast<linalg::LinalgOp>(op).getDpsInits()[result.getResultNumber()]));
        }
      }
    }
  }

  void buildBody(KernelBuilder &kernel) {
    ImplicitLocOpBuilder &b = kernel.body;
    Value rows = memref::DimOp::create(b, memory.lookup(x), 0);
    Value blocks = columnBlocks(b, rows);
    Value rowBlock = arith::DivUIOp::create(b, kernel.item, blocks);
    Value columnBlock = arith::RemUIOp::create(b, kernel.item, blocks);
    Value rowBegin = createMul(b, rowBlock, createIndex(b, itemRows));
    Value rowEnd = arith::MinUIOp::create(b, rows, createAdd(b, rowBegin, createIndex(b, itemRows)));
    // Blocks of columns of one section follow those of the section before it.
    Value firstBlock = createIndex(b, 0);
    OpBuilder::InsertionGuard guard(b);
    for (const LinearSection &section : group.sections) {
      Value endBlock = createAdd(b, firstBlock, columnBlocks(b, section, rows));
      if (&section != &group.sections.back()) {
        Value here = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, columnBlock, endBlock);
        auto branch = scf::IfOp::create(b, here, /*withElseRegion=*/true);
        b.setInsertionPoint(branch.thenYield());
        buildSection(b, section, columnBlock, firstBlock, rows, rowBegin, rowEnd);
        b.setInsertionPoint(branch.elseYield());
      } else {
        buildSection(b, section, columnBlock, firstBlock, rows, rowBegin, rowEnd);
      }
      firstBlock = endBlock;
    }
  }

  void buildSection(ImplicitLocOpBuilder &b, const LinearSection &section, Value columnBlock, Value firstBlock,
                    Value rows, Value rowBegin, Value rowEnd) {
    Value block = arith::SubIOp::create(b, columnBlock, firstBlock);
    int64_t columns = columnsOf(section);
    Value perItem = itemColumns(b, target, columns, rows);
    Value begin = createMul(b, block, perItem);
    Value end = arith::MinUIOp::create(b, createAdd(b, begin, perItem), createIndex(b, columns));
    SmallVector<Value> weights;
    SmallVector<StringRef> encodings;
    for (linalg::LinalgOp linear : section.linears) {
      Value weight = linear.getDpsInputOperand(1)->get();
      auto encoded = dyn_cast_or_null<kvcache::EncodedAttr>(cast<RankedTensorType>(weight.getType()).getEncoding());
      weights.push_back(memory.lookup(weight));
      encodings.push_back(encoded ? encoded.getName() : StringRef("f32"));
    }
    auto linear = tile::LinearOp::create(b, memory.lookup(x), weights, rowBegin, rowEnd, begin, end,
                                         b.getStrArrayAttr(encodings));
    OpBuilder::InsertionGuard guard(b);
    Block *body = b.createBlock(&linear.getBody());
    Value row = body->addArgument(b.getIndexType(), b.getLoc()),
          column = body->addArgument(b.getIndexType(), b.getLoc());
    Value at[] = {row, column};
    llvm::DenseMap<Value, Value> elements; ///< element (row, column) of what the section computes
    for (linalg::LinalgOp op : section.linears) {
      Value sum = body->addArgument(b.getF32Type(), b.getLoc());
      InitialValue initial = getInitialValue(op.getDpsInits()[0]);
      Value start;
      if (initial.tensor) {
        start = memref::LoadOp::create(b, memory.lookup(initial.tensor), at);
      } else if (initial.fill && !isZero(initial.fill)) {
        start = scalar(b, initial.fill);
      }
      elements[op->getResult(0)] = start ? arith::AddFOp::create(b, start, sum).getResult() : sum;
    }
    for (linalg::GenericOp op : section.epilogue) {
      buildElementwise(b, op, at, elements);
    }
    for (Value result : results) {
      if (Value element = elements.lookup(result)) {
        memref::StoreOp::create(b, element, memory.lookup(result), at);
      }
    }
  }

  /// A scalar operand of the kernel, or a constant made again inside it.
  Value scalar(ImplicitLocOpBuilder &b, Value value) {
    if (Value argument = memory.lookup(value)) {
      return argument;
    }
    return b.clone(*value.getDefiningOp())->getResult(0);
  }

  void buildElementwise(ImplicitLocOpBuilder &b, linalg::GenericOp op, ArrayRef<Value> at,
                        llvm::DenseMap<Value, Value> &elements) {
    IRMapping map;
    for (OpOperand *operand : op.getDpsInputOperands()) {
      Value argument = op.getMatchingBlockArgument(operand);
      if (Value element = elements.lookup(operand->get())) {
        map.map(argument, element);
        continue;
      }
      if (!isa<ShapedType>(operand->get().getType())) {
        map.map(argument, scalar(b, operand->get()));
        continue;
      }
      SmallVector<Value> indices;
      for (AffineExpr expr : op.getMatchingIndexingMap(operand).getResults()) {
        indices.push_back(at[cast<AffineDimExpr>(expr).getPosition()]);
      }
      map.map(argument, memref::LoadOp::create(b, memory.lookup(operand->get()), indices));
    }
    for (Value value : getInputs(op)) {
      if (!llvm::is_contained(op->getOperands(), value)) {
        map.map(value, scalar(b, value));
      }
    }
    for (Operation &inner : op.getBody()->without_terminator()) {
      if (auto index = dyn_cast<linalg::IndexOp>(inner)) {
        map.map(index.getResult(), at[index.getDim()]);
      } else {
        b.clone(inner, map);
      }
    }
    Operation *yield = op.getBody()->getTerminator();
    for (OpResult result : op->getResults()) {
      elements[result] = map.lookupOrDefault(yield->getOperand(result.getResultNumber()));
    }
  }

  const Group &group;
  SmallVector<Operation *> ops;
  Value x; ///< as it is now: earlier groups have replaced their results
  Operation *last;
  ImplicitLocOpBuilder host;
  const Target *target; ///< null where the module names none
  llvm::SmallPtrSet<Operation *, 8> members;
  llvm::SetVector<Value> inputs;
  SmallVector<Value> results, outputs;
  llvm::DenseMap<Value, Value> memory; ///< kernel arguments
};

} // namespace

LogicalResult kvc::buildLinearKernel(const Group &group) { return LinearKernelBuilder(group).run(); }
