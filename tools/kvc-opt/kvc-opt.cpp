//===- kvc-opt.cpp - Driver of all passes ---------------------------------===//
#include "kvc/InitAll.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  kvc::registerAllDialects(registry);
  kvc::registerAllPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "kvc optimizer driver\n", registry));
}
