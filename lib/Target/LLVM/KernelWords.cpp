//===- KernelWords.cpp - Arguments of kernels as words --------------------===//
#include "kvc/Target/LLVM/KernelWords.h"

#include "kvc/Dialect/Tile/IR/Kernels.h"
#include "mlir/Conversion/LLVMCommon/MemRefBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace kvc;

static bool isArgumentType(Type type) {
  auto memref = dyn_cast<MemRefType>(type);
  return (memref && memref.getLayout().isIdentity()) || type.isIndex() || type.isInteger(32) || type.isInteger(64) ||
         type.isF32();
}

Value KernelWords::argument(Type type) {
  if (auto memref = dyn_cast<MemRefType>(type)) {
    return descriptor(memref, next(LLVM::LLVMPointerType::get(b.getContext())));
  }
  return type.isIndex() ? arith::IndexCastOp::create(b, type, next(b.getI64Type())).getResult() : next(type);
}

Value KernelWords::constant(int64_t value) {
  return LLVM::ConstantOp::create(b, b.getI64Type(), b.getI64IntegerAttr(value));
}

Value KernelWords::descriptor(MemRefType type, Value base) {
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

FailureOr<SmallVector<func::FuncOp>> kvc::collectKernels(ModuleOp module) {
  SmallVector<func::FuncOp> kernels;
  for (func::FuncOp function : tile::kernelsOf(module)) {
    if (function.isExternal() || function.getNumResults() != 0 || function.getNumArguments() == 0 ||
        !function.getArgumentTypes().back().isIndex()) {
      return function.emitOpError() << "expects a kernel with a body, no results and the item (index) as its last "
                                       "argument, but got the type "
                                    << function.getFunctionType();
    }
    for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
      if (!isArgumentType(type)) {
        return function.emitOpError() << "expects contiguous memrefs, index, i32, i64 and f32 as arguments, but got "
                                      << type << " for argument " << i;
      }
    }
    kernels.push_back(function);
  }
  return kernels;
}

std::string kvc::renameToBody(func::FuncOp kernel) {
  std::string name = kernel.getSymName().str();
  kernel.setSymName(name + ".body");
  kernel.setPrivate();
  return name;
}
