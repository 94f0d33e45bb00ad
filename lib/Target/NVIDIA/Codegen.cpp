//===- Codegen.cpp - Kernels to PTX ---------------------------------------===//
#include "Codegen.h"

#include "kvc/Target/LLVM/CodeGeneration.h"
#include "kvc/Target/NVIDIA/Passes.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/CommandLine.h"

#include <mutex>

using namespace mlir;
using namespace kvc;

void nvidia::prepareContext(MLIRContext *context) {
  DialectRegistry registry;
  registerNVVMDialectTranslation(registry);
  prepareCodeGeneration(context, registry, [](OpPassManager &pm) { buildNVIDIAPipeline(pm); });
  // Addresses of shared memory are 32 bits wide: no widening for every copy and matrix load.
  static std::once_flag once;
  std::call_once(once, [] {
    if (llvm::cl::Option *option = llvm::cl::getRegisteredOptions().lookup("nvptx-short-ptr")) {
      static_cast<llvm::cl::opt<bool> *>(option)->setValue(true);
    }
  });
}

/// Pieces of assembly in which lanes exchange words are run by whole warps: no optimisation may give lanes that go
/// different ways copies of their own.
static void keepWarpsTogether(llvm::Module &module) {
  for (llvm::Function &function : module) {
    for (llvm::Instruction &instruction : llvm::instructions(function)) {
      auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction);
      auto *assembly = call ? llvm::dyn_cast<llvm::InlineAsm>(call->getCalledOperand()) : nullptr;
      if (assembly && llvm::StringRef(assembly->getAsmString()).contains("shfl.sync")) {
        call->setConvergent();
      }
    }
  }
}

FailureOr<std::string> nvidia::generateText(ModuleOp module, const Target &target, CodeForm form) {
  return generateTeamCode(module, target, form == CodeForm::LLVM ? form : CodeForm::Assembly, buildNVIDIAPipeline,
                          keepWarpsTogether);
}
