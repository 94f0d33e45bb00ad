//===- CodeGeneration.cpp - Modules of the LLVM dialect to code -----------===//
#include "kvc/Target/LLVM/CodeGeneration.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include <mutex>

using namespace mlir;
using namespace kvc;

void kvc::prepareCodeGeneration(MLIRContext *context, DialectRegistry &registry,
                                llvm::function_ref<void(OpPassManager &)> pipeline) {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeAllTargetInfos();
    llvm::InitializeAllTargets();
    llvm::InitializeAllTargetMCs();
    llvm::InitializeAllAsmPrinters();
    llvm::InitializeAllAsmParsers();
  });
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  PassManager pm(context);
  pipeline(pm);
  pm.getDependentDialects(registry);
  context->appendDialectRegistry(registry);
  for (StringRef name : registry.getDialectNames()) {
    context->getOrLoadDialect(name);
  }
}

std::unique_ptr<llvm::TargetMachine> kvc::createTargetMachine(Location location, const Target &target,
                                                              const llvm::TargetOptions &options,
                                                              std::optional<llvm::Reloc::Model> relocation) {
  llvm::Triple triple(target.triple);
  std::string error;
  const llvm::Target *llvmTarget = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!llvmTarget) {
    emitError(location) << "this LLVM has no code generator for " << target.triple << ": " << error;
    return nullptr;
  }
  std::unique_ptr<llvm::TargetMachine> machine(llvmTarget->createTargetMachine(
      triple, target.cpu, target.features, options, relocation, std::nullopt, llvm::CodeGenOptLevel::Aggressive));
  if (!machine) {
    emitError(location) << "cannot make a code generator for target " << target.name;
  }
  return machine;
}

std::unique_ptr<llvm::Module> kvc::translateKernels(ModuleOp module, llvm::TargetMachine &machine,
                                                    llvm::LLVMContext &context) {
  std::unique_ptr<llvm::Module> result = translateModuleToLLVMIR(module, context, "kernels");
  if (!result) {
    return nullptr;
  }
  result->setTargetTriple(machine.getTargetTriple());
  result->setDataLayout(machine.createDataLayout());
  for (llvm::Function &function : *result) {
    if (function.isDeclaration()) {
      continue;
    }
    function.addFnAttr(llvm::Attribute::NoUnwind);
    if (!function.getName().ends_with(".body")) {
      continue;
    }
    function.setLinkage(llvm::GlobalValue::InternalLinkage);
    function.addFnAttr(llvm::Attribute::AlwaysInline);
    for (llvm::Argument &argument : function.args()) {
      if (argument.getType()->isPointerTy()) {
        argument.addAttr(llvm::Attribute::NoAlias);
      }
    }
  }
  return result;
}

void kvc::optimise(llvm::Module &module, llvm::TargetMachine &machine, const llvm::PipelineTuningOptions &tuning) {
  llvm::PassBuilder builder(&machine, tuning);
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

FailureOr<std::string> kvc::emitFile(Location location, llvm::Module &module, llvm::TargetMachine &machine,
                                     llvm::CodeGenFileType kind) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream os(bytes);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, os, nullptr, kind)) {
    return emitError(location) << "the code generator of " << machine.getTargetTriple().str()
                               << " cannot write this kind of file";
  }
  passes.run(module);
  return std::string(bytes.begin(), bytes.end());
}
