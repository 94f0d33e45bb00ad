//===- kvc-lsp-server.cpp - Language server of kvc's IR ------------------===//
#include "kvc/InitAll.h"
#include "kvc/Support/CommandLine.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"

int main(int argc, char **argv) {
  kvc::hideLibraryOptions();
  mlir::DialectRegistry registry;
  kvc::registerAllDialects(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
