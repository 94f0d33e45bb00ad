//===- Mutant.cpp - An oracle that is broken on purpose -------------------===//
//
// kvc-reference-mutant OPERATION FILE FUNCTION INPUTS OUTPUTS: `kvc-run module --reference --f64 --sequences 3`, but
// results of one kind of operation are off. Comparisons with it must fail: they would not see a broken oracle else.
//
//===----------------------------------------------------------------------===//
#include "Module.h"

#include "kvc/Reference/Reference.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>

using namespace kvc;
using namespace kvc::reference;

namespace {
/// The first finite number of a list becomes another one.
void disturb(std::vector<double> &numbers) {
  for (double &x : numbers) {
    if (std::isfinite(x)) {
      x += 1e-6 * (1 + std::abs(x));
      return;
    }
  }
}

Datum disturbed(const Datum &datum) {
  if (datum.isFloat()) {
    return datum.asFloat() + 1e-6;
  }
  if (datum.isTensor()) {
    Tensor tensor = datum.asTensor();
    disturb(tensor.floats);
    return tensor;
  }
  if (datum.isSelection()) {
    Selection selection = datum.asSelection();
    for (std::vector<int64_t> &list : selection.lists) {
      if (!list.empty()) {
        list.erase(list.begin());
      }
    }
    return selection;
  }
  if (datum.isCache()) {
    // The newest slot of every table is another one.
    Cache cache = datum.asCache();
    for (Table &table : cache.tables) {
      if (!table.slots.empty()) {
        table.slots.back().value[0] += 1;
        table.slots.back().score[0] += 1;
      }
    }
    return cache;
  }
  return datum;
}

class Mutant : public Evaluator {
public:
  explicit Mutant(llvm::StringRef operation) : operation(operation) {}

protected:
  mlir::LogicalResult eval(mlir::Operation *op, llvm::ArrayRef<Datum> operands,
                           llvm::SmallVectorImpl<Datum> &results) override {
    if (failed(Evaluator::eval(op, operands, results))) {
      return mlir::failure();
    }
    if (op->getName().getStringRef() == operation) {
      for (Datum &result : results) {
        result = disturbed(result);
      }
    }
    return mlir::success();
  }

private:
  std::string operation;
};
} // namespace

int main(int argc, char **argv) {
  if (argc != 6) {
    llvm::errs() << "usage: kvc-reference-mutant OPERATION FILE FUNCTION INPUTS OUTPUTS\n";
    return 2;
  }
  auto split = [](llvm::StringRef list) {
    std::vector<std::string> parts;
    for (llvm::StringRef part : llvm::split(list, ',')) {
      parts.push_back(part.str());
    }
    return parts;
  };
  ModuleRun run;
  run.file = argv[2];
  run.function = argv[3];
  run.inputs = split(argv[4]);
  run.outputs = split(argv[5]);
  run.reference = run.wide = true;
  run.sequences = 3;
  Mutant mutant(argv[1]);
  return runModule(run, &mutant) ? 0 : 1;
}
