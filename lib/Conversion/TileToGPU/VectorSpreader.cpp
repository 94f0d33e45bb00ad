//===- VectorSpreader.cpp - Vectors of a kernel over a warp's lanes -------===//
#include "VectorSpreader.h"

#include "LaneValues.h"
#include "VectorMovement.h"

#include "kvc/Dialect/Tile/IR/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kvc;

namespace {

/// Vectors of at most so many elements are held whole by every lane.
constexpr int64_t smallElements = 4;

bool isWide(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return vector && vector.getNumElements() > smallElements;
}

class VectorSpreader {
public:
  using Builder = ImplicitLocOpBuilder;
  using Registers = SmallVector<Value>;

  VectorSpreader(func::FuncOp kernel, const TeamFacts &facts)
      : kernel(kernel), facts(facts), lanes(facts.lanes), b(kernel.getLoc(), kernel.getContext()) {}

  LogicalResult run();

private:
  InFlightDiagnostic fail(Operation *op) { return op->emitOpError() << "has no lowering to lanes of a warp yet"; }
  LogicalResult emitBlock(Block &block);
  LogicalResult emitOp(Operation *op);
  /// The body of a loop or branch with its yield.
  LogicalResult emitBody(Block &block);
  LogicalResult emitFor(scf::ForOp loop);
  LogicalResult emitIf(scf::IfOp branch);
  LogicalResult emitAlloca(memref::AllocaOp op);
  LogicalResult emitElementwise(Operation *op);
  LogicalResult emitConstant(arith::ConstantOp op);
  LogicalResult emitAccess(Operation *op);
  LogicalResult emitBitCast(vector::BitCastOp op);
  LogicalResult emitReduction(vector::ReductionOp op);

  int64_t registersOf(Type type) { return llvm::divideCeil(cast<VectorType>(type).getNumElements(), lanes); }
  Value word(int64_t value) { return arith::ConstantIntOp::create(b, value, 32); }
  Value index(int64_t value) { return arith::ConstantIndexOp::create(b, value); }

  /// Element `element` of a wide vector in every lane.
  Value broadcastElement(Value vector, int64_t element) {
    return warp->shuffle(wide.lookup(vector)[element / lanes], word(element % lanes));
  }
  /// The elements of any vector in every lane.
  Registers allElements(Value vector);
  /// What lanes of register `reg` of a result with the given sources hold.
  Value gather(Operation *op, int64_t reg, int64_t count, const ElementMap &map);
  Value elementNumber(int64_t reg) {
    return reg ? arith::AddIOp::create(b, lane, word(reg * lanes)).getResult() : lane;
  }
  Value isBelow(int64_t reg, int64_t count) {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, elementNumber(reg), word(count));
  }

  /// Order among lanes around an access to memory that lanes read and write.
  void order(Value memory) {
    if (shared.contains(rootOf(memory))) {
      gpu::BarrierOp::create(b);
    }
  }
  static Value rootOf(Value memory) {
    while (auto view = memory.getDefiningOp<ViewLikeOpInterface>()) {
      memory = view.getViewSource();
    }
    return memory;
  }
  void findShared();
  /// What a value of the old code is held in.
  void append(Registers &values, Value value);
  void bind(ValueRange values, ValueRange old);

  func::FuncOp kernel;
  const TeamFacts &facts;
  int64_t lanes;
  Builder b;
  std::optional<LaneValues> warp;
  Value lane, staging;
  int64_t stagingBytes = 0;
  IRMapping mapping;
  DenseMap<Value, Registers> wide;
  /// Memory that the kernel both reads and writes, in the old code.
  DenseSet<Value> shared;
};

//===----------------------------------------------------------------------===//
// Elements of other lanes
//===----------------------------------------------------------------------===//

VectorSpreader::Registers VectorSpreader::allElements(Value vector) {
  Registers elements;
  for (int64_t i = 0; i < cast<VectorType>(vector.getType()).getNumElements(); ++i) {
    elements.push_back(isWide(vector.getType()) ? broadcastElement(vector, i)
                                                : vector::ExtractOp::create(b, mapping.lookup(vector), i).getResult());
  }
  return elements;
}

Value VectorSpreader::gather(Operation *op, int64_t reg, int64_t count, const ElementMap &map) {
  // One group for each register that elements come from; small sources have one group for each element.
  struct Group {
    unsigned operand;
    int64_t reg;
    bool isSmall;
  };
  SmallVector<Group> groups;
  SmallVector<unsigned> groupOf(lanes);
  SmallVector<uint64_t> sourceLane(lanes);
  for (int64_t i = 0; i < lanes; ++i) {
    // Lanes past the end hold what the last one holds.
    Source source = map(std::min(reg * lanes + i, count - 1));
    bool isSmall = !isWide(op->getOperand(source.operand).getType());
    int64_t from = isSmall ? source.element : source.element / lanes;
    sourceLane[i] = isSmall ? 0 : source.element % lanes;
    auto found =
        llvm::find_if(groups, [&](const Group &group) { return group.operand == source.operand && group.reg == from; });
    groupOf[i] = found - groups.begin();
    if (found == groups.end()) {
      groups.push_back({source.operand, from, isSmall});
    }
  }
  bool stays = true;
  for (int64_t i = 0; i < lanes; ++i) {
    stays &= static_cast<int64_t>(sourceLane[i]) == i || groups[groupOf[i]].isSmall || reg * lanes + i >= count;
  }
  Value from = stays ? Value() : warp->table(sourceLane, b.getI32Type());
  Value result;
  for (auto [number, group] : llvm::enumerate(groups)) {
    Value operand = op->getOperand(group.operand);
    Value value;
    if (!isa<VectorType>(operand.getType())) {
      value = mapping.lookup(operand);
    } else if (group.isSmall) {
      value = vector::ExtractOp::create(b, mapping.lookup(operand), group.reg);
    } else {
      value = wide.lookup(operand)[group.reg];
      value = stays ? value : warp->shuffle(value, from);
    }
    if (!result) {
      result = value;
      continue;
    }
    SmallVector<bool> mine;
    for (unsigned g : groupOf) {
      mine.push_back(g == number);
    }
    result = arith::SelectOp::create(b, warp->condition(mine), value, result);
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Control flow and memory
//===----------------------------------------------------------------------===//

void VectorSpreader::findShared() {
  DenseSet<Value> read, written;
  kernel.walk([&](Operation *op) {
    if (auto load = dyn_cast<memref::LoadOp>(op)) {
      read.insert(rootOf(load.getMemRef()));
    } else if (auto load = dyn_cast<vector::LoadOp>(op)) {
      read.insert(rootOf(load.getBase()));
    } else if (auto load = dyn_cast<vector::MaskedLoadOp>(op)) {
      read.insert(rootOf(load.getBase()));
    } else if (auto store = dyn_cast<memref::StoreOp>(op)) {
      written.insert(rootOf(store.getMemRef()));
    } else if (auto store = dyn_cast<vector::StoreOp>(op)) {
      written.insert(rootOf(store.getBase()));
    } else if (auto store = dyn_cast<vector::MaskedStoreOp>(op)) {
      written.insert(rootOf(store.getBase()));
    }
  });
  for (Value memory : written) {
    if (read.contains(memory)) {
      shared.insert(memory);
    }
  }
}

LogicalResult VectorSpreader::run() {
  findShared();
  Region &region = kernel.getBody();
  Block &old = region.front();
  Block *fresh = new Block;
  region.push_back(fresh);
  for (BlockArgument argument : old.getArguments()) {
    mapping.map(argument, fresh->addArgument(argument.getType(), argument.getLoc()));
  }
  b.setInsertionPointToStart(fresh);
  warp.emplace(b, lanes);
  lane = warp->lane;
  auto space = gpu::AddressSpaceAttr::get(b.getContext(), gpu::AddressSpace::Workgroup);
  auto type = MemRefType::get({ShapedType::kDynamic}, b.getI8Type(), MemRefLayoutAttrInterface(), space);
  staging = gpu::DynamicSharedMemoryOp::create(b, type);
  if (failed(emitBlock(old))) {
    return failure();
  }
  for (BlockArgument argument : old.getArguments()) {
    argument.dropAllUses();
  }
  old.dropAllDefinedValueUses();
  fresh->moveBefore(&old);
  old.erase();
  if (stagingBytes > facts.stagingBytes) {
    return kernel.emitOpError() << "expects buffers of at most " << facts.stagingBytes
                                << " bytes of staging memory, but got " << stagingBytes;
  }
  kernel->setAttr(tile::TileDialect::teamAttr, b.getI64IntegerAttr(lanes));
  kernel->setAttr(tile::TileDialect::stagingAttr, b.getI64IntegerAttr(stagingBytes));
  return success();
}

LogicalResult VectorSpreader::emitBlock(Block &block) {
  for (Operation &op : block) {
    b.setLoc(op.getLoc());
    if (failed(emitOp(&op))) {
      return failure();
    }
  }
  return success();
}

void VectorSpreader::append(Registers &values, Value value) {
  if (isWide(value.getType())) {
    llvm::append_range(values, wide.lookup(value));
  } else {
    values.push_back(mapping.lookup(value));
  }
}

void VectorSpreader::bind(ValueRange values, ValueRange old) {
  for (Value value : old) {
    if (isWide(value.getType())) {
      int64_t count = registersOf(value.getType());
      wide[value] = Registers(values.begin(), values.begin() + count);
      values = values.drop_front(count);
    } else {
      mapping.map(value, values.front());
      values = values.drop_front();
    }
  }
}

LogicalResult VectorSpreader::emitBody(Block &block) {
  for (Operation &op : block.without_terminator()) {
    b.setLoc(op.getLoc());
    if (failed(emitOp(&op))) {
      return failure();
    }
  }
  Registers yielded;
  for (Value value : block.getTerminator()->getOperands()) {
    append(yielded, value);
  }
  scf::YieldOp::create(b, yielded);
  return success();
}

LogicalResult VectorSpreader::emitFor(scf::ForOp loop) {
  Registers init;
  for (Value value : loop.getInitArgs()) {
    append(init, value);
  }
  auto made = scf::ForOp::create(b, mapping.lookup(loop.getLowerBound()), mapping.lookup(loop.getUpperBound()),
                                 mapping.lookup(loop.getStep()), init);
  {
    OpBuilder::InsertionGuard guard(b);
    mapping.map(loop.getInductionVar(), made.getInductionVar());
    bind(made.getRegionIterArgs(), loop.getRegionIterArgs());
    made.getBody()->clear();
    b.setInsertionPointToStart(made.getBody());
    if (failed(emitBody(*loop.getBody()))) {
      return failure();
    }
  }
  bind(made.getResults(), loop.getResults());
  return success();
}

LogicalResult VectorSpreader::emitIf(scf::IfOp branch) {
  SmallVector<Type> types;
  for (Type type : branch.getResultTypes()) {
    if (isWide(type)) {
      types.append(registersOf(type), cast<VectorType>(type).getElementType());
    } else {
      types.push_back(type);
    }
  }
  auto made = scf::IfOp::create(b, types, mapping.lookup(branch.getCondition()), !branch.getElseRegion().empty());
  for (auto [from, to] : llvm::zip_equal(branch->getRegions(), made->getRegions())) {
    if (from.empty()) {
      continue;
    }
    OpBuilder::InsertionGuard guard(b);
    to.front().clear();
    b.setInsertionPointToStart(&to.front());
    if (failed(emitBody(from.front()))) {
      return failure();
    }
  }
  bind(made.getResults(), branch.getResults());
  return success();
}

LogicalResult VectorSpreader::emitAlloca(memref::AllocaOp op) {
  MemRefType type = op.getType();
  if (!type.hasStaticShape()) {
    return fail(op);
  }
  constexpr int64_t alignment = 64;
  int64_t bytes = llvm::divideCeil(type.getNumElements() * type.getElementTypeBitWidth(), 8);
  auto space = cast<MemRefType>(staging.getType()).getMemorySpace();
  auto local = MemRefType::get(type.getShape(), type.getElementType(), MemRefLayoutAttrInterface(), space);
  Value view = memref::ViewOp::create(b, local, staging, index(stagingBytes), ValueRange{});
  mapping.map(op.getResult(), memref::MemorySpaceCastOp::create(b, type, view).getResult());
  stagingBytes += llvm::alignTo(bytes, alignment);
  return success();
}

LogicalResult VectorSpreader::emitAccess(Operation *op) {
  auto clamp = [&](int64_t reg, int64_t count) -> Value {
    Value number = elementNumber(reg);
    return (reg + 1) * lanes <= count ? number : arith::MinSIOp::create(b, number, word(count - 1)).getResult();
  };
  auto at = [&](ValueRange indices, Value element) {
    SmallVector<Value> result;
    for (Value old : indices) {
      result.push_back(mapping.lookup(old));
    }
    result.back() = arith::AddIOp::create(b, result.back(), arith::IndexCastOp::create(b, b.getIndexType(), element));
    return result;
  };
  auto when = [&](Value condition, llvm::function_ref<void()> body) {
    if (!condition) {
      return body();
    }
    auto branch = scf::IfOp::create(b, condition, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    body();
  };
  auto firstLane = [&] { return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lane, word(0)).getResult(); };

  if (auto load = dyn_cast<vector::LoadOp>(op)) {
    int64_t count = load.getVectorType().getNumElements();
    Registers values;
    for (int64_t r = 0; r < registersOf(load.getType()); ++r) {
      values.push_back(
          memref::LoadOp::create(b, mapping.lookup(load.getBase()), at(load.getIndices(), clamp(r, count))));
    }
    wide[load.getResult()] = values;
    return success();
  }
  if (auto load = dyn_cast<vector::MaskedLoadOp>(op)) {
    if (registersOf(load.getType()) != 1) {
      return fail(op);
    }
    // Elements that the mask leaves out are not read.
    Value mask = arith::AndIOp::create(b, wide.lookup(load.getMask())[0], isBelow(0, load.getType().getNumElements()));
    Type element = load.getType().getElementType();
    auto branch = scf::IfOp::create(b, element, mask, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    Value read = memref::LoadOp::create(b, mapping.lookup(load.getBase()), at(load.getIndices(), lane));
    scf::YieldOp::create(b, read);
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, wide.lookup(load.getPassThru())[0]);
    wide[load.getResult()] = {branch.getResult(0)};
    return success();
  }
  if (auto store = dyn_cast<vector::StoreOp>(op)) {
    Value target = mapping.lookup(store.getBase());
    order(store.getBase());
    if (!isWide(store.getValueToStore().getType())) {
      when(firstLane(), [&] { b.clone(*op, mapping); });
    } else {
      int64_t count = store.getVectorType().getNumElements();
      for (auto [r, value] : llvm::enumerate(wide.lookup(store.getValueToStore()))) {
        int64_t reg = static_cast<int64_t>(r);
        Value condition = (reg + 1) * lanes <= count ? Value() : isBelow(reg, count);
        when(condition, [&, value = value] {
          memref::StoreOp::create(b, value, target, at(store.getIndices(), elementNumber(reg)));
        });
      }
    }
    order(store.getBase());
    return success();
  }
  if (auto store = dyn_cast<vector::MaskedStoreOp>(op)) {
    VectorType type = store.getVectorType();
    if (registersOf(type) != 1 || !isWide(type)) {
      return fail(op);
    }
    order(store.getBase());
    Value mask = arith::AndIOp::create(b, wide.lookup(store.getMask())[0], isBelow(0, type.getNumElements()));
    when(mask, [&] {
      memref::StoreOp::create(b, wide.lookup(store.getValueToStore())[0], mapping.lookup(store.getBase()),
                              at(store.getIndices(), lane));
    });
    order(store.getBase());
    return success();
  }
  auto store = cast<memref::StoreOp>(op);
  order(store.getMemRef());
  when(firstLane(), [&] { b.clone(*op, mapping); });
  order(store.getMemRef());
  return success();
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

LogicalResult VectorSpreader::emitConstant(arith::ConstantOp op) {
  auto dense = cast<DenseElementsAttr>(op.getValue());
  Type element = dense.getElementType();
  int64_t count = dense.getNumElements();
  Registers values;
  if (dense.isSplat()) {
    Value scalar = arith::ConstantOp::create(b, cast<TypedAttr>(dense.getSplatValue<Attribute>()));
    values.assign(registersOf(op.getType()), scalar);
  } else {
    SmallVector<uint64_t> raw;
    if (isa<FloatType>(element)) {
      for (const APFloat &value : dense.getValues<APFloat>()) {
        raw.push_back(value.bitcastToAPInt().getZExtValue());
      }
    } else {
      for (const APInt &value : dense.getValues<APInt>()) {
        raw.push_back(value.getZExtValue());
      }
    }
    Type held = element.isIndex() ? Type(b.getI64Type()) : element;
    for (int64_t r = 0; r < registersOf(op.getType()); ++r) {
      SmallVector<uint64_t> table;
      for (int64_t i = 0; i < lanes; ++i) {
        table.push_back(raw[std::min(r * lanes + i, count - 1)]);
      }
      Value value = warp->table(table, held);
      values.push_back(element.isIndex() ? arith::IndexCastOp::create(b, element, value).getResult() : value);
    }
  }
  wide[op.getResult()] = values;
  return success();
}

LogicalResult VectorSpreader::emitElementwise(Operation *op) {
  auto type = cast<VectorType>(op->getResult(0).getType());
  Registers results;
  for (int64_t r = 0; r < registersOf(type); ++r) {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      operands.push_back(isWide(operand.getType()) ? wide.lookup(operand)[r] : mapping.lookup(operand));
    }
    if (isa<vector::FMAOp>(op)) {
      results.push_back(math::FmaOp::create(b, operands[0], operands[1], operands[2]));
      continue;
    }
    OperationState state(op->getLoc(), op->getName());
    state.addOperands(operands);
    state.addTypes(type.getElementType());
    state.addAttributes(op->getAttrs());
    results.push_back(b.create(state)->getResult(0));
  }
  wide[op->getResult(0)] = results;
  return success();
}

LogicalResult VectorSpreader::emitBitCast(vector::BitCastOp op) {
  auto from = cast<VectorType>(op.getSource().getType()), to = cast<VectorType>(op.getType());
  const int64_t fromBits = from.getElementTypeBitWidth(), toBits = to.getElementTypeBitWidth();
  Type wideType = b.getIntegerType(std::max(fromBits, toBits)),
       narrowType = b.getIntegerType(std::min(fromBits, toBits));
  auto asInteger = [&](Value value) {
    Type integer = b.getIntegerType(value.getType().getIntOrFloatBitWidth());
    return integer == value.getType() ? value : arith::BitcastOp::create(b, integer, value).getResult();
  };
  auto asResult = [&](Value value) {
    return value.getType() == to.getElementType() ? value
                                                  : arith::BitcastOp::create(b, to.getElementType(), value).getResult();
  };
  const int64_t count = to.getNumElements(), parts = std::max(fromBits, toBits) / std::min(fromBits, toBits);
  if (!isWide(to)) {
    // Few elements of many: gather them as they were, and cast the small vector.
    Registers elements = allElements(op.getSource());
    Value whole = vector::FromElementsOp::create(b, from, elements);
    mapping.map(op.getResult(), vector::BitCastOp::create(b, to, whole).getResult());
    return success();
  }
  Registers results;
  for (int64_t r = 0; r < registersOf(to); ++r) {
    if (parts == 1) {
      results.push_back(asResult(asInteger(wide.lookup(op.getSource())[r])));
      continue;
    }
    if (toBits > fromBits) {
      Value whole;
      for (int64_t part = 0; part < parts; ++part) {
        Value piece = asInteger(gather(op, r, count, [&](int64_t e) { return Source{0, e * parts + part}; }));
        piece = arith::ExtUIOp::create(b, wideType, piece);
        if (part) {
          Value by = arith::ConstantOp::create(b, b.getIntegerAttr(wideType, part * fromBits));
          whole = arith::OrIOp::create(b, whole, arith::ShLIOp::create(b, piece, by));
        } else {
          whole = piece;
        }
      }
      results.push_back(asResult(whole));
      continue;
    }
    Value whole = asInteger(gather(op, r, count, [&](int64_t e) { return Source{0, e / parts}; }));
    SmallVector<uint64_t> shifts;
    for (int64_t i = 0; i < lanes; ++i) {
      shifts.push_back(i % parts * toBits);
    }
    Value piece = arith::ShRUIOp::create(b, whole, warp->table(shifts, wideType));
    results.push_back(asResult(arith::TruncIOp::create(b, narrowType, piece)));
  }
  wide[op.getResult()] = results;
  return success();
}

LogicalResult VectorSpreader::emitReduction(vector::ReductionOp op) {
  auto type = cast<VectorType>(op.getVector().getType());
  int64_t count = type.getNumElements();
  if (!isWide(type)) {
    mapping.map(op.getResult(), b.clone(*op, mapping)->getResult(0));
    return success();
  }
  // Lanes past the vector's end take part with what changes nothing: zero in sums, any element where one is chosen.
  const bool isSum = op.getKind() == vector::CombiningKind::ADD;
  if (!isSum && !llvm::is_contained({vector::CombiningKind::MINNUMF, vector::CombiningKind::MAXNUMF,
                                     vector::CombiningKind::MINIMUMF, vector::CombiningKind::MAXIMUMF,
                                     vector::CombiningKind::MINSI, vector::CombiningKind::MAXSI,
                                     vector::CombiningKind::MINUI, vector::CombiningKind::MAXUI},
                                    op.getKind())) {
    return fail(op);
  }
  Registers registers = wide.lookup(op.getVector());
  const auto width = static_cast<int64_t>(llvm::PowerOf2Ceil(std::min(count, lanes)));
  if (count % lanes && count % lanes != width) {
    Value neutral = isSum ? arith::ConstantOp::create(b, b.getZeroAttr(type.getElementType())).getResult()
                          : broadcastElement(op.getVector(), 0);
    Value &last = registers.back();
    const auto number = static_cast<int64_t>(registers.size()) - 1;
    last = arith::SelectOp::create(b, isBelow(number, count), last, neutral);
  }
  Value sum;
  for (Value value : registers) {
    sum = sum ? vector::makeArithReduction(b, b.getLoc(), op.getKind(), sum, value) : value;
  }
  for (int64_t step = width / 2; step >= 1; step /= 2) {
    Value other = arith::XOrIOp::create(b, lane, word(step));
    sum = vector::makeArithReduction(b, b.getLoc(), op.getKind(), sum, warp->shuffle(sum, other));
  }
  // Lanes past the vector's end added up something else.
  if (width < lanes) {
    sum = warp->shuffle(sum, word(0));
  }
  if (op.getAcc()) {
    sum = vector::makeArithReduction(b, b.getLoc(), op.getKind(), mapping.lookup(op.getAcc()), sum);
  }
  mapping.map(op.getResult(), sum);
  return success();
}

LogicalResult VectorSpreader::emitOp(Operation *op) {
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    return emitFor(loop);
  }
  if (isa<scf::ParallelOp>(op)) {
    // Lanes divide its turns (Turns.cpp), which are about numbers.
    const bool hasWide = op->walk([](Operation *inner) {
                             return WalkResult(failure(llvm::any_of(inner->getResultTypes(), isWide)));
                           }).wasInterrupted();
    if (hasWide) {
      return fail(op);
    }
    b.clone(*op, mapping);
    return success();
  }
  if (auto branch = dyn_cast<scf::IfOp>(op)) {
    return emitIf(branch);
  }
  if (auto alloca = dyn_cast<memref::AllocaOp>(op)) {
    return emitAlloca(alloca);
  }
  if (isa<memref::PrefetchOp>(op)) {
    return success();
  }
  const bool touchesWide = llvm::any_of(op->getOperandTypes(), isWide) || llvm::any_of(op->getResultTypes(), isWide);
  if (isa<memref::StoreOp, vector::StoreOp, vector::MaskedStoreOp>(op) ||
      (isa<vector::LoadOp, vector::MaskedLoadOp>(op) && touchesWide)) {
    return emitAccess(op);
  }
  if (auto cast = dyn_cast<vector::BitCastOp>(op); cast && touchesWide) {
    return emitBitCast(cast);
  }
  if (!touchesWide) {
    if (op->getNumRegions()) {
      return fail(op);
    }
    b.clone(*op, mapping);
    return success();
  }
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    return emitConstant(constant);
  }
  if (auto reduction = dyn_cast<vector::ReductionOp>(op)) {
    return emitReduction(reduction);
  }
  if (auto extract = dyn_cast<vector::ExtractOp>(op)) {
    if (!isa<VectorType>(extract.getType()) && extract.getMixedPosition().size() == 1) {
      OpFoldResult position = extract.getMixedPosition()[0];
      if (auto constant = getConstantIntValue(position)) {
        mapping.map(extract.getResult(), broadcastElement(extract.getSource(), *constant));
        return success();
      }
    }
    return fail(op);
  }
  if (auto mask = dyn_cast<vector::CreateMaskOp>(op)) {
    Value count = arith::IndexCastOp::create(b, b.getI32Type(), mapping.lookup(mask.getOperands()[0]));
    Registers values;
    for (int64_t r = 0; r < registersOf(mask.getType()); ++r) {
      values.push_back(arith::CmpIOp::create(b, arith::CmpIPredicate::slt, elementNumber(r), count));
    }
    wide[mask.getResult()] = values;
    return success();
  }
  if (auto mask = dyn_cast<vector::ConstantMaskOp>(op)) {
    Registers values;
    for (int64_t r = 0; r < registersOf(mask.getType()); ++r) {
      values.push_back(isBelow(r, mask.getMaskDimSizes()[0]));
    }
    wide[mask.getResult()] = values;
    return success();
  }
  if (isa<vector::StepOp>(op)) {
    Registers values;
    for (int64_t r = 0; r < registersOf(op->getResult(0).getType()); ++r) {
      values.push_back(arith::IndexCastOp::create(b, b.getIndexType(), elementNumber(r)));
    }
    wide[op->getResult(0)] = values;
    return success();
  }
  if (auto broadcast = dyn_cast<vector::BroadcastOp>(op); broadcast && !isa<VectorType>(broadcast.getSourceType())) {
    wide[op->getResult(0)] = Registers(registersOf(op->getResult(0).getType()), mapping.lookup(broadcast.getSource()));
    return success();
  }
  if (OpTrait::hasElementwiseMappableTraits(op) || isa<vector::FMAOp>(op)) {
    if (!isWide(op->getResult(0).getType())) {
      return fail(op);
    }
    return emitElementwise(op);
  }
  for (OpResult result : op->getResults()) {
    std::optional<ElementMap> map = movementOf(op, result.getResultNumber());
    auto type = dyn_cast<VectorType>(result.getType());
    if (!map || !type || type.getRank() != 1) {
      return fail(op);
    }
    int64_t count = type.getNumElements();
    if (isWide(type)) {
      Registers values;
      for (int64_t r = 0; r < registersOf(type); ++r) {
        values.push_back(gather(op, r, count, *map));
      }
      wide[result] = values;
      continue;
    }
    Registers elements;
    for (int64_t e = 0; e < count; ++e) {
      Source source = (*map)(e);
      Value operand = op->getOperand(source.operand);
      elements.push_back(!isa<VectorType>(operand.getType()) ? mapping.lookup(operand)
                         : isWide(operand.getType())
                             ? broadcastElement(operand, source.element)
                             : vector::ExtractOp::create(b, mapping.lookup(operand), source.element).getResult());
    }
    mapping.map(result, vector::FromElementsOp::create(b, type, elements).getResult());
  }
  return success();
}

} // namespace

LogicalResult kvc::spreadVectors(func::FuncOp kernel, const TeamFacts &facts) {
  return VectorSpreader(kernel, facts).run();
}
