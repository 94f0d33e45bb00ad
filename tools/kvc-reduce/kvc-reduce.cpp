//===- kvc-reduce.cpp - Shrinks a failing module -------------------------===//
#include "kvc/InitAll.h"
#include "kvc/Reducer/Reducer.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  kvc::registerAllDialects(registry);
  kvc::registerAllPasses();
  kvc::reducer::registerReductionPass();
  mlir::MLIRContext context(registry);
  return mlir::failed(mlir::mlirReduceMain(argc, argv, context));
}
