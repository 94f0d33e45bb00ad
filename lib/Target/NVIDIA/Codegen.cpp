//===- Codegen.cpp - Kernels to PTX ---------------------------------------===//
#include "Codegen.h"

#include "kvc/Target/LLVM/CodeGeneration.h"
#include "kvc/Target/NVIDIA/Passes.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
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

FailureOr<std::string> nvidia::generateText(ModuleOp module, const Target &target, CodeForm form) {
  return generateTeamCode(module, target, form == CodeForm::LLVM ? form : CodeForm::Assembly, buildNVIDIAPipeline,
                          [](llvm::Module &) {});
}
