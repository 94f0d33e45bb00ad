//===- WrapKernels.cpp - The interface of kernels -------------------------===//
//
// Words of the slot array become memref descriptors and numbers, as
// docs/contracts/kernel-abi.md says.
//
//===----------------------------------------------------------------------===//
#include "kvc/Target/CPU/Passes.h"

#include "kvc/Dialect/Tile/IR/Tile.h"
#include "mlir/Conversion/LLVMCommon/MemRefBuilder.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace kvc {
#define GEN_PASS_DEF_CPUWRAPKERNELSPASS
#include "kvc/Target/CPU/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {
/// Reads the words of one kernel's arguments in order.
class Words {
public:
  Words(ImplicitLocOpBuilder &b, Value slots, const LLVMTypeConverter &types) : b(b), slots(slots), types(types) {}

  Value next(Type type) {
    Value address = LLVM::GEPOp::create(b, LLVM::LLVMPointerType::get(b.getContext()), b.getI64Type(), slots,
                                        ArrayRef<LLVM::GEPArg>{count++});
    return LLVM::LoadOp::create(b, type, address);
  }

  Value argument(Type type) {
    if (auto memref = dyn_cast<MemRefType>(type)) {
      Value base = next(LLVM::LLVMPointerType::get(b.getContext()));
      return descriptor(memref, base);
    }
    if (type.isIndex()) {
      return arith::IndexCastOp::create(b, type, next(b.getI64Type()));
    }
    return next(type);
  }

  Value descriptor(MemRefType type, Value base) {
    auto memory = MemRefDescriptor::poison(b, b.getLoc(), types.convertType(type));
    memory.setAllocatedPtr(b, b.getLoc(), base);
    memory.setAlignedPtr(b, b.getLoc(), base);
    memory.setConstantOffset(b, b.getLoc(), 0);
    SmallVector<Value> sizes;
    for (int64_t size : type.getShape()) {
      sizes.push_back(ShapedType::isDynamic(size) ? next(b.getI64Type()) : constant(size));
    }
    Value stride = constant(1);
    for (int64_t i = type.getRank() - 1; i >= 0; --i) {
      memory.setSize(b, b.getLoc(), i, sizes[i]);
      memory.setStride(b, b.getLoc(), i, stride);
      if (i) {
        stride = LLVM::MulOp::create(b, stride, sizes[i]);
      }
    }
    return UnrealizedConversionCastOp::create(b, Type(type), Value(memory)).getResult(0);
  }

private:
  Value constant(int64_t value) { return LLVM::ConstantOp::create(b, b.getI64Type(), b.getI64IntegerAttr(value)); }

  ImplicitLocOpBuilder &b;
  Value slots;
  const LLVMTypeConverter &types;
  int32_t count = 0;
};

struct CPUWrapKernelsPass : kvc::impl::CPUWrapKernelsPassBase<CPUWrapKernelsPass> {
  void runOnOperation() override {
    SmallVector<func::FuncOp> kernels;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function->hasAttr(tile::TileDialect::kernelAttr)) {
        kernels.push_back(function);
      }
    }
    for (func::FuncOp kernel : kernels) {
      if (failed(wrap(kernel))) {
        return signalPassFailure();
      }
    }
  }

  static bool isWord(Type type) {
    auto memref = dyn_cast<MemRefType>(type);
    return (memref && memref.getLayout().isIdentity()) || type.isIndex() || type.isInteger(32) || type.isInteger(64) ||
           type.isF32();
  }

  LogicalResult wrap(func::FuncOp kernel) {
    unsigned count = kernel.getNumArguments();
    if (kernel.isExternal() || kernel.getNumResults() != 0 || count == 0 ||
        !kernel.getArgumentTypes().back().isIndex()) {
      return kernel.emitOpError() << "expects a kernel with a body, no results and the item (index) as its last "
                                     "argument, but got the type "
                                  << kernel.getFunctionType();
    }
    for (auto [i, type] : llvm::enumerate(kernel.getArgumentTypes())) {
      if (!isWord(type)) {
        return kernel.emitOpError() << "expects contiguous memrefs, index, i32, i64 and f32 as arguments, but got "
                                    << type << " for argument " << i;
      }
    }
    ImplicitLocOpBuilder b(kernel.getLoc(), kernel);
    Type pointer = LLVM::LLVMPointerType::get(&getContext());
    auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(&getContext()), {pointer, b.getI64Type(), pointer});
    std::string name = kernel.getSymName().str();
    kernel.setSymName(name + ".body");
    kernel.setPrivate();
    auto wrapper = LLVM::LLVMFuncOp::create(b, name, type);
    b.setInsertionPointToStart(wrapper.addEntryBlock(b));
    LLVMTypeConverter types(&getContext());
    Words words(b, wrapper.getArgument(0), types);
    bool hasScratch = kernel->hasAttr(tile::TileDialect::scratchAttr);
    SmallVector<Value> arguments;
    for (auto [i, type] : llvm::enumerate(kernel.getArgumentTypes())) {
      if (i + 1 == count) {
        arguments.push_back(arith::IndexCastOp::create(b, type, wrapper.getArgument(1)));
      } else if (hasScratch && i + 2 == count) {
        arguments.push_back(words.descriptor(cast<MemRefType>(type), wrapper.getArgument(2)));
      } else {
        arguments.push_back(words.argument(type));
      }
    }
    func::CallOp::create(b, kernel, arguments);
    LLVM::ReturnOp::create(b, ValueRange{});
    return success();
  }
};
} // namespace
