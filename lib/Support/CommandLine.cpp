//===- CommandLine.cpp - Tools with LLVM's command line -------------------===//
#include "kvc/Support/CommandLine.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/CommandLine.h"

using namespace llvm;

void kvc::hideLibraryOptions() {
  static constexpr StringLiteral everyTools[] = {"help", "help-list", "version", "color"};
  for (auto &entry : cl::getRegisteredOptions()) {
    if (!is_contained(everyTools, entry.first)) {
      entry.second->setHiddenFlag(cl::Hidden);
    }
  }
}
