//===- WrapKernels.cpp - The interface of kernels -------------------------===//
#include "kvc/Target/NVIDIA/Passes.h"

#include "kvc/Dialect/Tile/IR/Lanes.h"
#include "kvc/Target/LLVM/TeamKernels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace kvc {
#define GEN_PASS_DEF_NVIDIAWRAPKERNELSPASS
#include "kvc/Target/NVIDIA/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

static void markKernel(LLVM::LLVMFuncOp entry, Operation *body, int64_t lanes) {
  Builder b(entry.getContext());
  entry->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), b.getUnitAttr());
  entry->setAttr(NVVM::NVVMDialect::getReqntidAttrName(), b.getDenseI32ArrayAttr({static_cast<int32_t>(lanes), 1, 1}));
  bool resizes = body->walk([](tile::SetRegistersOp) { return WalkResult::interrupt(); }).wasInterrupted();
  if (resizes) {
    // Registers move between warps only where a kernel says how many teams a processor has.
    entry->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(), b.getI32IntegerAttr(1));
  }
}

/// A tensor map is passed by value and read where the launch has put it: a copy of it would be none to the hardware.
static void markTensorMap(LLVM::LLVMFuncOp entry, unsigned number) {
  constexpr int64_t bytes = 128, alignment = 64;
  Builder b(entry.getContext());
  entry.setArgAttr(number, LLVM::LLVMDialect::getByValAttrName(),
                   TypeAttr::get(LLVM::LLVMArrayType::get(b.getI8Type(), bytes)));
  entry.setArgAttr(number, LLVM::LLVMDialect::getAlignAttrName(), b.getI64IntegerAttr(alignment));
  entry.setArgAttr(number, NVVM::NVVMDialect::getGridConstantAttrName(), b.getUnitAttr());
}

namespace {
struct NVIDIAWrapKernelsPass : kvc::impl::NVIDIAWrapKernelsPassBase<NVIDIAWrapKernelsPass> {
  void runOnOperation() override {
    auto blockIndex = [](ImplicitLocOpBuilder &b) -> Value { return NVVM::BlockIdXOp::create(b, b.getI32Type()); };
    if (failed(wrapTeamKernels(getOperation(), {/*pointerSpace=*/0, markKernel, blockIndex, markTensorMap}))) {
      signalPassFailure();
    }
  }
};
} // namespace
