//===- Codegen.cpp - Kernels to machine code ------------------------------===//
#include "Codegen.h"

#include "kvc/Dialect/Tile/IR/Tile.h"
#include "kvc/Target/CPU/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include <mutex>

using namespace mlir;
using namespace kvc;

void cpu::prepareContext(MLIRContext *context) {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeAllTargetInfos();
    llvm::InitializeAllTargets();
    llvm::InitializeAllTargetMCs();
    llvm::InitializeAllAsmPrinters();
    llvm::InitializeAllAsmParsers();
  });
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  PassManager pm(context);
  buildCPUPipeline(pm, {});
  pm.getDependentDialects(registry);
  context->appendDialectRegistry(registry);
  for (StringRef name : registry.getDialectNames()) {
    context->getOrLoadDialect(name);
  }
}

std::unique_ptr<llvm::TargetMachine> cpu::createTargetMachine(Location location, const Target &target) {
  llvm::Triple triple(target.triple);
  std::string error;
  const llvm::Target *llvmTarget = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!llvmTarget) {
    emitError(location) << "this LLVM has no code generator for " << target.triple << ": " << error;
    return nullptr;
  }
  llvm::TargetOptions options;
  std::unique_ptr<llvm::TargetMachine> machine(llvmTarget->createTargetMachine(triple, target.cpu, target.features,
                                                                               options, llvm::Reloc::PIC_, std::nullopt,
                                                                               llvm::CodeGenOptLevel::Aggressive));
  if (!machine) {
    emitError(location) << "cannot make a code generator for target " << target.name;
  }
  return machine;
}

/// What the target row says about every function; bodies disappear in their wrappers.
static void setAttributes(llvm::Module &module, const Target &target) {
  for (llvm::Function &function : module) {
    if (function.isDeclaration()) {
      continue;
    }
    function.addFnAttr("target-cpu", target.cpu);
    function.addFnAttr("target-features", target.features);
    function.addFnAttr("prefer-vector-width", std::to_string(target.lanes * 32));
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
}

std::unique_ptr<llvm::Module> cpu::createLLVMModule(ModuleOp module, const Target &target, llvm::TargetMachine &machine,
                                                    llvm::LLVMContext &context, uint64_t &scratchBytes) {
  PassManager pm(module.getContext());
  buildCPUPipeline(pm, {});
  if (failed(pm.run(module))) {
    return nullptr;
  }
  scratchBytes = 0;
  module.walk([&](LLVM::LLVMFuncOp function) {
    if (auto bytes = function->getAttrOfType<IntegerAttr>(tile::TileDialect::scratchAttr)) {
      scratchBytes = std::max<uint64_t>(scratchBytes, bytes.getInt());
    }
  });
  std::unique_ptr<llvm::Module> result = translateModuleToLLVMIR(module, context, "kernels");
  if (!result) {
    return nullptr;
  }
  result->setTargetTriple(machine.getTargetTriple());
  result->setDataLayout(machine.createDataLayout());
  setAttributes(*result, target);

  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = true;
  tuning.SLPVectorization = true;
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
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(*result, modules);
  return result;
}

FailureOr<std::string> cpu::generateCode(Location location, llvm::Module &module, llvm::TargetMachine &machine,
                                         bool assembly) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream os(bytes);
  llvm::legacy::PassManager pm;
  auto kind = assembly ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile;
  if (machine.addPassesToEmitFile(pm, os, nullptr, kind)) {
    return emitError(location) << "the code generator of " << machine.getTargetTriple().str()
                               << " cannot write this kind of file";
  }
  pm.run(module);
  if (!assembly) {
    // A kernel may call what every process has, and nothing else.
    static constexpr llvm::StringLiteral allowed[] = {"memcpy", "memmove", "memset", "_GLOBAL_OFFSET_TABLE_"};
    auto object = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(os.str(), "kernels"));
    if (!object) {
      return emitError(location) << "the code generator wrote an object that cannot be read: "
                                 << llvm::toString(object.takeError());
    }
    for (const llvm::object::SymbolRef &symbol : (*object)->symbols()) {
      auto flags = symbol.getFlags();
      auto name = symbol.getName();
      if (flags && name && (*flags & llvm::object::SymbolRef::SF_Undefined) && !name->empty() &&
          !llvm::is_contained(allowed, *name)) {
        return emitError(location) << "the kernel calls '" << *name << "', which no device provides";
      }
      llvm::consumeError(flags.takeError());
      llvm::consumeError(name.takeError());
    }
  }
  return std::string(bytes.begin(), bytes.end());
}

FailureOr<std::string> cpu::link(Location location, ArrayRef<std::string> objects, bool shared) {
  auto fail = [&](const llvm::Twine &message) { return FailureOr<std::string>(emitError(location) << message); };
  llvm::ErrorOr<std::string> linker = std::make_error_code(std::errc::no_such_file_or_directory);
  for (auto [name, folders] :
       {std::pair<StringRef, StringRef>{"ld.lld", KVC_LLVM_TOOLS}, {"ld.lld-22", ""}, {"ld.lld", ""}}) {
    linker = folders.empty() ? llvm::sys::findProgramByName(name) : llvm::sys::findProgramByName(name, {folders});
    if (linker) {
      break;
    }
  }
  if (!linker) {
    return fail("expects the linker ld.lld in " KVC_LLVM_TOOLS " or in PATH, but found none");
  }
  llvm::SmallString<128> folder;
  if (std::error_code error = llvm::sys::fs::createUniqueDirectory("kvc-link", folder)) {
    return fail("cannot make a temporary folder: " + error.message());
  }
  std::vector<std::unique_ptr<llvm::FileRemover>> removers;
  auto file = [&](const llvm::Twine &name) {
    std::string path = (folder + "/" + name).str();
    removers.push_back(std::make_unique<llvm::FileRemover>(path));
    return path;
  };
  // The folder goes when all files in it are gone.
  struct FolderRemover {
    StringRef folder;
    std::vector<std::unique_ptr<llvm::FileRemover>> &removers;
    ~FolderRemover() {
      removers.clear();
      (void)llvm::sys::fs::remove(folder);
    }
  } remover{folder, removers};

  std::string output = file("kernels.so"), errors = file("errors.txt");
  std::vector<std::string> arguments{*linker, "-o", output};
  if (shared) {
    arguments.insert(arguments.end(), {"-shared", "-z", "now", "-z", "noexecstack", "--hash-style=gnu",
                                       "--build-id=none", "--threads=1"});
  } else {
    arguments.push_back("-r");
  }
  for (auto [i, object] : llvm::enumerate(objects)) {
    std::string path = file(llvm::Twine(i) + ".o");
    std::error_code error;
    llvm::raw_fd_ostream os(path, error);
    if (!error) {
      os << object;
      os.close();
      error = os.error();
    }
    if (error) {
      os.clear_error();
      return fail("cannot write '" + path + "': " + error.message());
    }
    arguments.push_back(path);
  }
  std::vector<StringRef> refs(arguments.begin(), arguments.end());
  std::string message;
  int code = llvm::sys::ExecuteAndWait(*linker, refs, std::nullopt, {StringRef(), StringRef(), StringRef(errors)}, 0, 0,
                                       &message);
  if (code != 0) {
    if (auto text = llvm::MemoryBuffer::getFile(errors)) {
      message += (*text)->getBuffer().str();
    }
    return fail("ld.lld failed: " + message);
  }
  auto linked = llvm::MemoryBuffer::getFile(output);
  if (!linked) {
    return fail("cannot read what ld.lld wrote: " + linked.getError().message());
  }
  return (*linked)->getBuffer().str();
}
