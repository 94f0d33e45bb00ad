//===- Kernels.cpp - Merging and isolating kernels ------------------------===//
#include "kvc/Dialect/Tile/Transforms/Passes.h"

#include "kvc/Dialect/Tile/IR/Kernels.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/StringMap.h"

namespace kvc {
#define GEN_PASS_DEF_DEDUPLICATEKERNELSPASS
#define GEN_PASS_DEF_ISOLATEKERNELSPASS
#include "kvc/Dialect/Tile/Transforms/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {
struct DeduplicateKernelsPass : kvc::impl::DeduplicateKernelsPassBase<DeduplicateKernelsPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    llvm::StringMap<StringAttr> byText;
    DenseMap<StringAttr, StringAttr> replacement;
    for (func::FuncOp kernel : tile::kernelsOf(module)) {
      auto [first, isNew] = byText.try_emplace(textWithoutName(kernel), kernel.getSymNameAttr());
      if (!isNew) {
        replacement[kernel.getSymNameAttr()] = first->second;
        kernel.erase();
      }
    }
    DenseSet<StringAttr> used;
    module.walk([&](tile::DispatchOp dispatch) {
      if (StringAttr other = replacement.lookup(dispatch.getKernelAttr().getAttr())) {
        dispatch.setKernelAttr(FlatSymbolRefAttr::get(other));
      }
      used.insert(dispatch.getKernelAttr().getAttr());
    });
    for (func::FuncOp kernel : tile::kernelsOf(module)) {
      if (kernel.isPrivate() && !used.contains(kernel.getSymNameAttr())) {
        kernel.erase();
      }
    }
  }

  static std::string textWithoutName(func::FuncOp kernel) {
    StringAttr name = kernel.getSymNameAttr();
    kernel.setSymName("");
    std::string text;
    llvm::raw_string_ostream os(text);
    kernel->print(os, OpPrintingFlags().printGenericOpForm().useLocalScope());
    kernel.setSymName(name);
    return text;
  }
};

struct IsolateKernelsPass : kvc::impl::IsolateKernelsPassBase<IsolateKernelsPass> {
  void runOnOperation() override {
    for (func::FuncOp function : tile::hostFunctionsOf(getOperation())) {
      function.erase();
    }
  }
};
} // namespace
