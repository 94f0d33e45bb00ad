//===- Codegen.cpp - Kernels to PTX ---------------------------------------===//
#include "Codegen.h"

#include "kvc/Target/NVIDIA/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include <mutex>

using namespace mlir;
using namespace kvc;

void nvidia::prepareContext(MLIRContext *context) {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeAllTargetInfos();
    llvm::InitializeAllTargets();
    llvm::InitializeAllTargetMCs();
    llvm::InitializeAllAsmPrinters();
    // Addresses of shared memory are 32 bits wide: no widening for every copy and matrix load.
    if (llvm::cl::Option *option = llvm::cl::getRegisteredOptions().lookup("nvptx-short-ptr")) {
      static_cast<llvm::cl::opt<bool> *>(option)->setValue(true);
    }
  });
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
  PassManager pm(context);
  buildNVIDIAPipeline(pm);
  pm.getDependentDialects(registry);
  context->appendDialectRegistry(registry);
  for (StringRef name : registry.getDialectNames()) {
    context->getOrLoadDialect(name);
  }
}

static std::unique_ptr<llvm::TargetMachine> createTargetMachine(Location location, const Target &target) {
  llvm::Triple triple(target.triple);
  std::string error;
  const llvm::Target *llvmTarget = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!llvmTarget) {
    emitError(location) << "this LLVM has no code generator for " << target.triple << ": " << error;
    return nullptr;
  }
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Fast;
  std::unique_ptr<llvm::TargetMachine> machine(llvmTarget->createTargetMachine(
      triple, target.cpu, target.features, options, std::nullopt, std::nullopt, llvm::CodeGenOptLevel::Aggressive));
  if (!machine) {
    emitError(location) << "cannot make a code generator for target " << target.name;
  }
  return machine;
}

static void optimise(llvm::Module &module, llvm::TargetMachine &machine) {
  for (llvm::Function &function : module) {
    if (function.isDeclaration()) {
      continue;
    }
    function.addFnAttr(llvm::Attribute::NoUnwind);
    if (function.getName().ends_with(".body")) {
      function.setLinkage(llvm::GlobalValue::InternalLinkage);
      function.addFnAttr(llvm::Attribute::AlwaysInline);
      // What a kernel writes overlaps none of its other operands (docs/contracts/kernel-abi.md).
      for (llvm::Argument &argument : function.args()) {
        if (argument.getType()->isPointerTy()) {
          argument.addAttr(llvm::Attribute::NoAlias);
        }
      }
    }
  }
  llvm::PassBuilder builder(&machine);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(module, modules);
}

FailureOr<std::string> nvidia::generateText(ModuleOp module, const Target &target, CodeForm form) {
  PassManager pm(module.getContext());
  buildNVIDIAPipeline(pm);
  if (failed(pm.run(module))) {
    return failure();
  }
  std::unique_ptr<llvm::TargetMachine> machine = createTargetMachine(module.getLoc(), target);
  if (!machine) {
    return failure();
  }
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> code = translateModuleToLLVMIR(module, context, "kernels");
  if (!code) {
    return failure();
  }
  code->setTargetTriple(machine->getTargetTriple());
  code->setDataLayout(machine->createDataLayout());
  optimise(*code, *machine);
  std::string text;
  if (form == CodeForm::LLVM) {
    llvm::raw_string_ostream os(text);
    code->print(os, nullptr);
    return text;
  }
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream os(bytes);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, os, nullptr, llvm::CodeGenFileType::AssemblyFile)) {
    return emitError(module.getLoc()) << "the code generator of " << target.triple << " cannot write assembly";
  }
  passes.run(*code);
  return std::string(bytes.begin(), bytes.end());
}
