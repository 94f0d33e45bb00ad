//===- Codegen.cpp - Kernels to PTX ---------------------------------------===//
#include "Codegen.h"

#include "kvc/Target/LLVM/CodeGeneration.h"
#include "kvc/Target/NVIDIA/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Target/TargetMachine.h"

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
  PassManager pm(module.getContext());
  buildNVIDIAPipeline(pm);
  if (failed(pm.run(module))) {
    return failure();
  }
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Fast;
  std::unique_ptr<llvm::TargetMachine> machine = createTargetMachine(module.getLoc(), target, options, std::nullopt);
  if (!machine) {
    return failure();
  }
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> code = translateKernels(module, *machine, context);
  if (!code) {
    return failure();
  }
  optimise(*code, *machine, {});
  if (form != CodeForm::LLVM) {
    return emitFile(module.getLoc(), *code, *machine, llvm::CodeGenFileType::AssemblyFile);
  }
  std::string text;
  llvm::raw_string_ostream os(text);
  code->print(os, nullptr);
  return text;
}
