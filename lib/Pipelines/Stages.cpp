//===- Stages.cpp - The target of a module, the contracts of stages -------===//
//
// What a stage allows stands in one table each for host functions and kernels;
// docs/contracts/stages.md says the same in words.
//
//===----------------------------------------------------------------------===//
#include "kvc/Dialect/Tile/IR/Kernels.h"
#include "kvc/Pipelines/Pipelines.h"
#include "kvc/Target/Target.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace kvc {
#define GEN_PASS_DEF_SETTARGETPASS
#define GEN_PASS_DEF_VERIFYSTAGEPASS
#include "kvc/Pipelines/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

static std::string targetNames() {
  std::string names;
  for (const Target &target : getTargets()) {
    names += (names.empty() ? "" : ", ") + target.name.str();
  }
  return names;
}

namespace {
struct SetTargetPass : kvc::impl::SetTargetPassBase<SetTargetPass> {
  using SetTargetPassBase::SetTargetPassBase;
  void runOnOperation() override {
    if (!lookupTarget(target)) {
      getOperation().emitError() << "expects one of the targets " << targetNames() << ", but got '" << target << "'";
      return signalPassFailure();
    }
    getOperation()->setAttr(tile::TileDialect::targetAttr, StringAttr::get(&getContext(), target));
  }
};

/// Dialects all of whose operations may appear, single operations, and which types.
struct Allowed {
  ArrayRef<StringRef> dialects;
  ArrayRef<StringRef> operations;
  bool (*type)(Type);
};

bool noKVCType(Type type) { return !isa<kvcache::KVCacheDialect, tile::TileDialect>(type.getDialect()); }
bool noSite(Type type) { return !isa<kvcache::SiteType>(type); }

constexpr StringRef kvcacheDialects[] = {"func", "kvcache", "tile", "linalg", "tensor", "arith", "math", "affine"};
constexpr StringRef planDialects[] = {"arith"};
constexpr StringRef planOperations[] = {
    "func.func",           "cf.assert",           "func.return",           "tile.dispatch",        "tile.reserve",
    "tile.release",        "tile.clone",          "tile.create",           "tile.reserve_lengths", "tile.rows",
    "tile.entries",        "tile.max_rows",       "tile.single_rows",      "tile.processors",      "tile.max_length",
    "tile.make_selection", "kvcache.weight",      "kvcache.fork",          "tensor.empty",         "tensor.dim",
    "tensor.cast",         "tensor.expand_shape", "tensor.collapse_shape", "tensor.extract_slice", "tensor.extract"};
constexpr StringRef tileDialects[] = {"func",   "tile",  "linalg", "scf",  "memref",
                                      "vector", "arith", "math",   "llvm", "ub"};
constexpr StringRef vectorDialects[] = {"func", "scf", "memref", "vector", "arith", "math", "llvm", "ub", "gpu"};
constexpr StringRef llvmDialects[] = {"llvm"};

const Allowed kvcacheHost{kvcacheDialects, {}, noSite};
const Allowed planHost{planDialects, planOperations, noSite};
const Allowed tileKernel{tileDialects, {}, noSite};
/// Instructions on lanes that each target's own lowering finds.
constexpr StringRef vectorOperations[] = {
    "tile.pair_dot",     "tile.lane_mma",   "tile.load_matrices",  "tile.copy_async",    "tile.commit_async",
    "tile.wait_async",   "tile.group_mma",  "tile.group_mma_wait", "tile.publish",       "tile.phase_init",
    "tile.phase_arrive", "tile.phase_wait", "tile.part_barrier",   "tile.set_registers", "tile.copy_warp",
    "tile.box_map",      "tile.copy_boxes", "tile.warp_barrier",   "tile.wait_warp",     "tile.load_transposed"};
const Allowed vectorKernel{vectorDialects, vectorOperations, noKVCType};
const Allowed llvmOnly{llvmDialects, {}, noKVCType};

struct VerifyStagePass : kvc::impl::VerifyStagePassBase<VerifyStagePass> {
  using VerifyStagePassBase::VerifyStagePassBase;

  void runOnOperation() override {
    std::optional<Stage> parsed = parseStage(stage);
    if (!parsed) {
      getOperation().emitError() << "expects one of the stages kvcache, tile, vector, llvm, but got '" << stage << "'";
      return signalPassFailure();
    }
    if (*parsed >= Stage::Tile && *parsed < Stage::LLVM && !getTargetOf(getOperation())) {
      getOperation().emitError() << "stage " << stage << " expects the attribute " << tile::TileDialect::targetAttr
                                 << " of a known target";
      return signalPassFailure();
    }
    for (Operation &op : *getOperation().getBody()) {
      if (failed(verify(&op, *parsed))) {
        return signalPassFailure();
      }
    }
  }

  LogicalResult verify(Operation *top, Stage parsed) {
    bool isKernel = tile::isKernel(top);
    const Allowed *allowed = parsed == Stage::LLVM      ? &llvmOnly
                             : isKernel                 ? (parsed == Stage::Vector ? &vectorKernel : &tileKernel)
                             : parsed == Stage::KVCache ? &kvcacheHost
                                                        : &planHost;
    WalkResult result = top->walk<WalkOrder::PreOrder>([&](Operation *op) {
      return failed(verify(op, *allowed, isKernel)) ? WalkResult::interrupt() : WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }

  LogicalResult verify(Operation *op, const Allowed &allowed, bool isKernel) {
    StringRef dialect = op->getName().getDialectNamespace();
    bool known = llvm::is_contained(allowed.dialects, dialect) ||
                 llvm::is_contained(allowed.operations, op->getName().getStringRef());
    if (!known || (isa<kvcache::AttendOp>(op))) {
      return op->emitOpError() << "is not allowed in " << (isKernel ? "a kernel" : "a host function") << " of stage "
                               << stage;
    }
    auto checkType = [&](Type type) -> LogicalResult {
      if (!allowed.type(type)) {
        return op->emitOpError() << "has a value of type " << type << ", which stage " << stage << " does not have";
      }
      return success();
    };
    for (Type type : op->getResultTypes()) {
      if (failed(checkType(type))) {
        return failure();
      }
    }
    for (Region &region : op->getRegions()) {
      for (Block &block : region) {
        for (Type type : block.getArgumentTypes()) {
          if (failed(checkType(type))) {
            return failure();
          }
        }
      }
    }
    for (NamedAttribute attribute : op->getAttrs()) {
      if (isa<kvcache::ParamAttr>(attribute.getValue())) {
        return op->emitOpError() << "has a method's parameter as the attribute " << attribute.getName()
                                 << ", which stage " << stage << " does not have";
      }
    }
    return success();
  }
};
} // namespace
