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

namespace {
struct NVIDIAWrapKernelsPass : kvc::impl::NVIDIAWrapKernelsPassBase<NVIDIAWrapKernelsPass> {
  void runOnOperation() override {
    auto blockIndex = [](ImplicitLocOpBuilder &b) -> Value { return NVVM::BlockIdXOp::create(b, b.getI32Type()); };
    if (failed(wrapTeamKernels(getOperation(), {/*pointerSpace=*/0, markKernel, blockIndex}))) {
      signalPassFailure();
    }
  }
};
} // namespace
