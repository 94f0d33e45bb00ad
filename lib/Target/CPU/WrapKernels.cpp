//===- WrapKernels.cpp - The interface of kernels -------------------------===//
//
// Words of the slot array become memref descriptors and numbers, as
// docs/contracts/kernel-abi.md says.
//
//===----------------------------------------------------------------------===//
#include "kvc/Target/CPU/Passes.h"

#include "kvc/Dialect/Tile/IR/Tile.h"
#include "kvc/Target/LLVM/KernelWords.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace kvc {
#define GEN_PASS_DEF_CPUWRAPKERNELSPASS
#include "kvc/Target/CPU/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {
/// Words in memory, behind each other.
class SlotWords : public KernelWords {
public:
  SlotWords(ImplicitLocOpBuilder &b, Value slots, const LLVMTypeConverter &types)
      : KernelWords(b, types), slots(slots) {}

protected:
  Value next(Type type) override {
    Value address = LLVM::GEPOp::create(b, LLVM::LLVMPointerType::get(b.getContext()), b.getI64Type(), slots,
                                        ArrayRef<LLVM::GEPArg>{count++});
    return LLVM::LoadOp::create(b, type, address);
  }

private:
  Value slots;
  int32_t count = 0;
};

struct CPUWrapKernelsPass : kvc::impl::CPUWrapKernelsPassBase<CPUWrapKernelsPass> {
  void runOnOperation() override {
    FailureOr<SmallVector<func::FuncOp>> kernels = collectKernels(getOperation());
    if (failed(kernels)) {
      return signalPassFailure();
    }
    for (func::FuncOp kernel : *kernels) {
      wrap(kernel);
    }
  }

  void wrap(func::FuncOp kernel) {
    unsigned count = kernel.getNumArguments();
    ImplicitLocOpBuilder b(kernel.getLoc(), kernel);
    Type pointer = LLVM::LLVMPointerType::get(&getContext());
    auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(&getContext()), {pointer, b.getI64Type(), pointer});
    auto wrapper = LLVM::LLVMFuncOp::create(b, renameToBody(kernel), type);
    b.setInsertionPointToStart(wrapper.addEntryBlock(b));
    LLVMTypeConverter types(&getContext());
    SlotWords words(b, wrapper.getArgument(0), types);
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
  }
};
} // namespace
