//===- Order.cpp - Reads of operands stay between products ----------------===//
#include "Order.h"

#include "kvc/Dialect/Tile/IR/Lanes.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/ROCDLDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kvc;

void amd::keepReadsBehindProducts(func::FuncOp function) {
  function.walk([](Block *block) {
    bool isBehindProduct = false;
    for (Operation &op : *block) {
      auto read = dyn_cast<vector::LoadOp>(op);
      if (isa<tile::LaneMmaOp>(op)) {
        isBehindProduct = true;
      } else if (isBehindProduct && read && gpu::GPUDialect::hasWorkgroupMemoryAddressSpace(read.getBase().getType())) {
        // Nothing may be moved across.
        OpBuilder b(&op);
        ROCDL::SchedBarrier::create(b, op.getLoc(), b.getI32IntegerAttr(0));
        isBehindProduct = false;
      }
    }
  });
}
