//===- WrapKernels.cpp - The interface of kernels -------------------------===//
#include "kvc/Target/AMD/Passes.h"

#include "kvc/Target/LLVM/TeamKernels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/ROCDLDialect.h"

namespace kvc {
#define GEN_PASS_DEF_AMDWRAPKERNELSPASS
#include "kvc/Target/AMD/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

static void markKernel(LLVM::LLVMFuncOp entry, Operation *, int64_t lanes) {
  MLIRContext *context = entry.getContext();
  Builder b(context);
  const std::string range = std::to_string(lanes) + "," + std::to_string(lanes);
  ROCDL::ROCDLDialect &dialect = *context->getLoadedDialect<ROCDL::ROCDLDialect>();
  dialect.getKernelAttrHelper().setAttr(entry, b.getUnitAttr());
  // Registers are divided for teams of that size alone.
  dialect.getFlatWorkGroupSizeAttrHelper().setAttr(entry, b.getStringAttr(range));
  dialect.getReqdWorkGroupSizeAttrHelper().setAttr(entry, b.getDenseI32ArrayAttr({static_cast<int32_t>(lanes), 1, 1}));
}

namespace {
struct AMDWrapKernelsPass : kvc::impl::AMDWrapKernelsPassBase<AMDWrapKernelsPass> {
  void runOnOperation() override {
    auto blockIndex = [](ImplicitLocOpBuilder &b) -> Value { return ROCDL::BlockIdXOp::create(b, b.getI32Type()); };
    // Pointers of parameters are those of global memory, or every access through them would ask where it goes.
    if (failed(wrapTeamKernels(getOperation(), {globalSpace, markKernel, blockIndex}))) {
      signalPassFailure();
    }
  }
};
} // namespace
