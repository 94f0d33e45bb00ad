//===- kvc-opt.cpp - Driver of all passes ---------------------------------===//
#include "kvc/InitAll.h"
#include "kvc/Support/CommandLine.h"
#include "kvc/Support/Output.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/WithColor.h"

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

/// The work on one input, whose result is written as a whole.
static llvm::LogicalResult run(const std::string &input, const std::string &output, mlir::DialectRegistry &registry) {
  std::string message, bytes;
  std::unique_ptr<llvm::MemoryBuffer> file = mlir::openInputFile(input, &message);
  if (!file) {
    llvm::WithColor::error(llvm::errs(), "kvc-opt") << message << "\n";
    return llvm::failure();
  }
  llvm::raw_string_ostream os(bytes);
  llvm::LogicalResult result =
      mlir::MlirOptMain(os, std::move(file), registry, mlir::MlirOptMainConfig::createFromCLOptions());
  if (llvm::failed(result) && output != "-") {
    return result;
  }
  // What is right of a split input goes to standard output whatever the rest is.
  if (llvm::Error error = kvc::writeOutputs({kvc::Output{output, std::move(bytes)}})) {
    llvm::WithColor::error(llvm::errs(), "kvc-opt") << llvm::toString(std::move(error)) << "\n";
    return llvm::failure();
  }
  return result;
}

int main(int argc, char **argv) {
  kvc::hideLibraryOptions();
  llvm::InitLLVM init(argc, argv);
  mlir::DialectRegistry registry;
  kvc::registerAllDialects(registry);
  kvc::registerAllPasses();
  std::vector<std::string> arguments = expandArguments(argc, argv);
  std::vector<char *> pointers;
  for (std::string &argument : arguments) {
    pointers.push_back(argument.data());
  }
  int count = int(pointers.size());
  auto [input, output] = mlir::registerAndParseCLIOptions(count, pointers.data(), "kvc optimizer driver\n", registry);
  mlir::MlirOptMainConfig config = mlir::MlirOptMainConfig::createFromCLOptions();
  if (config.shouldListPasses() || config.shouldShowDialects()) {
    return mlir::asMainReturnCode(mlir::MlirOptMain(count, pointers.data(), input, output, registry));
  }
  return mlir::asMainReturnCode(run(input, output, registry));
}
