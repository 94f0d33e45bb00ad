//===- WrapKernels.cpp - The interface of kernels -------------------------===//
//
// Parameters are the words of docs/contracts/kernel-abi.md, eight bytes each; the item is the block's index.
//
//===----------------------------------------------------------------------===//
#include "kvc/Target/NVIDIA/Passes.h"

#include "kvc/Dialect/Tile/IR/Lanes.h"
#include "kvc/Target/LLVM/KernelWords.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

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

/// Words that are parameters, eight bytes each.
class ParameterWords : public KernelWords {
public:
  ParameterWords(ImplicitLocOpBuilder &b, ValueRange values, const LLVMTypeConverter &types)
      : KernelWords(b, types), values(values) {}

protected:
  Value next(Type type) override {
    Value word = values[count++];
    if (word.getType() == type) {
      return word;
    }
    Value low = arith::TruncIOp::create(b, b.getI32Type(), word);
    return type.isF32() ? arith::BitcastOp::create(b, type, low).getResult() : low;
  }

private:
  ValueRange values;
  size_t count = 0;
};

struct NVIDIAWrapKernelsPass : kvc::impl::NVIDIAWrapKernelsPassBase<NVIDIAWrapKernelsPass> {
  void runOnOperation() override {
    FailureOr<SmallVector<func::FuncOp>> kernels = collectKernels(getOperation());
    if (failed(kernels)) {
      return signalPassFailure();
    }
    for (func::FuncOp kernel : *kernels) {
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
    for (Type type : kernel.getArgumentTypes().drop_back()) {
      appendParameters(type, parameters);
    }
    ImplicitLocOpBuilder b(kernel.getLoc(), kernel);
    LLVMTypeConverter types(&getContext());
    placeStaging(kernel, types);
    auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(&getContext()), parameters);
    auto entry = LLVM::LLVMFuncOp::create(b, renameToBody(kernel), type);
    entry->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), b.getUnitAttr());
    entry->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                   b.getDenseI32ArrayAttr({static_cast<int32_t>(team.getInt()), 1, 1}));
    bool resizes = kernel.walk([](tile::SetRegistersOp) { return WalkResult::interrupt(); }).wasInterrupted();
    if (resizes) {
      // Registers move between warps only where a kernel says how many teams a processor has.
      entry->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(), b.getI32IntegerAttr(1));
    }
    b.setInsertionPointToStart(entry.addEntryBlock(b));
    ParameterWords words(b, entry.getArguments(), types);
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
  void placeStaging(func::FuncOp kernel, const LLVMTypeConverter &types) {
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
      ParameterWords words(b, size, types);
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
