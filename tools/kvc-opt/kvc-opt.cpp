//===- kvc-opt.cpp - Driver of all passes ---------------------------------===//
#include "kvc/InitAll.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

#include <string>
#include <vector>

/// `--kvc-stop-after=<stage> [--kvc-target=<name>]` is short for `--kvc-pipeline=stop-after=<stage> target=<name>`.
static std::vector<std::string> expandArguments(int argc, char **argv) {
  std::vector<std::string> arguments;
  std::string stage, target;
  for (int i = 0; i < argc; ++i) {
    llvm::StringRef argument = argv[i];
    argument.consume_front("-");
    if (argument.consume_front("-kvc-stop-after=")) {
      stage = " stop-after=" + argument.str();
    } else if (argument.consume_front("-kvc-target=")) {
      target = " target=" + argument.str();
    } else {
      arguments.push_back(argv[i]);
    }
  }
  if (!stage.empty()) {
    arguments.push_back("--kvc-pipeline=" + stage + target);
  }
  return arguments;
}

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  kvc::registerAllDialects(registry);
  kvc::registerAllPasses();
  std::vector<std::string> arguments = expandArguments(argc, argv);
  std::vector<char *> pointers;
  for (std::string &argument : arguments) {
    pointers.push_back(argument.data());
  }
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(int(pointers.size()), pointers.data(), "kvc optimizer driver\n", registry));
}
