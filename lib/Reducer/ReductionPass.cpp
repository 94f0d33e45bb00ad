//===- ReductionPass.cpp - Greedy reduction by a test program ------------===//
#include "kvc/Reducer/Reducer.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Reducer/Tester.h"

using namespace mlir;
using namespace kvc::reducer;

namespace {

struct ReductionPass : PassWrapper<ReductionPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ReductionPass)

  ReductionPass() = default;
  ReductionPass(const ReductionPass &other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "kvc-reduction"; }
  StringRef getDescription() const override {
    return "makes a module smaller as long as the test program exits with a status other than 0";
  }

  void runOnOperation() override {
    args.assign(testArgs.begin(), testArgs.end());
    tester.setTestScript(test);
    tester.setTestScriptArgs(args);
    if (!isInteresting(getOperation())) {
      getOperation().emitError()
          << "expects a test that exits with a status other than 0 for the input, but got 0 from '" << test << "'";
      return signalPassFailure();
    }
    // A reduction may make room for an earlier one: until none does anything.
    for (bool progress = true; progress;) {
      progress = false;
      for (ArrayRef<Reduction> table : {getReductions(), getTypeReductions()}) {
        for (const Reduction &reduction : table) {
          progress |= reduce(reduction);
        }
      }
    }
  }

private:
  bool isInteresting(ModuleOp module) { return tester.isInteresting(module).first == Tester::Interestingness::True; }

  /// Tries every candidate of a reduction once; returns whether one was kept.
  bool reduce(const Reduction &reduction) {
    bool kept = false;
    for (int64_t index = 0;;) {
      OwningOpRef<ModuleOp> candidate = getOperation().clone();
      if (!reduction.apply(*candidate, index)) {
        return kept;
      }
      if (isValid(*candidate) && !isSame(*candidate, getOperation()) && isInteresting(*candidate)) {
        getOperation().getBodyRegion().takeBody(candidate->getBodyRegion());
        getOperation()->setAttrs(candidate->getOperation()->getAttrDictionary());
        kept = true;
      } else {
        ++index;
      }
    }
  }

  bool isValid(ModuleOp module) {
    ScopedDiagnosticHandler quiet(&getContext(), [](Diagnostic &) { return success(); });
    return succeeded(verify(module));
  }

  static bool isSame(ModuleOp a, ModuleOp b) {
    auto text = [](ModuleOp module) {
      std::string printed;
      llvm::raw_string_ostream stream(printed);
      module.print(stream);
      return printed;
    };
    return text(a) == text(b);
  }

  Option<std::string> test{*this, "test",
                           llvm::cl::desc("program that gets a module's file and exits with a status other "
                                          "than 0 when the module still fails")};
  ListOption<std::string> testArgs{*this, "test-arg", llvm::cl::desc("arguments of the program, before the file")};
  std::vector<std::string> args;
  Tester tester;
};

} // namespace

void kvc::reducer::registerReductionPass() { PassRegistration<ReductionPass>(); }
