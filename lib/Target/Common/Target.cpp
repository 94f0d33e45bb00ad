//===- Target.cpp - The table of targets ----------------------------------===//
#include "kvc/Target/Target.h"

#include "kvc/Dialect/Tile/IR/Tile.h"
#include "mlir/IR/BuiltinOps.h"

using namespace kvc;

static constexpr Target targetTable[] = {
    {"x86-64-v3", "x86_64-unknown-linux-gnu", "x86-64-v3", "", 8, 1, 4, 2, 512 << 10},
    {"x86-64-v4", "x86_64-unknown-linux-gnu", "x86-64-v4", "-prefer-256-bit", 16, 1, 8, 2, 1 << 20},
    {"x86-64-v4-bf16", "x86_64-unknown-linux-gnu", "x86-64-v4", "+avx512bf16,+avx512vnni,-prefer-256-bit", 16, 2, 8, 2,
     1 << 20},
    {"aarch64", "aarch64-unknown-linux-gnu", "generic", "+neon", 4, 1, 8, 2, 512 << 10},
};

llvm::ArrayRef<Target> kvc::getTargets() { return targetTable; }

const Target *kvc::lookupTarget(llvm::StringRef name) {
  for (const Target &target : targetTable) {
    if (target.name == name) {
      return &target;
    }
  }
  return nullptr;
}

const Target *kvc::getTargetOf(mlir::Operation *op) {
  auto module = llvm::dyn_cast<mlir::ModuleOp>(op);
  if (!module) {
    module = op->getParentOfType<mlir::ModuleOp>();
  }
  auto name = module ? module->getAttrOfType<mlir::StringAttr>(tile::TileDialect::targetAttr) : mlir::StringAttr();
  return name ? lookupTarget(name.getValue()) : nullptr;
}
