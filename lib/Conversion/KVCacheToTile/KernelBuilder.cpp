//===- KernelBuilder.cpp - Makes a kernel and its dispatch ----------------===//
#include "KernelBuilder.h"

#include "gguf/BlockFormats.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/SymbolTable.h"

using namespace mlir;
using namespace kvc;

/// The blocks of an encoded tensor: rows of bytes.
static MemRefType encodedMemoryType(RankedTensorType tensor, kvcache::EncodedAttr encoded) {
  const gguf::BlockFormat &format = *llvm::find_if(
      gguf::blockFormats(), [&](const gguf::BlockFormat &row) { return StringRef(row.encoding) == encoded.getName(); });
  SmallVector<int64_t> shape(tensor.getShape());
  shape.back() = shape.back() / format.valuesPerBlock * format.bytesPerBlock;
  return MemRefType::get(shape, IntegerType::get(tensor.getContext(), 8));
}

static Type kernelArgumentType(Type type) {
  if (auto tensor = dyn_cast<RankedTensorType>(type)) {
    if (auto encoded = dyn_cast_or_null<kvcache::EncodedAttr>(tensor.getEncoding())) {
      return encodedMemoryType(tensor, encoded);
    }
    return MemRefType::get(tensor.getShape(), tensor.getElementType());
  }
  return type;
}

KernelBuilder::KernelBuilder(ImplicitLocOpBuilder &host, StringRef name, ValueRange inputs, ValueRange outputs)
    : body(host.getLoc(), host.getContext()), host(host), inputs(inputs), outputs(outputs) {
  auto hostFunction = host.getInsertionBlock()->getParent()->getParentOfType<func::FuncOp>();
  auto module = hostFunction->getParentOfType<ModuleOp>();
  SmallVector<Type> types;
  for (Value operand : llvm::concat<const Value>(this->inputs, this->outputs)) {
    types.push_back(kernelArgumentType(operand.getType()));
  }
  types.push_back(host.getIndexType());
  function = func::FuncOp::create(host.getLoc(), name, host.getFunctionType(types, {}));
  function.setPrivate();
  function->setAttr(tile::TileDialect::kernelAttr, host.getUnitAttr());
  // A symbol table made anew for each kernel would be quadratic; try numbered names instead.
  std::string unique = name.str();
  for (unsigned i = 0; module.lookupSymbol(unique); ++i) {
    unique = (name + "_" + Twine(i)).str();
  }
  function.setSymName(unique);
  module.getBody()->push_back(function);
  body.setInsertionPointToStart(function.addEntryBlock());
  item = function.getArguments().back();
}

ResultRange KernelBuilder::dispatch(Value items) {
  func::ReturnOp::create(body);
  return tile::DispatchOp::create(host, FlatSymbolRefAttr::get(function.getSymNameAttr()), items, inputs, outputs)
      .getResults();
}

Value kvc::createEmpty(ImplicitLocOpBuilder &host, RankedTensorType type, ValueRange dynamic) {
  return tensor::EmptyOp::create(host, type.getShape(), type.getElementType(), dynamic);
}

Value kvc::createIndex(ImplicitLocOpBuilder &b, int64_t value) { return arith::ConstantIndexOp::create(b, value); }
Value kvc::createAdd(ImplicitLocOpBuilder &b, Value x, Value y) { return arith::AddIOp::create(b, x, y); }
Value kvc::createMul(ImplicitLocOpBuilder &b, Value x, Value y) { return arith::MulIOp::create(b, x, y); }

static scf::ForOp createLoop(ImplicitLocOpBuilder &b, Value from, Value to, int64_t step, ValueRange carried) {
  return scf::ForOp::create(b, from, to, createIndex(b, step), carried);
}

void kvc::createFor(ImplicitLocOpBuilder &b, Value from, Value to, int64_t step, function_ref<void(Value)> body) {
  auto loop = createLoop(b, from, to, step, {});
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  body(loop.getInductionVar());
}

void kvc::createFor(ImplicitLocOpBuilder &b, Value from, Value to, function_ref<void(Value)> body) {
  createFor(b, from, to, 1, body);
}

ResultRange kvc::createFor(ImplicitLocOpBuilder &b, Value from, Value to, ValueRange start,
                           function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  auto loop = createLoop(b, from, to, 1, start);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  scf::YieldOp::create(b, body(loop.getInductionVar(), loop.getRegionIterArgs()));
  return loop.getResults();
}

Value kvc::createFor(ImplicitLocOpBuilder &b, Value from, Value to, Value start,
                     function_ref<Value(Value, Value)> body) {
  auto one = [&](Value i, ValueRange carried) { return SmallVector<Value>{body(i, carried[0])}; };
  return createFor(b, from, to, ValueRange{start}, one)[0];
}

void kvc::createIf(ImplicitLocOpBuilder &b, Value condition, function_ref<void()> yes) {
  auto branch = scf::IfOp::create(b, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  yes();
}

Value kvc::createIf(ImplicitLocOpBuilder &b, Type type, Value condition, function_ref<Value()> yes,
                    function_ref<Value()> no) {
  auto branch = scf::IfOp::create(b, type, condition, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(b, yes());
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, no());
  return branch.getResult(0);
}
