//===- TileToGPU.cpp - Kernels become the code of one lane ----------------===//
#include "LinearTeam.h"
#include "TeamEmitter.h"
#include "Turns.h"
#include "VectorSpreader.h"

#include "kvc/Conversion/Passes.h"
#include "kvc/Dialect/Tile/IR/Kernels.h"
#include "kvc/Target/Schedule.h"

namespace kvc {
#define GEN_PASS_DEF_CONVERTTILETOGPUPASS
#include "kvc/Conversion/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {
struct ConvertTileToGPUPass : kvc::impl::ConvertTileToGPUPassBase<ConvertTileToGPUPass> {
  void runOnOperation() override {
    const Target *target = getTargetOf(getOperation());
    if (!target || !target->team) {
      return;
    }
    for (func::FuncOp kernel : tile::kernelsOf(getOperation())) {
      if (failed(lowerKernel(kernel, *target))) {
        return signalPassFailure();
      }
    }
  }

  static LogicalResult lowerKernel(func::FuncOp kernel, const Target &target) {
    KernelContext context(kernel, target);
    auto schedule = kernel->getAttrOfType<tile::ScheduleAttr>("tile.schedule");
    if (schedule && failed(TeamEmitter(context, schedule).run())) {
      return failure();
    }
    // The pass before this one left linear layers to teams, or has lowered them.
    const bool isLinear = kernel.walk([](tile::LinearOp) { return WalkResult::interrupt(); }).wasInterrupted();
    if (isLinear && failed(lowerLinearKernel(kernel, *target.team))) {
      return failure();
    }
    SmallVector<Operation *> ops;
    kernel.walk([&](Operation *op) {
      if (isa_and_nonnull<tile::TileDialect>(op->getDialect()) && !op->hasTrait<tile::LaneLevel>()) {
        ops.push_back(op);
      }
    });
    for (Operation *op : ops) {
      FailureOr<bool> lowered = lowerSlotOp(op, context);
      if (failed(lowered)) {
        return failure();
      }
      if (!*lowered) {
        return op->emitOpError() << "has no lowering to teams yet";
      }
    }
    if (failed(context.finish())) {
      return failure();
    }
    if (schedule || isLinear) {
      return success();
    }
    return failed(spreadVectors(kernel, *target.team)) ? failure() : spreadTurns(kernel, *target.team);
  }
};
} // namespace
