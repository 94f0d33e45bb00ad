//===- WrapKernels.cpp - The interface of kernels -------------------------===//
//
// Parameters are the words of docs/contracts/kernel-abi.md, eight bytes each; the item is the block's index.
//
//===----------------------------------------------------------------------===//
#include "kvc/Target/NVIDIA/Passes.h"

#include "kvc/Dialect/Tile/IR/Tile.h"
#include "mlir/Conversion/LLVMCommon/MemRefBuilder.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace kvc {
#define GEN_PASS_DEF_NVIDIAWRAPKERNELSPASS
#include "kvc/Target/NVIDIA/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {
constexpr unsigned sharedSpace = 3;
/// Swizzles and copies of shared memory want its start at a multiple of this.
constexpr uint64_t sharedAlignment = 1024;

bool isWord(Type type) {
  auto memref = dyn_cast<MemRefType>(type);
  return (memref && memref.getLayout().isIdentity()) || type.isIndex() || type.isInteger(32) || type.isInteger(64) ||
         type.isF32();
}

/// Types of the parameters that an argument takes.
void appendParameters(Type type, SmallVectorImpl<Type> &parameters) {
  Builder b(type.getContext());
  auto memref = dyn_cast<MemRefType>(type);
  if (!memref) {
    parameters.push_back(b.getI64Type());
    return;
  }
  parameters.push_back(LLVM::LLVMPointerType::get(type.getContext()));
  parameters.append(memref.getNumDynamicDims(), b.getI64Type());
}

class Parameters {
public:
  Parameters(ImplicitLocOpBuilder &b, ValueRange values, const LLVMTypeConverter &types)
      : b(b), values(values), types(types) {}

  Value argument(Type type) {
    if (auto memref = dyn_cast<MemRefType>(type)) {
      return descriptor(memref, next());
    }
    Value word = next();
    if (type.isIndex()) {
      return arith::IndexCastOp::create(b, type, word);
    }
    if (type.isInteger(64)) {
      return word;
    }
    Value low = arith::TruncIOp::create(b, b.getI32Type(), word);
    return type.isF32() ? arith::BitcastOp::create(b, type, low).getResult() : low;
  }

  Value descriptor(MemRefType type, Value base) {
    auto memory = MemRefDescriptor::poison(b, b.getLoc(), types.convertType(type));
    memory.setAllocatedPtr(b, b.getLoc(), base);
    memory.setAlignedPtr(b, b.getLoc(), base);
    memory.setConstantOffset(b, b.getLoc(), 0);
    SmallVector<Value> sizes;
    for (int64_t size : type.getShape()) {
      sizes.push_back(ShapedType::isDynamic(size) ? next() : constant(size));
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

  Value constant(int64_t value) { return LLVM::ConstantOp::create(b, b.getI64Type(), b.getI64IntegerAttr(value)); }

private:
  Value next() { return values[count++]; }

  ImplicitLocOpBuilder &b;
  ValueRange values;
  const LLVMTypeConverter &types;
  size_t count = 0;
};

struct NVIDIAWrapKernelsPass : kvc::impl::NVIDIAWrapKernelsPassBase<NVIDIAWrapKernelsPass> {
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

  LogicalResult wrap(func::FuncOp kernel) {
    auto team = kernel->getAttrOfType<IntegerAttr>(tile::TileDialect::teamAttr);
    if (!team) {
      return kernel.emitOpError() << "expects the attribute " << tile::TileDialect::teamAttr
                                  << ", the lanes of a team, but got none";
    }
    SmallVector<Type> parameters;
    for (auto [i, type] : llvm::enumerate(kernel.getArgumentTypes().drop_back())) {
      if (!isWord(type)) {
        return kernel.emitOpError() << "expects contiguous memrefs, index, i32, i64 and f32 as arguments, but got "
                                    << type << " for argument " << i;
      }
      appendParameters(type, parameters);
    }
    ImplicitLocOpBuilder b(kernel.getLoc(), kernel);
    LLVMTypeConverter types(&getContext());
    if (failed(placeStaging(kernel, types))) {
      return failure();
    }
    auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(&getContext()), parameters);
    std::string name = kernel.getSymName().str();
    kernel.setSymName(name + ".body");
    kernel.setPrivate();
    auto entry = LLVM::LLVMFuncOp::create(b, name, type);
    entry->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), b.getUnitAttr());
    entry->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                   b.getDenseI32ArrayAttr({static_cast<int32_t>(team.getInt()), 1, 1}));
    b.setInsertionPointToStart(entry.addEntryBlock(b));
    Parameters words(b, entry.getArguments(), types);
    SmallVector<Value> arguments;
    for (Type argument : kernel.getArgumentTypes().drop_back()) {
      arguments.push_back(words.argument(argument));
    }
    Value block = NVVM::BlockIdXOp::create(b, b.getI32Type());
    arguments.push_back(arith::IndexCastUIOp::create(b, b.getIndexType(), block));
    func::CallOp::create(b, kernel, arguments);
    LLVM::ReturnOp::create(b, ValueRange{});
    return success();
  }

  /// Dynamic shared memory: an external array without a size, whose extent the launch gives.
  LogicalResult placeStaging(func::FuncOp kernel, const LLVMTypeConverter &types) {
    SmallVector<gpu::DynamicSharedMemoryOp> ops;
    kernel.walk([&](gpu::DynamicSharedMemoryOp op) { ops.push_back(op); });
    for (gpu::DynamicSharedMemoryOp op : ops) {
      LLVM::GlobalOp global = getStaging();
      ImplicitLocOpBuilder b(op.getLoc(), op);
      auto pointer = LLVM::LLVMPointerType::get(&getContext(), sharedSpace);
      Value base = LLVM::AddressOfOp::create(b, pointer, global.getSymName());
      auto type = MemRefType::get({ShapedType::kDynamic}, b.getI8Type(), MemRefLayoutAttrInterface(),
                                  b.getI64IntegerAttr(sharedSpace));
      Value size = LLVM::ConstantOp::create(b, b.getI64Type(), b.getI64IntegerAttr(0));
      Parameters words(b, size, types);
      op.getResult().replaceAllUsesWith(words.descriptor(type, base));
      op.erase();
    }
    // Views of it are of the same memory.
    kernel.walk([&](Operation *op) {
      for (Value result : op->getResults()) {
        auto type = dyn_cast<MemRefType>(result.getType());
        if (type && isa_and_nonnull<gpu::AddressSpaceAttr>(type.getMemorySpace())) {
          Attribute space = IntegerAttr::get(IntegerType::get(&getContext(), 64), sharedSpace);
          result.setType(MemRefType::get(type.getShape(), type.getElementType(), type.getLayout(), space));
        }
      }
    });
    return success();
  }

  LLVM::GlobalOp getStaging() {
    constexpr StringLiteral name = "staging";
    if (auto found = getOperation().lookupSymbol<LLVM::GlobalOp>(name)) {
      return found;
    }
    OpBuilder b = OpBuilder::atBlockBegin(getOperation().getBody());
    auto type = LLVM::LLVMArrayType::get(b.getI8Type(), 0);
    return LLVM::GlobalOp::create(b, getOperation().getLoc(), type, /*isConstant=*/false, LLVM::Linkage::External, name,
                                  Attribute(), sharedAlignment, sharedSpace);
  }
};
} // namespace
