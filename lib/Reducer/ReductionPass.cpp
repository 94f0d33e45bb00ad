//===- ReductionPass.cpp - Greedy reduction by a test program ------------===//
#include "kvc/Reducer/Reducer.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/Program.h"

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
    if (test.empty()) {
      getOperation().emitError() << "expects a program as test=, but got none";
      return signalPassFailure();
    }
    if (!llvm::sys::fs::can_execute(test)) {
      getOperation().emitError() << "expects a file that can be executed as the test, but got '" << test << "'";
      return signalPassFailure();
    }
    switch (runTest(getOperation())) {
    case Outcome::Fails:
      break;
    case Outcome::Passes:
      getOperation().emitError()
          << "expects a test that exits with a status other than 0 for the input, but got 0 from '" << test << "'";
      return signalPassFailure();
    case Outcome::NoAnswer:
      getOperation().emitError() << "expects a test that ends within " << unsigned(timeout)
                                 << " s for the input, but got " << StringRef(reason).rtrim(": ") << " from '" << test
                                 << "'";
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
  enum class Outcome { Fails, Passes, NoAnswer };

  /// What the test program says of a module. `reason`: why it gave no answer.
  Outcome runTest(ModuleOp module) {
    int file = -1;
    SmallString<128> path;
    if (std::error_code error = llvm::sys::fs::createTemporaryFile("kvc-reduce", "mlir", file, path)) {
      reason = error.message();
      return Outcome::NoAnswer;
    }
    llvm::FileRemover remover(path);
    {
      llvm::raw_fd_ostream os(file, /*shouldClose=*/true);
      module.print(os);
      os.close();
      if (std::error_code error = os.error()) {
        os.clear_error();
        reason = error.message();
        return Outcome::NoAnswer;
      }
    }
    SmallVector<StringRef> arguments{test};
    arguments.append(testArgs.begin(), testArgs.end());
    arguments.push_back(path);
    bool couldNotRun = false;
    reason.clear();
    int status =
        llvm::sys::ExecuteAndWait(test, arguments, std::nullopt, {}, timeout, /*MemoryLimit=*/0, &reason, &couldNotRun);
    // A negative status without a word of time is a crash of the program, which is a failure like any other.
    if (couldNotRun || StringRef(reason).contains_insensitive("timed out")) {
      return Outcome::NoAnswer;
    }
    return status == 0 ? Outcome::Passes : Outcome::Fails;
  }

  /// Tries every candidate of a reduction once; returns whether one was kept.
  bool reduce(const Reduction &reduction) {
    bool kept = false;
    for (int64_t index = 0;;) {
      OwningOpRef<ModuleOp> candidate = getOperation().clone();
      if (!reduction.apply(*candidate, index)) {
        return kept;
      }
      if (isValid(*candidate) && !isSame(*candidate, getOperation()) && runTest(*candidate) == Outcome::Fails) {
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
  Option<unsigned> timeout{*this, "timeout",
                           llvm::cl::desc("seconds that the program may take; one that takes longer keeps nothing"),
                           llvm::cl::init(300)};
  std::string reason;
};

} // namespace

void kvc::reducer::registerReductionPass() { PassRegistration<ReductionPass>(); }
