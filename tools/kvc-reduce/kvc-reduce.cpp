//===- kvc-reduce.cpp - Shrinks a failing module -------------------------===//
#include "kvc/InitAll.h"
#include "kvc/Reducer/Reducer.h"
#include "kvc/Support/CommandLine.h"
#include "kvc/Support/Output.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Reducer/Passes.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/WithColor.h"

namespace cl = llvm::cl;

static int fail(const llvm::Twine &message) {
  llvm::WithColor::error(llvm::errs(), "kvc-reduce") << message << "\n";
  return 1;
}

int main(int argc, char **argv) {
  kvc::hideLibraryOptions();
  llvm::InitLLVM init(argc, argv);
  mlir::DialectRegistry registry;
  kvc::registerAllDialects(registry);
  kvc::registerAllPasses();
  kvc::reducer::registerReductionPass();
  mlir::registerReducerPasses();

  cl::opt<std::string> input(cl::Positional, cl::desc("<module>"), cl::init("-"));
  cl::opt<std::string> output("o", cl::desc("where the small module is written"), cl::value_desc("file"),
                              cl::init("-"));
  mlir::PassPipelineCLParser pipeline("", "passes to run; --kvc-reduction is the one that reduces");
  cl::ParseCommandLineOptions(argc, argv, "shrinks a module that fails a test (docs/reducing.md)\n");

  mlir::MLIRContext context(registry);
  context.printOpOnDiagnostic(false);
  auto sources = std::make_shared<llvm::SourceMgr>();
  mlir::SourceMgrDiagnosticHandler handler(*sources, &context);
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(input, sources, mlir::ParserConfig(&context));
  if (!module) {
    return fail("expects a valid module in " + input);
  }
  if (!pipeline.hasAnyOccurrences()) {
    return fail("expects a pass, such as --kvc-reduction=\"test=./fails.sh\", but got none");
  }
  mlir::PassManager pm(&context);
  if (failed(pipeline.addToPipeline(pm,
                                    [](const llvm::Twine &message) {
                                      fail(message);
                                      return mlir::failure();
                                    })) ||
      failed(pm.run(*module))) {
    return 1;
  }
  std::string text;
  llvm::raw_string_ostream os(text);
  module->print(os);
  os << "\n";
  if (llvm::Error error = kvc::writeOutputs({kvc::Output{output, std::move(text)}})) {
    return fail(llvm::toString(std::move(error)));
  }
  return 0;
}
